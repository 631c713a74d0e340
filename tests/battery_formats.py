"""Cases of the battery: odd frames, ids, text formats and files, through Python."""

import bz2
import decimal
import fractions
import gzip
import json
import uuid
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

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
    pandas,
    polars,
    quick,
    read,
    same_fit,
    spoiled,
    table,
    text,
)

DATA = columns()
COST, TRIP, BRAND, TAKEN = (DATA[name] for name in ("cost", "trip", "brand", "taken"))
ROWS, FLAGS = len(COST), TAKEN.astype(bool)


def fit_mnl(source: object = None, **options: object) -> object:
    """Read and fit an MNL: a bad table must be refused by then."""
    return fit(sw.MNL(), read(source, **options))


def written(pattern: str) -> list[str]:
    """The costs as text in some format."""
    return [pattern.format(one) for one in COST]


def arrow(values: object, kind: pa.DataType) -> object:
    """A pandas column of an Arrow type."""
    return pd.array(values, pd.ArrowDtype(kind))


def add(battery: Battery) -> None:
    """Add the cases of this module."""
    _frames(battery)
    _ids(battery)
    _marks_and_weights(battery)
    _measures(battery)
    _levels(battery)
    _csv_files(battery)
    _other_files(battery)
    _expressions(battery)
    _splits(battery)
    _prediction(battery)


def _frames(battery: Battery) -> None:
    for name, source in {
        "pandas Int64 marks": lambda: pandas(taken=pd.array(TAKEN, "Int64")),
        "pandas boolean marks": lambda: pandas(taken=pd.array(FLAGS, "boolean")),
        "pandas string levels": lambda: pandas(brand=pd.array(BRAND, "string")),
        "pandas on Arrow": lambda: pandas().convert_dtypes(dtype_backend="pyarrow"),
        "pandas convert_dtypes": lambda: pandas().convert_dtypes(),
        "Arrow decimals": lambda: pandas(
            cost=arrow([decimal.Decimal(str(one)) for one in COST], pa.decimal128(10, 2))
        ),
        "Arrow dictionary": lambda: pandas(
            brand=pd.Series(pa.array(BRAND.tolist()).dictionary_encode().to_pandas())
        ),
        "ordered categories": lambda: pandas(brand=pd.Categorical(BRAND, ordered=True)),
        "a Polars Enum": lambda: polars(
            brand=pl.Series(BRAND.tolist(), dtype=pl.Enum(["red", "green", "blue"]))
        ),
        "Polars decimals": lambda: polars(cost=pl.Series(COST).cast(pl.Decimal(10, 2))),
        "fractions": lambda: pandas(cost=[fractions.Fraction(one) for one in COST]),
        "NumPy text of any length": lambda: table(brand=BRAND.astype(np.dtypes.StringDType())),
        "long doubles": lambda: table(cost=COST.astype(np.longdouble)),
        "a structured array": lambda: pandas().to_records(index=False),
        "a repeated index": lambda: pandas().set_index(np.ones(ROWS, int)),
        "series with one index": lambda: table(cost=pd.Series(COST), time=pd.Series(DATA["time"])),
    }.items():
        battery.right(f"frame: {name}", lambda source=source: fit_mnl(source()), same_fit)
    for name, source, word in (
        ("Arrow lists", lambda: pandas(cost=arrow([[1.0]] * ROWS, pa.list_(pa.float64()))), "cost"),
        (
            "Arrow structs",
            lambda: pandas(cost=arrow([{"a": 1.0}] * ROWS, pa.struct([("a", pa.float64())]))),
            "cost",
        ),
        ("Arrow bytes", lambda: pandas(brand=arrow([b"x"] * ROWS, pa.binary())), "brand"),
        ("integers beyond floats", lambda: pandas(cost=[10**400] * ROWS), "infinite"),
        ("decimals beyond floats", lambda: pandas(cost=[decimal.Decimal("1e400")] * ROWS), "cost"),
        ("decimal NaN", lambda: pandas(cost=[decimal.Decimal("NaN")] * ROWS), "cost"),
        ("a nested index", lambda: pandas().set_index(["trip", "person"]), "reset_index"),
        ("the set in the index", lambda: pandas().set_index("trip"), "reset_index"),
        ("a number as a name", lambda: pandas().rename(columns={"age": 0}), "rename"),
        ("a date as a name", lambda: pandas().rename(columns={"age": pd.Timestamp(0)}), "rename"),
        ("a missing name", lambda: pandas().rename(columns={"age": None}), "rename"),
        ("a name twice", lambda: pd.concat([pandas(), pandas()[["age"]]], axis=1), "'age'"),
        ("an iterator as a column", lambda: table(cost=iter(COST)), "cost"),
        ("text as a column", lambda: table(cost="abc"), "str"),
        ("a dictionary as a column", lambda: table(cost=dict(enumerate(COST))), "dict"),
        ("a dictionary of dictionaries", lambda: pandas().to_dict(), "dict"),
        (
            "series with different indexes",
            lambda: table(
                cost=pd.Series(COST), time=pd.Series(DATA["time"], np.arange(ROWS)[::-1])
            ),
            "index",
        ),
        ("a list of paths", lambda: [csv("a.csv"), csv("b.csv")], "concat"),
        ("a list of records", lambda: polars().to_dicts(), "DataFrame"),
        ("a group-by", lambda: pandas().groupby("trip"), "DataFrameGroupBy"),
        ("the text of a file", lambda: good_csv(), "lines"),
        ("choices", lambda: read(), "Choices"),
        ("an open file", lambda: csv().open(), "TextIOWrapper"),
    ):
        battery.refused(f"frame: {name}", lambda source=source: fit_mnl(source()), word)


def _ids(battery: Battery) -> None:
    for name, ids in {
        "floats": TRIP + 0.5,
        "negative": -TRIP,
        "decimals": [decimal.Decimal(int(one)) for one in TRIP],
        "fractions": [fractions.Fraction(int(one), 3) for one in TRIP],
        "categories": pd.Categorical(TRIP),
        "dates": np.repeat(pd.date_range("2020-01-01", periods=SETS), SIZE),
        "moments with a time zone": np.repeat(
            pd.date_range("2020-01-01", periods=SETS, tz="UTC"), SIZE
        ),
        "numbers and words": [int(one) if one % 2 else f"n{one}" for one in TRIP],
        "all padded alike": [f" {one}" for one in TRIP],
    }.items():
        battery.right(f"ids: {name}", lambda ids=ids: fit_mnl(pandas(trip=ids)), same_fit)
    first = np.arange(ROWS) % SIZE == 1
    for name, ids, word in (
        (
            "blanks around some",
            [f" {one}" if p else str(one) for one, p in zip(TRIP, first, strict=True)],
            "strip",
        ),
        ("empty text", ["" if one == 1 else str(one) for one in TRIP], "empty"),
        ("blank text", ["  " if one == 1 else str(one) for one in TRIP], "empty"),
        (
            "1 and '1'",
            [str(one) if p else int(one) for one, p in zip(TRIP, first, strict=True)],
            "text",
        ),
        ("UUIDs", [uuid.UUID(int=int(one)) for one in TRIP], "UUID"),
        ("tuples", [(int(one),) for one in TRIP], "convert"),
        ("complex numbers", TRIP + 1j, "trip"),
        ("infinite", np.where(TRIP == 2, np.inf, TRIP), "infinite"),
        ("not a time", pd.Series(pd.to_datetime(TRIP)).where(~first), "missing"),
    ):
        battery.refused(f"ids: {name}", lambda ids=ids: fit_mnl(pandas(trip=ids)), "trip", word)
    battery.right(
        "ids: blanks around some in check",
        lambda: sw.examine(
            pandas(trip=[f" {one}" if p else str(one) for one, p in zip(TRIP, first, strict=True)]),
            set="trip",
            chosen="taken",
        ),
        lambda found: any(one.code == "set-ids" for one in found.errors),
    )
    battery.right(
        "ids: lists in check",
        lambda: sw.examine(pandas(trip=[[1]] * ROWS), set="trip", chosen="taken"),
        lambda found: any(one.code == "set-ids" for one in found.errors),
    )
    battery.refused(
        "ids: an empty group",
        lambda: read(pandas(person=np.where(TRIP < 9, "", "x")), group="person"),
        "person",
    )


def _marks_and_weights(battery: Battery) -> None:
    for name, marks, word in (
        ("yes and no", np.where(FLAGS, "yes", "no"), "== 'yes'"),
        ("TRUE and FALSE", np.where(FLAGS, "TRUE", "FALSE"), "taken"),
        ("x and nothing", np.where(FLAGS, "x", ""), "taken"),
        ("1 and missing", np.where(FLAGS, 1.0, np.nan), "missing"),
        ("1 and -1", np.where(FLAGS, 1, -1), "-1"),
        ("nearly 1", TAKEN * 0.99999999, "0.99999999"),
        ("shares", np.tile([0.2, 0.3, 0.5], SETS), "0.2"),
        ("the place of the choice", np.repeat(TAKEN.reshape(-1, SIZE).argmax(1), SIZE), "2"),
        ("categories of 0 and 1", pd.Categorical(TAKEN), "astype(int)"),
        ("lists", pd.Series([[int(one)] for one in TAKEN]), "taken"),
    ):
        battery.refused(
            f"marks: {name}", lambda marks=marks: fit_mnl(pandas(taken=marks)), "taken", word
        )
    battery.refused(
        "marks: turned around", lambda: fit_mnl(pandas(taken=1 - TAKEN)), "2 chosen", "trip"
    )
    battery.right(
        "marks: True and FALSE in a CSV file",
        lambda: fit_mnl(csv(taken=np.where(FLAGS, "True", "FALSE"))),
        same_fit,
    )
    for name, weight, word in (
        ("negative", -1.0, "not positive"),
        ("text", "1.0", "numbers"),
        ("a date", pd.Timestamp("2020-01-01"), "date"),
        ("1e300", 1e300, "1e30"),
        ("1e20 of one set", np.where(TRIP == 1, 1e20, 1.0), "billionth"),
        ("lists", pd.Series([[1.0]] * ROWS), "weight"),
    ):
        battery.refused(
            f"weights: {name}", lambda weight=weight: read(pandas(w=weight), weight="w"), "w", word
        )
    for name, weight in {"booleans": True, "decimals": decimal.Decimal(1), "1": np.int8(1)}.items():
        battery.right(
            f"weights: {name}",
            lambda weight=weight: fit_mnl(pandas(w=weight), weight="w"),
            same_fit,
        )


def _measures(battery: Battery) -> None:
    whole = COST.astype(int)
    for name, values in {
        "stars": [f"{one} stars" for one in whole],
        "a price per night": written("{} USD/night"),
        "millions": written("{}M"),
        "pct": written("{} pct"),
        "square metres": written("{} m²"),
        "a star behind": written("{}*"),
        "a minus behind": written("{:.2f}-"),
        "a tilde": written("~{}"),
        "an apostrophe of Excel": written("'{}"),
        "a formula of Excel": [f'="{one}"' for one in COST],
        "fractions": [f"{one}/2" for one in whole],
        "hours and minutes": [f"{one // 10}:{one % 60:02d}" for one in whole],
        "1h 30m": [f"{one // 10}h {one % 60:02d}m" for one in whole],
        "lakhs": [f"1,{one % 100:02d},456" for one in whole],
        "bitcoins": written("₿{}"),
        "Arabic digits": ["".join(chr(0x660 + int(d)) for d in str(one)) for one in whole],
        "underscores": [f"{1000 * one:_}" for one in whole],
        "blanks around": written(" {} "),
    }.items():
        battery.refused(
            f"numbers as text: {name}", lambda values=values: fit_mnl(pandas(cost=values)), "cost"
        )
    for name, values in {
        "ranges": ["18-25", "26-35", "36-50"],
        "limits": ["<5", ">=5", ">10"],
        "doors": ["2 doors", "4 doors", "5 doors"],
        "departures": ["08:30", "12:00", "17:45"],
        "networks": ["3g", "4g", "5g"],
        "quarters": ["Q1 2020", "Q2 2020", "Q3 2020"],
    }.items():
        battery.right(
            f"names with numbers: {name}",
            lambda values=values: read(pandas(brand=[values[i % 3] for i in range(ROWS)])),
            lambda choices: len(choices.levels("brand")) == 3,
        )
    battery.right(
        "names with numbers: houses of a street",
        lambda: read(pandas(brand=[f"Hotel {i % 30}" for i in range(ROWS)])),
        lambda choices: len(choices.levels("brand")) == 30,
    )


def _levels(battery: Battery) -> None:
    every = np.arange(ROWS) % 4 == 0
    for name, levels, word in (
        ("case", np.where(every, np.char.upper(BRAND), BRAND), "case"),
        ("blanks", np.where(every, np.char.add(BRAND, " "), BRAND), "blanks"),
        ("empty text", np.where(every, "", BRAND), "empty"),
    ):
        battery.warned(
            f"levels that differ in {name}",
            lambda levels=levels: fit_mnl(pandas(brand=levels)),
            "brand",
            word,
        )
    battery.refused("levels of a column that is not there", lambda: read().levels("zz"), "zz")


def _csv_files(battery: Battery) -> None:
    good = good_csv()
    head, *lines = good.splitlines()
    for name, content in {
        "quoted names": '"' + head.replace(",", '","') + '"\n' + "\n".join(lines),
        "blank lines at the end": good + "\n\n\n",
        "commas alone at the end": good + ",,,,,,,,\n,,,,,,,,\n",
        "blank lines at the beginning": "\n\n" + good,
        "line ends of two kinds": "\r\n".join([head, *lines[:50]]) + "\n" + "\n".join(lines[50:]),
        "a plus before numbers": "\n".join([head, *(line.replace(",", ",+", 1) for line in lines)]),
    }.items():
        battery.right(f"CSV: {name}", lambda content=content: fit_mnl(text(content)), same_fit)
    for name, content, word in (
        (
            "blanks behind commas",
            "\n".join([head, *(one.replace(",", ", ") for one in lines)]),
            "blanks",
        ),
        ("blanks in the header", good.replace("cost", " cost ", 1), "' cost '"),
        ("a comment first", "# made by a program\n" + good, "above the header"),
        ("a title first", "My trips,,,,,,,,\n" + good, "above the header"),
        ("a line for Excel first", "sep=,\n" + good, "sep=,"),
        ("a total at the end", good + "Total,,,,,,,,60\n", "cost"),
        ("the header twice", good + good, "repeat"),
        ("lines ending in carriage returns", good.replace("\n", "\r"), "carriage"),
        ("a quote that stays open", good.replace("red", '"red', 1), "quote"),
        ("UTF-32", good.encode("utf-32"), "utf-32"),
        ("JSON", polars().write_json(), "JSON"),
        ("JSON lines", polars().write_ndjson(), "JSON"),
        ("HTML", "<!DOCTYPE html><html><body><table></table></body></html>\n", "HTML"),
        ("XML", "<?xml version='1.0'?>\n<a>\n</a>\n", "XML"),
        ("bzip2", bz2.compress(good.encode()), "bzip2"),
        ("a pickle", b"\x80\x04\x95" + bytes(99), "pickle"),
        ("Excel 97", b"\xd0\xcf\x11\xe0" + bytes(99), "Excel"),
        ("half a gzip file", gzip.compress(good.encode())[:-20], "t.csv"),
        ("a NUL byte", good.replace("red", "r\0d", 1), "NUL"),
    ):
        battery.refused(f"CSV: {name}", lambda content=content: fit_mnl(text(content)), word)
    for encoding in ("base64", "rot13", "hex", "undefined", 8):
        battery.refused(
            f"CSV: encoding={encoding!r}",
            lambda encoding=encoding: read(text(good), encoding=encoding),
            "encoding",
        )
    battery.right(
        "CSV: UTF-32 with encoding=",
        lambda: fit_mnl(text(good.encode("utf-32")), encoding="utf-32"),
        same_fit,
    )
    battery.right(
        "CSV: compressed under another name",
        lambda: fit_mnl(text(gzip.compress(good.encode()))),
        same_fit,
    )
    battery.right(
        "CSV: blank lines at the end in check",
        lambda: sw.examine(text(good + "\n\n"), set="trip", chosen="taken"),
        lambda found: not found.errors and found.summary.rows == ROWS,
    )


def _other_files(battery: Battery) -> None:
    def parquet(frame: pl.DataFrame, name: str = "t.parquet") -> str:
        frame.write_parquet(name)
        return name

    def cut() -> Path:
        return text(Path(parquet(polars())).read_bytes()[:-30], "t.parquet")

    def arrow_file(name: str) -> str:
        polars().write_ipc(name)
        return name

    def link(name: str) -> str:
        Path("l.csv").symlink_to(name)
        return "l.csv"

    battery.right("files: .PARQUET", lambda: fit_mnl(parquet(polars(), "t.PARQUET")), same_fit)
    battery.right("files: a link", lambda: fit_mnl(link(str(csv()))), same_fit)
    battery.right("files: brackets in a name", lambda: fit_mnl(csv("a[1].csv")), same_fit)
    for name, path in {
        "a truncated Parquet file": cut,
        "an empty Parquet file": lambda: text("", "t.parquet"),
        "Parquet without rows": lambda: parquet(polars().head(0)),
        "nested Parquet": lambda: parquet(polars(cost=pl.Series([[1.0]] * ROWS))),
        "Arrow named .parquet": lambda: arrow_file("t.parquet"),
        "Arrow": lambda: arrow_file("t.feather"),
        "Parquet named .csv": lambda: parquet(polars(), "t.csv"),
        "a dangling link": lambda: link("gone.csv"),
        "a link to itself": lambda: link("l.csv"),
        "a name with a blank more": lambda: f"{csv()} ",
        "a pattern": lambda: (csv(), "*.csv")[1],
        "no ending": lambda: text(good_csv(), "table"),
        "a device": lambda: "/dev/null",
    }.items():
        battery.refused(f"files: {name}", lambda path=path: fit_mnl(path()))


def _expressions(battery: Battery) -> None:
    for feature, word in {
        "log(": "log(price)",
        "log1p(brand)": "convert",
        "Cost": "did you mean 'cost'",
        "cost + time": "['cost', 'time']",
        "cost;time": "['cost', 'time']",
        "np.log(cost)": "np.log(cost)",
        "log10(cost)": "the functions are",
        "C(brand)": "the functions are",
        "poly(cost, 2)": "the functions are",
        "cost:time": "cost:time",
        "cost²": "did you mean 'cost'",
        "−cost": "cost",
        "log(цена)": "цена",
        "sqrt(log(cost))": "twice",
        "a" * 3000: "...",
    }.items():
        battery.refused(
            f"the feature {feature[:20]!r} among items",
            lambda feature=feature: read(items=["age", feature]),
            word,
        )
    battery.right(
        "a feature with blanks and a line end",
        lambda: fit_mnl(items=["\tcost\n", " time ", "brand"]),
        same_fit,
    )


def _splits(battery: Battery) -> None:
    for sizes in ((0.8,), (0.6, 0.2), (0.5, 0.5, 0.5), (1.5, 1)):
        battery.refused(
            f"split into fractions {sizes}",
            lambda sizes=sizes: sw.split(read(), sizes),
            "add up to",
        )
    for sizes in ((50, 25, 25), (1, 1), np.array([0.7, 0.3]), [0.1] * 10, (1 / 3, 1 / 3, 1 / 3)):
        battery.right(
            f"split into shares {np.round(sizes, 2).tolist()}",
            lambda sizes=sizes: sw.split(read(), sizes),
            lambda parts: sum(map(len, parts)) == SETS,
        )
    battery.refused(
        "compare with fractions beyond 1",
        lambda: sw.compare({"mnl": sw.MNL()}, read(), splits=1, sizes=(0.5, 0.5, 0.5)),
        "add up to",
    )
    for seed in (True, 0.0, float("nan")):
        battery.refused(
            f"split with the seed {seed}", lambda seed=seed: sw.split(read(), seed=seed), "seed"
        )
    for index in ("cost", 100, 1.5, [], None):
        battery.refused(f"choices[{index!r}]", lambda index=index: read()[index], "set")


def _prediction(battery: Battery) -> None:
    def same(data: Callable[[], object]) -> Callable[[], bool]:
        return lambda: np.allclose(
            logit().predict_proba(data()), logit().predict_proba(pandas()), atol=1e-6
        )

    for name, data in {
        "float32": lambda: pandas(cost=COST.astype(np.float32)),
        "Float64": lambda: pandas(cost=pd.array(COST, "Float64")),
        "categories": lambda: pandas(brand=pd.Categorical(BRAND)),
        "text ids": lambda: pandas(trip=TRIP.astype(str)),
        "no marks": lambda: pandas().drop(columns="taken"),
        "bad marks": lambda: pandas(taken="x"),
        "a file": csv,
        "Arrow": lambda: polars().to_arrow(),
    }.items():
        battery.right(f"prediction with {name}", same(data), bool)
    for name, data, word in (
        ("numbers as text", lambda: pandas(cost=COST.astype(str)), "cost"),
        ("a number that became a date", lambda: pandas(cost=pd.Timestamp(0)), "cost"),
        ("a number that became a category", lambda: pandas(cost=pd.Categorical(COST)), "cost"),
        ("levels in capitals", lambda: pandas(brand=np.char.upper(BRAND)), "brand"),
        ("levels with blanks", lambda: pandas(brand=np.char.add(BRAND, " ")), "brand"),
        (
            "a renamed column",
            lambda: pandas().rename(columns={"cost": "Cost"}),
            "did you mean 'Cost'",
        ),
        ("no set column", lambda: pandas().drop(columns="trip"), "trip"),
        ("missing ids", lambda: spoiled("trip", np.nan), "trip"),
        (
            "ids with blanks",
            lambda: pandas(trip=[f"{one}{' ' * (i % 2)}" for i, one in enumerate(TRIP)]),
            "strip",
        ),
        (
            "a dictionary of numbers",
            lambda: {"trip": 1, "cost": 3.0, "time": 2.0, "brand": "red"},
            "trip",
        ),
    ):
        battery.refused(
            f"prediction with {name}", lambda data=data: logit().predict_proba(data()), word
        )
    battery.warned(
        "rank of a table with a column 'probability'",
        lambda: logit().rank(pandas(probability=0.5)),
        "probability",
    )
    battery.warned(
        "rank of a table with a column 'rank'", lambda: logit().rank(polars(rank=1)), "rank"
    )
    battery.right(
        "features named like arguments",
        lambda: fit_mnl(pandas(chosen=COST, set=DATA["time"]), items=["chosen", "set", "brand"]),
        same_fit,
    )
    battery.refused(
        "validation with a level of its own",
        lambda: quick().fit(read(), validation=read(pandas(brand="pink"))),
        "pink",
    )
    battery.right(
        "a model file without NaN", lambda: json.dumps(logit().get_params(), allow_nan=False), bool
    )
