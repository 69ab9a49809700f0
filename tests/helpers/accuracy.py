"""Errors of every function that kernels compute, in units in the last place (ulp), over its domain.

`accuracy_page.py` writes them to docs/accuracy.md; here they are measured, and read from there.

A sample has every exponent and both signs, and the neighbours of every place where a function has a
zero, a pole or a branch point, or changes its formula. Every function runs over NumPy, as eager
mode runs it on small tensors, and as generated code. float32 is judged by float64, and float64 by
long doubles. What neither NumPy nor `math` has to that precision is written here, by sums without
cancellation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import contraflow as cf
from contraflow import config

Array = np.ndarray[Any, np.dtype[Any]]
Reference = Callable[..., Array]
PAGE = Path(__file__).resolve().parents[2] / "docs" / "accuracy.md"
HAS_LONG_DOUBLE = np.finfo(np.longdouble).nmant >= 63
WIDER = {np.dtype(np.float32): np.float64, np.dtype(np.float64): np.longdouble}
DTYPES = (np.dtype(np.float32), np.dtype(np.float64))

# --- references, in the precision of their argument --------------------------------------------


def wide(value: Decimal) -> Any:
    """A constant as a long double: the sum of two floats."""
    high = float(value)
    return np.longdouble(high) + np.longdouble(float(value - Decimal(high)))


PI = wide(Decimal("3.14159265358979323846264338327950288420"))
ROOT = Decimal("1.461632144968362341262659542325721328468")  # of digamma
EULER = Decimal("0.57721566490153286060651209008240243104")
BERNOULLI = [(1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510),
             (43867, 798), (-174611, 330), (854513, 138)]  # fmt: skip
FAR = 20  # from here on asymptotic series of so many terms are exact


@cache
def hurwitz(k: int, start: Decimal) -> Decimal:
    """The sum of n**-k over n = start, start + 1, ...: Euler and Maclaurin's."""
    with localcontext() as context:
        context.prec = 50
        end = start + 30
        total = sum((start + i) ** -k for i in range(30)) + end ** (1 - k) / (k - 1) + end**-k / 2
        factor = Decimal(k)
        for j, (above, below) in enumerate(BERNOULLI, 1):
            term = Decimal(above) / below * factor / math.factorial(2 * j)
            total += term * end ** -(k + 2 * j - 1)
            factor *= (k + 2 * j - 1) * (k + 2 * j)
        return Decimal(total)


def lifted(function: Callable[[float], float]) -> Reference:
    """A function of Python numbers, of arrays."""
    return lambda x: np.frompyfunc(function, 1, 1)(x).astype(np.float64)


def erf(x: Array) -> Array:
    """exp(-x**2) times the sum of 2**n x**(2n+1) / (2n+1)!!."""
    if x.dtype == np.float64:
        return lifted(math.erf)(x)
    inside = np.clip(x, -7, 7)
    term = total = inside
    for n in range(1, 190):
        term = term * 2 * inside * inside / (2 * n + 1)
        total = total + term
    return 2 / np.sqrt(PI) * np.exp(-inside * inside) * total


def erfc(x: Array) -> Array:
    """From 2 on Laplace's continued fraction."""
    if x.dtype == np.float64:
        return lifted(math.erfc)(x)
    far = np.clip(x, 2, 200)
    fraction = np.ones_like(far)
    for k in range(150, 0, -1):
        fraction = 1 + k / (2 * far * far) / fraction
    short = far.astype(np.float32).astype(x.dtype)  # its square is exact
    tail = np.exp(-short * short) * np.exp((short - far) * (short + far))
    return np.where(x < 2, 1 - erf(x), tail / (far * np.sqrt(PI) * fraction))


def erfinv(x: Array) -> Array:
    """Newton's method, from Winitzki's approximation."""
    a = np.abs(x)
    logarithm = np.log1p(-a) + np.log1p(a)
    part = 2 / (np.pi * 0.147) + logarithm / 2
    y = np.sqrt(np.sqrt(part * part - logarithm / 0.147) - part)
    for _ in range(5):
        error = np.where(a < 0.5, erf(y) - a, (1 - a) - erfc(y))
        y = y - error / (2 / np.sqrt(PI).astype(x.dtype) * np.exp(-y * y))
    y = np.where(a < 1e-9, a * (np.sqrt(PI) / 2), y)
    return np.copysign(np.where(a == 1, np.inf, y), x)


def sine_of_pi_times(x: Array) -> Array:
    """|sin(pi x)|, exact in what is left of whole numbers."""
    return np.abs(np.sin(PI.astype(x.dtype) * (x - np.rint(x))))


def lgamma(x: Array) -> Array:
    """By the series at 2, whose zero it shares; gamma(y + 1) = y gamma(y); Stirling's series."""
    a = np.where(x < -0.5, -x, x)
    y, up = a.copy(), np.ones_like(a)
    for _ in range(FAR):
        above = (y >= 2.5) & (a < FAR)
        y = np.where(above, y - 1, y)
        up = np.where(above, up * y, up)
    down = np.where(a < 0.5, a * (a + 1), np.where(a < 1.5, a, 1))
    z = np.where(a < 0.5, a, np.where(a < 1.5, a - 1, np.where(a < FAR, y - 2, 0)))
    total = np.zeros_like(z)
    for k in range(50, 1, -1):
        total = (total + wide(hurwitz(k, Decimal(2))) / k * (-1) ** k) * z
    near = (total + wide(1 - EULER)) * z + np.log(up) - np.log(np.abs(down))
    far = np.maximum(a, FAR)
    series = np.zeros_like(far)
    for k, (above_, below) in reversed(list(enumerate(BERNOULLI, 1))):
        series = series / (far * far) + above_ / (below * 2 * k * (2 * k - 1) * np.longdouble(1))
    stirling = (far - 0.5) * np.log(far) - far + np.log(2 * PI) / 2 + series / far
    value = np.where(a < FAR, near, stirling)
    value = np.where(x < -0.5, np.log(PI / (a * sine_of_pi_times(a))) - value, value)
    return np.where(np.isinf(x) | ((x <= 0) & (x == np.floor(x))), np.inf, value)


def digamma(x: Array) -> Array:
    """By its series at its zero near 1.46; digamma(y + 1) = digamma(y) + 1 / y; or asymptotic."""
    a = np.abs(x)
    d = (a - np.longdouble(float(ROOT))) - np.longdouble(float(ROOT - Decimal(float(ROOT))))
    near = np.zeros_like(d)
    for k in range(40, 1, -1):
        near = (near + wide(hurwitz(k, ROOT)) * (-1) ** k) * np.clip(d, -0.3, 0.3)
    value = np.where(np.abs(d) < 0.25, near, polygamma_of_positive(0, a))
    cotangent = 1 / np.tan(PI * np.where(a == np.rint(a), 0.25, a - np.rint(a)))
    value = np.where(x < 0, value + 1 / a + PI * cotangent, value)
    value = np.where((x < 0) & (x == np.floor(x)), np.nan, value)
    return np.where(x == 0, -np.copysign(np.inf, x), value)


def polygamma_of_positive(n: int, x: Array) -> Array:
    """The n-th derivative of digamma, by terms up to FAR and the asymptotic series."""
    y, total = x.astype(np.longdouble), np.zeros(x.shape, np.longdouble)
    for _ in range(FAR):
        small = y < FAR
        total = np.where(small, total + y ** -(n + 1), total)
        y = np.where(small, y + 1, y)
    series = np.zeros_like(y)
    for k, (above, below) in reversed(list(enumerate(BERNOULLI, 1))):
        factor = np.longdouble(above * math.factorial(2 * k + n - 1))
        series = (series + factor / (below * math.factorial(2 * k))) / (y * y)
    if not n:
        return np.log(y) - 0.5 / y - series - total
    tail = (math.factorial(n - 1) + math.factorial(n) / (2 * y) + series) * y**-n
    return (-1) ** (n + 1) * (math.factorial(n) * total + tail)


# --- the functions -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Function:
    """A function, its reference, and the places to look at."""

    name: str
    reference: Reference
    points: Sequence[float] = ()
    low: float = -math.inf
    high: float = math.inf
    apply: str = ""  # the op, if it is not called so
    numbers: tuple[int, ...] = ()  # its first arguments
    binary: bool = False
    least: float = 0.0  # in float64, errors of results below this are those of a result as large
    remark: str = ""

    def run(self, library: Any, arrays: Sequence[Array]) -> Array:
        """The function of a library with PyTorch's names."""
        op = self.apply or self.name
        function = getattr(library, op, None) or getattr(library.special, op)
        result: Array = function(*self.numbers, *map(library.from_numpy, arrays)).numpy()
        return result


EXP_ENDS = (-103.97, -87.34, 88.72, -745.13, -708.4, 709.78)
HALVES = (*(k * math.pi / 2 for k in range(1, 12)), 512 * math.pi, 65536.0, 1048576.0)
CASES = (
    Function("exp", np.exp, (0, 1, *EXP_ENDS)),
    Function("expm1", np.expm1, (0, 0.3466, 1, *EXP_ENDS)),
    Function("exp2", np.exp2, (0, 0.5, 128, -126, -149, 1024, -1022, -1074)),
    Function("log", np.log, (1, 2**0.5, 0.5**0.5)),
    Function("log1p", np.log1p, (0, -1, 2**0.5 - 1, 0.5**0.5 - 1), -1),
    Function("log2", np.log2, (1, 2**0.5, 0.5**0.5)),
    Function("log10", np.log10, (1, 2**0.5, 0.5**0.5, 10, 1000)),
    Function("pow", np.power, binary=True),
    Function("sin", np.sin, (0, *HALVES)),
    Function("cos", np.cos, (0, *HALVES)),
    Function("tan", np.tan, (0, *HALVES)),
    Function("asin", np.arcsin, (0, 0.5, -0.5, 1, -1), -1, 1),
    Function("acos", np.arccos, (0, 0.5, -0.5, 1, -1), -1, 1),
    Function("atan", np.arctan, (0, 1, 2**0.5 - 1, 2**0.5 + 1)),
    Function("atan2", np.arctan2, binary=True),
    Function("sinh", np.sinh, (0, 1, 40, 89.4, 710.4)),
    Function("cosh", np.cosh, (0, 1, 40, 89.4, 710.4)),
    Function("tanh", np.tanh, (0, 0.625, 9.2, 20)),
    Function("asinh", np.arcsinh, (0, 1, 8192, 2.0**28)),
    Function("acosh", np.arccosh, (1, 2, 8192, 2.0**28), 1),
    Function("atanh", np.arctanh, (0, 1, -1), -1, 1),
    Function("erf", erf, (0, 1, 4, 6)),
    Function("erfc", erfc, (0, 0.5, 1, 2, 4, 10, 26.5)),
    Function("erfinv", erfinv, (0, 0.5, 0.9966, 1, -1), -1, 1),
    Function(
        "lgamma", lgamma, (1, 2, 0.5, 1.25, 2.5, 10, 0, -0.5), -0.5,
        remark="x >= -1/2, zeros at 1 and 2 included",
    ),
    Function(
        "lgamma, x < -1/2", lgamma,
        (*range(-24, 0), -2.4570247, -2.7476826, -3.1435809, -3.9552943),
        high=-0.5, apply="lgamma", least=8.0,
        remark="beside the zeros float64 has the error of a result of 8: its terms are as large",
    ),
    Function("digamma", digamma, (float(ROOT), 1, 2, 10, 0), 0.0, remark="x >= 0"),
    Function(
        "digamma, x < 0", digamma, (*range(-12, 0), -0.50408301, -1.5734985, -2.6107209),
        high=-1e-300, apply="digamma", least=4.0,
        remark="beside the zeros float64 has the error of a result of 4",
    ),
    *(
        Function(
            f"polygamma({n})", partial(polygamma_of_positive, n), (0, 0.5, 1, 10), 0.0,
            apply="polygamma", numbers=(n,), remark="x >= 0",
        )
        for n in (1, 2, 3)
    ),
)  # fmt: skip


# --- samples -----------------------------------------------------------------------------------


def every_exponent(dtype: np.dtype[Any], count: int, random: np.random.Generator) -> Array:
    """About `count` numbers of both signs, subnormal ones too: as many of every exponent."""
    info = np.finfo(dtype)
    whole = np.dtype(f"u{dtype.itemsize}").type
    fields = np.arange(2 ** (info.nexp + 1), dtype=whole)
    each = max(1, count // fields.size)
    fraction = random.integers(0, 2**info.nmant, (fields.size, each), dtype=whole)
    return ((fields[:, None] << whole(info.nmant)) | fraction).view(dtype).ravel()


def middle(dtype: np.dtype[Any], count: int, random: np.random.Generator) -> Array:
    """Numbers of the size that programs have, spread by exponent and evenly."""
    size = np.exp2(random.uniform(-30, 12, count // 2)) * random.choice((-1.0, 1.0), count // 2)
    return np.concatenate([size, random.uniform(-40, 40, count // 2)]).astype(dtype)


def beside(point: float, dtype: np.dtype[Any]) -> Array:
    """The nearest neighbours of a number, and others at every distance."""
    x = dtype.type(point)
    around = x + np.arange(-40, 41).astype(dtype) * np.spacing(np.abs(x))
    away = np.exp2(np.arange(-50, 0, 0.5)).astype(dtype)
    return np.concatenate([around, x + away, x - away])


def pairs(dtype: np.dtype[Any], count: int, random: np.random.Generator) -> list[Array]:
    """Arguments of pow and atan2: of any size, of similar size, and with powers that are finite."""
    a, b = (random.permutation(every_exponent(dtype, count // 2, random)) for _ in range(2))
    near, like = (middle(dtype, count, random) for _ in range(2))
    size = a.size
    with np.errstate(all="ignore"):
        base = np.concatenate([1 + np.exp2(random.uniform(-40, 0, size)), np.abs(a)])
        base = base.astype(dtype)
        largest = math.log(float(np.finfo(dtype).max))
        power = random.uniform(-largest, largest, base.size) / np.log(base.astype(np.float64))
        whole = np.rint(random.uniform(-30, 30, near.size))
        parts = ((a, b), (near, like), (base, power.astype(dtype)), (near, whole.astype(dtype)))
    return [np.concatenate(part) for part in zip(*parts)]


def sample(case: Function, dtype: np.dtype[Any], count: int, seed: int = 0) -> list[Array]:
    """The arguments that a function is measured at."""
    random = np.random.default_rng(seed)
    if case.binary:
        return pairs(dtype, count, random)
    x = [every_exponent(dtype, count, random), middle(dtype, count // 2, random)]
    x.append(np.array([0.0, -0.0, math.inf, -math.inf, math.nan], dtype))
    if case.low > -math.inf and case.high < math.inf:
        x.append(random.uniform(case.low, case.high, count // 2).astype(dtype))
        x.append(case.high - np.exp2(random.uniform(-60, 0, count // 4)).astype(dtype))
    found = np.concatenate([*x, *(beside(point, dtype) for point in case.points)])
    inside = (found >= case.low) & (found <= case.high)
    return [found[inside | np.isnan(found)]]


# --- errors ------------------------------------------------------------------------------------


def error_in_ulp(result: Array, exact: Array, least: float = 0.0) -> float:
    """The largest error in units in the last place of the exact result, or of `least` if larger.

    Infinities and NaN must be where they are exactly; a result may overflow within a unit of it.
    """
    info = np.finfo(result.dtype)
    with np.errstate(all="ignore"):
        wider = exact.dtype.type
        end = wider(info.max) * (1 + wider(info.eps) / 4)
        finite = np.abs(exact) < end
        limit = np.where(finite, 0.0, np.sign(exact) * np.inf)
        infinite = ~finite & ~np.isnan(exact)
        wrong = (np.isnan(result) != np.isnan(exact)) | (infinite & (result != limit))
        size = np.maximum(np.abs(exact), max(least, float(info.tiny)))
        exponent = np.frexp(size)[1] - 1
        unit = np.ldexp(wider(1), exponent - info.nmant)
        # One unit beyond the largest number is infinity.
        shown = np.where(np.isinf(result), np.copysign(end, result), result)
        error = np.where(finite, np.abs(shown - exact) / unit, np.where(wrong, np.inf, 0.0))
    return float(np.max(np.where(wrong, np.inf, error), initial=0.0))


Runner = Callable[[Function, list[Array]], Array]


def eagerly(kernels: bool, case: Function, arrays: list[Array]) -> Array:
    """Over NumPy, or as generated code."""
    before = config.eager_kernels
    config.eager_kernels = kernels
    try:
        return case.run(cf, arrays)
    finally:
        config.eager_kernels = before


RUNNERS: dict[str, Runner] = {
    "NumPy": partial(eagerly, False),
    "generated": partial(eagerly, True),
}


def errors(
    case: Function, dtype: np.dtype[Any], count: int, runners: dict[str, Runner], seed: int = 0
) -> dict[str, float]:
    """The largest error of each runner."""
    arrays = sample(case, dtype, count, seed)
    with np.errstate(all="ignore"):
        exact = case.reference(*(x.astype(WIDER[dtype]) for x in arrays))
    least = case.least if dtype == np.float64 else 0.0
    return {name: error_in_ulp(run(case, arrays), exact, least) for name, run in runners.items()}


# --- what the page says ------------------------------------------------------------------------


def rows_of(heading: str) -> dict[str, dict[str, str]]:
    """The table below a heading of docs/accuracy.md: by its first column, by the others."""
    part = PAGE.read_text().partition(f"# {heading}\n")[2].partition("\n#")[0]
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    head, _, *body = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    return {row[0]: dict(zip(head[1:], row[1:])) for row in body}


def promised(heading: str) -> dict[str, dict[str, float]]:
    """The numbers of that table."""
    number = re.compile(r"[\d.]+(e[+-]\d+)?")
    return {
        name: {k: float(v) for k, v in cells.items() if number.fullmatch(v)}
        for name, cells in rows_of(heading).items()
    }


def allowed(heading: str, row: str, column: str) -> float:
    """The largest relative error in float32 that a table of sums admits.

    Vectors of other lengths add in another order, and a result is rounded.
    """
    return 2 * promised(heading)[row][column] + 6e-8
