"""Plots draw the numbers they claim to, leave pyplot alone, and refuse what they cannot draw."""

import inspect
import itertools
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure
from scipy.stats import norm

import setwise as sw
from setwise.metrics import CALIBRATION_BINS
from setwise.reports import plots

EPOCHS = 4


def table(sets: int = 120) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    price = rng.uniform(1, 9, (sets, 3))
    utility = -0.4 * price + np.array([0.6, 0.0, 0.2]) + rng.gumbel(size=(sets, 3))
    return pl.DataFrame(
        {
            "trip": np.repeat(np.arange(100, 100 + sets), 3),
            "price": price.ravel(),
            "stars": rng.integers(1, 6, 3 * sets),
            "same": np.ones(3 * sets),
            "mode": ["car", "bus", "$rail$"] * sets,
            "person": np.repeat(np.arange(sets) % 7, 3),
            "taken": (utility == utility.max(1, keepdims=True)).astype(int).ravel(),
        }
    )


ROLES = {"set": "trip", "chosen": "taken", "items": ["price", "stars", "mode"]}


@pytest.fixture(scope="module")
def choices():
    return sw.read(table(), **ROLES)


@pytest.fixture(scope="module")
def mnl(choices):
    return sw.MNL().fit(choices)


@pytest.fixture(scope="module")
def ensemble(choices):
    options = sw.Training(epochs=EPOCHS)
    return sw.SDW(dimension=2, hidden=4, ensemble=2, training=options).fit(choices)


@pytest.fixture(scope="module")
def single(choices):
    options = sw.Training(epochs=EPOCHS)
    return sw.SDW(dimension=2, hidden=4, ensemble=1, training=options).fit(choices)


def texts(axes) -> list[str]:
    return [one.get_text() for one in axes.texts]


def drawn_with_ink(figure: Figure) -> bool:
    """Whether it can be drawn at all, and is a PNG."""
    return figure._repr_png_().startswith(b"\x89PNG")


# Coefficients


def test_coefficients_are_those_of_the_summary(mnl):
    figure = plots.coefficients(mnl)
    axes, frame = figure.axes[0], mnl.summary().to_frame()
    assert [one.get_text() for one in axes.get_yticklabels()] == frame["name"].to_list()
    dots = [line.get_xdata().item() for line in axes.lines[1:]]  # the first is the line at 0
    assert dots == frame["coefficient"].to_list()
    known = frame.filter(pl.col("low").is_not_null())
    ends = [one.get_segments()[0][:, 0].tolist() for one in axes.collections]
    np.testing.assert_allclose(ends, known.select("low", "high").to_numpy())
    assert texts(axes).count("not estimated") == len(frame) - len(known) == 1
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first on top
    assert drawn_with_ink(figure)


def test_some_coefficients_in_the_order_asked_for(mnl):
    axes = plots.coefficients(mnl, names=["stars", "price"]).axes[0]
    assert [one.get_text() for one in axes.get_yticklabels()] == ["stars", "price"]
    coefficient = dict(zip(mnl.feature_names_, mnl.coef_, strict=True))
    assert axes.lines[1].get_xdata().item() == coefficient["stars"]


@pytest.mark.parametrize("columns", [1, 40])
def test_labels_of_coefficients_do_not_overlap(columns):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(900, columns))
    names = [f"a rather long name of column {i}" for i in range(columns)]
    chosen = np.tile([1, 0, 0], 300)
    choices = sw.read(x, set=np.repeat(np.arange(300), 3), chosen=chosen, items=names)
    figure = plots.coefficients(sw.MNL().fit(choices))
    figure.draw_without_rendering()
    axes = figure.axes[0]
    whole = figure.bbox
    for labels in (axes.get_yticklabels(), axes.texts):
        boxes = [one.get_window_extent() for one in labels]
        assert len(boxes) == columns
        for above, below in itertools.pairwise(boxes):
            assert above.y0 >= below.y1
        assert all(whole.x0 <= box.x0 and box.x1 <= whole.x1 for box in boxes)


def test_coefficients_of_classes_and_nests(choices):
    nested = sw.NestedLogit("mode").fit(choices)
    labels = plots.coefficients(nested).axes[0].get_yticklabels()
    assert [one.get_text() for one in labels] == nested.parameter_names_
    mixed = sw.MixedMNL(classes=1).fit(choices)
    assert len(plots.coefficients(mixed).axes[0].get_yticklabels()) == len(mixed.parameter_names_)


def test_models_without_coefficients_are_refused(choices, ensemble):
    with pytest.raises(sw.InputError, match="SDW has no coefficients with standard errors"):
        plots.coefficients(ensemble)
    with pytest.raises(sw.InputError, match="RandomChoice has no coefficients"):
        plots.coefficients(sw.RandomChoice().fit(choices))


def test_coefficients_that_are_not_there_are_refused(mnl, monkeypatch):
    with pytest.raises(sw.InputError, match="no coefficient 'prize'; there are: price, stars"):
        plots.coefficients(mnl, names=["prize"])
    with pytest.raises(sw.InputError, match="names="):
        plots.coefficients(mnl, names=[])
    monkeypatch.setattr(plots, "MOST_COEFFICIENTS", 2)
    with pytest.raises(
        sw.InputError, match=r"5 coefficients are too many .* at most 2 with names="
    ):
        plots.coefficients(mnl)


# Probability against a column


def softmax_when(mnl, frame: pl.DataFrame, rows: np.ndarray, price: float) -> np.ndarray:
    """P of the marked rows of each set if their price is this, by the logit's formula."""
    coefficient = dict(zip(mnl.feature_names_, mnl.coef_, strict=True))
    utility = np.where(rows, price, frame["price"].to_numpy()) * coefficient["price"]
    utility += frame["stars"].to_numpy() * coefficient["stars"]
    utility += np.array([coefficient[f"mode={one}"] for one in frame["mode"]])
    each = np.exp(utility).reshape(-1, 3)
    return ((each / each.sum(1, keepdims=True)) * rows.reshape(-1, 3)).sum(1)


def test_the_line_is_the_mean_probability_of_what_moves(mnl, choices):
    axes = plots.probability(mnl, choices, "price", where={"mode": "bus"}).axes[0]
    frame = table()
    bus = (frame["mode"] == "bus").to_numpy()
    price = frame["price"].to_numpy()[bus]
    x, y = axes.lines[0].get_data()
    assert (x[0], x[-1]) == pytest.approx(tuple(np.quantile(price, [0.01, 0.99])))
    expected = [softmax_when(mnl, frame, bus, one).mean() for one in x]
    np.testing.assert_allclose(y, expected, rtol=1e-5)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("price", "mean probability")
    assert axes.get_title(loc="left") == "items with mode = bus"
    assert axes.get_ylim()[0] == 0


def test_weights_of_sets_count(mnl, choices):
    weight = np.zeros(len(choices)) + 1e-9
    weight[4] = 1.0
    weighted = replace(choices, weight=weight)
    where, values = {"mode": "bus"}, [2.0, 5.0]
    axes = plots.probability(mnl, weighted, "price", where=where, values=values).axes[0]
    frame = table()
    bus = (frame["mode"] == "bus").to_numpy()
    expected = [softmax_when(mnl, frame, bus, one)[4] for one in values]
    np.testing.assert_allclose(axes.lines[0].get_ydata(), expected, rtol=1e-5)


def test_an_example_set_has_one_line_per_item(mnl, choices):
    figure = plots.probability(mnl, choices, "price", set=107, values=[1.0, 4.0, 9.0])
    axes, frame = figure.axes[0], table()
    assert len(axes.lines) == 3
    for item, line in enumerate(axes.lines):
        alone = np.arange(len(frame)) == 7 * 3 + item
        expected = [softmax_when(mnl, frame, alone, one)[7] for one in (1.0, 4.0, 9.0)]
        np.testing.assert_allclose(line.get_ydata(), expected, rtol=1e-5)
    assert [one.get_text() for one in axes.get_legend().get_texts()] == [
        "item 0", "item 1", "item 2",
    ]  # fmt: skip
    assert axes.get_title(loc="left") == "set trip = 107, one item at a time"


def test_a_column_of_few_values_has_a_dot_at_each(mnl, choices):
    line = plots.probability(mnl, choices, "stars").axes[0].lines[0]
    assert line.get_xdata().tolist() == [1, 2, 3, 4, 5]
    assert line.get_marker() == "o"


def test_one_item_per_set_is_drawn_by_the_seed(mnl, choices):
    first, again, other = (
        plots.probability(mnl, choices, "price", values=[1, 9], seed=seed).axes[0].lines[0]
        for seed in (0, 0, 1)
    )
    assert first.get_ydata().tolist() == again.get_ydata().tolist()
    assert first.get_ydata().tolist() != other.get_ydata().tolist()


def test_a_sample_of_sets_is_enough(mnl, choices, monkeypatch):
    asked = []
    known = type(mnl).row_probabilities
    monkeypatch.setattr(
        type(mnl),
        "row_probabilities",
        lambda self, part: asked.append(len(part)) or known(self, part),
    )
    plots.probability(mnl, choices, "price", values=[1.0, 9.0], sets=10)
    assert asked == [10, 10]


def test_items_are_found_by_a_column_of_the_table_that_is_no_feature(mnl):
    axes = plots.probability(mnl, table(), "price", where={"person": 3}, values=[1, 9]).axes[0]
    frame = table()
    rows = (frame["person"] == 3).to_numpy()
    some = rows.reshape(-1, 3).any(1)
    expected = [softmax_when(mnl, frame, rows, one)[some].mean() for one in (1.0, 9.0)]
    np.testing.assert_allclose(axes.lines[0].get_ydata(), expected, rtol=1e-5)


def test_an_outside_option_is_no_line():
    frame = table().with_columns(
        taken=pl.when(pl.col("trip") % 4 == 0).then(0).otherwise(pl.col("taken"))
    )
    choices = sw.read(frame, **ROLES, on_none="outside")
    figure = plots.probability(sw.MNL().fit(choices), choices, "price", set=104)
    assert len(figure.axes[0].lines) == 3
    assert sum(line.get_ydata()[0] for line in figure.axes[0].lines) > 0


def test_two_models_share_the_axes(mnl, single, choices):
    axes = plots.probability(mnl, choices, "price", label="MNL").axes[0]
    plots.probability(single, choices, "price", label="$SDW", ax=axes)
    assert [one.get_text() for one in axes.get_legend().get_texts()] == ["MNL", "$SDW"]
    assert len({line.get_color() for line in axes.lines}) == 2
    assert drawn_with_ink(axes.figure)  # the dollar is no formula


@pytest.mark.parametrize(
    ("column", "more", "message"),
    [
        ("prize", {}, "no number column 'prize' among its items"),
        ("mode", {}, "no number column 'mode' among its items"),
        ("", {}, "column='' must be a string that is not empty"),
        ("price", {"where": {"mode": "boat"}}, "no item is one where mode='boat'"),
        ("price", {"where": {"colour": "red"}}, "no column 'colour'"),
        ("price", {"set": 99}, "there is no set 'trip'=99; there are: 100, 101"),
        ("price", {"values": [1.0]}, "values="),
        ("price", {"values": [1.0, np.nan]}, "finite"),
        ("price", {"sets": 0}, "sets=0 must be a whole number of at least 1"),
        ("price", {"seed": -1}, "seed=-1 must be a whole number"),
    ],
)
def test_wrong_arguments_of_probability_are_refused(mnl, choices, column, more, message):
    with pytest.raises(sw.InputError, match=message):
        plots.probability(mnl, choices, column, **more)


def test_a_column_that_never_changes_needs_values():
    roles = ROLES | {"items": ["price", "same"]}
    choices = sw.read(table(), **roles)
    model = sw.SDW(dimension=2, hidden=4, ensemble=1, training=sw.Training(epochs=1)).fit(choices)
    with pytest.raises(sw.InputError, match="'same' has the same value in all items that move"):
        plots.probability(model, choices, "same")
    assert plots.probability(model, choices, "same", values=[0.0, 2.0]).axes


def test_a_value_that_the_model_cannot_read_is_refused():
    choices = sw.read(table(), **(ROLES | {"items": ["log(price)"]}))
    with pytest.raises(sw.InputError, match="makes 'price' -1"):
        plots.probability(sw.MNL().fit(choices), choices, "price", values=[-1.0, 1.0])


def test_an_example_set_of_many_items_is_refused(monkeypatch):
    choices = sw.datasets.generate("mnl", sets=20, items=9, features=1).choices
    with pytest.raises(sw.InputError, match="9 items of this set would each have a line"):
        plots.probability(sw.MNL().fit(choices), choices, "x0", set=choices.set_ids[0])


# Calibration


def test_the_curve_has_the_bins_of_the_calibration_error(mnl, choices):
    axes = plots.calibration(mnl, choices).axes[0]
    _, curve = axes.lines
    found = mnl.outcomes(choices).reliability()
    np.testing.assert_array_equal(curve.get_xdata(), found.confidence)
    np.testing.assert_array_equal(curve.get_ydata(), found.hit_rate)
    assert len(found.sets) == CALIBRATION_BINS
    assert found.sets.sum() == len(choices)
    error = mnl.evaluate(choices).calibration_error
    gaps = np.abs(found.hit_rate - found.confidence)
    assert gaps @ found.sets / len(choices) == pytest.approx(error)
    assert axes.get_legend().get_texts()[0].get_text() == f"calibration error {error:.3f}"


def test_bars_count_every_set(mnl, choices):
    figure = plots.calibration(mnl, choices)
    bars = figure.axes[1].patches
    assert sum(bar.get_height() for bar in bars) == len(choices)
    assert drawn_with_ink(figure)


def test_weights_count_in_the_curve(mnl, choices):
    weight = np.linspace(1, 3, len(choices))
    weighted = replace(choices, weight=weight)
    found = mnl.outcomes(choices).reliability(weight)
    error = mnl.evaluate(weighted).calibration_error
    order = np.argsort(mnl.outcomes(choices).confidence, kind="stable")
    share = [weight[one].sum() / weight.sum() for one in np.array_split(order, CALIBRATION_BINS)]
    gaps = np.abs(found.hit_rate - found.confidence)
    assert gaps @ np.array(share) == pytest.approx(error)


def test_intervals_stay_within_zero_and_one_and_hold_the_rate(mnl, choices):
    found = mnl.outcomes(choices).reliability()
    assert ((found.low >= 0) & (found.high <= 1)).all()
    assert ((found.low <= found.hit_rate) & (found.hit_rate <= found.high)).all()
    assert (found.high - found.low > 0.1).all()  # 8 sets a bin say little, even if all are right


def test_two_models_share_a_diagonal(mnl, single, choices):
    axes = plots.calibration(mnl, choices, label="MNL").axes[0]
    figure = plots.calibration(single, table(), label="SDW", ax=axes)
    assert figure is axes.figure
    assert len(axes.lines) == 3
    assert len(figure.axes) == 2  # one scale of counts
    said = [one.get_text() for one in axes.get_legend().get_texts()]
    assert [one.partition(":")[0] for one in said] == ["MNL", "SDW"]


def test_calibration_needs_what_was_chosen(mnl):
    unknown = sw.read(table().drop("taken"), **(ROLES | {"chosen": None}))
    with pytest.raises(sw.InputError, match="do not say what was chosen"):
        plots.calibration(mnl, unknown)


# Learning curve


def test_the_learning_curve_is_the_history(single):
    axes = plots.learning_curve(single).axes[0]
    loss, nll, best = axes.lines
    assert loss.get_xdata().tolist() == list(range(1, len(single.history_) + 1))
    assert loss.get_ydata().tolist() == [one["loss"] for one in single.history_]
    assert nll.get_ydata().tolist() == [one["nll"] for one in single.history_]
    assert best.get_xdata().item() == single.best_epoch_ + 1
    assert best.get_ydata().item() == min(one["nll"] for one in single.history_)
    labels = [one.get_text() for one in axes.get_legend().get_texts()]
    assert labels == ["training loss", "validation NLL", "best epoch"]


def test_an_ensemble_has_one_line_per_member(ensemble, tmp_path):
    axes = plots.learning_curve(ensemble).axes[0]
    assert len(axes.lines) == 2 * 3
    ensemble.save(tmp_path / "model.setwise")
    again = plots.learning_curve(sw.load(tmp_path / "model.setwise")).axes[0]
    for one, other in zip(axes.lines, again.lines, strict=True):
        assert one.get_ydata().tolist() == other.get_ydata().tolist()


def test_models_without_a_history_are_refused(mnl, single):
    with pytest.raises(sw.InputError, match="MNL is not trained in epochs"):
        plots.learning_curve(mnl)
    empty = sw.SDW(ensemble=1)
    empty.schema_, empty.history_, empty.best_epoch_ = single.schema_, [], -1
    with pytest.raises(sw.InputError, match="interrupted before the first epoch ended"):
        plots.learning_curve(empty)


# Tastes


@pytest.fixture(scope="module")
def panel():
    options = {"features": 3, "beta": (-1.0, 1.0, 0.5), "spread": (0.0, 0.7, 0.0), "seed": 4}
    return sw.datasets.generate("panel", sets=900, **options).choices


@pytest.fixture(scope="module")
def mixed(panel):
    return sw.MixedLogit({"x0": "-lognormal", "x1": "normal"}, draws=50).fit(panel)


def test_bars_are_people_and_the_line_is_the_distribution(mixed, panel):
    figure = plots.tastes(mixed, "x1")
    axes = figure.axes[0]
    own = mixed.individual_coefficients()["x1"].to_numpy()
    line = axes.lines[0]
    edges, counts = line.get_xdata(), [bar.get_height() for bar in axes.patches]
    np.testing.assert_allclose(np.histogram(own, edges)[0] / len(own), counts)
    assert sum(counts) == pytest.approx(1)
    # The line is the share of a normal distribution in each bin; half a per cent on each side is
    # beyond the picture.
    shares, mean, sd = line.get_ydata()[:-1], mixed.coef_[1], mixed.cholesky_[1, 1]
    np.testing.assert_allclose(np.diff(norm.cdf(edges, mean, sd)), shares, atol=2e-3)
    assert 0.985 < shares.sum() < 1
    assert axes.get_xlabel() == "coefficient of x1"
    labels = [one.get_text() for one in axes.get_legend().get_texts()]
    said = f"means of {len(own)} people, given their choices"
    assert labels == ["all people, by the model", said]
    assert drawn_with_ink(figure)
    some = panel.take(np.flatnonzero(panel.group < 7))
    few = plots.tastes(mixed, "x1", data=some).axes[0].get_legend().get_texts()
    assert few[1].get_text() == "means of 7 people, given their choices"


def test_what_people_pay_is_drawn(mixed):
    axes = plots.tastes(mixed, "x2", price="x0").axes[0]
    own = mixed.individual_willingness_to_pay("x0")["x2"].to_numpy()
    edges = axes.lines[0].get_xdata()
    counts = [bar.get_height() for bar in axes.patches]
    np.testing.assert_allclose(np.histogram(own, edges)[0] / len(own), counts)
    assert edges[0] >= 0  # all like it, and nobody likes to pay
    assert axes.get_xlabel() == "paid for one more of x2, in units of x0"


def test_classes_are_dots(panel):
    model = sw.LatentClass(2, starts=1).fit(panel)
    dots = plots.tastes(model, "x1").axes[0].lines[0]
    assert dots.get_xdata().tolist() == pytest.approx(model.coef_[:, 1].tolist())
    assert dots.get_ydata().tolist() == pytest.approx(model.shares_.tolist())


def test_what_does_not_differ_between_people_is_refused(mixed, mnl, panel):
    with pytest.raises(sw.InputError, match=r"'x2' is the same for all people; .*: x0, x1"):
        plots.tastes(mixed, "x2")
    with pytest.raises(sw.InputError, match="'cost' is not of the utility"):
        plots.tastes(mixed, "cost")
    with pytest.raises(sw.InputError, match="MNL has the same coefficients for all people"):
        plots.tastes(mnl, "price")
    with pytest.raises(sw.InputError, match="like to pay"):
        plots.tastes(mixed, "x2", price="x1")
    alike = sw.LatentClass(1).fit(panel)
    with pytest.raises(sw.InputError, match="people differ in: nothing"):
        plots.tastes(alike, "x1")


# All of them


def calls(model, choices):
    column = "x1" if isinstance(model, sw.MixedLogit) else "price"
    return {
        "tastes": lambda **more: plots.tastes(model, column, **more),
        "coefficients": lambda **more: plots.coefficients(model, **more),
        "probability": lambda **more: plots.probability(model, choices, "price", sets=9, **more),
        "calibration": lambda **more: plots.calibration(model, choices, **more),
        "learning_curve": lambda **more: plots.learning_curve(model, **more),
    }


@pytest.mark.parametrize("name", plots.__all__)
def test_models_that_are_not_fitted_are_refused(choices, name):
    for model in (sw.MNL(), sw.SDA()):
        with pytest.raises(sw.InputError, match="is not fitted yet; call fit"):
            calls(model, choices)[name]()


@pytest.mark.parametrize("name", plots.__all__)
def test_what_is_no_model_is_refused(choices, name):
    room = {one: inspect.unwrap(getattr(plots, one)) for one in plots.__all__}
    wanted = {"data": choices, "column": "price"}
    accepted = inspect.signature(room[name]).parameters
    with pytest.raises(sw.InputError, match="must be of type Estimator; give a fitted estimator"):
        room[name]("mnl", **{k: v for k, v in wanted.items() if k in accepted})


@pytest.mark.parametrize("name", plots.__all__)
def test_plots_draw_where_they_are_told_to(mnl, single, mixed, choices, name):
    model = {"learning_curve": single, "tastes": mixed}.get(name, mnl)
    draw = calls(model, choices)[name]
    figure = Figure()
    axes = figure.subplots(1, 2)
    assert draw(ax=axes[1]) is figure
    assert axes[1].lines
    assert not axes[0].lines
    part = Figure().subfigures()
    assert draw(ax=part.subplots()) is part.figure
    assert draw() is not draw()


def test_pyplot_is_left_alone():
    script = (
        "import sys, setwise as sw\n"
        "choices = sw.datasets.load('modecanada').sample(100)\n"
        "sw.plots.coefficients(sw.MNL().fit(choices))._repr_png_()\n"
        "print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr


def test_the_picture_of_the_docs_is_small():
    docs = Path(__file__).parent.parent / "docs"
    assert "(images/plots.png)" in (docs / "notebooks.md").read_text("utf-8")
    assert (docs / "images" / "plots.png").stat().st_size < 60_000
