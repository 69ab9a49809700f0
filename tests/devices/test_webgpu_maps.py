"""Large maps on the webgpu device: several points per thread, of any sizes and strides."""

from __future__ import annotations

import numpy as np
import pytest

import contraflow as cf
from contraflow.render.clike import wgsl
from contraflow.runtime import eager_programs


@pytest.fixture
def all_wide(webgpu, monkeypatch):
    """Every map is taken for a large one."""
    monkeypatch.setattr(wgsl, "WIDE_MAP_GROUPS", 0)
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
