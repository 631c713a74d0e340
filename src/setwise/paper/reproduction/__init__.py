"""The paper's evaluation from one call: its plan, its cells, its tables and figures.

``protocol`` says what the paper did, ``plan`` lays it out on data as units of work, ``work`` does
one, ``workers`` do many, ``cells`` keep what is finished, ``results`` are what was found. A report
(``tables``, ``beside``, ``significance``, ``panels``, ``rendering``, ``report``) is a function of
the results alone.
"""

from setwise.paper.reproduction.protocol import (
    PARTS,
    PRESETS,
    RESULTS,
    Method,
    Outcome,
    Part,
    Protocol,
    Results,
    Setting,
)
from setwise.paper.reproduction.report import FILES, headline, write_report
from setwise.paper.reproduction.run import OnPlan, Plan, Source, reproduce
from setwise.paper.reproduction.work import OnUnit, Unit

__all__ = [
    "FILES",
    "PARTS",
    "PRESETS",
    "RESULTS",
    "Method",
    "OnPlan",
    "OnUnit",
    "Outcome",
    "Part",
    "Plan",
    "Protocol",
    "Results",
    "Setting",
    "Source",
    "Unit",
    "headline",
    "reproduce",
    "write_report",
]
