"""Philox: the published answers, expressions equal to NumPy, and plain statistics."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from contraflow import thresholds
from contraflow.dtypes import DType, bool_, float32, float64, int64, uint32
from contraflow.expressions import elementary, philox
from contraflow.expressions import evaluate as arrays
from contraflow.expressions import expression as s
from contraflow.expressions.expression import Expr
from contraflow.expressions.philox import Stream

Array = np.ndarray[Any, np.dtype[Any]]

# (seed, offset): both halves of each in use, and a counter whose low word overflows in the draw.
STATES = [(0, 0), (1234567890123456789, 77), (-5, (7 << 32) - 3), ((1 << 63) - 1, (1 << 62) + 1)]

# Random123's kat_vectors: counter, key, output.
KNOWN_ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000",
     "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff",
     "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0",
     "d16cfe09 94fdcceb 5001e420 24126ea1"),
]  # fmt: skip


def evaluate(root: Expr, *inputs: Any) -> Array:
    """An expression, with its decompositions as kernels have them, at `inputs`."""
    [expanded] = elementary.expand([root])

    def value(leaf: Expr, _: list[Any]) -> Array:
        return np.asarray(inputs[leaf.data], leaf.dtype.numpy)

    with np.errstate(all="ignore"):
        [result] = arrays.evaluate([expanded], value)
    return np.asarray(result)


def draw(
    build: Callable[[Stream, Expr], Expr], seed: int, offset: int, n: int, index: DType = int64
) -> Array:
    """The first n elements of an expression over a stream and an index of the given dtype."""
    at = philox.stream(s.leaf("input", int64, 0), s.leaf("input", int64, 1))
    return evaluate(build(at, s.leaf("input", index, 2)), seed, offset, np.arange(n))


@pytest.mark.parametrize(("counter", "key", "output"), KNOWN_ANSWERS)
def test_known_answers(counter: str, key: str, output: str) -> None:
    words = [np.array([int(w, 16)], np.uint64) for w in counter.split()]
    seed = [int(w, 16) for w in key.split()]
    expected = [int(w, 16) for w in output.split()]
    np.testing.assert_array_equal(philox.blocks(seed, words), [expected])


@pytest.mark.parametrize(("seed", "offset"), STATES)
@pytest.mark.parametrize("index", [int64, uint32], ids=str)
def test_words_of_expressions_and_numpy_are_equal(seed: int, offset: int, index: DType) -> None:
    result = draw(lambda at, i: philox.word_from_halves(*at, i), seed, offset, 1003, index)
    assert result.dtype == np.uint32
    np.testing.assert_array_equal(result, philox.words(seed, offset, 1003))


def test_word_takes_seed_offset_and_index_as_they_are() -> None:
    seed, offset, index = (s.leaf("input", int64, k) for k in range(3))
    result = evaluate(philox.word(seed, offset, index), -9, 5, np.arange(9))
    np.testing.assert_array_equal(result, philox.words(-9, 5, 9))


def test_an_index_beyond_32_bits_reaches_the_high_word_of_the_counter() -> None:
    seed, offset, index = (s.leaf("input", int64, k) for k in range(3))
    result = evaluate(philox.word(seed, offset, index), 3, 11, 5 * (1 << 34) + np.arange(8))
    np.testing.assert_array_equal(result, philox.words(3, 11 + (5 << 32), 8))


def test_the_rounds_need_no_64_bit_integers() -> None:
    at = Stream(*(s.leaf("input", uint32, k) for k in range(4)))
    index = s.leaf("input", uint32, 4)
    threshold = (s.leaf("input", uint32, 5), s.leaf("input", uint32, 6))
    roots = [
        philox.uniform(at, index),
        philox.normal(at, index),
        philox.keep(at, index, *threshold),
    ]
    found = {e.dtype for e in s.walk(elementary.expand(roots))}
    assert found == {uint32, float32, bool_}


def test_draws_continue_one_another() -> None:
    whole = philox.words(8, 100, 4 * thresholds.random_chunk + 40)
    np.testing.assert_array_equal(philox.words(8, 103, 5), whole[12:17])
    np.testing.assert_array_equal(philox.words(8, 100 + thresholds.random_chunk, 40), whole[-40:])
    assert philox.words(8, 100, 0).shape == (0,)


@pytest.mark.parametrize(("seed", "offset"), STATES)
@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
def test_uniforms_are_equal(seed: int, offset: int, dtype: DType) -> None:
    result = draw(lambda at, i: philox.uniform(at, i, dtype), seed, offset, 1003)
    expected = philox.uniforms(seed, offset, 1003, dtype)
    assert result.dtype == expected.dtype == dtype.numpy
    np.testing.assert_array_equal(result, expected)


def test_uniforms_stay_below_one() -> None:
    ones = s.const(0xFFFFFFFF, uint32)
    assert evaluate(philox.fraction(ones)) == 1 - 2.0**-24
    assert evaluate(philox.fraction(ones, ones)) == 1 - 2.0**-53


@pytest.mark.parametrize(("seed", "offset"), STATES)
@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
def test_normals_agree(seed: int, offset: int, dtype: DType) -> None:
    n = 20_001
    result = draw(lambda at, i: philox.normal(at, i, dtype), seed, offset, n)
    expected = philox.normals(seed, offset, n, dtype)
    assert result.dtype == expected.dtype == dtype.numpy
    np.testing.assert_array_max_ulp(result, expected, maxulp=4)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3, 4), (10, 1 << 31), (-5, (1 << 32) - 5)])
def test_integers_are_equal_and_in_range(low: int, high: int) -> None:
    span = s.const((high - low) & 0xFFFFFFFF, uint32)
    first = s.const(low, int64)
    result = draw(lambda at, i: philox.integer(at, i, first, span), 6, 7, 4001)
    assert result.min() >= low
    assert result.max() < high
    np.testing.assert_array_equal(result, philox.integers(6, 7, 4001, low, high))


@pytest.mark.parametrize("p", [0.0, 2.0**-33, 0.1, 0.5, 1 - 2.0**-40, 1.0])
def test_masks_are_equal(p: float) -> None:
    limit = philox.split(s.leaf("input", int64, 0))
    at = Stream(*(s.const(w, uint32) for w in (6, 0, 7, 0)))
    mask = philox.keep(at, s.leaf("input", int64, 1), *limit)
    result = evaluate(mask, philox.threshold(p), np.arange(40_000))
    np.testing.assert_array_equal(result, philox.keep_mask(6, 7, 40_000, p))
    assert abs(result.mean() - (1 - p)) < 5 * math.sqrt(p * (1 - p) / 40_000) + 1e-12


def test_errors_name_what_is_wrong() -> None:
    with pytest.raises(ValueError, match=r"^dropout: p is 1\.5; a probability lies between 0 and"):
        philox.threshold(1.5)
    with pytest.raises(
        ValueError, match=r"^integers: \[3, 3\) holds 0 integers; it must hold 1 to"
    ):
        philox.integers(0, 0, 1, 3, 3)


@pytest.mark.parametrize("shift", [0, 8, 16, 24])
def test_bytes_are_evenly_distributed(shift: int) -> None:
    counts = np.bincount((philox.words(42, 0, 256_000) >> shift) & 255, minlength=256)
    chi_square = float(np.sum((counts - 1000.0) ** 2 / 1000.0))
    # 255 degrees of freedom: mean 255, standard deviation 22.6.
    assert 165 < chi_square < 345


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
def test_moments(dtype: DType) -> None:
    n = 400_000
    uniform = philox.uniforms(1, 0, n, dtype).astype(np.float64)
    normal = philox.normals(2, 0, n, dtype).astype(np.float64)
    assert abs(uniform.mean() - 0.5) < 5 * math.sqrt(1 / 12 / n)
    assert abs(uniform.var() - 1 / 12) < 5 * math.sqrt(1 / 180 / n)
    assert abs(normal.mean()) < 5 * math.sqrt(1 / n)
    assert abs(normal.var() - 1) < 5 * math.sqrt(2 / n)
    assert abs((normal**4).mean() - 3) < 5 * math.sqrt(96 / n)
    # The two of a pair share their radius and must still be independent.
    assert abs((normal[::2] * normal[1::2]).mean()) < 5 * math.sqrt(2 / n)
    assert abs((normal[::2] ** 2 * normal[1::2] ** 2).mean() - 1) < 5 * math.sqrt(16 / n)


@pytest.mark.parametrize("n", [1, 4, 5, 63, 4 * philox.GROUP, thresholds.few_random_words])
@pytest.mark.parametrize("offset", [0, 5, philox.GROUP - 1, (1 << 32) - 2, (1 << 64) - 3])
def test_few_words_are_those_of_arrays(n: int, offset: int, monkeypatch) -> None:
    """They are computed in integers, side by side; the counter wraps in both."""
    few = philox.words(-(1 << 40) + 7, offset, n)
    monkeypatch.setattr(thresholds, "few_random_words", 0)
    np.testing.assert_array_equal(few, philox.words(-(1 << 40) + 7, offset, n))
    assert few.dtype == np.uint32
    monkeypatch.undo()
    few[:] = 0  # which others do not see
    assert philox.words(-(1 << 40) + 7, offset, n).any()
