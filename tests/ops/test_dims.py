"""A dim that there is not: every op refuses it, of tensors without dims or elements too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.helpers.engine_common import refused
from tests.helpers.op_checks import call, to_tensor

import contraflow as cf
from contraflow.operation.op import REGISTRY, Op
from contraflow.testing import make_inputs

DIMS = (
    "dims",
    "dim",
    "dim0",
    "dim1",
    "dim2",
    "dimension",
    "start_dim",
    "end_dim",
    "source",
    "destination",
)
# `dims` of these are a number of dims, and sizes.
NO_DIMS = {("tensordot", "dims"), ("tile", "dims")}


def no_dims(array: np.ndarray) -> np.ndarray:
    return np.asarray(array.flat[0] if array.size else 0, array.dtype)


def no_elements(array: np.ndarray) -> np.ndarray:
    return array[..., :0] if array.ndim else array


def inputs_of(op: Op) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Inputs of samples as they are, without dims, and without elements: all, and the last one."""
    for sample in op.samples():
        plain = make_inputs(sample)
        yield plain, sample.params
        for change in (no_dims, no_elements):
            changed = [change(v) if isinstance(v, np.ndarray) else v for v in plain]
            yield tuple(changed), sample.params
            if len(plain) > 1:
                yield (*plain[:-1], changed[-1]), sample.params


def attempt(op: Op, inputs: tuple[Any, ...], params: Any) -> Exception | None:
    given = tuple(map(to_tensor, inputs))
    try:
        if op.variadic:
            op(given, params["dim"])
        else:
            # The public signature may lack some: cumsum's has no `reverse`.
            public = [taken.split("=")[0].strip("*") for taken in op.takes().split(", ")]
            call(op, given, {p: v for p, v in params.items() if p in public})
    except (IndexError, TypeError, ValueError) as error:
        return error
    return None


@pytest.mark.parametrize(
    ("name", "param"),
    [
        (name, param)
        for name, op in sorted(REGISTRY.items())
        for param in op.params
        if param in DIMS and not op.internal and (name, param) not in NO_DIMS
    ],
)
def test_a_dim_that_there_is_not(name: str, param: str) -> None:
    op, refusals = REGISTRY[name], 0
    for inputs, params in inputs_of(op):
        if param not in params or (name == "cat" and {v.shape for v in inputs} == {(0,)}):
            continue
        right = 0 if params[param] is None else params[param]
        for wrong in (7, -8):
            given = (*right[:-1], wrong) if isinstance(right, (tuple, list)) and right else wrong
            error = attempt(op, inputs, {**params, param: given})
            if not isinstance(error, IndexError):
                # Only such inputs may give another error as the right dim would not do for.
                assert error is not None, (inputs, params, wrong)
                assert attempt(op, inputs, {**params, param: right}) is not None, repr(error)
            refusals += isinstance(error, IndexError)
    assert refusals


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: cf.topk(cf.tensor(3.0), 1, 7), "topk"),
        (lambda: cf.median(cf.tensor(3.0), dim=7), "median"),
        (lambda: cf.nanmedian(cf.tensor(3.0), dim=7), "nanmedian"),
        (lambda: cf.quantile(cf.tensor(3.0), 0.5, 7), "quantile"),
        (lambda: cf.nanquantile(cf.tensor(3.0), 0.5, 7), "nanquantile"),
        (lambda: cf.flatten(cf.tensor(3.0), 7, 7), "flatten"),
        (lambda: cf.norm_except_dim(cf.tensor(3.0), 2, 7), "norm_except_dim"),
    ],
)
def test_a_dim_of_a_number(call: Callable[[], Any], name: str) -> None:
    text = f"{name}: dim 7 is out of range for a tensor with 0 dims; it must be in [-1, 0]."
    with refused(IndexError, text):
        call()


def test_a_wrong_dim_beside_an_empty_index() -> None:
    index = cf.zeros((2, 0), dtype=cf.int64)
    text = "gather: dim 7 is out of range for a tensor with 2 dims; it must be in [-2, 1]."
    with refused(IndexError, text):
        cf.gather(cf.zeros(2, 3), 7, index)
    assert cf.gather(cf.zeros(2, 3), -1, index).shape == (2, 0)
