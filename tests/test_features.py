"""Feature expressions: what may be written, and that it means the same when written again."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from setwise import InputError
from setwise.choices import Feature, Roles

COLUMNS = st.text("abc_ 1é", min_size=1, max_size=6).map(str.strip).filter(bool)


@st.composite
def features(draw):
    kind = draw(st.sampled_from(["number", "category", "other"]))
    transform = draw(st.sampled_from(["none", "log", "log1p", "sqrt"]))
    return Feature(
        draw(COLUMNS),
        transform if kind == "number" else "none",
        category=kind != "number",
        other=kind == "other",
        impute=draw(st.booleans()),
    )


@settings(deadline=None)
@given(features())
def test_a_feature_written_and_parsed_is_the_same(feature):
    assert Feature.parse(str(feature)) == feature


@pytest.mark.parametrize(
    ("text", "feature"),
    [
        ("price", Feature("price")),
        ("log(price)", Feature("price", "log")),
        ("log1p(price)", Feature("price", "log1p")),
        ("sqrt(price)", Feature("price", "sqrt")),
        ("category(id)", Feature("id", category=True)),
        ("other(id)", Feature("id", category=True, other=True)),
        ("impute(price)", Feature("price", impute=True)),
        ("log(impute(price))", Feature("price", "log", impute=True)),
        ("category(impute(id))", Feature("id", category=True, impute=True)),
        ("impute(other(id))", Feature("id", category=True, other=True, impute=True)),
        ("exp(price)", Feature("exp(price)")),  # not a function of ours: a column's name
    ],
)
def test_expressions_mean(text, feature):
    assert Feature.parse(text) == feature


def test_a_column_that_is_named_like_an_expression_is_that_column():
    assert Feature.parse("log(price)", ["log(price)"]) == Feature("log(price)")
    assert Feature.parse("log(price)", ["price"]) == Feature("price", "log")


@pytest.mark.parametrize(
    "text", ["log(sqrt(x))", "log(category(x))", "category(log(x))", "other(sqrt(x))"]
)
def test_a_column_is_transformed_once_or_is_a_category(text):
    with pytest.raises(InputError, match="transforms 'x' twice; a column is a number with one"):
        Feature.parse(text)


@settings(deadline=None)
@given(st.lists(features(), min_size=1, max_size=4), st.lists(features(), max_size=2))
def test_roles_survive_json(items, context):
    roles = Roles("s", "c", tuple(items), tuple(context), weight="w", group=None, time="t")
    assert Roles.from_json(roles.to_json()) == roles
