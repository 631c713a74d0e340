"""Write what the docs take from the program, so that they cannot drift from it.

``python docs/generate.py`` writes ``cli.md`` (from the commands' help), ``which-model.md`` (from
the zoo), ``index.md`` (from the README), and ``zoo.json`` in the package, which ``setwise models``
prints. With ``--measure`` it first compares the models on Swissmetro, which takes some minutes, and
puts the leaderboard into the README and its picture into ``images/``.
"""

import argparse
import json
import os
import platform
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from setwise.cli import app
from setwise.estimators import listing

if TYPE_CHECKING:
    from setwise.comparison.comparison import Comparison

DOCS = Path(__file__).parent
README = DOCS.parent / "README.md"
GENERATED = "<!-- Written by docs/generate.py; change the program's help or the README instead. -->"
MODELS = ("auto", "sda", "boosted_logit", "mnl")
SPLITS = 5
ZOO_COLUMNS = ("name", "g(x, s)", "when to use it", "reference", "parameters", "IIA")
COLUMNS = ("model", "top-1 %", "mean rank", "NLL", "difference", "p", "seconds")


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
        "# Which commands and options are there?",
        GENERATED,
        "Every command writes its results to standard output: as a table for people or, with "
        "`--json`, for programs. Progress and notes go to standard error. Bad input gives one "
        "sentence and exit code 2. Ctrl-C gives exit code 130. No command overwrites a file that "
        "it reads.",
    ]
    for name, command in commands():
        parts += [f"## {name}", *_described(command), *_tables(name, command)]
    parts += _next(
        "[Read a table](data.md): the roles of columns and feature expressions.",
        "[Which model?](which-model.md): the names that `--model` and `--models` take.",
        "[Python reference](reference.md): the same jobs from Python.",
    )
    return "\n\n".join(parts) + "\n"


def _next(*links: str) -> tuple[str, str]:
    """The end of a page: where to read on."""
    return "## Where to go next", "\n".join(f"- {link}" for link in links)


def _described(command: Any) -> Iterator[str]:
    """The command's help; its examples become blocks to copy."""
    for paragraph in (command.help or "").split("\n\n"):
        text = " ".join(paragraph.split())
        example = text.removeprefix("Example: ")
        yield text if example == text else f"```bash\n{example}\n```"


def _tables(name: str, command: Any) -> Iterator[str]:
    """The arguments and options as ``--help`` has them, and the commands below."""
    context = type(command).context_class(command, info_name=name)
    boxes: dict[str, list[tuple[str, str, str]]] = {"argument": [], "option": []}
    for param in command.params:
        box = getattr(param, "rich_help_panel", None) or param.param_type_name
        boxes.setdefault(box, []).append(_row(*param.get_help_record(context)))
    for box, rows in boxes.items():
        if rows:
            yield _table((box, "value", "what it is"), rows)
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
    "non-IIA": "Other models in which the rest of the set matters.",
    "IIA": "A score depends on its item alone: removing an item keeps the odds of the others.",
    "basic": "Baselines that any useful model must beat.",
}


def zoo_page() -> str:
    """The page "Which model?": the zoo by family, one sentence of advice each."""
    from setwise.estimators import zoo

    parts = [
        "# Which model should I use?",
        GENERATED,
        "`auto`, the default, predicts best without tuning. To understand your data, start with "
        "`mnl`, whose coefficients can be read. Add `lcl` or `mnl_within_set` to see whether "
        "context matters at all, and `sda` to see how much.",
        "Every model has a name. `setwise fit`, `setwise compare` and `setwise.compare` take these "
        "names; `setwise models` prints this list, and `setwise.zoo` returns it. "
        "The column *parameters* counts the numbers that one model learns from 8 features with "
        "default sizes; it is empty where the number depends on the data. "
        "`sw.SDA()` is an ensemble of six models: two of `sda`, two of `sda_straight`, two "
        "of `sda_fine`. The paper's SDA is `sda_inner`; only with `--preset paper` does `sda` mean "
        "that model.",
    ]
    for family, meaning in FAMILIES.items():
        entries = [entry for entry in zoo() if entry.about.family == family]
        parts += [f"## {family[0].upper()}{family[1:]}", meaning]
        parts.append(_table(ZOO_COLUMNS, [_zoo_row(entry) for entry in entries]))
    parts += _next(
        "[The main models and the logit](models.md): how they differ, and their options.",
        "[Train a model](training.md), [tune it](tuning.md), [compare it](metrics.md).",
        "[Every model, compared](zoo-results.md) on three data sets.",
    )
    return "\n\n".join(parts) + "\n"


def zoo_listing() -> str:
    """What `setwise models` prints, which should not wait for JAX."""
    from setwise.estimators import zoo

    return json.dumps(listing.described(zoo()), indent=1, ensure_ascii=False) + "\n"


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
    "expedia": (
        "Hotels on Expedia",
        "A sample of Expedia's searches (personalised sort, 2013), the 3,783 with exactly one "
        "click among 5 to 37 hotels; the eight features of [raw data](raw-data.md), one of them "
        "the hotel's popularity. The file is not shipped. With 1,891 searches to train on, "
        "models that compare items with their set but have few parameters are ahead (within-set "
        "features, FATE, SDE); the paper's SDA with its vectors of 16 overfits. Models that train "
        "by gradients were trained on a GPU, the others on 2 cores, split by split.",
        ("setwise compare expedia_full.parquet --like expedia --models all --splits 10",),
    ),
    "decoy": (
        "Decoys",
        "20,000 generated sets of three with attraction, compromise and similarity effects of one "
        "unit of log-odds each. The true probabilities are known: predicting with them gets "
        "{top1:.2f} % right and an NLL of {nll:.4f} on average.",
        (
            "setwise datasets write decoy --sets 20000 --out decoy.parquet",
            "setwise compare decoy.parquet --set set_id --chosen chosen --items x1,x2 "
            "--models all --splits 10",
        ),
    ),
    "decoy_large": (
        "Decoys, six times the sets",
        "SDA with settings chosen by validation NLL on sets of another seed of the generator "
        "(`seed=1`), then run once on seed 0. Of 404 settings for 20,000 sets, the best was "
        "`sw.SDA.paper(components=4, hidden=64, training=sw.Training(learning_rate=3e-3, "
        "dropout=0.05, patience=50))`: on the sets of the table above it gets {tuned}. With "
        "120,000 sets SDA comes within half a point of the truth. The settings below, one for each "
        "comparison, are the best of 27 for this number of sets. (Batches of 512 and 32 units were "
        "among them because of an earlier trial on seed 0.) The true probabilities get "
        "{top1:.2f} % right and an NLL of {nll:.4f} on average.",
        (
            'choices = sw.datasets.generate("decoy", sets=120_000).choices',
            "inner = sw.Training(learning_rate=5e-3, decay=0.8, batch_size=512, patience=50)",
            "difference = sw.Training(learning_rate=1e-2, decay=0.9, batch_size=512, patience=50)",
            "models = {",
            '    "sda, tuned": sw.SDA.paper(components=4, hidden=32, training=inner),',
            '    "sda_difference, tuned": sw.SDA.paper(',
            '        comparison="difference", hidden=32, training=difference',
            "    ),",
            '    "mlp": sw.estimators.named("mlp"), "svmrank": sw.SVMRank(), "mnl": sw.MNL(),',
            "}",
            "sw.compare(models, choices, splits=10)",
        ),
    ),
}
DRAWN = {"decoy": 20_000, "decoy_large": 120_000}


def results_page() -> str:
    """The whole zoo on three data sets, from the cells kept in ``results/``."""
    parts = [
        "# How do all models compare, without tuning?",
        GENERATED,
        "Every model has its default arguments and is trained on the same 10 splits. `nested` "
        "is left out: it needs a column of nests. `sda` is missing because it is newer than these "
        "tables; `sda_inner` is the paper's SDA. Differences are paired with the "
        "first model; p is corrected for the number of comparisons. The numbers are stored in "
        "`docs/results/`. They were computed split by split, with the same seeds as the "
        "commands, on 16 cores unless the text says otherwise.",
    ]
    for name in RESULTS:
        path = DOCS / "results" / f"zoo_{name}.json"
        if path.exists():
            parts += _result(name, path)
    parts += _next(
        "[Accuracy](accuracy.md): the default against tuned rivals, on eight data sets.",
        "[Which model?](which-model.md): advice for each model.",
    )
    return "\n\n".join(parts) + "\n"


def _result(name: str, path: Path) -> Iterator[str]:
    from setwise.reports.comparison import HEADS, cells, note

    title, text, lines = RESULTS[name]
    comparison = _stored(path, title)
    keep = [HEADS.index(column) for column in COLUMNS]
    yield f"## {title}"
    yield text.format(**_truth(name)) if name in DRAWN else text
    yield "```text\n" + "\n".join(lines) + "\n```"
    yield _table(COLUMNS, [tuple(cells(r)[i] for i in keep) for r in comparison.leaderboard()])
    yield note(comparison)
    if name in DRAWN:
        yield _near_truth(name, comparison)
    if name == "decoy":
        yield from _ceiling(comparison)


def _stored(path: Path, title: str) -> "Comparison":
    from setwise.comparison.comparison import Cell, Comparison

    cells = [Cell(**cell) for cell in json.loads(path.read_text("utf-8"))]
    return Comparison(tuple(cells), title, (0.5, 0.25, 0.25))


def _truth(name: str) -> dict[str, Any]:
    """What the texts of generated data say: the truth's figures, and those of the tuned SDA."""
    from setwise import datasets

    drawn = datasets.generate("decoy", sets=DRAWN[name])
    row = _stored(DOCS / "results" / "decoy_tuned.json", "").leaderboard()[0]
    tuned = f"{_percent(row)} % right at an NLL of {row.mean['nll']:.4f}"
    return {"top1": 100 * drawn.expected_top1, "nll": drawn.expected_nll, "tuned": tuned}


def _percent(row: Any) -> str:
    return f"{100 * row.mean['top1']:.2f} ± {100 * row.standard_error['top1']:.2f}"


def _near_truth(name: str, comparison: "Comparison") -> str:
    """How far below the truth the nearest models are, where chance is the same for both."""
    import numpy as np

    from setwise.comparison.statistics import standard_error

    truth = _ceilings()["test_parts"][f"zoo_{name}"]["truth"]
    below = 100 * (np.array(truth["top1"]) - comparison.values("top1"))
    nearest = np.argsort(below.mean(1))[:2]
    said = [
        f"`{comparison.models[i]}` is {below[i].mean():.2f} ± {standard_error(below[i]):.2f} points"
        for i in nearest
    ]
    return (
        f"On these very test parts the true probabilities get {100 * np.mean(truth['top1']):.2f} % "
        f"right at an NLL of {np.mean(truth['nll']):.4f}; {' and '.join(said)} below."
    )


def _ceilings() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DOCS / "results" / "decoy_ceiling.json").read_text("utf-8"))
    return found


def _ceiling(comparison: "Comparison") -> Iterator[str]:
    """What models that score every item alone can reach, and what they do reach."""
    from setwise.estimators import zoo

    found = _ceilings()
    grids, line = found["grids"], found["linear"]
    least = min(grid["nll"]["fresh"] for grid in grids)
    right = 100 * max(grid["top1"]["fresh"] for grid in grids)
    alone = {entry.name for entry in zoo() if entry.about.satisfies_iia}
    best = next(row for row in comparison.leaderboard() if row.model in alone)
    parts = {name: _means(one) for name, one in found["test_parts"]["zoo_decoy"].items()}
    yield (
        "Models with IIA, P(x | s) = softmax of f(x), cannot do better than an NLL of "
        f"{grids[-1]['nll']['fitted']:.4f} on average, whatever f is; {least:.4f} is attained. "
        f"The greatest accuracy found for such an f is {right:.1f} %, and a bound that holds for "
        f"every f is {100 * found['most_top1']:.1f} %. Linear f, MNL's, cannot do better than "
        f"{line['nll']['fresh']:.4f}, at {100 * line['top1']['fresh']:.1f} %."
    )
    yield (
        f"On the test parts of the table the best f gets {parts['likely']} and the best linear f "
        f"{parts['linear']}. The best model with IIA, `{best.model}`, reaches {_percent(best)} % "
        f"and {best.mean['nll']:.4f}. The program says how this is computed:"
    )
    yield "```text\npython docs/decoy_ceiling.py\n```"


def _means(measured: dict[str, list[float]]) -> str:
    from statistics import fmean

    return f"{100 * fmean(measured['top1']):.2f} % at an NLL of {fmean(measured['nll']):.4f}"


def measure() -> "Comparison":
    """The comparison that ``make demo`` runs."""
    import setwise as sw

    return sw.compare(MODELS, sw.datasets.load("swissmetro"), splits=SPLITS)


def leaderboard(comparison: "Comparison") -> str:
    """The README's table, and the sentence that says how it was made."""
    from setwise.reports.comparison import HEADS, cells, note

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
        from setwise.reports.comparison import dots_picture

        comparison = measure()
        text = put(README.read_text("utf-8"), "leaderboard", leaderboard(comparison))
        README.write_text(text, "utf-8")
        (DOCS / "images" / "swissmetro.svg").write_text(dots_picture(comparison), "utf-8")
    (DOCS / "cli.md").write_text(cli_page(), "utf-8")
    listing.FILE.write_text(zoo_listing(), "utf-8")
    (DOCS / "which-model.md").write_text(zoo_page(), "utf-8")
    (DOCS / "zoo-results.md").write_text(results_page(), "utf-8")
    (DOCS / "index.md").write_text(index_page(README.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
