"""The page of the service, in a real browser: it shows context at work, and keeps to itself."""

import csv
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
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
    with serving(model) as address:
        yield address


@contextmanager
def serving(model):
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


def close(known):
    """Equal but for rounding: a set alone and among others is summed in another order."""
    return pytest.approx(known, abs=1e-5)


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


def same(found, known):
    """Whether the bars of both models are where they were, but for rounding."""
    assert [one == close(other) for one, other in zip(found, known, strict=True)] == [True, True]


def log_odds(of, one, other):
    return np.log(of[one] / of[other])


def with_price(about, price):
    """The items of the first example, with another price of the first."""
    first, *others = about["samples"][0]["items"]
    return [first | {"price": price}, *others]


# What the page shows


def test_the_bars_show_what_the_service_says(page, service, about):
    known = ask(service, "predict", {"sets": about["samples"][:1], "reference": True})["sets"][0]
    assert list(shares(page, "set").values()) == close(known["probabilities"])
    assert list(shares(page, "mnl").values()) == close(known["mnl"])
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
    same(both(ready(page)), before)


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
        same(both(ready(again)), both(page))
        same(both(again, "allowed"), both(page, "allowed"))
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
    same(both(ready(page)), edited)
    page.click("#undo")
    same(both(ready(page)), before)
    page.click("#redo")
    same(both(ready(page)), edited)
    page.click("#reset")
    same(both(ready(page)), before)
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


# Names, choices, switches and units: an ensemble of three models of ten hotels


HOTELS = ["Astoria", "Bellevue", "Central", "Dorint", "Excelsior", "Frieden", "Goldener Löwe",
          "Hirsch", "Imperial", "Jägerhof"]  # fmt: skip


def ten_hotels(sets=300):
    """Sets of ten named hotels with stars as 0/1 columns; the price has a few extreme values."""
    rng = np.random.default_rng(0)
    rows = 10 * sets
    stars = rng.integers(2, 5, rows)
    table = {
        "search": np.repeat(np.arange(sets), 10),
        "hotel": np.tile(HOTELS, sets),
        "price": np.where(np.arange(rows) // 3 == 5, 90_000, np.round(rng.normal(120, 25, rows))),
        "rating": np.round(rng.normal(7.5, 0.8, rows), 1),
        "breakfast": rng.integers(0, 2, rows),
    } | {f"stars_{number}": (stars == number).astype(int) for number in (2, 3, 4)}
    score = -table["price"] / 20 + table["rating"] + stars + rng.gumbel(size=rows)
    best = score.reshape(sets, 10).argmax(1)
    table["booked"] = (np.arange(rows) % 10 == np.repeat(best, 10)).astype(int)
    features = ["price", "rating", "breakfast", "stars_2", "stars_3", "stars_4"]
    return sw.read(table, set="search", chosen="booked", alternative="hotel", items=features)


@pytest.fixture(scope="module")
def hotels(tmp_path_factory):
    """The file of the ensemble."""
    choices = ten_hotels()
    training = sw.Training(epochs=2)
    model = sw.ChoiceModel("sdw", dimension=3, ensemble=3, training=training).fit(choices)
    path = tmp_path_factory.mktemp("hotels") / "hotels.setwise"
    labels = {"price": "price (€)", "rating": "guest rating"}
    model.save(
        path,
        sample=choices,
        reference=sw.estimators.reference_mnl(model, choices),
        display=sw.choices.Display.of(choices, labels),
    )
    return path


@pytest.fixture(scope="module")
def hotel_service(hotels):
    with serving(hotels) as address:
        yield address


@pytest.fixture(scope="module")
def hotel_page(browser, hotel_service):
    watch = Watch(hotel_service)
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=hotel_service)
    page = context.new_page()
    watch.over(page)
    page.goto(hotel_service)
    yield page
    context.close()
    watch.check()


@pytest.fixture
def ten(hotel_page):
    """The page with ten hotels, at its first example."""
    hotel_page.set_viewport_size({"width": 1400, "height": 900})
    hotel_page.select_option("#example", "1")
    hotel_page.select_option("#example", "0")
    return ready(hotel_page)


def test_items_have_the_names_of_their_alternatives(ten):
    assert ten.locator(".item .title").all_inner_texts() == HOTELS
    assert ten.inner_text("#editor-title") == "Astoria"
    assert ten.locator("#decoy option").all_inner_texts() == HOTELS
    ten.click("li[data-item=B] .remove")
    assert ready(ten).inner_text("#verdict").startswith("Bellevue removed. IIA would keep ")
    ten.click("li[data-item=C] .pick")
    ten.click("#add-item")  # a copy of C is told apart by its letter
    assert ten.inner_text("#editor-title") == "Item K"


def test_columns_have_labels_units_and_the_ranges_of_the_data(ten, hotel_service):
    labels = ten.locator("#item-fields label").all_inner_texts()
    assert labels == ["price (€)", "guest rating", "breakfast", "stars"]
    assert "price\u00a0" in ten.inner_text("li[data-item=A] .values")
    assert "\u00a0€" in ten.inner_text("li[data-item=A] .values")
    assert ten.text_content(".map .across-name") == "price (€) →"
    prices = ten_hotels().columns["price"].values
    usual = np.quantile(prices, [0.005, 0.995], method="nearest")
    slider = ten.locator(".field[data-column=price] input[type=range]")
    low, high = (float(slider.get_attribute(end)) for end in ("min", "max"))
    shown = [item["price"] for item in _about(hotel_service)["samples"][0]["items"]]
    assert low == min(usual[0], *shown)
    assert high == max(usual[1], *shown)
    assert high < 1000  # though the data have 90,000


def _about(service):
    with urllib.request.urlopen(f"{service}/v1/model") as answer:
        return json.load(answer)


def test_a_group_of_columns_is_one_choice_and_a_flag_is_a_switch(ten, hotel_service):
    stars = ten.locator("#item-stars_2")
    assert stars.locator("option").all_inner_texts() == ["2", "3", "4"]
    first, *others = _about(hotel_service)["samples"][0]["items"]
    assert stars.input_value() == str(next(n for n in (2, 3, 4) if first[f"stars_{n}"]))
    switch = ten.get_by_role("switch", name="breakfast")
    assert switch.is_checked() == (first["breakfast"] == 1)
    for wanted in ("2", "4"):
        stars.select_option(wanted)
    switch.click()
    changed = first | {f"stars_{n}": int(n == 4) for n in (2, 3, 4)}
    changed["breakfast"] = 1 - first["breakfast"]
    known = ask(hotel_service, "predict", {"items": [changed, *others]})["sets"][0]
    assert list(shares(ready(ten), "set").values()) == close(known["probabilities"])
    said = ten.inner_text("li[data-item=A] .values")
    assert f"breakfast\u00a0{'yes' if changed['breakfast'] else 'no'}" in said
    axes = ten.locator("#axis-x option").all_inner_texts()
    assert axes == ["price (€)", "guest rating", "breakfast"]


def test_a_template_of_columns_names_items(visit, about):
    template = {"item_name": "{rating} for {price}"}
    page = ready(visit(route=changed("**/v1/model", lambda model: model | template)))
    first = about["samples"][0]["items"][0]
    short = f"{first['rating']:.4g} for {first['price']:.4g}"
    assert page.inner_text("li[data-item=A] .title") == short
    page.fill("#item-price", "77")
    assert page.inner_text("li[data-item=A] .title").endswith("for 77")
    assert page.inner_text("#editor-title").endswith("for 77")


def test_the_spread_of_the_members_is_shown(ten, hotel_service):
    about = _about(hotel_service)
    weights = np.array(about["members"])
    assert len(weights) > 1
    assert weights.sum() == pytest.approx(1)
    known = ask(hotel_service, "predict", about["samples"][0] | {"members": True})["sets"][0]
    members = np.array(known["members"])
    assert weights @ members == close(known["probabilities"])
    spread = np.sqrt(weights @ (members - weights @ members) ** 2)
    assert list(shares(ten, "set", "spread").values()) == pytest.approx(spread, abs=1e-5)
    assert shares(ten, "mnl", "spread") == {}
    written = ten.locator("li[data-item=A] .set .doubt").inner_text()
    assert written == f"±\u00a0{100 * spread[0]:.1f}"
    width = ten.locator("li[data-item=A] .set .spread").evaluate("one => one.offsetWidth")
    plot = ten.locator("li[data-item=A] .set .plot").evaluate("one => one.offsetWidth")
    end = float(ten.locator("#share-axis span").last.inner_text().removesuffix(" %")) / 100
    share = known["probabilities"][0]
    reach = min(1, share + spread[0]) - max(0, share - spread[0])
    assert width == pytest.approx(reach / end * plot, abs=4)


@pytest.mark.parametrize(
    ("now", "spread", "says"),
    [
        ({"A": 0.30, "C": 0.70}, 0.01, "A even loses by that: a decoy has left."),
        ({"A": 0.30, "C": 0.70}, 0.40, "within the spread of its members"),
        ({"A": 0.595, "C": 0.405}, 0.001, None),
    ],
)
def test_small_changes_are_not_called_a_decoy(page, now, spread, says):
    """B leaves 60 : 20, which would be 75 : 25 without it; two members stand a spread apart."""
    said = page.evaluate(
        """async ([now, spread]) => {
      const { doubts } = await import("/page/spread.js");
      const { verdict } = await import("/page/words.js");
      const { allowed } = await import("/page/iia.js");
      const item = (name) => ({ name, values: { x: 1 }, gone: name === "B" });
      const items = ["A", "B", "C"].map(item);
      const reference = { items: items.map(({ name, values }) => ({ name, values })), context: {} };
      const before = new Map([["A", 0.6], ["B", 0.2], ["C", 0.2]]);
      const shares = new Map(Object.entries(now));
      const member = (sign) =>
        new Map([["A", now.A + sign * spread], ["C", now.C - sign * spread]]);
      const doubt = doubts([1, 1], [before, before], [member(1), member(-1)], ["A", "C"]);
      const model = { key: "set", label: "M", shares, doubt,
        allowed: allowed(before, shares, ["A", "C"]) };
      const names = new Map(["A", "B", "C"].map((name) => [name, name]));
      return [verdict({ items, reference, context: {} }, [model], { set: before }, names),
        doubt.change.get("A")];
    }""",
        [now, spread],
    )
    assert said[1] == pytest.approx(spread)
    assert ("decoy" in said[0]) == (says is not None and "decoy" in says)
    assert says is None or says in said[0]


def test_the_spread_by_hand(page):
    found = page.evaluate("""async () => {
      const { spread } = await import("/page/spread.js");
      return [spread([1, 1], [0.2, 0.4]), spread([3, 1], [0, 1]), spread([0.5, 0.5], [0.3, 0.3])];
    }""")
    assert found == pytest.approx([0.1, np.sqrt(3) / 4, 0])


def test_ten_items_fit(ten):
    assert ten.locator(".item").count() == 10
    cells = ten.locator("#heat td:not(.none)")
    cells.first.wait_for()
    assert cells.count() == 90
    assert all(re.fullmatch("[+\u2212]?\\d+(\\.\\d)?", text) for text in cells.all_inner_texts())
    too_wide = "all => all.filter((one) => one.scrollWidth > one.clientWidth).length"
    assert cells.evaluate_all(too_wide) == 0
    heads = ten.locator("#heat tbody th").all_inner_texts()
    assert [head.split(maxsplit=1)[1] for head in heads] == HOTELS
    last = ten.locator("li[data-item=J]").bounding_box()
    assert last["y"] + last["height"] < 1000  # of the bars, none is far below the first screen
    left, right = (one.bounding_box() for one in ten.locator("main > .column").all())
    ends = [
        max(card["y"] + card["height"] for card in cards)
        for cards in (
            [one.bounding_box() for one in column.locator(".card").all()]
            for column in ten.locator("main > .column").all()
        )
    ]
    assert abs(ends[0] - ends[1]) < 450  # no column ends long before the other
    assert left["y"] == right["y"]
    ten.set_viewport_size({"width": 400, "height": 850})
    ready(ten)
    assert ten.evaluate("document.documentElement.scrollWidth") <= 400
    assert cells.evaluate_all(too_wide) == 0


def test_labels_of_the_map_do_not_cover_each_other(ten):
    ten.wait_for_selector(".map text.percent")
    boxes = [one.bounding_box() for one in ten.locator(".map text.percent").all()]
    assert len(boxes) >= 7  # those with no room of their own are left out

    def overlap(one, other):
        across = min(one["x"] + one["width"], other["x"] + other["width"]) - max(
            one["x"], other["x"]
        )
        up = min(one["y"] + one["height"], other["y"] + other["height"]) - max(one["y"], other["y"])
        return max(0, across) * max(0, up)

    covered = [
        overlap(one, other) for place, one in enumerate(boxes) for other in boxes[place + 1 :]
    ]
    assert max(covered) < 0.25 * boxes[0]["width"] * boxes[0]["height"]


def test_on_a_phone_the_sentence_is_in_view(ten):
    ten.set_viewport_size({"width": 400, "height": 850})
    ten.click("li[data-item=B] .remove")
    ready(ten)
    for place in ("li[data-item=A]", "li[data-item=J]", "#map", "#heat"):
        ten.locator(place).scroll_into_view_if_needed()
        verdict = ten.locator("#verdict").bounding_box()
        assert verdict["y"] >= 0
        assert verdict["y"] + verdict["height"] <= 850 / 2
        at_its_place = """() => { const box = document.getElementById("verdict")
            .getBoundingClientRect(); return document.elementFromPoint(200, box.top + 10).id; }"""
        assert ten.evaluate(at_its_place) == "verdict"  # nothing covers it
    ten.evaluate("scrollTo(0, 0)")
    box = ten.locator("#verdict").bounding_box()
    assert box["y"] + box["height"] < 850  # before anybody scrolls


# Copies


def copied(page, form):
    page.select_option("#format", form)
    page.click("#copy-format")
    page.wait_for_selector("#copy-format:has-text('Copied')")
    text = page.evaluate("navigator.clipboard.readText()")
    assert text == page.inner_text("#format-text")
    return text


def test_what_is_shown_is_copied_as_json_and_csv(ten, hotel_service):
    ten.click("li[data-item=B] .remove")
    ready(ten)
    told = json.loads(copied(ten, "json"))
    bars, ticks = shares(ten, "set"), shares(ten, "set", "allowed")
    label = told["model"]["estimator"]
    assert told["names"] == [name for name in HOTELS if name != "Bellevue"]
    assert told["probabilities"][label] == close(list(bars.values()))
    assert told["probabilities"][f"{label} if IIA held"] == close(list(ticks.values()))
    again = ask(hotel_service, "predict", told["request"])["sets"][0]["probabilities"]
    assert again == close(list(bars.values()))
    head, *rows = (line.split(",") for line in copied(ten, "csv").splitlines())
    assert head[:3] == ["search", "item", "price"]
    assert [row[1] for row in rows] == told["names"]
    assert [float(row[head.index(label)]) for row in rows] == close(list(bars.values()))
    assert [float(row[2]) for row in rows] == [one["price"] for one in told["request"]["items"]]


@pytest.mark.parametrize("form", ["python", "curl"])
def test_copied_programs_run_and_say_the_same(ten, hotels, form):
    known = shares(ten, "set")
    text = copied(ten, form)
    if form == "python":
        command = [sys.executable, "-c", text]
    else:
        assert text.startswith("curl http://127.0.0.1:")
        if shutil.which("curl") is None:
            pytest.skip("there is no curl on this machine")
        command = ["sh", "-c", text.replace("curl ", "curl -sS ", 1)]
    done = subprocess.run(command, cwd=hotels.parent, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    found = said if form == "python" else said["sets"][0]["probabilities"]
    assert found == close(list(known.values()))


def test_copies_hold_quotes_context_dates_and_what_is_missing(page):
    """Column names and levels are anybody's text: none may break out of a program."""
    found = page.evaluate("""async () => {
      const { FORMATS } = await import("/page/formats.js");
      const NEW = `it's "new"`;
      const columns = [
        { name: NEW, role: "item", kind: "category" },
        { name: "since", role: "item", kind: "date" },
        { name: "nights", role: "context", kind: "number" },
      ];
      const model = { columns, file: "m.setwise", estimator: "MNL", set: "trip", reference: false };
      const values = { [NEW]: "a\\\\b, 'c'\\n", since: "2024-05-06" };
      const other = { [NEW]: null, since: "2024-05-07" };
      const items = [values, other].map((values, place) => ({ name: "AB"[place], values }));
      const page = { model, state: { items, context: { nights: 2 } }, models: [],
        names: new Map([["A", "one, two"], ["B", "B"]]), address: "http://h/v1/predict" };
      return Object.fromEntries(Object.entries(FORMATS).map(([key, make]) => [key, make(page)]));
    }""")
    table = found["python"].partition("table = ")[2].rpartition("print")[0]
    assert eval(table, {"np": np})['it\'s "new"'] == ["a\\b, 'c'\n", None]
    assert found["python"].startswith("import numpy as np\n")
    body = shlex.split(found["curl"].replace("\\\n", " "))[-1]
    assert json.loads(body)["items"][0] == {'it\'s "new"': "a\\b, 'c'\n", "since": "2024-05-06"}
    rows = list(csv.reader(found["csv"].splitlines(keepends=True)))
    assert rows[0] == ["trip", "item", 'it\'s "new"', "since", "nights"]
    assert rows[1] == ["1", "one, two", "a\\b, 'c'\n", "2024-05-06", "2"]


# The map


def test_the_map_steps_no_finer_than_members_agree_and_hatches_where_they_do_not(page):
    found = page.evaluate("""async () => {
      const { paint } = await import("/page/contours.js");
      const side = 21;
      const beyond = Array.from({ length: side * side }, (_, place) =>
        0.4 * ((place % side) / (side - 1) - 0.5) + 0.01 * (place % 2));
      const field = (doubt) => ({ side, set: { beyond, doubt: doubt && {
        beyond: beyond.map(() => doubt) } } });
      const seen = ({ bands, unsure, scale }) =>
        [bands.length, unsure ? unsure.coordinates.length : null, scale.width];
      return [null, 0.001, 0.05].map((doubt) => seen(paint(field(doubt), "set", "beyond")));
    }""")
    (fine, none, width), (sure, _, _), (coarse, hatched, step) = found
    assert none is None  # a single model: nobody knows
    assert fine == sure
    assert coarse <= 6 < fine
    assert step == pytest.approx(0.1)
    assert width < 0.05
    assert hatched == 1


def test_what_members_disagree_about_is_hatched_on_the_map(ten):
    ten.wait_for_selector(".background path", state="attached")
    said = ten.inner_text("#map-text")
    assert ("Hatched" in said) == (ten.locator(".unsure path").count() == 1)
    ten.locator("[name=mapped][value=mnl]").check(force=True)
    assert ten.locator(".unsure path").count() == 0
    assert "Hatched" not in ten.inner_text("#map-text")
    ten.locator("[name=mapped][value=set]").check(force=True)


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


# A change that would earn more


def proposed(page):
    """What the page asks the service for a change; it then shows the answer."""
    if page.locator("#improve").is_hidden():
        page.click("#improve-open")
        page.wait_for_selector("#improve[aria-busy=false]")
    with page.expect_request("**/v1/decide") as asked:
        page.click("#improve-ask")
    page.wait_for_selector("#improve[aria-busy=false]")
    return json.loads(asked.value.post_data)


def earned(page, model="set"):
    """What the proposal says that a model expects now and after."""
    row = page.locator(f"#improve-table tr.{model}")
    return [float(row.get_attribute(f"data-{when}")) for when in ("now", "after")]


def decoyed(page):
    """Of all examples and items of them, the one that a dominated item helps most, says the page.

    Dominated by it: at least as dear, at most as good, and not the same in both.
    """
    bodies = page.evaluate("""async () => {
      const { question } = await import("/page/proposal.js");
      const { ofSample } = await import("/page/state.js");
      const model = await (await fetch("/v1/model")).json();
      const wish = { keeps: true, adds: "one", low: 3, high: 4 };
      const of = (number, goal) => question(model, ofSample(model, number), { ...wish, goal }).body;
      const asked = model.samples.flatMap((_, number) =>
        ["A", "B", "C"].map((goal) => ({ number, goal, body: of(number, goal) })));
      const answer = ({ body }) => fetch("/v1/decide", { method: "POST",
        headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
      for (const one of asked) one.answer = await (await answer(one)).json();
      return asked;
    }""")
    found = []
    for one in bodies:
        items, answer = one["body"]["items"], one["answer"]
        goal = items["ABC".index(one["goal"])]
        for place in set(answer["show"]) - {0, 1, 2}:
            joins = items[place]
            if joins["price"] >= goal["price"] and joins["rating"] <= goal["rating"]:
                found.append((answer["after"] - answer["now"], one["number"], one["goal"]))
    gain, number, name = max(found)
    assert gain > 0.01  # a percentage point
    return number, name


def test_the_page_proposes_a_dominated_item_which_no_logit_would(page, service):
    number, name = decoyed(page)
    page.select_option("#example", str(number))
    ready(page)
    before = both(page)
    assert page.locator("#improve").is_hidden()
    page.click("#improve-open")
    page.wait_for_selector("#improve-result:not([hidden])")  # for the item that is edited
    page.select_option("#improve-goal", f"item:{name}")
    body = proposed(page)
    answer = ask(service, "decide", body)
    (joins,) = set(answer["show"]) - {0, 1, 2}
    items = body["items"]
    goal, decoy = items["ABC".index(name)], items[joins]
    assert decoy["price"] >= goal["price"]
    assert decoy["rating"] <= goal["rating"]
    assert earned(page) == close([before[0][name], answer["after"]])
    now, after = earned(page, "mnl")
    assert now == close(before[1][name])
    assert after < now  # what joins takes from all others, says a logit
    assert earned(page)[1] > earned(page)[0] + 0.01
    said = page.inner_text("#improve-result")
    assert f"Share of {name} goes from {100 * before[0][name]:.1f}\u00a0%" in said
    assert "Proved: no other allowed set is better" in said
    assert "MNL, which weighs each item alone, expects a loss" in said
    page.click("#improve-apply")
    page.wait_for_selector("li[data-item=D]")
    assert shares(ready(page), "set")[name] == close(answer["after"])
    assert page.inner_text("#improve-apply") == "Undo this change"
    page.click("#improve-apply")
    page.wait_for_selector("li[data-item=D]", state="detached")
    same(both(ready(page)), before)
    assert page.inner_text("#improve-apply") == "Apply this change"
    page.click("li[data-item=A] .remove")
    ready(page)
    assert page.locator("#improve-result").is_hidden()
    assert "another one by now" in page.inner_text("#improve-note")
    page.click("#improve-open")
    assert page.locator("#improve").is_hidden()


def test_items_may_be_left_out_for_a_column(page, service):
    proposed(page)
    page.click("#improve-more")
    page.select_option("#improve-goal", "column:price")
    page.select_option("#improve-keep", "some")
    page.select_option("#improve-add", "several")
    page.select_option("#improve-low", "2")
    page.select_option("#improve-high", "3")
    body = proposed(page)
    assert (body["must"], body["exclusive"]) == ([], [])
    assert (body["at_least"], body["at_most"]) == (2, 3)
    assert body["value"] == [item["price"] for item in body["items"]]
    assert len(body["items"]) > 20
    answer = ask(service, "decide", body)
    assert earned(page) == pytest.approx([answer["now"], answer["after"]], rel=1e-5)
    steps = page.locator("#improve-steps b").all_inner_texts()
    left = [place for place in range(3) if place not in answer["show"]]
    added = [place for place in answer["show"] if place > 2]
    assert steps == ["Leave out"] * len(left) + ["Add"] * len(added)
    said = page.inner_text("#improve-words")
    assert not answer["proved"]
    assert f"Found by search among {answer['sets_scored']:,} sets" in said
    page.click("#improve-apply")
    page.wait_for_selector(".item.gone")
    wanted = sorted(body["items"][place]["price"] for place in answer["show"])
    there = page.locator(".item:not(.gone) .values").all_inner_texts()
    assert sorted(float(re.search(r"price\s([\d.]+)", one)[1]) for one in there) == wanted
    page.select_option("#improve-keep", "all")
    page.select_option("#improve-add", "none")
    assert page.locator("#improve-ask").is_disabled()  # nothing may change
    page.select_option("#improve-add", "one")
    page.click("#improve-more")
    assert page.locator("#improve-settings").is_hidden()
    page.click("#improve-open")


def test_a_refused_search_says_why_and_can_be_repeated(page, watch):
    proposed(page)
    watch.expected.add(FAILED)
    error = {"message": "'value' is infinite at item 2; correct it", "where": "value"}
    body = json.dumps({"error": error})
    page.route("**/v1/decide", lambda route: route.fulfill(status=400, body=body))
    page.click("#improve-ask")
    page.wait_for_selector("#improve-note:has-text('infinite at item 2')")
    page.unroute("**/v1/decide")
    proposed(page)
    assert page.inner_text("#improve-note") == ""
    assert page.locator("#improve-result").is_visible()
    page.click("#improve-open")


def test_the_spread_of_a_proposal_is_that_of_the_members(ten, hotel_service):
    proposed(ten)
    ten.select_option("#improve-goal", "item:C")
    body = proposed(ten)
    ten.click("#improve-open")
    answer = ask(hotel_service, "decide", body)
    value = np.array(body["value"])
    sets = [{"items": [body["items"][place] for place in part]} for part in
            (body["shown"], answer["show"])]  # fmt: skip
    got = ask(hotel_service, "predict", {"sets": sets, "members": True})["sets"]
    of = [np.array(one["members"]) @ value[part]
          for one, part in zip(got, (body["shown"], answer["show"]), strict=True)]  # fmt: skip
    weights = np.array(_about(hotel_service)["members"])
    change = of[1] - of[0]
    spread = np.sqrt(weights @ (change - weights @ change) ** 2)
    said = ten.inner_text("#improve-words")
    if answer["show"] == body["shown"]:
        assert "No change helps" in ten.inner_text("#improve-title")
    else:
        assert f"(± {100 * spread:.1f} points)" in said
        assert ("Not sure" in said) == (answer["after"] - answer["now"] <= 2 * spread)


def test_what_is_said_of_a_proposal_by_hand(page):
    said = page.evaluate("""async () => {
      const { proofWords, doubtWords, besideWords, amount } = await import("/page/proposal.js");
      const price = { name: "price", unit: "€" };
      const found = { proved: false, bound: 120, after: 100, sets_scored: 1234 };
      const side = (now, after, doubt) => ({ now, after, doubt });
      const added = { leave: [], join: [{}] };
      const beside = (doubt, mnl) =>
        besideWords("A", { ...added, sides: [side(0.3, 0.5, doubt), side(0.3, mnl, null)] });
      return [proofWords(price, found), proofWords("A", { ...found, bound: 1, after: 0.75 }),
              proofWords("A", { proved: true }), doubtWords("A", side(0.3, 0.5, 0.05)),
              doubtWords("A", side(0.3, 0.5, 0.15)), doubtWords(price, side(3, 5, null)),
              beside(0.01, 0.2), beside(0.2, 0.2), beside(0.01, 0.4), amount(price, 101.234)];
    }""")
    assert said[0].endswith(
        "among 1,234 sets. A better one is not ruled out: at most 20\u00a0€ better."
    )
    assert "at most 25.0 points better" in said[1]
    assert said[2].startswith("Proved: no other allowed set is better")
    assert "they agree that it helps" in said[3]
    assert "(± 5.0 points)" in said[3]
    assert said[4].startswith("Not sure: the change is within the spread of the members")
    assert "no members" in said[5]
    assert said[6].endswith("Only a model that sees the whole set finds this.")
    assert "expects a loss" in said[7]
    assert "Only a model" not in said[7]  # not sure
    assert said[8] == ""  # MNL says the same
    assert said[9] == "101.2\u00a0€"


def test_what_may_join_is_new_and_within_the_limits(page):
    pools = page.evaluate("""async () => {
      const { poolOf } = await import("/page/proposal.js");
      const { ofSample } = await import("/page/state.js");
      const model = await (await fetch("/v1/model")).json();
      const of = (model, most) => poolOf(model, ofSample(model, 0), most);
      const bare = { ...model, samples: [model.samples[0]] };
      return [of(model, 100), of(model, 10), of(bare, 100)];
    }""")
    values = [tuple(one["values"].values()) for one in pools[0]]
    assert len(set(values)) == len(values) > 30
    assert len(pools[1]) == 7  # beside the three of the set
    assert all("like" in one for one in pools[2])  # copies alone
    assert 6 <= len(pools[2]) <= 12


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_proposal_fits_a_phone_and_is_made_by_keyboard(page, scheme):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": 400, "height": 850})
    ready(page)
    page.focus("#improve-open")
    page.keyboard.press("Enter")
    page.wait_for_selector("#improve-result:not([hidden])")
    page.click("#improve-more")
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    if page.locator("#improve-apply").is_visible():
        page.focus("#improve-apply")
        page.keyboard.press("Enter")
        assert page.inner_text("#improve-apply") == "Undo this change"
        assert page.evaluate("document.activeElement.id") == "improve-apply"
    page.click("#improve-more")
    page.click("#improve-open")
    page.emulate_media(color_scheme="light")
