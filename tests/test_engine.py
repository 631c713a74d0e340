"""The engine's settings: flags of the compiler, which nothing minds."""

import os
import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from setwise._engine import SAME_KERNELS, add_flags

BOTH = "--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, BOTH),
        ("", BOTH),
        ("--xla_dump_to=here", f"--xla_dump_to=here {BOTH}"),
        (BOTH, BOTH),
        (
            "--xla_gpu_enable_triton_gemm=true",
            "--xla_gpu_enable_triton_gemm=true --xla_gpu_autotune_level=0",
        ),
        ("flags.txt", "flags.txt"),
    ],
)
def test_flags_are_added_unless_they_are_there_or_in_a_file(before, after):
    environment = {} if before is None else {"XLA_FLAGS": before}
    add_flags(SAME_KERNELS, environment)
    assert environment == {"XLA_FLAGS": after}


def test_jax_takes_the_flags_silently_even_after_models_were_imported():
    """JAX ends a process that has a flag it does not know."""
    code = (
        "import os, setwise.models, jax\n"
        "setwise._engine.add_flags(setwise._engine.SAME_KERNELS)\n"
        "print(os.environ['XLA_FLAGS'], int(jax.numpy.ones(3).sum()))"
    )
    done = _alone(code)
    assert done.stdout.strip().endswith(f"{BOTH} 3")
    assert done.stderr == ""


def test_a_cpu_compiles_soon_unless_the_user_wants_otherwise():
    code = "import os, setwise.models; print(os.environ['XLA_FLAGS'])"
    flag = "--xla_backend_optimization_level"
    assert _alone(code).stdout.strip() == f"{flag}=1"
    assert _alone(code, XLA_FLAGS=f"{flag}=3").stdout.strip() == f"{flag}=3"


def _alone(code, **variables):
    """What a process prints in which nothing is set, on a machine without an accelerator."""
    if entry_points(group="jax_plugins"):
        pytest.skip("JAX has a plugin for an accelerator here, and takes its flags")
    clean = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"} | variables
    return subprocess.run(
        [sys.executable, "-c", code], env=clean, capture_output=True, text=True, check=True
    )
