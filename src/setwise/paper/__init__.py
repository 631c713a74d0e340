"""The paper as software: its data, its protocol, its tables and figures, and its theory.

- :mod:`setwise.paper.raw` reads the files of Expedia, Outbrain and Amadeus, and imitates them:
  ``setwise datasets build`` and ``imitate``.
- :mod:`setwise.paper.reproduction` runs the protocol and writes the report: ``setwise reproduce``.
- :mod:`setwise.paper.published_results` has every value that the paper printed.
- :mod:`setwise.paper.theory` has its theorems as running code: ``setwise theory``.
"""

from setwise.paper.published_results import main_table, published
from setwise.paper.raw import RAW, Truth, build, imitate, load_raw

__all__ = ["RAW", "Truth", "build", "imitate", "load_raw", "main_table", "published"]
