"""Results as pages, pictures and plots."""

from setwise.reports.audit import write_audit
from setwise.reports.comparison import write_report
from setwise.reports.decoy import DecoyMap, decoy_map, decoy_picture
from setwise.reports.effects import TrialEffects, trial_effects, trials_picture
from setwise.reports.explain import Explanation, explain_model, write_explanation
from setwise.reports.figures import tuning_history
from setwise.reports.iia import IIAReport, examine_iia, write_iia_report

__all__ = [
    "DecoyMap",
    "Explanation",
    "IIAReport",
    "TrialEffects",
    "decoy_map",
    "decoy_picture",
    "examine_iia",
    "explain_model",
    "trial_effects",
    "trials_picture",
    "tuning_history",
    "write_audit",
    "write_explanation",
    "write_iia_report",
    "write_report",
]
