"""The commands of ``setwise theory``: rationalise, bases and model."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from setwise.cli import show
from setwise.cli.predict import ModelFile
from setwise.cli.source import TABLE_HELP, Decimal, Encoding, Json, Sep, seed_option

app = typer.Typer(
    no_args_is_help=True,
    help="The theory of aggregation as code: what it can express, and what a fitted model does.",
)

CHOICES_HELP = (
    "The choice from each set, such as 'ab:a,bc:b,ac:c,abc:a'. Items are single letters; every set "
    "of two or more items needs a choice."
)
Report = Annotated[Path | None, typer.Option(help="HTML page to write, with tables and pictures.")]


@app.command()
def rationalise(
    choices: Annotated[str | None, typer.Argument(help=CHOICES_HELP)] = None,
    random: Annotated[
        int | None, typer.Option(help="Instead: random choices from this many items, at most 12.")
    ] = None,
    seed: Annotated[int | None, seed_option("With --random: seed. Default: 0.")] = None,
    rho: Annotated[int, typer.Option(help="Exponent of a self's range; a whole number.")] = 1,
    report: Report = None,
    json: Json = False,
) -> None:
    """Find selves whose aggregation makes exactly these choices, and check every set.

    From ale, beer and cider someone takes ale; without beer, cider. No single utility function can
    do that. Six selves can: the command shows them and their scores.

    Example: setwise theory rationalise ab:a,bc:b,ac:c,abc:a --report selves.html

    Random choices work too: whatever people do, some aggregation does it.

    Example: setwise theory rationalise --random 4 --seed 1
    """
    from setwise._errors import InputError
    from setwise._files import check_writable
    from setwise.paper.theory import ChoiceFunction
    from setwise.paper.theory import rationalise as run
    from setwise.paper.theory.choice_functions import written
    from setwise.paper.theory.rationalise_report import (
        SET_HEADS,
        checked,
        rationalisation_json,
        set_rows,
        write_rationalisation,
    )

    if (choices is None) == (random is None):
        raise InputError("give either choices, such as ab:a,bc:b,ac:c,abc:a, or --random 4")
    if seed is not None and random is None:
        raise InputError("--seed is only used with --random; give --random too, or leave it out")
    if report is not None:
        check_writable(report, kind=".html")
    if choices is not None:
        given = ChoiceFunction.from_table(_table(choices))
    else:
        given = ChoiceFunction.random(random or 0, seed or 0)
    found = run(given, rho)
    if json:
        show.as_json(rationalisation_json(found))
    else:
        print(given)
        broken = ", ".join(written(subset) for subset in given.violations())
        print(f"\nviolate IIA: {broken or 'none, one order explains all choices'}\n")
        print(found.describe())
        show.table(SET_HEADS, set_rows(found), numbers=False)
        print(checked(found))
    if report is not None:
        write_rationalisation(found, report)
        show.note(f"wrote {report}")


@app.command()
def bases(json: Json = False) -> None:
    """List which mechanisms have a triple basis, which provably have none, and why.

    A triple basis is a group of selves that prefers x1 to x2 and is indifferent on every other set.
    A mechanism that has one can change any single choice without changing the others.

    Example: setwise theory bases
    """
    from setwise.paper.theory.rationalise_report import BASIS_HEADS, UNDECIDED, basis_verdicts

    verdicts = basis_verdicts()
    if json:
        mechanisms = [one.to_json() for one in verdicts]
        show.as_json({"mechanisms": mechanisms, "undecided": UNDECIDED})
        return
    show.table(BASIS_HEADS, [one.row() for one in verdicts], numbers=False)
    print(UNDECIDED)


@app.command()
def model(
    model: ModelFile,
    table: Annotated[str, typer.Argument(help=TABLE_HELP)],
    report: Report = None,
    sep: Sep = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    json: Json = False,
) -> None:
    """Show which score function of a model decides where, and the bounds on its error.

    Give the table that the model was trained on: the bounds of Theorems 2 (SDW) and 3 (SDE) are
    about it. If the theory covers only one of the two, the reason is shown. If it says nothing
    about a model, the command ends with the reason and writes no page.

    Example: setwise fit swissmetro --model sdw --out sdw.setwise

    Example: setwise theory model sdw.setwise swissmetro --report theory.html
    """
    from setwise._errors import InputError
    from setwise._files import check_writable
    from setwise.choices import open_choices
    from setwise.cli.tables import csv_format, is_data_file, read_table
    from setwise.estimators import load
    from setwise.paper.theory.model_report import examine_theory, write_theory_report

    if report is not None:
        check_writable(report, [model, table], ".html")
    form = csv_format(table, sep, decimal, encoding)
    estimator = load(model)
    choices = (
        open_choices(table).in_memory()
        if is_data_file(table)
        else estimator.read(read_table(table, form), with_choice=True)
    )
    found = examine_theory(estimator, choices)
    nothing = found.nothing()
    if nothing is not None:
        raise InputError(nothing)
    if json:
        show.as_json(found.to_json())
    else:
        print(found)
    if report is not None:
        write_theory_report(found, report)
        show.note(f"wrote {report}")


def _table(text: str) -> dict[Iterable[str], str]:
    """Sets and their choices, as they are written on the command line."""
    from setwise._errors import InputError

    found: dict[Iterable[str], str] = {}
    for one in text.split(","):
        subset, colon, choice = (part.strip() for part in one.partition(":"))
        if not colon or not subset.isalpha() or len(choice) != 1:
            raise InputError(
                f"'{one}' is not of the form set:choice; write the set's letters and the chosen "
                "one, for example ab:a"
            )
        if len(set(subset)) < len(subset):
            raise InputError(f"the set '{subset}' has a letter twice; give each item once")
        if choice not in subset:
            raise InputError(f"'{choice}' is chosen from '{subset}', but is not in it")
        if subset in found:
            raise InputError(f"the set '{subset}' is given twice; give each set one choice")
        found[subset] = choice
    return found
