"""The page of the service, in a real browser: it shows context at work, and keeps to itself."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import setwise as sw

PAGE = Path(sw.__file__).parent / "server" / "page"
OWN = sorted(path for path in PAGE.glob("*.*"))
CHROMIUM = next(
    filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None
)
FAILED = "Failed to load resource"  # what the browser itself says of an answer that is an error
DESK = {"width": 1280, "height": 1500}


# The files


def test_files_are_short():
    assert {path.name for path in OWN if len(path.read_text("utf-8").splitlines()) >= 300} == set()


def test_nothing_is_inline_and_nothing_comes_from_elsewhere():
    page = (PAGE / "index.html").read_text("utf-8")
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|javascript:", page) == []
    addresses = [found for path in OWN for found in re.findall(r"(?:https?:)?//[a-z][\w.-]+\.\w+",
                 re.sub(r"(?m)(?<!:)// .*$", "", path.read_text("utf-8")))]  # fmt: skip
    assert set(addresses) <= {"http://www.w3.org"}  # the name of SVG, which is not fetched


def test_every_file_that_is_named_is_there():
    text = {path.name: path.read_text("utf-8") for path in OWN}
    wanted = re.findall(r'(?:href|src)="page/([^"]+)"', text["index.html"])
    for name, code in text.items():
        if name.endswith(".js"):
            wanted += re.findall(r'from "\./([^"]+)"', code)
    assert [name for name in wanted if not (PAGE / name).is_file()] == []
    unused = {path.name for path in OWN} - set(wanted) - {"index.html"}
    assert unused == set()


def test_every_element_that_is_asked_for_is_in_the_page():
    here = set(re.findall(r'\bid="([^"]+)"', (PAGE / "index.html").read_text("utf-8")))
    code = "\n".join(path.read_text("utf-8") for path in OWN if path.suffix == ".js")
    asked = set(re.findall(r'(?:\belement|[^.]\bon|\boptions)\("([\w-]+)"', code))
    assert asked
    assert asked - here == set()


def test_third_party_code_is_what_it_says():
    listed = (PAGE / "vendor" / "THIRD_PARTY.md").read_text("utf-8")
    rows = re.findall(
        r"^\| `([^`]+)` \|.*\| ([\d.]+) \| .*`([^`]+)` \| `(\w{64})` \|$", listed, re.MULTILINE
    )
    assert {row[0] for row in rows} == {path.name for path in (PAGE / "vendor").glob("*.js")}
    for name, version, licence, checksum in rows:
        content = (PAGE / "vendor" / name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == checksum
        assert f"v{version} ".encode() in content[:100]
        assert (PAGE / "vendor" / licence).is_file()


# The service and the browser


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Hotels, some of which are decoys: an SDA that learned it, with its sample and an MNL."""
    drawn = sw.datasets.generate("decoy", sets=1000, attraction=2.0).columns
    hotels = {
        "search": drawn["set_id"],
        "booked": drawn["chosen"],
        "price": np.round(140 - 16 * (drawn["x2"] - 5)),
        "rating": np.round(7.5 + 0.22 * (drawn["x1"] - 5), 2),
    }
    choices = sw.read(hotels, set="search", chosen="booked")
    sda = sw.SDA.paper(dimension=4).set_params(training=sw.Training(epochs=5)).fit(choices)
    path = tmp_path_factory.mktemp("page") / "hotels.setwise"
    sda.save(path, sample=choices, reference=sw.estimators.reference_mnl(sda, choices))
    return path


@pytest.fixture(scope="module")
def service(model):
    """The address of a running ``setwise serve``."""
    command = [sys.executable, "-m", "setwise", "serve", str(model), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines: list[str] = []
        found = None
        while found is None:
            lines.append(process.stderr.readline())
            assert lines[-1], "".join(lines)
            found = re.search(r"http://[\w.:]+", lines[-1])
        yield found[0]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)


def ask(service, path, body):
    request = urllib.request.Request(
        f"{service}/v1/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


@pytest.fixture(scope="module")
def about(service):
    with urllib.request.urlopen(f"{service}/v1/model") as answer:
        return json.load(answer)


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    options = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium refuses root with it
    with playwright.sync_playwright() as play:
        running = play.chromium.launch(executable_path=CHROMIUM, args=options)
        yield running
        running.close()


class Watch:
    """What pages say and whom they ask: no error may come, and no other host may be asked."""

    def __init__(self, service):
        self.host = service.removeprefix("http://")
        self.errors, self.hosts, self.expected = [], set(), set()

    def over(self, page):
        page.set_default_timeout(30_000)
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda asked: self.hosts.add(asked.url.split("/")[2]))

    def _said(self, message):
        if message.type in ("error", "warning"):
            self.errors.append(message.text)

    def check(self):
        strange = [text for text in self.errors if not text.startswith(tuple(self.expected))]
        self.errors, self.expected = [], set()
        assert strange == []
        assert self.hosts == {self.host}


@pytest.fixture(scope="module")
def watch(service):
    return Watch(service)


@pytest.fixture
def visit(browser, service, watch):
    """Opens a page of its own, with answers of the service replaced by a route."""
    contexts = []

    def opened(address="", route=None):
        contexts.append(browser.new_context(viewport=DESK))
        page = contexts[-1].new_page()
        watch.over(page)
        if route is not None:
            route(page)
        page.goto(f"{service}/{address}")
        return page

    yield opened
    for context in contexts:
        context.close()
    watch.check()


@pytest.fixture(scope="module")
def open_page(browser, service, watch):
    page = browser.new_page(viewport=DESK)
    watch.over(page)
    page.goto(service)
    yield page
    page.close()


@pytest.fixture
def page(open_page, watch):
    """A page that stays open from test to test, at its first example."""
    open_page.set_viewport_size(DESK)
    open_page.select_option("#example", "1")
    open_page.select_option("#example", "0")
    yield ready(open_page)
    open_page.unroute_all()
    watch.check()


def ready(page):
    """The page, when it shows what the service says about the set it shows."""
    page.wait_for_selector("#main[aria-busy=false] .track[data-share]")
    return page


def shares(page, model, of="share"):
    """By item, what the bars of a model show."""
    tracks = page.eval_on_selector_all(
        f".item .track[data-model={model}]",
        f"tracks => tracks.map(one => [one.closest('li').dataset.item, one.dataset.{of}])",
    )
    return {item: float(share) for item, share in tracks if share is not None}


def both(page, of="share"):
    return shares(page, "set", of), shares(page, "mnl", of)


def log_odds(of, one, other):
    return np.log(of[one] / of[other])


def with_price(about, price):
    """The items of the first example, with another price of the first."""
    first, *others = about["samples"][0]["items"]
    return [first | {"price": price}, *others]


# What the page shows


def test_the_bars_show_what_the_service_says(page, service, about):
    known = ask(service, "predict", {"sets": about["samples"][:1], "reference": True})["sets"][0]
    assert list(shares(page, "set").values()) == known["probabilities"]
    assert list(shares(page, "mnl").values()) == known["mnl"]
    assert both(page, "allowed") == ({}, {})  # nothing has changed yet


def test_an_edited_price_moves_all_bars(page, service, about):
    bar = page.locator("li[data-item=A] .track[data-model=mnl] .bar")
    before, width = both(page), bar.evaluate("bar => bar.style.width")
    page.fill("#item-price", "20")
    ready(page)
    known = ask(service, "predict", {"items": with_price(about, 20), "reference": True})["sets"][0]
    assert list(shares(page, "set").values()) == known["probabilities"]
    assert list(shares(page, "mnl").values()) == known["mnl"]
    assert all(
        now[item] != old[item]
        for now, old in zip(both(page), before, strict=True)
        for item in "ABC"
    )
    assert bar.evaluate("bar => bar.style.width") != width
    slider = page.locator(".field[data-column=price] input[type=range]")
    assert slider.input_value() == "20"
    slider.focus()
    page.keyboard.press("ArrowRight")
    assert page.input_value("#item-price") == "21"
    assert list(shares(ready(page), "set").values()) != known["probabilities"]


def telling(service, about):
    """The example, and the item of it, whose removal breaks IIA most."""
    found = []
    for number, sample in enumerate(about["samples"]):
        answer = ask(service, "explain", {"items": sample["items"]})
        for item, row in enumerate(answer["influence"]):
            found.append((max(abs(one) for one in row if one is not None), number, item))
    return max(found)[1:]


def test_a_removal_breaks_iia_for_sda_and_not_for_mnl(page, service, about):
    number, place = telling(service, about)
    page.select_option("#example", str(number))
    ready(page)
    gone = "ABC"[place]
    one, other = (name for name in "ABC" if name != gone)
    before = both(page)
    page.click(f"li[data-item={gone}] .remove")
    after = both(ready(page))
    assert set(after[0]) == set(after[1]) == {one, other}
    sda, mnl = (log_odds(new, one, other) - log_odds(old, one, other)
                for new, old in zip(after, before, strict=True))  # fmt: skip
    assert abs(sda) > 0.2
    assert abs(mnl) < 1e-5
    for old, allowed in zip(before, both(page, "allowed"), strict=True):
        known = {name: old[name] / (1 - old[gone]) for name in (one, other)}
        assert allowed == pytest.approx(known, abs=1e-6)
    verdict = page.inner_text("#verdict")
    assert verdict.startswith(f"{gone} removed. IIA would keep")
    assert "MNL keeps its" in verdict
    page.click(f"li[data-item={gone}] .remove")  # which restores it
    assert both(ready(page)) == before


def test_a_shared_address_shows_the_same_elsewhere(page, visit):
    page.select_option("#example", "2")
    page.click("li[data-item=B] .remove")
    page.click("li[data-item=C] .pick")
    page.fill("#item-rating", "8.1")
    page.click("#add-item")
    page.locator("[name=heated][value=mnl]").check(force=True)
    ready(page)
    page.wait_for_timeout(400)  # the address waits until all has come to rest
    assert "#1." in page.url
    again = visit(page.url.rpartition("/")[2])
    for turn in ("in another browser", "after a reload"):
        if turn == "after a reload":
            again.reload()
        assert both(ready(again)) == both(page), turn
        assert both(again, "allowed") == both(page, "allowed")
        for seen in ("#verdict", "#editor-title", "#items"):
            assert again.inner_text(seen) == page.inner_text(seen)
        assert again.locator("[name=heated][value=mnl]").is_checked()


def test_a_broken_address_is_said_and_the_beginning_shown(page, service):
    first = both(page)
    for address, says in {
        "#1.eyJjIjpb": "cut off or altered",
        "#1.e30": "other columns",
        "#1.bnVsbA": "cut off or altered",
        "#9.e30": "another version",
        "#1.%ff": "cut off or altered",
    }.items():
        page.click("li[data-item=A] .remove")
        page.goto(f"{service}/{address}")
        page.wait_for_selector("#notice:not([hidden])")
        assert says in page.inner_text("#notice-text")
        assert both(ready(page)) == first
        page.click("#notice-action")


def test_undo_redo_and_reset(page):
    before = both(page)
    page.fill("#item-price", "90")
    edited = both(ready(page))
    page.click("li[data-item=B] .remove")
    page.locator("h1").click()
    page.keyboard.press("Control+z")
    assert both(ready(page)) == edited
    page.click("#undo")
    assert both(ready(page)) == before
    page.click("#redo")
    assert both(ready(page)) == edited
    page.click("#reset")
    assert both(ready(page)) == before
    assert page.input_value("#item-price") != "90"
    assert page.is_disabled("#reset")


def test_a_reference_taken_anew_moves_the_ticks(page):
    page.click("li[data-item=C] .remove")
    ready(page)
    page.click("#pin")
    assert both(ready(page), "allowed") == ({}, {})
    before = shares(page, "set")
    page.click("#add-item")  # a copy of A: A and B are left alone
    now, allowed = shares(ready(page), "set"), shares(page, "set", "allowed")
    share = (now["A"] + now["B"]) / (before["A"] + before["B"])
    assert allowed == pytest.approx({name: share * before[name] for name in "AB"})


def test_a_decoy_follows_the_mouse_and_the_keys(page):
    handle, text = page.locator(".handle"), "aria-valuetext"
    name = handle.get_attribute("aria-label").split()[-1]
    before, at = both(page), handle.get_attribute(text)
    box = handle.locator(".reach").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + (60 if x < 400 else -60), y, steps=4)
    page.mouse.up()
    dragged = handle.get_attribute(text)
    assert dragged.split(", ")[0] != at.split(", ")[0]
    after = both(ready(page))
    assert all(
        now[item] != old[item] for now, old in zip(after, before, strict=True) for item in "ABC"
    )
    shown = page.locator(".marks text.percent").all_text_contents()
    assert sorted(shown) == sorted(f"{100 * share:.1f}\u00a0%" for share in after[0].values())
    handle.focus()
    page.keyboard.press("ArrowRight" if x >= 400 else "ArrowLeft")
    assert handle.get_attribute(text) != dragged
    assert page.inner_text(f"li[data-item={name}] .tag") == "changed"
    page.click("#undo")
    assert handle.get_attribute(text) == dragged


def test_the_map_is_blank_for_mnl_only(page):
    page.wait_for_selector(".background path", state="attached")
    page.locator("[name=mapped][value=mnl]").check(force=True)
    assert page.locator(".background path").count() == 0
    page.select_option("#quantity", "share")
    assert page.locator(".background path").count() > 0


def test_the_heat_map_is_what_the_explanation_says(page, service, about):
    cells = page.locator("#heat td:not(.none)")

    def values():
        return [
            float(one) for one in cells.evaluate_all("all => all.map(one => one.dataset.value)")
        ]

    answer = ask(service, "explain", {"items": about["samples"][0]["items"], "reference": True})
    pairs = [(i, j) for i in range(3) for j in range(3) if i != j]
    known = [answer["iia"][i][j] - answer["without"][i][j] for i, j in pairs]
    with page.expect_response("**/v1/explain"):
        page.click("li[data-item=A] .remove")
        page.click("#undo")
    page.wait_for_selector(f"#heat td[data-value='{known[0]}']")
    assert values() == known
    page.locator("[name=heated][value=mnl]").check(force=True)
    assert values() == pytest.approx([0] * 6, abs=1e-5)
    assert set(cells.all_inner_texts()) == {"0.0"}


def test_a_bad_value_is_said_at_its_field(page, watch):
    watch.expected.add(FAILED)
    complaint = page.locator(".field[data-column=price] .complaint")
    page.fill("#item-price", "dear")
    assert "not a number" in complaint.inner_text()
    page.fill("#item-price", "1e300")  # which only the service can judge
    page.wait_for_selector("#items.stale")
    assert "too far from the training data" in complaint.inner_text()
    assert page.get_attribute("#item-price", "aria-invalid") == "true"
    assert not page.is_visible("#notice")
    page.fill("#item-price", "100")
    page.wait_for_selector("#items:not(.stale)")
    assert complaint.inner_text() == ""


# Arithmetic, by hand


def test_what_iia_allows_by_hand(page):
    found = page.evaluate("""async () => {
      const { allowed, furthest } = await import("/page/iia.js");
      const before = new Map([["A", 0.5], ["B", 0.2], ["C", 0.3]]);
      const gone = allowed(before, new Map([["A", 0.6], ["B", 0.4]]), ["A", "B"]);
      const moved = new Map([["A", 0.5], ["B", 0.3], ["C", 0.2]]);
      return {
        gone: Object.fromEntries(gone),
        changed: Object.fromEntries(allowed(before, moved, ["A", "B"])),
        one: allowed(before, moved, ["A"]).size,
        ends: furthest(moved, new Map([["A", 0.6], ["B", 0.2]])),
      };
    }""")
    assert found["gone"] == pytest.approx({"A": 5 / 7, "B": 2 / 7})
    assert found["changed"] == pytest.approx({"A": 0.8 * 5 / 7, "B": 0.8 * 2 / 7})
    assert found["one"] == 0
    assert found["ends"] == {"up": "B", "down": "A", "gap": pytest.approx(0.1)}


def test_the_field_of_the_map_by_hand(page):
    """C takes all at the last place: what is left to A and B is told apart all the same."""
    found = page.evaluate("""async () => {
      const { fieldOf } = await import("/page/field.js");
      const shares = [[0.6, 0.4], [0.5, 0.25, 0.25], [1e-9, 3e-9, 1]];
      const sets = shares.map((probabilities) => ({ probabilities }));
      return fieldOf({ sets }, { items: ["A", "B", "C"], decoy: "C", focal: "A" }).set;
    }""")
    assert found["share"] == [0.5, 1e-9]
    assert found["beyond"] == pytest.approx([0.5 / 0.75 - 0.6, 0.25 - 0.6])


def test_words_and_numbers(page):
    found = page.evaluate("""async () => {
      const numbers = await import("/page/numbers.js");
      const { letter } = await import("/page/state.js");
      return [numbers.percent(0.4231), numbers.points(0.0813), numbers.points(-0.0813),
        numbers.points(-1e-9), numbers.ratio(0.31, 0.25), numbers.ratio(0.25, 0.31),
        numbers.snapped(0.30000004, 0.1), ...[0, 25, 26, 701, 702].map(letter)];
    }""")
    assert found == [
        "42.3\u00a0%", "+8.1", "\u22128.1", "0.0", "1.24\u00a0:\u00a01", "1\u00a0:\u00a01.24", 0.3,
        "A", "Z", "AA", "ZZ", "AAA",
    ]  # fmt: skip


# Other models, and a service in trouble


def changed(pattern, change):
    """Lets the service answer, and changes the answer."""

    def handle(route):
        answer = route.fetch()
        route.fulfill(response=answer, json=change(answer.json()))

    return lambda page: page.route(pattern, handle)


def test_without_an_mnl_there_is_one_bar_and_without_a_sample_a_set_to_fill(visit, about):
    def bare(page):
        changed("**/v1/model", lambda model: model | {"reference": False, "samples": []})(page)
        changed(
            "**/v1/predict",
            lambda answer: {
                "sets": [{"probabilities": one["probabilities"]} for one in answer["sets"]]
            },
        )(page)

    page = ready(visit(route=bare))
    assert "#" not in page.url  # an address appears with the first change
    assert page.is_disabled("#undo")
    assert shares(page, "mnl") == {}
    assert list(shares(page, "set").values()) == pytest.approx([0.5, 0.5])
    for part in ("header", ".set-card", ".map-card"):
        assert "MNL" not in page.inner_text(part)
    middle = (about["columns"][0]["min"] + about["columns"][0]["max"]) / 2
    assert abs(float(page.input_value("#item-price")) - middle) <= 0.5
    assert not page.is_visible("#example")
    page.click("#add-item")
    assert len(shares(ready(page), "set")) == 3


CATALOGUE = {
    "estimator": "Nested", "version": "1", "file": "m.setwise", "checksum": "sha256:ab",
    "reference": False, "outside": True, "limits": {"max_sets": 100},
    "columns": [
        {"name": "brand", "role": "item", "kind": "category", "levels": ["Ibis", "Ritz"],
         "missing": True},
        {"name": "since", "role": "item", "kind": "date"},
        {"name": "name", "role": "item", "kind": "category", "levels": ["x"], "other": True},
        {"name": "nights", "role": "context", "kind": "number", "min": 1, "max": 9, "step": 1},
    ],
    "samples": [{"items": [{"brand": "Ritz", "since": "1898-06-01", "name": "y"}] * 2,
                 "context": {"nights": 2}, "chosen": None}],
}  # fmt: skip


def catalogue(page):
    """A model with an outside option, which half choose, a context, and too few numbers to map."""

    def predict(route):
        sizes = [len(one["items"]) for one in route.request.post_data_json["sets"]]
        answers = [{"probabilities": [0.5 / n] * n, "choice": None, "outside": 0.5} for n in sizes]
        route.fulfill(json={"sets": answers})

    explained = {"probabilities": [0.25] * 2, "without": [[None, 0.5], [0.5, None]],
                 "iia": [[None, 0.4], [0.4, None]]}  # fmt: skip
    page.route("**/v1/model", lambda route: route.fulfill(json=CATALOGUE))
    page.route("**/v1/predict", predict)
    page.route("**/v1/explain", lambda route: route.fulfill(json=explained))


def test_an_outside_option_a_context_categories_and_dates(visit):
    page = ready(visit(route=catalogue))
    assert shares(page, "set") == {"A": 0.25, "B": 0.25, "outside": 0.5}
    assert not page.is_visible("li[data-item=outside] .remove")
    assert page.inner_text("li[data-item=outside] .tag") == "chosen in the data"
    assert page.locator("#item-brand option").all_inner_texts() == ["Ibis", "Ritz", "missing"]
    assert page.input_value("#item-since") == "1898-06-01"
    assert page.input_value("#item-name") == "y"  # a level that no one has seen
    assert "needs two columns of numbers" in page.inner_text("#map-text")
    page.select_option("#item-brand", "missing")
    assert "missing" in ready(page).inner_text("li[data-item=A] .values")
    page.click("li[data-item=A] .remove")
    # B had a third of what B and the outside option share, and IIA says that it keeps it.
    allowed = {"B": 1 / 3, "outside": 2 / 3}
    assert shares(ready(page), "set", "allowed") == pytest.approx(allowed)
    assert page.is_disabled("li[data-item=B] .remove")  # the last one
    page.click("li[data-item=A] .remove")
    page.fill("#context-nights", "5")
    assert "IIA says nothing about that" in ready(page).inner_text("#verdict")
    assert shares(page, "set", "allowed") == {}


def test_a_service_with_a_token_asks_for_it(visit, watch):
    def guarded(page):
        def handle(route):
            if route.request.headers.get("authorization") == "Bearer secret":
                route.continue_()
            else:
                route.fulfill(status=401, json={"error": {"message": "give the token"}})

        page.route("**/v1/**", handle)

    watch.expected.add(FAILED)
    page = visit(route=guarded)
    page.fill("#token", "guess")
    page.keyboard.press("Enter")
    page.wait_for_selector("#notice:not([hidden])")
    assert "does not know this token" in page.inner_text("#notice-text")
    page.fill("#token", "secret")
    page.keyboard.press("Enter")
    assert len(shares(ready(page), "set")) == 3
    assert not page.is_visible("#token-form")
    assert page.evaluate("[localStorage.length, document.cookie]") == [0, ""]
    page.reload()
    assert len(shares(ready(page), "set")) == 3  # this tab remembers


def test_a_lost_service_is_said_and_found_again(page, watch):
    watch.expected.add(FAILED)
    page.route("**/v1/**", lambda route: route.abort("connectionrefused"))
    page.click("li[data-item=A] .remove")
    page.wait_for_selector("#notice:not([hidden])")
    assert "does not answer" in page.inner_text("#notice-text")
    page.unroute("**/v1/**")
    page.click("#notice-action")
    page.wait_for_selector("#notice", state="hidden")
    assert set(shares(ready(page), "set")) == {"B", "C"}


def test_answers_never_come_out_of_order(page, service, about):
    asked = []

    def late_first(route):
        body = route.request.post_data_json
        if len(body["sets"]) == 1:
            asked.append(body["sets"][0]["items"][0]["price"])
            if len(asked) == 1:
                page.wait_for_timeout(250)
        route.continue_()

    page.route("**/v1/predict", late_first)
    for price in (30, 60, 90, 120):
        page.fill("#item-price", str(price))
    known = ask(service, "predict", {"items": with_price(about, 120)})["sets"][0]["probabilities"]
    page.wait_for_selector(f"li[data-item=A] .track[data-share='{known[0]}']")
    page.wait_for_timeout(300)
    assert list(shares(ready(page), "set").values()) == known
    assert (asked[0], asked[-1]) == (30, 120)


# For everybody


def test_no_width_scrolls_sideways(page):
    for width in (360, 768, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        page.click("li[data-item=B] .pick")
        assert page.locator("li[data-item=B] #editor").count() == (width < 900)  # opens in place
        page.click("#add-item")
        ready(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.click("li[data-item=D] .remove")  # and the editor with it, which is needed again
        assert page.inner_text("#editor-title") == "Item A"
        assert page.locator("#editor").is_visible()


def test_everything_can_be_reached_with_the_tab_key(page):
    every = "[...document.querySelectorAll('button, select, input, .handle')]"
    page.click("li[data-item=A] .remove")
    ready(page).locator("h1").click()
    wanted = page.evaluate(
        f"""{every}.map((one, place) => [one, place]).filter(([one]) => one.checkVisibility()
        && !one.disabled && (one.type !== "radio" || one.checked)).map(([, place]) => place)"""
    )
    seen = set()
    for _ in range(len(wanted) + 3):
        page.keyboard.press("Tab")
        seen.add(page.evaluate(f"{every}.indexOf(document.activeElement)"))
    assert seen - {-1} == set(wanted)
    assert len(wanted) > 20


def test_controls_have_names_and_numbers_are_announced(page):
    nameless = page.evaluate("""() => [...document.querySelectorAll("button, select, input")]
        .filter((one) => !one.labels?.length && !one.ariaLabel && !one.textContent.trim())
        .filter((one) => one.checkVisibility()).map((one) => one.outerHTML)""")
    assert nameless == []
    page.click("li[data-item=A] .remove")
    said = f"SDA: B {100 * shares(ready(page), 'set')['B']:.1f}\u00a0%"
    page.wait_for_selector(f"#announcer:has-text('{said}')", state="attached")


CONTRASTS = [
    ("ink", "card", 7), ("ink", "page", 7), ("soft-ink", "card", 4.5), ("soft-ink", "page", 4.5),
    ("set-ink", "card", 4.5), ("mnl-ink", "card", 4.5), ("helps-ink", "card", 4.5),
    ("hurts-ink", "card", 4.5), ("fault", "card", 4.5), ("ink", "notice", 4.5), ("set", "card", 3),
    ("mnl", "card", 3), ("strong-line", "card", 3), ("focus", "page", 3),
]  # fmt: skip


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_contrast_as_wcag_aa_asks(page, scheme):
    page.emulate_media(color_scheme=scheme)
    names = sorted({name for pair in CONTRASTS for name in pair[:2]})
    found = page.evaluate(
        """async (names) => {
          const { colourOf, luminance } = await import("/page/colours.js");
          return Object.fromEntries(names.map((name) => [name, luminance(colourOf(name))]));
        }""",
        names,
    )

    def contrast(one, other):
        low, high = sorted([found[one], found[other]])
        return (high + 0.05) / (low + 0.05)

    wrong = {pair: contrast(*pair[:2]) for pair in CONTRASTS if contrast(*pair[:2]) < pair[2]}
    assert wrong == {}
    assert (found["page"] < 0.1) == (scheme == "dark")


def test_motion_is_short_and_can_be_switched_off(page):
    seconds = "getComputedStyle(document.querySelector('.bar')).transitionDuration"
    assert 0 < float(page.evaluate(seconds).removesuffix("s")) < 0.15
    page.emulate_media(reduced_motion="reduce")
    assert page.evaluate(seconds) == "0s"
    page.emulate_media(reduced_motion="no-preference")
