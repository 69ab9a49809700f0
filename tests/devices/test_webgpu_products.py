"""Products on the webgpu device: tiles of every size, whatever the sizes and strides are."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import contraflow as cf
from contraflow.compiler.kernel import KernelCall, contraction
from contraflow.dtypes import float32, int32
from contraflow.render.clike import source, wgsl, wide
from contraflow.runtime import eager_programs

SIZES = [(130, 40, 257), (128, 16, 128), (5, 3, 7), (300, 1500, 140), (64, 2100, 33), (3, 0, 4)]


@pytest.fixture(params=wide.TILINGS, ids=lambda tiling: str(tiling.tile))
def tiling(request, monkeypatch):
    """Every product has tiles of one size."""
    monkeypatch.setattr(wide, "TILINGS", (request.param,))
    eager_programs.forget()
    yield request.param
    eager_programs.forget()


@pytest.mark.parametrize(("m", "k", "n"), SIZES)
def test_products_of_any_size_and_layout(m, k, n, tiling, webgpu):
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


def test_what_lies_beyond_the_ends_is_not_multiplied(tiling, webgpu):
    """A wrong element beyond an end is read from the first one, which may be infinite."""
    a, b = cf.ones(5, 3), cf.ones(3, 7)
    a[0, 0] = float("inf")
    found = (a.to("webgpu") @ b.to("webgpu")).numpy(force=True)
    np.testing.assert_array_equal(found, (a @ b).numpy())


def test_every_tiling_uses_all_threads_and_no_more_memory_than_is_guaranteed():
    for tiling in wide.TILINGS:
        assert tiling.spread**2 * tiling.slices == source.THREADS
        assert tiling.depth // tiling.slices % wide.STEPS == 0
        assert "vec4<f32>" in wgsl.render(contraction(float32, float32), wgsl.WgslVariant(tiling))


def product(m, n, k=64, batch=1):
    strides = ((0, 0, 1, 1),) * 3
    return KernelCall(contraction(float32, float32), (1, batch, m, n, k), strides)


@pytest.mark.parametrize(
    ("sizes", "tile", "groups"),
    [
        ((4096, 4096), 128, 1024),
        ((1024, 1024), 64, 256),
        ((512, 512), 32, 256),
        ((64, 512), 16, 128),
        ((64, 10), 16, 4),
        ((3, 5, 64, 1000), 16, 1000),
        ((130, 257, 64, 30), 64, 450),
    ],
)
def test_products_of_few_tiles_have_small_ones(sizes, tile, groups):
    call = product(*sizes)
    chosen = wgsl.variant_of(call).tiling
    assert chosen is not None
    assert chosen.tile == tile
    assert wgsl.launch(call) == (groups, 1, 1)


def test_products_of_integers_have_the_ordinary_body():
    call = product(300, 300)._replace(kernel=contraction(int32, int32))
    assert wgsl.variant_of(call) == wgsl.PLAIN
