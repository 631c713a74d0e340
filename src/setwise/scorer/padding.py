"""Encoded sets as padded arrays, sets of similar size together, and results back as rows."""

from collections.abc import Iterator

import numpy as np

from setwise._shapes import Bool, Float32, Int
from setwise.choices import Bucket, Encoded, bucket

Items = Float32[np.ndarray, "sets items features"]
Present = Bool[np.ndarray, "sets items"]


def in_buckets(encoded: Encoded) -> Iterator[tuple[Items, Present, Int[np.ndarray, " present"]]]:
    """Padded items, which of them are present, and the row of each that is.

    A set's context joins the features of each of its items.

    >>> one = Encoded(np.arange(3.0)[:, None], np.array([[7.0], [8.0]]), np.array([0, 1, 3]),
    ...               None, None)
    >>> [(items.tolist(), present.tolist()) for items, present, _ in in_buckets(one)][1]
    ([[[1.0, 8.0], [2.0, 8.0]]], [[True, True]])
    """
    sizes = encoded.sizes
    if (sizes == sizes[0]).all():
        present = np.ones((len(sizes), int(sizes[0])), bool)
        items = encoded.items.reshape(*present.shape, -1)
        yield _with_context(items, encoded.context), present, np.arange(len(encoded.items))
        return
    for one in bucket(sizes, most=8, overhead=0.02):
        yield _padded(encoded, one)


def _padded(encoded: Encoded, one: Bucket) -> tuple[Items, Present, Int[np.ndarray, " present"]]:
    present = np.arange(one.width) < encoded.sizes[one.sets][:, None]
    places = encoded.offsets[:-1][one.sets][:, None] + np.arange(one.width)
    rows = places[present]
    items = np.zeros((*present.shape, encoded.items.shape[1]), np.float32)
    items[present] = encoded.items[rows]
    return _with_context(items, encoded.context[one.sets]), present, rows


def _with_context(items: np.ndarray, context: np.ndarray) -> Items:
    sets, width, _ = items.shape
    if context.shape[1] == 0:
        return items.astype(np.float32, copy=False)
    beside = np.broadcast_to(context[:, None, :], (sets, width, context.shape[1]))
    return np.concatenate([items, beside], 2).astype(np.float32, copy=False)
