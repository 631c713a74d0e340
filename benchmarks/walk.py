"""How many files and functions of setwise a common call goes through.

``python benchmarks/walk.py`` runs each call once to warm up and once under ``sys.setprofile``, and
prints how many files and how many functions of the package were entered, per call. A walk that
grows longer is harder to follow. ``--list NAME`` prints the files and functions of one walk.
"""

import argparse
import asyncio
import contextlib
import io
import json
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import setwise as sw
from setwise.cli import app

PACKAGE = str(Path(sw.__file__).parent)
AIMS = {
    "read": (10, 33),
    "fit": (24, 120),
    "predict_proba": (10, None),
    "save": (12, None),
    "load": (12, None),
    "compare": (20, None),
    "request": (10, None),
    "predict file": (18, None),
}
"""Files and functions that a walk should stay within."""


@contextlib.contextmanager
def walked() -> Iterator[set[CodeType]]:
    """The named functions of the package that are entered inside, on any thread."""
    found: set[CodeType] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE) and code.co_name[0] != "<":
            found.add(code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def calls(folder: Path) -> dict[str, Callable[[], Any]]:
    """The calls by name, on a small table and a small model."""
    drawn = sw.datasets.generate("mnl", sets=60, seed=0)
    table, model = folder / "trips.parquet", folder / "trips.setwise"
    drawn.table.write_parquet(table)
    roles = drawn.choices.roles
    reading = {"set": roles.set, "chosen": roles.chosen}
    choices = sw.read(table, **reading)
    train, valid, test = sw.split(choices, seed=0)
    network = sw.SDA(ensemble=1, dimension=2, training=sw.Training(epochs=2))
    network.fit(train, validation=valid)
    logit = sw.MNL().fit(train)
    logit.save(model)
    return {
        "read": lambda: sw.read(table, **reading),
        "fit": lambda: network.fit(train, validation=valid),
        "predict_proba": lambda: network.predict_proba(test),
        "save": lambda: network.save(folder / "sda.setwise"),
        "load": lambda: sw.load(folder / "sda.setwise"),
        "compare": lambda: sw.compare(["mnl"], choices, splits=1),
        "request": _request(model, drawn.table),
        "predict file": lambda: app(
            ["predict", str(model), str(table), "--out", str(folder / "out.parquet")],
            standalone_mode=False,
        ),
    }


def _request(model: Path, table: Any) -> Callable[[], Any]:
    """A request for predictions to a service in this process, without a network."""
    from setwise.server import Service, Settings, application

    served, runner = application(Service(Settings((model,)))), asyncio.Runner()
    items = [
        {name: row[name] for name in row if name.startswith("x")} for row in table[:2].to_dicts()
    ]
    body = json.dumps({"sets": [{"items": items}]}).encode()
    scope = {
        "type": "http", "method": "POST", "path": "/v1/predict", "raw_path": b"/v1/predict",
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
        "scheme": "http", "http_version": "1.1", "root_path": "", "server": ("walk", 80),
        "client": ("walk", 1),
        "asgi": {"version": "3.0"},
    }  # fmt: skip

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        assert message.get("status", 200) == 200, message

    return lambda: runner.run(served(scope, receive, send))


def walks(names: list[str] | None = None) -> dict[str, set[CodeType]]:
    """The functions that each call enters."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, call in calls(Path(folder)).items():
            if names is None or name in names or name == "save":  # which "load" reads
                with contextlib.redirect_stdout(io.StringIO()):
                    call()
                    with walked() as found[name]:
                        call()
    return found


def files(functions: set[CodeType]) -> set[str]:
    """The files that these functions are in, below the package."""
    return {str(Path(one.co_filename).relative_to(PACKAGE)) for one in functions}


def main() -> None:
    """Print the walks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", choices=AIMS, help="print the functions of one walk")
    wanted = parser.parse_args().list
    for name, functions in walks(None if wanted is None else [wanted]).items():
        if wanted not in (None, name):
            continue
        most_files, most_functions = AIMS[name]
        aim = f"aim {most_files}" + (f" / {most_functions}" if most_functions else "")
        print(f"{name:14} {len(files(functions)):3} files {len(functions):4} functions  ({aim})")
        if wanted:
            for one in sorted(functions, key=lambda one: (one.co_filename, one.co_firstlineno)):
                print(f"  {Path(one.co_filename).relative_to(PACKAGE)}  {one.co_qualname}")


if __name__ == "__main__":
    main()
