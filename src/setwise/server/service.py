"""A running service: its settings, the model that it answers with, and how it answers.

Small requests are answered at once. Large ones go to a few threads, so that small ones need not
wait for them. A new model file at the same path takes the model's place between two requests.
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from setwise import __version__, _segments
from setwise._errors import InputError
from setwise._shapes import Float32
from setwise.choices import Display, Encoded, Schema
from setwise.choices.encoders import MISSING, Encoder
from setwise.choices.features import TRANSFORMS
from setwise.scoring.members import Members
from setwise.scoring.model_file import Artifact
from setwise.scoring.scorer import Scorer
from setwise.server.answers import Deadline, RequestScorer, explain, predict
from setwise.server.metrics import ServiceMetrics
from setwise.server.requests import (
    Limits,
    ParsedRequest,
    RequestEncoder,
    RequestError,
    RequestFormat,
)

LOG = logging.getLogger("setwise.server")

Samples = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Settings:
    """Settings of a service: the model file, a second model to compare with, limits and token."""

    model: Path
    reference: Path | None = None
    limits: Limits = field(default_factory=Limits)
    token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.token is not None and not (self.token.isascii() and self.token.strip()):
            raise InputError("the token must be plain ASCII and not empty; choose another one")


def described(schema: Schema, samples: Samples, display: Display) -> list[dict[str, Any]]:
    """Every column: name, role, kind, label, unit, and the range or the levels of its values.

    Ranges are those of the data that the file was given; otherwise two standard deviations of the
    training data to both sides of the mean.
    """
    found: list[dict[str, Any]] = []
    begin = 0
    for role, encoders in (("item", schema.items), ("context", schema.context)):
        for encoder in encoders:
            name = encoder.feature.column
            values = [row[name] for row in _rows(samples, role) if row[name] is not None]
            around = schema.mean[begin : begin + 1], schema.scale[begin : begin + 1]
            if schema.terms is not None:  # nothing is known of the columns themselves
                around = (0.5,), (0.25,)
            begin += len(encoder.names)
            label, unit = display.labelled(name)
            one: dict[str, Any] = {"name": name, "role": role, "kind": _kind(encoder)}
            one |= {} if label == name else {"label": label}
            one |= {} if unit is None else {"unit": unit}
            if encoder.kind == "number":
                one |= _range(encoder, display.ranges.get(name), around)
            elif encoder.kind == "date" and values:
                one |= {"min": min(values), "max": max(values)}
            elif encoder.looked_up:
                one |= {"levels": _levels(encoder, values)}
                one |= {"other": True} if _takes_any(encoder) else {}
            found.append(one | ({"missing": True} if encoder.may_be_missing else {}))
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


def _range(encoder: Encoder, known: Sequence[float | bool] | None, around: Any) -> dict[str, Any]:
    if known is not None:
        low, high, whole = known
        return {"min": low, "max": high} | ({"step": 1} if whole else {})
    (mean,), (scale,) = around
    low, high = mean - 2 * scale, mean + 2 * scale
    if encoder.feature.transform == "sqrt":
        low = max(low, 0.0)
    back = TRANSFORMS[encoder.feature.transform].inverse
    return {"min": float(back(low)), "max": float(back(high))}


SECONDS_TO_TRY = 60.0


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A loaded model. It never changes, so that a whole request is answered by one model."""

    form: RequestFormat
    model: RequestScorer
    reference: RequestScorer | None
    limits: Limits
    about: bytes
    """What ``/v1/model`` answers."""
    checksum: str

    def read(self, body: bytes) -> ParsedRequest:
        """The request in a body."""
        return self.form.read(body, self.limits)

    def predict(self, asked: ParsedRequest, deadline: Deadline) -> bytes:
        """What ``/v1/predict`` answers."""
        return predict(asked, self.model, self.reference, deadline)

    def explain(self, asked: ParsedRequest, deadline: Deadline) -> bytes:
        """What ``/v1/explain`` answers."""
        if len(asked.sets) > 1:
            raise RequestError(422, f"explain takes one set, not {len(asked.sets):,}", "sets")
        if asked.rows > self.limits.max_explained:
            raise RequestError(
                413,
                f"the set has {asked.rows:,} items; explain takes at most "
                f"{self.limits.max_explained}",
                asked.where(0, "items"),
            )
        return explain(asked, self.model, self.reference, deadline)


def load(settings: Settings) -> ServedModel:
    """Read the model's file, and that of the second model, and check that they can answer."""
    artifact = Artifact.read(settings.model)
    scorer = Scorer.of(artifact, settings.model)
    form = RequestFormat.of(scorer.schema, settings.limits)
    members = Members.of(artifact, settings.model)
    encoder = RequestEncoder.of(scorer.schema, form)
    model = RequestScorer(encoder, scorer.row_log_probabilities, members)
    reference = _reference(settings, artifact, form, model.encoder)
    checksum = hashlib.sha256(settings.model.read_bytes()).hexdigest()
    served = ServedModel(form, model, reference, settings.limits, b"", checksum)
    samples = [one for one in artifact.sample if _takes(served, one)]
    about = {
        "estimator": artifact.estimator,
        "version": __version__,
        "file": settings.model.name,
        "checksum": f"sha256:{checksum}",
        "loaded": datetime.now(UTC).isoformat(timespec="seconds"),
        "set": scorer.schema.roles.set,
        "columns": described(scorer.schema, samples, artifact.display),
        "one_hot": artifact.display.one_hot,
        "item_name": artifact.display.item_name,
        "members": [] if members is None else members.weights,
        "outside": scorer.schema.outside,
        "samples": samples,
        "reference": reference is not None,
        "limits": vars(settings.limits) | {"max_explained": settings.limits.max_explained},
    }
    _try(model, scorer.schema)
    return ServedModel(
        form, model, reference, settings.limits, msgspec.json.encode(about), checksum
    )


def _reference(
    settings: Settings, artifact: Artifact, form: RequestFormat, encoder: RequestEncoder
) -> RequestScorer | None:
    if settings.reference is not None:
        other = Artifact.read(settings.reference)
        scorer = Scorer.of(other, settings.reference)
        own = RequestEncoder.of(scorer.schema, form, own=artifact.schema)
        return RequestScorer(own, scorer.row_log_probabilities)
    if "mnl" not in artifact.reference:
        return None
    return RequestScorer(encoder, partial(mnl_log_probabilities, artifact.reference["mnl"]))


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
    """Whether the model can answer a set of its sample; it may have levels unknown in training."""
    body = msgspec.json.encode({"sets": [sample]})
    try:
        served.predict(served.read(body), Deadline.after(SECONDS_TO_TRY))
    except RequestError:
        return False
    return True


def _try(model: RequestScorer, schema: Schema) -> None:
    """Score a set of three average items; refuse a model that cannot."""
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


SMALL_BODY = 32 * 1024
SMALL_ROWS = 300
"""Requests up to these sizes are answered at once: two milliseconds of work at most."""
THREADS = 4
SECONDS_BETWEEN_LOOKS = 0.5

Work = Callable[[ServedModel, ParsedRequest, Deadline], bytes]
Signature = tuple[tuple[int, int, int] | None, ...]


class Service:
    """The state of one process of a service."""

    def __init__(self, settings: Settings, metrics: ServiceMetrics | None = None):
        self.settings = settings
        self.metrics = metrics or ServiceMetrics()
        self.draining = False
        self.working = 0
        """Requests for answers that are being read or answered."""
        self._seen = self._signature()
        self.served = load(settings)
        self._note_load()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="setwise-answer")

    async def answer(
        self, body: bytes, rows: Callable[[ParsedRequest], int], work: Work, deadline: Deadline
    ) -> bytes:
        """Answer a body; ``rows`` gives the number of rows to score."""
        served = self.served  # the whole request sees this model, whatever comes in its place

        def whole() -> tuple[ParsedRequest, bytes]:
            deadline.check()
            asked = served.read(body)
            return asked, work(served, asked, deadline)

        if len(body) <= SMALL_BODY:
            asked = served.read(body)
            if rows(asked) <= SMALL_ROWS:
                done = work(served, asked, deadline)
                self.metrics.add("sets", len(asked.sets))
                return done
        asked, done = await asyncio.get_running_loop().run_in_executor(self._threads, whole)
        self.metrics.add("sets", len(asked.sets))
        return done

    async def watch(self) -> None:
        """Load every new model file, until cancelled; a broken file changes nothing."""
        while True:
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
            signature = self._signature()
            if signature != self._seen:
                self._seen = signature
                await self._take_over()

    async def _take_over(self) -> None:
        name = self.settings.model.name
        try:
            # A thread of its own: those that answer may be busy.
            served = await asyncio.to_thread(load, self.settings)
        except InputError as error:
            self.metrics.add("failed_loads")
            LOG.error("the new %s is not used, the old model stays: %s", name, error)
        except Exception:
            self.metrics.add("failed_loads")
            LOG.exception("the new %s is not used, the old model stays", name)
        else:
            self.served = served
            self._note_load()
            LOG.info("now using the new %s (sha256 %s)", name, served.checksum[:12])

    def _note_load(self) -> None:
        self.metrics.add("loads")
        self.metrics.set("loaded_at", int(time.time()))

    def _signature(self) -> Signature:
        paths = (self.settings.model, self.settings.reference)
        return tuple(None if path is None else _of_file(path) for path in paths)

    def close(self) -> None:
        """Stop the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _of_file(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
