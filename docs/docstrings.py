"""Docstrings as the site shows them: roles become plain code, doctests become blocks."""

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:class|func|meth|mod|data):`~?([^`]+)`")
DOCTEST = re.compile(r"^>>> .*?(?=^\s*$|\Z)", re.DOTALL | re.MULTILINE)


class Docstrings(griffe.Extension):
    """Rewrites every docstring once it has been read."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for every module, class, function and attribute."""
        if obj.docstring is not None:
            text = ROLE.sub(r"`\1`", obj.docstring.value)
            obj.docstring.value = DOCTEST.sub(lambda m: f"```pycon\n{m[0].rstrip()}\n```", text)
