"""Contractions in tiles (AMX): as machine code where there are tiles, in software elsewhere."""

from __future__ import annotations

import itertools
import math

import ml_dtypes
import numpy as np
import pytest
from tests.helpers import native, software_tiles
from tests.helpers.software_tiles import Tiles, in_software
from tests.render.test_llvm_contractions import check_contraction, dense

from contraflow.compiler.kernel import Contraction
from contraflow.devices.cpu import tiles
from contraflow.dtypes import bfloat16, float32
from contraflow.render.llvm import identity, kernels

pytestmark = pytest.mark.skipif(not native.HAS_AVX512, reason="AVX-512 packs tiles")


@pytest.fixture(params=["processor", "software"])
def check_tiles(request, monkeypatch):
    """`check_contraction` with tiles of the processor, or of software."""
    if request.param == "processor" and not tiles.permitted():
        pytest.skip("this machine has no tiles of bfloat16 (AMX), or does not permit them")
    state = Tiles()
    if request.param == "software":
        monkeypatch.setattr(software_tiles, "STATE", state)
        monkeypatch.setattr(
            native, "render", lambda *args, **how: in_software(kernels.render(*args, **how))
        )

    def check(sizes, strides, arrays=None) -> None:
        check_contraction(
            bfloat16, float32, sizes, strides, arrays, widths=(64,), factors="tiles"
        )  # fmt: skip

    yield check
    if request.param == "software":
        assert state.configurations
        assert not state.problems
        assert not state.configured


@pytest.mark.parametrize("transposed", list(itertools.product((False, True), repeat=3)))
def test_every_layout(check_tiles, transposed):
    for sizes in ((1, 1, 13, 37, 29), (3, 2, 50, 5, 9), (1, 1, 33, 65, 67)):
        check_tiles(sizes, dense(sizes, transposed))


@pytest.mark.parametrize(
    "sizes",
    [(0, 2, 2, 3, 4), (1, 1, 0, 3, 4), (1, 1, 2, 0, 4), (2, 3, 2, 3, 0), (1, 1, 1, 1, 1),
     (1, 1, 48, 16, 32), (1, 1, 5, 15, 513), (1, 1, 17, 33, 31)],
)  # fmt: skip
def test_awkward_sizes(check_tiles, sizes):
    check_tiles(sizes, dense(sizes))


@pytest.mark.parametrize("kept", [32, 8, 1], ids=str)
def test_several_strips_of_rows_meet_panels_that_are_kept_or_not(check_tiles, monkeypatch, kept):
    """All of a chunk, those of a narrower one, or none."""
    monkeypatch.setattr(native, "SIZES", identity.STANDARD_SIZES._replace(high_strip=1 << 17))
    monkeypatch.setattr("contraflow.render.llvm.tiles.KEPT", kept)
    for sizes in ((1, 1, 101, 40, 1030), (1, 1, 70, 300, 3)):
        check_tiles(sizes, dense(sizes))


def test_other_strides(check_tiles):
    for strides in (
        ((0, 0, 80, 2), (0, 1720, 43, 2), (0, 500, 50, 2)),
        ((0, 150, 35, 1), (0, 0, 0, 1), (0, 210, 21, 1)),
    ):
        check_tiles((1, 3, 10, 21, 35), strides)


def test_nan_stays_in_its_row_and_column(check_tiles):
    a, b = (np.ones(shape, ml_dtypes.bfloat16) for shape in ((40, 45), (45, 40)))
    a[2, 44], b[7, 33] = math.nan, math.inf
    check_tiles((1, 1, 40, 40, 45), dense((1, 1, 40, 40, 45)), [a.ravel(), b.ravel()])


def test_machine_code_in_tiles_is_kept_apart():
    kernel = Contraction(bfloat16, float32)
    for describe in (identity.entry_name, identity.text_identity, kernels.render):
        assert len({describe(kernel, vector_bytes=64, factors=f) for f in kernels.FACTORS}) == 3
