"""A limit on the bytes that connections hold together; whoever holds them longest gives way."""

from collections.abc import Callable


class Quota:
    """Bytes by holder. If there are more than the limit, the oldest holders have to give way.

    Were newcomers refused instead, a few slow clients could keep all others out. One alone may
    hold any number of bytes.

    >>> quota = Quota(100)
    >>> for name in ("first", "second", "third"):
    ...     quota.hold(name, 40, lambda name=name: print(name, "gives way"))
    first gives way
    >>> quota.total
    80
    """

    def __init__(self, most: int):
        self.most, self.total = most, 0
        self._held: dict[object, tuple[int, Callable[[], None]]] = {}

    def hold(self, holder: object, size: int, give_way: Callable[[], None]) -> None:
        """Set the bytes of a holder; it keeps its place among the others."""
        before, _ = self._held.get(holder, (0, None))
        self._held[holder] = size, give_way
        self.total += size - before
        while self.total > self.most and len(self._held) > 1:
            oldest = next(iter(self._held))
            _, tell = self._held[oldest]
            self.release(oldest)
            tell()

    def release(self, holder: object) -> None:
        """The holder has nothing any more."""
        size, _ = self._held.pop(holder, (0, None))
        self.total -= size
