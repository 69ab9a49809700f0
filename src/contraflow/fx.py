"""PyTorch's names for graphs of modules (torch.fx), as far as models use them."""

import operator
from typing import TypeVar

from contraflow.names import getter, without_objects

T = TypeVar("T")
# fmt: off
(
    Graph, GraphModule, Node, Proxy, SymBool, SymFloat,
    SymInt, Tracer,
) = (
    without_objects(name, what)
    for name, what in (
        ("Graph", "a graph of PyTorch's"),
        ("GraphModule", "a module made of a graph of PyTorch's"),
        ("Node", "a node of a graph of PyTorch's"),
        ("Proxy", "a value that PyTorch traces"),
        ("SymBool", "a bool that PyTorch traces"),
        ("SymFloat", "a float that PyTorch traces"),
        ("SymInt", "an int that PyTorch traces"),
        ("Tracer", "a tracer of PyTorch's"),
    )
)
# fmt: on


# Sizes are Python's numbers, and so are functions of them.
sym_float, sym_int, sym_max, sym_min, sym_not = float, int, max, min, operator.not_


def wrap(fn_or_name: T) -> T:
    """The function itself, or the name of one: there is no tracer to leave it alone.

    >>> wrap(len)("abc")
    3
    """
    return fn_or_name


__all__ = [
    "Graph",
    "GraphModule",
    "Node",
    "Proxy",
    "SymBool",
    "SymFloat",
    "SymInt",
    "Tracer",
    "sym_float",
    "sym_int",
    "sym_max",
    "sym_min",
    "sym_not",
    "wrap",
]

globals()["__getattr__"] = getter(__name__)
