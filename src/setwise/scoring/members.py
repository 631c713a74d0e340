"""What each member of an ensemble predicts: how far they agree says how sure the ensemble is."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from setwise._errors import InputError
from setwise._shapes import Float32
from setwise._tensorfile import made_elsewhere
from setwise.choices import Encoded
from setwise.scoring.graph import Graph, live
from setwise.scoring.model_file import Artifact
from setwise.scoring.numpy_program import NumpyProgram
from setwise.scoring.scorer import Items, Present, in_buckets

CLOSE = 1e-4
"""Probabilities that differ by less are the same but for rounding."""


@dataclass(frozen=True, eq=False)
class Members:
    """P_m(x | s) of every member m of an ensemble, whose own P(x | s) is sum over m of p_m P_m.

    An ensemble's graph computes log p_m + log P_m(x | s) on its way, sets x members x items. This
    runs the graph up to there.

    >>> import tempfile, setwise as sw
    >>> choices = sw.datasets.load("modecanada").sample(300)
    >>> model = sw.SDW(dimension=2, ensemble=3, training=sw.Training(epochs=2)).fit(choices)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/trips.setwise")
    ...     artifact = Artifact.read(f"{folder}/trips.setwise")
    >>> members, encoded = Members.of(artifact, "trips.setwise"), model.schema_.encode(choices)
    >>> mean = np.array(members.weights) @ members.probabilities(encoded)
    >>> bool(np.allclose(mean, np.exp(model.row_log_probabilities(encoded)), atol=1e-5))
    True
    """

    program: NumpyProgram
    weights: tuple[float, ...]
    """p_m; they add up to 1."""

    @classmethod
    def of(cls, artifact: Artifact, path: str | Path) -> "Members | None":
        """The members of the model in a file; None if it is no ensemble."""
        if artifact.graph is None or not artifact.ensemble:
            return None
        place = _joined(artifact.graph)
        if place is None:  # of its members only one counts
            return None
        arrays = artifact.arrays | artifact.constants
        graph = live(artifact.graph.operations, place)
        used = {name: arrays[name] for name in graph.weights}
        with made_elsewhere(path, "graph"):
            program = NumpyProgram.of(graph, used)
            whole = NumpyProgram.of(artifact.graph, arrays)
            return cls._checked(program, whole, artifact.schema.width)

    @classmethod
    def _checked(cls, program: NumpyProgram, whole: NumpyProgram, width: int) -> "Members":
        """Refuse members that do not add up to the ensemble, on two small sets."""
        items = np.linspace(-1, 1, 6 * width, dtype=np.float32).reshape(2, 3, width)
        present = np.ones((2, 3), bool)
        joint = _joint(program, items, present).astype(np.float64)
        weights = joint.sum(2)
        total = joint.sum(1) / weights.sum(1, keepdims=True)
        if not np.abs(total - np.exp(whole(items, present))).max() < CLOSE:
            raise InputError("the probabilities of its members do not add up to its own")
        return cls(program, tuple((weights[0] / weights[0].sum()).tolist()))

    def probabilities(self, encoded: Encoded) -> Float32[np.ndarray, "members rows"]:
        """P_m(x | s) of every encoded row, outside options included."""
        found = np.empty((len(self.weights), int(encoded.offsets[-1])), np.float32)
        for items, present, rows in in_buckets(encoded):
            found[:, rows] = self._of_bucket(items, present)
        return found

    def _of_bucket(self, items: Items, present: Present) -> Float32[np.ndarray, "members rows"]:
        block = self.program.general.sets_per_block(present.shape[1])
        parts = []
        for begin in range(0, len(items), block):
            some = present[begin : begin + block]
            joint = _joint(self.program, items[begin : begin + block], some)
            alone = joint / joint.sum(2, keepdims=True)
            parts.append(alone.transpose(1, 0, 2)[:, some])
        return np.concatenate(parts, axis=1)


def _joint(
    program: NumpyProgram, items: Items, present: Present
) -> Float32[np.ndarray, "sets members items"]:
    """p_m P_m(x | s), 0 for items that are not present."""
    with np.errstate(all="ignore"):
        given = program.inputs(items, present)
        return np.where(present[:, None, :], np.exp(program.general(given)), 0)


def _joined(graph: Graph) -> int | None:
    """The operation whose value has log p_m + log P_m of every member, before they are added up.

    The sum is that of exponentials, from which the largest is taken first: the last of its kind.
    """
    for one in reversed(graph.operations):
        if one.name == "largest" and one.settings == (1,):
            shape = graph.specs[one.inputs[0]].shape
            if len(shape) == 3 and (shape[0], shape[2]) == ("sets", "items") and shape[1] != 1:
                return one.inputs[0]
    return None
