"""Counts and times of a service as Prometheus reads them, added up over its processes."""

from collections.abc import Iterator
from itertools import accumulate

import numpy as np

from setwise._shapes import Int

ROUTES = (
    "/v1/predict", "/v1/explain", "/v1/model", "/healthz", "/readyz", "/metrics", "/openapi.json",
    "/", "/page", "other",
)  # fmt: skip
STATUSES = (200, 304, 400, 401, 404, 405, 408, 413, 415, 422, 431, 500, 503, 0)
"""0 stands for all others."""
SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper ends of the latency histogram's buckets; one more has no end."""
EVENTS = ("sets", "loads", "failed_loads", "in_flight", "loaded_at")
COUNTERS = len(ROUTES) * (len(STATUSES) + len(SECONDS) + 2) + len(EVENTS)
"""How many numbers a process needs."""

_ROUTE = {name: place for place, name in enumerate(ROUTES)}
_STATUS = {status: place for place, status in enumerate(STATUSES)}
_EVENT = {name: place for place, name in enumerate(EVENTS)}
_BUCKETS = np.array(SECONDS)


class ServiceMetrics:
    """The counts of one process, in memory that all processes of a service share.

    >>> metrics = ServiceMetrics()
    >>> metrics.answered("/v1/predict", 200, 0.003)
    >>> metrics.add("sets", 2)
    >>> [line for line in metrics.text().splitlines() if line.startswith("setwise_sets")]
    ['setwise_sets_scored_total 2']
    """

    def __init__(
        self, counts: Int[np.ndarray, "processes counters"] | None = None, process: int = 0
    ):
        self._counts = np.zeros((1, COUNTERS), np.int64) if counts is None else counts
        self._requests, self._times, self._events = _parts(self._counts[process])
        self._events[_EVENT["in_flight"]] = 0  # what a process that died in this place had

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Count an answer; the route is that of the path, or "other"."""
        place = _ROUTE[route]
        self._requests[place, _STATUS.get(status, len(STATUSES) - 1)] += 1
        times = self._times[place]
        times[_BUCKETS.searchsorted(seconds)] += 1
        times[-1] += int(seconds * 1e9)

    def add(self, event: str, count: int = 1) -> None:
        """Count an event (one of :data:`EVENTS`)."""
        self._events[_EVENT[event]] += count

    def set(self, event: str, value: int) -> None:
        """Set a value that is not a count."""
        self._events[_EVENT[event]] = value

    def text(self) -> str:
        """All processes' counts in Prometheus' text format."""
        requests, times, events = _parts(self._counts.sum(0))
        latest = max(_parts(row)[2][_EVENT["loaded_at"]] for row in self._counts)
        named = dict(zip(EVENTS, events.tolist(), strict=True)) | {"loaded_at": int(latest)}
        return "\n".join([*_requests(requests), *_seconds(times), *_events(named), ""])


def _parts(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Requests by route and status, times by route (a bucket each, then their sum), events."""
    routes = len(ROUTES)
    split, end = routes * len(STATUSES), len(counts) - len(EVENTS)
    return (
        counts[:split].reshape(routes, -1), counts[split:end].reshape(routes, -1), counts[end:]
    )  # fmt: skip


def _requests(counts: np.ndarray) -> Iterator[str]:
    yield "# HELP setwise_requests_total Requests by route and status."
    yield "# TYPE setwise_requests_total counter"
    for route, row in zip(ROUTES, counts.tolist(), strict=True):
        for status, count in zip(STATUSES, row, strict=True):
            if count:
                text = str(status or "other")
                yield f'setwise_requests_total{{route="{route}",status="{text}"}} {count}'


def _seconds(counts: np.ndarray) -> Iterator[str]:
    yield "# HELP setwise_request_seconds From a request's first byte to its answer."
    yield "# TYPE setwise_request_seconds histogram"
    for route, row in zip(ROUTES, counts.tolist(), strict=True):
        *buckets, nanoseconds = row
        if not any(buckets):
            continue
        for end, count in zip((*SECONDS, "+Inf"), accumulate(buckets), strict=True):
            yield f'setwise_request_seconds_bucket{{route="{route}",le="{end}"}} {count}'
        yield f'setwise_request_seconds_sum{{route="{route}"}} {nanoseconds / 1e9}'
        yield f'setwise_request_seconds_count{{route="{route}"}} {sum(buckets)}'


def _events(events: dict[str, int]) -> Iterator[str]:
    for name, kind, what, event in (
        ("setwise_sets_scored_total", "counter", "Sets scored.", "sets"),
        ("setwise_model_loads_total", "counter", "Model files taken into service.", "loads"),
        ("setwise_model_load_failures_total", "counter", "Model files refused.", "failed_loads"),
        ("setwise_requests_in_flight", "gauge", "Requests not answered yet.", "in_flight"),
        ("setwise_model_loaded_timestamp_seconds", "gauge", "When it was loaded.", "loaded_at"),
    ):  # fmt: skip
        yield f"# HELP {name} {what}"
        yield f"# TYPE {name} {kind}"
        yield f"{name} {events[event]}"
