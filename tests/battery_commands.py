"""Cases of the battery: the command line."""

import json
import os
from pathlib import Path

from battery import Battery, Done, cli
from battery_data import FLAGS, csv, good_csv, model_file, pandas, polars, quick, read, text

MNL = ("--model", "mnl")


def add(battery: Battery) -> None:
    """Add the cases of this module."""
    _tables(battery)
    _options(battery)
    _outputs(battery)
    _working(battery)


def fit(table: object, *more: object) -> Done:
    """setwise fit of an MNL."""
    return cli("fit", table, *FLAGS, *MNL, "--out", "m.setwise", *more)


def _tables(battery: Battery) -> None:
    good = good_csv()
    semicolons, commas = good.replace(",", ";"), good.replace(".", ",")
    battery.refused("cli: semicolons", lambda: fit(text(semicolons)), "--sep")
    battery.right(
        "cli: semicolons with --sep",
        lambda: fit(text(semicolons), "--sep", ";"),
        lambda done: done.code == 0,
    )
    battery.right(
        "cli: semicolons and decimal commas",
        lambda: fit(
            text(polars().write_csv(separator=";", decimal_comma=True)),
            "--sep",
            ";",
            "--decimal",
            ",",
        ),
        lambda done: done.code == 0,
    )
    battery.refused("cli: decimal commas that split columns", lambda: fit(text(commas)))
    battery.right(
        "cli: Latin-1 with --encoding",
        lambda: fit(text(good.replace("red", "rosé").encode("latin-1")), "--encoding", "latin-1"),
        lambda done: done.code == 0,
    )
    battery.refused(
        "cli: Latin-1", lambda: fit(text(good.replace("red", "rosé").encode("latin-1"))), "encoding"
    )
    battery.refused("cli: an unknown encoding", lambda: fit(csv(), "--encoding", "zz"), "zz")
    battery.refused("cli: a missing table", lambda: fit("gone.csv"), "gone.csv")
    battery.refused("cli: a folder as a table", lambda: fit("."))
    battery.refused(
        "cli: an unknown data set", lambda: cli("fit", "swissmetr", "--out", "m"), "swissmetro"
    )
    battery.refused(
        "cli: an unknown column",
        lambda: cli("fit", csv(), "--set", "zz", "--chosen", "taken", "--out", "m"),
        "zz",
    )
    battery.refused(
        "cli: no --set", lambda: cli("fit", csv(), "--chosen", "taken", "--out", "m"), "--set"
    )
    battery.refused(
        "cli: no items",
        lambda: cli(
            "fit", csv(), "--set", "trip", "--chosen", "taken", "--items", "", "--out", "m"
        ),
        "items",
    )
    battery.refused(
        "cli: items with a hole",
        lambda: cli(
            "fit",
            csv(),
            "--set",
            "trip",
            "--chosen",
            "taken",
            "--items",
            "cost,,time",
            "--out",
            "m",
        ),
        "items",
    )
    battery.refused("cli: a file of zeros", lambda: fit(text(b"\0" * 64)))
    battery.refused(
        "cli: a truncated data file",
        lambda: cli("fit", text(b"x" * 10, "t.setwise-data"), "--out", "m"),
        "t.setwise-data",
    )
    battery.refused("cli: check of a missing table", lambda: cli("check", "gone.csv"), "gone.csv")
    battery.right(
        "cli: check of a bad table",
        lambda: cli("check", csv(cost="cheap"), "--set", "trip", "--chosen", "taken"),
        lambda done: "cost" in done.out,
    )
    battery.right(
        "cli: check of semicolons",
        lambda: _code(lambda: cli("check", text(semicolons), "--set", "trip", "--chosen", "taken")),
        lambda said: "sep" in said,
    )


def _code(run: object) -> str:
    """What a command said, whether it worked or refused."""
    import setwise as sw

    try:
        done = run()
    except sw.InputError as error:
        return str(error)
    return done.out + done.err


def _options(battery: Battery) -> None:
    for option, values in {
        "--model": ("zz", "", "nested", "SDW", "mnl,sdw"),
        "--epochs": ("0", "-1", "2.5", "x", "99999999999999999999"),
        "--seed": ("-1", "99999999999", "x"),
        "--dimension": ("0", "x", "99999999999"),
        "--ensemble": ("0", "-3"),
        "--batch-size": ("0",),
        "--learning-rate": ("0", "-1", "nan", "inf", "1e400"),
        "--weight-decay": ("-1", "nan"),
        "--dropout": ("1", "-0.1", "nan"),
        "--patience": ("0",),
        "--stop-on": ("zz",),
        "--objective": ("zz",),
        "--sample": ("-1", "25"),
        "--rare": ("2", "-1", "nan"),
        "--max-sets": ("0", "-5", "nan", "1e3"),
        "--min-items": ("-1",),
        "--max-items": ("0", "1"),
        "--on-none": ("zz",),
        "--out": ("m.csv", "m.html", "", "/", "../gone/m"),
        "--items": ("cost;time", "Cost", "log(", "cost,taken"),
        "--sep": (";", ",,"),
        "--decimal": (";",),
        "--encoding": ("base64", "utf-16"),
        "--workers": ("0", "2"),
        "--like": ("zz",),
        "--checkpoint": ("t.csv",),
    }.items():
        for value in values:
            battery.refused(
                f"cli: fit {option} {value!r}",
                lambda option=option, value=value: cli(
                    "fit",
                    csv(),
                    *FLAGS,
                    "--model",
                    "sdw",
                    "--dimension",
                    "2",
                    "--out",
                    "m.setwise",
                    *(("--epochs", "1") if option != "--epochs" else ()),
                    option,
                    value,
                ),
            )
    battery.refused(
        "cli: tune varies an argument twice",
        lambda: cli(
            *("tune", csv(), *FLAGS, "--model", "sdw", "--trials", "1"),
            *("--vary", "dropout=0,0.1", "--vary", "dropout=0.2"),
        ),
        "dropout",
        "2 times",
    )
    battery.refused(
        "cli: an option that MNL does not have", lambda: fit(csv(), "--epochs", "3"), "epochs"
    )
    for option, values in {
        "--models": ("zz", "", "mnl,,random", "mnl,mnl", ","),
        "--splits": ("0", "-1", "x"),
        "--metric": ("zz", ""),
        "--split-by": ("group", "zz"),
        "--seed": ("-1", "99999999999"),
        "--trials": ("-1",),
        "--preset": ("zz",),
        "--report": (".", "gone/r.html", "r.pdf", "r.csv"),
    }.items():
        for value in values:
            battery.refused(
                f"cli: compare {option} {value!r}",
                lambda option=option, value=value: cli(
                    "compare",
                    csv(),
                    *FLAGS,
                    *(("--models", "mnl") if option != "--models" else ()),
                    *(("--splits", "2") if option != "--splits" else ()),
                    option,
                    value,
                ),
            )
    tune = ("--model", "sdw", "--epochs", "1")
    for option, values in {
        "--trials": ("0", "-1"),
        "--model": ("mnl", "zz"),
        "--vary": (
            "x",
            "foo=1,2",
            "dropout=2..1",
            "wiring=joint,foo",
            "dropout=0..2",
            "hidden=",
            "dropout=0..0.5 log",
            "dropout=nan..1",
            "=1",
            "dimension=2.5",
        ),
        "--storage": ("gone/x.sqlite", ".", "t.csv", "zz://x"),
        "--batch": ("0",),
        "--splits": ("0",),
        "--out": (".", "gone/m"),
        "--plot": (".", "gone/p.svg", "p.csv"),
    }.items():
        for value in values:
            battery.refused(
                f"cli: tune {option} {value!r}",
                lambda option=option, value=value: cli(
                    "tune",
                    csv(),
                    *FLAGS,
                    *(tune if option != "--model" else ()),
                    *(("--trials", "1") if option != "--trials" else ()),
                    option,
                    value,
                ),
            )
    for arguments in (
        ("evaluate", "gone.setwise", "t.csv"),
        ("evaluate", "t.csv", "t.csv"),
        ("evaluate", ".", "t.csv"),
        ("predict", "gone.setwise", "t.csv"),
        ("predict", "t.csv", "t.csv"),
        ("predict", "m.setwise", "gone.csv"),
        ("predict", "m.setwise", "t.csv", "--out", "p.xlsx"),
        ("predict", "m.setwise", "t.csv", "--out", "gone/p.csv"),
        ("predict", "m.setwise", "t.csv", "--out", "."),
        ("export", "gone.setwise", "--out", "m.onnx"),
        ("export", "t.csv", "--out", "m.onnx"),
        ("export", "m.setwise", "--out", "gone/m.onnx"),
        ("explain", "m.setwise", "t.csv", "--column", "zz"),
        ("explain", "m.setwise", "t.csv", "--column", "brand"),
        ("explain", "m.setwise", "t.csv", "--column", "cost", "--by", "zz"),
        ("explain", "m.setwise", "t.csv", "--column", "cost", "--times", "nan"),
        ("explain", "m.setwise", "t.csv", "--column", "cost", "--times", "x"),
        ("explain", "m.setwise", "t.csv", "--column", "cost", "--remove", "brand"),
        ("explain", "m.setwise", "t.csv", "--column", "cost", "--remove", "brand=pink"),
        ("explain", "m.setwise", "t.csv", "--column", "cost", "--where", "brand=red"),
        ("violations", "m.setwise", "t.csv", "--by", "zz"),
        ("violations", "m.setwise", "t.csv", "--decoy", "cost"),
        ("violations", "m.setwise", "t.csv", "--decoy", "cost,zz"),
        ("violations", "m.setwise", "t.csv", "--max-sets", "0"),
        ("violations", "m.setwise", "t.csv", "--group", "zz"),
        ("violations", "m.setwise", "t.csv", "--others", "gone.setwise"),
        ("theory", "rationalise"),
        ("theory", "rationalise", "zz"),
        ("theory", "rationalise", "ab:c"),
        ("theory", "rationalise", "--random", "0"),
        ("theory", "rationalise", "--random", "99"),
        ("theory", "rationalise", "ab:a", "--rho", "0"),
        ("datasets", "write", "zz", "--out", "x.csv"),
        ("datasets", "write", "decoy", "--sets", "0", "--out", "x.csv"),
        ("datasets", "write", "decoy", "--out", "x.xlsx"),
        ("datasets", "write", "decoy", "--out", "gone/x.csv"),
        ("datasets", "write", "decoy", "--seed", "-1", "--out", "x.csv"),
        ("datasets", "imitate", "zz", "--out", "x"),
        ("datasets", "imitate", "expedia", "--sets", "0", "--out", "x"),
        ("datasets", "imitate", "expedia", "--sets", "3", "--out", "t.csv"),
        ("datasets", "build", "expedia", "--raw", "gone", "--out", "x.setwise-data"),
        ("reproduce", "zz"),
        ("reproduce", "table1", "t.csv", "--out", "t.csv"),
        ("reproduce", "table1", "gone.csv"),
        ("reproduce", "table1", "t.csv", "--splits", "0"),
        ("serve", "gone.setwise"),
        ("serve", "t.csv"),
        ("serve", "m.setwise", "--port", "99999"),
        ("serve", "m.setwise", "--timeout", "-1"),
        ("serve", "m.setwise", "--token-file", "gone"),
        ("serve", "m.setwise", "--timeout", "nan"),
        ("evaluate", "t.csv", "m.setwise"),
        ("evaluate", "m.setwise", "t.csv", "t.csv"),
        ("evaluate", "m.setwise", "swissmetro"),
        ("evaluate", "m.setwise", "m.setwise"),
        ("predict", "m.setwise", "t.csv", "--out", "o.csv.gz"),
        ("predict", "m.setwise", "t.csv", "--out", "m.setwise/o.csv"),
        ("predict", "m.setwise", "t.csv", "--out", "/dev/null"),
        ("check", "t.csv"),
        ("check", "t.csv", "--set", "trip", "--chosen", "trip"),
        ("check", "t.csv", "--set", "trip", "--chosen", "taken", "--items", "log("),
        ("check", "m.setwise"),
        ("check", "t.csv", "--set", "trip", "--chosen", "taken", "--report", "r.pdf"),
        ("explain", "m.setwise", "t.csv", "--column", "cost", "--report", "r.docx"),
        ("explain", "m.setwise", "t.csv", "--column", "cost", "--times", "inf"),
        ("explain", "m.setwise", "t.csv", "--column", "cost", "--remove", "brand="),
        ("explain", "t.csv", "m.setwise", "--column", "cost"),
        ("violations", "m.setwise", "t.csv", "--report", "r.txt"),
        ("violations", "m.setwise", "t.csv", "--decoy", "cost,cost"),
        ("violations", "m.setwise", "t.csv", "--decoy", "cost,brand"),
        ("export", "m.setwise", "--out", "t.csv"),
        ("export", "m.setwise", "--out", "."),
        ("theory", "rationalise", "ab:a", "--report", "t.csv"),
        ("theory", "rationalise", "aa:a"),
        ("theory", "rationalise", "ab:a", "--random", "3"),
        ("theory", "rationalise", "ab:a", "--rho", "-1"),
        ("datasets", "write", "swissmetro", "--sets", "5", "--out", "x.csv"),
        ("datasets", "write", "swissmetro", "--seed", "5", "--out", "x.csv"),
        ("datasets", "write", "decoy", "--sets", "99999999999999", "--out", "x.csv"),
        ("datasets", "write", "decoy", "--sets", "1e3", "--out", "x.csv"),
        ("datasets", "write", "decoy", "--out", "t.csv/x.csv"),
        ("reproduce", "table1", "t.csv", *FLAGS, "--out", "t.csv"),
        ("serve", "m.setwise", "--port", "-1"),
        ("serve", "m.setwise", "--host", "zz.invalid"),
        ("serve", "m.setwise", "--token-file", "."),
        ("serve", "."),
        ("Fit", "t.csv"),
        ("help",),
        ("zz",),
        ("fit",),
        ("fit", "--zz"),
        ("models", "zz"),
    ):
        battery.refused(
            f"cli: {' '.join(arguments)}", lambda arguments=arguments: _with_files(*arguments)
        )


def _with_files(*arguments: str) -> Done:
    csv()
    model_file()
    return cli(*arguments)


def _outputs(battery: Battery) -> None:
    for arguments in (
        ("fit", "t.csv", *FLAGS, *MNL, "--out", "t.csv"),
        ("fit", "t.csv", *FLAGS, *MNL, "--out", "./t.csv"),
        ("fit", "t.csv", *FLAGS, *MNL, "--out", "link.csv"),
        ("check", "t.csv", "--set", "trip", "--report", "t.csv"),
        ("predict", "m.setwise", "t.csv", "--out", "t.csv"),
        ("predict", "m.setwise", "t.csv", "--out", "m.setwise"),
        ("explain", "m.setwise", "t.csv", "--column", "cost", "--report", "m.setwise"),
        ("explain", "m.setwise", "t.csv", "--column", "cost", "--report", "t.csv"),
        ("violations", "m.setwise", "t.csv", "--report", "m.setwise"),
        ("violations", "m.setwise", "t.csv", "--report", "t.csv"),
        ("export", "m.setwise", "--out", "m.setwise"),
        ("export", "m.setwise", "--out", "t.csv"),
        ("fit", "t.csv", *FLAGS, *MNL, "--out", "hard.csv"),
        ("predict", "m.setwise", "link.csv", "--out", "t.csv"),
        ("predict", "m.setwise", "t.csv", "--out", "hard.csv"),
        ("explain", "m.setwise", "t.csv", "--column", "cost", "--report", "link.csv"),
        ("theory", "rationalise", "ab:a", "--report", "t.csv"),
        ("compare", "t.csv", *FLAGS, "--models", "mnl", "--splits", "2", "--report", "t.csv"),
        (
            "tune",
            "t.csv",
            *FLAGS,
            "--model",
            "sdw",
            "--epochs",
            "1",
            "--trials",
            "1",
            "--out",
            "t.csv",
        ),
        (
            "tune",
            "t.csv",
            *FLAGS,
            "--model",
            "sdw",
            "--epochs",
            "1",
            "--trials",
            "1",
            "--plot",
            "t.csv",
        ),
        (
            "tune",
            "t.csv",
            *FLAGS,
            "--model",
            "sdw",
            "--epochs",
            "1",
            "--trials",
            "1",
            "--storage",
            "t.csv",
        ),
        ("theory", "model", "w.setwise", "t.csv", "--report", "w.setwise"),
        (
            "fit",
            "t.csv",
            *FLAGS,
            "--model",
            "sdw",
            "--epochs",
            "1",
            "--out",
            "x.setwise",
            "--checkpoint",
            "x.setwise",
        ),
    ):
        battery.right(
            f"cli: its own input: {' '.join(arguments)}",
            lambda arguments=arguments: _kept(*arguments),
            lambda kept: kept,
        )


def _kept(*arguments: str) -> bool:
    """Whether a command that would write over its input is refused, and the input is as it was."""
    import setwise as sw

    csv()
    model_file()
    quick().fit(read()).save("w.setwise")
    os.symlink("t.csv", "link.csv")
    os.link("t.csv", "hard.csv")
    names = ("t.csv", "m.setwise", "w.setwise")
    before = {name: Path(name).read_bytes() for name in names}
    try:
        cli(*arguments)
    except sw.InputError:
        return all(Path(name).read_bytes() == before[name] for name in names) and not list(
            Path().glob(".*part")
        )
    return False


def _working(battery: Battery) -> None:
    battery.right(
        "cli: --version", lambda: cli("--version"), lambda done: done.out.strip()[0].isalnum()
    )
    battery.right("cli: -h", lambda: cli("-h"), lambda done: "Usage" in done.out)
    battery.right("cli: fit -h", lambda: cli("fit", "-h"), lambda done: "Usage" in done.out)
    battery.right(
        "cli: datasets write -h",
        lambda: cli("datasets", "write", "-h"),
        lambda done: "Usage" in done.out,
    )
    battery.right(
        "cli: one split",
        lambda: cli("compare", csv(), *FLAGS, "--models", "mnl,random", "--splits", "1"),
        lambda done: "nan" not in done.out,
    )
    battery.right(
        "cli: one split as JSON",
        lambda: json.loads(
            cli("compare", csv(), *FLAGS, "--models", "mnl,random", "--splits", "1", "--json").out,
            parse_constant=_refuse,
        ),
        bool,
    )
    battery.right(
        "cli: split by group says so",
        lambda: cli(
            "compare",
            csv(),
            *FLAGS,
            "--group",
            "person",
            "--split-by",
            "group",
            "--models",
            "mnl,random",
            "--splits",
            "2",
        ),
        lambda done: "whole sets" not in done.out and "group" in done.out,
    )
    battery.right(
        "cli: fit as JSON",
        lambda: json.loads(fit(csv(), "--json").out, parse_constant=_refuse),
        bool,
    )
    battery.right(
        "cli: predict to the screen",
        lambda: _with_files("predict", "m.setwise", "t.csv"),
        lambda done: done.out.count("\n") == len(pandas()) + 1,
    )
    battery.warned(
        "cli: a column of predictions is replaced",
        lambda: (model_file(), cli("predict", "m.setwise", csv(probability=1.0)))[1],
        "probability",
    )
    battery.right(
        "cli: blank lines at the end",
        lambda: fit(text(good_csv() + "\n\n")),
        lambda done: done.code == 0,
    )
    battery.warned(
        "cli: a leak is said",
        lambda: cli(
            "fit",
            csv(paid=pandas()["taken"] * 2.0),
            "--set",
            "trip",
            "--chosen",
            "taken",
            "--items",
            "cost,paid",
            *MNL,
            "--out",
            "m",
        ),
        "paid",
    )


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
