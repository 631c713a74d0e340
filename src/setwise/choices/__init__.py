"""Choices and the way to them: reading, checking, encoding, splitting and packing."""

from setwise.choices.batches import Bucket, bucket, round_up, shuffled_batches
from setwise.choices.choices import Choices, Dropped
from setwise.choices.display import Display
from setwise.choices.encoding import Encoded, Encoding
from setwise.choices.features import Feature, Roles
from setwise.choices.layout import WideLayout
from setwise.choices.reading import expressions, read, read_as, read_like
from setwise.choices.schema import Schema
from setwise.choices.splits import split
from setwise.choices.stored import open_choices, save_choices, verify
from setwise.choices.tables import Table, open_table
from setwise.choices.utility import Utility
from setwise.choices.validation import Irregular
from setwise.choices.wide import read_wide

__all__ = [
    "Bucket",
    "Choices",
    "Display",
    "Dropped",
    "Encoded",
    "Encoding",
    "Feature",
    "Irregular",
    "Roles",
    "Schema",
    "Table",
    "Utility",
    "WideLayout",
    "bucket",
    "expressions",
    "open_choices",
    "open_table",
    "read",
    "read_as",
    "read_like",
    "read_wide",
    "round_up",
    "save_choices",
    "shuffled_batches",
    "split",
    "verify",
]
