"""Modified Bessel functions of the first kind, of order 0 and 1.

exp(-|x|) I(x) is a Chebyshev series of x up to 8, and beyond it sqrt(x) times that is one of 1 / x.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from contraflow.dtypes import float32
from contraflow.expressions import elementary as m
from contraflow.expressions import expression as s
from contraflow.operation.kinds import elementwise
from contraflow.operation.samples import Array, Sample
from contraflow.ops.elementwise.basic import abs_, reciprocal, sign, where
from contraflow.tensors.tensor import Tensor

# Computed with mpmath: of exp(-x) I0(x) and exp(-x) I1(x) / x in x / 4 - 1, and of
# exp(-x) sqrt(x) I(x) in 16 / x - 1.
_I0_NEAR = (
    0.33839763720473803, -0.3046826723431984, 0.17162090152220877, -0.09490109704804764,
    0.049305284239670705, -0.02373741480589947, 0.010546460394594998, -0.004324309995050576,
    0.0016394756169413357, -0.0005763755745385824, 0.00018850288509584165, -5.754195010082104e-05,
    1.6448448070728896e-05, -4.4167383584587505e-06, 1.1173875391201037e-06,
    -2.670793853940612e-07, 6.046995022541919e-08, -1.300025009986248e-08, 2.6598237246823866e-09,
    -5.189795601635263e-10, 9.675809035373237e-11, -1.7268262914415555e-11, 2.95505266312964e-12,
    -4.85644678311193e-13, 7.676185498604936e-14, -1.1685332877993451e-14, 1.715391285555133e-15,
    -2.431279846547955e-16, 3.3307945188222384e-17, -4.4153416464793395e-18,
)  # fmt: skip
_I0_FAR = (
    0.4022452055070544, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06,
    2.0489185894690636e-07, 2.266668990498178e-08, 3.396232025708386e-09, 4.94060238822497e-10,
    1.1889147107846437e-11, -3.1499165279632416e-11, -1.3215811840447713e-11,
    -1.7941785315068062e-12, 7.180124451383666e-13, 3.8527783827421426e-13, 1.54008621752141e-14,
    -4.150569347287222e-14, -9.554846698828307e-15, 3.8116806693526224e-15,
    1.7725601330565263e-15, -3.425485619677219e-16, -2.8276239805165836e-16,
    3.461222867697461e-17, 4.46562142029676e-17, -4.830504485944182e-18, -7.233180487874754e-18,
)  # fmt: skip
_I1_NEAR = (
    0.12629359322181682, -0.17641651835783406, 0.1026436586898471, -0.05294598120809499,
    0.024726449030626516, -0.010564084894626197, 0.004156422944312888, -0.0015135724506312532,
    0.0005122859561685758, -0.00016176081582589674, 4.781565107550054e-05,
    -1.3273163656039436e-05, 3.4702513081376785e-06, -8.568720264695455e-07,
    2.0032947535521353e-07, -4.445059128796328e-08, 9.381537386495773e-09,
    -1.8872497517228294e-09, 3.625590281552117e-10, -6.663489723502027e-11,
    1.1736186298890901e-11, -1.9839743977649436e-12, 3.223793365945575e-13,
    -5.042185504727912e-14, 7.600684294735408e-15, -1.1055969477353862e-15,
    1.5536319577362005e-16, -2.111421214358166e-17,
)  # fmt: skip
_I1_FAR = (
    0.38928811750914005, -0.009761097491361469, -0.00011058893876262371, -3.882564808877691e-06,
    -2.512236237870209e-07, -2.6314688468895196e-08, -3.835380385964237e-09,
    -5.589743462196584e-10, -1.8974958123505413e-11, 3.2526035830154884e-11,
    1.412580743661378e-11, 2.0356285441470896e-12, -7.198551776245908e-13,
    -4.0835511110921974e-13, -2.1015418427726643e-14, 4.2724400167119517e-14,
    1.0420276984128804e-14, -3.8144030724370075e-15, -1.8803547755107825e-15,
    3.3082023109209285e-16, 2.96262899764595e-16, -3.209525921993424e-17, -4.650305368489358e-17,
    4.414348323071708e-18, 7.517296310842105e-18,
)  # fmt: skip


def _np_series(coefficients: Sequence[float], t: np.ndarray) -> Any:
    return np.polynomial.chebyshev.chebval(t, coefficients)


def _np_scaled(x: Any, near: Sequence[float], far: Sequence[float], odd: bool) -> Any:
    wide = np.asarray(x, np.float64)
    a = np.abs(wide)
    low, high = np.minimum(a, 8.0), np.maximum(a, 8.0)
    inside = _np_series(near, low / 4.0 - 1.0) * (wide if odd else 1.0)
    outside = _np_series(far, 16.0 / high - 1.0) / np.sqrt(high) * (np.sign(wide) if odd else 1.0)
    return np.where(a <= 8.0, inside, outside)


def _np_i0e(x: Any) -> Any:
    return _np_scaled(x, _I0_NEAR, _I0_FAR, False).astype(np.result_type(x))


def _np_i1e(x: Any) -> Any:
    return _np_scaled(x, _I1_NEAR, _I1_FAR, True).astype(np.result_type(x))


def _np_unscaled(scaled: Any) -> Any:
    def function(x: Any) -> Any:
        # Half of the exponent on each side: the product overflows only where the result does.
        half = np.exp(np.abs(np.asarray(x, np.float64)) * 0.5)
        with np.errstate(over="ignore", invalid="ignore"):
            return (scaled(np.asarray(x, np.float64)) * half * half).astype(np.result_type(x))

    return function


def _series(coefficients: Sequence[float], t: Any) -> Any:
    """A Chebyshev series by Clenshaw's recurrence."""
    first, second = t * 0.0, t * 0.0
    for c in reversed(coefficients[1:]):
        first, second = (t + t) * first - second + c, first
    return t * first - second + coefficients[0]


def _scaled(x: Any, near: Sequence[float], far: Sequence[float], odd: bool) -> Any:
    a = s.abs_(x)
    low, high = s.minimum(a, 8.0), s.maximum(a, 8.0)
    inside = _series(near, low * 0.25 - 1.0)
    outside = _series(far, 16.0 / high - 1.0) / s.sqrt(high)
    if odd:
        return s.select(a <= 8.0, inside * x, s.select(x < 0, -outside, outside))
    return s.select(a <= 8.0, inside, outside)


def _unscaled(x: Any, scaled: Any) -> Any:
    # exp(|x|) = 2**n exp(r) overflows where the result does not: 2**n comes last.
    a = s.abs_(x)
    end = 92.0 if x.dtype is float32 else 714.0  # beyond it both functions overflow
    n, r = m.reduce_exponent(m.at_most(a, end))
    value = m.raise_exponent(s.abs_(scaled) * (1.0 + m.exp_minus_one(r)), n)
    value = s.select(a < end, value, math.inf)
    return m.copy_sign(s.select(a < math.inf, value, math.nan), scaled)


def _samples() -> Any:
    yield Sample((Array((3, 4), -4.0, 4.0, avoid=(0.0,)),))
    yield Sample((Array((), 0.5, 3.0),))
    yield Sample((np.array([-12.0, -8.0, 9.5, 20.0]),))


def _ratio(value: Tensor, x: Tensor) -> Tensor:
    """value / x, of an I1: a half beside 0, where 1 / x may be infinite and value be 0."""
    small = abs_(x) <= 1e-10  # the next term is x**2 / 16
    out: Tensor = where(small, 0.5, value * reciprocal(where(small, 1.0, x)))
    return out


@elementwise(
    ref=_np_unscaled(_np_i0e),
    dtype="float",
    vjp={"x": lambda g, x: g * i1(x)},
    samples=_samples,
    inplace=True,
)
def i0(x):
    """The modified Bessel function of the first kind of order 0."""
    return _unscaled(x, _scaled(x, _I0_NEAR, _I0_FAR, False))


@elementwise(
    ref=_np_i0e,
    dtype="float",
    vjp={"x": lambda g, x, out: g * (i1e(x) - sign(x) * out)},
    samples=_samples,
    method=False,
    internal=True,
)
def i0e(x):
    """exp(-|x|) times the modified Bessel function of the first kind of order 0."""
    return _scaled(x, _I0_NEAR, _I0_FAR, False)


@elementwise(
    ref=_np_unscaled(_np_i1e),
    dtype="float",
    vjp={"x": lambda g, x, out: g * (i0(x) - _ratio(out, x))},
    samples=_samples,
    method=False,
    internal=True,
)
def i1(x):
    """The modified Bessel function of the first kind of order 1."""
    return _unscaled(x, _scaled(x, _I1_NEAR, _I1_FAR, True))


@elementwise(
    ref=_np_i1e,
    dtype="float",
    vjp={"x": lambda g, x, out: g * (i0e(x) - sign(x) * out - _ratio(out, x))},
    samples=_samples,
    method=False,
    internal=True,
)
def i1e(x):
    """exp(-|x|) times the modified Bessel function of the first kind of order 1."""
    return _scaled(x, _I1_NEAR, _I1_FAR, True)
