"""What a model takes, told to people and pages: its columns with their ranges and levels.

A model file made ready to answer requests.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec
import numpy as np

from setwise import __version__, _segments
from setwise._errors import InputError
from setwise._shapes import Float32
from setwise.choices import Encoded, Schema
from setwise.choices.encoders import MISSING, Encoder
from setwise.scoring.model_file import Artifact
from setwise.scoring.scorer import Scorer
from setwise.server.answers import Deadline, Side, explain, predict
from setwise.server.forms import Asked, Form, may_be_missing
from setwise.server.refusals import Refused
from setwise.server.request_encoder import Reading
from setwise.server.settings import Limits, Settings

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


SECONDS_TO_TRY = 60.0


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A loaded model; nothing in it changes, so a request that holds it sees one model only."""

    form: Form
    model: Side
    beside: Side | None
    limits: Limits
    about: bytes
    """What ``/v1/model`` answers."""
    checksum: str

    def read(self, body: bytes) -> Asked:
        """The request in a body."""
        return self.form.read(body, self.limits)

    def predict(self, asked: Asked, deadline: Deadline) -> bytes:
        """What ``/v1/predict`` answers."""
        return predict(asked, self.model, self.beside, deadline)

    def explain(self, asked: Asked, deadline: Deadline) -> bytes:
        """What ``/v1/explain`` answers."""
        if len(asked.sets) > 1:
            raise Refused(422, f"explain takes one set, not {len(asked.sets):,}", "sets")
        if asked.rows > self.limits.max_explained:
            raise Refused(
                413,
                f"the set has {asked.rows:,} items; explain takes at most "
                f"{self.limits.max_explained}",
                asked.where(0, "items"),
            )
        return explain(asked, self.model, self.beside, deadline)


def load(settings: Settings) -> ServedModel:
    """Read the model's file, and that of the model beside it, and try whether they answer."""
    artifact = Artifact.read(settings.model)
    scorer = Scorer.of(artifact, settings.model)
    form = Form.of(scorer.schema, settings.limits)
    model = Side(Reading.of(scorer.schema, form), scorer.row_log_probabilities)
    beside = _beside(settings, artifact, form, model.reading)
    checksum = hashlib.sha256(settings.model.read_bytes()).hexdigest()
    served = ServedModel(form, model, beside, settings.limits, b"", checksum)
    samples = [one for one in artifact.sample if _takes(served, one)]
    about = {
        "estimator": artifact.estimator,
        "version": __version__,
        "file": settings.model.name,
        "checksum": f"sha256:{checksum}",
        "loaded": datetime.now(UTC).isoformat(timespec="seconds"),
        "columns": described(scorer.schema, samples),
        "outside": scorer.schema.outside,
        "samples": samples,
        "beside": beside is not None,
        "limits": vars(settings.limits) | {"max_explained": settings.limits.max_explained},
    }
    _try(model, scorer.schema)
    return ServedModel(form, model, beside, settings.limits, msgspec.json.encode(about), checksum)


def _beside(settings: Settings, artifact: Artifact, form: Form, reading: Reading) -> Side | None:
    if settings.beside is not None:
        other = Artifact.read(settings.beside)
        scorer = Scorer.of(other, settings.beside)
        own = Reading.of(scorer.schema, form, own=artifact.schema)
        return Side(own, scorer.row_log_probabilities)
    if "mnl" not in artifact.beside:
        return None
    return Side(reading, partial(mnl_log_probabilities, artifact.beside["mnl"]))


def mnl_log_probabilities(
    weights: Float32[np.ndarray, " d"], encoded: Encoded
) -> Float32[np.ndarray, " rows"]:
    """log P(x | s) of the MNL with these weights, of every encoded row.

    >>> sets = Encoded(np.array([[0.0], [1.0], [5.0]]), np.zeros((2, 0)), np.array([0, 2, 3]),
    ...                None, None)
    >>> np.exp(mnl_log_probabilities(np.log(np.array([3], np.float32)), sets)).tolist()
    [0.25, 0.75, 1.0]
    """
    scores = (encoded.items @ weights).astype(np.float64)
    return _segments.log_softmax(scores, encoded.offsets).astype(np.float32)


def _takes(served: ServedModel, sample: dict[str, Any]) -> bool:
    """Whether the model can answer a set of its own sample: levels may be in held out sets only."""
    body = msgspec.json.encode({"sets": [sample]})
    try:
        served.predict(served.read(body), Deadline.after(SECONDS_TO_TRY))
    except Refused:
        return False
    return True


def _try(model: Side, schema: Schema) -> None:
    """Score a set of three average items: a model that cannot is not taken into service."""
    width, context = len(schema.item_names), len(schema.context_names)
    average = Encoded(
        np.zeros((3, width), np.float32), np.zeros((1, context), np.float32),
        np.array([0, 3]), None, None,
    )  # fmt: skip
    total = float(np.exp(model.log_probabilities(average)).sum())
    if not abs(total - 1) < 1e-3:
        raise InputError(
            f"the model's probabilities of a set of average items add up to {total}, not 1; "
            "train it again"
        )
