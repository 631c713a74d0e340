"""How a decoy moves the shares of two items: a map over two columns, for any fitted model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float

from setwise._arguments import checked, shown, whole
from setwise._arguments import columns as check_columns
from setwise._errors import InputError
from setwise.choices import Choices
from setwise.estimators import Estimator
from setwise.estimators.base import fitted, is_choices
from setwise.reports.figures import new_figure, svg_text
from setwise.violations import DecoyEffect, decoy_effect, decoy_grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes


STEPS = 25
"""Positions of the decoy along each column."""
REACH = (0.05, 0.95)
"""Quantiles of a column between which the decoy moves."""
DOTS = 1000
"""Maximum number of the table's items to draw."""
BLANK = 0.001
"""Changes of relative shares below this are too small to see."""


@dataclass(frozen=True, eq=False)
class DecoyMap:
    """How a decoy moves the shares of two items, at each place of a grid of two columns.

    ``a`` and ``b`` are the two items' features. ``effect`` has one entry per place, the second of
    ``columns`` changing fastest. ``grid`` has the values of each column, ``items`` those of the
    table's items. Far from all items a model extrapolates, so "where a decoy helps most" looks
    only at the places nearest to an item.
    """

    model: str
    pair: str
    columns: tuple[str, str]
    a: Mapping[str, Any]
    b: Mapping[str, Any]
    grid: tuple[Float[np.ndarray, " m"], Float[np.ndarray, " n"]]
    items: Float[np.ndarray, "rows 2"]
    effect: DecoyEffect

    @property
    def shift(self) -> Float[np.ndarray, "m n"]:
        """By how much the decoy raises A's share relative to B, place by place."""
        return self.effect.shift.reshape(len(self.grid[0]), len(self.grid[1]))

    @property
    def blank(self) -> bool:
        """Whether no decoy moves the shares, as in every model with IIA."""
        return bool(np.abs(self.effect.shift).max() < BLANK)

    def heads(self) -> tuple[str, ...]:
        """The column names of :meth:`rows`."""
        changes = ("change of A's relative share", "P(A)", "P(B)", "P(decoy)")
        return ("", *self.columns, *changes)

    def rows(self) -> list[tuple[str, ...]]:
        """The pair with its shares alone, and the places where a decoy helps A and B most."""
        a, b = self.effect.without
        found: list[tuple[str, ...]] = [
            ("A", *self._shown(self.a), "", f"{a:.3f}", "", ""),
            ("B", *self._shown(self.b), "", "", f"{b:.3f}", ""),
        ]
        effect = self.effect
        for said, at in ({} if self.blank else self._extremes()).items():
            shares = (effect.p_a[at], effect.p_b[at], effect.p_decoy[at])
            found.append((
                f"decoy that {said}", *self._shown(self._at(at)), f"{effect.shift[at]:+.3f}",
                *(f"{share:.3f}" for share in shares),
            ))  # fmt: skip
        return found

    def to_json(self) -> dict[str, Any]:
        """Everything as plain values; ``shift`` has one row per value of the first column."""
        effect, shape = self.effect, self.shift.shape
        helped = {
            said.replace(" ", "_"): {"decoy": self._at(at), "shift": float(effect.shift[at])}
            for said, at in self._extremes().items()
        }
        return {
            "model": self.model,
            "set": self.pair,
            "a": _plain(self.a),
            "b": _plain(self.b),
            "without": {"p_a": effect.without[0], "p_b": effect.without[1]},
            "grid": {n: v.tolist() for n, v in zip(self.columns, self.grid, strict=True)},
            "shift": self.shift.tolist(),
            "p_a": effect.p_a.reshape(shape).tolist(),
            "p_b": effect.p_b.reshape(shape).tolist(),
            "breaks_regularity": effect.breaks_regularity.reshape(shape).tolist(),
            **helped,
        }

    def sentence(self) -> str:
        """What the map says, in words."""
        if self.blank:
            return (
                f"No decoy moves the shares: to {self.model}, the odds of A against B are the "
                "same whatever joins them (IIA), and the map is blank."
            )
        to_a, to_b = self._extremes().values()
        said = [self._help("A", to_a), self._help("B", to_b)]
        broken = int(self.effect.breaks_regularity.sum())
        return (
            f"{' '.join(said)} At {broken} of {len(self.effect.shift)} places the decoy makes A "
            "or B more probable than without it, which breaks regularity."
        )

    def _help(self, name: str, at: int) -> str:
        gain = float(self.effect.shift[at]) * (1 if name == "A" else -1)
        if gain < BLANK:
            return f"No decoy helps {name}."
        place = " and ".join(f"{column} {value:.4g}" for column, value in self._at(at).items())
        return f"A decoy with {place} helps {name} most: by {100 * gain:.1f} percentage points."

    def _extremes(self) -> dict[str, int]:
        """The places where the decoy helps A and B most, of those nearest to an item."""
        nearest = [
            np.searchsorted((values[1:] + values[:-1]) / 2, column)
            for values, column in zip(self.grid, self.items.T, strict=True)
        ]
        near = np.unique(np.ravel_multi_index(nearest, self.shift.shape))
        shift = self.effect.shift[near]
        return {
            "helps A most": int(near[shift.argmax()]),
            "helps B most": int(near[shift.argmin()]),
        }

    def _at(self, place: int) -> dict[str, float]:
        i, j = divmod(place, len(self.grid[1]))
        return dict(
            zip(self.columns, (float(self.grid[0][i]), float(self.grid[1][j])), strict=True)
        )

    def _shown(self, item: Mapping[str, Any]) -> tuple[str, str]:
        first, second = (f"{item[name]:.4g}" for name in self.columns)
        return first, second


def _two(name: str, value: Any) -> None:
    """Two names of columns."""
    check_columns(name, value)
    if isinstance(value, str) or len(value) != 2:
        raise InputError(f"{name}={shown(value)} must be two columns, such as ('price', 'quality')")


@checked(estimator=fitted, choices=is_choices, columns=_two, steps=whole(2))
def decoy_map(
    estimator: Estimator,
    choices: Choices,
    columns: tuple[str, str],
    pair: str | int | None = None,
    steps: int = STEPS,
) -> DecoyMap:
    """Predict the shares of two items alone, then with a decoy at each place of a grid.

    A and B are the two most probable items of a set. The decoy takes ``steps`` values of each
    column between its 5 % and 95 % quantiles, or all values that occur if they are fewer. All its
    other features are those of A.

    Args:
        estimator: a fitted model.
        choices: the choices whose columns give the quantiles.
        columns: the two number columns that the decoy moves in.
        pair: the id of the set of A and B; by default the first with two items or more.
        steps: number of values per column.

    >>> import setwise as sw
    >>> choices = sw.datasets.generate("decoy", sets=500).choices
    >>> decoy_map(sw.MNL().fit(choices), choices, ("x1", "x2"), steps=5).blank
    True
    """
    if columns[0] == columns[1]:
        raise InputError(
            f"a decoy moves in two columns, but '{columns[0]}' is given twice; name two columns"
        )
    first, second = (_places(choices, name, steps) for name in columns)
    one = choices.take(np.array([_set_of(choices, pair)]))
    a, b = _most_probable(estimator, one)
    which = str(one.set_ids[0])
    if any(np.isnan(item[name]) for item in (a, b) for name in columns):
        raise InputError(
            f"A or B of set '{choices.roles.set}'={which} has no value in '{columns[0]}' or "
            f"'{columns[1]}'; choose another set with pair="
        )
    context = {name: column.text()[0] for name, column in one.context.items()}
    decoys = decoy_grid(**{columns[0]: first, columns[1]: second})
    effect = decoy_effect(estimator, a, b, decoys, context)
    items = np.stack([choices.columns[name].values.astype(np.float64) for name in columns], 1)
    items = items[~np.isnan(items).any(1)]
    return DecoyMap(type(estimator).__name__, which, columns, a, b, (first, second), items, effect)


def decoy_picture(found: DecoyMap) -> str:
    """The map: colours for the change, hatching where regularity breaks, A and B marked."""
    (x, y), shift = found.grid, 100 * found.shift.T
    broken = found.effect.breaks_regularity.reshape(found.shift.shape).T
    figure = new_figure(7.0, 5.4)
    figure.set_dpi(200)
    panel = figure.subplots()
    bound = max(1.0, float(np.abs(shift).max()))
    mesh = panel.pcolormesh(
        x, y, shift, cmap="PuOr", vmin=-bound, vmax=bound, shading="nearest", rasterized=True
    )
    if broken.any():
        _hatch(panel, x, y, broken)
    shown = found.items[:: -(-len(found.items) // DOTS)]
    shown = shown[((shown >= [x[0], y[0]]) & (shown <= [x[-1], y[-1]])).all(1)]
    panel.plot(*shown.T, ".", color="black", markersize=1.5, alpha=0.5)
    _mark(panel, found, "A", found.a)
    _mark(panel, found, "B", found.b)
    # Names come from the user: a dollar sign in them does not begin a formula.
    panel.set_xlabel(f"{found.columns[0]} of the decoy", parse_math=False)
    panel.set_ylabel(f"{found.columns[1]} of the decoy", parse_math=False)
    panel.margins(0.02)
    bar = figure.colorbar(mesh, ax=panel)
    bar.set_label("change of A's relative share (percentage points)")
    return svg_text(figure)


def _hatch(
    panel: "Axes",
    x: Float[np.ndarray, " m"],
    y: Float[np.ndarray, " n"],
    broken: Bool[np.ndarray, "n m"],
) -> None:
    from matplotlib.patches import Patch

    area = panel.contourf(x, y, broken.astype(float), [0.5, 1.5], colors="none", hatches=["//"])
    area.set_edgecolor("dimgrey")
    area.set_linewidth(0)
    shown = Patch(facecolor="white", edgecolor="dimgrey", hatch="//")
    said = ["hatched: A or B gains by the decoy, regularity is broken"]
    panel.figure.legend([shown], said, loc="outside upper center", frameon=False)


def _places(choices: Choices, name: str, steps: int) -> Float[np.ndarray, " k"]:
    """The values of a column that the decoy takes."""
    if name not in choices.columns:
        raise InputError(
            f"a decoy cannot move in '{name}', which is not an item column of the model; choose "
            f"from: {', '.join(choices.columns)}"
        )
    column = choices.columns[name]
    if column.kind != "number":
        raise InputError(
            f"a decoy moves in number columns, but '{name}' holds {column.kind} values; choose "
            "another column"
        )
    values = np.unique(column.values[~column.missing].astype(np.float64))
    low, high = np.quantile(column.values[~column.missing], REACH)
    between = values[(values >= low) & (values <= high)]
    if len(between) < 2:
        raise InputError(
            f"column '{name}' hardly varies: nine values of ten are {low:g}; choose another"
        )
    return between if len(between) <= steps else np.linspace(low, high, steps)


def _set_of(choices: Choices, pair: str | int | None) -> int:
    if pair is None:
        several = choices.sizes >= 2
        if not several.any():
            raise InputError("every set has only one item; a pair needs a set of two or more")
        return int(np.argmax(several))
    name = choices.roles.set
    found = np.flatnonzero(choices.set_ids.astype(str) == str(pair))
    if not len(found):
        raise InputError(
            f"there is no set '{name}'={pair} in these choices; choose another with pair="
        )
    if choices.sizes[found[0]] < 2:
        raise InputError(f"set '{name}'={pair} has only one item; choose a set of two or more")
    return int(found[0])


def _most_probable(estimator: Estimator, one: Choices) -> tuple[dict[str, Any], dict[str, Any]]:
    """The two most probable items of a single set that differ in some feature."""
    order = np.argsort(-estimator.row_probabilities(one), kind="stable")
    columns = {name: column.text() for name, column in one.columns.items()}
    a, *others = ({name: values[i] for name, values in columns.items()} for i in order)
    for b in others:
        if any(a[name] != b[name] for name in columns):
            return a, b
    raise InputError(
        f"all items of set '{one.roles.set}'={one.set_ids[0]} are alike; choose another with pair="
    )


def _mark(panel: "Axes", found: DecoyMap, name: str, item: Mapping[str, Any]) -> None:
    x, y = (float(item[column]) for column in found.columns)
    panel.plot(x, y, "o", color="black", markeredgecolor="white", markersize=9)
    panel.annotate(
        f"{name} ({x:.4g}, {y:.4g})", (x, y), xytext=(0, 9), textcoords="offset points",
        ha="center", bbox={"boxstyle": "round,pad=0.2", "facecolor": "white", "alpha": 0.9},
    )  # fmt: skip


def _plain(item: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: getattr(value, "item", lambda value=value: value)() for name, value in item.items()
    }
