"""Audit models of Swissmetro, and print the table of docs/audit.md: python docs/audit_table.py"""

import warnings
from collections.abc import Sequence

import setwise as sw
from setwise._page import PageTable, as_markdown_table
from setwise.auditing import Audit

SIGNS = {"time": -1, "cost": -1, "headway": -1}
MODES = ["is_train", "is_sm", "is_car"]
SEED = 100
MODELS = {
    "`MNL()`": sw.MNL(),
    "`BoostedLogit()`": sw.BoostedLogit(),
    "`BoostedLogit(monotone=)`": sw.BoostedLogit(monotone=SIGNS),
    "`SDA()`": sw.SDA(),
    "`SDA(monotone=)`": sw.SDA(monotone=SIGNS),
    "`Auto()`": sw.Auto(),
    "`Auto(monotone=)`": sw.Auto(monotone=SIGNS),
}
HEADS = ("model", "NLL", *(f"wrong {name}" for name in SIGNS), "turns", "copies", "regularity",
         "calibration", "verdict")  # fmt: skip


def row(name: str, nll: float, found: Audit) -> Sequence[str]:
    """One line of the table: shares of sets in per cent, and the largest gap of calibration."""
    signs = [f"{100 * one.share:.1f} %" for one in found.of("sign")]
    turns = max(one.share for one in found.of("beyond the range"))
    (copies,), (regularity,) = found.of("duplicates"), found.of("regularity")
    gap = max(one.size for one in found.of("calibration"))
    shares = [f"{100 * one:.1f} %" for one in (turns, copies.share, regularity.share)]
    return [name, f"{nll:.4f}", *signs, *shares, f"{100 * gap:.1f}", found.verdict]


def main() -> None:
    """Fit each model to half of the sets, and audit it on the last quarter."""
    warnings.simplefilter("ignore")
    train, valid, test = sw.split(sw.datasets.load("swissmetro"), seed=SEED)
    rows = []
    for name, model in MODELS.items():
        model.fit(train, valid, progress=False)
        found = sw.audit(model, test, SIGNS, by=MODES)
        rows.append(row(name, model.evaluate(test).nll, found))
        print(found, "\n", flush=True)
    print(as_markdown_table(PageTable(HEADS, rows)))


if __name__ == "__main__":
    main()
