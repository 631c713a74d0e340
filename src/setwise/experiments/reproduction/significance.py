"""Do methods differ by more than the splits? Friedman's test, and SDA against each other one."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from setwise.experiments import statistics
from setwise.experiments.reproduction.protocol import SIZES
from setwise.experiments.reproduction.results import Method, Setting
from setwise.experiments.reproduction.tables import (
    RANK,
    TOP1,
    Measure,
    Measured,
    Row,
    Table,
    Value,
    display_name,
    setting_name,
)
from setwise.metrics import HIGHER_IS_BETTER

MEASURES = (TOP1, RANK)
LEVEL = 0.05
TEST_TO_TRAINING = SIZES[-1] / SIZES[0]
REFERENCE = "sda"
MARK = "†"


@dataclass(frozen=True, eq=False)
class Together:
    """One measure of some methods on the splits of a setting that all of them have."""

    measure: Measure
    models: tuple[str, ...]
    values: Float[np.ndarray, "models splits"]

    @property
    def splits(self) -> int:
        """How many splits are compared."""
        return self.values.shape[1]

    def places(self) -> Float[np.ndarray, " models"]:
        """Mean places over the splits, 1 for the best."""
        return statistics.mean_places(self.values, HIGHER_IS_BETTER[self.measure.name])

    def critical_difference(self) -> float:
        """Nemenyi's, of mean places."""
        return statistics.critical_difference(len(self.models), self.splits, LEVEL)

    def against(self, model: str) -> dict[str, tuple[Value, Value]]:
        """Each other method's difference from this one in the table's units, and Holm's p.

        p is of the corrected resampled t-test, since random splits overlap.
        """
        base = self.values[self.models.index(model)]
        others = [one for one in self.models if one != model]
        differences = [self.values[self.models.index(one)] - base for one in others]
        raw = [statistics.paired_p(one, TEST_TO_TRAINING) for one in differences]
        return {
            one: (
                Value(
                    self.measure.unit * float(difference.mean()),
                    self.measure.unit * statistics.standard_error(difference),
                    f"+.{self.measure.digits}f",
                ),
                Value(p, form=".2g"),
            )
            for one, difference, p in zip(others, differences, statistics.holm(raw), strict=True)
        }


def together(
    measured: Measured, setting: Setting, models: Sequence[str], measure: Measure
) -> Together | None:
    """What can be compared; None for fewer than two methods."""
    found = {
        model: splits
        for model in models
        if (splits := measured.splits(setting, Method(model), measure.name))
    }
    if len(found) < 2:
        return None
    shared = sorted(set.intersection(*(set(splits) for splits in found.values())))
    values = np.array([[splits[one] for one in shared] for splits in found.values()], float)
    return Together(measure, tuple(found), values)


def significance(
    measured: Measured, key: str, models: Sequence[str]
) -> tuple[list[Table], list[str]]:
    """Tables of tests for every setting, and a sentence for each where nothing can be tested."""
    overall, pairs, untested = [], [], []
    for setting in measured.settings:
        both = [together(measured, setting, models, measure) for measure in MEASURES]
        family = [one for one in both if one is not None]
        if not family:
            continue
        if family[0].splits < 2:
            untested.append(
                f"{setting_name(setting)}: the methods have {('no', 'one')[family[0].splits]} "
                "split in common, and nothing can be tested without two."
            )
            continue
        overall += [_friedman_row(setting, one) for one in family]
        pairs.append(_pairs(setting, family, f"{key}_pairs"))
    return ([_friedman_table(overall, f"{key}_friedman")] if overall else []) + pairs, untested


def _friedman_row(setting: Setting, one: Together) -> Row:
    found = statistics.friedman(one.values)
    test = (None, None) if found is None else (Value(found[0]), Value(found[1], form=".2g"))
    counts = (Value(float(len(one.models)), form=".0f"), Value(float(one.splits), form=".0f"))
    difference = Value(one.critical_difference())
    return Row(setting_name(setting), one.measure.heading, (*counts, *test, difference))


def _friedman_table(rows: Sequence[Row], key: str) -> Table:
    columns = ("methods", "splits", "χ²", "p", "critical difference")
    return Table(
        key,
        "Friedman's test that all methods are equal",
        "measure",
        tuple(("", name) for name in columns),
        tuple(rows),
        (
            "Methods are ranked on every split. The critical difference of mean places is "
            f"Nemenyi's at {100 * LEVEL:g} %. Both tests take splits for independent; random "
            "splits of the same sets overlap, so that they are too sure of themselves. The "
            "comparisons below are corrected for it.",
        ),
    )


def _pairs(setting: Setting, family: Sequence[Together], key: str) -> Table:
    """A row for each method, from the first place down."""
    first = family[0]
    order = [first.models[i] for i in np.argsort(first.places(), kind="stable")]
    base = display_name(REFERENCE)
    compared = REFERENCE in first.models
    names = ("place", *((f"less {base}", "p") if compared else ()))
    cells: dict[str, list[Value | None]] = {model: [] for model in order}
    for one in family:
        places = dict(zip(one.models, one.places().tolist(), strict=True))
        against = one.against(REFERENCE) if compared else {}
        for model in order:
            far = compared and abs(places[model] - places[REFERENCE]) > one.critical_difference()
            cells[model].append(Value(places[model], mark=MARK if far else ""))
            cells[model] += against.get(model, (None, None)) if compared else ()
    notes = ["Place: of a method among the others, 1 for the best; the mean over the splits."]
    if compared:
        notes.append(
            f"Less {base}: the method's value less that of {base} on the same splits, ± its "
            "standard error; p: corrected resampled t-test (Nadeau and Bengio) with Holm's "
            f"correction. {MARK} Further from {base} than the critical difference."
        )
    return Table(
        key,
        f"{base} against each method: {setting_name(setting)}" if compared
        else f"Mean places: {setting_name(setting)}",
        "method",
        tuple((one.measure.heading, name) for one in family for name in names),
        tuple(Row("", display_name(model), tuple(cells[model])) for model in order),
        tuple(notes),
    )  # fmt: skip
