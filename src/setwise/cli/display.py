"""How columns and items are shown, as options of the command line say it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from setwise.choices import Choices, Display


def labels(given: Sequence[str]) -> dict[str, str]:
    """The labels that options name.

    >>> labels(["time=travel time (min)", "sm=Swissmetro"])
    {'time': 'travel time (min)', 'sm': 'Swissmetro'}
    """
    from setwise._errors import InputError

    found: dict[str, str] = {}
    for one in given:
        column, equals, text = (part.strip() for part in one.partition("="))
        if not (column and equals and text):
            raise InputError(f"--label '{one}' must be a column and its text: 'time=travel time'")
        if column in found:
            raise InputError(f"--label gives '{column}' twice; give each column once")
        found[column] = text
    return found


def displayed(
    choices: "Choices", table: str, given: Sequence[str], item_name: str | None, with_ranges: bool
) -> "Display":
    """How these choices are shown: with the labels given, and those of a shipped data set.

    Ranges are values of the data; without them the file holds none.
    """
    from setwise import datasets
    from setwise.choices import Display
    from setwise.cli.tables import is_dataset

    used = {feature.column for feature in [*choices.roles.items, *choices.roles.context]}
    known = datasets.find(table).labels if is_dataset(table) else {}
    own = {column: text for column, text in known.items() if column in used}
    display = Display.of(choices, own | labels(given), item_name)
    return display if with_ranges else replace(display, ranges={})
