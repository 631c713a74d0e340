"""Data sets: the shipped tables are whole, and every generator draws from the truth it states."""

import subprocess
import sys
from statistics import NormalDist

import numpy as np
import pytest

from setwise import datasets
from setwise._errors import InputError
from setwise.choices import read, split
from setwise.datasets.generated import Generated, choose, log_sums, softmax
from setwise.datasets.generators import CONDITIONS, context_scores, nested_logit
from setwise.datasets.registry import GENERATORS

RAGGED = ("mnl", "nested", "mixed", "sda")
SHIPPED = {"swissmetro": (10_719, 30_474), "modecanada": (4_324, 15_520)}
BINS = 10


def features(drawn: Generated) -> np.ndarray:
    return np.stack([drawn.columns[name] for name in drawn.items], 1)


# The shipped tables


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_tables_are_whole(name):
    choices, (sets, rows) = datasets.load(name), SHIPPED[name]
    assert (len(choices), len(choices.rows)) == (sets, rows)
    assert datasets.table(name).height == rows
    assert [str(feature) for feature in choices.roles.items] == datasets.roles(name)["items"]


def test_swissmetro_has_nine_choices_of_each_traveller():
    choices = datasets.load("swissmetro")
    assert np.unique(choices.group, return_counts=True)[1].tolist() == [9] * 1191
    train, test = split(choices, (0.7, 0.3), by="group")
    assert not set(train.group) & set(test.group)


@pytest.mark.parametrize("name", SHIPPED)
def test_mode_columns_name_exactly_one_mode_a_row(name):
    table = datasets.table(name)
    modes = [column for column in table.columns if column.startswith("is_")]
    assert (table.select(modes).sum_horizontal() == 1).all()


def test_modecanada_choices_are_those_of_the_source():
    table = datasets.table("modecanada")
    taken = dict(table.filter(table["chosen"] == 1)["alt"].value_counts().iter_rows())
    assert taken == {"car": 2213, "air": 1472, "train": 623, "bus": 16}


# The registry


def test_catalogue_lists_every_data_set_with_source_and_terms():
    listed = datasets.catalogue()
    assert tuple(one.name for one in listed) == datasets.names()
    assert {one.name for one in listed if one.kind == "shipped"} == set(SHIPPED)
    assert {one.name for one in listed if one.kind == "generated"} == set(GENERATORS)
    assert all(one.summary and one.source and one.terms for one in listed)


@pytest.mark.parametrize("name", datasets.names())
def test_table_and_roles_read_back_as_load(name):
    again, loaded = read(datasets.table(name), **datasets.roles(name)), datasets.load(name)
    assert again.roles == loaded.roles
    assert np.array_equal(again.offsets, loaded.offsets)
    assert np.array_equal(again.chosen, loaded.chosen)
    for column, values in loaded.columns.items():
        assert np.array_equal(again.columns[column].values, values.values)


@pytest.mark.parametrize("call", [datasets.load, datasets.table, datasets.roles, datasets.generate])
def test_unknown_name_lists_what_exists(call):
    with pytest.raises(InputError, match=r"no data set 'swismetro'; there are: swissmetro, .*sda"):
        call("swismetro")


def test_unknown_option_lists_the_options():
    expected = "'decoy' has no option 'items'; it has: sets, seed, attraction, compromise"
    with pytest.raises(InputError, match=expected):
        datasets.generate("decoy", items=5)


def test_a_table_is_no_generator():
    with pytest.raises(InputError, match="use load\\('swissmetro'\\); the generators are: mnl"):
        datasets.generate("swissmetro")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("mnl", {"sets": 0}, "sets=0 must be a whole number of at least 1"),
        ("mnl", {"seed": -1}, "seed=-1 must be a whole number of at least 0"),
        ("mnl", {"items": 0}, "items=0 must be a whole number of at least 1"),
        ("mnl", {"items": (5, 2)}, "least above the most"),
        ("mnl", {"items": (2, 3, 4)}, "the least and the most"),
        ("mnl", {"features": 0}, "features=0 must be a whole number of at least 1"),
        ("mnl", {"features": 3, "beta": (1.0, 2.0)}, r"beta has shape \(2,\).* need \(3,\)"),
        ("mnl", {"beta": (1.0, float("nan"))}, "must be finite"),
        ("nested", {"nests": 2, "lambdas": (0.5, 1.5)}, "above 0 and at most at 1"),
        ("nested", {"nests": 2, "lambdas": (0.0, 1.0)}, "above 0 and at most at 1"),
        ("nested", {"lambdas": (0.5,)}, r"lambdas has shape \(1,\)"),
        ("mixed", {"classes": 3, "features": 2}, "features=2 is fewer than classes=3"),
        ("mixed", {"shares": (1.0, -1.0)}, "must be positive"),
        ("decoy", {"attraction": float("inf")}, "attraction=inf must be finite"),
        (
            "sda",
            {"recipe": "sdaa"},
            "recipe='sdaa' is not a model; .*: .*sda_difference",
        ),
        ("sda", {"dimension": 0}, "dimension=0 must be a whole number of at least 1"),
    ],
)
def test_bad_options_are_named(name, options, message):
    with pytest.raises(InputError, match=message):
        datasets.generate(name, **options)


def test_importing_and_drawing_need_neither_jax_nor_polars():
    script = (
        "import sys; from setwise import datasets; datasets.generate('mnl', sets=3).choices;"
        "print([name for name in ('jax', 'polars') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


# Laws of every generator


@pytest.mark.parametrize("name", GENERATORS)
def test_a_seed_gives_the_same_data_and_another_gives_other_data(name):
    first, again, other = (datasets.generate(name, sets=40, seed=seed) for seed in (3, 3, 4))
    for column in first.columns:
        assert np.array_equal(first.columns[column], again.columns[column])
    assert np.array_equal(first.probabilities, again.probabilities)
    for column in ("chosen", *first.items):
        assert not np.array_equal(first.columns[column], other.columns[column])


@pytest.mark.parametrize("name", GENERATORS)
def test_generated_tables_are_sound(name):
    drawn = datasets.generate(name, sets=200, seed=1)
    owner, sums = drawn.columns["set_id"], np.bincount
    assert drawn.probabilities.dtype == np.float64
    assert np.allclose(sums(owner, drawn.probabilities), 1, rtol=0, atol=1e-12)
    assert (sums(owner, drawn.columns["chosen"]) == 1).all()
    assert list(drawn.items) == datasets.roles(name)["items"]
    assert len(drawn.choices) == 200
    assert drawn.table.columns == list(drawn.columns)


@pytest.mark.parametrize("name", RAGGED)
def test_set_sizes_lie_in_the_range_and_reach_its_ends(name):
    ragged = datasets.generate(name, sets=300, seed=0, items=(2, 6)).choices.sizes
    assert set(ragged.tolist()) == {2, 3, 4, 5, 6}
    assert set(datasets.generate(name, sets=20, items=4).choices.sizes.tolist()) == {4}


def z_scores(drawn: Generated, probabilities: np.ndarray) -> np.ndarray:
    """How far choices fall from the probabilities, in standard errors, by bin of probability.

    Whether the chosen item of a set lies in a bin is a Bernoulli variable whose mean q is the
    bin's probability in that set, so the variance over independent sets is the sum of q (1 - q).
    """
    owner, chosen = drawn.columns["set_id"], drawn.columns["chosen"]
    edges = np.quantile(drawn.probabilities, np.linspace(0, 1, BINS + 1)[1:-1])
    bins = np.digitize(drawn.probabilities, edges)
    scores = []
    for one in np.unique(bins):
        q = np.bincount(owner, probabilities * (bins == one))
        scores.append((chosen[bins == one].sum() - q.sum()) / np.sqrt((q * (1 - q)).sum()))
    return np.array(scores)


def surprise_z(drawn: Generated) -> float:
    """The realised log-loss of the truth against its entropy, in standard errors."""
    owner, p = drawn.columns["set_id"], drawn.probabilities
    loss, sets = -np.log(p), owner[-1] + 1
    entropy = np.bincount(owner, p * loss)
    variance = np.bincount(owner, p * loss**2) - entropy**2
    realised = loss[drawn.columns["chosen"] == 1].sum()
    assert entropy.sum() / sets == pytest.approx(drawn.expected_nll)
    return (realised - entropy.sum()) / np.sqrt(variance.sum())


# Two-sided, with a chance of 1 in 1,000 a generator that a correct one fails (Bonferroni).
LIMIT = NormalDist().inv_cdf(1 - 0.001 / 2 / (BINS + 1))


@pytest.mark.parametrize("name", GENERATORS)
def test_choices_agree_with_the_true_probabilities(name):
    drawn = datasets.generate(name, sets=4000, seed=7)
    assert np.abs(z_scores(drawn, drawn.probabilities)).max() < LIMIT
    assert abs(surprise_z(drawn)) < LIMIT


@pytest.mark.parametrize("name", GENERATORS)
def test_the_agreement_test_rejects_other_probabilities(name):
    drawn = datasets.generate(name, sets=4000, seed=7)
    flatter = softmax(0.8 * np.log(drawn.probabilities), drawn.columns["set_id"])
    assert np.abs(z_scores(drawn, flatter)).max() > LIMIT


@pytest.mark.parametrize("name", GENERATORS)
def test_expected_accuracy_is_that_of_the_best_guess(name):
    drawn = datasets.generate(name, sets=4000, seed=8)
    owner, p = drawn.columns["set_id"], drawn.probabilities
    best = p == np.maximum.reduceat(p, np.unique(owner, return_index=True)[1])[owner]
    top = p[best]
    hits = drawn.columns["chosen"][best]
    assert len(top) == 4000
    z = (hits.mean() - drawn.expected_top1) / np.sqrt((top * (1 - top)).sum() / 4000**2)
    assert abs(z) < LIMIT


# Multinomial logit


def test_mnl_obeys_the_ratio_law():
    drawn = datasets.generate("mnl", sets=50, seed=2, items=(2, 5), beta=(0.5, -2.0, 1.0))
    utility = features(drawn) @ np.array([0.5, -2.0, 1.0])
    first = np.unique(drawn.columns["set_id"], return_index=True)[1]
    ratio = drawn.probabilities[first] / drawn.probabilities[first + 1]
    assert np.allclose(ratio, np.exp(utility[first] - utility[first + 1]), rtol=1e-12)


def test_helpers_survive_large_scores_and_certain_choices():
    owner = np.array([0, 0, 1])
    assert softmax(np.array([1e4, 0.0, -1e4]), owner).tolist() == [1.0, 0.0, 1.0]
    assert log_sums(np.array([1e4, 1e4]), np.array([0, 0]), 1) == pytest.approx(1e4 + np.log(2))
    for seed in range(20):
        certain = choose(np.random.default_rng(seed), np.array([0.0, 1.0, 1.0]), owner)
        assert certain.tolist() == [0, 1, 1]


# Nested logit


def test_nested_logit_by_hand():
    """Two nests: {a, b} with lambda 0.5 and {c} with lambda 1; exp V = 2, 3, 4.

    exp(V / lambda) = 4, 9 and 4. Nest weights (sum)^lambda: sqrt(13) = 3.605551 and 4. So
    P(nest 0) = 3.605551 / 7.605551 = 0.474068; of it a has 4/13 and b 9/13.
    """
    p = nested_logit(
        np.log([2.0, 3.0, 4.0]), np.array([0, 0, 1]), np.array([0.5, 1.0]), np.zeros(3, int)
    )
    assert p == pytest.approx([0.145867, 0.328201, 0.525932], abs=1e-6)


def test_nested_logit_with_lambda_one_is_mnl():
    drawn = datasets.generate("nested", sets=30, seed=0, nests=2, lambdas=(1.0, 1.0))
    utility = features(drawn) @ drawn.parameters["beta"]
    assert np.allclose(drawn.probabilities, softmax(utility, drawn.columns["set_id"]))


def test_nested_breaks_iia_across_nests_only():
    """Without item b of nest 0, a gains on the other nest, but c : d within nest 1 stays."""
    lambdas, nest = np.array([0.4, 0.6]), np.array([0, 0, 1, 1])
    utility = np.array([0.3, 0.1, -0.2, 0.5])
    whole = nested_logit(utility, nest, lambdas, np.zeros(4, int))
    kept = [0, 2, 3]
    part = nested_logit(utility[kept], nest[kept], lambdas, np.zeros(3, int))
    assert part[1] / part[2] == pytest.approx(whole[2] / whole[3])
    assert part[0] / part[1] > 1.2 * whole[0] / whole[2]


def test_generated_nested_probabilities_are_of_the_columns():
    drawn = datasets.generate("nested", sets=30, seed=5, items=(2, 6))
    utility = features(drawn) @ drawn.parameters["beta"]
    arguments = drawn.columns["nest"], drawn.parameters["lambda"], drawn.columns["set_id"]
    assert np.allclose(drawn.probabilities, nested_logit(utility, *arguments))
    assert "nest" not in drawn.items


# Mixed logit


def test_mixed_probabilities_by_hand():
    """One feature, theta 0 and log 3 with shares 3:1, on the items of one set."""
    drawn = datasets.generate(
        "mixed", sets=1, seed=0, items=2, theta=((0.0,), (np.log(3.0),)), shares=(3.0, 1.0)
    )
    odds = 3.0 ** (drawn.columns["x0"][0] - drawn.columns["x0"][1])
    assert drawn.probabilities[0] == pytest.approx(0.75 * 0.5 + 0.25 * odds / (1 + odds))


def test_mixed_classes_have_their_shares_and_their_own_choices():
    drawn = datasets.generate("mixed", sets=4000, seed=0)
    owner, latent = drawn.columns["set_id"], drawn.columns["latent_class"]
    first = np.unique(owner, return_index=True)[1]
    assert np.array_equal(latent, latent[first][owner])
    share = drawn.parameters["shares"][0]
    error = np.sqrt(share * (1 - share) / 4000)
    assert abs((latent[first] == 0).mean() - share) < LIMIT * error
    for k, theta in enumerate(drawn.parameters["theta"]):
        inside = drawn.columns["chosen"][latent == k] == 1
        by_class = softmax(features(drawn) @ theta, owner)[latent == k]
        expected = np.bincount(owner[latent == k], by_class**2).sum()
        # The mean true probability of what was chosen is sum p^2 for the right class only.
        assert by_class[inside].sum() == pytest.approx(expected, rel=0.05)


# Decoys


def decoys(**options) -> tuple[Generated, np.ndarray, np.ndarray]:
    """Data, log P of A less log P of B a set, and +1 where A is favoured, -1 where B is."""
    drawn = datasets.generate("decoy", seed=0, **options)
    option = drawn.columns["option"]
    log_p = np.log(drawn.probabilities)
    favours = np.where(drawn.columns["favours"][option == "A"] == "A", 1, -1)
    return drawn, log_p[option == "A"] - log_p[option == "B"], favours


def base_odds(drawn: Generated) -> np.ndarray:
    utility, option = features(drawn) @ drawn.parameters["beta"], drawn.columns["option"]
    return utility[option == "A"] - utility[option == "B"]


def test_decoy_of_no_strength_is_exactly_iia():
    drawn, log_odds, _ = decoys(sets=500, **dict.fromkeys(CONDITIONS, 0.0))
    assert np.allclose(log_odds, base_odds(drawn), rtol=0, atol=1e-12)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_decoy_favours_by_its_strength_in_its_condition_only(condition):
    strengths = dict.fromkeys(CONDITIONS, 0.0) | {condition: 1.5}
    drawn, log_odds, favours = decoys(sets=3000, **strengths)
    shown = drawn.columns["condition"][drawn.columns["option"] == "A"] == condition
    gain = favours * (log_odds - base_odds(drawn))
    assert np.allclose(gain, np.where(shown, 1.5, 0.0), rtol=0, atol=1e-12)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_decoy_raises_the_share_of_the_favoured_option(condition):
    drawn = datasets.generate("decoy", sets=6000, seed=0)
    option, taken = drawn.columns["option"], drawn.columns["chosen"] == 1
    rows = taken & (drawn.columns["condition"] == condition) & (option != "third")
    target = option[rows] == drawn.columns["favours"][rows]
    # The relative share of the target is 1/2 without context, e / (1 + e) = 0.73 with strength 1.
    assert abs(target.mean() - 0.7311) < LIMIT * np.sqrt(0.25 / len(target))


def test_decoy_depends_on_the_attributes_alone_and_not_on_their_order():
    drawn = datasets.generate("decoy", sets=300, seed=0)
    parameters = {name: drawn.parameters[name] for name in ("beta", *CONDITIONS)}
    x = features(drawn).reshape(-1, 3, 2)
    owner = drawn.columns["set_id"]
    assert np.allclose(softmax(context_scores(x, **parameters).reshape(-1), owner),
                       drawn.probabilities)  # fmt: skip
    turned = context_scores(x[:, [2, 0, 1]], **parameters)
    assert np.allclose(turned, context_scores(x, **parameters)[:, [2, 0, 1]])


def test_decoy_needs_a_third_option():
    drawn = datasets.generate("decoy", sets=300, seed=0)
    x = features(drawn).reshape(-1, 3, 2)[:, :2]
    beta = drawn.parameters["beta"]
    assert np.array_equal(context_scores(x, beta, 1.0, 1.0, 1.0), x @ beta)


def test_decoy_places_and_order_vary():
    drawn = datasets.generate("decoy", sets=900, seed=0)
    option = drawn.columns["option"].reshape(-1, 3)
    assert len(np.unique(option, axis=0)) == 6
    assert len(np.unique(features(drawn), axis=0)) == 2700
    assert {*drawn.columns["condition"]} == set(CONDITIONS)


@pytest.mark.parametrize(
    ("options", "gain"),
    [
        # the decoy is dominated by the first option, not by the second
        ([[6, 4], [4, 6], [5.7, 3.7]], [1, 0, 0]),
        # dominated by both: nobody stands out
        ([[6, 5], [5, 6], [4.5, 4.5]], [0, 0, 0]),
        # the second is the middle
        ([[4, 6], [5.5, 4.5], [7, 3]], [0, 10, 0]),
        # the last two are alike, so that the first gains and the middle does not
        ([[4, 6], [6, 4], [6.3, 3.7]], [100, 0, 0]),
    ],
)
def test_context_scores_by_hand(options, gain):
    x = np.array([options], float)
    assert context_scores(x, np.zeros(2), 1.0, 10.0, 100.0).tolist() == [gain]


# Drawn from the family's own models


def test_sda_truth_is_the_model_with_standardised_scores():
    import jax
    import jax.numpy as jnp

    from setwise.models import ZOO, Sizes

    drawn = datasets.generate("sda", sets=400, seed=3, items=5, features=4, strength=3.0)
    model = ZOO["sda_difference"].build(4, Sizes(dimension=4), jax.random.key(3))
    x = features(drawn).reshape(400, 5, 4)
    scores = np.asarray(jax.vmap(lambda s: model.scores(s, jnp.ones(5, bool)))(x), np.float64)
    scaled = 3.0 / drawn.parameters["scale"] * scores
    assert np.allclose(drawn.probabilities,
                       softmax(scaled.reshape(-1), drawn.columns["set_id"]), atol=1e-5)  # fmt: skip
    spread = (scaled - scaled.mean(1, keepdims=True)).std()
    assert spread == pytest.approx(3.0, rel=0.15)  # the scale was measured on other sets
    assert np.array_equal(drawn.parameters["F.theta"], np.asarray(model.F.theta))


def test_sda_padding_changes_nothing():
    """A ragged set's probabilities are those of the model on its items alone."""
    import jax
    import jax.numpy as jnp

    from setwise.models import ZOO, Sizes

    drawn = datasets.generate("sda", sets=30, seed=0, items=(2, 6))
    model = ZOO["sda_difference"].build(8, Sizes(dimension=4), jax.random.key(0))
    factor = drawn.parameters["strength"] / drawn.parameters["scale"]
    for one in (0, 7, 29):
        rows = drawn.columns["set_id"] == one
        scores = model.scores(jnp.asarray(features(drawn)[rows]), jnp.ones(rows.sum(), bool))
        alone = softmax(factor * np.asarray(scores, np.float64), np.zeros(rows.sum(), int))
        assert np.allclose(drawn.probabilities[rows], alone, atol=1e-5)


def test_sda_truth_does_not_depend_on_how_many_sets_are_drawn():
    few, many = (datasets.generate("sda", sets=sets, seed=1) for sets in (10, 50))
    assert few.parameters["scale"] == many.parameters["scale"]


def test_sda_of_no_strength_is_random():
    drawn = datasets.generate("sda", sets=10, items=4, strength=0.0)
    assert np.allclose(drawn.probabilities, 0.25)
