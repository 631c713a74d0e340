"""What a cluster costs: 200 short cells by two Ray workers on this machine, and without Ray.

    python benchmarks/cluster_overhead.py [TIMES]

Each side runs in a process of its own, in turn; medians of TIMES (default 5). The local path is
``setwise.comparison.compare`` as ``setwise compare`` calls it; the other is the same call with the
executor of a local cluster. Starting Ray, which a cluster that runs has done, is counted apart.
"""

import json
import statistics
import subprocess
import sys

MODELS, SPLITS = ("mnl", "sdw"), 100

SIDE = """
import json, sys, time
import setwise as sw
from setwise.comparison import compare

choices = sw.datasets.load("modecanada").sample(400, 0)
sdw = sw.SDW(dimension=4, hidden=8, training=sw.Training(epochs=10))
models = {"mnl": sw.MNL(), "sdw": sdw}
begin = time.perf_counter()
if sys.argv[1] == "local":
    result = compare(models, choices, splits=int(sys.argv[2]))
    start, end = begin, time.perf_counter()
else:
    from setwise.cluster import executor_on
    with executor_on("local") as executor:
        start = time.perf_counter()
        result = compare(models, choices, splits=int(sys.argv[2]), executor=executor)
        end = time.perf_counter()
nll = float(result.values("nll").sum())
print(json.dumps({"cells": len(result.cells), "seconds": end - start, "to_start": start - begin,
                  "nll": nll}))
"""


def side(which: str) -> dict[str, float]:
    command = [sys.executable, "-c", SIDE, which, str(SPLITS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    found: dict[str, list[dict[str, float]]] = {"local": [], "cluster": []}
    for _ in range(times):
        for which in found:
            found[which].append(side(which))
    assert len({one["nll"] for side in found.values() for one in side}) == 1, "results differ"
    seconds = {name: [one["seconds"] for one in side] for name, side in found.items()}
    median = {name: statistics.median(values) for name, values in seconds.items()}
    for name, values in seconds.items():
        shown = ", ".join(f"{one:.1f}" for one in values)
        print(f"{name:8} median {median[name]:6.2f} s ({shown})")
    start = statistics.median(one["to_start"] for one in found["cluster"])
    print(f"starting Ray: {start:.1f} s; ratio {median['cluster'] / median['local']:.2f}")


if __name__ == "__main__":
    main()
