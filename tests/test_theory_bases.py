"""Mechanisms and triple bases: against floats of our own, and by search with linear programmes."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from setwise import InputError
from setwise.paper.theory import (
    TripleBasis,
    average_reference,
    ccm,
    has_triple_basis,
    kaneko_nakamura,
    lam,
    mnl,
    nccm,
    triple_basis,
    tversky,
)

HALF = Fraction(1, 2)
WITH = [tversky(1), tversky(2), tversky(5), ccm(HALF), ccm(2), ccm(3), kaneko_nakamura()]
WITHOUT = [lam(1), lam(2), lam(Fraction(7, 3)), average_reference(2), average_reference(5),
           nccm(HALF), nccm(2), nccm(3), mnl(), ccm(1)]  # fmt: skip
SETS = ((0, 1), (0, 2), (1, 2), (0, 1, 2))


def kink(z, loss):
    return np.where(z < 0, loss * z, z)


def in_floats(name, u, parameter):
    """What one self adds to each item of a set: the table of classical models, written again."""
    low, high = u.min(), u.max()
    spread = high - low
    position = (u - low) / spread if spread > 0 else np.zeros(len(u))
    return {
        "tversky": lambda: spread**parameter * u,
        "ccm": lambda: (u - low) ** parameter,
        "kaneko_nakamura": lambda: np.log(u - low + 1),
        "lam": lambda: kink(u - (high + low) / 2, parameter),
        "average_reference": lambda: kink(u - u.mean(), parameter),
        "nccm": lambda: spread * position**parameter,
        "mnl": lambda: u,
    }[name]()


PARAMETERS = [
    (tversky, 1), (tversky, 3), (ccm, 2), (ccm, 3), (lam, 2), (lam, 3), (average_reference, 2),
    (nccm, 2), (nccm, 3), (kaneko_nakamura, None), (mnl, None),
]  # fmt: skip


@pytest.mark.parametrize(("make", "parameter"), PARAMETERS)
@settings(max_examples=20, deadline=None)
@given(selves=st.integers(1, 4).flatmap(lambda n: st.lists(
    st.lists(st.integers(-5, 5), min_size=n, max_size=n), min_size=1, max_size=4)))  # fmt: skip
def test_scores_are_those_of_the_formulas(make, parameter, selves):
    mechanism = make() if parameter is None else make(parameter)
    scores = [float(score) for score in mechanism.scores(selves)]
    if mechanism.product:
        scores = [math.log(score) for score in scores]
    wanted = sum(in_floats(mechanism.name, np.array(u, float), parameter) for u in selves)
    np.testing.assert_allclose(scores, wanted, rtol=1e-12, atol=1e-9)


def test_roots_are_exact_or_refused():
    assert ccm(HALF).scores([[Fraction(9, 4), 0]]) == [Fraction(3, 2), 0]
    assert ccm(Fraction(2, 3)).scores([[27, 0]]) == [9, 0]
    with pytest.raises(InputError, match=r"\(2\)\^\(1/2\) is not a fraction"):
        ccm(HALF).scores([[2, 0]])


# Those that have a basis


@pytest.mark.parametrize("mechanism", WITH, ids=repr)
def test_the_basis_decides_one_pair_and_is_silent_elsewhere(mechanism):
    assert has_triple_basis(mechanism)
    basis = triple_basis(mechanism)
    first, second = basis.scores((0, 1))
    assert first > second
    for places in SETS[1:]:
        assert len(set(basis.scores(places))) == 1


@pytest.mark.parametrize("rho", [1, 2, 3, 4])
def test_margins_are_as_said(rho):
    first, second = triple_basis(tversky(rho)).scores((0, 1))
    assert first - second == 2 * (2**rho - 1)
    if rho > 1:
        first, second = triple_basis(ccm(rho)).scores((0, 1))
        assert first - second == 2**rho - 2


@pytest.mark.parametrize("mechanism", WITH, ids=repr)
def test_many_items_at_one_level_count_as_one(mechanism):
    """What carries a basis over to sets: levels 2 and 3 may be shared by any number of items."""
    basis = triple_basis(mechanism)
    for twos, threes in itertools.product(range(4), range(3)):
        for ones in (0, 1):
            levels = [0] * ones + [1] * twos + [2] * threes
            if len(levels) < 2:
                continue
            scores = mechanism.scores([[u[level] for level in levels] for u in basis.utilities])
            if ones and twos and not threes:
                assert all(scores[0] > score for score in scores[1:])
                assert len(set(scores[1:])) == 1
            else:
                assert len(set(scores)) == 1


def test_a_mean_as_reference_counts_items_twice():
    doubled = average_reference(2).scores([[3, 0, 0]])
    assert doubled[0] - doubled[1] != np.subtract(*average_reference(2).scores([[3, 0]]))
    for mechanism in (tversky(), ccm(2), lam(), nccm(), kaneko_nakamura()):
        assert mechanism.scores([[3, 0, 0]])[:2] == mechanism.scores([[3, 0]])


@pytest.mark.parametrize("rho", [0.2, 0.5, 0.9])
@settings(max_examples=30, deadline=None)
@given(p=st.floats(0.1, 5), q=st.floats(0.1, 5))
def test_three_selves_are_enough_for_concave_gains(rho, p, q):
    """The argument of the docstring in floats, for powers that fractions cannot express."""
    A = ((p + q) ** rho - q**rho) ** (1 / rho)
    selves = np.array([(p + q, q, 0), (0, A, A), (0, 0, q)])
    margins = {
        places: sum(in_floats("ccm", u[list(places)], rho) for u in selves) for places in SETS
    }
    assert np.subtract(*margins[0, 1]) == pytest.approx(p**rho + q**rho - (p + q) ** rho)
    assert np.subtract(*margins[0, 1]) > 0
    for places in SETS[1:]:
        np.testing.assert_allclose(margins[places], margins[places][0], rtol=1e-9)


@pytest.mark.parametrize("rho", [0.1, 0.5, 1.5, 2.5])
def test_tverskys_basis_is_one_for_powers_that_are_no_whole_numbers(rho):
    selves = np.array(triple_basis(tversky()).utilities, float)
    scores = [sum(in_floats("tversky", u[list(places)], rho) for u in selves) for places in SETS]
    assert np.subtract(*scores[0]) == pytest.approx(2 * (2**rho - 1))
    for others in scores[1:]:
        np.testing.assert_allclose(others, others[0], atol=1e-12)


@pytest.mark.parametrize("rho", [1.2, 1.5, 2.5])
def test_a_scaled_self_stands_for_many_where_the_power_is_no_whole_number(rho):
    loud = (2**rho - 1) ** (1 / rho)
    selves = np.array([(loud, 0, 0), (1, 1, 0), (0, 1, 2), (1, 2, 0), (1, 0, 2), (2, 0, 1),
                       (0, 2, 1)])  # fmt: skip
    scores = [sum(in_floats("ccm", u[list(places)], rho) for u in selves) for places in SETS]
    assert np.subtract(*scores[0]) == pytest.approx(2**rho - 2)
    for others in scores[1:]:
        np.testing.assert_allclose(others, others[0], rtol=1e-12)


# Those that have none


def margins(mechanism, u):
    """Exact margins of one self: on each pair, and on the triple of x1 and x2 over x3."""
    by_set = [mechanism.scores([[u[place] for place in places]]) for places in SETS]
    return [a - b for a, b in by_set[:3]] + [by_set[3][0] - by_set[3][2],
                                             by_set[3][1] - by_set[3][2]]  # fmt: skip


def grid(mechanism):
    """Directions of utilities; adding a constant to a self changes no margin, so u(x3) = 0."""
    values = range(-3, 4)
    if mechanism.name in ("ccm", "nccm") and mechanism.rho == HALF:
        values = [-25, -16, -9, 0, 9, 16, 25]
    for first, second in itertools.product(values, values):
        try:
            margins(mechanism, (first, second, 0))
        except InputError:  # no exact root
            continue
        yield (first, second, 0)


@pytest.mark.parametrize("mechanism", WITHOUT, ids=repr)
@settings(max_examples=20, deadline=None)
@given(u=st.tuples(*[st.fractions(-9, 9, max_denominator=7)] * 3))
def test_pairs_add_up_exactly_where_there_is_no_basis(mechanism, u):
    """The proof's identity, which holds for every self and so for every sum of selves."""
    pairs = [mechanism.scores([[u[a], u[b]]]) for a, b in SETS[:3]]
    d12, d13, d23 = (first - second for first, second in pairs)
    assert d12 == d13 - d23


@pytest.mark.parametrize("mechanism", [m for m in WITH if not m.product], ids=repr)
def test_pairs_do_not_add_up_where_there_is_a_basis(mechanism):
    found = [margins(mechanism, u) for u in grid(mechanism)]
    assert any(d12 != d13 - d23 for d12, d13, d23, _, _ in found)


@pytest.mark.parametrize("mechanism", [*WITH, *WITHOUT], ids=repr)
def test_a_search_by_linear_programme_agrees(mechanism):
    """Weights on selves of a grid, none negative, that give (1, 0, 0, 0, 0): possible or not."""
    if mechanism.product:
        columns = []
        for u in itertools.product(range(-3, 4), range(-3, 4), [0]):
            by_set = [in_floats(mechanism.name, np.array(u, float)[list(p)], None) for p in SETS]
            columns.append([a - b for a, b in by_set[:3]] + list(by_set[3][:2] - by_set[3][2]))
    else:
        columns = [[float(v) for v in margins(mechanism, u)] for u in grid(mechanism)]
    V = np.array(columns).T
    solved = linprog(np.ones(V.shape[1]), A_eq=V, b_eq=[1, 0, 0, 0, 0])
    assert solved.status == (0 if has_triple_basis(mechanism) else 2)  # optimal, or infeasible


@pytest.mark.parametrize("mechanism", [lam(2), average_reference(2), nccm(2)], ids=repr)
def test_no_three_selves_of_a_grid_are_a_basis(mechanism):
    found = np.array([margins(mechanism, u) for u in grid(mechanism)])
    for selves in itertools.combinations_with_replacement(range(len(found)), 2):
        rest = found[list(selves)].sum(0) + found  # with each third self
        silent = (rest[:, 1:] == 0).all(1)
        assert not (silent & (rest[:, 0] > 0)).any()


@pytest.mark.parametrize("mechanism", WITHOUT, ids=repr)
def test_what_has_no_basis_says_why(mechanism):
    assert not has_triple_basis(mechanism)
    with pytest.raises(InputError, match="pairs add up"):
        triple_basis(mechanism)


def test_the_circle_of_pairs_is_out_of_reach_without_a_basis():
    """x1 over x2, x2 over x3, x3 over x1 on pairs: D12 + D23 = D13 > 0 forbids the third."""
    for mechanism in (lam(2), nccm(2), average_reference(3)):
        for selves in itertools.combinations(list(grid(mechanism))[::3], 2):
            d12, d13, d23, _, _ = np.sum([margins(mechanism, u) for u in selves], 0)
            assert not (d12 > 0 and d23 > 0 and d13 < 0)


# What is refused


def test_a_wrong_basis_is_seen():
    with pytest.raises(ArithmeticError, match="not a triple basis of tversky"):
        TripleBasis(tversky(), ((1, 0, 0),)).verify()
    with pytest.raises(ArithmeticError, match="not a triple basis of tversky"):
        TripleBasis(tversky(), ((0, 0, 0),)).verify()


def test_bad_parameters():
    for make, value, message in (
        (tversky, 0, "rho=0"), (ccm, 0, "rho=0"), (nccm, -1, "rho=-1"), (lam, HALF, "loss=F"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            make(value)
    assert has_triple_basis(ccm(Fraction(1, 3)))
    with pytest.raises(InputError, match="rho=1/2 or a whole rho"):
        triple_basis(ccm(Fraction(1, 3)))
