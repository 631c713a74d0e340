"""A virtual environment of its own for each rival, made once under ``benchmarks/.envs``.

Rivals want other versions of shared packages than setwise does, and than each other; none of them
is a dependency of setwise. A further rival is one more entry in ``RIVALS``.
"""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / ".envs"

RIVALS: dict[str, tuple[str, ...]] = {
    # A CPU build suffices, and saves gigabytes: where pip would take one with CUDA, point it at an
    # index of CPU builds (PIP_EXTRA_INDEX_URL) before the first run.
    "torch": ("torch==2.13.0", "numpy"),
    "xlogit": ("xlogit", "numpy"),
}


def python_of(rival: str) -> Path | None:
    """The rival's Python, installed if need be; None, with a line that says why, if it fails."""
    home = FOLDER / rival
    python = home / "bin" / "python"
    stamp = home / "installed"
    wanted = "\n".join(RIVALS[rival])
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"installing {', '.join(RIVALS[rival])} (once) ...", file=sys.stderr)
    make = [sys.executable, "-m", "venv", "--clear", str(home)]
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in (make, [*install, *RIVALS[rival]]):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            print(
                f"{rival} does not install, going on without it: {_reason(done)}", file=sys.stderr
            )
            return None
    stamp.write_text(wanted)
    return python


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr or done.stdout).strip().splitlines()
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or [f"exit status {done.returncode}"])[-1]


if __name__ == "__main__":
    for name in RIVALS:
        print(f"{name}: {python_of(name) or 'not installed'}")
