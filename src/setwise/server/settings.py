"""Settings of a service: the models, limits, the token, and the hosts that it answers for."""

import math
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from setwise._errors import InputError

EXPLAINED_ITEMS = 200
"""The most items of a set to explain: the work and the answer grow with their square."""
DECIDED_ITEMS = 100
"""The most items of which some are to be shown: a search scores thousands of sets of them."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Limits:
    """Limits on the size and time of a request, on requests at once and on connections.

    A process answers at most ``max_waiting`` bodies of ``max_body`` bytes at a time. Bodies that
    are still arriving hold at most ``max_held`` bytes, and so do answers that nobody reads.
    """

    max_body: int = 16 * 1024**2
    max_sets: int = 10_000
    max_items: int = 1_000
    timeout: int | float = 10.0
    max_waiting: int = 64
    max_connections: int = 1_000

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 < value < math.inf:
                option = name.replace("_", "-")
                raise InputError(f"--{option} must be positive and finite, not {value}")

    @property
    def max_explained(self) -> int:
        """The largest set that can be explained, in items."""
        return min(self.max_items, EXPLAINED_ITEMS)

    @property
    def max_decided(self) -> int:
        """The most items of which some are to be shown."""
        return min(self.max_items, DECIDED_ITEMS)

    @property
    def max_held(self) -> int:
        """The most bytes of bodies that arrive, and of answers that wait for their readers."""
        return 4 * self.max_body


@dataclass(frozen=True)
class Settings:
    """Settings of a service: model files, a second model to compare with, limits and access.

    A model's name is that of its file without the ending; the first one is the default.

    >>> Settings((Path("a/trips.setwise"), Path("hotels.setwise"))).names
    ('trips', 'hotels')
    """

    models: tuple[Path, ...]
    reference: Path | None = None
    limits: Limits = field(default_factory=Limits)
    token: str | None = field(default=None, repr=False)
    allowed_hosts: tuple[str, ...] = ()
    """Names of the service besides those of the loopback; "*" for all names."""
    drain: int | float = 1.0
    """Seconds for which a process that is asked to end still takes requests."""
    access_log: bool = False

    def __post_init__(self) -> None:
        if self.token is not None and not (self.token.isascii() and self.token.strip()):
            raise InputError("the token must be plain ASCII and not empty; choose another one")
        if not self.models:
            raise InputError("there is no model to serve; name at least one model file")
        for name in self.names:
            if self.names.count(name) > 1:
                raise InputError(
                    f"two model files are named '{name}', which would be the name of both models; "
                    "rename one of the files"
                )
        if self.reference is not None and len(self.models) > 1:
            raise InputError(
                "--reference goes with one model; serve the others in a service of their own"
            )
        if not 0 <= self.drain < math.inf:
            raise InputError(f"--drain must be a number of seconds from 0 on, not {self.drain}")

    @property
    def names(self) -> tuple[str, ...]:
        """The models' names."""
        return tuple(path.stem for path in self.models)


@dataclass(frozen=True)
class Hosts:
    """The hosts that a service answers for; a page of another site cannot pretend to be one.

    Without this check, a name that an attacker points at 127.0.0.1 would let his pages read what
    the service answers (DNS rebinding).

    >>> hosts = Hosts.of(("models.example",))
    >>> [hosts.include(one) for one in (b"LocalHost:80", b"models.example", b"evil.example", b"")]
    [True, True, False, False]
    """

    names: frozenset[bytes]
    everyone: bool

    @classmethod
    def of(cls, allowed: tuple[str, ...]) -> "Hosts":
        """The loopback's names and these."""
        names = [*LOOPBACK, *allowed]
        return cls(frozenset(one.strip("[]").lower().encode() for one in names), "*" in allowed)

    def include(self, host: bytes) -> bool:
        """Whether to answer a request with this ``Host``; its port does not count."""
        if self.everyone:
            return True
        name = host[1:].partition(b"]")[0] if host.startswith(b"[") else host.partition(b":")[0]
        return name.lower() in self.names


def is_loopback(host: str) -> bool:
    """Whether only programs of the same machine reach a service at this address.

    >>> [is_loopback(one) for one in ("localhost", "127.0.0.2", "::1", "0.0.0.0", "a.example")]
    [True, True, True, False, False]
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
