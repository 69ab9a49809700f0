"""The multivariate normal distribution with a covariance of low rank plus a diagonal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from contraflow.distributions import constraints
from contraflow.distributions.distribution import Distribution
from contraflow.distributions.multivariate_normal import half_log_det, solve_lower
from contraflow.distributions.utils import standard_normal
from contraflow.errors import describe
from contraflow.ops.creation.create import eye
from contraflow.ops.linalg.solve import cholesky
from contraflow.shapes import broadcast_shapes
from contraflow.tensors.tensor import Tensor


class LowRankMultivariateNormal(Distribution):
    """Normal vectors of mean `loc` [..., n] and the covariance W W' + diag(d).

    W is `cov_factor` [..., n, rank] and d is `cov_diag` [..., n]. Only matrices [rank, rank] are
    factorised (the lemmas of Woodbury).

    >>> import contraflow as cf
    >>> W, d = cf.ones(3, 1), cf.ones(3)
    >>> cf.distributions.LowRankMultivariateNormal(cf.zeros(3), W, d).variance
    tensor([2., 2., 2.])
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        cov_factor: Tensor,
        cov_diag: Tensor,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(loc, Tensor) or not loc.ndim:
            raise ValueError(
                f"LowRankMultivariateNormal: loc is {describe(loc)}; it must be a vector."
            )
        n = loc.shape[-1]
        if cov_factor.ndim < 2 or cov_factor.shape[-2] != n:
            raise ValueError(
                f"LowRankMultivariateNormal: cov_factor is {describe(cov_factor)}; for loc of {n} "
                f"elements it must end in ({n}, rank)."
            )
        if not cov_diag.ndim or cov_diag.shape[-1] != n:
            raise ValueError(
                f"LowRankMultivariateNormal: cov_diag is {describe(cov_diag)}; for loc of {n} "
                f"elements it must end in ({n},)."
            )
        batch = broadcast_shapes(
            "LowRankMultivariateNormal",
            [loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1]],
        )
        self.loc = loc.expand(*batch, n)
        self.cov_factor = cov_factor.expand(*batch, *cov_factor.shape[-2:])
        self.cov_diag = cov_diag.expand(*batch, n)
        super().__init__(batch, (n,), validate_args)

    def _capacitance_tril(self) -> Tensor:
        """The Cholesky factor of I + W' diag(d)^-1 W, [rank, rank]."""
        rank = self.cov_factor.shape[-1]
        inside = self.cov_factor.mT @ (self.cov_factor / self.cov_diag.unsqueeze(-1))
        return cholesky(inside + eye(rank, dtype=inside.dtype, device=inside.device))

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return (self.cov_factor * self.cov_factor).sum(-1) + self.cov_diag

    @property
    def covariance_matrix(self) -> Tensor:
        """The covariance [..., n, n]."""
        return self.cov_factor @ self.cov_factor.mT + self.cov_diag.diag_embed()

    @property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance [..., n, n]."""
        return cholesky(self.covariance_matrix)

    @property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance [..., n, n]."""
        scaled = (self.cov_factor / self.cov_diag.unsqueeze(-1)).mT
        part = solve_lower(self._capacitance_tril(), scaled)
        return self.cov_diag.reciprocal().diag_embed() - part.mT @ part

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        few = standard_normal((*shape[:-1], self.cov_factor.shape[-1]), self.loc)
        many = standard_normal(shape, self.loc)
        mixed = (self.cov_factor @ few.unsqueeze(-1)).squeeze(-1)
        return self.loc + mixed + self.cov_diag.sqrt() * many

    def squared_distance(self, x: Tensor) -> Tensor:
        """x' covariance^-1 x of vectors [..., n]."""
        scaled = x / self.cov_diag
        inner = self.cov_factor.mT @ scaled.unsqueeze(-1)
        solved = solve_lower(self._capacitance_tril(), inner).squeeze(-1)
        return (scaled * x).sum(-1) - (solved * solved).sum(-1)

    def half_log_det(self) -> Tensor:
        """Half of the logarithm of the determinant of the covariance."""
        return half_log_det(self._capacitance_tril()) + 0.5 * self.cov_diag.log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        distance = self.squared_distance(self._given(value) - self.loc)
        constant = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + distance) - self.half_log_det()

    def entropy(self) -> Tensor:
        return 0.5 * self._event_shape[0] * (1 + math.log(2 * math.pi)) + self.half_log_det()
