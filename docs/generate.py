"""Write what the docs take from the program, so that they cannot drift from it.

``python docs/generate.py`` writes ``cli.md`` (from the commands' help), ``which-model.md`` (from
the zoo) and ``index.md`` (from the README). With ``--measure`` it first compares the models on
Swissmetro, which takes about a minute, and puts the leaderboard into the README and its picture
into ``images/``.
"""

import argparse
import os
import platform
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from setwise.cli import app

if TYPE_CHECKING:
    from setwise.experiments import Comparison

DOCS = Path(__file__).parent
README = DOCS.parent / "README.md"
GENERATED = "<!-- Written by docs/generate.py; change the program's help or the README instead. -->"
MODELS = ("mnl", "sdw", "sde", "sda")
SPLITS = 5
ZOO_COLUMNS = ("name", "g(x, s)", "when to take it", "reference", "parameters", "IIA")
COLUMNS = ("model", "top-1 %", "mean rank", "NLL", "difference", "p")


def commands() -> Iterator[tuple[str, Any]]:
    """Every command with its full name, as ``setwise datasets write``."""

    def walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
        yield name, command
        for child, below in getattr(command, "commands", {}).items():
            yield from walk(f"{name} {child}", below)

    return walk("setwise", typer.main.get_command(app))


def cli_page() -> str:
    """The page of the command line."""
    parts = [
        "# Command line",
        GENERATED,
        "Every command shows progress and notes on standard error and results on standard output, "
        "as a table for people or, with `--json`, for programs. Bad input is one sentence and "
        "exit code 2.",
    ]
    for name, command in commands():
        parts += [f"## {name}", *_described(command), *_tables(name, command)]
    return "\n\n".join(parts) + "\n"


def _described(command: Any) -> Iterator[str]:
    """The command's help; its examples become blocks to copy."""
    for paragraph in (command.help or "").split("\n\n"):
        text = " ".join(paragraph.split())
        example = text.removeprefix("Example: ")
        yield text if example == text else f"```bash\n{example}\n```"


def _tables(name: str, command: Any) -> Iterator[str]:
    """The arguments and options as ``--help`` has them, and the commands below."""
    context = type(command).context_class(command, info_name=name)
    for kind in ("argument", "option"):
        records = [p.get_help_record(context) for p in command.params if p.param_type_name == kind]
        if records:
            yield _table((kind, "value", "what it is"), [_row(*record) for record in records])
    below = getattr(command, "commands", {})
    if below:
        rows = [(f"`{name} {one}`", _first_line(child)) for one, child in below.items()]
        yield _table(("command", "what it does"), rows)


def _row(written: str, text: str) -> tuple[str, str, str]:
    """``--on-none <error|drop>`` and its help, in three cells."""
    option, _, value = written.partition(" ")
    return f"`{option}`", value.strip("<>").replace("|", ", "), " ".join(text.split())


def _first_line(command: Any) -> str:
    return " ".join((command.help or "").split("\n\n")[0].split())


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )


def index_page(readme: str) -> str:
    """The site's first page: the README up to its last section, with links as seen from here."""
    shown = readme.partition("\n## Project\n")[0]
    return f"{GENERATED}\n\n" + shown.replace("](docs/", "](") + "\n"


FAMILIES = {
    "set-dependent": "The paper's models and their ablations: context enters through set networks.",
    "non-IIA": "Other models in which the set matters.",
    "IIA": "An item's score is its own: removing an item never changes the odds of the others.",
    "basic": "Floors, to see what a model is worth.",
}


def zoo_page() -> str:
    """The page "Which model?": the zoo by family, one sentence of advice each."""
    from setwise.estimators import zoo

    parts = [
        "# Which model?",
        GENERATED,
        "Every model has a name, which `setwise fit`, `setwise compare` and `setwise.compare` "
        "take; `setwise models` prints this list, `setwise.zoo` returns it. "
        "Parameters are counted for 8 features and default sizes; where the data decide, the cell "
        "is empty. Start with `mnl`, add `lcl` or `mnl_within_set` to see whether context matters "
        "at all, then `sda` or `sda_difference`.",
    ]
    for family, meaning in FAMILIES.items():
        entries = [entry for entry in zoo() if entry.about.family == family]
        parts += [f"## {family[0].upper()}{family[1:]}", meaning]
        parts.append(_table(ZOO_COLUMNS, [_zoo_row(entry) for entry in entries]))
    return "\n\n".join(parts) + "\n"


def _zoo_row(entry: Any) -> tuple[str, ...]:
    about, count = entry.about, entry.parameters()
    numbers = "" if count is None else f"{count:,}"
    holds = "holds" if about.satisfies_iia else "fails"
    formula = f"`{about.formula}`"
    return f"`{entry.name}`", formula, about.advice, about.reference, numbers, holds


RESULTS = {
    "swissmetro": (
        "Swissmetro",
        "10,719 stated choices between train, Swissmetro and car.",
        ("setwise compare swissmetro --models all --splits 10",),
    ),
    "decoy": (
        "Decoys",
        "20,000 generated sets of three with attraction, compromise and similarity effects of one "
        "unit of log-odds each. The true probabilities are known: who predicts with them gets "
        "{top1:.2f} % right and an NLL of {nll:.4f} on average.",
        (
            "setwise datasets write decoy --sets 20000 --out decoy.parquet",
            "setwise compare decoy.parquet --set set_id --chosen chosen --items x1,x2 "
            "--models all --splits 10",
        ),
    ),
    "decoy_large": (
        "Decoys, six times the sets",
        "120,000 sets, and SDA with settings that suit so many: chosen among six by hand, after "
        "seeing four of these test parts, so read its figures as what it can reach. The true "
        "probabilities get {top1:.2f} % right and an NLL of {nll:.4f} on average.",
        (
            'choices = sw.datasets.generate("decoy", sets=120_000).choices',
            "training = sw.Training(",
            "    learning_rate=5e-3, epochs=300, batch_size=512, patience=50, decay=0.9",
            ")",
            "training_64 = sw.Training(",
            "    learning_rate=5e-3, epochs=250, batch_size=512, patience=40, decay=0.9",
            ")",
            "models = {",
            '    "sda, hidden=32": sw.SDA(hidden=32, training=training),',
            '    "sda_difference, hidden=64": sw.SDA(',
            '        hidden=64, comparison="difference", training=training_64',
            "    ),",
            '    "mlp": sw.estimators.named("mlp"), "svmrank": sw.SVMRank(), "mnl": sw.MNL(),',
            "}",
            "sw.compare(models, choices, splits=10)",
        ),
    ),
}
DRAWN = {"decoy": 20_000, "decoy_large": 120_000}


def results_page() -> str:
    """The whole zoo on two data sets, from the cells kept in ``results/``."""
    parts = [
        "# The zoo, measured",
        GENERATED,
        "Every model with its default arguments, on the same 10 splits, tuned on nothing. `nested` "
        "is left out: it needs a column of nests. Differences are paired with the first model; p "
        "is corrected for the number of comparisons. The cells are in `docs/results/`; they were "
        "made split by split with the same seeds as the commands, on 16 cores.",
    ]
    for name in RESULTS:
        path = DOCS / "results" / f"zoo_{name}.json"
        if path.exists():
            parts += _result(name, path)
    return "\n\n".join(parts) + "\n"


def _result(name: str, path: Path) -> Iterator[str]:
    import json

    from setwise import datasets
    from setwise.experiments import Cell, Comparison
    from setwise.experiments.report import HEADS, cells, note

    title, text, lines = RESULTS[name]
    if name in DRAWN:
        truth = datasets.generate("decoy", sets=DRAWN[name])
        text = text.format(top1=100 * truth.expected_top1, nll=truth.expected_nll)
    stored = [Cell(**cell) for cell in json.loads(path.read_text("utf-8"))]
    comparison = Comparison(tuple(stored), title, (0.5, 0.25, 0.25))
    keep = [HEADS.index(column) for column in COLUMNS]
    yield f"## {title}"
    yield text
    yield "```text\n" + "\n".join(lines) + "\n```"
    yield _table(COLUMNS, [tuple(cells(r)[i] for i in keep) for r in comparison.leaderboard()])
    yield note(comparison)


def measure() -> "Comparison":
    """The comparison that ``make demo`` runs."""
    import setwise as sw

    return sw.compare(MODELS, sw.datasets.load("swissmetro"), splits=SPLITS)


def leaderboard(comparison: "Comparison") -> str:
    """The README's table, and the sentence that says how it was made."""
    from setwise.experiments.report import HEADS, cells, note

    keep = [HEADS.index(column) for column in COLUMNS]
    rows = [tuple(cells(row)[i] for i in keep) for row in comparison.leaderboard()]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    made = (
        f"Made with setwise {version('setwise')}, JAX "
        f"{version('jax')}, Python {platform.python_version()}, on {cores} CPU cores."
    )
    return f"{_table(COLUMNS, rows)}\n\n{note(comparison)} {made}"


def put(text: str, name: str, content: str) -> str:
    """The text with what stands between the markers of this name replaced."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    if begin not in text or end not in text:
        raise SystemExit(f"the README lacks the markers {begin} and {end}")
    before, after = text.partition(begin)[0], text.partition(end)[2]
    return f"{before}{begin}\n{content}\n{end}{after}"


def main() -> None:
    """Write the pages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", action="store_true", help="rerun the README's comparison")
    if parser.parse_args().measure:
        from setwise.experiments import figures

        comparison = measure()
        text = put(README.read_text("utf-8"), "leaderboard", leaderboard(comparison))
        README.write_text(text, "utf-8")
        (DOCS / "images" / "swissmetro.svg").write_text(figures.dots(comparison), "utf-8")
    (DOCS / "cli.md").write_text(cli_page(), "utf-8")
    (DOCS / "which-model.md").write_text(zoo_page(), "utf-8")
    (DOCS / "zoo-results.md").write_text(results_page(), "utf-8")
    (DOCS / "index.md").write_text(index_page(README.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
