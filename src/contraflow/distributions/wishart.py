"""The Wishart distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from contraflow.distributions import constraints
from contraflow.distributions.exp_family import ExponentialFamily
from contraflow.distributions.multivariate_normal import (
    CovarianceByFactor,
    factor_of_precision,
    half_log_det,
    one_matrix,
    solve_lower,
)
from contraflow.distributions.utils import broadcast_all, lazy_property, standard_normal
from contraflow.ops.creation.create import arange, eye
from contraflow.ops.creation.gamma import standard_log_gamma
from contraflow.ops.elementwise.basic import where
from contraflow.ops.elementwise.mathematics import mvlgamma
from contraflow.ops.linalg.decompositions import slogdet
from contraflow.ops.linalg.solve import cholesky
from contraflow.shapes import broadcast_shapes
from contraflow.tensors.tensor import Tensor


class Wishart(CovarianceByFactor, ExponentialFamily):
    """Sums of outer products of `df` normal vectors of mean 0: matrices [..., n, n].

    Their covariance is given by one of `covariance_matrix`, `precision_matrix` and `scale_tril`, as
    for `MultivariateNormal`. `df` is above n - 1.

    >>> import contraflow as cf
    >>> cf.distributions.Wishart(cf.tensor(3.0), cf.eye(2)).mean
    tensor([[3., 0.],
            [0., 3.]])
    """

    support = constraints.positive_definite
    has_rsample = True

    def __init__(
        self,
        df: Tensor | float,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = one_matrix(
            "Wishart",
            covariance_matrix=covariance_matrix,
            precision_matrix=precision_matrix,
            scale_tril=scale_tril,
        )
        if matrix.shape[-1] != matrix.shape[-2]:
            raise ValueError(f"Wishart: {name} has the shape {matrix.shape}; it must be square.")
        given = df if isinstance(df, Tensor) else broadcast_all(matrix, df)[1][..., 0, 0]
        batch = broadcast_shapes("Wishart", [matrix.shape[:-2], given.shape])
        self.df = given.expand(batch)
        self.__dict__[name] = matrix.expand(*batch, *matrix.shape[-2:])
        super().__init__(batch, matrix.shape[-2:], validate_args)
        if name != "scale_tril":
            make = cholesky if name == "covariance_matrix" else factor_of_precision
            self._factor = make(self.__dict__[name])

    @property
    def arg_constraints(self) -> Any:
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self._event_shape[0] - 1),
        }

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        inverse = solve_lower(self.scale_tril, self._unit())
        return inverse.mT @ inverse

    def _unit(self) -> Tensor:
        n = self._event_shape[0]
        unit = eye(n, dtype=self.df.dtype, device=self.df.device)
        return unit.expand(*self._batch_shape, n, n)

    @property
    def mean(self) -> Tensor:
        return self.df[..., None, None] * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = (self.df - self._event_shape[0] - 1)[..., None, None]
        return where(factor > 0, factor, math.nan) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        v = self.covariance_matrix
        own = v.diagonal(0, -2, -1)
        return self.df[..., None, None] * (v * v + own.unsqueeze(-1) * own.unsqueeze(-2))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        # Bartlett's decomposition: chi-squared variates of df, df - 1, ... on the diagonal.
        shape, n = self._extended_shape(sample_shape), self._event_shape[0]
        freedom = self.df.unsqueeze(-1) - arange(n, dtype=self.df.dtype, device=self.df.device)
        halves = (0.5 * freedom).expand(shape[:-1])
        roots = (0.5 * (standard_log_gamma(halves) + math.log(2))).exp()
        noise = standard_normal(shape, self.df).tril(-1) + roots.diag_embed()
        factor = self.scale_tril @ noise
        return factor @ factor.mT

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._given(value)
        nu, n = self.df, self._event_shape[0]
        solved = solve_lower(self.scale_tril, value)
        solved = solve_lower(self.scale_tril, solved.mT)
        trace = solved.diagonal(0, -2, -1).sum(-1)
        return (
            -nu * (0.5 * n * math.log(2) + half_log_det(self.scale_tril))
            - mvlgamma(0.5 * nu, p=n)
            + 0.5 * (nu - n - 1) * slogdet(value)[1]
            - 0.5 * trace
        )

    def entropy(self) -> Tensor:
        nu, n = self.df, self._event_shape[0]
        numbers = arange(n, dtype=nu.dtype, device=nu.device)
        digammas = (0.5 * (nu.unsqueeze(-1) - numbers)).digamma().sum(-1)
        return (
            (n + 1) * (0.5 * n * math.log(2) + half_log_det(self.scale_tril))
            + mvlgamma(0.5 * nu, p=n)
            - 0.5 * (nu - n - 1) * digammas
            + 0.5 * nu * n
        )

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return 0.5 * self.df, -0.5 * self.precision_matrix

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        n = y.shape[-1]
        return x * (n * math.log(2) - slogdet(-2 * y)[1]) + mvlgamma(x, p=n)
