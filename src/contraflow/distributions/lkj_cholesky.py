"""The LKJ distribution of Cholesky factors of correlation matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence

from contraflow.autograd.modes import no_grad
from contraflow.distributions import constraints
from contraflow.distributions.beta import Beta
from contraflow.distributions.distribution import Distribution
from contraflow.distributions.utils import SMALLEST, broadcast_all, standard_normal
from contraflow.ops.creation.create import arange
from contraflow.ops.elementwise.mathematics import mvlgamma
from contraflow.ops.shape.joining import cat
from contraflow.tensors.tensor import Tensor


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices [dim, dim], of the density det**(concentration - 1).

    >>> import contraflow as cf
    >>> d = cf.distributions.LKJCholesky(3, 0.5)
    >>> ((d.sample() ** 2).sum(-1) - 1).abs() < 1e-6
    tensor([True, True, True])
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(
        self, dim: int, concentration: Tensor | float = 1.0, validate_args: bool | None = None
    ) -> None:
        if not isinstance(dim, int) or dim < 2:
            raise ValueError(f"LKJCholesky: dim is {dim}; it must be an integer from 2 on.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        # The onion method: a row is a direction below the diagonal, and a length that is a beta
        # variate (Lewandowski, Kurowicka and Joe, 2009, section 3.2).
        with no_grad():
            concentration, n = self.concentration.unsqueeze(-1), self.dim
            rows = arange(n - 1, dtype=concentration.dtype, device=concentration.device)
            rows = cat([rows[:1], rows])
            lengths = Beta(
                rows + 0.5 + 0 * concentration,
                concentration + 0.5 * (n - 2) - 0.5 * rows,
                validate_args=False,
            )
            noise = standard_normal(self._extended_shape(sample_shape), concentration).tril(-1)
            norms = (noise * noise).sum(-1, keepdim=True).sqrt()
            directions = noise / norms.clamp(min=SMALLEST[noise.dtype])
            below = lengths.sample(sample_shape).unsqueeze(-1).sqrt() * directions
            rest = (1 - (below * below).sum(-1)).clamp(min=SMALLEST[noise.dtype])
            return below + rest.sqrt().diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._given(value)
        concentration, n = self.concentration, self.dim
        order = arange(2, n + 1, dtype=concentration.dtype, device=concentration.device)
        exponents = 2 * (concentration - 1).unsqueeze(-1) + n - order
        density = (exponents * value.diagonal(0, -2, -1)[..., 1:].log()).sum(-1)
        alpha = concentration + 0.5 * (n - 1)
        constant = 0.5 * (n - 1) * math.log(math.pi)
        return density - constant - mvlgamma(alpha - 0.5, p=n - 1) + (n - 1) * alpha.lgamma()
