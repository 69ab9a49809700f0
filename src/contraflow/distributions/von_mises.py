"""The von Mises distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence

from contraflow.autograd.modes import no_grad
from contraflow.distributions import constraints
from contraflow.distributions.distribution import Distribution
from contraflow.distributions.utils import SMALLEST, broadcast_all
from contraflow.dtypes import float64
from contraflow.ops.creation.random import is_settled, several, uniform
from contraflow.ops.elementwise.basic import where
from contraflow.ops.elementwise.bessel import i0e, i1e
from contraflow.ops.elementwise.mathematics import asin
from contraflow.tensors.tensor import Tensor


class VonMises(Distribution):
    """Angles in [-pi, pi) around `loc`, the closer the higher the `concentration`.

    >>> import contraflow as cf
    >>> cf.distributions.VonMises(0.0, cf.tensor([1.0, 4.0])).variance
    tensor([0.5536, 0.1365])
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real

    def __init__(
        self,
        loc: Tensor | float,
        concentration: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The circular variance: 1 less the length of the mean vector."""
        x = self.concentration
        return 1 - i1e(x) / i0e(x)

    def log_prob(self, value: Tensor) -> Tensor:
        value, x = self._given(value), self.concentration
        away = (value - self.loc).cos() - 1
        return x * away - math.log(2 * math.pi) - i0e(x).log()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return self._drawn(self._extended_shape(sample_shape))

    def _drawn(self, shape: tuple[int, ...]) -> Tensor:
        """By rejection from a wrapped Cauchy distribution (Best and Fisher, 1979).

        An attempt is accepted with a probability above 0.65; as many are made as leave a share of
        elements without one, which keep the last, that is below the distance of uniform numbers.
        """
        x = self.concentration.clamp(min=SMALLEST[self.concentration.dtype] ** 0.25)
        # rho = (r - sqrt(2 r)) / (2 x) with r = 1 + q, written so that nothing cancels.
        q = (1 + 4 * x * x).sqrt()
        root = (1 + q).sqrt()
        rho = 2 * x * root / ((1 + q) * (root + math.sqrt(2)))
        above = (1 - rho) * (1 - rho) / (2 * rho)  # s - 1
        count = 36 if x.dtype is float64 else 17
        drawn = several(x, shape, 2 * count + 1)
        found = accepted = x.expand(shape) < 0  # none yet
        for attempt in range(count):
            wave = (math.pi * drawn(uniform, 1 + 2 * attempt)).cos()
            less = above * (1 - wave) / (above + 1 + wave)  # 1 - cos(angle)
            c = x * (above + less)
            u = 1 - drawn(uniform, 2 + 2 * attempt)
            holds = (c * (2 - c) > u) | ((c / u).log() + 1 - c >= 0)
            found, accepted = where(accepted, found, less), accepted | holds
            if is_settled(accepted):
                break
        angle = 2 * asin((found / 2).clamp(min=0.0, max=1.0).sqrt())
        signed = where(drawn(uniform, 0) < 0.5, -angle, angle)
        turns = (signed + math.pi + self.loc) / (2 * math.pi)
        return (turns - turns.floor()) * (2 * math.pi) - math.pi
