"""What a model takes, told to people and pages: its columns with their ranges and levels."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from setwise.choices import Schema
from setwise.choices.encoders import MISSING, Encoder
from setwise.server.forms import may_be_missing

Samples = Sequence[Mapping[str, Any]]
_INVERSE: Mapping[str, Any] = {
    "none": lambda y: y, "log": np.exp, "log1p": np.expm1, "sqrt": np.square,
}  # fmt: skip


def described(schema: Schema, samples: Samples) -> list[dict[str, Any]]:
    """Every column: name, role, kind, and the range or the levels of its values.

    Ranges are those of the samples; without samples, two standard deviations of the training data
    to both sides of the mean.
    """
    found: list[dict[str, Any]] = []
    begin = 0
    for role, encoders in (("item", schema.items), ("context", schema.context)):
        for encoder in encoders:
            name = encoder.feature.column
            values = [row[name] for row in _rows(samples, role) if row[name] is not None]
            around = schema.mean[begin : begin + 1], schema.scale[begin : begin + 1]
            begin += len(encoder.names)
            one: dict[str, Any] = {"name": name, "role": role, "kind": _kind(encoder)}
            if encoder.kind == "number":
                one |= _range(encoder, values, around)
            elif encoder.kind == "date" and values:
                one |= {"min": min(values), "max": max(values)}
            elif encoder.looked_up:
                one |= {"levels": _levels(encoder, values)}
                one |= {"other": True} if _takes_any(encoder) else {}
            found.append(one | ({"missing": True} if may_be_missing(encoder) else {}))
    return found


def _rows(samples: Samples, role: str) -> list[Mapping[str, Any]]:
    if role == "context":
        return [one["context"] for one in samples]
    return [item for one in samples for item in one["items"]]


def _kind(encoder: Encoder) -> str:
    return "category" if encoder.looked_up else encoder.kind


def _takes_any(encoder: Encoder) -> bool:
    return encoder.kind == "popularity" or encoder.feature.other


def _levels(encoder: Encoder, values: Sequence[Any]) -> list[str]:
    if encoder.kind == "popularity":  # there may be millions of names
        return sorted({str(value) for value in values})
    return [level for level in encoder.levels if level != MISSING or not encoder.feature.impute]


def _range(encoder: Encoder, values: Sequence[float], around: Any) -> dict[str, Any]:
    if len(set(values)) > 1:
        whole = all(float(value).is_integer() for value in values)
        return {"min": min(values), "max": max(values)} | ({"step": 1} if whole else {})
    (mean,), (scale,) = around
    low, high = mean - 2 * scale, mean + 2 * scale
    if encoder.feature.transform == "sqrt":
        low = max(low, 0.0)
    back = _INVERSE[encoder.feature.transform]
    return {"min": float(back(low)), "max": float(back(high))}
