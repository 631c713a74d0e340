"""How long a step of training takes on one process and on several of this machine.

    python benchmarks/training_together.py --processes 1 2

Processes on one machine share its cores: what several cost here is the sum over processes beside
half the computing each. The gradient goes over the loopback device. Also: what planning an epoch
costs a set, which every process does for all sets.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import time

SETS, ITEMS, FEATURES, EPOCHS = 20_000, 10, 8, 6


def one_process(address: str, processes: int, place: int, batch: int) -> None:
    from setwise.cluster.training import join

    if processes > 1:
        join(address, processes, place)
    import equinox as eqx
    import jax
    import numpy as np

    import setwise as sw

    made = sw.datasets.generate("sda", sets=SETS, items=ITEMS, features=FEATURES, seed=0)
    train, valid = sw.split(made.choices, (0.99, 0.01))
    estimator = sw.SDA.paper(training=sw.Training(epochs=EPOCHS, batch_size=batch))
    moments: list[float] = []
    from setwise.training.trainer import Trainer

    trained = Trainer._trained

    def timed(*arguments):
        begun = time.perf_counter()
        after = trained(*arguments)
        jax.block_until_ready(after.state)
        moments.append(time.perf_counter() - begun)
        return after

    Trainer._trained = timed
    estimator.fit(train, valid)
    steps = -(-len(train) // batch)
    parameters = sum(
        leaf.size for leaf in jax.tree.leaves(eqx.filter(estimator.model_, eqx.is_array))
    )
    if place == 0:
        answer = {
            "processes": processes, "batch": batch, "parameters": int(parameters),
            "bytes_of_a_sum": 4 * (int(parameters) + 2),
            "ms_a_step": 1000 * float(np.min(moments[1:])) / steps,
        }  # fmt: skip
        print("ANSWER " + json.dumps(answer))


def on(processes: int, batch: int) -> dict:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    started = [
        subprocess.Popen(
            [sys.executable, __file__, "--one", address, str(processes), str(place), str(batch)],
            stdout=subprocess.PIPE, text=True, env=os.environ,
        )
        for place in range(processes)
    ]  # fmt: skip
    told = [one.communicate(timeout=600)[0] for one in started]
    line = next(line for line in told[0].splitlines() if line.startswith("ANSWER "))
    return json.loads(line.removeprefix("ANSWER "))


def planning(sets: int, processes: int) -> dict:
    """Seconds a million sets for the plan of an epoch, and for a process's share of it."""
    import numpy as np

    from setwise.training.processes import Group
    from setwise.training.shards import ShardPlan, Streamed

    source = Streamed.__new__(Streamed)
    source._sizes = np.full(sets, ITEMS, np.int32)
    source._train = range(sets)
    source.widths, source.batch_size = (ITEMS,), 8192
    source._sets_a_shard, source._steps = 24 * 8192, 24
    source._group, source._rows, source._sets = Group(processes, 1), 0, 0
    begun = time.perf_counter()
    plan: ShardPlan = source._plan(0, 0)
    planned = time.perf_counter()
    source._shared(plan)
    return {
        "plan_s_a_million_sets": 1e6 * (planned - begun) / sets,
        "share_s_a_million_sets": 1e6 * (time.perf_counter() - planned) / sets,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--batches", type=int, nargs="+", default=[128, 1024, 8192])
    parser.add_argument("--one", nargs=4)
    given = parser.parse_args()
    if given.one:
        address, *numbers = given.one
        one_process(address, *map(int, numbers))
        return
    for batch in given.batches:
        for processes in given.processes:
            print(json.dumps(on(processes, batch)), flush=True)
    print(json.dumps(planning(5_000_000, 64)))


if __name__ == "__main__":
    main()
