"""Prices and additions: what a formula says, what a grid says, and how sure a model is."""

import numpy as np
import pytest
from typer.testing import CliRunner

import setwise as sw
from setwise.cli.app import app
from setwise.scoring import Scorer

UTILITY = "log(price) + quality"


def market(sets: int = 400, seed: int = 0) -> dict[str, np.ndarray]:
    """Sets of three products and an outside option, with a price that people dislike."""
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(sets), 3)
    price, quality = rng.uniform(5, 15, 3 * sets), rng.normal(size=3 * sets)
    V = (5.0 - 3.0 * np.log(price) + quality).reshape(sets, 3)
    p = np.exp(np.column_stack([V, np.full(sets, -2.0)]))
    p /= p.sum(1, keepdims=True)
    chosen = (rng.random((sets, 1)) > np.cumsum(p, 1)).sum(1)
    taken = np.zeros((sets, 4))
    taken[np.arange(sets), chosen] = 1
    return {
        "set": owner, "price": price, "quality": quality, "taken": taken[:, :3].ravel(),
        "name": np.tile(["a", "b", "c"], sets), "cost": np.full(3 * sets, 4.0),
    }  # fmt: skip


@pytest.fixture(scope="module")
def table():
    return market()


@pytest.fixture(scope="module")
def model(table):
    read = sw.read(
        table, set="set", chosen="taken", items=["log(price)", "quality"], on_none="outside"
    )
    return sw.MNL().fit(read)


def first(table: dict, sets: int) -> dict:
    return {name: values[: 3 * sets] for name, values in table.items()}


def test_the_best_price_of_one_item_is_that_of_the_formula(model, table):
    # d R / d p = 0 in the logit with log price: p (1 + b (1 - P)) = b (1 - P) c + b R_others.
    some = first(table, 2)
    found = sw.decide.prices(model, some, cost="cost", which={"name": "a"}, bounds=(4.5, 40.0))
    assert not found.at_bound.any()
    b = dict(zip(model.feature_names_, model.coef_, strict=True))["log(price)"]
    margin = found.after - some["cost"]
    for one in range(2):
        rows = np.arange(3 * one, 3 * one + 3)
        p, share = found.after[rows[0]], found.probability[rows]
        revenue = (share * margin[rows]).sum()
        # P_a [1 + (b / p)(m_a - R)] = 0
        assert 1 + b / p * (margin[rows[0]] - revenue) == pytest.approx(0, abs=2e-3)
    assert (found.earned_after > found.earned_before).all()


def test_gradients_and_the_grid_find_the_same_prices_together(model, table):
    some = first(table, 2)
    by = {
        name: sw.decide.prices(model, some, cost="cost", bounds=(4.5, 40.0), method=name)
        for name in ("search", "gradients")
    }
    np.testing.assert_allclose(by["search"].earned_after, by["gradients"].earned_after, rtol=1e-3)
    assert (by["gradients"].earned_after >= by["search"].earned_after * (1 - 1e-6)).all()


def test_prices_of_a_ladder_are_the_best_of_all(model, table):
    some, ladder = first(table, 1), [6.0, 8.0, 11.0, 15.0]
    found = sw.decide.prices(model, some, ladder=ladder)
    assert np.isin(found.after, ladder).all()
    tried = np.array(np.meshgrid(*[ladder] * 3)).reshape(3, -1).T
    every = {name: np.tile(values, len(tried)) for name, values in some.items()}
    every["set"] = np.repeat(np.arange(len(tried)), 3)
    every["price"] = tried.ravel()
    earned = (model.predict_proba(every) * every["price"]).reshape(-1, 3).sum(1)
    assert found.earned_after[0] == pytest.approx(earned.max(), rel=1e-5)


def test_a_curve_has_the_spread_of_the_estimates(model, table):
    some = first(table, 50)
    curve = sw.decide.price_curve(model, some, {"name": "a"}, factors=[0.9, 1.0, 1.1])
    expected = (model.predict_proba(some) * some["price"]).sum() / 50
    assert curve.earned[1] == pytest.approx(expected, rel=1e-5)
    # By the delta method for the factor 1.
    root = np.linalg.cholesky(model.covariance_)
    slopes = []
    for column in root.T:
        high, low = (
            (model.with_parameters(model.parameters_ + s * 0.1 * column).predict_proba(some)
             * some["price"]).sum() / 50
            for s in (1, -1)
        )  # fmt: skip
        slopes.append((high - low) / 0.2)
    # 100 draws know a standard deviation to 7 %: three times that is exceeded once in 400 runs.
    assert curve.spread[1] == pytest.approx(np.sqrt(np.sum(np.square(slopes))), rel=0.25)
    assert curve.demand[0] > curve.demand[2]


def test_bad_arguments_of_prices_are_refused(model, table):
    some = first(table, 1)
    for arguments, said in (
        ({"price": "quality2"}, "no number column 'quality2'"),
        ({"bounds": (9, 3)}, "lowest price above the highest"),
        ({"bounds": 3}, "bounds= must be two"),
        ({"ladder": [99.0], "bounds": (1, 2)}, "no price of the ladder"),
        ({"ladder": [9.0], "method": "gradients"}, "no ladder"),
        ({"which": {"name": "z"}}, "no item is one where"),
    ):
        with pytest.raises(sw.InputError, match=said):
            sw.decide.prices(model, some, **arguments)


@pytest.fixture(scope="module")
def sways():
    """A context-dependent model, exact and quick to fit, of people whom decoys sway."""
    return sw.WithinSetMNL().fit(sw.datasets.generate("decoy", sets=3000, seed=0).choices)


SHELF = {
    "set_id": [0, 0, 0, 0], "option": ["A", "B", "like A", "like B"],
    "x1": [6.0, 3.0, 5.5, 2.5], "x2": [3.0, 6.0, 2.5, 5.5], "margin": [3.0, 1.0, 0.0, 0.0],
}  # fmt: skip


@pytest.mark.parametrize("method", ["search", "exhaustive"])
def test_a_dominated_item_that_earns_nothing_is_shown(sways, method):
    limits = {"must": {"option": ["A", "B"]}, "at_most": 3, "method": method}
    found = sw.decide.assortment(sways, SHELF, "margin", **limits)
    assert found.shown.tolist() == [True, True, True, False]
    logit = sw.MNL().fit(sw.datasets.generate("decoy", sets=1000, seed=0).choices)
    assert sw.decide.assortment(logit, SHELF, "margin", **limits).shown[2:].sum() == 0


def test_additions_tell_decoys_from_what_any_item_does(sways):
    steps = sw.decide.additions(sways, SHELF, {"option": "A"}, shown={"option": ["A", "B"]})
    frame = steps.to_frame()
    by = {(row, step): change for row, step, change in zip(frame["row"], frame["step"],
          frame["change"], strict=True)}  # fmt: skip
    assert by[2, "add"] > 0.05 > 0 > by[3, "add"]
    assert by[1, "remove"] > 0
    with pytest.raises(sw.InputError, match="shows no item of target="):
        sw.decide.additions(sways, SHELF, {"option": "like A"}, shown={"option": ["A", "B"]})


def test_more_items_than_are_best_lose(sways):
    found = sw.decide.by_size(sways, SHELF, "margin", [2, 3, 4], must={"option": ["A", "B"]})
    assert found.to_frame()["loss"].to_list() == pytest.approx(
        found.expected.max() - found.expected
    )
    assert found.expected[1] == found.expected.max()


def test_earnings_are_those_of_the_assortment(sways):
    best = sw.decide.assortment(sways, SHELF, "margin", at_least=3)
    sure = sw.decide.earnings(sways, SHELF, "margin", shown=best.shown, against={"option": "B"})
    assert sure.mean == pytest.approx(best.expected[0], rel=1e-6)
    assert sure.gain == pytest.approx(best.expected[0] - 1.0, rel=1e-6)
    assert sure.spread > 0
    members = sw.SDW(dimension=2, ensemble=3, training=sw.Training(epochs=2)).fit(
        sw.datasets.generate("decoy", sets=100, seed=0).choices
    )
    several = sw.decide.earnings(members, SHELF, "margin")
    assert several.opinions == "3 members of the ensemble"
    assert several.spread > 0


def network(seed: int = 0):
    """A small SDA, hardly trained, so that context matters to it in strange ways."""
    drawn = sw.datasets.generate("sda", sets=400, items=(3, 8), features=3, seed=seed)
    training = sw.Training(epochs=10)
    return sw.SDA(dimension=4, components=2, ensemble=2, training=training).fit(drawn.choices)


def by_search(model, contexts: int, items: int, seed: int = 0) -> tuple[float, float]:
    """How often the search finds the best of all sets, and what it loses on average."""
    rng = np.random.default_rng(seed)
    rows = contexts * items
    table = {"set_id": np.repeat(np.arange(contexts), items), "margin": rng.lognormal(0, 0.5, rows)}
    table |= {f"x{i}": rng.normal(size=rows) for i in range(3)}
    limits = {"at_least": 3, "at_most": 6}
    best = sw.decide.assortment(model, table, "margin", method="exhaustive", **limits)
    found = sw.decide.assortment(model, table, "margin", method="search", **limits)
    assert (found.expected <= best.expected * (1 + 1e-5)).all()
    assert (found.bound >= best.expected * (1 - 1e-5)).all()
    lost = 1 - found.expected / best.expected
    return float((lost < 1e-5).mean()), float(lost.mean())


def test_the_search_finds_the_best_set_of_a_small_network():
    found, lost = by_search(network(), contexts=20, items=8)
    assert found >= 0.9
    assert lost < 0.01


@pytest.mark.slow
def test_the_search_finds_the_best_set_of_the_default_sda(compiled_well):
    drawn = sw.datasets.generate("sda", sets=2000, items=(3, 12), features=3, seed=0)
    model = sw.SDA(training=sw.Training(epochs=30)).fit(drawn.choices)
    found, _ = by_search(model, contexts=200, items=12)
    assert found >= 0.95


def test_the_command_decides(sways, tmp_path, monkeypatch):
    import polars as pl

    monkeypatch.chdir(tmp_path)
    sways.save("shelf.setwise")
    pl.DataFrame(SHELF).write_csv("shelf.csv")
    run = CliRunner()

    def output(*words: str) -> str:
        done = run.invoke(app, ["decide", *words])
        assert done.exit_code == 0, done.output
        return done.output

    both = ("shelf.setwise", "shelf.csv")
    text = output("assortment", *both, "--value", "margin", "--must", "option=A|B", "--at-most",
                  "3", "--out", "best.csv")  # fmt: skip
    assert "3 of 4 items" in text
    assert pl.read_csv("best.csv")["row"].to_list() == [0, 1, 2]
    assert '"sets"' in output("assortment", *both, "--at-least", "2", "--json")
    assert "remove" in output("additions", *both, "--target", "option=A")
    assert "by grid search" in output("prices", *both, "--price", "x1", "--ladder", "5,6")
    assert "draws" in output("curve", *both, "--price", "x1", "--which", "option=A")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("assortment", "--capacity", "x1"), "must be a column and a number"),
        (("prices", "--low", "3"), "go together"),
        (("prices", "--ladder", "3,x"), "must be numbers"),
        (("additions", "--target", "option=Z"), "no item is one where"),
    ],
)
def test_the_command_refuses_bad_options(sways, tmp_path, words, said):
    import polars as pl

    model, table = tmp_path / "shelf.setwise", tmp_path / "shelf.csv"
    sways.save(model)
    pl.DataFrame(SHELF).write_csv(table)
    done = CliRunner().invoke(app, ["decide", words[0], str(model), str(table), *words[1:]])
    assert isinstance(done.exception, sw.InputError)
    assert said in str(done.exception)


def test_a_scorer_is_searched(sways):
    scorer = Scorer.of(sways.artifact(), "shelf")
    limits = {"must": {"option": ["A", "B"]}, "at_most": 3}
    by = [sw.decide.assortment(one, SHELF, "margin", **limits) for one in (sways, scorer)]
    assert (by[0].shown == by[1].shown).all()
