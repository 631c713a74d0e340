"""The engine's settings: a GPU chooses its kernels without timing, and nothing minds the flags."""

import os
import subprocess
import sys

import pytest

from setwise._engine import choose_kernels_without_timing

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
    choose_kernels_without_timing(environment)
    assert environment == {"XLA_FLAGS": after}


def test_jax_takes_the_flags_silently_even_after_training_was_imported():
    """JAX ends a process that has a flag it does not know."""
    code = (
        "import os, setwise.training, jax\n"
        "setwise._engine.choose_kernels_without_timing()\n"
        "print(os.environ['XLA_FLAGS'], int(jax.numpy.ones(3).sum()))"
    )
    clean = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=clean, capture_output=True, text=True, check=True
    )
    assert (done.stdout.strip(), done.stderr) == (f"{BOTH} 3", "")
