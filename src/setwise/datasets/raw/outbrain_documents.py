"""Outbrain's documents: publisher, source, age, and what each is about."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int, Shaped

from setwise.datasets.raw.fields import Field
from setwise.datasets.raw.files import find_file
from setwise.datasets.raw.lookups import Ids, first_repeat

TOP = 3  # entries of a document's confidence vector that are kept, the most confident first


@dataclass(frozen=True, eq=False)
class Confidences:
    """What each document is about: its ``TOP`` most confident entries, as a vector of length 1.

    One row an entry, the most confident first; column ``-1`` is the unknown document. Absent
    entries have code -1 and weight 0.
    """

    ids: Ids
    codes: Int[np.ndarray, "top documents_and_one"]
    weights: Float[np.ndarray, "top documents_and_one"]

    @classmethod
    def of(
        cls,
        documents: Int[np.ndarray, " n"],
        subjects: Int[np.ndarray, " n"],
        confidence: Float[np.ndarray, " n"],
        count: int,
    ) -> "Confidences":
        """From long form: the position of a document, a category or topic id, its confidence."""
        ids = Ids.of(subjects)
        # The bits of floats from 0 up are in the order of the floats: one integer sorts by
        # document and then by falling confidence; ties keep the file's order.
        falling = ~confidence.view(np.int32)
        key = (documents.astype(np.int64) << 32) | falling.view(np.uint32)
        order = np.argsort(key, kind="stable")
        documents = documents[order]
        starts = np.searchsorted(documents, np.arange(count))
        rank = np.arange(len(order)) - starts[documents]
        top = min(TOP, int(rank.max()) + 1)
        kept = rank < top
        order, documents, rank = order[kept], documents[kept], rank[kept]
        codes = np.full((top, count + 1), -1, np.int16 if len(ids) < 2**15 else np.int32)
        weights = np.zeros((top, count + 1), np.float32)
        codes[rank, documents] = ids.find(subjects[order])
        weights[rank, documents] = confidence[order]
        length = np.sqrt((weights**2).sum(0))
        return cls(ids, codes, weights / np.where(length > 0, length, 1))

    @property
    def first(self) -> Int[np.ndarray, " documents_and_one"]:
        """The code of each document's most confident entry, -1 where it has none."""
        return self.codes[0]

    def similarity(
        self,
        some: Int[np.ndarray, " n"],
        others: Int[np.ndarray, " m"],
        pairs: Int[np.ndarray, " m"],
    ) -> Float[np.ndarray, " m"]:
        """The cosine of documents ``some[pairs[i]]`` and ``others[i]``; 0 if one is unknown."""
        entries = list(zip(self.codes, self.weights, strict=True))
        right = [(codes.take(others), weights.take(others)) for codes, weights in entries]
        total = np.zeros(len(others), np.float32)
        for codes, weights in entries:
            code, weight = codes.take(some).take(pairs), weights.take(some).take(pairs)
            shared = sum((code == other) * other_weight for other, other_weight in right)
            total += weight * shared
        return total


@dataclass(frozen=True, eq=False)
class Documents:
    """All documents that any of the three files names; position -1 is the unknown document."""

    ids: Ids
    source: Int[np.ndarray, " documents_and_one"]
    publisher: Int[np.ndarray, " documents_and_one"]
    published: Shaped[np.ndarray, " documents_and_one"]
    categories: Confidences
    topics: Confidences


def read_documents(path: Path, on_step: Callable[[str], None]) -> Documents:
    """Read ``documents_meta``, ``documents_categories`` and ``documents_topics``.

    A document that is absent from a file has nothing of what that file tells: no publisher, no
    date, no category, no topic.
    """
    on_step("reading documents_meta.csv")
    file = find_file(path, "documents_meta.csv")
    meta = file.read({
        "document_id": Field("int32"), "source_id": Field("int32", -1),
        "publisher_id": Field("int32", -1), "publish_time": Field("date", ""),
    })  # fmt: skip
    repeat = first_repeat(meta["document_id"])
    if repeat is not None:
        raise file.fault(
            repeat, "document_id", f"document {meta['document_id'][repeat]} is there already",
            "keep one line a document",
        )  # fmt: skip
    about = {
        name: _read_confidences(path, f"documents_{name}.csv", column, on_step)
        for name, column in (("categories", "category_id"), ("topics", "topic_id"))
    }
    ids = Ids.of(meta["document_id"], *(document for document, _, _ in about.values()))
    count = len(ids)
    place = ids.find(meta["document_id"])
    source, publisher = np.full((2, count + 1), -1, np.int32)
    published = np.full(count + 1, "NaT", "datetime64[s]")
    source[place], publisher[place] = meta["source_id"], meta["publisher_id"]
    published[place] = meta["publish_time"]
    confidences = [
        Confidences.of(ids.find(document), subject, confidence, count)
        for document, subject, confidence in about.values()
    ]
    return Documents(ids, source, publisher, published, *confidences)


def _read_confidences(
    path: Path, name: str, column: str, on_step: Callable[[str], None]
) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    on_step(f"reading {name}")
    read = find_file(path, name).read({
        "document_id": Field("int32"), column: Field("int32"),
        "confidence_level": Field("float32", least=0),
    })  # fmt: skip
    return read["document_id"], read[column], read["confidence_level"]
