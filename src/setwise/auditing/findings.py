"""What an audit finds: one finding per check and column, each with a verdict, and all together."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float

from setwise._arguments import check_all, number
from setwise._page import notebook_html

Verdict = Literal["ok", "look", "fail"]
NOTHING = 1e-4
"""Changes of a probability below this are never counted."""
VERDICTS: tuple[Verdict, ...] = ("ok", "look", "fail")
"""From the best to the worst."""

CHECKS: Mapping[str, str] = {
    "sign": "Raising a column moves the item's own probability the way that is expected.",
    "willingness to pay": "What one more of a column is worth, in units of price, is not extreme.",
    "beyond the range": "Outside the observed range a column goes on as it did within.",
    "duplicates": "A copy of an item brings no more, and no less, than it does in a logit.",
    "regularity": "No item gains a probability because another one joins it.",
    "calibration": "What is predicted with 70 % is chosen in 70 % of the sets.",
}
"""The checks in their order, each with what it asks."""


@dataclass(frozen=True)
class AuditLimits:
    """Where a finding ends to be fine. Shares are of the sets that a check looks at.

    Args:
        noticeable: a change of a probability by less than this share of itself, or by less than
            0.0001, is not counted.
        look: a share above this is worth a look.
        fail: a share above this fails, in checks that can fail.
        gap: a difference between what was predicted and what was chosen that is worth a look, if
            it is more than ``errors`` standard errors too; twice as much fails.
        errors: standard errors beyond which a gap is no chance.

    >>> AuditLimits().counts(np.array([0.5, 0.5]), np.array([-0.004, -0.006])).tolist()
    [False, True]
    """

    noticeable: float = 0.01
    look: float = 0.02
    fail: float = 0.10
    gap: float = 0.03
    errors: float = 4.0

    def __post_init__(self) -> None:
        share, above = number(least=0, most=1), number(above=0)
        check_all({"noticeable": share, "look": share, "fail": share, "gap": share,
                   "errors": above}, vars(self))  # fmt: skip

    def counts(
        self, before: Float[np.ndarray, "*n"], change: Float[np.ndarray, "*n"]
    ) -> Bool[np.ndarray, "*n"]:
        """Whether changes of probabilities are large enough to count."""
        found: Bool[np.ndarray, "*n"] = np.abs(change) > np.maximum(
            self.noticeable * before, NOTHING
        )
        return found

    def of_share(self, share: float, can_fail: bool) -> Verdict:
        """The verdict on a share of sets in which something is wrong."""
        if can_fail and share > self.fail:
            return "fail"
        return "look" if share > self.look else "ok"


@dataclass(frozen=True)
class AuditExample:
    """One item of one set in which something was found."""

    set: str
    row: int
    """In the table; -1 if it is not known."""
    what: str
    before: float
    after: float


@dataclass(frozen=True)
class AuditFinding:
    """What one check says of one column, or of one group of sets."""

    check: str
    """A name of :data:`CHECKS`."""
    subject: str
    """The column or the group; empty if it is all sets."""
    verdict: Verdict
    share: float
    """Of the sets in which it was found (of the items, for willingness to pay); NaN where nothing
    could be checked. For calibration: of the sets that are in the group."""
    size: float
    """How large it is where it was found, in probabilities if the sentence says nothing else."""
    sentence: str
    examples: tuple[AuditExample, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)
    """The numbers behind it, by name."""

    def __str__(self) -> str:
        subject = f" '{self.subject}'" if self.subject else ""
        return f"{self.verdict:<4}  {self.check}{subject}: {self.sentence}"


@dataclass(frozen=True)
class Audit:
    """What an audit of a model found; ``print`` and notebooks show it.

    :meth:`to_json` is for programs, :func:`setwise.reports.write_audit` writes a page.

    >>> fine = AuditFinding("sign", "price", "ok", 0.0, 0.0, "falls where it should.")
    >>> found = Audit("MNL", "2 sets", 2, {"price": -1}, {}, None, AuditLimits(), (fine,))
    >>> found.verdict, found.at_least("look")
    ('ok', ())
    """

    model: str
    data: str
    sets: int
    signs: Mapping[str, int]
    """The signs that were given."""
    guessed: Mapping[str, int]
    """Signs that are guessed from names of columns: those of questions."""
    price: str | None
    limits: AuditLimits
    findings: tuple[AuditFinding, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst of all findings."""
        return max((one.verdict for one in self.findings), key=VERDICTS.index, default="ok")

    def at_least(self, verdict: Verdict) -> tuple[AuditFinding, ...]:
        """The findings that are so bad, or worse."""
        worst = VERDICTS.index(verdict)
        return tuple(one for one in self.findings if VERDICTS.index(one.verdict) >= worst)

    def of(self, check: str) -> tuple[AuditFinding, ...]:
        """The findings of one check."""
        return tuple(one for one in self.findings if one.check == check)

    def to_frame(self) -> Any:
        """A Polars frame, one row per finding: check, subject, verdict, share, size, sentence."""
        import polars as pl

        names = ("check", "subject", "verdict", "share", "size", "sentence")
        columns = {name: [getattr(one, name) for one in self.findings] for name in names}
        kinds = {name: pl.Float64 if name in ("share", "size") else pl.String for name in names}
        return pl.DataFrame(columns, schema=kinds).fill_nan(None)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        plain = asdict(self) | {"verdict": self.verdict}
        plain["findings"] = [asdict(one) for one in self.findings]
        return plain

    def headline(self) -> str:
        """The verdict in one sentence."""
        count = {one: sum(f.verdict == one for f in self.findings) for one in VERDICTS}
        words = {
            "fail": f"{count['fail']} of {len(self.findings)} findings fail",
            "look": f"no finding fails; {count['look']} of {len(self.findings)} are worth a look",
            "ok": f"all {len(self.findings)} findings are fine",
        }
        return f"{self.model}: {self.verdict} ({words[self.verdict]})"

    def rows(self) -> Sequence[tuple[str, str, str, str]]:
        """The findings as text, under ``HEADS``."""
        return [(one.verdict, one.check, one.subject, one.sentence) for one in self.findings]

    def __str__(self) -> str:
        lines = [f"{self.headline()}, {self.sets:,} sets"]
        return "\n".join([*lines, *map(str, self.findings)])

    def _repr_html_(self) -> str:
        return notebook_html(HEADS, [list(row) for row in self.rows()], title=self.headline(),
                             kind="")  # fmt: skip


HEADS = ("verdict", "check", "of", "what was found")
