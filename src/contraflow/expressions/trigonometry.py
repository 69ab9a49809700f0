"""Sine, cosine and tangent of every finite number, decomposed into simpler rows.

An angle x is reduced to a quadrant q and a remainder r with x = q pi / 2 + r and |r| <= pi / 4.
Up to 65536 in float32 and 1048576 in float64 that is done by taking multiples of pi / 2 away, in
pieces. Beyond that x has no use for most bits of 2 / pi, and needs others exactly (Payne and Hanek,
1983): the words that matter are chosen by its exponent and multiplied as integers of 32 bits, which
every backend has. Numbers as large are rare, so the rows that treat them stand apart.

The promises of `elementary.py`, whose pieces are used here, hold for these functions too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from contraflow.dtypes import DType, float32, float64, uint32
from contraflow.expressions import elementary as m
from contraflow.expressions import expression as s
from contraflow.expressions.expression import Expr, cast, const, eq, select
from contraflow.expressions.intrinsics import decomposes, intrinsic

# --- of a quadrant and a remainder -------------------------------------------------------------

# (sin(r) - r) / r**3 and (cos(r) - 1 + r**2 / 2) / r**4 in r**2, for |r| <= 0.8
SIN = {
    float32: (-0.16666654, 0.008332093, -0.00019505528),
    float64: (
        -1.6666666666666624e-01, 8.3333333333203974e-03, -1.9841269828112446e-04,
        2.7557313082021374e-06, -2.5050659898287865e-08, 1.5890973946331330e-10,
    ),
}  # fmt: skip
COS = {
    float32: (0.041666646, -0.0013887263, 2.4425968e-05),
    float64: (
        4.1666666666666595e-02, -1.3888888888873110e-03, 2.4801587288597960e-05,
        -2.7557314041709822e-07, 2.0875675124058134e-09, -1.1356905851992905e-11,
    ),
}  # fmt: skip


def sine(q: Expr, r: Expr) -> Expr:
    """sin(q pi / 2 + r): +-sin(r) for even q, +-cos(r) for odd q."""
    z = r * r
    even = r + r * (z * m.polynomial(z, SIN[r.dtype]))
    odd = 1.0 - (0.5 * z - z * (z * m.polynomial(z, COS[r.dtype])))
    value = select(eq(q & 1, 0), even, odd)
    return select(eq(q & 2, 0), value, -value)


def cosine(q: Expr, r: Expr) -> Expr:
    """cos(q pi / 2 + r), which is the sine one quadrant on."""
    return sine(q + 1, r)


def tangent(q: Expr, r: Expr) -> Expr:
    """tan(q pi / 2 + r)."""
    return sine(q, r) / cosine(q, r)


# --- the reduction of small angles -------------------------------------------------------------

# The exponents from which on numbers are large: quotients by pi / 2 stay within what `Format` says.
LARGE = {float32: 16, float64: 20}


def is_large(x: Expr) -> Expr:
    """Whether a finite number is too large for `reduce_small`."""
    a = s.abs_(x)
    return (a >= 2.0 ** LARGE[x.dtype]) & (a < math.inf)


def reduce_small(x: Expr) -> tuple[Expr, Expr]:
    """(q, r) of an angle that is not large; q is an integer, right in its low bits.

    The pieces of pi / 2 are taken away one by one, and each difference is exact.
    """
    half_pi = m.FORMATS[x.dtype].half_pi
    n = s.rint(x * (2 / math.pi))
    r, tail = x, const(0.0, x.dtype)
    for piece in half_pi[:-1]:
        difference = r - n * piece
        tail = tail + ((r - difference) - n * piece)
        r = difference
    return m.integer_bits(n), r + (tail - n * half_pi[-1])


# --- the reduction of large angles -------------------------------------------------------------

# Words are uint32, and long integers are lists of them, the highest word first.
TWO_OVER_PI = int(
    "A2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561B7246E3A424D"
    "D2E006492EEA09D1921CFE1DEB1CB129A73EE88235F52EBB4484E99C7026B45F7E413991D639"
    "835339F49C845F8BBDF9283B1FF897FFDE05980FEF2F118B5A0A6D1F6D367ECF27CB09B74F46"
    "3F669E5FEA2D7527BAC7EBE5F17B3D0739F78A5292EA6BFB5FB11F8D5D0856033046FC7B6BAB",
    16,
)  # times 2**1216


def words_below(shift: int, count: int) -> list[Expr]:
    """The first words of 2 / pi / 2**shift after the point."""
    bits = TWO_OVER_PI << 32 * count >> 1216 + shift
    return [const(bits >> 32 * k & 0xFFFFFFFF, uint32) for k in reversed(range(count))]


def window(words: Sequence[Expr], start: Expr, largest: int, count: int) -> list[Expr]:
    """`count` words from the word number `start` on, which is at most `largest`."""
    for bit in reversed(range(largest.bit_length())):
        step = 1 << bit
        further = s.ne(start & step, 0)
        words = [select(further, words[k + step], words[k]) for k in range(count + step - 1)]
    return list(words)


def add_product(total: Sequence[Expr], words: Sequence[Expr], factor: Expr) -> list[Expr]:
    """total + words * factor, as many words of both, without what overflows."""
    sums, carry = [], const(0, uint32)
    for old, word in zip(reversed(total), reversed(words), strict=True):
        low = word * factor + carry
        new = low + old
        one = const(1, uint32)
        carry = s.mulhi(word, factor) + select(low < carry, one, 0) + select(new < old, one, 0)
        sums.append(new)
    return sums[::-1]


def significand(x: Expr) -> list[Expr]:
    """The significant bits of a normal number, as an integer."""
    form = m.FORMATS[x.dtype]
    bits = m.bits(x) & ((1 << form.fraction) - 1) | (1 << form.fraction)
    return [bits] if bits.dtype is uint32 else [cast(bits >> 32, uint32), cast(bits, uint32)]


def to_float(words: Sequence[Expr], dtype: DType) -> list[Expr]:
    """Floats that add up to a fraction, which is given by its words after the point."""
    size = 16 if dtype is float32 else 32  # bits that a float holds exactly
    digits = [w >> k & (1 << size) - 1 for w in words for k in reversed(range(0, 32, size))]
    return [cast(digit, dtype) * 2.0 ** (-size * (k + 1)) for k, digit in enumerate(digits)]


def reduce_large(x: Expr) -> tuple[Expr, Expr]:
    """(q, r) of a large angle; q is an unsigned integer, right in its lowest two bits.

    x = significand * 2**e, and x / (pi / 2) is needed modulo 4: of 2 / pi * 2**(e - 2) the words
    after the point suffice. The nearest that a number comes to a multiple of pi / 2 is 2**-29 in
    float32 and 2**-61 in float64, so twice its own words are enough of the product.
    """
    form, least = m.FORMATS[x.dtype], LARGE[x.dtype]
    limbs = significand(x)
    count = 3 * len(limbs)
    largest = form.bias - least
    table = words_below(form.fraction + 2 - least, largest // 32 + count + 1)
    exponent = cast((m.bits(s.abs_(x)) >> form.fraction) - (form.bias + least), uint32)
    ahead = exponent & 31
    chosen = window(table, exponent >> 5, largest // 32, count + 1)
    # A shift by 32 has no meaning: what comes from the next word is shifted twice.
    factor = [a << ahead | b >> 1 >> 31 - ahead for a, b in pairwise(chosen)]
    product = [const(0, uint32)] * count
    for place, limb in enumerate(reversed(limbs)):
        kept = count - place
        product[:kept] = add_product(product[:kept], factor[place:], limb)

    # The upper two bits count quadrants, the others are the fraction of one, from -1/2 to 1/2.
    q = (product[0] + (1 << 29)) >> 30
    fraction = [a << 2 | b >> 30 for a, b in pairwise(product[: 2 * len(limbs) + 1])]
    negative = fraction[0] >= 1 << 31
    inverted = select(negative, const(0xFFFFFFFF, uint32), 0)
    parts = to_float([word ^ inverted for word in fraction], x.dtype)

    # Times pi / 2: the product of the upper halves is exact.
    high = m.upper(sum(reversed(parts[:-1]), parts[-1]))
    rest = sum(parts[1:], parts[0] - high)
    half_pi, half_pi_low = m.pieces(m.HALF_PI, form.fraction // 2, form.fraction + 1)
    r = high * half_pi + (high * half_pi_low + rest * (math.pi / 2))
    below = x < 0.0
    return select(below, -q, q), select(negative ^ below, -r, r)


# --- of any angle ------------------------------------------------------------------------------

intrinsic("tan", 1, np.tan, cuda="tan({0})")


def tan(x: Expr) -> Expr:
    """Tangent."""
    return s.call("tan", x)


def _decompose(
    name: str, numpy: Callable[[Any], Any], of_quadrant: Callable[[Expr, Expr], Expr], odd: bool
) -> Callable[[Expr], Expr]:
    """Give the row `name` its decomposition, and return the function for angles that are small."""
    near, far = f"near_{name}", f"far_{name}"

    def of_small(x: Expr) -> Expr:
        value = of_quadrant(*reduce_small(x))
        return m.keep_tiny(x, value) if odd else value

    def of_large(large: Expr, x: Expr, otherwise: Expr) -> Expr:
        return select(large, of_quadrant(*reduce_large(x)), otherwise)

    def chosen(large: Any, x: Any, otherwise: Any) -> Any:
        return np.where(large, numpy(x), otherwise)

    intrinsic(near, 1, numpy, cuda=f"{name}({{0}})", decomposition=of_small)
    intrinsic(far, 3, chosen, decomposition=of_large, apart=True)
    decomposes(name)(lambda x: s.call(far, is_large(x), x, s.call(near, x)))
    return lambda x: s.call(near, x)


near_sin = _decompose("sin", np.sin, sine, odd=True)
near_cos = _decompose("cos", np.cos, cosine, odd=False)
near_tan = _decompose("tan", np.tan, tangent, odd=True)
