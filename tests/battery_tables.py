"""Cases of the battery: tables, columns, types and numbers, through Python."""

import datetime
import decimal

import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse

import setwise as sw
from battery import Battery
from battery_data import (
    SETS,
    SIZE,
    columns,
    csv,
    fit,
    good_csv,
    logit,
    network,
    pandas,
    polars,
    read,
    same_fit,
    shown,
    sound_probabilities,
    spoiled,
    table,
    text,
)

COST = columns()["cost"]
ROWS = len(COST)


def written(pattern: str) -> list[str]:
    """The costs as text in some format."""
    return [pattern.format(one) for one in COST]


def fit_mnl(source: object = None, **options: object) -> object:
    """Read and fit an MNL: a bad table must be refused by then."""
    return fit(sw.MNL(), read(source, **options))


def add(battery: Battery) -> None:
    """Add the cases of this module."""
    _formats(battery)
    _numbers(battery)
    _types(battery)
    _roles(battery)
    _files(battery)
    _expressions(battery)
    _splits(battery)
    _prediction(battery)
    _suspicious(battery)


def _formats(battery: Battery) -> None:
    comma = [f"{one:.2f}".replace(".", ",") for one in COST]
    for name, values in {
        "decimal commas": comma,
        "dollars": written("${:.2f}"),
        "euros behind": written("{:.2f} €"),
        "thousands by commas": [f"{1000 * one:,.0f}" for one in COST],
        "thousands by points": [
            f"{1000 * one:,.2f}".translate(str.maketrans(",.", ".,")) for one in COST
        ],
        "per cent": written("{:.0f}%"),
        "thousands by apostrophes": [f"{1000 * one:,.0f}".replace(",", "'") for one in COST],
        "thousands by spaces": [f"{1000 * one:,.0f}".replace(",", " ") for one in COST],
        "negatives in brackets": written("({:.2f})"),
        "text that is numbers": written("{}"),
        "text with blanks around": written(" {} "),
    }.items():
        for kind, make in (("pandas", pandas), ("polars", polars)):
            battery.refused(
                f"numbers in a local format: {name} in {kind}",
                lambda make=make, values=values: fit_mnl(make(cost=values)),
                "cost",
            )
    battery.refused(
        "quoted decimal commas in CSV",
        lambda: fit_mnl(csv(cost=comma)),
        "cost",
        "decimal",
    )
    battery.right(
        "decimal commas in CSV with decimal=",
        lambda: fit_mnl(
            text(polars().write_csv(decimal_comma=True, quote_style="always")), decimal=","
        ),
        same_fit,
    )
    semicolons = good_csv().replace(",", ";")
    battery.refused("semicolons", lambda: fit_mnl(text(semicolons)), "sep")
    battery.right("semicolons with sep=", lambda: fit_mnl(text(semicolons), sep=";"), same_fit)
    battery.either(
        "tabs in a .csv", lambda: fit_mnl(text(good_csv().replace(",", "\t"))), same_fit, "sep"
    )
    battery.right(
        "European CSV with sep and decimal",
        lambda: fit_mnl(
            text(polars().write_csv(separator=";", decimal_comma=True)), sep=";", decimal=","
        ),
        same_fit,
    )
    battery.right(
        "a .tsv file", lambda: fit_mnl(text(good_csv().replace(",", "\t"), "t.tsv")), same_fit
    )
    battery.right(
        "codes that look like categories stay categories",
        lambda: read(pandas(brand=[f"A{i % 3}" for i in range(ROWS)])),
        lambda choices: set(choices.levels("brand")) == {"A0", "A1", "A2"},
    )
    battery.right(
        "words with numbers stay categories",
        lambda: read(
            pandas(brand=[("1st class", "2nd class", "3-star")[i % 3] for i in range(ROWS)])
        ),
        lambda choices: len(choices.levels("brand")) == 3,
    )
    battery.refused("a mistyped separator", lambda: read(text(good_csv()), sep=";;"), "sep")
    battery.refused(
        "an unknown encoding", lambda: read(text(good_csv()), encoding="utf-9"), "utf-9"
    )
    battery.refused(
        "a decimal mark of two characters", lambda: read(csv(), decimal="::"), "decimal"
    )


def _numbers(battery: Battery) -> None:
    for value in (np.inf, -np.inf, np.nan):
        battery.refused(
            f"a cost of {value}",
            lambda value=value: fit_mnl(spoiled("cost", value, kind=float)),
            "cost",
            "row 4",
        )
    battery.refused(
        "one cost of 1e300", lambda: fit_mnl(spoiled("cost", 1e300, kind=float)), "cost"
    )
    for factor in (1e300, 1e-300, 1e30, 1e-30, 1e12):
        battery.either(
            f"costs times {factor:g}",
            lambda factor=factor: fit_mnl(table(cost=COST * factor)),
            same_fit,
            "cost",
        )
    battery.either(
        "costs on top of 1e15", lambda: fit_mnl(table(cost=COST + 1e15)), same_fit, "cost"
    )
    battery.either(
        "costs on top of 2**60",
        lambda: fit_mnl(table(cost=(COST * 4).astype(np.int64) + 2**60)),
        same_fit,
        "cost",
    )
    battery.right("UNIX times as a number", lambda: fit_mnl(table(cost=COST + 1.7e9)), same_fit)
    battery.right(
        "float16 costs",
        lambda: fit_mnl(table(cost=COST.astype(np.float16))),
        same_fit,
    )
    battery.right(
        "a constant column",
        lambda: fit_mnl(table(flat=np.ones(ROWS)), items=["cost", "time", "brand", "flat"]),
        same_fit,
    )
    battery.refused(
        "only constant columns",
        lambda: fit_mnl(table(flat=np.ones(ROWS)), items=["flat"]),
    )
    battery.refused("only columns of the whole set", lambda: fit_mnl(items=["age"]), "age")
    for big in (1e39, 1e300, -1e300):
        battery.either(
            f"prediction of a cost of {big:g}",
            lambda big=big: [
                sound_probabilities(spoiled("cost", big, kind=float), one)
                for one in (logit(), network())
            ],
            all,
        )
    battery.either(
        "set ids of 1e19",
        lambda: len(read(table(trip=columns()["trip"].astype(np.uint64) + np.uint64(10**19)))),
        lambda sets: sets == SETS,
        "trip",
    )
    battery.either(
        "set ids beyond 64 bits",
        lambda: len(read(table(trip=[10**30 + int(one) for one in columns()["trip"]]))),
        lambda sets: sets == SETS,
        "trip",
    )
    battery.refused(
        "set ids that are floats beyond 2**53",
        lambda: read(table(trip=columns()["trip"] + 1e17)),
        "trip",
    )
    battery.refused("a set id that is NaN", lambda: read(spoiled("trip", np.nan)), "trip", "row 4")
    battery.refused("a set id that is None", lambda: read(spoiled("trip", None)), "trip", "row 4")
    battery.right(
        "set ids that are text",
        lambda: len(read(table(trip=columns()["trip"].astype(str)))),
        lambda sets: sets == SETS,
    )
    battery.right(
        "sets whose rows are apart",
        lambda: fit_mnl(pandas().sample(frac=1, random_state=1)),
        same_fit,
    )


def _types(battery: Battery) -> None:
    masked = np.ma.array(COST, mask=np.arange(ROWS) == 4)
    battery.refused("a masked array", lambda: fit_mnl(table(cost=masked)), "cost", "row 4")
    battery.right(
        "a masked array with nothing masked",
        lambda: fit_mnl(table(cost=np.ma.array(COST, mask=np.zeros(ROWS, bool)))),
        same_fit,
    )
    days = pd.date_range("2020-01-01", periods=ROWS, freq="D")
    battery.refused("pandas periods", lambda: fit_mnl(pandas(cost=days.to_period("D"))), "cost")
    battery.refused(
        "pandas intervals",
        lambda: fit_mnl(pandas(cost=pd.interval_range(0, periods=ROWS))),
        "cost",
    )
    for name, value in {
        "lists": [1, 2],
        "dictionaries": {"a": 1},
        "tuples": (1, 2),
        "sets": {1},
        "bytes": b"x",
        "complex numbers": 1 + 2j,
        "objects": object(),
    }.items():
        battery.refused(
            f"{name} in cells", lambda value=value: fit_mnl(pandas(cost=[value] * ROWS)), "cost"
        )
        battery.refused(
            f"one cell of {name}",
            lambda value=value: fit_mnl(pandas(cost=[value, *COST[1:].tolist()])),
            "cost",
        )
        battery.refused(
            f"{name} in a category",
            lambda value=value: fit_mnl(pandas(brand=[value] * ROWS)),
            "brand",
        )
    battery.refused(
        "a Polars list column",
        lambda: fit_mnl(polars(cost=pl.Series([[1.0]] * ROWS))),
        "cost",
    )
    battery.refused(
        "a Polars struct column",
        lambda: fit_mnl(polars(cost=pl.Series([{"a": 1.0}] * ROWS))),
        "cost",
    )
    battery.refused(
        "a Polars binary column", lambda: fit_mnl(polars(brand=pl.Series([b"a"] * ROWS))), "brand"
    )
    battery.refused(
        "dates as day/month/year",
        lambda: fit_mnl(pandas(brand=days.strftime("%d/%m/%Y"))),
        "brand",
    )
    battery.warned(
        "names that are all rare",
        lambda: fit_mnl(pandas(brand=[f"name{i}x" for i in range(ROWS)])),
        "brand",
        "rare",
    )
    battery.refused(
        "durations", lambda: fit_mnl(pandas(cost=pd.to_timedelta(COST, unit="min"))), "cost"
    )
    battery.refused(
        "times of day", lambda: fit_mnl(polars(cost=pl.Series([datetime.time(3)] * ROWS))), "cost"
    )
    battery.right(
        "decimals",
        lambda: fit_mnl(pandas(cost=[decimal.Decimal(str(one)) for one in COST])),
        same_fit,
    )
    battery.right(
        "nullable pandas floats", lambda: fit_mnl(pandas(cost=pd.array(COST, "Float64"))), same_fit
    )
    battery.refused(
        "nullable pandas floats with a gap",
        lambda: fit_mnl(pandas(cost=pd.array([None, *COST[1:]], "Float64"))),
        "cost",
        "row 0",
    )
    battery.right(
        "pandas categories with unused levels",
        lambda: fit_mnl(
            pandas(brand=pd.Categorical(columns()["brand"], ["red", "green", "blue", "?"]))
        ),
        same_fit,
    )
    battery.right(
        "pandas sparse columns",
        lambda: fit_mnl(pandas(cost=pd.arrays.SparseArray(COST))),
        same_fit,
    )
    battery.right(
        "a pandas frame with an odd index",
        lambda: fit_mnl(pandas().set_index(np.zeros(ROWS, int))),
        same_fit,
    )
    battery.right("a pyarrow table", lambda: fit_mnl(polars().to_arrow()), same_fit)
    battery.either("a Polars lazy frame", lambda: fit_mnl(polars().lazy()), same_fit, "collect")
    battery.refused(
        "a sparse matrix",
        lambda: sw.read(scipy.sparse.csr_matrix(np.ones((6, 2))), set=[3, 3], chosen=[1, 0, 0] * 2),
        "sparse",
    )
    battery.refused("a list of rows", lambda: read([[1, 2], [3, 4]]))
    battery.refused("a generator", lambda: read(one for one in [1]), "generator")
    battery.refused("a number for a table", lambda: read(3), "int")
    battery.refused("a URL", lambda: read("https://example.org/t.csv"), "example.org")
    battery.refused("a series for a table", lambda: read(pandas()["cost"]))
    battery.refused(
        "columns with several levels",
        lambda: read(pd.concat({"a": pandas()}, axis=1)),
    )
    battery.refused("columns of different length", lambda: read(table(cost=COST[:-1])), "cost")
    battery.refused(
        "a column that is a matrix", lambda: read(table(cost=np.ones((ROWS, 2)))), "cost"
    )
    battery.refused("a column that is a number", lambda: read(table(cost=1.0)), "cost")
    battery.refused("a column that is a set", lambda: read(table(cost=set(COST.tolist()))), "cost")
    battery.refused(
        "strings among numbers", lambda: fit_mnl(spoiled("cost", "cheap")), "cost", "cheap"
    )
    battery.refused("numbers among names", lambda: fit_mnl(spoiled("brand", 3.5)), "brand")


def _roles(battery: Battery) -> None:
    for role in ("set", "chosen", "weight", "group", "time"):
        battery.refused(
            f"an unknown column for {role}", lambda role=role: read(**{role: "zz"}), "zz"
        )
        battery.refused(
            f"a list of columns for {role}", lambda role=role: read(**{role: ["trip"]}), role
        )
        battery.refused(f"a number for {role}", lambda role=role: read(**{role: 3}), role)
    battery.refused("no column for set", lambda: read(set=None), "set")
    for items in ([], 3, ["cost", None], ["cost", 3], [""], ["cost", "cost"], ["zz"], "zz"):
        battery.refused(f"items={items!r}", lambda items=items: read(items=items))
    for context in (3, ["age", None], ["zz"], ["cost"], [""]):
        battery.refused(f"context={context!r}", lambda context=context: read(context=context))
    battery.refused("the chosen column as an item", lambda: read(items=["cost", "taken"]), "taken")
    battery.refused("the set column as an item", lambda: read(items=["cost", "trip"]), "trip")
    battery.refused("the chosen column as the weight", lambda: read(weight="taken"), "taken")
    battery.refused("the chosen column as the group", lambda: read(group="taken"), "taken")
    battery.refused("one column for set and chosen", lambda: read(set="taken"), "taken")
    battery.refused("the chosen column in the context", lambda: read(context=["taken"]), "taken")
    for value in (0, -1, np.nan, np.inf):
        battery.refused(
            f"a weight of {value}",
            lambda value=value: fit_mnl(
                table(w=np.where(columns()["trip"] == 2, value, 1.0)), weight="w"
            ),
            "w",
        )
    battery.refused("a weight that varies in its set", lambda: read(weight="cost"), "cost")
    battery.refused("a weight that is text", lambda: read(weight="brand"), "brand")
    battery.refused("a group that varies in its set", lambda: read(group="cost"), "cost")
    battery.refused(
        "a group with gaps",
        lambda: read(table(person=np.where(columns()["trip"] == 2, np.nan, 1.0)), group="person"),
        "person",
    )
    for value in (2, -1, 0.5, np.nan, None, "x"):
        battery.refused(
            f"a chosen value of {value!r}",
            lambda value=value: fit_mnl(spoiled("taken", value)),
            "taken",
            "row 4",
        )
    flags = columns()["taken"].astype(bool)
    battery.right("chosen as booleans", lambda: fit_mnl(table(taken=flags)), same_fit)
    battery.either(
        "chosen as yes and no",
        lambda: fit_mnl(table(taken=np.where(flags, "yes", "no"))),
        same_fit,
        "taken",
    )
    battery.either(
        "chosen as True and False in text",
        lambda: fit_mnl(table(taken=flags.astype(str))),
        same_fit,
        "taken",
    )
    battery.refused(
        "chosen as 1 and 2", lambda: fit_mnl(table(taken=columns()["taken"] + 1)), "taken"
    )
    battery.refused("nothing chosen", lambda: fit_mnl(table(taken=np.zeros(ROWS, int))), "chosen")
    battery.refused("everything chosen", lambda: fit_mnl(table(taken=np.ones(ROWS, int))), "chosen")
    battery.refused("fit without a chosen column", lambda: fit_mnl(chosen=None), "chosen")
    for option, bad in (
        ("on_none", "foo"),
        ("on_none", None),
        ("on_multiple", "first"),
        ("on_duplicate", True),
        ("rare", 2),
        ("rare", "x"),
        ("rare", -0.1),
        ("rare", np.nan),
        ("rare", None),
    ):
        battery.refused(
            f"{option}={bad!r}", lambda option=option, bad=bad: read(**{option: bad}), option
        )
    battery.refused(
        "repeated rows", lambda: read(pd.concat([pandas(), pandas().head(1)])), "repeats"
    )
    battery.refused("a table without rows", lambda: read(pandas().head(0)), "empty")
    battery.refused(
        "sets of one item", lambda: fit_mnl(pandas()[pandas()["taken"] == 1]), "one item"
    )
    matrix = np.column_stack([COST, columns()["time"]])
    sizes = [SIZE] * SETS
    chosen = columns()["taken"]
    battery.right(
        "a matrix with sizes",
        lambda: len(sw.read(matrix, set=sizes, chosen=chosen)),
        lambda sets: sets == SETS,
    )
    battery.refused(
        "a matrix of text",
        lambda: fit(sw.MNL(), sw.read(matrix.astype(str), set=sizes, chosen=chosen)),
    )
    battery.refused(
        "a matrix with NaN",
        lambda: fit(sw.MNL(), sw.read(matrix * np.nan, set=sizes, chosen=chosen)),
    )
    battery.refused(
        "a matrix of complex numbers",
        lambda: fit(sw.MNL(), sw.read(matrix + 1j, set=sizes, chosen=chosen)),
    )
    battery.refused(
        "a matrix with sizes that do not add up",
        lambda: sw.read(matrix, set=[3, 4], chosen=chosen),
        "set",
    )
    battery.refused(
        "a matrix with sizes below one",
        lambda: sw.read(matrix, set=[0, ROWS], chosen=chosen),
        "set",
    )
    battery.refused(
        "a matrix with too few choices",
        lambda: sw.read(matrix, set=sizes, chosen=chosen[1:]),
        "chosen",
    )
    battery.refused(
        "a matrix with a mask",
        lambda: fit(
            sw.MNL(), sw.read(np.ma.array(matrix, mask=matrix > 20), set=sizes, chosen=chosen)
        ),
    )


def _files(battery: Battery) -> None:
    good = good_csv()
    battery.right(
        "a byte order mark", lambda: fit_mnl(text(b"\xef\xbb\xbf" + good.encode())), same_fit
    )
    battery.right("Windows line ends", lambda: fit_mnl(text(good.replace("\n", "\r\n"))), same_fit)
    battery.right("no line end at the end", lambda: fit_mnl(text(good.rstrip())), same_fit)
    battery.right("a path as text", lambda: fit_mnl(str(csv())), same_fit)
    battery.either("UTF-16", lambda: fit_mnl(text(good.encode("utf-16"))), same_fit, "encoding")
    battery.right(
        "UTF-16 with encoding=",
        lambda: fit_mnl(text(good.encode("utf-16")), encoding="utf-16"),
        same_fit,
    )
    latin = good.replace("red", "rosé").encode("latin-1")
    battery.refused("Latin-1", lambda: fit_mnl(text(latin)), "encoding")
    battery.right(
        "Latin-1 with encoding=", lambda: fit_mnl(text(latin), encoding="latin-1"), same_fit
    )
    battery.refused(
        "a repeated header",
        lambda: read(text(good.replace("time", "cost", 1)), items=["cost"]),
        "cost",
    )
    battery.refused(
        "a row with too many values", lambda: read(text(good + "1,2,3,4,5,6,7,8,9,10,11\n"))
    )
    battery.refused("a row with too few values", lambda: fit_mnl(text(good + "61,2\n")))
    battery.refused("an empty file", lambda: read(text("")), "empty")
    battery.refused("a header alone", lambda: read(text(good.splitlines()[0] + "\n")), "empty")
    battery.refused("a file of zeros", lambda: read(text(b"\0" * 100)))
    battery.refused("a gzip file named .csv", lambda: read(text(b"\x1f\x8b\x08\0" + b"x" * 50)))
    battery.refused("an Excel file", lambda: read(text(b"PK\x03\x04", "t.xlsx")), "t.xlsx")
    battery.refused("a CSV named .parquet", lambda: read(text(good, "t.parquet")), "t.parquet")
    battery.refused("a JSON file", lambda: read(text("{}", "t.json")), "t.json")
    battery.refused("a missing file", lambda: read("gone.csv"), "gone.csv")
    battery.refused("a folder", lambda: read("."))
    battery.refused("an empty path", lambda: read(""))
    battery.refused("a path that is too long", lambda: read("x" * 5000 + ".csv"))
    battery.refused("a path with a zero byte", lambda: read("a\0.csv"))
    battery.refused(
        "a model file as a table",
        lambda: (logit().save("m.setwise"), read("m.setwise")),
        "m.setwise",
    )
    battery.refused(
        "header with spaces and a wrong name",
        lambda: read(text(good.replace("cost", "my cost", 1))),
        "'my cost'",
    )
    battery.refused("blank header names", lambda: read(text(good.replace("cost", "", 1))), "cost")


def _expressions(battery: Battery) -> None:
    for expression in (
        "log(cost",
        "log(cost))",
        "log()",
        "category()",
        "exp(cost)",
        "log(log(cost))",
        "log(brand)",
        "impute()",
        "log cost",
        "cost + time",
        "cost*2",
        "Log(cost)",
        " ",
        "popularity(log(cost))",
        "category(log(cost))",
    ):
        battery.refused(
            f"the feature {expression!r}",
            lambda expression=expression: fit_mnl(items=["time", expression]),
        )
    battery.refused(
        "log of zero",
        lambda: fit_mnl(spoiled("cost", 0.0, kind=float), items=["log(cost)"]),
        "log1p",
    )
    battery.refused(
        "log of a negative",
        lambda: fit_mnl(spoiled("cost", -3.0, kind=float), items=["log(cost)"]),
        "row 4",
    )
    battery.refused(
        "log1p of a negative",
        lambda: fit_mnl(spoiled("cost", -3.0, kind=float), items=["log1p(cost)"]),
        "row 4",
    )
    battery.refused(
        "sqrt of a negative",
        lambda: fit_mnl(spoiled("cost", -3.0, kind=float), items=["sqrt(cost)"]),
        "row 4",
    )
    battery.right(
        "impute",
        lambda: fit_mnl(
            table(cost=np.where(np.arange(ROWS) % 7, COST, np.nan)), items=["impute(cost)", "time"]
        ),
        lambda m: m.converged_,
    )
    battery.refused(
        "impute of a column that is all missing",
        lambda: fit_mnl(table(cost=np.full(ROWS, np.nan)), items=["impute(cost)", "time"]),
        "cost",
    )
    battery.right(
        "a column named like an expression",
        lambda: fit_mnl(table(**{"log(cost)": COST}), items=["log(cost)", "time", "brand"]),
        same_fit,
    )


def _splits(battery: Battery) -> None:
    battery.refused("split of a frame", lambda: sw.split(pandas()), "read")
    battery.refused("split of a Polars frame", lambda: sw.split(polars()), "read")
    battery.refused("split of an array", lambda: sw.split(COST), "read")
    battery.refused("split of nothing", lambda: sw.split(None), "read")
    for sizes in (
        (),
        (0.5, -0.5),
        (0, 1),
        ("a", "b"),
        0.5,
        (np.nan, 1),
        (np.inf, 1),
        None,
        (True, "x"),
        "ab",
    ):
        battery.refused(
            f"split into {sizes!r}", lambda sizes=sizes: sw.split(read(), sizes), "sizes"
        )
    for seed in (None, -1, 2.5, "0", 2**40, np.random.RandomState(0)):
        battery.refused(
            f"split with seed={shown(seed)}",
            lambda seed=seed: sw.split(read(), seed=seed),
            "seed",
        )
    for by in ("foo", None, 3, ["set"]):
        battery.refused(f"split by {by!r}", lambda by=by: sw.split(read(), by=by), "by")
    battery.refused(
        "split by a group that was not read", lambda: sw.split(read(), by="group"), "group"
    )
    battery.refused(
        "split by a time that was not read", lambda: sw.split(read(), by="time"), "time"
    )
    battery.refused("split of too few sets", lambda: sw.split(read().take(np.arange(2))))
    for name, pattern in {
        "day.month.year": "%d.%m.%Y",
        "month/day/year": "%m/%d/%Y",
        "words": "%d %b %Y",
    }.items():
        stamps = np.repeat(
            pd.date_range("2020-01-20", periods=SETS, freq="D").strftime(pattern), SIZE
        )
        battery.refused(
            f"times as text: {name}",
            lambda stamps=stamps: read(pandas(day=stamps), time="day"),
            "day",
        )
    iso = np.repeat(pd.date_range("2020-01-20", periods=SETS, freq="D").strftime("%Y-%m-%d"), SIZE)
    battery.right(
        "times as ISO text",
        lambda: sw.split(read(pandas(day=iso), time="day"), by="time"),
        lambda parts: max(parts[0].time) < min(parts[2].time),
    )
    battery.refused(
        "numbers as text for time",
        lambda: read(pandas(day=columns()["day"].astype(str)), time="day"),
        "day",
    )
    battery.refused("sample of no sets", lambda: read().sample(0), "0")
    battery.refused("sample of half a set", lambda: read().sample(2.5), "2.5")
    battery.refused("sample of text", lambda: read().sample("3"), "3")
    battery.refused("limit to text", lambda: read().limit(max_items="3"), "max_items")
    battery.refused("limit to nothing", lambda: read().limit(max_items=1), "1")
    battery.refused("limit below zero", lambda: read().limit(min_items=-1), "min_items")
    battery.refused("sets beyond the last", lambda: read().take(np.array([10_000])), "10000")
    battery.refused("sets counted from the end", lambda: read().take(np.array([-1])), "-1")


def _prediction(battery: Battery) -> None:
    battery.refused(
        "prediction without a column",
        lambda: logit().predict_proba(pandas().drop(columns="cost")),
        "cost",
    )
    battery.refused(
        "prediction with text for numbers",
        lambda: logit().predict_proba(pandas(cost="cheap")),
        "cost",
    )
    battery.refused(
        "prediction with an unseen level",
        lambda: logit().predict_proba(pandas(brand="pink")),
        "pink",
    )
    battery.refused(
        "prediction with a missing level",
        lambda: logit().predict_proba(pandas(brand=None)),
        "brand",
    )
    battery.refused(
        "prediction with numbers for levels",
        lambda: logit().predict_proba(pandas(brand=3)),
        "brand",
    )
    battery.refused(
        "prediction with NaN",
        lambda: logit().predict_proba(spoiled("cost", np.nan, kind=float)),
        "row 4",
    )
    battery.refused(
        "prediction of no rows", lambda: logit().predict_proba(pandas().head(0)), "empty"
    )
    battery.refused("prediction of None", lambda: logit().predict_proba(None))
    battery.refused("prediction of a number", lambda: logit().predict_proba(3))
    battery.refused("prediction of an array", lambda: logit().predict_proba(np.ones((6, 3))))
    battery.refused(
        "prediction of other choices", lambda: logit().predict_proba(read(items=["time"])), "cost"
    )
    battery.right(
        "prediction of sets of one item",
        lambda: logit().predict_proba(pandas()[::3]),
        lambda p: np.allclose(p, 1),
    )
    battery.right(
        "prediction with more columns", lambda: pandas(more=1), lambda t: sound_probabilities(t)
    )
    battery.right(
        "prediction in another order",
        lambda: pandas().sample(frac=1, random_state=3),
        lambda t: np.allclose(logit().predict_proba(t), logit().predict_proba(pandas())[t.index]),
    )
    battery.refused(
        "evaluation without choices", lambda: logit().evaluate(read(chosen=None)), "chosen"
    )
    battery.refused(
        "evaluation without the chosen column",
        lambda: logit().evaluate(pandas().drop(columns="taken")),
        "taken",
    )
    for method in ("predict", "predict_proba", "rank", "evaluate", "score"):
        battery.refused(
            f"{method} of an empty list", lambda method=method: getattr(logit(), method)([])
        )
        battery.refused(
            f"{method} of a missing file",
            lambda method=method: getattr(logit(), method)("gone.csv"),
            "gone.csv",
        )
    battery.right(
        "one prediction per set with equal items",
        lambda: logit().predict(
            table(cost=1.0 + 0 * COST, time=1.0 + 0 * COST, brand=["red"] * ROWS)
        ),
        lambda p: (p.reshape(-1, SIZE).sum(1) == 1).all(),
    )


def _suspicious(battery: Battery) -> None:
    taken = columns()["taken"]
    place = np.tile(np.arange(SIZE), SETS)
    answer = np.repeat(place[taken == 1], SIZE)
    names = np.array(["bus", "car", "train"])
    for model in (sw.MNL(), sw.SDW(dimension=2, hidden=4, training=sw.Training(epochs=2))):
        kind = type(model).__name__
        battery.warned(
            f"{kind}: the answer as a name beside the alternative",
            lambda model=model: fit(
                model,
                sw.read(
                    pandas(mode=names[place], choice=names[answer]),
                    set="trip",
                    chosen="taken",
                    items=["cost", "mode", "choice"],
                ),
            ),
            "choice",
        )
        battery.warned(
            f"{kind}: the answer as a number beside the alternative",
            lambda model=model: fit(
                model,
                sw.read(
                    pandas(mode=place, choice=answer),
                    set="trip",
                    chosen="taken",
                    items=["cost", "mode", "choice"],
                ),
            ),
            "choice",
        )
        battery.warned(
            f"{kind}: the answer in the context",
            lambda model=model: fit(
                model,
                sw.read(
                    pandas(mode=names[place], choice=names[answer]),
                    set="trip",
                    chosen="taken",
                    items=["cost", "mode"],
                    context=["choice"],
                ),
            ),
            "choice",
        )
        battery.warned(
            f"{kind}: a copy of the chosen column",
            lambda model=model: fit(
                model,
                sw.read(
                    pandas(paid=taken * 3.0), set="trip", chosen="taken", items=["cost", "paid"]
                ),
            ),
            "paid",
        )
        battery.warned(
            f"{kind}: filled only for chosen items",
            lambda model=model: fit(
                model,
                sw.read(
                    pandas(paid=np.where(taken == 1, COST, 0)),
                    set="trip",
                    chosen="taken",
                    items=["time", "paid"],
                ),
            ),
            "paid",
        )
    battery.right(
        "a leaked answer in check",
        lambda: sw.examine(
            pandas(mode=names[place], choice=names[answer]), set="trip", chosen="taken"
        ),
        lambda found: any(
            "choice" in str(one)
            and "context" not in str(one).split("choice")[0]
            and "leak" in str(one).lower()
            for one in found.findings
        ),
    )
    income = np.repeat(np.linspace(1, 3, SETS), SIZE)

    def products() -> object:
        choices = read(pandas(income=income, both=COST * income), items=["cost", "time", "both"])
        return sw.MNL().fit(choices), choices

    def repriced() -> object:
        from setwise import consequences

        model, choices = products()
        return consequences.counterfactual(model, choices, consequences.Reprice("cost", 1.1))

    def elastic() -> object:
        from setwise import consequences

        model, choices = products()
        return consequences.elasticities(model, choices, "cost")

    battery.warned("a new price beside a product of the price", repriced, "both", "cost")
    battery.warned("elasticities beside a product of the price", elastic, "both", "cost")
    battery.right(
        "collinear columns are not called separated",
        lambda: sw.MNL().fit(
            read(
                pandas(twice=2 * COST + 1e-9 * np.sin(np.arange(ROWS))),
                items=["cost", "time", "twice"],
            )
        ),
        lambda model: True,
    )
