"""One-file models: safetensors for the weights, JSON for everything else, no pickle.

The file holds the estimator's name and arguments, the schema fitted on training data, what was
learned, how to compute its scores (a graph of plain operations, for those who score without JAX),
a few sets of the data, a simpler model of them and where they come from, as far as that was asked
for, and a checksum.
Loading it runs no code of the file's.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np

from setwise import _tensorfile
from setwise._arguments import check_all, each, flag, instance, optional, text
from setwise._errors import InputError
from setwise._files import check_writable
from setwise._tensorfile import made_elsewhere
from setwise.choices import Display, Schema
from setwise.scoring.card import Card
from setwise.scoring.graph import Graph, Operation, checked

OF_GRAPH = "graph/"
"""Prefix of arrays that the graph needs and the model does not have."""
OF_REFERENCE = "beside/"  # the name in files of this format
"""Prefix of arrays of simpler models of the same data."""


@dataclass(frozen=True, eq=False)
class Artifact:
    """What a model file holds."""

    estimator: str
    params: dict[str, Any]
    schema: Schema
    fitted: dict[str, Any]
    arrays: dict[str, np.ndarray]
    graph: Graph | None = None
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    """Arrays that the graph needs and the model does not."""
    sample: list[dict[str, Any]] = field(default_factory=list)
    """Some sets of the data as plain values (:func:`setwise.choices.reading.records`)."""
    reference: dict[str, np.ndarray] = field(default_factory=dict)
    """Simpler models of the same data, by name: "mnl", the weights of its standardised columns."""
    display: Display | None = None
    """How people read the columns and items."""
    ensemble: bool = False
    """Whether the graph adds up the probabilities of several models."""
    card: Card | None = None
    """Where the model comes from."""

    def write(self, path: str | Path) -> None:
        """Write the file whole or not at all."""
        check_writable(path, kind=".setwise")
        schema = self.schema.to_json()
        arrays = self.arrays | self.constants | _names_as_arrays(schema)
        arrays |= {f"{OF_REFERENCE}{name}": array for name, array in self.reference.items()}
        meta = {
            "estimator": self.estimator,
            "params": self.params,
            "schema": schema,
            "fitted": self.fitted,
            "graph": None if self.graph is None else self.graph.to_json(),
            "sample": self.sample,
            "ensemble": self.ensemble,
        }
        for name in _ABOUT:
            if (one := getattr(self, name)) is not None:
                meta[name] = one.to_json()
        _tensorfile.write(path, "model", arrays, meta)

    def with_graph(self, graph: Graph, arrays: dict[str, np.ndarray]) -> "Artifact":
        """Add a graph, and those of its arrays that the model does not have already."""
        known = {name for name, array in arrays.items() if _same(array, self.arrays.get(name))}
        constants = {f"{OF_GRAPH}{name}": a for name, a in arrays.items() if name not in known}

        def renamed(one: Operation) -> Operation:
            if one.name != "weight" or one.settings[0] in known:
                return one
            return Operation("weight", (), (f"{OF_GRAPH}{one.settings[0]}", *one.settings[1:]))

        graph = Graph(tuple(renamed(one) for one in graph.operations))
        return replace(self, graph=graph, constants=constants)

    @classmethod
    def read(cls, path: str | Path, *, with_graph: bool = True) -> "Artifact":
        """Read a model file; a truncated, altered or foreign one is refused.

        So is one that was made to do harm: whatever it says is checked before it is used. Without
        ``with_graph`` the graph is left out, for readers that have no use for it.
        """
        arrays, meta = _tensorfile.read(path, "model")
        with made_elsewhere(path, "description"):
            check_all(_PARTS, meta)
            _take_names_back(meta["schema"], arrays)
            constants = _taken(arrays, OF_GRAPH, keep_prefix=True)
            about = {
                name: kind.from_json(meta[name]) for name, kind in _ABOUT.items() if name in meta
            }
            artifact = cls(
                meta["estimator"], meta["params"], Schema.from_json(meta["schema"]),
                meta["fitted"], arrays, None, constants, _sample(meta.get("sample", [])),
                _taken(arrays, OF_REFERENCE), ensemble=meta.get("ensemble", False), **about,
            )  # fmt: skip
            artifact._check_reference()
        plain = meta.get("graph")  # older files have none
        if plain is None or not with_graph:
            return artifact
        with made_elsewhere(path, "graph"):
            graph = Graph.from_json(plain)
            everything = artifact.arrays | artifact.constants
            return replace(artifact, graph=checked(graph, everything, artifact.schema.width))

    def _check_reference(self) -> None:
        columns = (len(self.schema.item_names),)
        for name, weights in self.reference.items():
            if weights.shape != columns or not np.isfinite(weights).all():
                raise InputError(f"the weights '{name}' are not {columns[0]} finite numbers")


_ABOUT: dict[str, Any] = {"display": Display, "card": Card}
"""What a file may say for people, by its name in the description."""
_an_object = instance(dict, "write an object")
_PARTS = {
    "estimator": text,
    "params": _an_object,
    "schema": _an_object,
    "fitted": _an_object,
    "graph": optional(_an_object),
    "sample": each(_an_object, 0),
    "display": _an_object,
    "ensemble": flag,
    "card": _an_object,
}


def _taken(
    arrays: dict[str, np.ndarray], prefix: str, keep_prefix: bool = False
) -> dict[str, np.ndarray]:
    """Remove the arrays whose names have this prefix, and return them."""
    return {
        name if keep_prefix else name.removeprefix(prefix): arrays.pop(name)
        for name in list(arrays)
        if name.startswith(prefix)
    }


def _sample(sets: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sets of plain values, as :func:`setwise.choices.reading.records` writes them."""
    for one in sets:
        check_all({"items": each(_an_object), "context": _an_object, "names": each(text)}, one)
        for record in [*one["items"], one.get("context", {})]:
            if not all(isinstance(value, (str, int, float, NoneType)) for value in record.values()):
                raise InputError("a set of the sample has values that are not plain")
    return sets


def without_graph(estimator: str) -> str:
    """What to say of a model file that has no graph."""
    return (
        f"holds a {estimator} without the graph of its scores, as older setwise wrote it; write "
        "it again: setwise.load(path).save(path)"
    )


def _same(array: np.ndarray, other: np.ndarray | None) -> bool:
    """Whether they are equal to the last bit."""
    if other is None or array.dtype != other.dtype or array.shape != other.shape:
        return False
    return array.tobytes() == other.tobytes()


def _names_as_arrays(schema: dict[str, Any]) -> dict[str, np.ndarray]:
    """Take the names whose popularity was learned out of the JSON: they may be millions."""
    arrays = {}
    for key, encoder in _with_popularity(schema):
        names = json.dumps(encoder.pop("levels")).encode()
        arrays[f"{key}/levels"] = np.frombuffer(names, np.uint8)
        arrays[f"{key}/values"] = np.array(encoder.pop("values"), np.float64)
    return arrays


def _take_names_back(schema: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    for key, encoder in _with_popularity(schema):
        encoder["levels"] = json.loads(arrays.pop(f"{key}/levels").tobytes())
        encoder["values"] = arrays.pop(f"{key}/values").astype(np.float64).tolist()


def _with_popularity(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for place, encoder in enumerate(schema["items"]):
        if encoder["kind"] == "popularity":
            yield f"schema/{place}", encoder
