"""Writing in place after an op: allowed wherever PyTorch allows it, with the same gradients.

An op saves for its backward what its rules name. Where PyTorch saves less, a program that
overwrites a result (`relu_` after a norm) or an input runs there and would not run here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.ops.test_peers import (
    DIFFERENCES,
    OWN,
    REFUSED,
    arguments,
    as_tuple,
    compare,
    counterpart,
    is_array,
    to_torch,
    torch,
    varies,
)

import contraflow as cf
from contraflow import thresholds
from contraflow.operation.context import apply
from contraflow.operation.op import REGISTRY, Op
from contraflow.testing import make_inputs

pytestmark = [
    pytest.mark.peers,
    pytest.mark.filterwarnings("ignore::UserWarning"),  # PyTorch's, of what it will change
    pytest.mark.skipif(torch is None, reason="needs PyTorch, which `make peers` installs"),
]

# What PyTorch allows and we refuse, or give another gradient of: by op and what is written.
_OVERLAPPING = (
    "elements that share memory: what is written last stays, in an order that is nobody's"
)
_COPIES = "PyTorch computes with copies of its inputs here, which nothing else needs"
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("as_strided", "output 0"): _OVERLAPPING,
    ("unfold", "output 0"): _OVERLAPPING,
    ("kron", "input 0"): "PyTorch's gradient is that of the new values",
    ("kron", "input 1"): "PyTorch's gradient is that of the new values",
    ("matmul", "input 0"): _COPIES,
    ("matmul", "input 1"): _COPIES,
    ("prod", "input 0"): "of a number PyTorch's function is not called at all",
    ("scaled_dot_product_attention", "input 0"): _COPIES,
    ("scaled_dot_product_attention", "input 1"): _COPIES,
    ("scaled_dot_product_attention", "input 3"): _COPIES,
    ("tensordot", "input 0"): _COPIES,
    ("tensordot", "input 1"): _COPIES,
}


COMPARED = 1250  # writes that PyTorch allows, at least


def gradients(
    library: Any, run: Callable[..., Any], leaves: list[Any], inputs: list[Any], target: str
) -> list[Any] | None:
    """Gradients of what an op gives, once a result or an input of it was doubled in place.

    None where no result requires grad.
    """
    outs = list(as_tuple(run(inputs)))
    kind, number = target.split()
    written = (outs if kind == "output" else inputs)[int(number)]
    written.mul_(2.0)
    roots = [out for out in outs if out.requires_grad]
    if not roots:
        return None
    rng = np.random.default_rng(7)
    total = sum(
        (out.double() * library.tensor(rng.standard_normal(tuple(out.shape)))).sum()
        for out in roots
    )
    total.backward()
    return [leaf.grad for leaf in leaves]


def prepared(
    op: Op, inputs: Any, number: int, make: Callable[[Any], Any]
) -> tuple[list[Any], list[Any]]:
    """The leaves, and the inputs of a sample: copies of them, which may be written to."""
    leaves, given = [], []
    for i, x in enumerate(inputs):
        value = make(x) if is_array(x) else x
        if varies(op, i, x, number):
            value.requires_grad_()
            leaves.append(value)
            value = value.clone()
        given.append(value)
    return leaves, given


def targets(op: Op, inputs: Any, params: Any, number: int) -> Iterator[str]:
    """What can be written: results and inputs of floating dtype."""
    outs = as_tuple(apply(op, tuple(cf.tensor(x) if is_array(x) else x for x in inputs), params))
    for i, out in enumerate(outs):
        if isinstance(out, cf.Tensor) and out.dtype.is_floating_point:
            yield f"output {i}"
    for i, x in enumerate(inputs):
        if varies(op, i, x, number):
            yield f"input {i}"


def allowed(op: Op, inputs: Any, params: Any, number: int, target: str) -> list[Any] | None:
    """The gradients that PyTorch gives; None where it refuses, or where there are none."""
    theirs = counterpart(op)
    assert theirs is not None

    def run(given: list[Any]) -> Any:
        positional, named = arguments(op, given, params)
        return theirs(*positional, **{k: to_torch(v) for k, v in named.items()})

    leaves, given = prepared(op, inputs, number, to_torch)
    try:
        return gradients(torch, run, leaves, given, target)
    except RuntimeError:
        return None


def differs(op: Op, inputs: Any, params: Any, number: int, target: str) -> str | None:
    """What is wrong here, if PyTorch does it."""
    expected = allowed(op, inputs, params, number, target)
    if expected is None:
        return None
    leaves, given = prepared(op, inputs, number, cf.tensor)
    try:
        found = gradients(cf, lambda xs: apply(op, tuple(xs), params), leaves, given, target)
    except cf.GradientError as error:
        return f"refused: {error}"
    for leaf, a, b in zip(leaves, found or [None] * len(leaves), expected):
        try:
            if a is not None or b is not None:
                compare(leaf * 0 if a is None else a, leaf.detach() * 0 if b is None else b)
        except AssertionError as error:
            return f"another gradient: {error}"
    return None


def writes(op: Op) -> Iterator[tuple[int, Any, Any, str]]:
    """What is tried: samples with their numbers, inputs, and what is written."""
    for i, sample in enumerate(op.samples()):
        if (op.name, i) not in REFUSED:
            inputs = make_inputs(sample)
            for target in targets(op, inputs, sample.params, i):
                yield i, sample, inputs, target


def cases() -> Iterator[Any]:
    for op in REGISTRY.values():
        known = op.name not in OWN and op.name not in DIFFERENCES
        if known and (op.rules or op.kind.lowering in ("composite", "view")):
            yield pytest.param(op, id=op.name)


@pytest.fixture(params=[1, 1 << 40], ids=["as one program", "by parts"])
def composites(request: pytest.FixtureRequest) -> Iterator[None]:
    with thresholds.using(eager_composite=request.param):
        yield


@pytest.mark.usefixtures("composites")
@pytest.mark.parametrize("op", list(cases()))
def test_what_pytorch_allows(op: Op) -> None:
    wrong, excepted = [], set()
    for i, sample, inputs, target in writes(op):
        problem = differs(op, inputs, sample.params, i, target)
        if problem is None:
            continue
        if (op.name, target) in EXCEPTIONS:
            excepted.add((op.name, target))
        else:
            wrong.append(f"sample {i}, {target}: {problem}")
    assert not wrong, "\n".join(wrong)
    assert excepted == {key for key in EXCEPTIONS if key[0] == op.name}, "no exception any more"


def test_how_many_are_compared() -> None:
    tried = compared = 0
    for case in cases():
        (op,) = case.values
        for i, sample, inputs, target in writes(op):
            tried += 1
            compared += allowed(op, inputs, sample.params, i, target) is not None
    print(f"{compared} writes that PyTorch allows were compared, of {tried}")
    assert compared >= COMPARED
