"""Every choice function is an aggregation: all of them on 3 and 4 items, random ones on more."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from setwise import InputError
from setwise.paper.theory import ChoiceFunction, rationalise, tversky, universal

SUBSETS = [s for size in (2, 3, 4) for s in itertools.combinations("abcd", size)]


def every_choice_function(n):
    options = [[z for z in range(n) if mask >> z & 1] for mask in range(1, 1 << n)]
    for chosen in itertools.product(*options):
        yield ChoiceFunction(tuple("abcd"[:n]), np.array([-1, *chosen]))


def check(c, rho=1):
    """The aggregation's choices, from its utilities alone: plain loops over Python's numbers."""
    found = rationalise(c, rho)
    masks = range(1, len(c.chosen))
    for mask in masks:
        places = [z for z in range(len(c.items)) if mask >> z & 1]
        scores = dict.fromkeys(places, 0)
        for u in found.utilities:
            weight = (max(u[z] for z in places) - min(u[z] for z in places)) ** rho
            for z in places:
                scores[z] += weight * u[z]
        best = scores.pop(int(c.chosen[mask]))
        assert all(best > score for score in scores.values())
    assert found.dimension == len(found.utilities) == 1 + 5 * len(found.bases)
    assert {basis.subset for basis in found.bases} <= set(c.violations())
    return found


@pytest.mark.parametrize("rho", [1, 2, 3])
def test_all_24_on_three_items(rho):
    found = [check(c, rho) for c in every_choice_function(3)]
    assert len(found) == 24
    assert max(one.dimension for one in found) == 11


@pytest.mark.slow
def test_all_20736_on_four_items():
    """At most 9 bases, l at most 46; only violating sets need a basis."""
    found = [rationalise(c) for c in every_choice_function(4)]
    assert len(found) == 20_736
    assert max(len(one.bases) for one in found) == 9
    assert max(one.dimension for one in found) == 46
    for one in found:
        violating = one.choice_function.violates()
        assert all(violating[one.choice_function.mask(basis.subset)] for basis in one.bases)


@pytest.mark.parametrize("items", [1, 2, 4, 5, 6])
@pytest.mark.parametrize("rho", [1, 2])
def test_random_ones(items, rho):
    for seed in range(8):
        check(ChoiceFunction.random(items, seed=seed), rho)


@settings(deadline=None)
@given(st.tuples(*[st.sampled_from(s) for s in SUBSETS]), st.integers(1, 4))
def test_any_on_four_items_with_any_power(chosen, rho):
    check(ChoiceFunction.from_table(dict(zip(SUBSETS, chosen, strict=True))), rho)


def test_an_order_needs_itself_alone():
    found = check(ChoiceFunction.rational("dbac"))
    assert (found.dimension, found.bases) == (1, ())
    assert found.order == tuple("dbac")


def test_by_hand():
    """a > b > c, but c from {a c}: the base order has 4 : 0 for a there, and 2 · 2² = 8 is more."""
    c = ChoiceFunction.from_table({"ab": "a", "bc": "b", "ac": "c", "abc": "a"})
    found = rationalise(c)
    assert found.order == ("a", "b", "c")
    assert found.bases == (("c", ("a", "c"), 2),)
    assert found.utilities[0] == (2, 1, 0)
    assert found.utilities[1:] == (  # columns a, b, c are levels 2, 3, 1
        (-2, 0, -4), (2, 0, -2), (4, 0, 2), (0, 0, 4), (-4, 0, 0),
    )  # fmt: skip
    assert found.scores("ac") == {"a": 4 - 4, "c": 0 + 4}
    assert found.choice("ca") == "c"


def test_scores_are_the_mechanisms():
    c = ChoiceFunction.random(4, seed=5)
    found = rationalise(c, rho=2)
    mechanism = tversky(2)
    for mask in range(1, 16):
        subset = c.subset(mask)
        places = [c.items.index(name) for name in subset]
        wanted = mechanism.scores([[u[z] for z in places] for u in found.utilities])
        assert list(found.scores(subset).values()) == wanted


def test_numbers_do_not_overflow():
    """Beyond what 64 bits hold, the scores are still whole numbers and right."""
    found = check(ChoiceFunction.random(6, seed=0), rho=40)
    assert max(abs(score) for score in found.scores("abcdef").values()) > 2**63


def test_a_wrong_aggregation_is_seen():
    found = rationalise(ChoiceFunction.random(4, seed=1))
    with pytest.raises(ArithmeticError, match="does not choose"):
        replace(found, utilities=found.utilities[:1]).verify()


def test_it_reads_well():
    c = ChoiceFunction.from_table({"ab": "a", "bc": "b", "ac": "c", "abc": "a"})
    assert rationalise(c).describe() == "\n".join(
        [
            "g(x, s) = sum_i (max u_i - min u_i)^1 u_i(x)",
            "6 selves: a base order and 1 triple basis",
            "  self   a   b   c",
            "     1   2   1   0   base order: a > b > c",
            "     2  -2   0  -4   {a c} -> c",
            "     3   2   0  -2",
            "     4   4   0   2",
            "     5   0   0   4",
            "     6  -4   0   0",
        ]
    )
    with pytest.raises(InputError, match="rho=0"):
        rationalise(c, rho=0)


@pytest.mark.parametrize("items", [1, 3, 5])
def test_the_universal_alternative(items):
    c = ChoiceFunction.random(items, seed=2)
    same = universal(c)
    assert same.dimension == items
    for mask in range(1, 1 << items):
        scores = same.scores(c.subset(mask))
        assert sum(scores.values()) == 1
        assert scores[c.choice(c.subset(mask))] == 1
