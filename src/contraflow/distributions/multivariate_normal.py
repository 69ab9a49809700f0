"""The multivariate normal distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence

from contraflow.distributions import constraints
from contraflow.distributions.distribution import Distribution
from contraflow.distributions.utils import lazy_property, standard_normal
from contraflow.errors import describe
from contraflow.ops.creation.create import eye
from contraflow.ops.linalg.solve import cholesky, solve_triangular
from contraflow.ops.shape.arrange import flip
from contraflow.shapes import broadcast_shapes
from contraflow.tensors.tensor import Tensor


def solve_lower(factor: Tensor, x: Tensor) -> Tensor:
    """factor^-1 x of a lower triangular factor and matrices, whose batches broadcast."""
    batch = broadcast_shapes("solve_triangular", [factor.shape[:-2], x.shape[:-2]])
    return solve_triangular(
        factor.expand(*batch, *factor.shape[-2:]), x.expand(*batch, *x.shape[-2:]), upper=False
    )


def squared_distance(factor: Tensor, x: Tensor) -> Tensor:
    """|factor^-1 x|**2 of vectors: Mahalanobis' distance, by the factor of the covariance."""
    solved = solve_lower(factor, x.unsqueeze(-1)).squeeze(-1)
    return (solved * solved).sum(-1)


def half_log_det(factor: Tensor) -> Tensor:
    """Half of the logarithm of the determinant, by a Cholesky factor."""
    return factor.diagonal(0, -2, -1).log().sum(-1)


def factor_of_precision(precision: Tensor) -> Tensor:
    """The Cholesky factor of the inverse of a matrix."""
    # Turned round, the factor of the precision is upper triangular: the inverse of the one wanted.
    turned = flip(cholesky(flip(precision, (-2, -1))), (-2, -1)).mT
    n = precision.shape[-1]
    return solve_lower(
        turned, eye(n, dtype=precision.dtype, device=precision.device).expand(turned.shape)
    )


def one_matrix(subject: str, **given: Tensor | None) -> tuple[str, Tensor]:
    """The one of several parameters that is given, a matrix."""
    there = {name: value for name, value in given.items() if value is not None}
    if len(there) != 1:
        raise ValueError(f"{subject}: give exactly one of {', '.join(given)}.")
    ((name, matrix),) = there.items()
    if not isinstance(matrix, Tensor) or matrix.ndim < 2:
        raise ValueError(f"{subject}: {name} is {describe(matrix)}; it must have two dims or more.")
    return name, matrix


class CovarianceByFactor:
    """The part of distributions whose covariance has a Cholesky factor, given or computed."""

    _factor: Tensor  # unless `scale_tril` is given

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        return self._factor

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        return self.scale_tril @ self.scale_tril.mT


class MultivariateNormal(CovarianceByFactor, Distribution):
    """Normal vectors of mean `loc` [..., n], and one of three matrices [..., n, n].

    These are `covariance_matrix`, its inverse `precision_matrix`, and its Cholesky factor
    `scale_tril`, which is the cheapest.

    >>> import contraflow as cf
    >>> d = cf.distributions.MultivariateNormal(cf.zeros(2), cf.eye(2))
    >>> d.log_prob(cf.zeros(2)), d.variance
    (tensor(-1.8379), tensor([1., 1.]))
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(loc, Tensor) or not loc.ndim:
            raise ValueError(f"MultivariateNormal: loc is {describe(loc)}; it must be a vector.")
        name, matrix = one_matrix(
            "MultivariateNormal",
            covariance_matrix=covariance_matrix,
            precision_matrix=precision_matrix,
            scale_tril=scale_tril,
        )
        n = loc.shape[-1]
        batch = broadcast_shapes("MultivariateNormal", [matrix.shape[:-2], loc.shape[:-1]])
        self.loc = loc.expand(*batch, n)
        self.__dict__[name] = matrix.expand(*batch, *matrix.shape[-2:])
        if matrix.shape[-2:] != (n, n):
            raise ValueError(
                f"MultivariateNormal: {name} is {describe(matrix)}; for loc of {n} elements it "
                f"must end in ({n}, {n})."
            )
        super().__init__(batch, (n,), validate_args)
        if name != "scale_tril":
            make = cholesky if name == "covariance_matrix" else factor_of_precision
            self._factor = make(self.__dict__[name])

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        n = self._event_shape[0]
        unit = eye(n, dtype=self.loc.dtype, device=self.loc.device)
        inverse = solve_lower(self.scale_tril, unit.expand(*self._batch_shape, n, n))
        return inverse.mT @ inverse

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return (self.scale_tril * self.scale_tril).sum(-1)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        drawn = standard_normal(self._extended_shape(sample_shape), self.loc)
        return self.loc + (self.scale_tril @ drawn.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        distance = squared_distance(self.scale_tril, self._given(value) - self.loc)
        constant = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + distance) - half_log_det(self.scale_tril)

    def entropy(self) -> Tensor:
        constant = 0.5 * self._event_shape[0] * (1 + math.log(2 * math.pi))
        return constant + half_log_det(self.scale_tril)
