"""A virtual environment of its own for each rival, made once under ``benchmarks/.envs``.

Rivals want other versions of shared packages than setwise does, and than each other; none of them
is a dependency of setwise. A further rival is one more entry in ``RIVALS``. Run as a script, this
makes all of them, or those named: ``python benchmarks/environments.py larch csrank``.
"""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / ".envs"

# A CPU build suffices, and saves gigabytes: where pip would take one with CUDA, point it at an
# index of CPU builds (PIP_EXTRA_INDEX_URL) before the first run.
TORCH = "torch==2.13.0"

# The steps of pip for each rival, in order.
RIVALS: dict[str, tuple[str, ...]] = {
    "torch": (f"install {TORCH} numpy optuna==5.0.0",),
    "xlogit": ("install xlogit==0.2.7",),
    # It asks for torchvision, whose build need not match that of PyTorch, and does not use it.
    "torch-choice": (f"install {TORCH} torch-choice==1.0.7", "uninstall --yes torchvision"),
    "choice-learn": (
        "install choice-learn==1.3.3 tensorflow==2.21.0 tensorflow-probability==0.25.0",
    ),
    "larch": ("install larch==6.0.46",),
    "torchdcm": (f"install {TORCH} torchdcm==0.1.2",),
    # Its own dependencies no longer install, and its neural models need no more than these.
    "csrank": (f"install {TORCH} skorch==1.4.0", "install --no-deps csrank==2.0.0rc2"),
}


def python_of(rival: str) -> Path | None:
    """The rival's Python, installed if need be; None, with a line that says why, if it fails."""
    home = FOLDER / rival
    python = home / "bin" / "python"
    stamp = home / "installed"
    wanted = "\n".join(RIVALS[rival])
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"making the environment of {rival} (once) ...", file=sys.stderr)
    pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    steps = [[*pip, *step.split()] for step in RIVALS[rival]]
    for command in ([sys.executable, "-m", "venv", "--clear", str(home)], *steps):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            reason = _reason(done)
            print(f"{rival} does not install, going on without it: {reason}", file=sys.stderr)
            return None
    stamp.write_text(wanted)
    return python


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr or done.stdout).strip().splitlines()
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or [f"exit status {done.returncode}"])[-1]


if __name__ == "__main__":
    for name in sys.argv[1:] or RIVALS:
        print(f"{name}: {python_of(name) or 'not installed'}")
