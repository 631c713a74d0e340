"""The values that options can take."""

from enum import StrEnum


class OnNone(StrEnum):
    """What to do with sets without a choice."""

    error = "error"
    drop = "drop"
    outside = "outside"


class OnMultiple(StrEnum):
    """What to do with sets of several choices."""

    error = "error"
    drop = "drop"


class OnDuplicate(StrEnum):
    """What to do with repeated rows."""

    error = "error"
    drop = "drop"
    keep = "keep"


class SplitBy(StrEnum):
    """What stays together in a split."""

    set = "set"
    group = "group"
    time = "time"


class Preset(StrEnum):
    """Arguments of the models."""

    default = "default"
    paper = "paper"


class StopOn(StrEnum):
    """The validation measure that early stopping watches."""

    nll = "nll"
    accuracy = "accuracy"


class Objective(StrEnum):
    """What training minimises."""

    cross_entropy = "cross_entropy"
    pairwise = "pairwise"
    listwise = "listwise"


class SpaceName(StrEnum):
    """Search spaces."""

    paper = "paper"
    training = "training"
    wide = "wide"


class RawName(StrEnum):
    """Public data sets whose raw files setwise reads."""

    expedia = "expedia"
    outbrain = "outbrain"
    amadeus = "amadeus"


class View(StrEnum):
    """Features of a public data set."""

    paper = "paper"
    full = "full"


class ReproducePreset(StrEnum):
    """How thorough a reproduction is."""

    quick = "quick"
    paper = "paper"


class PaperPart(StrEnum):
    """Parts of the paper."""

    table1 = "table1"
    ablation = "ablation"
    full = "full"
    figures = "figures"
    all = "all"


class Outcome(StrEnum):
    """What counts as Expedia's choice."""

    click = "click"
    book = "book"
