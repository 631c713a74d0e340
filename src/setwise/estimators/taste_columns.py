"""The columns of a mixed logit: which coefficients are random, and what each parameter means."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float, Int

from setwise import _segments
from setwise._errors import InputError
from setwise.choices import Encoded, Schema
from setwise.estimators.monotone import encoded_signs
from setwise.training import Optimum
from setwise.training.simulated import TasteLayout

SPREAD = 0.3  # where the search starts: utilities of one column differ by so much
LEAST = 0.1  # the smallest coefficient, in the same units, that a log-normal one starts from
SIGNS: Mapping[str, int] = {"lognormal": 1, "-lognormal": -1}
OF_SIGN = {sign: kind for kind, sign in SIGNS.items()}
CORRELATED = ("normal", "lognormal", "-lognormal", "component")
WIDTHS = ("uniform", "triangular")


@dataclass(frozen=True, eq=False)
class TasteColumns:
    """The columns of the utility, and the distributions of the random coefficients among them.

    With ``price`` the model is in willingness-to-pay space: the coefficients of the other columns
    are what people pay for one more.
    """

    names: list[str]
    scales: Float[np.ndarray, " d"]
    """What one standardised unit of each column is in the table's units."""
    places: tuple[int, ...]
    """Of the random coefficients among the columns."""
    kinds: tuple[str, ...]
    """Their distributions."""
    correlated: bool
    price: int | None
    bounds: Mapping[int, int] = field(default_factory=dict)
    """The sign that a coefficient which is one for all people must have, by its place."""

    @classmethod
    def of(
        cls,
        schema: Schema,
        random: Mapping[str, str] | None,
        correlated: bool,
        wtp_space: str | None,
        monotone: Mapping[str, int] | None = None,
    ) -> "TasteColumns":
        """What the arguments of a mixed logit say; a category stands for all its columns."""
        signs = _signs(schema, monotone, wtp_space)
        names = list(schema.item_names)
        price = None if wtp_space is None else _price(wtp_space, names)
        if random is None:
            found = dict.fromkeys(range(len(names)), "normal")
            found |= {} if price is None else {price: "-lognormal"}
            found |= {place: OF_SIGN[sign] for place, sign in signs.items()}
        else:
            found = _random(schema, random, correlated)
        for place, sign in signs.items():
            if found.get(place, OF_SIGN[sign]) != OF_SIGN[sign]:
                raise InputError(
                    f"random['{names[place]}'] is \"{found[place]}\": some people have the "
                    f'sign that monotone= forbids; use "{OF_SIGN[sign]}", or leave it out of '
                    "random= for one coefficient for all people"
                )
        if price is not None and found.get(price, "-lognormal") != "-lognormal":
            raise InputError(
                f"random['{wtp_space}'] is \"{found[price]}\", but in willingness-to-pay space the "
                'price coefficient must keep its sign: use "-lognormal", or leave it out of '
                "random= for one coefficient for all people"
            )
        places = tuple(sorted(found))
        kinds = tuple(found[one] for one in places)
        bounds = {place: sign for place, sign in signs.items() if place not in found}
        return cls(names, schema.item_scales, places, kinds, correlated, price, bounds)

    @property
    def entries(self) -> tuple[Int[np.ndarray, " s"], Int[np.ndarray, " s"]]:
        """The rows and columns of L that are parameters."""
        count = len(self.places)
        if self.correlated:
            return np.tril_indices(count)
        return np.arange(count), np.arange(count)

    @property
    def component(self) -> Bool[np.ndarray, " k"]:
        """Which random coefficients are error components."""
        return np.array([kind == "component" for kind in self.kinds], bool)

    @property
    def logged(self) -> Bool[np.ndarray, " d"]:
        """Which columns have log-normal coefficients."""
        found = np.zeros(len(self.names), bool)
        found[list(self.places)] = [kind in SIGNS for kind in self.kinds]
        return found

    @property
    def layout(self) -> TasteLayout:
        """Where each parameter stands: locations in the first column, then the rows of L."""
        d, (rows, columns) = len(self.names), self.entries
        sign = np.zeros(d, int)
        sign[list(self.places)] = [SIGNS.get(kind, 0) for kind in self.kinds]
        feature = np.concatenate([np.arange(d), np.array(self.places, int)[rows]])
        basis = np.concatenate([np.zeros(d, int), columns + 1])
        return TasteLayout(feature, basis, sign, self.price)

    @property
    def parameter_names(self) -> list[str]:
        """Locations, then spreads."""
        names = list(self.names)
        both = list(zip(self.places, self.kinds, strict=True))
        shown = [_logged(names[place], kind) for place, kind in both]
        for (place, kind), name in zip(both, shown, strict=True):
            names[place] = f"mean({name})" if kind in SIGNS else name
        if self.correlated:
            rows, columns = self.entries
            return names + [
                f"L({shown[i]}, {shown[j]})" for i, j in zip(rows, columns, strict=True)
            ]
        words = ["half-width" if kind in WIDTHS else "sd" for kind in self.kinds]
        return names + [f"{word}({name})" for word, name in zip(words, shown, strict=True)]

    def units(
        self, signs: Float[np.ndarray, " k"]
    ) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, " p"]]:
        """What turns the likelihood's parameters into reported ones: a factor and a shift.

        ``signs`` says which columns of L are reported with the other sign.
        """
        layout, scale = self.layout, self.scales
        if self.price is not None:
            other = np.arange(len(scale)) != self.price
            scale = np.where(other, scale / scale[self.price], scale)
        log, location = layout.sign[layout.feature] != 0, layout.basis == 0
        factor = np.where(log, 1.0, 1 / scale[layout.feature])
        factor[~location] *= signs[layout.basis[~location] - 1]
        return factor, np.where(log & location, -np.log(scale[layout.feature]), 0.0)

    def start(
        self, mnl: Optimum, data: Encoded
    ) -> tuple[Float[np.ndarray, " p"], Bool[np.ndarray, " p"], Float[np.ndarray, " p"]]:
        """From the logit: where the search starts, which parameters are free, and their units."""
        places, sign = np.array(self.places, int), self.layout.sign
        rows, columns = self.entries
        varied = np.ptp(_segments.centred(data.items, data.offsets), axis=0) > 0
        at, unit = self._of_logit(mnl)
        spread = np.where(self.component, varied[places], mnl.identified[places])
        size = np.where(sign[places] == 0, unit[places], 1.0)
        log = (sign != 0) & mnl.identified
        location = at.copy()
        location[log] = np.log(np.maximum(sign[log] * at[log], LEAST * unit[log]))
        free = np.concatenate([mnl.identified, spread[rows] & spread[columns]])
        units = np.concatenate([np.where(sign == 0, unit, 1.0), size[rows]])
        start = np.zeros(len(free))
        start[: len(at)] = location
        start[len(at) :][rows == columns] = SPREAD * size * spread
        return start, free, units

    def _of_logit(self, mnl: Optimum) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
        """The logit's coefficients and their units, in the space of this model."""
        at, unit, price = mnl.coefficients, mnl.units, self.price
        if price is None:
            return at, unit
        if not mnl.identified[price]:
            raise InputError(
                f"the coefficient of wtp_space='{self.names[price]}' is not identified (the column "
                "is the same within every set, or a combination of others), so that nothing can "
                "be counted in it"
            )
        least = LEAST * unit[price]
        beta = float(np.copysign(max(abs(at[price]), least), at[price]))
        if price in self.places:
            beta = min(float(at[price]), -least)
        own = np.arange(len(at)) == price
        return np.where(own, beta, -at / beta), np.where(own, unit, unit / abs(beta))


def _signs(
    schema: Schema, monotone: Mapping[str, int] | None, wtp_space: str | None
) -> dict[int, int]:
    if monotone and wtp_space is not None:
        raise InputError(
            "monotone= is for coefficients of utility, and in willingness-to-pay space they are "
            'products; give distributions that keep their sign instead, such as random={"time": '
            '"-lognormal"}'
        )
    return encoded_signs(monotone, schema)


def _random(schema: Schema, random: Mapping[str, str], correlated: bool) -> dict[int, str]:
    """The distribution of each random coefficient, by the place of its column."""
    names = list(schema.item_names)
    columns = {e.feature.column: list(e.names) for e in schema.model_items} | {
        name: [name] for name in names
    }
    found: dict[int, str] = {}
    for name, kind in random.items():
        if name not in columns:
            raise InputError(
                f"random has '{name}', which is not a column of the utility; the columns are: "
                f"{', '.join(columns)}"
            )
        if correlated and kind not in CORRELATED:
            raise InputError(
                f"random['{name}'] is \"{kind}\", which cannot be correlated with others; use "
                "a normal or log-normal distribution, or correlated=False"
            )
        found |= {names.index(one): kind for one in columns[name]}
    return found


def _price(name: str, names: list[str]) -> int:
    if name not in names:
        raise InputError(
            f"wtp_space='{name}' is not a column of the utility; the columns are: "
            f"{', '.join(names)}"
        )
    return names.index(name)


def _logged(name: str, kind: str) -> str:
    """The name of what is normal: the logarithm of a log-normal coefficient."""
    return {"lognormal": f"log {name}", "-lognormal": f"log -{name}"}.get(kind, name)
