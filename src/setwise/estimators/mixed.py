"""The discrete mixed logit of the paper: latent classes without panels and membership."""

from typing import ClassVar

from setwise._arguments import optional, seed, whole
from setwise.choices import Utility
from setwise.estimators.latent import LatentClass
from setwise.estimators.maximum_likelihood import is_utility


class MixedMNL(LatentClass):
    """Discrete mixed logit (latent classes): P(x | s) = sum_k pi_k softmax over s of < b_k, x >.

    It is the simplest :class:`LatentClass`: every set counts as a person of its own, even where
    the person is known, and all people belong to the classes with the same probabilities. Context
    features cancel within each class and are not used.

    Args:
        classes: how many, or None for the one of 1 to 4 with the best likelihood on validation
            sets (without such, on a fifth of the training sets; then all are used to fit).
        utility: the utility within each class as a formula or :class:`setwise.Utility`, as in
            :class:`MNL`, without fixed coefficients.
        starts: random starts of EM; those of a smaller number are among them.
        seed: of the starts and of a held-out fifth.

    Fitted attributes: ``classes_``, ``shares_``, ``coef_`` (classes × features, in the table's
    units), ``feature_names_``, and those of :class:`Estimated`, class after class, then shares.

    >>> import setwise as sw
    >>> made = sw.datasets.generate("mixed", sets=500, features=2)
    >>> model = MixedMNL(classes=2).fit(made.choices)
    >>> model.coef_.shape, bool(model.shares_[0] > model.shares_[1])
    ((2, 2), True)
    """

    CHECKS: ClassVar = {
        "classes": optional(whole()), "utility": is_utility, "starts": whole(), "seed": seed,
    }  # fmt: skip
    ARRAYS = ("coef", "shares", "identified")
    PANELS: ClassVar = False

    def __init__(
        self,
        classes: int | None = None,
        *,
        utility: str | Utility | None = None,
        starts: int = 5,
        seed: int = 0,
    ):
        super().__init__(classes, utility=utility, choose="validation", starts=starts, seed=seed)
