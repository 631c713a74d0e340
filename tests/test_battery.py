"""The battery of bad inputs: no silent wrong answer, no error that does not say what is wrong."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROOMS = ("tables", "formats", "arguments", "commands", "files")


def run(*rooms: str) -> dict[str, dict[str, tuple[bool, str]]]:
    """What happened with the cases of some modules, in a process without shape checks."""
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, TESTS / "battery.py", "--json", "--rooms", *rooms],
        capture_output=True, text=True, timeout=1200, env=os.environ | {"PYTHONPATH": path},
    )  # fmt: skip
    assert done.stdout, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def every_case():
    """All modules in one process: they share its libraries, models and programs."""
    return run(*ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_every_bad_input_is_refused_clearly_or_answered_rightly(room, every_case):
    found = every_case[room]
    assert {name: happened for name, (sound, happened) in found.items() if not sound} == {}
    assert len(found) >= 50


def test_a_defect_would_be_seen():
    """The battery itself: each kind of defect is called one."""
    found = {
        name.removeprefix("self-test: "): happened
        for name, (sound, happened) in run("self_test")["self_test"].items()
        if not sound
    }
    assert sorted(found) == ["a check that fails", "an unclear error", "no refusal", "no warning"]
    assert found["an unclear error"].startswith("UNCLEAR")
    assert found["no refusal"].startswith("SILENT")
    assert found["no warning"].startswith("SILENT")
    assert found["a check that fails"].startswith("WRONG")
