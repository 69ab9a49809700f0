"""Scans as generated code: each in its own order, whatever the layout and the number of shares."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.helpers.sequence_kernels import kernel_uses, run_op, strided, values

import contraflow as cf
from contraflow import config, dtypes
from contraflow.dtypes import DType

SHAPES = [(0,), (1,), (2, 0), (0, 3), (7,), (33,), (5, 9), (40, 3), (3, 40), (2, 3, 17), (17, 4, 2)]
INTEGER_OR_FLOAT = [dtype for dtype in dtypes.ALL if dtype is not cf.bool]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums_along_every_dim(shape: tuple[int, ...], reverse: bool) -> None:
    for dim in range(len(shape)):
        run_op("cumsum", (values(shape),), {"dim": dim, "reverse": reverse})
        run_op("cumsum", (strided(values(shape)),), {"dim": dim, "reverse": reverse})


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_every_dtype(dtype: DType) -> None:
    """Half precision is carried in float32; sums and products of integers in int64."""
    x = values((11, 6), dtype)
    for dim in (0, 1):
        run_op("cumsum", (x,), {"dim": dim, "reverse": dim == 0})
        run_op("cummax", (x,), {"dim": dim})
        run_op("cummin", (x,), {"dim": dim})
        with np.errstate(over="ignore"):
            run_op("cumprod", (x,), {"dim": dim})


def test_a_number_is_its_own_scan() -> None:
    x = np.array(-0.0, np.float32)
    for op in ("cumprod", "logcumsumexp", "cummax", "cummin"):
        run_op(op, (x,), {"dim": 0})
    run_op("cumsum", (x,), {"dim": 0, "reverse": True})


@pytest.mark.parametrize("op", ["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"])
@pytest.mark.parametrize("dtype", [cf.float32, cf.float64], ids=str)
def test_nan_infinities_and_ties(op: str, dtype: DType) -> None:
    special = [1.0, 1.0, -0.0, 0.0, 2.0, np.inf, np.nan, 3.0, np.nan, -np.inf, -np.inf, 5.0, 5.0]
    rolled = [np.roll(special, n) for n in range(len(special))]
    for x in (np.array(rolled, dtype.numpy), np.array(rolled, dtype.numpy).T):
        for dim in (0, 1):
            params = {"dim": dim, "reverse": False} if op == "cumsum" else {"dim": dim}
            run_op(op, (x,), params, ulps=4 if op == "logcumsumexp" else 0)


def test_the_sign_of_zero_is_kept() -> None:
    cumsum = cf.compile(lambda x: x.cumsum(0))
    assert np.signbit(cumsum(cf.tensor([-0.0, -0.0, 0.0, -0.0])).numpy()).tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize("reverse", [False, True])
def test_a_recurrence_does_not_read_its_first_factor(reverse: bool) -> None:
    a, b = values((6, 5)), values((6, 5), seed=4)
    for dim in (0, 1):
        np.moveaxis(a, dim, 0)[-1 if reverse else 0] = np.nan
        run_op("recurrence", (a, b), {"dim": dim, "reverse": reverse})
        run_op("recurrence", (strided(a), b), {"dim": dim, "reverse": reverse})


def test_a_number_for_every_element() -> None:
    """A fill is an argument of the kernel."""
    x = cf.compile(lambda n: cf.full((3, 4), 2.0).cumsum(1) + n)(cf.tensor(1.0))
    assert x.tolist() == [[3.0, 5.0, 7.0, 9.0]] * 3


def test_a_kernel_serves_every_size() -> None:
    kernels = set()
    for shape in ((7, 40), (100, 64), (2, 9)):
        uses = kernel_uses("cumsum", (values(shape),), {"dim": 1, "reverse": False})[0]
        kernels |= {use.call.kernel for use in uses}
    assert len(kernels) == 1


@pytest.mark.parametrize("op", ["cumsum", "cumprod", "logcumsumexp"])
def test_gradients_leave_no_host_step(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile_mode", "native")
    x = cf.tensor(values((6, 7)) / 1e3, requires_grad=True)

    def step(x: Any) -> Any:
        (g,) = cf.autograd.grad((getattr(cf, op)(x, 1) ** 2).sum(), [x])
        return g

    compiled = cf.compile(step)
    np.testing.assert_allclose(compiled(x).numpy(), step(x).numpy(), rtol=1e-4)
    assert "host" not in str(compiled.explain())


def test_large_eager_calls_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    x = values((130, 300))
    for kernels in (True, False):
        monkeypatch.setattr(config, "eager_kernels", kernels)
        for dim in (0, 1):
            got = cf.tensor(x).cumsum(dim).numpy()
            carried = np.cumsum(x, dim, np.float64)
            np.testing.assert_array_equal(got, carried.astype(np.float32))
