"""Gamma variates: drawn by rejection in a fixed number of attempts, with implicit gradients.

Marsaglia and Tsang's method (2000) accepts an attempt with a probability of at least 0.95. There
are so many attempts that the share of elements with none accepted, which keep the last one, is
below the distance between the uniform numbers of the dtype. So a draw takes the same stretch of
the generator always, in eager mode and in a compiled function, on every device.

Variates are given by their logarithms: those of small concentrations are too small for floats, and
the ratios of several, as in a Dirichlet distribution, are needed all the same.
"""

from __future__ import annotations

import numpy as np

from contraflow.dtypes import FLOAT, float64
from contraflow.operation.context import apply, changed
from contraflow.operation.kinds import elementwise
from contraflow.operation.samples import Array, Sample
from contraflow.ops.creation.random import check_floating, is_settled, normal, several, uniform
from contraflow.ops.elementwise.basic import log, rsqrt, where
from contraflow.ops.elementwise.incomplete import log_gamma_slope
from contraflow.ops.elementwise.mathematics import log1p
from contraflow.tensors.generator import Generator
from contraflow.tensors.tensor import Tensor


@elementwise(
    ref=lambda concentration, drawn: np.array(np.broadcast_arrays(concentration, drawn)[1]),
    vjp={"concentration": lambda g, concentration, out: g * log_gamma_slope(concentration, out)},
    samples=lambda: (Sample((Array((3, 4), 0.5, 3.0), Array((3, 4), -1.0, 1.0))),),
    takes=(FLOAT,),
    method=False,
    internal=True,
)
def log_gamma_quantile(concentration, drawn):
    """The drawn logarithm of a gamma variate, which moves with the concentration as a quantile."""
    return drawn


def standard_log_gamma(concentration: Tensor, generator: Generator | None = None) -> Tensor:
    """The logarithms of gamma variates of rate 1, one for each concentration.

    The gradient is the derivative of the quantile, `log_gamma_slope`.
    """
    check_floating("standard_log_gamma", concentration.dtype)
    wide = concentration.to(concentration.dtype.compute)
    with changed(grad=False):
        drawn = _attempts(wide, generator)
    moving: Tensor = apply(log_gamma_quantile, (wide, drawn))
    return moving.to(concentration.dtype)


def _attempts(concentration: Tensor, generator: Generator | None) -> Tensor:
    count = 12 if concentration.dtype is float64 else 6  # 0.05**12 < 2**-52, 0.05**6 < 2**-24
    drawn = several(concentration, concentration.shape, 2 * count + 1, generator)
    # Below 1, the variate of concentration + 1 times a power of a uniform number.
    small = concentration < 1
    boost = log1p(-drawn(uniform, 0))
    d = where(small, concentration + 1, concentration) - 1 / 3
    c = rsqrt(d) / 3
    found = accepted = c < 0  # none yet
    for attempt in range(count):
        x, u = drawn(normal, 1 + 2 * attempt), drawn(uniform, 2 + 2 * attempt)
        # v = (1 + t)**3 is accepted where log(u) < x**2 / 2 + d (1 - v + log(v)).
        t = (c * x).clamp(min=-0.99999)
        ratio = log1p(t)
        bend = t - ratio + t * t * (1 + t / 3)
        holds = (log1p(-u) < 0.5 * x * x - 3 * d * bend) & (c * x > -1)
        found, accepted = where(accepted, found, ratio), accepted | holds
        if is_settled(accepted):
            break
    return log(d) + 3 * found + where(small, boost / concentration, 0.0)
