"""Philox 4x32-10, the counter-based generator behind every random op.

A draw is a pure function of (seed, offset): element i of a draw comes from block offset + i // 4,
word i % 4. Block c is the ten-round Philox permutation of the 128-bit counter (c, 0), least
significant word first, under the 64-bit key `seed`. (Salmon et al., "Parallel random numbers: as
easy as 1, 2, 3", SC 2011.)

Everything is here twice: as scalar expressions for kernels (singular names) and as NumPy functions
(plural names). Words, uniforms, integers and masks are bit-identical, normals agree to 4 ulp.

Expressions take a `Stream`, four uint32 words, and an index; nothing beyond `stream` itself needs
64-bit integers if the index is uint32, so backends without them pass the four words in.

Elements per block: four, but two of float64, whose elements are made of two words each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np

from contraflow import thresholds
from contraflow.dtypes import DType, float32, float64, int64, uint32
from contraflow.expressions import expression as s
from contraflow.expressions.expression import Expr, cast, const, eq, select
from contraflow.expressions.trigonometry import near_cos, near_sin

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)  # the golden ratio and sqrt(3) - 1, as 32-bit fractions
ROUNDS = 10
MASK = 0xFFFFFFFF
GROUP = 32  # blocks that are computed together, since the next draw is likely to be of them

Word = TypeVar("Word", Expr, np.ndarray)
Words = np.ndarray


def permute(
    counter: Sequence[Word],
    keys: Iterator[tuple[Any, Any]],
    multiply: Callable[[Word, int], tuple[Word, Word]],
) -> tuple[Word, Word, Word, Word]:
    """The rounds of Philox; `multiply` gives the high and the low word of a product."""
    a, b, c, d = counter
    for key_a, key_b in keys:
        high_a, low_a = multiply(a, MULTIPLIERS[0])
        high_c, low_c = multiply(c, MULTIPLIERS[1])
        a, b, c, d = high_c ^ b ^ key_a, low_c, high_a ^ d ^ key_b, low_a
    return a, b, c, d


# --- expressions -------------------------------------------------------------------------------


class Stream(NamedTuple):
    """The seed and the first counter of a draw, each as two uint32 words."""

    seed_low: Expr
    seed_high: Expr
    base_low: Expr
    base_high: Expr


def split(x: Expr) -> tuple[Expr, Expr]:
    """The low and the high word of an int64."""
    return cast(x, uint32), cast(x >> 32, uint32)


def stream(seed: Expr, offset: Expr) -> Stream:
    """The words of an int64 seed and offset."""
    return Stream(*split(seed), *split(offset))


def block(at: Stream, steps: Expr) -> tuple[Expr, Expr, Expr, Expr]:
    """The four words of the block `steps` (uint32 or int64, not negative) after the first."""
    zero = const(0, uint32)
    steps_low, steps_high = split(steps) if steps.dtype is int64 else (steps, zero)
    low = at.base_low + steps_low
    carry = cast(low < steps_low, uint32)
    counter = (low, at.base_high + steps_high + carry, zero, zero)
    keys = (
        (at.seed_low + (r * KEY_STEPS[0] & MASK), at.seed_high + (r * KEY_STEPS[1] & MASK))
        for r in range(ROUNDS)
    )
    return permute(counter, keys, lambda x, m: (s.mulhi(x, m), x * m))


def word_from_halves(
    seed_low: Expr, seed_high: Expr, base_low: Expr, base_high: Expr, index: Expr
) -> Expr:
    """Word `index` (uint32 or int64) of a draw, from the two words each of its seed and offset."""
    a, b, c, d = block(Stream(seed_low, seed_high, base_low, base_high), index >> 2)
    lane = index & 3
    return select(lane < 2, select(eq(lane, 0), a, b), select(eq(lane, 2), c, d))


def word(seed: Expr, offset: Expr, index: Expr) -> Expr:
    """Word `index` (int64) of the draw at (seed, offset)."""
    return word_from_halves(*stream(seed, offset), index)


def fraction(high: Expr, low: Expr | None = None) -> Expr:
    """A number in [0, 1): the upper 24 bits of a word as float32, or 53 of two as float64."""
    if low is None:
        return cast(high >> 8, float32) * 2.0**-24
    return (cast(high >> 5, float64) * 2.0**26 + cast(low >> 6, float64)) * 2.0**-53


def uniform(at: Stream, index: Expr, dtype: DType = float32) -> Expr:
    """Element `index` of a draw of numbers in [0, 1)."""
    if dtype is float32:
        return fraction(word_from_halves(*at, index))
    a, b, c, d = block(at, index >> 1)
    even = eq(index & 1, 0)
    return fraction(select(even, a, c), select(even, b, d))


def normal(at: Stream, index: Expr, dtype: DType = float32) -> Expr:
    """Element `index` of a draw of standard normal numbers, by Box and Muller.

    Two uniform numbers u, v give sqrt(-2 log(1 - u)) times cos(2 pi v) and sin(2 pi v), to an even
    element and the next. The largest possible is 5.8 in float32 and 8.6 in float64.
    """
    if dtype is float32:
        a, b, c, d = block(at, index >> 2)
        first = eq(index & 2, 0)
        u, v = fraction(select(first, a, c)), fraction(select(first, b, d))
    else:
        a, b, c, d = block(at, index >> 1)
        u, v = fraction(a, b), fraction(c, d)
    angle = v * (2 * math.pi)
    wave = select(eq(index & 1, 0), near_cos(angle), near_sin(angle))
    return s.sqrt(s.log(1.0 - u) * -2.0) * wave


def integer(at: Stream, index: Expr, low: Expr, span: Expr) -> Expr:
    """Element `index` of a draw of int64 integers in [low, low + span), span uint32, 0 for 2**32.

    floor(word * span / 2**32): the frequencies of any two values differ by less than span / 2**32
    of themselves, and not at all for powers of two.
    """
    drawn = word_from_halves(*at, index)
    return low + cast(select(eq(span, 0), drawn, s.mulhi(drawn, span)), int64)


def keep(at: Stream, index: Expr, threshold_low: Expr, threshold_high: Expr) -> Expr:
    """Whether element `index` survives dropout; `threshold(p)` is given as two uint32 words."""
    # The threshold is at most 2**32, and then nothing reaches it.
    return (word_from_halves(*at, index) >= threshold_low) & eq(threshold_high, 0)


# --- NumPy -------------------------------------------------------------------------------------


def _multiply(x: np.ndarray, m: int) -> tuple[Any, Any]:
    product = x * np.uint64(m)
    return product >> np.uint64(32), product & np.uint64(MASK)


def blocks(key: Sequence[int], counter: Sequence[np.ndarray]) -> Words:
    """The output words, along a new last axis, for a key and the four words of the counters."""
    keys = (
        (np.uint64(key[0] + r * KEY_STEPS[0] & MASK), np.uint64(key[1] + r * KEY_STEPS[1] & MASK))
        for r in range(ROUNDS)
    )
    # uint64 throughout, each holding 32 bits: one multiplication gives both halves.
    return np.stack(permute(counter, keys, _multiply), axis=-1).astype(np.uint32)


def words(seed: int, offset: int, n: int) -> Words:
    """The first n words of the draw at (seed, offset).

    >>> words(0, 0, 4)
    array([1713891541, 3781805453, 3159862348, 2600524760], dtype=uint32)
    """
    if n <= thresholds.few_random_words:
        found = _of_group(_as_words, seed, offset, n, uint32)
        return _few_words(seed, offset, -(-n // 4))[:n] if found is None else found
    out = np.empty((-(-n // 4), 4), np.uint32)
    chunk = thresholds.random_chunk
    for start in range(0, len(out), chunk):
        part = out[start : start + chunk]
        # uint64 arithmetic wraps as the 64-bit counter does.
        at = np.arange(len(part), dtype=np.uint64) + np.uint64((offset + start) & (1 << 64) - 1)
        zero = np.zeros_like(at)
        counter = (at & np.uint64(MASK), at >> np.uint64(32), zero, zero)
        part[:] = blocks((seed & MASK, seed >> 32 & MASK), counter)
    return out.reshape(-1)[:n]


def _few_words(seed: int, offset: int, count: int) -> Words:
    """The words of a few blocks, by Python's integers: one operation for all blocks at once.

    Each block has 64 bits of an integer, which hold the product of two words.
    """
    ones, steps, keys = _lanes(seed, count)
    low, last = MASK * ones, offset + count - 1
    if last < 1 << 64:
        at = offset * ones + steps
    else:  # the counter wraps
        at = sum([(offset + i & (1 << 64) - 1) << 64 * i for i in range(count)])
    a, b, c, d = at & low, at >> 32 & low, 0, 0
    for key_a, key_b in keys:
        one, other = a * MULTIPLIERS[0], c * MULTIPLIERS[1]
        a, b = (other >> 32 & low) ^ b ^ key_a, other & low
        c, d = (one >> 32 & low) ^ d ^ key_b, one & low
    if count == 1:
        return np.array((a, b, c, d), np.uint32)
    pairs = [(x | y << 32).to_bytes(8 * count, "little") for x, y in ((a, b), (c, d))]
    found = np.empty((count, 2), "<u8")
    for k, pair in enumerate(pairs):
        found[:, k] = np.frombuffer(pair, "<u8")
    return found.view("<u4").astype(np.uint32, copy=False).reshape(-1)


def _of_group(
    make: Callable[[Words, DType], np.ndarray], seed: int, offset: int, n: int, dtype: DType
) -> np.ndarray | None:
    """The first n numbers that are made of the words of the draw at (seed, offset), if their blocks
    lie in one group; a number of 64 bits takes two words."""
    per_block = 2 if dtype is float64 else 4
    group, start = divmod(offset, GROUP)
    if not 0 < n <= per_block * (GROUP - start):
        return None
    first = per_block * start
    return _group(make, seed, group, dtype)[first : first + n].copy()


@lru_cache(maxsize=64)
def _group(
    make: Callable[[Words, DType], np.ndarray], seed: int, number: int, dtype: DType
) -> np.ndarray:
    """The numbers that are made of the words of a group of neighbouring blocks."""
    return make(_few_words(seed, number * GROUP, GROUP), dtype)


def _as_words(words: Words, dtype: DType) -> Words:
    return words


@lru_cache(maxsize=256)
def _lanes(seed: int, count: int) -> tuple[int, int, tuple[tuple[int, int], ...]]:
    """For blocks that lie side by side in an integer: a one in each, their numbers, and the keys of
    all rounds."""
    ones = sum([1 << 64 * i for i in range(count)])
    steps = sum([i << 64 * i for i in range(count)])
    keys = [
        ((seed + r * KEY_STEPS[0] & MASK) * ones, ((seed >> 32) + r * KEY_STEPS[1] & MASK) * ones)
        for r in range(ROUNDS)
    ]
    return ones, steps, tuple(keys)


def uniforms(seed: int, offset: int, n: int, dtype: DType = float32) -> np.ndarray:
    """n numbers in [0, 1): multiples of 2**-24 in float32, of 2**-53 in float64.

    >>> uniforms(0, 0, 2)
    array([0.39904642, 0.88052016], dtype=float32)
    """
    found = _of_group(_as_uniforms, seed, offset, n, dtype)
    if found is not None:
        return found
    return _as_uniforms(words(seed, offset, n if dtype is float32 else 2 * n), dtype)


def _as_uniforms(words: Words, dtype: DType) -> np.ndarray:
    if dtype is float32:
        return (words >> 8).astype(np.float32) * np.float32(2.0**-24)
    pairs = words.reshape(-1, 2)
    high, low = (pairs[:, 0] >> 5).astype(np.float64), (pairs[:, 1] >> 6).astype(np.float64)
    return (high * 2.0**26 + low) * 2.0**-53


def normals(seed: int, offset: int, n: int, dtype: DType = float32) -> np.ndarray:
    """n standard normal numbers; see `normal`.

    >>> normals(0, 0, 2)
    array([ 0.7379259, -0.6884334], dtype=float32)
    """
    found = _of_group(_as_normals, seed, offset, n, dtype)
    if found is not None:
        return found
    return _normals_of(uniforms(seed, offset, n + n % 2, dtype), dtype)[:n]


def _as_normals(words: Words, dtype: DType) -> np.ndarray:
    return _normals_of(_as_uniforms(words, dtype), dtype)


def _normals_of(uniforms: np.ndarray, dtype: DType) -> np.ndarray:
    u, v = uniforms.reshape(-1, 2).T
    radius = np.sqrt(-2.0 * np.log1p(-u.astype(np.float64)))
    angle = (v * v.dtype.type(2 * math.pi)).astype(np.float64)  # rounded as in `normal`
    waves = np.empty((len(angle), 2))  # as `np.stack` does, which takes longer for a few
    waves[:, 0], waves[:, 1] = np.cos(angle), np.sin(angle)
    result: np.ndarray = (radius[:, None] * waves).astype(dtype.numpy)
    return result.reshape(-1)


def integers(seed: int, offset: int, n: int, low: int, high: int) -> np.ndarray:
    """n integers in [low, high), which may be at most 2**32 apart; see `integer` for the bias.

    >>> integers(0, 0, 4, -3, 3)
    array([-1,  2,  1,  0])
    """
    span = high - low
    if not 0 < span <= 1 << 32:
        raise ValueError(
            f"integers: [{low}, {high}) holds {max(span, 0)} integers; it must hold 1 to 2**32."
        )
    scaled = words(seed, offset, n).astype(np.uint64) * np.uint64(span) >> np.uint64(32)
    return scaled.astype(np.int64) + low


def threshold(p: float) -> int:
    """The word from which elements are kept when each is dropped with probability p."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout: p is {p}; a probability lies between 0 and 1.")
    return math.floor(p * 2**32)


def keep_mask(seed: int, offset: int, n: int, p: float) -> np.ndarray:
    """Which of n elements survive when each is dropped with probability p.

    >>> keep_mask(0, 0, 4, 0.5)
    array([False,  True,  True,  True])
    """
    return words(seed, offset, n) >= threshold(p)
