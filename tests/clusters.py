"""Real Ray clusters of two nodes on this machine, small and short-lived, and jobs for them.

Workers import it, so it imports nothing heavy.
"""

import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from setwise._errors import InputError
from setwise._executor import ignore_message

SMALL = {"num_cpus": 1, "object_store_memory": 100_000_000}
# A dead node is known after some seconds, not after half a minute.
QUICK_TO_NOTICE = {"health_check_period_ms": 1000, "health_check_failure_threshold": 5}
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


@contextmanager
def two_nodes() -> Iterator[Any]:
    """A cluster of two nodes with one processor each, to which this process is connected."""
    import ray
    from ray.cluster_utils import Cluster

    before = dict(os.environ)
    here = str(Path(__file__).parent)  # where workers find the jobs of tests
    path = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
    os.environ.update(ENVIRONMENT | {"PYTHONPATH": path})
    head = SMALL | {"include_dashboard": False, "_system_config": QUICK_TO_NOTICE}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        cluster.add_node(**SMALL)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()
        os.environ.clear()
        os.environ.update(before)


def other_node(cluster: Any) -> Any:
    """A node that is not the head: it may die, and this process goes on."""
    return next(node for node in cluster.list_all_nodes() if node is not cluster.head_node)


def kill(cluster: Any, node: Any) -> None:
    """End all processes of a node at once, as if its machine had lost power."""
    cluster.remove_node(node, allow_graceful=False)


class Counting:
    """An executor that counts how often each job is sent, and how many were sent again.

    Its jobs take a moment longer, so that a node that is killed has work.
    """

    def __init__(self, executor, pause=0.0):
        self._executor, self._pause, self.sent, self.again = executor, pause, [], 0
        self.shares_disk = executor.shares_disk

    def put(self, value):
        return self._executor.put(value)

    def workers(self):
        return self._executor.workers()

    def map_unordered(self, function, count, job, on_message=ignore_message):
        before = set()

        def counted(number):
            self.sent.append(number)
            self.again += number in before
            before.add(number)
            return job(number)

        slower = partial(paused, self._pause, function)
        return self._executor.map_unordered(slower, count, counted, on_message)


# Jobs, as workers know them


def paused(seconds, function, job, send):
    time.sleep(seconds)
    return function(job, send)


def greeting(job, send):
    send(f"about to greet {job}")
    return f"hello {job}", os.getpid()


def meeting(job, send):
    """Ends when all have begun: one after the other they never would."""
    folder, number, everyone = job
    (folder / str(number)).touch()
    end = time.monotonic() + 60
    while len(list(folder.iterdir())) < everyone and time.monotonic() < end:
        time.sleep(0.05)
    assert len(list(folder.iterdir())) == everyone, "the others never began"
    return os.getpid()


def complaining(job, send):
    warnings.warn("this is odd", UserWarning, stacklevel=1)
    raise InputError("column 'price' is missing")


def warning(job, send):
    warnings.warn("this is odd", UserWarning, stacklevel=1)
    warnings.warn("this is odd", UserWarning, stacklevel=1)
    return job


def sleeping(job, send):
    send("asleep")
    time.sleep(60)


def last(job, send):
    """Ends its own process, the first few times."""
    path, times = job
    path.write_text(path.read_text() + "." if path.exists() else ".")
    if len(path.read_text()) <= times:
        os._exit(1)
    return "done"


def opened(job, send):
    shared, number = job
    return float(shared.get()[number])
