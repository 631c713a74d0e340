"""Choice functions: what they hold, what violates IIA (by its definition), what they refuse."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from setwise import InputError
from setwise.paper.theory import ChoiceFunction


def subsets(items):
    return [s for size in range(1, len(items) + 1) for s in itertools.combinations(items, size)]


@st.composite
def tables(draw):
    items = "abcd"[: draw(st.integers(1, 4))]
    return {s: draw(st.sampled_from(s)) for s in subsets(items)}


def violating(table):
    """By definition s violates IIA if some larger s' has c(s') in s and c(s') != c(s)."""
    return {
        s for s, larger in itertools.product(table, table)
        if set(s) < set(larger) and table[larger] in s and table[larger] != table[s]
    }  # fmt: skip


@settings(deadline=None)
@given(tables())
def test_it_gives_back_its_table_and_finds_the_violations_of_the_definition(table):
    c = ChoiceFunction.from_table(table)
    assert {s: c.choice(s) for s in subsets(c.items)} == table
    found = c.violations()
    assert set(found) == violating(table)
    assert len(found) == len(set(found)) == c.violates().sum()
    assert [len(s) for s in found] == sorted(len(s) for s in found)


@settings(deadline=None)
@given(st.permutations("abcde"))
def test_an_order_never_violates_and_chooses_its_best(order):
    c = ChoiceFunction.rational(order)
    assert c.violations() == []
    for s in subsets(c.items):
        assert order.index(c.choice(s)) == min(order.index(name) for name in s)


def test_only_orders_never_violate():
    """Of the 24 choice functions on 3 items, 6 are orders; no other satisfies IIA."""
    pairs_and_triple = [s for s in subsets("abc") if len(s) > 1]
    every = [
        ChoiceFunction.from_table(dict(zip(pairs_and_triple, chosen, strict=True)))
        for chosen in itertools.product(*pairs_and_triple)
    ]
    orders = {str(ChoiceFunction.rational(order)) for order in itertools.permutations("abc")}
    assert len(every) == 24
    assert {str(c) for c in every if not c.violations()} == orders


def test_a_random_function_comes_from_its_seed_and_chooses_all_alike():
    assert str(ChoiceFunction.random(5, seed=1)) == str(ChoiceFunction.random("abcde", seed=1))
    assert str(ChoiceFunction.random(5, seed=1)) != str(ChoiceFunction.random(5, seed=2))
    drawn = [ChoiceFunction.random(3, seed=seed).choice("abc") for seed in range(600)]
    counts = np.array([drawn.count(name) for name in "abc"])
    assert ((counts - 200) ** 2 / 200).sum() < 13.8  # chi-squared, 2 degrees, 1 in 1,000


def test_items_may_have_long_names_and_keys_may_be_sets():
    c = ChoiceFunction.from_table({frozenset({"tea", "milk"}): "tea"})
    assert c.items == ("milk", "tea")
    assert c.choice(["tea", "milk"]) == c.choice(("tea",)) == "tea"
    assert str(c) == "{milk tea} -> tea"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"ab": "a", "bc": "b", "ac": "a"}, r"no choice from \{a b c\}"),
        ({"ab": "c", "ac": "a", "bc": "b", "abc": "a"}, r"from \{a b\} is 'c', not one of it"),
        ({"ab": "a", "ba": "b"}, "one subset twice"),
        ({}, "0 items"),
    ],
)
def test_tables_that_are_no_choice_functions(table, message):
    with pytest.raises(InputError, match=message):
        ChoiceFunction.from_table(table)


def test_other_bad_input():
    with pytest.raises(InputError, match="place 1, is not in it"):
        ChoiceFunction(("a", "b"), np.array([-1, 1, 1, 0]))
    with pytest.raises(InputError, match="place 7, is not in it"):
        ChoiceFunction(("a", "b"), np.array([-1, 0, 1, 7]))
    with pytest.raises(InputError, match="3 places; 2 items have 4 subsets"):
        ChoiceFunction(("a", "b"), np.array([-1, 0, 1]))
    with pytest.raises(InputError, match="'a' is given twice"):
        ChoiceFunction.rational("aba")
    with pytest.raises(InputError, match="from 1 to 12"):
        ChoiceFunction.random(13)
    with pytest.raises(InputError, match="no item 'z'"):
        ChoiceFunction.rational("ab").choice("az")
    with pytest.raises(InputError, match="the empty set"):
        ChoiceFunction.rational("ab").choice("")
    with pytest.raises(InputError, match="seed=-1"):
        ChoiceFunction.random(3, seed=-1)
