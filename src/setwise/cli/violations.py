"""The command ``setwise violations``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from setwise.cli import show
from setwise.cli.predict import ModelFile
from setwise.cli.source import (
    MAX_SETS_HELP,
    REPORT_HELP,
    TABLE_HELP,
    Decimal,
    Encoding,
    Json,
    Sep,
    names,
)

if TYPE_CHECKING:
    from setwise.reports.iia import IIAReport

BY_HELP = (
    "Column whose levels are the alternatives, or several 0/1 columns separated by commas: show "
    "which alternatives gain when one is removed."
)
TRIALS_HELP = (
    "Labelled trials: the columns of the condition, of the favoured option (A or B) and of the "
    "option (A, B or other), separated by commas. With a fourth, of the respondent, intervals "
    "resample respondents."
)
DECOY_HELP = (
    "Two numeric columns separated by a comma: map how a decoy in their plane shifts shares."
)
GROUP_HELP = "Column of the respondent: intervals resample respondents instead of sets."
OTHERS_HELP = "Other model files separated by commas: show on which sets each model is right."
PAIR_HELP = (
    "With --decoy: the set whose two most probable items the decoy is added to. Default: the first."
)


def violations(
    model: ModelFile,
    table: Annotated[str, typer.Argument(help=TABLE_HELP)],
    by: Annotated[str | None, typer.Option(help=BY_HELP)] = None,
    trials: Annotated[str | None, typer.Option(help=TRIALS_HELP)] = None,
    decoy: Annotated[str | None, typer.Option(help=DECOY_HELP)] = None,
    pair: Annotated[str | None, typer.Option(help=PAIR_HELP)] = None,
    group: Annotated[str | None, typer.Option(help=GROUP_HELP)] = None,
    others: Annotated[str | None, typer.Option(help=OTHERS_HELP)] = None,
    max_sets: Annotated[int | None, typer.Option(help=MAX_SETS_HELP)] = None,
    report: Annotated[Path | None, typer.Option(help=REPORT_HELP)] = None,
    sep: Sep = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    json: Json = False,
) -> None:
    """Show how a model violates IIA on a table, and test IIA on its choices.

    Each item of each set is removed in turn. Under IIA the odds between the other items do not
    change. The tests need no model: they ask whether the other items of a set matter in the data.

    --trials compares attraction, compromise and similarity in labelled trials with what the model
    predicts. --decoy adds a third item to a pair and shows which of the two it helps.

    Example: setwise violations swissmetro.setwise swissmetro --by is_train,is_sm,is_car
    """
    from dataclasses import replace

    from setwise._files import check_writable
    from setwise.choices import open_choices
    from setwise.cli.tables import csv_format, is_data_file, read_table
    from setwise.estimators import load
    from setwise.metrics.set_means import respondents
    from setwise.reports.decoy import decoy_map
    from setwise.reports.effects import trial_effects
    from setwise.reports.iia import examine_iia, write_iia_report

    paths = [] if others is None else names("--others", others)
    if report is not None:
        check_writable(report, [model, table, *paths], ".html")
    labels, moved = _names("--trials", trials, (3, 4)), _names("--decoy", decoy, (2,))
    _refuse(trials, moved, pair, table, paths)
    form = csv_format(table, sep, decimal, encoding)
    estimator = load(model)
    frame = None if is_data_file(table) else read_table(table, form)
    read = None if frame is None else estimator.read(frame, with_choice=True)
    choices = read or open_choices(table).in_memory()
    sampled = choices if max_sets is None else choices.sample(max_sets)
    part = None if frame is None else frame[sorted(sampled.rows.tolist())]
    columns = None if by is None else names("--by", by)
    found = examine_iia(
        estimator, sampled, columns[0] if columns and len(columns) == 1 else columns, part,
        None if group is None else respondents(sampled, sampled if frame is None else frame, group),
        None if others is None else {Path(one).stem: load(one) for one in paths},
    )  # fmt: skip
    if labels:
        roles: dict[str, Any] = dict(
            zip(("condition", "favours", "option", "group"), labels, strict=False)
        )
        found = replace(found, trials=trial_effects(estimator, part, **roles))
    if moved:
        found = replace(found, decoy=decoy_map(estimator, choices, (moved[0], moved[1]), pair))
    if json:
        show.as_json(found.to_json())
    else:
        _show(found)
    if report is not None:
        write_iia_report(found, report)
        show.note(f"wrote {report}")


def _names(option: str, text: str | None, counts: tuple[int, ...]) -> list[str]:
    """Column names of an option, as many as it takes."""
    from setwise._errors import InputError

    names = [] if text is None else [one.strip() for one in text.split(",")]
    if text is not None and (len(names) not in counts or not all(names)):
        wanted = " or ".join(map(str, counts))
        raise InputError(f"{option} takes {wanted} column names separated by commas, not '{text}'")
    return names


def _refuse(
    trials: str | None, decoy: list[str], pair: str | None, table: str, others: list[str]
) -> None:
    from setwise._errors import InputError
    from setwise.cli.tables import is_data_file

    if len({Path(one).stem for one in others}) < len(others):
        raise InputError(
            f"--others {','.join(others)} has two models with the same name; rename a file"
        )
    if pair is not None and not decoy:
        raise InputError("--pair says which items the decoy is added to; give --decoy too")
    if trials is not None and is_data_file(table):
        raise InputError(
            f"--trials needs the labels of the trials, but {table} has only the columns of "
            "a model; give the table that it was made from"
        )


def _show(found: "IIAReport") -> None:
    from setwise.reports.effects import TRIAL_HEADS
    from setwise.reports.iia import HEADS
    from setwise.violations import together

    show.table(HEADS, found.rows(), title=f"{found.model} on {found.data}", numbers=False)
    if found.between is not None:
        print(f"\nChange of the row's probability if the column is removed:\n{found.between}")
    if found.regions is not None:
        show.table(found.regions.heads, found.regions.rows(), title="where each model is right")
    if found.trials is not None:
        show.table(TRIAL_HEADS, found.trials.rows(), title="context effects", numbers=False)
        print(found.trials.sentence())
    if found.decoy is not None:
        title = f"a decoy beside two items of set {found.decoy.pair}"
        show.table(found.decoy.heads(), found.decoy.rows(), title=title)
        print(found.decoy.sentence())
    for one in found.tests:
        print(f"\n{one}")
    if found.tests:
        print(f"\n{together(found.tests)}")
