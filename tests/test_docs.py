"""The docs are true: what they show runs and prints what they say, and what exists is in them.

In a page, blocks marked ``python`` run in order in one namespace and an empty folder; a block
``text title="prints"`` is what the block before it prints. Lines of ``bash`` blocks that begin
with ``setwise`` run too, on less data (:data:`LESS`).
"""

import contextlib
import dataclasses
import importlib
import importlib.util
import io
import re
import shlex
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import setwise as sw
from setwise.cli import app
from setwise.estimators import listing
from test_architecture import LAYERS
from test_auto import quick_members

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = {path.stem: path.read_text("utf-8") for path in sorted(DOCS.glob("*.md"))}
PROSE = {"README": (ROOT / "README.md").read_text("utf-8")} | PAGES
RUN = {name: text for name, text in PROSE.items() if name != "index"}  # which is the README
EVERYTHING = "\n".join(PROSE.values())
BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PRINTS = 'text title="prints"'


def _generator() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generate = _generator()
COMMANDS = dict(generate.commands())


# What the docs show


# Options that make a command of the docs cheap; given last, they win.
LESS = {
    "setwise fit": ["--max-sets", "300", "--time-budget", "2"],
    "setwise fit --model": ["--max-sets", "300", "--epochs", "3"],
    "setwise fit --model mnl": ["--max-sets", "2000"],
    "setwise fit --model mnl_within_set": ["--max-sets", "300"],
    "setwise fit --model sda": ["--max-sets", "300", "--epochs", "3", "--ensemble", "2"],
    "setwise compare": ["--max-sets", "300", "--splits", "2", "--models", "mnl"],
    "setwise tune": ["--max-sets", "300", "--trials", "2", "--epochs", "3"],
    "setwise violations": ["--max-sets", "200"],
    "setwise decide prices": ["--ladder", "50,60"],
    "setwise reproduce": [
        "--max-sets",
        "40",
        "--splits",
        "2",
        "--trials",
        "1",
        "--epochs",
        "1",
        "--workers",
        "1",
    ],
}


def blocks(text: str) -> list[tuple[str, str]]:
    return [(kind.strip(), body) for kind, body in BLOCK.findall(text)]


def shell_lines(body: str) -> list[str]:
    """The commands of a bash or console block, with continued lines joined and comments cut."""
    joined = body.replace("\\\n", " ").splitlines()
    lines = [" ".join(shlex.split(line.removeprefix("$ "), comments=True)) for line in joined]
    return [line for line in lines if line]


def command_of(line: str) -> tuple[str, list[str]]:
    """The full name of the command that a line calls, and its arguments."""
    words = shlex.split(line, comments=True)
    name, rest = words[0], words[1:]
    while rest and f"{name} {rest[0]}" in COMMANDS:
        name, rest = f"{name} {rest[0]}", rest[1:]
    return name, rest


def check_usage(line: str) -> None:
    """Parse a command line without running it."""
    name, arguments = command_of(line)
    assert name != "setwise" or not arguments, f"there is no such command: {line}"
    if arguments:  # a command's bare name only mentions it
        COMMANDS[name].make_context(name, arguments, resilient_parsing=False)


def run_python(body: str, namespace: dict[str, Any], page: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(body, f"{page}.md", "exec"), namespace)
    return out.getvalue()


def run_command(line: str) -> None:
    name, _ = command_of(line)
    if name == "setwise serve":  # it would never end; test_server_process.py runs it
        check_usage(line)
        return
    model = re.search(r"--model \w+", line)
    names = [f"{name} {model[0]}", f"{name} --model", name] if model else [name]
    less = next((LESS[one] for one in names if one in LESS), [])
    words = [*shlex.split(line)[1:], *less]
    if name.startswith("setwise datasets"):
        # In a process of its own: Typer hands these a context of another class than it says, which
        # the checks of types in tests refuse. It needs no JAX and so starts quickly.
        whole = [sys.executable, "-m", "setwise", *words]
        run = subprocess.run(whole, capture_output=True, text=True)
        assert run.returncode == 0, f"{line}\n{run.stderr}"
        return
    done = CliRunner().invoke(app, words)
    verdicts = (0, 1) if name == "setwise audit" else (0,)  # 1: a check of the model failed
    assert done.exit_code in verdicts, f"{line}\n{done.output}\n{done.exception!r}"


def run_page(page: str) -> Iterator[tuple[str, str]]:
    """Run the blocks in turn; yields what a block is said to print, and what it printed."""
    namespace: dict[str, Any] = {"__name__": page}
    printed = ""
    for kind, body in blocks(RUN[page]):
        if kind == "python":
            printed = run_python(body, namespace, page)
        elif kind in ("bash", "console"):
            for line in shell_lines(body):
                if line.startswith("setwise"):
                    run_command(line)
        elif kind == PRINTS:
            yield body, printed


TRAIN_FOR_LONG = ("tutorial-decoy",)
"""Pages that fit networks to thousands of sets."""

WITH_QUICK_MEMBERS = ("README",)
"""Pages that fit Auto to thousands of sets, and show no numbers of it."""


@pytest.mark.parametrize("page", RUN)
def test_blocks_run_and_print_what_the_page_says(page, tmp_path, monkeypatch, request):
    if page in TRAIN_FOR_LONG:
        request.getfixturevalue("compiled_well")
    monkeypatch.chdir(tmp_path)
    with quick_members() if page in WITH_QUICK_MEMBERS else contextlib.nullcontext():
        for said, printed in run_page(page):
            assert _without_trailing_spaces(said) == _without_trailing_spaces(printed)


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_QUICK_MEMBERS)
def test_blocks_run_with_all_members(page, tmp_path, monkeypatch, compiled_well):
    monkeypatch.chdir(tmp_path)
    assert list(run_page(page)) == []


def _without_trailing_spaces(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def test_every_block_is_of_a_known_kind():
    known = {"python", "bash", "console", "text", "math", PRINTS}
    # Other packages' code stands beside ours there; test_coming_from.py runs ours.
    shown = {"coming-from": {"r", "py"}}
    strange = [
        (page, kind)
        for page in PROSE
        for kind, _ in blocks(PROSE[page])
        if kind not in known and kind.partition(" ")[0] not in shown.get(page, set())
    ]
    assert strange == []


def command_lines() -> list[str]:
    inline = re.findall(r"`(setwise [^`\n]+)`", EVERYTHING)
    shown = [line for text in PROSE.values() for kind, body in blocks(text)
             if kind in ("bash", "console") for line in shell_lines(body)]  # fmt: skip
    return sorted({line for line in [*inline, *shown] if line.startswith("setwise")})


@pytest.mark.parametrize("line", command_lines())
def test_commands_parse(line):
    check_usage(line)


def test_a_wrong_command_would_be_seen():
    with pytest.raises(Exception, match="No such option"):
        check_usage("setwise fit trips.csv --out a.setwise --epoch 3")
    with pytest.raises(AssertionError, match="no such command"):
        check_usage("setwise train trips.csv")


def test_make_targets_exist():
    made = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    texts = [*PROSE.values(), (ROOT / "CONTRIBUTING.md").read_text("utf-8")]
    for text in texts:
        assert set(re.findall(r"(?:`|^)make ([a-z]+)", text, re.MULTILINE)) <= made


# What exists


def public_names(room: str) -> list[str]:
    module = importlib.import_module(sw._ROOMS[room])
    if hasattr(module, "__all__"):
        return list(module.__all__)
    here = vars(module).items()
    return [name for name, value in here if not name.startswith("_")
            and getattr(value, "__module__", None) == module.__name__]  # fmt: skip


@pytest.mark.parametrize("room", sw._ROOMS)
def test_public_names_of_rooms_are_in_the_reference(room):
    lines = PAGES["reference"].splitlines()
    missing = [n for n in public_names(room) if f"::: {sw._ROOMS[room]}.{n}" not in lines]
    assert missing == []


def test_public_names_of_the_door_are_in_the_reference():
    missing = [name for name in sw.__all__ if f"`setwise.{name}`" not in PAGES["reference"]]
    assert missing == []


def resolve(dotted: str) -> None:
    """Follow a dotted name; fields without a default are annotations of their class."""
    value: Any = sw
    for part in dotted.split(".")[1:]:
        if hasattr(value, part):
            value = getattr(value, part)
        elif isinstance(value, types.ModuleType):
            value = importlib.import_module(f"{value.__name__}.{part}")
        else:
            classes = getattr(value, "__mro__", ())
            assert any(part in vars(one).get("__annotations__", {}) for one in classes), dotted
            return


def dotted_names() -> list[str]:
    inline = re.findall(r"`(setwise(?:\.\w+)+)", EVERYTHING)
    rendered = re.findall(r"^::: (\S+)$", PAGES["reference"], re.MULTILINE)
    files = {"setwise.setwise"}
    return sorted({*inline, *rendered} - files)


@pytest.mark.parametrize("dotted", dotted_names())
def test_names_in_the_docs_exist(dotted):
    resolve(dotted)


def test_every_model_is_described():
    assert [e.name for e in sw.zoo() if f"`{e.name}`" not in PAGES["which-model"]] == []


def test_the_example_of_a_new_model_obeys_the_laws():
    """CONTRIBUTING's example is a model: order, padding, and a score that the set changes."""
    code = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("```python\n")[2]
    written: dict = {}
    exec(code.partition("```")[0], written)
    model = written["entry"].build(4, sw.models.Sizes(dimension=3), jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (5, 4))
    present = jnp.ones(5, bool)
    scores = model.scores(x, present)
    np.testing.assert_allclose(model.scores(x[::-1], present)[::-1], scores, atol=1e-5)
    padded = jnp.concatenate([x, jnp.zeros((2, 4))])
    np.testing.assert_allclose(
        model.scores(padded, jnp.arange(7) < 5)[:5], scores, rtol=1e-4, atol=1e-5
    )
    fewer = model.scores(x, jnp.arange(5) < 4)
    assert abs((scores[0] - scores[1]) - (fewer[0] - fewer[1])) > 0


def test_training_options_and_their_defaults_are_described():
    rows = dict(re.findall(r"^\| `(\w+)` \| (\S+) \|", PAGES["training"], re.MULTILINE))
    rows = {name: said for name, said in rows.items() if name in vars(sw.Training())}
    assert rows == {one.name: str(one.default) for one in dataclasses.fields(sw.training.Options)}


def test_layers_are_described():
    rows = re.findall(r"^\| (\d+) \| ([^|]+) \|", PAGES["how-it-works"], re.MULTILINE)
    base = [path.stem for path in (ROOT / "src" / "setwise").glob("_[!_]*")]
    described = [
        (int(layer), room)
        for layer, rooms in rows
        for room in (base if rooms == "`_*`" else re.findall(r"\w+", rooms))
    ]
    wanted = [(i, room) for i, rooms in enumerate(LAYERS) for room in rooms]
    assert sorted(described) == sorted(set(wanted) - {(len(LAYERS) - 1, "__main__")})


def paths_in(text: str) -> list[str]:
    """What a page writes in backticks and that looks like a path: a folder, or a file."""
    return sorted(set(re.findall(r"`((?:[\w.-]+/)+|(?:[\w.-]+/)*[\w-]+\.(?:py|md))`", text)))


def test_paths_of_how_it_works_exist():
    paths = paths_in(PAGES["how-it-works"])
    places = (ROOT, ROOT / "src" / "setwise")
    wanted = {"models/aggregation.py", "models/zoo.py", "training/trainer.py", "server/app.py"}
    assert wanted <= set(paths)
    assert [path for path in paths if not any((place / path).exists() for place in places)] == []


def test_paths_are_found():
    text = "`models/zoo.py`, `choices/`, `setwise.read`, `tests/test_laws.py` and `a/b/`, `w / r`"
    assert paths_in(text) == ["a/b/", "choices/", "models/zoo.py", "tests/test_laws.py"]


# The command line's page


def test_the_generated_pages_are_up_to_date():
    advice = "run: python docs/generate.py"
    assert PAGES["cli"] == generate.cli_page(), advice
    assert PAGES["which-model"] == generate.zoo_page(), advice
    assert listing.FILE.read_text("utf-8") == generate.zoo_listing(), advice
    assert PAGES["zoo-results"] == generate.results_page(), advice
    assert PAGES["index"] == generate.index_page(PROSE["README"]), advice


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_in_the_page(name):
    section = PAGES["cli"].partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    assert section
    for parameter in COMMANDS[name].params:
        for option in parameter.opts:
            assert f"`{option}" in section
        assert parameter.help, f"{name} {parameter.name} has no help"


# The site and the files around it


@pytest.mark.parametrize("page", PAGES)
def test_pages_begin_with_a_question_and_end_with_where_to_go_next(page):
    parts = PAGES[page].strip().split("\n\n")
    title, *rest = [part for part in parts if not part.startswith("<!--")]
    *_, section, links = rest
    assert section == "## Where to go next" or page == "index"
    assert "](" in links
    assert "?" in title + rest[0] or page == "index"


def test_formulas_are_typeset_without_the_network():
    settings = (ROOT / "mkdocs.yml").read_text("utf-8")
    taken = re.findall(r"vendor/[\w./-]+", settings)
    assert len(taken) == 3
    assert all((DOCS / name).exists() for name in taken)
    styles = (DOCS / "vendor" / "katex" / "katex.min.css").read_text("utf-8")
    assert "//" not in styles.replace("/*", "").partition("@font-face")[2]
    assert "//" not in (DOCS / "vendor" / "typeset.js").read_text("utf-8").partition("\n")[2]


def test_every_page_is_in_the_navigation():
    text = (ROOT / "mkdocs.yml").read_text("utf-8")
    listed = re.findall(r"^ +- .+: (\S+)\.md$", text, re.MULTILINE)
    assert sorted(one for one in listed if "/" not in one) == sorted(PAGES)


def written_files() -> list[Path]:
    names = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "CITATION.cff", "mkdocs.yml")
    kinds = (".md", ".py", ".svg")
    return [ROOT / name for name in names] + [p for p in DOCS.rglob("*") if p.suffix in kinds]


def test_nothing_written_names_a_machine():
    place = re.compile(r"(?:^|[\s\"'(`=])(?:/(?:work|home|root|tmp|Users|mnt|opt)/|[A-Z]:\\)")
    assert [p.name for p in written_files() if place.search(p.read_text("utf-8"))] == []


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_to_files_lead_somewhere(name):
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", (ROOT / name).read_text("utf-8"))
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_readme_has_its_leaderboard_and_its_picture():
    table = PROSE["README"].partition("<!-- leaderboard -->")[2].partition("<!-- /leaderboard")[0]
    assert all(f"\n| {model} |" in table for model in generate.MODELS)
    assert (DOCS / "images" / "swissmetro.svg").read_text("utf-8").startswith("<svg")


def test_the_version_is_the_same_everywhere():
    version = re.escape(sw.__version__)
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert re.search(rf"^version: {version}$", citation, re.MULTILINE)
    assert f"## [{sw.__version__}]" in (ROOT / "CHANGELOG.md").read_text("utf-8")


# What the tree refers to

WRITTEN = {".md", ".py", ".toml", ".yml", ".cff", ""}
OURS = ("src", "tests", "docs", "benchmarks")
LINK = re.compile(r"\]\(([^)#\s]+)[^)\n]*\)")
PAGE_NAME = re.compile(r"[\w./-]*\w\.md\b")
PLACE = re.compile(rf"\b(?:{'|'.join(OURS)})/[\w./-]+\.\w+")
# Papers have sections; files of this repository that are said to have numbered ones do not exist.
NUMBERED = re.compile(r"\b(?:SPEC|DESIGN)\b|\b[Ss]ections? \d")


def tree() -> list[Path]:
    """Every text that people write: sources, pages, tests, settings."""
    top = [path for path in ROOT.iterdir() if path.is_file() and not path.name.startswith(".")]
    below = [path for folder in OURS for path in (ROOT / folder).rglob("*") if path.is_file()]
    left_out = {"vendor", "__pycache__"}
    return [
        path
        for path in [*top, *below]
        if path.suffix in WRITTEN and not left_out.intersection(path.parts)
    ]


def lost(path: Path, text: str, pages: set[str]) -> list[str]:
    """What a text refers to and the repository does not have."""
    found = [name for name in PAGE_NAME.findall(text) if Path(name).name not in pages]
    found += [place for place in PLACE.findall(text) if not (ROOT / place).exists()]
    if path.suffix == ".md":
        links = [link for link in LINK.findall(text) if ":" not in link]
        found += [link for link in links if not (path.parent / link).exists()]
    return [*found, *(match.group() for match in NUMBERED.finditer(text))]


def test_nothing_refers_to_a_file_that_is_not_in_the_repository():
    files = tree()
    everywhere = [ROOT.glob("*.md"), *((ROOT / folder).rglob("*.md") for folder in OURS)]
    pages = {path.name for paths in everywhere for path in paths}
    bad = {
        str(path.relative_to(ROOT)): lost(path, path.read_text("utf-8"), pages) for path in files
    }
    bad.pop("tests/test_docs.py")  # which has examples of what is lost
    assert {name: found for name, found in bad.items() if found} == {}


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("one.py", "# see PLAN.md", ["PLAN.md"]),
        ("one.py", "# SPEC section 6", ["SPEC", "section 6"]),
        ("one.py", "# tests/test_nothing.py", ["tests/test_nothing.py"]),
        ("one.md", "[a page](gone.html#top)", ["gone.html"]),
        (
            "one.md",
            "[a page](paper.md#what-is-ours), docs/paper.md, [out](https://a.example/b)",
            [],
        ),
    ],
)
def test_references_that_are_lost_are_found(name, text, found):
    assert lost(DOCS / name, text, {"paper.md"}) == found
