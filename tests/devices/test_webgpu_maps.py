"""Maps, rows and columns on the webgpu device: several points per thread, shared columns."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import gpu_kernels  # noqa: F401 (it declares cases)
from tests.helpers.gpu_case import CASES

import contraflow as cf
from contraflow.compiler.kernel import KernelCall
from contraflow.render.clike import wgsl
from contraflow.runtime import eager_programs


@pytest.fixture
def all_wide(webgpu, monkeypatch):
    """Every map is taken for a large one, and rows for many."""
    monkeypatch.setattr(wgsl, "WIDE_MAP_GROUPS", 0)
    monkeypatch.setattr(wgsl, "ROW_GROUPS", 0)
    eager_programs.forget()
    yield
    eager_programs.forget()


@pytest.mark.parametrize("n", [1, 5, 255, 257, 768, 1023, 1024, 1025, 5000])
def test_maps_of_any_size(n, all_wide):
    rng = np.random.default_rng(n)
    a, b = (rng.standard_normal(n).astype(np.float32) for _ in range(2))
    x, y = cf.tensor(a, device="webgpu"), cf.tensor(b, device="webgpu")
    np.testing.assert_allclose((x * y + 1.5).numpy(force=True), a * b + np.float32(1.5), rtol=1e-5)
    np.testing.assert_array_equal((x > y).numpy(force=True), a > b)
    x += y
    np.testing.assert_array_equal(x.numpy(force=True), a + b)


@pytest.mark.parametrize("shape", [(3, 700), (70, 33), (5, 1, 411)])
def test_maps_of_views(shape, all_wide):
    a = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    x = cf.tensor(a, device="webgpu")
    turned, column = x.transpose(0, -1), x[..., :1]
    wanted = a.swapaxes(0, -1) * a[..., :1].swapaxes(0, -1) - 2
    found = turned * column.transpose(0, -1) - 2
    np.testing.assert_allclose(found.numpy(force=True), wanted, rtol=1e-5)
    cf.manual_seed(2)
    drawn = cf.rand(shape, device="webgpu")
    cf.manual_seed(2)
    np.testing.assert_array_equal(drawn.numpy(force=True), cf.rand(shape).numpy())


def test_a_large_map_is_one_as_it_is(webgpu):
    n = wgsl.WIDE_MAP_GROUPS * 1024 + 3
    a = np.random.default_rng(3).standard_normal(n).astype(np.float32)
    x = cf.tensor(a, device="webgpu")
    np.testing.assert_array_equal((x + x).numpy(force=True), a + a)


def sweeps(x: cf.Tensor) -> list[cf.Tensor]:
    """Rows and columns, of one pass and of several."""
    low, where = x.min(0)
    return [
        x.sum(0), x.sum(1), x.amax(0), x.argmax(0), low, where, (x > 9).any(0), (x < 9).all(0),
        x.softmax(0), x.softmax(1), x.var(0), x.logsumexp(0), x.t().contiguous().sum(1),
        (x * 3).to(cf.int64).sum(0), cf.nn.functional.layer_norm(x, x.shape[1:]), x.sum(),
    ]  # fmt: skip


@pytest.mark.parametrize("shape", [(16, 1), (17, 9), (40, 8), (300, 21), (1100, 3), (9000, 2)])
def test_columns_that_threads_share(shape, webgpu):
    a = np.random.default_rng(shape[0]).standard_normal(shape).astype(np.float32)
    for found, wanted in zip(sweeps(cf.tensor(a, device="webgpu")), sweeps(cf.tensor(a))):
        np.testing.assert_allclose(found.numpy(force=True), wanted.numpy(), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("columns", [1, 3, 1023, 1024, 1027, 2600])
def test_rows_of_several_points_per_thread(columns, webgpu):
    a = np.random.default_rng(columns).standard_normal((3, columns)).astype(np.float32)
    for found, wanted in zip(sweeps(cf.tensor(a, device="webgpu")), sweeps(cf.tensor(a))):
        np.testing.assert_allclose(found.numpy(force=True), wanted.numpy(), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("shape", [(1, 7), (9, 40), (16, 128), (21, 500), (5, 1024), (3, 1030)])
def test_several_rows_at_a_time(shape, all_wide):
    a = np.random.default_rng(shape[1]).standard_normal(shape).astype(np.float32)
    rows, there = (
        [x.sum(1), x.softmax(1), x.argmax(1), *x.min(1), (x > 2).any(1), x.to(cf.int64).sum(1),
         x.var(1), cf.nn.functional.layer_norm(x, x.shape[1:]), x.gather(1, x.argsort(1)).sum(1)]
        for x in (cf.tensor(a), cf.tensor(a, device="webgpu"))
    )  # fmt: skip
    for wanted, found in zip(rows, there):
        np.testing.assert_allclose(found.numpy(force=True), wanted.numpy(), rtol=2e-5, atol=2e-5)


def call_of(kernel, sizes):
    return KernelCall(kernel, sizes, tuple(() for _ in kernel.operands))


def test_which_sweeps_are_shared():
    row, column = (CASES[name]().call.kernel for name in ("softmax", "column_sum"))
    assert wgsl.variant_of(call_of(row, (5, 1023))) == wgsl.PLAIN
    assert wgsl.variant_of(call_of(row, (5, 1024))) == wgsl.WgslVariant(wide=True)
    for rows, length, together in (
        (8192, 1024, 4),
        (2048, 1024, 2),
        (65536, 64, 16),
        (9000, 4096, 0),
    ):
        assert wgsl.variant_of(call_of(row, (rows, length))).rows == together
    assert wgsl.launch(call_of(row, (8193, 1024))) == (2049, 1, 1)
    assert wgsl.variant_of(call_of(column, (5, 1, 15))) == wgsl.PLAIN
    assert wgsl.variant_of(call_of(column, (5, 1, 16))) == wgsl.WgslVariant(columns=8)
    assert wgsl.variant_of(call_of(column, (5, 1, 128))) == wgsl.WgslVariant(columns=8, wide=True)
    assert wgsl.variant_of(call_of(column, (1 << 18, 1, 128))) == wgsl.PLAIN
    assert wgsl.launch(call_of(column, (17, 1, 128))) == (3, 1, 1)
