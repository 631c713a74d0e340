"""What is known about an operation: one row of the table of :mod:`setwise.scoring.operations`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np

Dimension = int | Literal["sets", "items"]
Shape = tuple[Dimension, ...]
Settings = tuple[Any, ...]

DTYPES = ("bool", "int32", "int64", "float32", "float64")
MOST_AXES = 8


class Spec(NamedTuple):
    """Shape and type of a value."""

    shape: Shape
    dtype: str


@runtime_checkable
class OnnxNodes(Protocol):
    """What collects the nodes of an ONNX graph; every method returns the name of a value."""

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """A node with one output."""

    def constant(self, array: Any, dtype: Any = None) -> str:
        """A constant."""

    def tensor(self, array: Any) -> Any:
        """An array as an attribute of a node."""

    def cast(self, x: str, dtype: str) -> str:
        """The value in another type."""

    def size(self, name: str) -> str:
        """The number of sets or items, as a vector of one number."""


class OnnxCall(NamedTuple):
    """An operation to be written as ONNX."""

    nodes: OnnxNodes
    settings: Settings
    inputs: list[Spec]
    result: Spec
    arrays: list[Any]
    """The last inputs of an operation that is made ready with weights; they have no names."""


@dataclass(frozen=True)
class OperationType:
    """One row of the table."""

    name: str
    inputs: int | None
    """How many values it takes; None means one or more."""
    spec: Callable[[Settings, list[Spec]], Spec]
    """Shape and type of the result; settings or inputs that make no sense are an error."""
    numpy: Any = None
    """A NumPy ufunc, or a function that takes the settings and returns the function to call."""
    onnx: str | Callable[..., str] = ""
    """An ONNX operator, or a function of an :class:`OnnxCall` and the names of the inputs."""
    primitives: tuple[str, ...] = ()
    """JAX primitives with the same inputs; tracing has a rule of its own for each other one."""
    elementwise: bool = False
    reduces: bool = False
    sized: bool = False
    """Whether the NumPy function takes the numbers of sets and of items after the inputs."""
    in_model_files: bool = True
    """Whether a model file may use it."""
    weights: int = 0
    """How many of its last inputs are weights with which it is made ready, once: ``numpy`` then is
    a function of the settings and these arrays, which checks them; it gives the function to call
    with the other inputs."""
    check: Callable[..., Any] = lambda settings, first, *arrays: None
    """Refuses weights of a file that make no sense, given the settings and the first input."""

    def function(self, settings: Settings, *arrays: Any) -> Callable[..., Any]:
        """The NumPy function of the inputs; of those without the weights, where these are given."""
        if isinstance(self.numpy, np.ufunc):
            return self.numpy
        if self.weights and not arrays:
            return lambda *inputs: self.numpy(settings, *inputs[-self.weights :])(
                *inputs[: -self.weights]
            )
        return self.numpy(settings, *arrays)

    def onnx_node(self, call: OnnxCall, *inputs: str) -> str:
        """Write the operation as ONNX; returns the name of the result."""
        if isinstance(self.onnx, str):
            return call.nodes.add(self.onnx, *inputs)
        return self.onnx(call, *inputs)


def is_whole(value: Any) -> bool:
    """Whether this is a whole number that is not negative."""
    return type(value) is int and value >= 0
