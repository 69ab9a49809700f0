"""Blocks of products as large as suit the caches of the machine: the same bits for all sizes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.helpers import native
from tests.helpers.loops import guarded, sample
from tests.helpers.native import WIDTHS, run_native
from tests.render.test_llvm_contractions import dense

from contraflow.compiler.kernel import Contraction, KernelCall
from contraflow.devices.cpu import caches
from contraflow.dtypes import bfloat16, float32, float64
from contraflow.render.llvm.identity import STANDARD_SIZES, text_identity
from contraflow.render.llvm.kernels import render

KIB = 1 << 10
SECOND_LEVELS = (256 * KIB, 512 * KIB, 1024 * KIB, 1280 * KIB, 2048 * KIB, 1 << 26)


def listed(folder: Path, *found: tuple[str, str, str]) -> Path:
    """A folder like the system's, with the level, type and size of each cache."""
    for number, texts in enumerate(found):
        index = folder / f"index{number}"
        index.mkdir()
        for name, text in zip(("level", "type", "size"), texts):
            (index / name).write_text(f"{text}\n")
    return folder


def test_the_second_level_cache_is_read(tmp_path: Path) -> None:
    first = ("1", "Data", "48K")
    found = listed(tmp_path, first, ("1", "Instruction", "32K"), ("2", "Unified", "2048K"))
    assert caches.second_level(found) == 2048 * KIB


@pytest.mark.parametrize("cache", [("3", "Unified", "32M"), ("2", "Unified", "large"), ("2",)])
def test_without_one_the_sizes_are_the_standard_ones(tmp_path: Path, cache: tuple[str]) -> None:
    found = caches.second_level(listed(tmp_path, cache))
    assert found is None
    assert caches.sizes_for(found) == STANDARD_SIZES
    assert caches.second_level(tmp_path / "nothing") is None


def test_sizes_follow_the_cache() -> None:
    found = [caches.sizes_for(second) for second in SECOND_LEVELS]
    assert found == sorted(found)
    assert found[2] == found[3] == STANDARD_SIZES
    assert found[4] == found[5]  # strips are on the stack of a thread
    kernel = Contraction(float32, float32)
    identities = {text_identity(kernel, vector_bytes=32, sizes=sizes) for sizes in found}
    texts = {render(kernel, vector_bytes=32, sizes=sizes) for sizes in found}
    assert len(identities) == len(texts) == 4


@pytest.mark.parametrize("dtype", [float32, float64, bfloat16], ids=str)
def test_bits_do_not_depend_on_the_caches(monkeypatch: pytest.MonkeyPatch, dtype: object) -> None:
    accumulate = float64 if dtype is float64 else float32
    sizes = (1, 1, 150, 200, 530)
    for transposed in ((False, False, False), (True, False, True)):
        call = KernelCall(Contraction(dtype, accumulate), sizes, dense(sizes, transposed))
        given = [sample(dtype, 150 * 530), sample(dtype, 530 * 200, 1)]
        for width in WIDTHS:
            results = set()
            for second in SECOND_LEVELS:
                monkeypatch.setattr(native, "SIZES", caches.sizes_for(second))
                out = guarded(dtype, 150 * 200)
                run_native(call, [*((a, 0) for a in given), out], width=width, edges=(0, 1, 3))
                results.add(np.ascontiguousarray(out[0]).tobytes())
            assert len(results) == 1
