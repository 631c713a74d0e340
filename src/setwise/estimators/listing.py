"""What there is to say of every model, without waiting for the library that the models need.

The file ``zoo.json`` is :func:`setwise.zoo`, written down by ``python docs/generate.py``; a test
compares the two.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from setwise.estimators.catalogue import Entry

FILE = Path(__file__).with_name("zoo.json")


def described(entries: "Iterable[Entry]") -> list[dict[str, Any]]:
    """Name, what there is to know before using it, and parameters with 8 features, per model."""
    return [
        {"name": one.name, **asdict(one.about), "parameters": one.parameters()} for one in entries
    ]


def listed() -> list[dict[str, Any]]:
    """:func:`described` of all models, from the file.

    >>> listed()[0]["name"], listed()[0]["parameters"]
    ('mnl', 8)
    """
    found: list[dict[str, Any]] = json.loads(FILE.read_text("utf-8"))
    return found
