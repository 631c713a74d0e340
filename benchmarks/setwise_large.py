"""One step of setwise with large data, in a process of its own: its seconds and peak memory."""

import argparse
import time
from pathlib import Path
from typing import Any

import side
from report import emit, timed, versions

BATCH_SIZE = 4096
VALIDATION = 0.01
SEED = 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", choices=STEPS)
    parser.add_argument("arguments", nargs="*", help="what the step takes, in its order")
    given = parser.parse_args()
    found = STEPS[given.step](*given.arguments)
    emit({**found, "memory": side.memory(), "versions": versions("setwise", "jax", "polars")})


def generate(name: str, raw: str, sets: str) -> dict[str, Any]:
    """Raw files of this many sets."""
    from setwise import paper

    seconds, _ = timed(lambda: paper.imitate(name, raw, int(sets), seed=SEED))
    return {"seconds": seconds}


def build(name: str, raw: str, out: str) -> dict[str, Any]:
    """The data file from raw files."""
    import polars  # noqa: F401 (before the clock starts, as on the other side)

    from setwise import paper

    seconds, choices = timed(lambda: paper.build(name, raw, out))
    kept = {"sets": len(choices), "rows": int(choices.offsets[-1])}
    return {"seconds": seconds, "bytes": Path(out).stat().st_size, **kept}


def open_file(path: str) -> dict[str, Any]:
    """A data file that this process has not seen before."""
    from setwise.choices import open_choices

    seconds, _ = timed(lambda: open_choices(path))
    return {"seconds": seconds}


def train(path: str) -> dict[str, Any]:
    """Two epochs of SDA, as its ``fit`` trains it, and when each ended: the first one compiles."""
    import jax.numpy as jnp

    import setwise as sw
    from setwise.training import fit, resident_or_streamed

    training, valid = sw.split(sw.open_choices(path), (1 - VALIDATION, VALIDATION), seed=SEED)
    learning, (schema, seen) = timed(lambda: sw.Schema.learn(training))
    how = sw.Training(epochs=2, batch_size=BATCH_SIZE, dropout=0.0)
    sda = sw.SDA.paper(training=how, seed=SEED)
    model = sda.blueprint.initial(schema.width, sda.sizes(), jnp.uint32(SEED))
    moments = [time.perf_counter()]
    result = fit(
        model, resident_or_streamed(seen), resident_or_streamed(schema.over(valid)),
        sda.training_options, SEED,
        on_epoch=lambda record: moments.append(time.perf_counter()),
    )  # fmt: skip
    began, compiled, ended = moments
    return {
        "sets": len(training),
        "schema_seconds": learning,
        "first_seconds": compiled - began,
        "seconds": ended - compiled,
        "nll": result.history[-1]["nll"],
    }


STEPS = {"generate": generate, "build": build, "open": open_file, "train": train}


if __name__ == "__main__":
    main()
