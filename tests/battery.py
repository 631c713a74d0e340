"""Bad inputs as users bring them, and good ones that look bad: what must happen with each.

A case is a call with what is expected of it. There are three classes:

- ``refused``: an :class:`setwise.InputError` (on the command line: exit code 2 and one line) whose
  sentence holds the given words;
- ``warned``: the call works, with a warning that holds the given words;
- ``right``: the call works, and a check of its result holds.

``either`` takes a refusal or a right answer. Everything else is a defect: a silent wrong answer, or
an error that does not say what is wrong.

Cases run in one process without the shape checks of ``conftest.py``, which users do not have.
``python tests/battery.py [words]`` runs the cases whose names hold the words.
"""

import argparse
import contextlib
import importlib
import io
import json
import os
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import setwise as sw

SENTENCE = 600
"""The most characters of an error. A list of known values may make it long."""


@dataclass(frozen=True)
class Case:
    """One call, and what must happen."""

    name: str
    run: Callable[[], Any]
    expected: str
    words: tuple[str, ...] = ()
    check: Callable[[Any], bool] | None = None


@dataclass
class Battery:
    """All cases, by name."""

    cases: dict[str, Case] = field(default_factory=dict)

    def refused(self, name: str, run: Callable[[], Any], *words: str) -> None:
        """The call must be refused, with these words in the sentence."""
        self._add(Case(name, run, "refused", words))

    def warned(self, name: str, run: Callable[[], Any], *words: str) -> None:
        """The call must work and warn, with these words."""
        self._add(Case(name, run, "warned", words))

    def right(self, name: str, run: Callable[[], Any], check: Callable[[Any], bool]) -> None:
        """The call must work, and its result must pass the check."""
        self._add(Case(name, run, "right", check=check))

    def either(
        self, name: str, run: Callable[[], Any], check: Callable[[Any], bool], *words: str
    ) -> None:
        """The call must be refused with these words, or give a result that passes the check."""
        self._add(Case(name, run, "either", words, check))

    def _add(self, case: Case) -> None:
        assert case.name not in self.cases, f"two cases are named {case.name}"
        self.cases[case.name] = case


@dataclass(frozen=True)
class Refused:
    """What the command line said when it refused."""

    line: str


@dataclass(frozen=True)
class Done:
    """What the command line printed when it worked."""

    out: str
    err: str
    code: int


class Unclear(Exception):
    """The command line failed without a clear sentence."""


def cli(*arguments: object) -> Done:
    """Run a command in this process; a refusal becomes the error it stands for."""
    from setwise.cli import main

    out, err = io.StringIO(), io.StringIO()
    before, code = sys.argv, 0
    sys.argv = ["setwise", *map(str, arguments)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    finally:
        sys.argv = before
    said = err.getvalue()
    if code == 2:
        lines = [line for line in said.splitlines() if line.startswith("error: ")]
        if "No such option" in said and "--zz" not in arguments:
            raise Unclear(f"the case has an option that is gone: {said}")
        if "Usage:" in said:  # of an option that typer itself refuses
            raise sw.InputError(" ".join(said.split()))
        if len(lines) != 1 or out.getvalue():
            raise Unclear(f"out: {out.getvalue()!r} err: {said!r}")
        raise sw.InputError(lines[0].removeprefix("error: "))
    if code not in (0, 1) or (code == 1 and "Traceback" in said):
        raise Unclear(f"code {code}, out: {out.getvalue()!r} err: {said!r}")
    return Done(out.getvalue(), said, code)


def outcome(case: Case) -> tuple[bool, str]:
    """Whether a case went as it must, and what happened."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        os.chdir(folder)
        try:
            result = case.run()
        except sw.InputError as error:
            return _refusal(case, str(error))
        except Exception as error:
            text = "".join(traceback.format_exception(error)[-2:])
            return False, f"UNCLEAR {type(error).__name__}: {error} | {text}"
        finally:
            os.chdir(here)
    said = [str(one.message) for one in raised if issubclass(one.category, UserWarning)]
    if isinstance(result, Done):
        said += [line for line in result.err.splitlines() if line.startswith("warning: ")]
    if case.expected == "refused":
        return False, f"SILENT: {_short(result)} {said}"
    if case.expected == "warned":
        heard = any(all(word in one for word in case.words) for one in said)
        return heard, f"warned {said}" if heard else f"SILENT: {_short(result)} {said}"
    assert case.check is not None
    try:
        sound = bool(case.check(result))
    except Exception as error:
        return False, f"WRONG: the check failed with {type(error).__name__}: {error}"
    return sound, "right" if sound else f"WRONG: {_short(result)} {said}"


def _refusal(case: Case, sentence: str) -> tuple[bool, str]:
    if case.expected not in ("refused", "either"):
        return False, f"REFUSED, but it is sound: {sentence}"
    missing = [word for word in case.words if word not in sentence]
    if missing:
        return False, f"UNCLEAR, without {missing}: {sentence}"
    if len(sentence) > SENTENCE and "Usage:" not in sentence:
        return False, f"UNCLEAR, {len(sentence)} characters: {sentence}"
    return True, f"refused: {sentence}"


def _short(value: Any) -> str:
    line = " ".join(repr(value).split())
    return line[:300]


ROOMS = ("tables", "formats", "arguments", "commands", "files")


def cases(room: str) -> dict[str, Case]:
    """The cases of one module, or those that show that a defect is seen."""
    battery = Battery()
    if room == "self_test":
        _self_test(battery)
    else:
        importlib.import_module(f"battery_{room}").add(battery)
    return battery.cases


def _self_test(battery: Battery) -> None:
    def refuse() -> None:
        raise sw.InputError("x=3 must be 4")

    battery.refused("self-test: a refusal", refuse, "x=3")
    battery.refused("self-test: an unclear error", lambda: {}["x"])
    battery.refused("self-test: no refusal", lambda: 3)
    battery.warned("self-test: no warning", lambda: 3, "leak")
    battery.right("self-test: a check that fails", lambda: 3, lambda found: found == 4)
    battery.right("self-test: a check that holds", lambda: 3, lambda found: found == 3)


def main() -> int:
    """Run the cases that the arguments name; 1 if there is a defect."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wanted", nargs="*", help="words of the names of cases")
    parser.add_argument("--rooms", nargs="+", default=ROOMS, help="modules of cases")
    parser.add_argument("--json", action="store_true", help="print one object")
    given = parser.parse_args()
    found: dict[str, dict[str, tuple[bool, str]]] = {}
    for room in given.rooms:
        found[room] = {}
        for name, case in cases(room).items():
            if all(word in name for word in given.wanted):
                began = time.perf_counter()
                sound, happened = found[room][name] = outcome(case)
                if not given.json:
                    seconds = time.perf_counter() - began
                    mark = "  ok " if sound else "FAIL "
                    print(mark, f"{seconds:.1f} s", name, "--", happened, flush=True)
    sounds = [sound for room in found.values() for sound, _ in room.values()]
    defects = sounds.count(False)
    print(json.dumps(found) if given.json else f"{len(sounds)} cases, {defects} defects")
    return min(defects, 1)


if __name__ == "__main__":
    os.environ["JAX_PLATFORMS"] = "cpu"
    sys.exit(importlib.import_module("battery").main())  # whose classes the cases use
