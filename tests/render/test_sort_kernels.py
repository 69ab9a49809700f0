"""Sorts as generated code: stable, NaN largest, at sizes on both sides of the two ways."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.helpers.sequence_kernels import kernel_uses, run_op, strided, values

import contraflow as cf
from contraflow import config, dtypes
from contraflow.compiler.kernel import Sort
from contraflow.dtypes import DType
from contraflow.render.llvm.sort import FEW, SHORT

SHAPES = [
    (0,), (1,), (2, 0), (0, 3), (7,), (5, 9), (33, 4), (2, 3, 17), (SHORT,), (SHORT + 1,), (3, 300),
    (300, 3), (2, 1000),
]  # fmt: skip


def params(dim: int, descending: bool = False) -> dict[str, Any]:
    return {"dim": dim, "descending": descending, "stable": True}


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_along_every_dim(shape: tuple[int, ...], descending: bool) -> None:
    for dim in range(len(shape)):
        run_op("argsort", (values(shape),), params(dim, descending))
        run_op("argsort", (strided(values(shape)),), params(dim, descending))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_every_dtype_with_ties(dtype: DType, descending: bool) -> None:
    """Few values among many elements, and the ends of the range."""
    x = values((3, 400), dtype)
    x[:, 200:] = x[:, :200]
    if dtype.is_floating_point:
        x[0] = np.round(x[0].astype(np.float32)).astype(dtype.numpy)
    elif dtype is not cf.bool:
        info = np.iinfo(dtype.numpy)
        x[1, :4] = info.min, info.max, info.min, info.max
    for n in (400, 50):
        run_op("argsort", (x[:, :n].copy(),), params(1, descending))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", [cf.float32, cf.float64, cf.float16, cf.bfloat16], ids=str)
def test_nan_infinities_and_zeros(dtype: DType, descending: bool) -> None:
    special = [0.0, -0.0, np.nan, 1.0, np.inf, -np.inf, -np.nan, -1.0, 0.0, -0.0, 1e-7, -1e-7]
    for repeats in (1, 20):
        x = np.array(special * repeats).astype(dtype.numpy)
        run_op("argsort", (x,), params(0, descending))


def test_a_number_is_sorted() -> None:
    run_op("argsort", (np.array(3.0, np.float32),), params(0))


def test_keys_that_differ_in_every_byte() -> None:
    bits = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, 700)
    run_op("argsort", (bits,), params(0))
    run_op("argsort", ((bits >> 32).astype(np.int32),), params(0))
    run_op("argsort", (bits % 200 * 2**40,), params(0))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("count", [0, 1, 5, FEW, FEW + 1])
def test_the_first_positions(count: int, descending: bool) -> None:
    """By ranks, by picking, and by sorting all: with ties, NaN, and rows in order already."""
    x = np.round(values((4, 300)))
    x[0, ::9], x[1], x[2] = np.nan, np.arange(300), np.arange(300)[::-1]
    for n in (50, 300):
        for given in (x[:, :n].copy(), x[:, :n].astype(np.float64), strided(x[:, :n].copy())):
            for y, dim in ((given, 1), (given.T, 0)):
                how = {"dim": dim, "count": count, "descending": descending}
                run_op("leading", (y,), how)


def test_shares_beyond_the_scratch_get_nothing() -> None:
    """Three rows have three areas, however many shares there are; run_op tries seven."""
    uses, tape, _ = kernel_uses("argsort", (values((3, 200)),), params(1))
    (use,) = uses
    (scratch,) = use.writes - set(tape.outputs)
    assert tape.specs[scratch].shape == (3 * 2 * 200,)
    run_op("argsort", (values((3, 200)),), params(1))


def test_a_kernel_serves_every_size() -> None:
    kernels = set()
    for shape in ((7, 40), (100, 640), (2, 9)):
        uses = kernel_uses("argsort", (values(shape),), params(1))[0]
        kernels |= {use.call.kernel for use in uses}
    assert len(kernels) == 1
    assert isinstance(kernels.pop(), Sort)


def test_a_program_sorts_without_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile_mode", "native")
    x = cf.tensor(values((20, 300)))

    @cf.compile
    def best(x: Any) -> Any:
        return (*cf.topk(x, 5), *cf.sort(x, 0, descending=True), x.median(1)[0])

    for got, want in zip(best(x), best.__wrapped__(x)):
        np.testing.assert_array_equal(got.numpy(), want.numpy())
    assert "host" not in str(best.explain())


def test_large_eager_calls_sort_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.round(values((40, 500)))
    for kernels in (True, False):
        monkeypatch.setattr(config, "eager_kernels", kernels)
        for dim in (0, 1):
            got = cf.tensor(x).argsort(dim).numpy()
            np.testing.assert_array_equal(got, np.argsort(x, dim, kind="stable"))
