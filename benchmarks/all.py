"""Run every benchmark, one after another: all scripts here whose names end in ``_speed.py``.

Options are handed on: ``--write`` keeps the figures in RESULTS.md, ``--quick`` is a smoke test.
"""

import subprocess
import sys
from pathlib import Path

import report


def scripts() -> list[Path]:
    return sorted(Path(__file__).parent.glob("*_speed.py"))


def main() -> None:
    report.options(__doc__)  # a wrong option ends here, before anything runs
    failed = [
        script.name
        for script in scripts()
        if subprocess.run([sys.executable, str(script), *sys.argv[1:]]).returncode != 0
    ]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
