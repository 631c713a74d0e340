"""The paper's evaluation from one call, :func:`reproduce`, and its report.

``protocol`` has the paper's protocol, the results as plain values and the files of finished cells;
``work`` does units of work; ``run`` plans them, runs them and gathers the results. The report
(``tables``, ``panels``, ``report``) is a function of the results alone.
"""

from setwise.paper.reproduction.protocol import (
    PARTS,
    PRESETS,
    RESULTS,
    Method,
    MethodResult,
    Part,
    Protocol,
    Results,
    Setting,
)
from setwise.paper.reproduction.report import FILES, headline, write_report
from setwise.paper.reproduction.run import OnPlan, ReproductionData, ReproductionPlan, reproduce
from setwise.paper.reproduction.work import OnUnit, Unit

__all__ = [
    "FILES",
    "PARTS",
    "PRESETS",
    "RESULTS",
    "Method",
    "MethodResult",
    "OnPlan",
    "OnUnit",
    "Part",
    "Protocol",
    "ReproductionData",
    "ReproductionPlan",
    "Results",
    "Setting",
    "Unit",
    "headline",
    "reproduce",
    "write_report",
]
