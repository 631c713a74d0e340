"""Counts and times of a service as Prometheus reads them, added up over its processes."""

from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from setwise._shapes import Int

ROUTES = (
    "/v1/models", "/v2", "/v2/health/live", "/v2/health/ready", "/healthz", "/readyz", "/metrics",
    "/openapi.json", "/", "/page", "other",
)  # fmt: skip
OF_MODELS = (
    "/v1/predict", "/v1/explain", "/v1/decide", "/v1/model", "/v2/infer", "/v2/models"
)  # fmt: skip
"""Routes that each model has."""
STATUSES = (200, 304, 400, 401, 404, 405, 408, 413, 415, 421, 422, 500, 503, 0)
"""0 stands for all others."""
SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper ends of the latency histogram's buckets; one more has no end."""
CUTS = ("unread", "arriving", "late", "crowded")
"""Why connections are closed: the answer was not read, the body held memory for too long, the
request did not end in time, or there were too many connections."""
GAUGES = ("in_flight", "connections")
EVENTS = ("sets", "loads", "failed_loads", "loaded_at", *CUTS, *GAUGES)

_STATUS = {status: place for place, status in enumerate(STATUSES)}
_EVENT = {name: place for place, name in enumerate(EVENTS)}
_BUCKETS = np.array(SECONDS)


class Series(NamedTuple):
    """What requests are counted by: the route, and the model where the route has one."""

    route: str
    model: str = ""

    @property
    def labels(self) -> str:
        """As Prometheus writes it."""
        name = self.model.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
        return f'route="{self.route}"' + (f',model="{name}"' if name else "")


def all_series(models: tuple[str, ...]) -> list[Series]:
    """Everything that requests to these models are counted by."""
    plain = [Series(route) for route in ROUTES]
    return plain + [Series(route, model) for model in models for route in OF_MODELS]


def counters(models: tuple[str, ...]) -> int:
    """How many numbers a process needs.

    >>> counters(("hotels",))
    520
    """
    return len(all_series(models)) * (len(STATUSES) + len(SECONDS) + 2) + len(EVENTS)


class ServiceMetrics:
    """The counts of one process, in memory that all processes of a service share.

    >>> metrics = ServiceMetrics(("hotels",))
    >>> metrics.answered(Series("/v1/predict", "hotels"), 200, 0.003)
    >>> metrics.add("sets", 2)
    >>> [line for line in metrics.text().splitlines() if line.startswith("setwise_sets")]
    ['setwise_sets_scored_total 2']
    """

    def __init__(
        self,
        models: tuple[str, ...],
        counts: Int[np.ndarray, "processes counters"] | None = None,
        process: int = 0,
    ):
        self._series = all_series(models)
        self._place = {one: place for place, one in enumerate(self._series)}
        self._counts = np.zeros((1, counters(models)), np.int64) if counts is None else counts
        self._requests, self._times, self._events = self._parts(self._counts[process])
        for gauge in GAUGES:  # what a process that died in this place had
            self.set(gauge, 0)

    def answered(self, series: Series, status: int, seconds: float) -> None:
        """Count an answer."""
        place = self._place[series]
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
        requests, times, events = self._parts(self._counts.sum(0))
        latest = max(self._parts(row)[2][_EVENT["loaded_at"]] for row in self._counts)
        named = dict(zip(EVENTS, events.tolist(), strict=True)) | {"loaded_at": int(latest)}
        lines = [*_requests(self._series, requests), *_seconds(self._series, times)]
        return "\n".join([*lines, *_events(named), ""])

    def _parts(self, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Requests by status, times (a bucket each, then their sum), events."""
        rows = len(self._series)
        split, end = rows * len(STATUSES), len(counts) - len(EVENTS)
        return (
            counts[:split].reshape(rows, -1), counts[split:end].reshape(rows, -1), counts[end:]
        )  # fmt: skip


def _requests(series: list[Series], counts: np.ndarray) -> Iterator[str]:
    yield "# HELP setwise_requests_total Requests by route, model and status."
    yield "# TYPE setwise_requests_total counter"
    for one, row in zip(series, counts.tolist(), strict=True):
        for status, count in zip(STATUSES, row, strict=True):
            if count:
                text = str(status or "other")
                yield f'setwise_requests_total{{{one.labels},status="{text}"}} {count}'


def _seconds(series: list[Series], counts: np.ndarray) -> Iterator[str]:
    yield "# HELP setwise_request_seconds From a request's first byte to its answer."
    yield "# TYPE setwise_request_seconds histogram"
    for one, row in zip(series, counts.tolist(), strict=True):
        *buckets, nanoseconds = row
        if not any(buckets):
            continue
        for end, count in zip((*SECONDS, "+Inf"), accumulate(buckets), strict=True):
            yield f'setwise_request_seconds_bucket{{{one.labels},le="{end}"}} {count}'
        yield f"setwise_request_seconds_sum{{{one.labels}}} {nanoseconds / 1e9}"
        yield f"setwise_request_seconds_count{{{one.labels}}} {sum(buckets)}"


def _events(events: dict[str, int]) -> Iterator[str]:
    for name, kind, what, event in (
        ("setwise_sets_scored_total", "counter", "Sets scored.", "sets"),
        ("setwise_model_loads_total", "counter", "Model files taken into service.", "loads"),
        ("setwise_model_load_failures_total", "counter", "Model files refused.", "failed_loads"),
        ("setwise_requests_in_flight", "gauge", "Requests not answered yet.", "in_flight"),
        ("setwise_connections", "gauge", "Connections that are open.", "connections"),
        ("setwise_model_loaded_timestamp_seconds", "gauge", "When it was loaded.", "loaded_at"),
    ):  # fmt: skip
        yield f"# HELP {name} {what}"
        yield f"# TYPE {name} {kind}"
        yield f"{name} {events[event]}"
    yield "# HELP setwise_connections_cut_total Connections that were closed, and why."
    yield "# TYPE setwise_connections_cut_total counter"
    for why in CUTS:
        yield f'setwise_connections_cut_total{{why="{why}"}} {events[why]}'
