"""The commands of ``setwise decide``: assortment, prices, curve and additions."""

from pathlib import Path
from typing import Annotated, Any

import typer

from setwise.cli import show
from setwise.cli.predict import ModelFile
from setwise.cli.source import TABLE_HELP, Decimal, Encoding, Json, Sep, boxed, names, seed_option

app = typer.Typer(
    help="Decide with a model: which set to show, at which prices, and what to add.",
    no_args_is_help=True,
)

LIMITS, SEARCH = "Which sets are allowed", "How it searches"
EARNS_HELP = (
    "What an item earns if it is chosen: a column, or COLUMN=VALUE or COLUMN=VALUE|VALUE, whose "
    "items count 1 and others 0 (the share of a group). Default: 1 for every item."
)
AT_MOST_HELP = "Most items to show. Default: all."
AT_LEAST_HELP = "Fewest items to show; 0 allows none where people may choose nothing."
MUST_HELP = "Items to show in any case: a 0/1 column, or COLUMN=VALUE."
EXCLUSIVE_HELP = "Column whose equal values exclude each other: at most one of them is shown."
CAPACITY_HELP = "COLUMN=LIMIT: what the column may add up to over the items shown; repeatable."
NOTHING_HELP = (
    "Utility of choosing nothing, for logits without an outside option; an item with 0 in all "
    "columns has 0."
)
METHOD_HELP = "auto, exact, exhaustive or search: how to find the set."
RESTARTS_HELP = "Random starts per set of candidates. Default: 24 for up to 100 of them, else 8."
OUT_HELP = "Parquet or CSV file for the result, one row per item."
PRICE_HELP = "Column of prices, among the model's items."
COST_HELP = "Column with what an item costs those who sell it. Default: 0, for revenue."
LOW_HELP = "Column with the lowest price of each item, or a number. Default: 20 % below its price."
HIGH_HELP = "Column with the highest price, or a number. Default: 20 % above its price."
LADDER_HELP = "Prices that are allowed, separated by commas."
WHICH_HELP = "Items whose price may change: a 0/1 column, or COLUMN=VALUE. Default: all."
CURVE_HELP = "Items whose price moves: a 0/1 column, or COLUMN=VALUE."
FACTORS_HELP = "Factors of the present prices, separated by commas. Default: 0.8 to 1.2."
TARGET_HELP = "Items that should win: a 0/1 column, or COLUMN=VALUE."
SHOWN_HELP = "Items that are shown now: a 0/1 column, or COLUMN=VALUE; others may be added."

Table = Annotated[str, typer.Argument(help=f"{TABLE_HELP} Its items are the candidates.")]
Shown = Annotated[str, typer.Argument(help=f"{TABLE_HELP} Its sets are those that are shown.")]
Out = Annotated[Path | None, typer.Option(help=OUT_HELP)]
Price = Annotated[str, typer.Option(help=PRICE_HELP)]
Cost = Annotated[str | None, typer.Option(help=COST_HELP)]


@app.command()
def assortment(
    model: ModelFile,
    table: Table,
    value: Annotated[str | None, typer.Option(help=EARNS_HELP)] = None,
    at_most: Annotated[int | None, boxed(LIMITS, AT_MOST_HELP)] = None,
    at_least: Annotated[int, boxed(LIMITS, AT_LEAST_HELP)] = 1,
    must: Annotated[str | None, boxed(LIMITS, MUST_HELP)] = None,
    exclusive: Annotated[str | None, boxed(LIMITS, EXCLUSIVE_HELP)] = None,
    capacity: Annotated[list[str] | None, boxed(LIMITS, CAPACITY_HELP)] = None,
    outside: Annotated[float | None, boxed(LIMITS, NOTHING_HELP)] = None,
    method: Annotated[str, boxed(SEARCH, METHOD_HELP)] = "auto",
    restarts: Annotated[int | None, boxed(SEARCH, RESTARTS_HELP)] = None,
    seed: Annotated[int, seed_option("Seed of the search.")] = 0,
    out: Out = None,
    sep: Sep = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    json: Json = False,
) -> None:
    """Find the set to show for each set of candidates: the one that earns most.

    Logits are solved exactly, other models searched; the result says which, and what is proved.

    Example: setwise decide assortment swissmetro.setwise swissmetro --value cost --at-least 2
    """
    from setwise import decide

    estimator, items = _read(model, table, out, sep, decimal, encoding)
    with show.counting_bar("sets") as on_contexts:
        found = decide.assortment(
            estimator, items, 1.0 if value is None else _marked(value),
            at_most=at_most, at_least=at_least, must=_marked(must), exclusive=exclusive,
            capacity=_limits(capacity), outside=outside, method=method, restarts=restarts,
            seed=seed, on_contexts=on_contexts,
        )  # fmt: skip
    _show(found, out, json, {"sets": found.per_set().to_dicts(), "scored": found.sets_scored})


@app.command()
def prices(
    model: ModelFile,
    table: Shown,
    price: Price = "price",
    cost: Cost = None,
    low: Annotated[str | None, boxed(LIMITS, LOW_HELP)] = None,
    high: Annotated[str | None, boxed(LIMITS, HIGH_HELP)] = None,
    ladder: Annotated[str | None, boxed(LIMITS, LADDER_HELP)] = None,
    which: Annotated[str | None, boxed(LIMITS, WHICH_HELP)] = None,
    seed: Annotated[int, seed_option("Seed of the order in which items are priced.")] = 0,
    out: Out = None,
    sep: Sep = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    json: Json = False,
) -> None:
    """Find the prices at which each set earns most.

    Example: setwise decide prices swissmetro.setwise swissmetro --price cost --which is_sm
    """
    from setwise import decide
    from setwise._errors import InputError

    if (low is None) != (high is None):
        raise InputError("--low and --high go together; give both, or neither")
    bounds = None if low is None or high is None else (_number_or_name(low), _number_or_name(high))
    steps = None if ladder is None else _numbers("--ladder", ladder)
    estimator, items = _read(model, table, out, sep, decimal, encoding)
    found = decide.prices(
        estimator, items, price, cost=0.0 if cost is None else cost, bounds=bounds, ladder=steps,
        which=_marked(which), seed=seed,
    )  # fmt: skip
    earned = {"before": found.earned_before.tolist(), "after": found.earned_after.tolist()}
    _show(found, out, json, {"earned": earned, "method": found.method})


@app.command()
def curve(
    model: ModelFile,
    table: Shown,
    which: Annotated[str, typer.Option(help=CURVE_HELP)],
    price: Price = "price",
    cost: Cost = None,
    factors: Annotated[str | None, typer.Option(help=FACTORS_HELP)] = None,
    seed: Annotated[int, seed_option("Seed of the draws of the estimates.")] = 0,
    out: Out = None,
    sep: Sep = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    json: Json = False,
) -> None:
    """Show what sets earn as the price of some items moves, and how sure that is.

    Example: setwise decide curve swissmetro.setwise swissmetro --price cost --which is_sm
    """
    from setwise import decide

    tried = None if factors is None else _numbers("--factors", factors)
    estimator, items = _read(model, table, out, sep, decimal, encoding)
    found = decide.price_curve(
        estimator, items, _marked(which), price, factors=tried, seed=seed,
        cost=0.0 if cost is None else cost,
    )  # fmt: skip
    _show(found, out, json, {"opinions": found.opinions})


@app.command()
def additions(
    model: ModelFile,
    table: Table,
    target: Annotated[str, typer.Option(help=TARGET_HELP)],
    shown: Annotated[str | None, typer.Option(help=SHOWN_HELP)] = None,
    out: Out = None,
    sep: Sep = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    json: Json = False,
) -> None:
    """Show which items, added or removed, make a target win: decoys and rivals.

    Example: setwise decide additions swissmetro.setwise swissmetro --target is_sm
    """
    from setwise import decide

    estimator, items = _read(model, table, out, sep, decimal, encoding)
    found = decide.additions(estimator, items, _marked(target), shown=_marked(shown))
    _show(found, out, json, {})


def _read(
    model: Path, table: str, out: Path | None, sep: Any, decimal: Any, encoding: Any
) -> tuple[Any, Any]:
    """The fitted model and the table; a path to write to is checked first."""
    from setwise.choices import open_choices
    from setwise.cli.tables import check_table, csv_format, is_data_file, read_table
    from setwise.estimators import load

    form = csv_format(table, sep, decimal, encoding)
    if out is not None:
        check_table(out, reads=[model, table])
    estimator = load(model)
    items = open_choices(table) if is_data_file(table) else read_table(table, form)
    return estimator, items


def _show(found: Any, out: Path | None, json: bool, more: dict[str, Any]) -> None:
    """Print a result, and write its rows where a path is given."""
    from setwise.cli.tables import write_table

    frame = found.to_frame()
    if json:
        show.as_json({"rows": frame.to_dicts()} | more)
    else:
        print(found)
    if out is not None:
        write_table(frame, out)
        show.note(f"wrote {out}: {len(frame):,} rows")


def _marked(text: str | None) -> Any:
    """A column's name, or the value that a column must have.

    >>> _marked("price"), _marked("brand=ours")
    ('price', {'brand': ['ours']})
    """
    if text is None or "=" not in text:
        return text
    column, _, value = text.partition("=")
    return {column.strip(): [one.strip() for one in value.split("|")]}


def _limits(given: list[str] | None) -> dict[str, float] | None:
    """The limits of columns.

    >>> _limits(["width=80"])
    {'width': 80.0}
    """
    from setwise._errors import InputError

    if not given:
        return None
    found = {}
    for one in given:
        column, _, limit = one.rpartition("=")
        try:
            found[column.strip()] = float(limit)
        except ValueError:
            raise InputError(
                f"--capacity '{one}' must be a column and a number: width=80"
            ) from None
    return found


def _numbers(option: str, text: str) -> list[float]:
    from setwise._errors import InputError

    try:
        return [float(one) for one in names(option, text)]
    except ValueError:
        raise InputError(
            f"{option} '{text}' must be numbers separated by commas, such as 49,59"
        ) from None


def _number_or_name(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
