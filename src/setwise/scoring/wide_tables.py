"""Predictions of wide tables: one probability column per alternative."""

from typing import Any

import numpy as np

from setwise._errors import InputError
from setwise._shapes import Float, Int
from setwise.choices import Choices, Table, open_table, read_like
from setwise.choices.layout import numbered
from setwise.choices.reading import is_wide
from setwise.choices.tables import listed
from setwise.scoring.scorer import Predictions, RowModel, warn_of_replaced


def predict_wide(model: RowModel, table: Any) -> Any:
    """A wide table with a probability column per alternative, and ``predicted``.

    ``probability.car`` is P(car | s), null where the car is not available. ``predicted`` is the
    most probable alternative (its number, where alternatives are only numbered), null where the
    outside option is. A frame comes back as its own kind, anything else as a Polars frame.

    Args:
        model: a fitted estimator, or a :class:`setwise.scoring.Scorer`, whose training table was
            wide (:func:`setwise.read_wide`).
        table: a wide table with the columns of the training table; the choice column is not needed.

    >>> import setwise as sw
    >>> table = {"mode": ["car", "bus", "bus"], "cost.bus": [2.0, 1.0, 4.0],
    ...          "cost.car": [3.0, 4.0, 3.0]}
    >>> model = sw.MNL(l2=1).fit(sw.read_wide(table, chosen="mode", items=["cost.{alt}"]))
    >>> predict_wide(model, table).columns[-3:]
    ['probability.bus', 'probability.car', 'predicted']
    """
    schema, layout = model.schema, model.schema.roles.wide
    if isinstance(table, Choices):
        raise InputError("predict_wide gives a table back; give the wide table, not Choices")
    if layout is None:
        raise InputError(
            "this model was trained on a long table; predict with predict_proba, or train it on "
            "choices from setwise.read_wide(...)"
        )
    opened = open_table(table)
    if not is_wide(schema.roles, opened.names):
        raise InputError(
            "the table is not wide as the training table was; it has no columns "
            f"{listed(layout.columns_of(dict(layout.columns)), 4)} (it has: "
            f"{listed(opened.names)})"
        )
    choices = read_like(schema, opened)
    found = Predictions.of_choices(model, choices)
    rows, places = np.divmod(np.sort(choices.cells), layout.width)
    probability = np.full((opened.rows, layout.width), np.nan)
    probability[rows, places] = found.probability
    best = np.full(opened.rows, -1)
    best[rows[found.predicted]] = places[found.predicted]
    names: list[Any] = list(layout.alternatives)
    labels = [f"probability.{name}" for name in names]
    warn_of_replaced(opened.names, [*labels, "predicted"])
    if len(numbered(names)) == len(names) and schema.roles.alternative is None:
        names = [int(name) for name in names]
    return _joined(opened, dict(zip(labels, probability.T, strict=True)), names, best)


def _joined(
    table: Table,
    columns: dict[str, Float[np.ndarray, " rows"]],
    names: list[Any],
    best: Int[np.ndarray, " rows"],
) -> Any:
    """The table with these columns; NaN becomes null."""
    import narwhals as nw
    import polars as pl

    native = table.native
    if native is None:
        native = pl.DataFrame({name: table.series(name, "item") for name in table.names})
    frame = nw.from_native(native, eager_only=True)
    space = nw.get_native_namespace(frame)
    kind: Any = nw.Int64() if isinstance(names[0], int) else nw.String()
    predicted = [None if at < 0 else names[at] for at in best.tolist()]
    if isinstance(names[0], int) and None in predicted and space is not pl:
        kind = nw.Float64()  # whole numbers of pandas cannot be missing
    added = [
        nw.new_series(name, [None if one != one else one for one in values.tolist()], nw.Float64(),
                      backend=space)
        for name, values in columns.items()
    ]  # fmt: skip
    added.append(nw.new_series("predicted", predicted, kind, backend=space))
    if hasattr(native, "index"):  # pandas aligns columns by index
        bare = nw.from_native(native.reset_index(drop=True), eager_only=True)
        joined = nw.to_native(bare.with_columns(*added))
        joined.index = native.index
        return joined
    return nw.to_native(frame.with_columns(*added))
