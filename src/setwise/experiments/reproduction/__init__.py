"""The paper's evaluation from one call: its plan, its cells, its tables and figures.

``protocol`` says what the paper did, ``plan`` lays it out on data as units of work, ``work`` does
one, ``workers`` do many, ``cells`` keep what is finished, ``results`` are what was found. A report
(``tables``, ``beside``, ``significance``, ``panels``, ``rendering``, ``report``) is a function of
the results alone.
"""

from setwise.experiments.reproduction.plan import Plan, Source
from setwise.experiments.reproduction.protocol import PARTS, PRESETS, Part, Protocol
from setwise.experiments.reproduction.report import FILES, headline, write_report
from setwise.experiments.reproduction.results import RESULTS, Method, Outcome, Results, Setting
from setwise.experiments.reproduction.run import OnPlan, reproduce
from setwise.experiments.reproduction.work import Unit
from setwise.experiments.reproduction.workers import OnUnit

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
