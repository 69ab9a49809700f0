"""Every op on a GPU: value and gradients as on the cpu, eager and compiled. Skipped without one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.devices.test_walled_ops import CASES, applied, check, gradients, skip_host_op
from tests.helpers.cuda_device import opened_gpu
from tests.helpers.op_checks import differentiable

import contraflow as cf
from contraflow.operation.context import changed
from contraflow.operation.op import Op
from contraflow.operation.samples import Sample
from contraflow.testing import assert_close, make_inputs


@pytest.fixture(scope="module")
def device():
    with opened_gpu("walled") as found:
        yield found


def skip_free_signs(op: Op) -> None:
    if op.name in ("eigh", "svd"):
        pytest.skip("the signs of its vectors are free; test_cuda_matrices.py has it")


@pytest.mark.parametrize(("op", "sample"), CASES)
def test_op(op, sample, device):
    skip_free_signs(op)
    try:
        check(op, sample, device)
    except cf.DeviceError as error:
        skip_host_op(error)


@pytest.mark.parametrize(("op", "sample"), CASES)
def test_compiled_op(op, sample, device):
    if op.dynamic:
        pytest.skip("its shape depends on values, so it is not compiled")
    skip_free_signs(op)
    try:
        check_compiled(op, sample)
    except cf.DeviceError as error:
        skip_host_op(error)


def check_compiled(op: Op, sample: Sample) -> None:
    """Values and both orders of gradients by compiled functions, twice: the second is a replay."""
    inputs, params = make_inputs(sample), sample.params
    at = [i for i, x in enumerate(inputs) if isinstance(x, np.ndarray)]
    wrt = differentiable(op, inputs)

    def whole(tensors: Any) -> list[Any]:
        given = list(inputs)
        for i, x in zip(at, tensors):
            given[i] = x
        return given

    def values(*tensors: Any) -> Any:
        return applied(op, whole(tensors), params)

    def derivatives(*tensors: Any) -> Any:
        first, second = gradients(op, whole(tensors), params, wrt)
        return [*first], [*second]

    here = [cf.tensor(inputs[i]) for i in at]
    there = [cf.tensor(inputs[i], device="walled") for i in at]
    functions = [values]
    if wrt and any(o.dtype.is_floating_point for o in values(*here)):
        functions.append(derivatives)
    for function in functions:
        expected = function(*here)
        compiled = cf.compile(function)
        for _ in range(2):
            with changed(device="walled"):
                found = compiled(*there)
            compare(found, expected)


def compare(found: Any, expected: Any) -> None:
    if isinstance(expected, cf.Tensor):
        assert str(found.device) == "walled"
        assert_close(found.cpu(), expected)
    elif isinstance(expected, (list, tuple)):
        for x, y in zip(found, expected, strict=True):
            compare(x, y)
    else:
        assert found == expected or (found is None and expected is None)
