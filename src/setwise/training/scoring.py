"""Log-probabilities of every row, for validation and prediction: sets of any size, any number."""

import math
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from setwise.choices import Bucket, Encoded, Encoding, bucket, round_up
from setwise.metrics import Ranks
from setwise.models import Model
from setwise.training.device import DeviceData, to_device
from setwise.training.loop import log_probabilities

ROWS_A_BATCH = 16_384
ROWS_A_CHUNK = 2_000_000


class Scorer:
    """Scores the same choices again and again (as validation does) without moving them again."""

    def __init__(self, encoded: Encoded):
        self._offsets = encoded.offsets
        self._data: DeviceData = to_device(encoded)
        self._buckets = bucket(encoded.sizes, overhead=0.2)
        self._batches = [in_batches(one, _batch_size(one)) for one in self._buckets]

    def __call__(self, model: Model) -> Float[np.ndarray, " rows"]:
        """log P(x | s) of every row."""
        flat = np.empty(int(self._offsets[-1]), np.float32)
        for one, sets in zip(self._buckets, self._batches, strict=True):
            table = np.asarray(log_probabilities(model, self._data, sets, one.width))
            table = table.reshape(-1, one.width)[: len(one.sets)]
            sizes = np.diff(self._offsets)[one.sets]
            present = np.arange(one.width) < sizes[:, None]
            rows = self._offsets[:-1][one.sets][:, None] + np.arange(one.width)
            flat[rows[present]] = table[present]
        return flat


class Validation:
    """Mean NLL and accuracy on the same choices, again and again."""

    def __init__(self, data: Encoded | Encoding):
        self._data = data
        self._score = Scorer(data) if isinstance(data, Encoded) else None
        self.weight = data.weight if isinstance(data, Encoded) else data.choices.weight

    def __call__(self, model: Model) -> tuple[float, float]:
        """By the sets' weights."""
        each = []
        for scores, part in self._scored(model):
            assert part.chosen is not None
            nll = -scores[part.offsets[:-1] + part.chosen].astype(np.float64)
            if np.isnan(nll).any():  # weights that are no numbers have no accuracy either
                return math.nan, math.nan
            each.append((nll, Ranks.of(scores, part.offsets, part.chosen).top(1)))
        nll, top = (np.concatenate(values) for values in zip(*each, strict=True))
        weight = np.ones(len(nll)) if self.weight is None else self.weight
        # Dividing last keeps equal accuracies equal: sums of ones are exact.
        return float(nll @ weight / weight.sum()), float(top @ weight / weight.sum())

    def of_chosen(self, model: Model) -> Float[np.ndarray, " sets"]:
        """log P of the chosen item of every set."""
        return np.concatenate(
            [
                scores[part.offsets[:-1] + part.chosen].astype(np.float64)
                for scores, part in self._scored(model)
            ]
        )

    def _scored(self, model: Model) -> Iterator[tuple[Float[np.ndarray, " rows"], Encoded]]:
        """log P of the rows: of all at once, or, of data on disk, a part at a time."""
        if isinstance(self._data, Encoded):
            assert self._score is not None
            yield self._score(model), self._data
        else:
            for block in self._data.blocks():
                part = block.encoded()
                yield Scorer(part)(model), part


def row_log_probabilities(model: Model, encoded: Encoded) -> Float[np.ndarray, " rows"]:
    """log P(x | s) of every row, in chunks of sets that bound the memory."""
    number = encoded.offsets[:-1] // ROWS_A_CHUNK
    cuts = np.flatnonzero(np.diff(number)) + 1
    parts = []
    for begin, end in zip([0, *cuts], [*cuts, len(encoded)], strict=True):
        first, last = encoded.offsets[begin], encoded.offsets[end]
        chunk = Encoded(
            encoded.items[first:last],
            encoded.context[begin:end],
            encoded.offsets[begin : end + 1] - first,
            None,
            None,
        )
        parts.append(Scorer(chunk)(model))
    return np.concatenate(parts)


def in_batches(one: Bucket, size: int) -> Int[jax.Array, "steps batch"]:
    """The bucket's sets in batches of this size; -1 fills the last, and a few more."""
    steps = round_up(-(-len(one.sets) // size))
    sets = np.full(steps * size, -1, np.int32)
    sets[: len(one.sets)] = one.sets
    return jnp.asarray(sets.reshape(steps, size))


def _batch_size(one: Bucket) -> int:
    return min(round_up(len(one.sets)), max(1, ROWS_A_BATCH // one.width))
