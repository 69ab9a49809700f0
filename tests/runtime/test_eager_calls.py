"""The way of an eager call through the package: how many Python calls, and their direction."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest
from tests.helpers.walled import opened

import contraflow as cf
from contraflow import thresholds
from contraflow.operation.context import apply
from contraflow.operation.op import REGISTRY

SOURCE = str(Path(cf.__file__).parent)


class Call(NamedTuple):
    """A call of a function of the package: who called, and what."""

    caller: str
    callee: str


def name_of(frame: FrameType | None) -> str:
    """The module of a function, from the package on, and its name."""
    if frame is None or not frame.f_code.co_filename.startswith(SOURCE):
        return ""
    module = frame.f_code.co_filename.removeprefix(SOURCE)[1:].removesuffix(".py")
    return f"{module.replace('/', '.')}:{frame.f_code.co_qualname}"


@pytest.fixture(autouse=True)
def functions_are_written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The signatures of ops, which are functions of their own after a number of uses."""
    monkeypatch.setattr(thresholds, "written_signature", 1)


def calls_of(function: Callable[[], Any]) -> tuple[Any, list[Call]]:
    """The result of a function, and the calls of Python functions of the package meanwhile.

    Comprehensions and generators are left out: which of them have frames depends on the Python.
    """
    calls: list[Call] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        called = frame.f_code.co_name
        if event == "call" and (called == "<lambda>" or not called.startswith("<")):
            name = name_of(frame)
            if name:
                calls.append(Call(name_of(frame.f_back), name))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        result = function()
    finally:
        sys.setprofile(before)
    return result, calls


def passes(rows: int, inner: int, columns: int) -> tuple[list[Call], list[Call], list[Call]]:
    """The calls of a forward pass, of a first backward, and of one that adds to its gradients."""
    x, w = cf.ones(rows, inner, requires_grad=True), cf.ones(inner, columns, requires_grad=True)
    b = cf.zeros(columns, requires_grad=True)

    def forward() -> cf.Tensor:
        return cf.tanh(x @ w + b).sum()

    for _ in range(3):  # what is prepared once is there then
        forward().backward()
    y, there = calls_of(forward)
    _, adding = calls_of(y.backward)
    for leaf in (x, w, b):
        leaf.grad = None
    y = forward()
    _, first = calls_of(y.backward)
    return there, first, adding


def test_a_small_step_makes_few_calls():
    there, first, adding = passes(4, 3, 3)
    assert len(there) <= 51
    assert len(first) <= 96
    assert len(adding) <= 144


def test_a_step_by_programs_makes_few_calls():
    there, first, adding = passes(256, 128, 128)
    assert len(there) <= 103
    assert len(first) <= 171
    assert len(adding) <= 227


def test_a_small_classifier_makes_few_calls():
    x, w = cf.ones(4, 8), cf.ones(5, 8, requires_grad=True)
    target = cf.tensor([0, 4, 2, 1])

    def forward() -> cf.Tensor:
        return cf.nn.functional.cross_entropy(cf.nn.functional.linear(x, w), target)

    for _ in range(4):
        forward().backward()
    loss, there = calls_of(forward)
    _, back = calls_of(loss.backward)
    assert len(there) <= 87  # 290 where the parts of composites are applied one by one
    assert len(back) <= 150


SMALL_OPS = {
    "matmul": (lambda x, i: x @ x, 13),
    "sum": (lambda x, i: x.sum(), 11),
    "softmax": (lambda x, i: cf.softmax(x, -1), 13),
    "gather": (lambda x, i: cf.gather(x, 1, i), 17),
    "topk": (lambda x, i: cf.topk(x, 2), 18),
    "cat": (lambda x, i: cf.cat([x, x]), 15),
    "index": (lambda x, i: x[0], 12),
    "compare": (lambda x, i: x > 0.0, 4),
    "zeros": (lambda x, i: cf.zeros(4), 12),
}


@pytest.mark.parametrize("name", SMALL_OPS)
def test_a_small_op_makes_few_calls(name: str):
    run, most = SMALL_OPS[name]
    x, i = cf.ones(4, 4), cf.tensor([[0, 1], [2, 3]])
    for _ in range(4):
        run(x, i)
    _, calls = calls_of(lambda: run(x, i))
    assert len(calls) <= most


@pytest.mark.parametrize("name", [op.name for op in REGISTRY.values() if op.same_bits])
@pytest.mark.parametrize("dtype", [cf.float32, cf.float64, cf.float16])
def test_a_reference_in_place_of_parts_gives_their_bits(name: str, dtype: cf.DType):
    op = REGISTRY[name]
    for sample in op.samples():
        for scale in (1, 40, 400):
            shape = tuple(n * scale if i == 0 else n for i, n in enumerate(sample.inputs[0].shape))
            x = cf.randn(shape, dtype=dtype)
            for given in (x, x.mT.contiguous().mT if x.ndim > 1 else x, x * float("inf")):
                first = apply(op, (given,), sample.params)
                for _ in range(thresholds.eager_repeats + 2):
                    again = apply(op, (given,), sample.params)
                both = zip(*(v if isinstance(v, tuple) else (v,) for v in (first, again)))
                for a, b in both:
                    assert a.dtype is b.dtype
                    assert a.shape == b.shape
                    assert a.numpy().tobytes() == b.numpy().tobytes()


PARTS = {
    "contexts.applying": "applying", "runtime.eager": "eager",
    "runtime.eager_programs": "programs", "runtime.recorded": "programs",
    "runtime.routine": "programs", "runtime.array_cotangents": "cotangents",
    "graph.engine": "engine",
}  # fmt: skip
# Direct calls from part to part. Those with functions are calls of these and of no others.
CALLS: dict[tuple[str, str], set[str] | None] = {
    ("applying", "eager"): None,
    ("eager", "applying"): {
        "OpContext._attach", "OpContext.execute_there", "connect", "form_of", "has_kernel", "owned",
        "specs_of",
    },
    ("eager", "programs"): None,
    ("programs", "eager"): {"_fitted"},  # the function that `Eager.derive` has recorded
    ("engine", "cotangents"): None,
    ("cotangents", "programs"): None,
}  # fmt: skip


def between_parts(calls: Sequence[Call]) -> set[tuple[tuple[str, str], str]]:
    """The direct calls from part to part, and the functions that are called."""
    found = set()
    for call in calls:
        caller, (module, _, function) = call.caller.partition(":")[0], call.callee.partition(":")
        pair = (PARTS.get(caller, ""), PARTS.get(module, ""))
        if all(pair) and pair[0] != pair[1]:
            found.add((pair, function))
    return found


def first_and_later_calls(device: str) -> list[Call]:
    """The calls of a pass of which nothing was prepared, and of those that repeat it."""
    found = []
    with cf.device(device):
        for sizes in ((5, 7, 3), (129, 257, 131)):
            x, w = (cf.ones(shape, requires_grad=True) for shape in (sizes[:2], sizes[1:]))
            for _ in range(4):
                _, calls = calls_of(lambda x=x, w=w: cf.softmax(cf.tanh(x @ w), 0).sum().backward())
                found += calls
        _, calls = calls_of(lambda: x.detach().add_(1.0)[0].clone())
    # Beside tensors of another device than that of new tensors.
    _, others = calls_of(lambda: (x.detach() - 3.0).exp())
    return [*found, *calls, *others]


@pytest.mark.parametrize("device", ["cpu", "walled"])
def test_parts_call_each_other_as_the_docs_say(device: str):
    with opened() if device == "walled" else contextlib.nullcontext():
        found = between_parts(first_and_later_calls(device))
    assert {pair for pair, _ in found} <= CALLS.keys()
    assert ("eager", "programs") in {pair for pair, _ in found}
    assert ((("eager", "applying"), "OpContext.execute_there") in found) is (device == "walled")
    for pair, function in found:
        assert CALLS[pair] is None or function in CALLS[pair], (pair, function)
