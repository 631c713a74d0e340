"""The command ``setwise explain``."""

from typing import Annotated, Any

import typer

from setwise.cli import show
from setwise.cli.predict import ModelFile
from setwise.cli.source import TABLE_HELP, Json
from setwise.cli.violations import BY_HELP

TIMES_HELP = "What if the column were so many times as large? 1.1 is ten per cent more."
WHERE_HELP = "With --times: only in rows with these values, as 'mode=train' or 'mode=train,new=1'."
REMOVE_HELP = "What if items with these values were not offered? Written as for --where."


def explain(
    model: ModelFile,
    table: Annotated[str, typer.Argument(help=TABLE_HELP)],
    column: Annotated[str, typer.Option(help="A number column of the items, such as the price.")],
    by: Annotated[str | None, typer.Option(help=BY_HELP)] = None,
    times: Annotated[float | None, typer.Option(help=TIMES_HELP)] = None,
    where: Annotated[str | None, typer.Option(help=WHERE_HELP)] = None,
    remove: Annotated[str | None, typer.Option(help=REMOVE_HELP)] = None,
    json: Json = False,
) -> None:
    """Show what follows from a model: elasticities, diversion, and what a change would do.

    Example: setwise explain swissmetro.setwise swissmetro --column cost --by is_train,is_sm,is_car
    """
    from setwise import consequences
    from setwise._errors import InputError
    from setwise.choices import expressions, open_choices
    from setwise.cli.tables import is_data_file, read_table
    from setwise.estimators import load

    if where is not None and times is None:
        raise InputError("--where says in which rows --times counts; give --times too")
    estimator = load(model)
    data = open_choices(table).in_memory() if is_data_file(table) else read_table(table)
    names: Any = None if by is None else expressions(by)
    names = names[0] if names is not None and len(names) == 1 else names
    changes: list[Any] = []
    if times is not None:
        changes.append(consequences.Reprice(column, times, _values(where) if where else None))
    if remove is not None:
        changes.append(consequences.Remove(_values(remove)))
    elastic = consequences.elasticities(estimator, data, column, names)
    diverted = consequences.diversion_ratios(estimator, data, column, names)
    changed = consequences.counterfactual(estimator, data, changes, by=names) if changes else None
    if json:
        show.as_json(_as_json(elastic, diverted, changed))
        return
    print(elastic)
    if diverted.between is not None:
        print(f"\n{diverted}")
    if changed is not None:
        print(f"\n{changed}")


def _values(text: str) -> dict[str, Any]:
    """Columns and their values from the command line; what reads as a number is one."""
    from setwise._errors import InputError

    found: dict[str, Any] = {}
    for one in text.split(","):
        name, equals, value = one.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise InputError(f"'{one}' is no column=value; write for example mode=train")
        found[name.strip()] = _number(value.strip())
    return found


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _as_json(elastic: Any, diverted: Any, changed: Any) -> dict[str, Any]:
    (low, high), (least, most) = elastic.interval(True), elastic.interval(False)
    found: dict[str, Any] = {
        "column": elastic.column,
        "own_elasticity": {"value": elastic.own, "low": low, "high": high},
        "cross_elasticity": {"value": elastic.cross, "low": least, "high": most},
    }
    for name, one in (("elasticities", elastic.between), ("diversion", diverted.between)):
        if one is not None:
            found[name] = {"names": list(one.names), "values": one.values.tolist()}
    if changed is not None:
        found["changes"] = [str(one) for one in changed.changes]
        if changed.shares is not None:
            shares = changed.shares
            found["shares"] = {
                name: {"before": float(before), "after": float(after)}
                for name, before, after in zip(
                    shares.names, shares.before, shares.after, strict=True
                )
            }
    return found
