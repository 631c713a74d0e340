"""Who does independent jobs: this process, one after the other, or workers elsewhere.

A job is a value, and the work on it a function of a module: ``work(job, tell)`` returns what was
found, and may tell how far it is meanwhile. What many jobs need (a table, a model) is put once,
and travels in jobs as a parcel. A crew may lose a worker; then it asks for the job anew and does
it again, and its result comes once all the same.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, runtime_checkable

Tell = Callable[[Any], None]
"""Called by work with whatever it has to tell."""

Work = Callable[[Any, Tell], Any]
"""From a job to its result. It is a function of a module: other processes find it by its name."""

OnTold = Callable[[int, Any], None]
"""Called here with the number of a job and what its work told."""


@runtime_checkable
class Parcel(Protocol):
    """A value that many jobs need."""

    def open(self) -> Any:
        """The value; in one process always the same object, or an equal one."""

    def __hash__(self) -> int: ...


@runtime_checkable
class Crew(Protocol):
    """Those who work."""

    def put(self, value: Any) -> Parcel:
        """Make a parcel of a value."""

    def workers(self) -> int:
        """How many jobs are done at a time."""

    def each(
        self, work: Work, jobs: int, job: Callable[[int], Any], on_told: OnTold
    ) -> Iterator[tuple[int, Any]]:
        """Do so many jobs; their numbers and results come as they end, each number once.

        Args:
            work: what to do with a job.
            jobs: how many there are.
            job: gives the job of a number, when it begins and again if its worker is lost: by
                then it may begin further on.
            on_told: called with what work tells.
        """


@dataclass(frozen=True)
class Kept:
    """A parcel that never leaves this process."""

    value: Any

    def open(self) -> Any:
        return self.value


class Alone:
    """A crew of one: this process does the jobs in their order.

    >>> def doubled(job, tell):
    ...     return 2 * job
    >>> list(Alone().each(doubled, 3, lambda number: 10 * number, print))
    [(0, 0), (1, 20), (2, 40)]
    """

    def put(self, value: Any) -> Kept:
        """The value itself."""
        return Kept(value)

    def workers(self) -> int:
        """One."""
        return 1

    def each(
        self, work: Work, jobs: int, job: Callable[[int], Any], on_told: OnTold
    ) -> Iterator[tuple[int, Any]]:
        """One after the other."""
        for number in range(jobs):
            yield number, work(job(number), partial(on_told, number))
