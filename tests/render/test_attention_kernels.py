"""Attention as machine code of the CPU: the same numbers as the interpreter's, whatever the cut."""

from __future__ import annotations

import itertools

import llvmlite.binding as llvm
import numpy as np
import pytest
from tests.helpers.gpu_attention import PARTS, SIZES, attention_case
from tests.helpers.native import WIDTHS, check, run_native

from contraflow.compiler.kernel import KernelCall, attention
from contraflow.devices.cpu import jit
from contraflow.dtypes import DType, bfloat16, float16, float32, float64
from contraflow.render.llvm.kernels import render

AWKWARD = SIZES | {
    "blocks": (2, 1, 96, 96, 16, 32),  # edges of blocks
    "behind": (1, 2, 97, 193, 17, 33),
    "before": (1, 2, 193, 97, 48, 48),
    "one query": (3, 1, 1, 200, 64, 64),
    "one key": (2, 2, 50, 1, 3, 2),
    "deep": (1, 1, 20, 30, 300, 5),  # more than one panel of k
    "few heads": (1, 2, 300, 300, 32, 32),  # cut into ranges of queries and keys
}
ULPS = {float32: 40.0, float64: 40.0, bfloat16: 4.0, float16: 4.0}


@pytest.mark.parametrize("name", AWKWARD)
@pytest.mark.parametrize(("part", "causal"), list(itertools.product(PARTS, (False, True))))
def test_attention(part: str, causal: bool, name: str) -> None:
    case = attention_case(part, causal, float32, AWKWARD[name])
    check(case.call, case.arrays, case.scalars, ulps=ULPS[float32])


@pytest.mark.parametrize("name", ["ragged", "wide", "few heads"])
@pytest.mark.parametrize("dtype", [float64, bfloat16, float16], ids=str)
@pytest.mark.parametrize("part", PARTS)
def test_other_dtypes(part: str, dtype: DType, name: str) -> None:
    case = attention_case(part, True, dtype, AWKWARD[name])
    check(case.call, case.arrays, case.scalars, ulps=ULPS[dtype])


def gradients(sizes: tuple[int, ...], parts: int, width: int) -> bytes:
    case = attention_case("all", True, float32, sizes)
    run_native(case.call, case.arrays, case.scalars, width=width, edges=range(parts + 1))
    return b"".join(array.tobytes() for array, _ in case.arrays[6:9] if array is not None)


# Heads are enough for some of these numbers of parts, and not for others; they are summed up where
# they belong with columns that fill vectors, in scratch memory otherwise.
@pytest.mark.parametrize("columns", [64, 20])
def test_bits_do_not_depend_on_parts_and_vectors(columns: int) -> None:
    sizes = (2, 2, 250, 220, columns, columns)
    found = {gradients(sizes, parts, w) for parts in (1, 2, 3, 4, 7, 13) for w in WIDTHS[1:]}
    assert len(found) == 1


def scattered(part: str) -> tuple[KernelCall, list]:
    """Operands with every stride larger than one, so that nothing lies side by side."""
    case = attention_case(part, True, float32, (1, 2, 70, 50, 20, 24))
    strides, arrays = [], []
    for (array, offset), steps in zip(case.arrays, case.call.strides):
        if array is not None:
            wider = np.full(2 * array.size, 99, array.dtype)
            wider[::2] = array
            array, offset, steps = wider, 2 * offset, tuple(2 * x for x in steps)
        arrays.append((array, offset))
        strides.append(steps)
    call = KernelCall(attention(float32, float32, part, True), case.call.sizes, tuple(strides))
    return call, arrays


@pytest.mark.parametrize("part", PARTS)
def test_any_strides(part: str) -> None:
    call, arrays = scattered(part)
    check(call, arrays, (0.3,), ulps=ULPS[float32])


@pytest.mark.parametrize("scale", [-0.7, 0.0])
def test_scales_that_are_not_positive(scale: float) -> None:
    case = attention_case("out", True, float32, SIZES["ragged"])
    check(case.call, case.arrays, (scale,), ulps=ULPS[float32])


def averages(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Averages of ones by a softmax of given scores, of keys with one element each; and the
    logarithms of the sums."""
    queries, keys = 1, scores.size
    arrays = [np.ones(1, np.float32), scores.astype(np.float32), np.ones(keys, np.float32)]
    arrays += [np.zeros(queries, np.float32), np.zeros(queries, np.float32)]
    unit = (0, 0, 1, 1)
    call = KernelCall(
        attention(float32, float32, "out", False), (1, 1, queries, keys, 1, 1),
        (unit, unit, unit, unit, (0, 0, 1), ()),
    )  # fmt: skip
    run_native(call, [*((a, 0) for a in arrays), (None, 0)], (1.0,))
    return arrays[3], arrays[4]


def test_large_scores_do_not_overflow() -> None:
    """The largest comes last, in another block than the first."""
    scores = np.linspace(-3e4, 3e4, 250)
    out, normalizer = averages(scores)
    np.testing.assert_allclose(out, 1, rtol=1e-6)
    np.testing.assert_allclose(normalizer, 3e4, rtol=1e-6)


def test_keys_that_weigh_nothing() -> None:
    """Scores of -inf, a whole block of them first; NaN only if there are no others, or one is."""
    scores = np.full(250, -np.inf)
    assert np.isnan(averages(scores)[0]).all()
    scores[200:] = 0
    np.testing.assert_allclose(averages(scores)[0], 1, rtol=1e-6)
    np.testing.assert_allclose(averages(scores)[1], np.log(50), rtol=1e-6)
    scores[5] = np.nan
    assert np.isnan(averages(scores)[0]).all()


@pytest.mark.parametrize("part", PARTS)
def test_the_text_suits_other_processors(part: str) -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("aarch64-unknown-linux-gnu").create_target_machine(opt=3)
    text = render(attention(float32, float32, part, True), vector_bytes=16)
    assert "fmla" in target.emit_assembly(jit._parsed(text, target))
