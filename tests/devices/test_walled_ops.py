"""Every op on the walled device: value and gradients as on the cpu, and nothing by the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.helpers.op_checks import accepts, as_tuple, call, differentiable, run
from tests.helpers.walled import WalledDevice, opened

import contraflow as cf
from contraflow.autograd import grad
from contraflow.operation.context import changed
from contraflow.operation.op import REGISTRY, Op
from contraflow.operation.samples import Sample
from contraflow.tensors.tensor import Tensor
from contraflow.testing import assert_close, make_inputs

CASES = [
    pytest.param(op, sample, id=f"{op.name}-{i}")
    for op in REGISTRY.values()
    if not op.is_transfer
    for i, sample in enumerate(op.samples())
]


@pytest.fixture(scope="module")
def device():
    with opened() as found:
        yield found


def applied(op: Op, given: Any, params: Any) -> tuple[Tensor, ...]:
    return as_tuple(call(op, given, params)) if accepts(op, params) else run(op, given, params)


def gradients(op: Op, given: list[Any], params: Any, wrt: list[int]) -> tuple[Any, Any]:
    """Those of the weighed sum of the outputs, and those of the sum of their squares."""
    points = []
    for i in wrt:
        given[i] = given[i].detach().requires_grad_()
        points.append(given[i])
    rng = np.random.default_rng(3)
    outs = [o for o in applied(op, given, params) if o.dtype.is_floating_point]
    drawn = [rng.standard_normal(o.shape).astype(o.dtype.numpy) for o in outs]
    weights = [cf.tensor(x, device=o.device) for x, o in zip(drawn, outs)]
    weighed = [(o, w) for o, w in zip(outs, weights) if o.requires_grad]
    found = grad(
        [o for o, _ in weighed], points, [w for _, w in weighed], create_graph=True,
        allow_unused=True,
    )  # fmt: skip
    again = [g.square().sum() for g in found if g is not None and g.requires_grad]
    second = grad(again, points, allow_unused=True) if again else ()
    return found, second


def check(op: Op, sample: Sample, device: WalledDevice) -> None:
    inputs, params = make_inputs(sample), sample.params
    here = [cf.tensor(x) if isinstance(x, np.ndarray) else x for x in inputs]
    there = [cf.tensor(x, device="walled") if isinstance(x, np.ndarray) else x for x in inputs]
    expected = applied(op, here, params)
    with changed(device="walled"):  # for ops that make tensors out of numbers
        found = applied(op, there, params)
    for x, y in zip(found, expected, strict=True):
        assert str(x.device) == "walled"
        assert x.spec == y.spec
        assert_close(x.cpu(), y)
    wrt = differentiable(op, inputs)
    if wrt and any(o.dtype.is_floating_point for o in expected):
        for one, other in zip(gradients(op, there, params, wrt), gradients(op, here, params, wrt)):
            for x, y in zip(one, other, strict=True):
                assert (x is None) == (y is None)
                if x is not None:
                    assert str(x.device) == "walled"
                    assert_close(x.cpu(), y)


@pytest.mark.parametrize(("op", "sample"), CASES)
def test_op(op, sample, device):
    try:
        check(op, sample, device)
    except cf.DeviceError as error:
        skip_host_op(error)


def fits(x: cf.Tensor) -> bool:
    """Whether integers of 32 bits hold it."""
    if x.dtype is not cf.int64 or not x.numel():
        return True
    return x.min().item() >= -(2**31) and x.max().item() < 2**31


def skip_host_op(error: cf.DeviceError) -> None:
    """Skip what needs an op that is one of the host's, as the table in the docs says."""
    name, _, text = str(error).partition(": ")
    found = REGISTRY.find(name)
    if "it runs on the host only" not in text or found is None:
        raise error
    # A composite is named where a part of it is one.
    assert found.is_opaque or found.dynamic or found.is_composite, f"{name} has a kernel"
    pytest.skip(str(error))
