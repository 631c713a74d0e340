"""What scikit-learn's tools ask of an estimator, without importing scikit-learn.

They take every object that keeps their conventions: ``get_params`` and ``set_params`` for the
arguments of ``__init__``, ``__sklearn_tags__``, and attributes that end in an underscore once it is
fitted. Importing scikit-learn takes longer than fitting a logit, so that only its tools do it.
"""

import inspect
import warnings
from copy import deepcopy
from typing import Any, TypeVar

from setwise._errors import InputError

Some = TypeVar("Some", bound="Parameters")


class Parameters:
    """An object whose parameters are the arguments of ``__init__``, which only stores them."""

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        """The arguments of ``__init__`` in alphabetical order, with their default values."""
        own = inspect.signature(cls).parameters
        return {name: own[name].default for name in sorted(own)}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments of ``__init__``; with ``deep`` also those of estimators among them.

        Those are named as ``estimator__l2``.
        """
        found = {}
        for name in self._defaults():
            found[name] = value = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                found |= {f"{name}__{inner}": one for inner, one in value.get_params().items()}
        return found

    def set_params(self: Some, **params: Any) -> Some:
        """Change arguments of ``__init__``, or of estimators among them; unknown ones are refused.

        >>> import setwise as sw
        >>> sw.MNL().set_params(l2="loo")
        MNL(l2='loo')
        """
        known = self._defaults()
        for name in params:
            own, _, inner = name.partition("__")
            if own not in known or (inner and not hasattr(getattr(self, own), "set_params")):
                raise InputError(
                    f"{type(self).__name__} has no argument '{name}'; it has: "
                    f"{', '.join(known) or 'none'}"
                )
        for name, value in sorted(params.items()):  # an estimator before its own parameters
            own, _, inner = name.partition("__")
            if inner:
                getattr(self, own).set_params(**{inner: value})
            else:
                setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        given = [
            f"{name}={value!r}"
            for name, default in self._defaults().items()
            if repr(value := getattr(self, name)) != repr(default)
        ]
        return f"{type(self).__name__}({', '.join(given)})"

    def _repr_html_(self) -> str:
        from sklearn.utils import estimator_html_repr

        return str(estimator_html_repr(self))

    def __sklearn_tags__(self) -> Any:
        from sklearn.base import BaseEstimator

        return BaseEstimator.__sklearn_tags__(self)


def unfitted(estimator: Some) -> Some:
    """A copy that was not fitted, as ``sklearn.base.clone`` makes it.

    >>> import setwise as sw
    >>> unfitted(sw.MNL(l2=3))
    MNL(l2=3)
    """
    return type(estimator)(
        **{
            name: unfitted(value) if isinstance(value, Parameters) else deepcopy(value)
            for name, value in estimator.get_params(deep=False).items()
        }
    )


def warn_of_convergence(message: str, stacklevel: int) -> None:
    """Warn with scikit-learn's ``ConvergenceWarning``."""
    from sklearn.exceptions import ConvergenceWarning

    warnings.warn(message, ConvergenceWarning, stacklevel=stacklevel + 1)


def __getattr__(name: str) -> Any:
    """``NotFitted``, made when it is first used: it is one of scikit-learn's errors as well."""
    if name != "NotFitted":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from sklearn.exceptions import NotFittedError

    about = "Something was asked of an estimator that only a fitted one can do."
    members = {"__doc__": about, "__module__": __name__}
    made = globals()[name] = type(name, (InputError, NotFittedError), members)
    return made
