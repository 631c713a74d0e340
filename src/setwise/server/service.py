"""A running service: the models that it answers with, and how it answers.

Small requests that come at the same time are scored together. Large ones go to a few threads, so
that small ones need not wait for them. A new model file at the same path takes the model's place
between two requests.
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

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
from setwise.server.answers import (
    Deadline,
    RequestScorer,
    Scored,
    explain,
    predict,
)
from setwise.server.deciding import Decisions
from setwise.server.metrics import ServiceMetrics
from setwise.server.quota import Quota
from setwise.server.requests import ParsedRequest, RequestEncoder, RequestError, RequestFormat
from setwise.server.settings import Limits, Settings
from setwise.server.tensors import Tensors, infer

LOG = logging.getLogger("setwise.server")

Samples = Sequence[Mapping[str, Any]]


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

    name: str
    form: RequestFormat
    tensors: Tensors
    model: RequestScorer
    reference: RequestScorer | None
    limits: Limits
    about: dict[str, Any]
    """What ``/v1/model`` answers."""
    checksum: str
    decisions: Decisions

    def read(self, body: bytes) -> ParsedRequest:
        """The request in a body."""
        return self.form.read(body, self.limits)

    def read_one(self, body: bytes) -> ParsedRequest:
        """The one set in a body, to be explained."""
        asked = self.read(body)
        if len(asked.sets) > 1:
            raise RequestError(422, f"explain takes one set, not {len(asked.sets):,}", "sets")
        if asked.members:
            raise RequestError(422, "explain has no members; ask /v1/predict for them", "members")
        if asked.rows > self.limits.max_explained:
            raise RequestError(
                413,
                f"the set has {asked.rows:,} items; explain takes at most "
                f"{self.limits.max_explained}",
                asked.where(0, "items"),
            )
        return asked

    def read_decision(self, body: bytes) -> ParsedRequest:
        """The one set in a body, from which items are to be shown."""
        return self.decisions.read(body)

    def read_tensors(self, body: bytes) -> ParsedRequest:
        """The request in a body of the Open Inference Protocol."""
        return self.tensors.read(body, self.form, self.limits)

    def scored(self, asked: ParsedRequest, deadline: Deadline) -> Scored:
        """A request with the log-probabilities of its rows."""
        encoded = self.model.encoder.encoded(asked)
        return Scored(asked, encoded, self.model.scored(encoded, deadline))

    def scored_together(self, asked: list[ParsedRequest]) -> list[Scored | Exception]:
        """What each of these small requests gets, or why it gets nothing.

        A few are scored one by one: then the same request has the same answer to the last digit.
        """
        if len(asked) >= FEWEST_TOGETHER:
            with suppress(RequestError):
                return [*self.model.together(asked)]
        return [self._scored_or_refused(one) for one in asked]

    def _scored_or_refused(self, asked: ParsedRequest) -> Scored | Exception:
        try:
            return self.scored(asked, Deadline.after(SECONDS_TO_TRY))
        except RequestError as refused:
            return refused

    def predict(self, scored: Scored, deadline: Deadline) -> bytes:
        """What ``/v1/predict`` answers."""
        return predict(scored, self.model, self.reference, deadline)

    def explain(self, scored: Scored, deadline: Deadline) -> bytes:
        """What ``/v1/explain`` answers."""
        return explain(scored, self.model, self.reference, deadline)

    def decide(self, scored: Scored, deadline: Deadline) -> bytes:
        """What ``/v1/decide`` answers."""
        return self.decisions.decide(scored, self.model, deadline)

    def infer(self, scored: Scored, deadline: Deadline) -> bytes:
        """What ``/v2/models/NAME/infer`` answers."""
        return infer(self.name, scored, self.model.encoder.outside)


def load(path: Path, settings: Settings) -> ServedModel:
    """Read the model's file, and that of the second model, and check that they can answer."""
    artifact = Artifact.read(path)
    scorer = Scorer.of(artifact, path)
    form = RequestFormat.of(scorer.schema, settings.limits)
    members = Members.of(artifact, path)
    encoder = RequestEncoder.of(scorer.schema, form)
    model = RequestScorer(encoder, scorer.row_log_probabilities, members)
    reference = _reference(settings, artifact, form, model.encoder)
    served = ServedModel(
        path.stem, form, Tensors.of(scorer.schema), model, reference, settings.limits, {},
        hashlib.sha256(path.read_bytes()).hexdigest(),
        Decisions.of(scorer, form, settings.limits),
    )  # fmt: skip
    display = artifact.display or Display()
    samples = [one for one in artifact.sample if _takes(served, one)]
    about = {
        "name": served.name,
        "estimator": artifact.estimator,
        "version": __version__,
        "file": path.name,
        "checksum": f"sha256:{served.checksum}",
        "loaded": datetime.now(UTC).isoformat(timespec="seconds"),
        "set": scorer.schema.roles.set,
        "columns": described(scorer.schema, samples, display),
        "one_hot": display.one_hot,
        "item_name": display.item_name,
        "members": [] if members is None else members.weights,
        "outside": scorer.schema.outside,
        "samples": samples,
        "card": {} if artifact.card is None else artifact.card.to_json(),
        "reference": reference is not None,
        "limits": vars(settings.limits)
        | {one: getattr(settings.limits, one) for one in ("max_explained", "max_decided")},
    }
    _try(model, scorer.schema)
    return replace(served, about=about)


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
    deadline = Deadline.after(SECONDS_TO_TRY)
    try:
        served.predict(served.scored(served.read(body), deadline), deadline)
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
FEWEST_TOGETHER = 4
ROWS_TOGETHER = 2_000
"""Small requests are scored together if there are so many, and up to so many rows at a time."""
THREADS = 4
SECONDS_BETWEEN_LOOKS = 0.5

Signature = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True)
class Work:
    """A kind of request: how it is read, how many rows it scores, and how its answer is written."""

    read: Callable[[ServedModel, bytes], ParsedRequest]
    rows: Callable[[ParsedRequest], int]
    write: Callable[[ServedModel, Scored, Deadline], bytes]


class Waiting(NamedTuple):
    """A small request that is to be scored, with others if there are others."""

    served: ServedModel
    asked: ParsedRequest
    found: asyncio.Future[Scored]


class Service:
    """The state of one process of a service."""

    def __init__(self, settings: Settings, metrics: ServiceMetrics | None = None):
        self.settings = settings
        self.metrics = metrics or ServiceMetrics(settings.names)
        self.draining = False
        self.working = 0
        """Requests that have arrived whole and are not answered yet."""
        self.arriving = Quota(settings.limits.max_held)
        """The bytes of bodies that are still arriving."""
        self._seen = [self._signature(path) for path in settings.models]
        self.models = {path.stem: load(path, settings) for path in settings.models}
        self._note_load(len(self.models))
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="setwise-answer")
        self._waiting: list[Waiting] = []

    @property
    def served(self) -> ServedModel:
        """The default model."""
        return self.models[self.settings.names[0]]

    async def answer(self, name: str, body: bytes, work: Work, deadline: Deadline) -> bytes:
        """Answer a body that is meant for a model."""
        served = self.models[name]  # the whole request sees this model, whatever takes its place

        def whole() -> tuple[ParsedRequest, bytes]:
            deadline.check()
            asked = work.read(served, body)
            return asked, work.write(served, served.scored(asked, deadline), deadline)

        if len(body) <= SMALL_BODY:
            asked = work.read(served, body)
            if work.rows(asked) <= SMALL_ROWS:
                scored = await self._scored_together(served, asked)
                deadline.check()
                done = work.write(served, scored, deadline)
                self.metrics.add("sets", len(asked.sets))
                return done
        asked, done = await asyncio.get_running_loop().run_in_executor(self._threads, whole)
        self.metrics.add("sets", len(asked.sets))
        return done

    def _scored_together(self, served: ServedModel, asked: ParsedRequest) -> asyncio.Future[Scored]:
        """A request, scored with those that came at the same time.

        A model takes hardly longer for ten small sets than for one.
        """
        loop = asyncio.get_running_loop()
        found: asyncio.Future[Scored] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._score_waiting)
        self._waiting.append(Waiting(served, asked, found))
        return found

    def _score_waiting(self) -> None:
        served, rows = self._waiting[0].served, 0
        taken: list[Waiting] = []
        left: list[Waiting] = []
        for one in self._waiting:
            together = one.served is served and rows < ROWS_TOGETHER
            (taken if together else left).append(one)
            rows += one.asked.rows if together else 0
        self._waiting = left
        if left:
            asyncio.get_running_loop().call_soon(self._score_waiting)
        try:
            found = served.scored_together([one.asked for one in taken])
        except Exception as error:  # of the model, not of a request
            found = [error] * len(taken)
        for one, result in zip(taken, found, strict=True):
            if one.found.done():  # a client that is gone
                continue
            if isinstance(result, Scored):
                one.found.set_result(result)
            else:
                one.found.set_exception(result)

    async def watch(self) -> None:
        """Load every new model file, until cancelled; a broken file changes nothing."""
        while True:
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
            for place, path in enumerate(self.settings.models):
                signature = self._signature(path)
                if signature != self._seen[place]:
                    self._seen[place] = signature
                    await self._take_over(path)

    async def _take_over(self, path: Path) -> None:
        try:
            # A thread of its own: those that answer may be busy.
            served = await asyncio.to_thread(load, path, self.settings)
        except InputError as error:
            self.metrics.add("failed_loads")
            LOG.error("the new %s is not used, the old model stays: %s", path.name, error)
        except Exception:
            self.metrics.add("failed_loads")
            LOG.exception("the new %s is not used, the old model stays", path.name)
        else:
            self.models[path.stem] = served
            self._note_load()
            LOG.info("now using the new %s (sha256 %s)", path.name, served.checksum[:12])

    def _note_load(self, count: int = 1) -> None:
        self.metrics.add("loads", count)
        self.metrics.set("loaded_at", int(time.time()))

    def _signature(self, path: Path) -> Signature:
        reference = self.settings.reference
        return _of_file(path), None if reference is None else _of_file(reference)

    def close(self) -> None:
        """Stop the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _of_file(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
