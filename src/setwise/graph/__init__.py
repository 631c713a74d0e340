"""Models as plain graphs of array operations: traced from JAX, run and exported without it."""

from setwise.graph.builder import Builder
from setwise.graph.graph import Graph, Operation
from setwise.graph.specs import Spec

__all__ = ["Builder", "Graph", "Operation", "Spec"]
