"""Experiments: many models, many splits, one table."""

from setwise.experiments.comparison import Cell, Comparison, Row, compare
from setwise.experiments.decoy_report import DecoyMap, decoy_map, decoy_picture
from setwise.experiments.effects_report import TrialEffects, trial_effects, trials_picture
from setwise.experiments.explain_page import write_explanation
from setwise.experiments.explain_report import Explanation, explain_model
from setwise.experiments.figures import tuning_history
from setwise.experiments.iia_report import IIAReport, examine_iia, write_iia_report
from setwise.experiments.rationalise_report import write_rationalisation
from setwise.experiments.report import write_report
from setwise.experiments.theory_report import ModelTheory, examine_theory, write_theory_report
from setwise.experiments.tuned import TunedSplit, tune_splits

__all__ = [
    "Cell",
    "Comparison",
    "DecoyMap",
    "Explanation",
    "IIAReport",
    "ModelTheory",
    "Row",
    "TrialEffects",
    "TunedSplit",
    "compare",
    "decoy_map",
    "decoy_picture",
    "examine_iia",
    "examine_theory",
    "explain_model",
    "trial_effects",
    "trials_picture",
    "tune_splits",
    "tuning_history",
    "write_explanation",
    "write_iia_report",
    "write_rationalisation",
    "write_report",
    "write_theory_report",
]
