"""Every op on the webgpu device: values and both orders of gradient, eager and compiled.

`make test` tries the first sample of each op, compiled that of every fourth, `make test-all` all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.devices.test_walled_ops import (
    CASES,
    applied,
    differentiable,
    fits,
    gradients,
    skip_host_op,
)
from tests.helpers import op_table
from tests.helpers.registry_tapes import first_sample

import contraflow as cf
from contraflow.autograd import grad
from contraflow.operation.context import changed
from contraflow.operation.op import REGISTRY, Op
from contraflow.operation.samples import Sample
from contraflow.testing import assert_close, make_inputs

SAMPLES = [
    pytest.param(*case.values, id=case.id, marks=() if case.id.endswith("-0") else pytest.mark.slow)
    for case in CASES
]


@pytest.mark.parametrize(("op", "sample"), SAMPLES)
def test_op(op: Op, sample: Sample, webgpu: Any) -> None:
    inputs = make_inputs(sample, dtype=cf.float32)
    here = [cf.tensor(x) if isinstance(x, np.ndarray) else x for x in inputs]
    expected = applied(op, here, sample.params)
    met = [x.dtype.name for x in (*here, *expected) if isinstance(x, cf.Tensor)]
    if not webgpu.limits.lacks.isdisjoint(met):
        with pytest.raises(cf.DeviceError, match="is not a dtype of webgpu"):
            check(op, sample, here, expected)
        return
    if not all(map(fits, expected)):
        if op.name in ("full", "integers"):
            pytest.skip("the functions that apply it check numbers given: test_narrow_integers.py")
        with pytest.raises(OverflowError, match="does not fit the 32 bits that int64 has"):
            check(op, sample, here, expected)
        return
    try:
        check(op, sample, here, expected)
    except cf.DeviceError as error:
        skip_host_op(error)


def check(op: Op, sample: Sample, here: list[Any], expected: tuple[Any, ...]) -> None:
    """Value and gradients as on the cpu."""
    there = [x.to("webgpu") if isinstance(x, cf.Tensor) else x for x in here]
    with changed(device="webgpu"):
        found = applied(op, there, sample.params)
    for x, y in zip(found, expected, strict=True):
        assert str(x.device) == "webgpu"
        assert x.spec == y.spec
        assert_close(x.cpu(), y)
    wrt = differentiable(op, make_inputs(sample))
    if wrt and any(o.dtype.is_floating_point for o in expected):
        for one, other in zip(
            gradients(op, there, sample.params, wrt), gradients(op, here, sample.params, wrt)
        ):
            for x, y in zip(one, other, strict=True):
                assert (x is None) == (y is None)
                if x is not None:
                    assert str(x.device) == "webgpu"
                    assert_close(x.cpu(), y, 1e-3, 1e-5)


def test_what_the_table_of_ops_calls_refused(webgpu: Any) -> None:
    public = [op for op in REGISTRY.values() if not op.internal]
    refused = [op for op in public if op_table.cell(op, "webgpu").startswith("refused")]
    assert len(refused) > 20
    for op in refused:
        sample = first_sample(op)
        assert sample is not None
        inputs = make_inputs(sample, dtype=cf.float32)
        there = [cf.tensor(x).to("webgpu") if isinstance(x, np.ndarray) else x for x in inputs]
        refusals = "it runs on the host only|is not a dtype of webgpu"
        with changed(device="webgpu"), pytest.raises(cf.DeviceError, match=refusals):
            applied(op, there, sample.params)


COMPILED = [
    pytest.param(
        *case.values, id=case.id,
        marks=() if case.id.endswith("-0") and i % 4 == 0 else pytest.mark.slow,
    )
    for i, case in enumerate(CASES)
]  # fmt: skip


@pytest.mark.parametrize(("op", "sample"), COMPILED)
def test_op_compiled(op: Op, sample: Sample, webgpu: Any) -> None:
    inputs = make_inputs(sample, dtype=cf.float32)
    here = [cf.tensor(x) if isinstance(x, np.ndarray) else x for x in inputs]
    wrt = differentiable(op, make_inputs(sample))

    def step(*tensors: cf.Tensor) -> tuple[Any, Any]:
        left = iter(tensors)
        given = [next(left) if isinstance(x, cf.Tensor) else x for x in here]
        outs = applied(op, given, sample.params)
        points = [given[i] for i in wrt]
        floats = [o for o in outs if o.dtype.is_floating_point and o.requires_grad]
        weights = [cf.full_like(o, 0.5) for o in floats]
        found = grad(floats, points, weights, allow_unused=True) if floats else ()
        return tuple(o.detach() for o in outs), tuple(g for g in found if g is not None)

    def run(place: str) -> tuple[Any, Any]:
        moved = [x.to(place).detach() if isinstance(x, cf.Tensor) else x for x in here]
        for i in wrt:
            moved[i].requires_grad_()
        compiled = cf.compile(step)
        tensors = [x for x in moved if isinstance(x, cf.Tensor)]
        compiled(*tensors)
        return compiled(*tensors)  # replayed

    if not any(isinstance(x, cf.Tensor) for x in here):
        pytest.skip("without tensors nothing says that it is about this device")
    try:
        expected = run("cpu")
    except cf.CaptureError as error:
        pytest.skip(f"not on the cpu either: {error}")
    met = [x.dtype.name for x in (*here, *expected[0]) if isinstance(x, cf.Tensor)]
    if not webgpu.limits.lacks.isdisjoint(met):
        with pytest.raises(cf.DeviceError, match="is not a dtype of webgpu"):
            run("webgpu")
        return
    if not all(map(fits, expected[0])):
        if op.name in ("full", "integers"):
            pytest.skip("the functions that apply it check numbers given: test_narrow_integers.py")
        with pytest.raises(OverflowError, match="does not fit the 32 bits that int64 has"):
            list(map(cf.Tensor.cpu, run("webgpu")[0]))
        return
    try:
        found = run("webgpu")
    except cf.DeviceError as error:
        skip_host_op(error)
    for one, other in zip(found, expected):
        for x, y in zip(one, other, strict=True):
            assert str(x.device) == "webgpu"
            assert_close(x.cpu(), y, 1e-4, 1e-5)
