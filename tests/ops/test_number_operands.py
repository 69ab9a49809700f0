"""Numbers of Python beside float64 tensors: values and both gradients have all their digits.

A number has no dtype. A function that a rule takes of it alone (the logarithm of the base of a
power) must not have the default dtype's digits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import contraflow as cf
from contraflow.autograd import grad
from contraflow.operation.context import apply
from contraflow.operation.op import REGISTRY
from contraflow.tensors.tensor import Tensor
from contraflow.testing import make_inputs

# Of elementwise ops all inputs are tested, and of others those that may be a number.
OTHERS = {
    "igamma": (0, 1), "igammac": (0, 1), "float_power": (0, 1), "kl_div": (1,),
    "poisson_nll_loss": (1,),
}  # fmt: skip
# Ops whose arguments have dtypes of their own.
NO_NUMBERS = {"prelu", "assign", "running_averages", "scaled_step"}


def calls() -> Iterator[tuple[str, Any, tuple[Any, ...], Any, int]]:
    """Each op of several float64 inputs of one shape, with the first such sample, and an input."""
    for name, op in REGISTRY.items():
        if (op.kind.name != "elementwise" and name not in OTHERS) or name in NO_NUMBERS:
            continue
        for sample in op.samples():
            given = make_inputs(sample)
            floats = [i for i, x in enumerate(given) if getattr(x, "dtype", None) == np.float64]
            shapes = {given[i].shape for i in floats}
            if len(floats) > 1 and len(shapes) == 1 and np.size(given[floats[0]]) > 1:
                for place in OTHERS.get(name, floats):
                    yield name, op, given, dict(sample.params), place
                break


def orders(op: Any, inputs: Sequence[Any], params: Any, points: list[Tensor]) -> list[Tensor]:
    """The results of an op in floats, and both orders of gradient of their squares."""
    outs = apply(op, tuple(inputs), params) if params else apply(op, tuple(inputs))
    outs = [x for x in (outs if isinstance(outs, tuple) else (outs,)) if x.is_floating_point()]
    traced: Any = [x for x in outs if x.requires_grad]
    if not traced:
        return outs
    first = grad(sum((x * x).sum() for x in traced), points, create_graph=True, allow_unused=True)
    again: Any = [g for g in first if g is not None and g.requires_grad]
    loss = sum((g * g).sum() for g in again)
    second = grad(loss, points, allow_unused=True) if again else ()
    return [x.detach() for x in (*outs, *first, *second) if x is not None]


CASES = list(calls())


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("name", "op", "given", "params", "place"), CASES, ids=[f"{c[0]}-{c[4]}" for c in CASES]
)
def test_numbers_have_the_digits_of_tensors(
    name: str, op: Any, given: Any, params: Any, place: int, compiled: bool
) -> None:
    number = given[place].flat[0].item()
    leaves = [
        cf.tensor(x, requires_grad=x.dtype.kind == "f") if isinstance(x, np.ndarray) else x
        for x in given
    ]
    beside: list[Any] = list(leaves)
    beside[place] = cf.full(given[place].shape, number, dtype=cf.float64)
    leaves[place] = number
    points = [x for x in leaves if isinstance(x, Tensor) and x.requires_grad]
    expected = orders(op, beside, params, points)
    found = (cf.compile(orders) if compiled else orders)(op, leaves, params, points)
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.dtype is theirs.dtype
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("base", [2, 2.5, np.float32(3.0)])
def test_the_logarithm_of_a_base(base: Any) -> None:
    x = cf.tensor([0.3, -1.7], dtype=cf.float64, requires_grad=True)
    (g,) = grad((base**x).sum(), x)
    np.testing.assert_allclose(g, np.log(float(base)) * float(base) ** x.detach().numpy(), 1e-14)


def test_bases_of_fewer_digits_than_the_exponents() -> None:
    """PyTorch takes the logarithm in the dtype of the base: float32 here."""
    x = cf.tensor([0.3, -1.7], dtype=cf.float64, requires_grad=True)
    for base in (cf.tensor([2, 3]), cf.tensor([2.5, 1.1])):
        (g,) = grad((base**x).sum(), x)
        wide = base.double().numpy()
        np.testing.assert_allclose(g, np.log(wide) * wide ** x.detach().numpy(), 1e-14)


def test_numbers_beside_halves_are_not_rounded_first() -> None:
    x = cf.tensor([0.0], dtype=cf.bfloat16, requires_grad=True)  # where powers are 1
    (g,) = grad((1.01**x * 64).sum(), x)
    assert g.tolist() == cf.tensor([64 * np.log(1.01)]).to(cf.bfloat16).tolist()
