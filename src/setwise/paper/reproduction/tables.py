"""Tables of a reproduction: means over splits, and tests whether methods differ."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from setwise._page import PageTable, StyledCell
from setwise.comparison import statistics
from setwise.comparison.statistics import standard_error
from setwise.metrics import HIGHER_IS_BETTER
from setwise.models import ZOO
from setwise.paper import published_results
from setwise.paper.reproduction.protocol import (
    ABLATION,
    CLASSICAL,
    SIZES,
    Method,
    MethodResult,
    Results,
    Setting,
)


@dataclass(frozen=True)
class Value:
    """A number of a table, with its standard error where it has one.

    ``form`` is its format; ``best`` says that nothing in its column is better; ``mark`` is the sign
    of a footnote.

    >>> str(Value(31.489, 0.21)), str(Value(-1.5, 0.3, form="+.1f", mark="*"))
    ('31.49 ± 0.21', '-1.5 ± 0.3*')
    """

    mean: float
    error: float | None = None
    form: str = ".2f"
    best: bool = False
    mark: str = ""

    @property
    def shown(self) -> str:
        """The mean as it is written."""
        return f"{self.mean:{self.form}}"

    def __str__(self) -> str:
        error = "" if self.error is None else f" ± {self.error:{self.form.lstrip('+')}}"
        return f"{self.shown}{error}{self.mark}"


@dataclass(frozen=True)
class ResultRow:
    """A row of a table with one cell per column; an empty cell is None."""

    group: str
    name: str
    cells: tuple[Value | None, ...]


@dataclass(frozen=True)
class ResultTable:
    """A table for people and programs.

    Args:
        key: its name in the CSV file.
        title: the heading above it.
        stub: what its rows are, such as "method".
        columns: group and name of each column.
        rows: the rows; those of a group follow one another.
        notes: text below the table.
    """

    key: str
    title: str
    stub: str
    columns: tuple[tuple[str, str], ...]
    rows: tuple[ResultRow, ...]
    notes: tuple[str, ...] = ()

    def block(self) -> PageTable:
        """The table as text, for a page."""
        column_groups = [group for group, _ in self.columns]
        row_groups = [row.group for row in self.rows]
        return PageTable(
            (self.stub, *(name for _, name in self.columns)),
            [(row.name, *map(_cell, row.cells)) for row in self.rows],
            title=self.title,
            notes=self.notes,
            column_groups=("", *column_groups) if any(column_groups) else (),
            row_groups=row_groups if any(row_groups) else (),
            named_rows=True,
        )

    def numbers(self) -> Iterator[tuple[tuple[str, ...], Value]]:
        """Every number with its place: key, title, row group, row, column group, column."""
        for row in self.rows:
            for (group, name), cell in zip(self.columns, row.cells, strict=True):
                if cell is not None:
                    yield (self.key, self.title, row.group, row.name, group, name), cell


def _cell(value: Value | None) -> StyledCell:
    return StyledCell() if value is None else StyledCell(str(value), bold=value.best)


@dataclass(frozen=True)
class Measure:
    """A measure as tables show it: in units of ``1 / unit``, so 100 for per cent."""

    name: str
    heading: str
    unit: int
    digits: int

    def value(self, values: Sequence[float]) -> Value:
        """The mean over splits and its standard error; no error for a single one."""
        array = self.unit * np.array(values)
        error = None if len(array) < 2 else standard_error(array)
        return Value(float(array.mean()), error, f".{self.digits}f")


TOP1 = Measure("top1", "top-1 %", 100, 2)
RANK = Measure("mean_rank", "mean rank", 1, 2)
KAPPA = Measure("kappa", "κ", 1, 4)
PAPER_MEASURES = (TOP1, Measure("top5", "top-5 %", 100, 2), RANK)
OWN_MEASURES = (Measure("mrr", "MRR", 1, 4), Measure("nll", "NLL", 1, 4), KAPPA)


class Measured:
    """The outcomes of a reproduction, by setting, method and measure."""

    def __init__(self, results: Results) -> None:
        self.settings = sorted(
            results.settings,
            key=lambda one: ([s.data for s in results.settings].index(one.data), one.max_items),
        )
        self._outcomes: dict[tuple[str, int, Method], list[MethodResult]] = {}
        for one in results.outcomes:
            self._outcomes.setdefault((one.data, one.max_items, one.method), []).append(one)

    def least(self) -> list[Setting]:
        """The setting with the smallest sets of each data set, as in the paper's Table 1."""
        first: dict[str, Setting] = {}
        for one in self.settings:
            first.setdefault(one.data, one)
        return list(first.values())

    def of_data(self) -> list[list[Setting]]:
        """The settings of each data set, from small to large sets."""
        return [[one for one in self.settings if one.data == s.data] for s in self.least()]

    def splits(self, setting: Setting, method: Method, measure: str) -> dict[int, float]:
        """One measure of a method on every split of a setting that has it."""
        found = self._outcomes.get((setting.data, setting.max_items, method), [])
        values = {
            one.split: one.kappa if measure == "kappa" else one.metrics.get(measure)
            for one in sorted(found, key=lambda one: one.split)
        }
        return {split: value for split, value in values.items() if value is not None}

    def value(self, setting: Setting, method: Method, measure: Measure) -> Value | None:
        """The mean over splits with its error; None where nothing was measured."""
        found = self.splits(setting, method, measure.name)
        return measure.value(list(found.values())) if found else None


def setting_name(setting: Setting) -> str:
    """The data set and its greatest size.

    >>> setting_name(Setting("Expedia", 10, 50_000, 10_000, 7.5, 8))
    'Expedia (n ≤ 10)'
    """
    return f"{setting.data} (n ≤ {setting.max_items})"


def display_name(model: str) -> str:
    """The paper's name of a model; for the classical ones, that of the article they come from.

    >>> [display_name(model) for model in ("deep_sets", "tversky", "orhun", "krs", "lam")]
    ['Deep Sets', 'Tversky 1969', 'Orhun 2009', 'Kalai et al. 2002', 'Kivetz et al. 2004 (LAM)']
    """
    for theirs, ours in published_results.METHODS.items():
        if ours == model:
            return theirs
    if model not in CLASSICAL:
        return model
    shared = Counter(ZOO[one].about.reference for one in CLASSICAL)
    reference = ZOO[model].about.reference
    authors, year = reference.rsplit(" ", 1)
    name = f"{authors.partition(',')[0]} et al. {year}" if "," in authors else reference
    return f"{name} ({model.upper()})" if shared[reference] > 1 else name


def grid(
    measured: Measured,
    key: str,
    title: str,
    settings: Sequence[Setting],
    groups: Mapping[str, Sequence[str]],
    measures: Sequence[Measure],
    notes: Sequence[str] = (),
) -> ResultTable | None:
    """Methods in rows, settings and measures in columns; None where nothing was measured.

    Rows and columns without any value are left out.
    """
    columns = [(setting, measure) for setting in settings for measure in measures]
    found = {
        (group, model): [beside_chance(measured, s, model, measure) for s, measure in columns]
        for group, models in groups.items()
        for model in models
    }
    rows = {place: cells for place, cells in found.items() if any(cells)}
    kept = [i for i in range(len(columns)) if any(cells[i] for cells in rows.values())]
    if not rows:
        return None
    columns = [columns[i] for i in kept]
    table = [
        ResultRow(group, display_name(model), tuple(cells[i] for i in kept))
        for (group, model), cells in rows.items()
    ]
    splits = [
        len(measured.splits(s, Method(model), measure.name))
        for _, model in rows
        for s, measure in columns
    ]
    said = [f"{spread_note(splits)} Best of its column: bold.", *notes]
    if any(cell.mark for row in table for cell in row.cells if cell is not None):
        said.append(CHANCE_NOTE)
    if any(model == "sda" for _, model in rows):
        said.append(SDA_NOTE)
    return ResultTable(
        key,
        title,
        "method",
        tuple((setting_name(s), measure.heading) for s, measure in columns),
        _with_best(table, [HIGHER_IS_BETTER.get(measure.name) for _, measure in columns]),
        tuple(said),
    )


def beside_chance(
    measured: Measured, setting: Setting, model: str, measure: Measure
) -> Value | None:
    """A method's value, marked where Random's is better."""
    value = measured.value(setting, Method(model), measure)
    chance = measured.value(setting, Method("random"), measure)
    higher = HIGHER_IS_BETTER.get(measure.name)
    if value is None or chance is None or higher is None:
        return value
    worse = value.mean < chance.mean if higher else value.mean > chance.mean
    return replace(value, mark=WORSE_THAN_CHANCE) if worse else value


def _with_best(rows: Sequence[ResultRow], higher: Sequence[bool | None]) -> tuple[ResultRow, ...]:
    """Mark the best of each column and what reads the same, where a measure has a better end."""
    best: list[str | None] = []
    for i, up in enumerate(higher):
        found = [cell for row in rows if (cell := row.cells[i]) is not None]
        if up is None or len(found) < 2:
            best.append(None)
        else:
            best.append((max if up else min)(found, key=lambda cell: cell.mean).shown)
    return tuple(
        replace(
            row,
            cells=tuple(
                cell and replace(cell, best=cell.shown == top)
                for cell, top in zip(row.cells, best, strict=True)
            ),
        )
        for row in rows
    )


def spread_note(splits: Iterable[int]) -> str:
    """Over how many splits the means of a table are.

    >>> spread_note([10, 10]), spread_note([9, 10])[-27:]
    ('Means ± standard errors over 10 random splits.', 'over 9 to 10 random splits.')
    """
    counts = sorted({count for count in splits if count})
    if counts == [1]:
        return "From a single split, so there are no standard errors."
    many = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else str(counts[0])
    return f"Means ± standard errors over {many} random splits."


WORSE_THAN_CHANCE = "†"
CHANCE_NOTE = (
    f"{WORSE_THAN_CHANCE} Worse than Random by this measure. By top-1 or ranks: on a few hundred "
    "sets, a few small gradient steps do not get far, and a method may end near its random start. "
    "Such a row says more about the protocol than about the method; the exact solution of MNL, "
    "which “setwise compare” fits, does not have this problem. By NLL alone: training stops by "
    "accuracy, which lets probabilities become overconfident."
)
SDA_NOTE = (
    "SDA is the model of the paper, “setwise.SDA.paper()”. The default of setwise, "
    "“setwise.SDA()”, is another model and not in this table."
)
MEAN_RANK_NOTE = (
    "Mean rank is the column that the paper calls MRR; why is said in the documentation, "
    "“What differs from the paper, and why”."
)


def main_tables(measured: Measured, groups: Mapping[str, Sequence[str]]) -> list[ResultTable]:
    """The paper's Table 1, and our own measures of the same methods."""
    least = measured.least()
    return present(
        grid(
            measured, "table1", "Table 1, as in the paper", least, groups, PAPER_MEASURES,
            [MEAN_RANK_NOTE],
        ),
        grid(
            measured, "table1_own", "Measures that the paper does not have", least, groups,
            OWN_MEASURES,
            ["MRR is the true mean reciprocal rank, NLL the negative log-likelihood per choice, "
             "κ the violation capacity, where it was measured: the share of removals of an item "
             "not predicted that change the prediction."],
        ),
    )  # fmt: skip


def full_tables(measured: Measured, groups: Mapping[str, Sequence[str]]) -> list[ResultTable]:
    """Every size of sets, for each data set that has several."""
    several = [settings for settings in measured.of_data() if len(settings) > 1]
    return _by_data(measured, "full", "All sizes of sets", several, groups)


def ablation_tables(measured: Measured) -> list[ResultTable]:
    """The rows of the paper's Table 4, for each data set."""
    return _by_data(measured, "ablation", "Ablation", measured.of_data(), {"": ABLATION})


def _by_data(
    measured: Measured,
    key: str,
    title: str,
    data: Sequence[Sequence[Setting]],
    groups: Mapping[str, Sequence[str]],
) -> list[ResultTable]:
    """A table of the paper's measures for each data set, which is given by its settings."""
    return present(*(
        grid(
            measured, key, f"{title}: {settings[0].data}", settings, groups, PAPER_MEASURES,
            [MEAN_RANK_NOTE],
        )
        for settings in data
    ))  # fmt: skip


def present(*tables: ResultTable | None) -> list[ResultTable]:
    """The tables that have values."""
    return [table for table in tables if table is not None]


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
    """The values on the splits that all methods have; None for fewer than two methods."""
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
) -> tuple[list[ResultTable], list[str]]:
    """Tables of tests, and a sentence for each setting in which nothing can be tested."""
    overall, pairs, untested = [], [], []
    for setting in measured.settings:
        both = [together(measured, setting, models, measure) for measure in MEASURES]
        family = [one for one in both if one is not None]
        if not family:
            continue
        if family[0].splits < 2:
            untested.append(
                f"{setting_name(setting)}: the methods have {('no', 'one')[family[0].splits]} "
                "split in common; a test needs two."
            )
            continue
        overall += [_friedman_row(setting, one) for one in family]
        pairs.append(_pairs(setting, family, f"{key}_pairs"))
    return ([_friedman_table(overall, f"{key}_friedman")] if overall else []) + pairs, untested


def _friedman_row(setting: Setting, one: Together) -> ResultRow:
    found = statistics.friedman(one.values)
    test = (None, None) if found is None else (Value(found[0]), Value(found[1], form=".2g"))
    counts = (Value(float(len(one.models)), form=".0f"), Value(float(one.splits), form=".0f"))
    difference = Value(one.critical_difference())
    return ResultRow(setting_name(setting), one.measure.heading, (*counts, *test, difference))


def _friedman_table(rows: Sequence[ResultRow], key: str) -> ResultTable:
    columns = ("methods", "splits", "χ²", "p", "critical difference")
    return ResultTable(
        key,
        "Friedman's test that all methods are equal",
        "measure",
        tuple(("", name) for name in columns),
        tuple(rows),
        (
            "Methods are ranked on every split. The critical difference of mean places is "
            f"Nemenyi's at {100 * LEVEL:g} %. Both tests assume independent splits. Random splits "
            "of the same sets overlap, so their p-values are too small. The comparisons below are "
            "corrected for this.",
        ),
    )


def _pairs(setting: Setting, family: Sequence[Together], key: str) -> ResultTable:
    """SDA against each method, the best method first."""
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
    notes = ["Place: the method's rank among all methods, 1 for the best; the mean over splits."]
    if compared:
        notes.append(
            f"Less {base}: the method's value less that of {base} on the same splits, ± its "
            "standard error; p: corrected resampled t-test (Nadeau and Bengio) with Holm's "
            f"correction. {MARK} Further from {base} than the critical difference."
        )
    return ResultTable(
        key,
        f"{base} against each method: {setting_name(setting)}" if compared
        else f"Mean places: {setting_name(setting)}",
        "method",
        tuple((one.measure.heading, name) for one in family for name in names),
        tuple(ResultRow("", display_name(model), tuple(cells[model])) for model in order),
        tuple(notes),
    )  # fmt: skip
