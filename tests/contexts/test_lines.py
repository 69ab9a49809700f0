"""The line of user code that a node and a line of a tape bear, whatever was called there."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

import contraflow as cf
from contraflow import thresholds
from contraflow.contexts.record import Recorder
from contraflow.operation.context import apply, changed
from contraflow.operation.op import REGISTRY
from contraflow.tensors.node import nodes_below
from contraflow.tensors.source_line import UserLine
from contraflow.tensors.tensor import Tensor

# Each is a function of its own, which others call: its code tells which line was found.
CALLS: dict[str, Callable[[Tensor], Tensor]] = {
    "operator": lambda x: x + 1,
    "operator from the right": lambda x: 2.0 - x,
    "operator of one": lambda x: -x,
    "product": lambda x: x @ x,
    "function": lambda x: cf.tanh(x),
    "reduction": lambda x: cf.sum(x, dim=0),
    "method": lambda x: x.exp(),
    "composite with rules": lambda x: cf.softmax(x, 0),
    "composite by its parts": lambda x: cf.var(x, 0),
    "view": lambda x: x.transpose(0, 1),
    "view as an attribute": lambda x: x.T,
    "index": lambda x: x[0],
    "write": lambda x: x.clone().mul_(2.0),
    "write to an item": lambda x: (y := x.clone(), y.__setitem__(0, 1.0))[0],
    "op that is applied": lambda x: apply(REGISTRY["exp"], (x,)),
}
PARTS: dict[str, Callable[[Tensor], Sequence[Tensor]]] = {
    "unbind": lambda x: x.unbind(0),
    "split": lambda x: cf.split(x, 1),
}


def check(lines: Sequence[UserLine | None], call: Callable[[Tensor], object]) -> None:
    assert lines
    for line in lines:
        assert line is not None
        assert line.code is call.__code__
        assert line.number == call.__code__.co_firstlineno


def lines_of(result: Tensor) -> list[UserLine | None]:
    """The lines of all nodes that led to a result."""
    edge = result.edge
    assert edge is not None
    return [node.line for node in nodes_below([edge])]


@pytest.mark.parametrize("name", CALLS)
def test_a_node_bears_the_line_of_the_call(name: str):
    call = CALLS[name]
    check(lines_of(call(cf.ones(3, 3, requires_grad=True))), call)


@pytest.mark.parametrize("name", CALLS)
def test_nodes_and_lines_of_a_recording_bear_the_line_of_the_call(name: str):
    call, x = CALLS[name], cf.ones(3, 3, requires_grad=True)
    recorder = Recorder("f", [x])
    with changed(context=recorder):
        result = call(x)
    lines = lines_of(result)
    check([*lines, *[line.line for line in recorder.tape.lines]], call)
    recorder.restore()


@pytest.mark.parametrize("name", PARTS)
def test_many_parts_are_one_node_of_the_op_that_was_called(name: str):
    call = PARTS[name]
    parts = call(cf.ones(thresholds.eager_pieces + 2, 3, requires_grad=True))
    check(lines_of(parts[0]), call)
    assert {id(part.grad_fn) for part in parts} == {id(parts[0].grad_fn)}
    assert parts[0].grad_fn is not None
    assert parts[0].grad_fn.name == name
