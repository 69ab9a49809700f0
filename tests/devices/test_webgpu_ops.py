"""Every op on the webgpu device: values and both orders of gradient, eager and compiled.

`make test` tries the first sample of each op, `make test-all` all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.devices.test_walled_ops import (
    CASES,
    applied,
    differentiable,
    gradients,
    skip_host_op,
)

import contraflow as cf
from contraflow.operation.context import changed
from contraflow.operation.op import Op
from contraflow.operation.samples import Sample
from contraflow.render.clike import wgsl
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
    if not wgsl.LIMITS.lacks.isdisjoint(met):
        with pytest.raises(cf.DeviceError, match="is not a dtype of webgpu"):
            check(op, sample, here, expected)
        return
    if any(x.dtype is cf.int64 and x.numel() and not fits(x) for x in expected):
        pytest.skip("int64 has 32 bits there, and results of this sample have more")
    try:
        check(op, sample, here, expected)
    except cf.DeviceError as error:
        skip_host_op(error)


def fits(x: cf.Tensor) -> bool:
    return x.min().item() >= -(2**31) and x.max().item() < 2**31


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
