"""Large products on the webgpu device: tiles of 128 x 128, whatever the sizes and strides are."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import contraflow as cf
from contraflow.compiler.kernel import KernelCall, contraction
from contraflow.dtypes import float32, int32
from contraflow.render.clike import wgsl
from contraflow.runtime import eager_programs

SIZES = [(130, 40, 257), (128, 16, 128), (5, 3, 7), (300, 1500, 140), (64, 2100, 33), (3, 0, 4)]


@pytest.fixture(autouse=True)
def all_wide(monkeypatch):
    """Every product is taken for a large one."""
    monkeypatch.setattr(wgsl, "WIDE_GROUPS", 0)
    eager_programs.forget()
    yield
    eager_programs.forget()


@pytest.mark.parametrize(("m", "k", "n"), SIZES)
def test_products_of_any_size_and_layout(m, k, n, webgpu):
    rng = np.random.default_rng(m)
    for batch, turned_a, turned_b in itertools.product((1, 3), (False, True), (False, True)):
        a = rng.standard_normal((batch, k, m) if turned_a else (batch, m, k)).astype(np.float32)
        b = rng.standard_normal((batch, n, k) if turned_b else (batch, k, n)).astype(np.float32)
        x, y = cf.tensor(a, device="webgpu"), cf.tensor(b, device="webgpu")
        if turned_a:
            x, a = x.transpose(1, 2), a.transpose(0, 2, 1)
        if turned_b:
            y, b = y.transpose(1, 2), b.transpose(0, 2, 1)
        wanted = a.astype(np.float64) @ b.astype(np.float64)
        found = (x @ y).numpy(force=True)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5 * max(k, 1) ** 0.5)


def test_their_text_is_another(webgpu):
    kernel = contraction(float32, float32)
    call = KernelCall(kernel, (1, 1, 300, 300, 20), ((0, 0, 20, 1), (0, 0, 300, 1), (0, 0, 300, 1)))
    assert wgsl.is_wide(call)
    assert wgsl.launch(call) == (9, 1, 1)
    assert "vec4<f32>" in wgsl.render(kernel, True)
    assert "vec4<f32>" not in wgsl.render(kernel)
    assert not wgsl.is_wide(call._replace(kernel=contraction(int32, int32)))


def test_products_of_few_tiles_have_small_ones(monkeypatch):
    monkeypatch.undo()
    strides = ((0, 0, 1, 1),) * 3
    few = KernelCall(contraction(float32, float32), (1, 1, 512, 512, 64), strides)
    assert not wgsl.is_wide(few)
    assert wgsl.is_wide(few._replace(sizes=(1, 1, 4096, 4096, 64)))
