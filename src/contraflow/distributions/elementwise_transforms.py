"""Transforms of single numbers: exponentials, powers, sigmoids, and the affine one."""

from __future__ import annotations

import math
from typing import Any

from contraflow.distributions import constraints
from contraflow.distributions.constraints import Constraint
from contraflow.distributions.distribution import Distribution
from contraflow.distributions.transform import Transform
from contraflow.distributions.utils import EPSILON, SMALLEST, sum_rightmost
from contraflow.ops.creation.create import full_like
from contraflow.ops.elementwise.activation import logsigmoid, softplus
from contraflow.shapes import broadcast_shapes
from contraflow.tensors.tensor import Tensor


def _equal(a: Any, b: Any) -> bool:
    same = a == b
    return bool(same.all()) if isinstance(same, Tensor) else bool(same)


def _broadcast(shape: Any, *parameters: Any) -> Any:
    shapes = [tuple(shape), *(p.shape for p in parameters if isinstance(p, Tensor))]
    return broadcast_shapes("transform", shapes)


def _log_slope_of_sigmoid(x: Tensor) -> Tensor:
    return logsigmoid(x) + logsigmoid(-x)


class ExpTransform(Transform):
    """y = exp(x).

    >>> import contraflow as cf
    >>> cf.distributions.transforms.ExpTransform()(cf.tensor(1.0))
    tensor(2.7183)
    """

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExpTransform)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class PowerTransform(Transform):
    """y = x**exponent, of positive numbers.

    >>> import contraflow as cf
    >>> cf.distributions.transforms.PowerTransform(2.0)(cf.tensor(3.0))
    tensor(9.)
    """

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Tensor | float, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent: Any = exponent

    @property
    def sign(self) -> Any:
        if isinstance(self.exponent, Tensor):
            return self.exponent.sign()
        return 1 if self.exponent > 0 else -1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and _equal(self.exponent, other.exponent)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Any) -> Any:
        return _broadcast(shape, self.exponent)

    def inverse_shape(self, shape: Any) -> Any:
        return _broadcast(shape, self.exponent)


class SigmoidTransform(Transform):
    """y = sigmoid(x), kept inside of (0, 1).

    >>> import contraflow as cf
    >>> cf.distributions.transforms.SigmoidTransform().inv(cf.tensor(0.5))
    tensor(0.)
    """

    domain = constraints.real
    codomain = constraints.unit_interval
    bijective = True
    sign = 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SigmoidTransform)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.sigmoid().clamp(min=SMALLEST[x.dtype], max=1 - EPSILON[x.dtype])

    def _inverse(self, y: Tensor) -> Tensor:
        y = y.clamp(min=SMALLEST[y.dtype], max=1 - EPSILON[y.dtype])
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return _log_slope_of_sigmoid(x)


class SoftplusTransform(Transform):
    """y = log(1 + exp(x)).

    >>> import contraflow as cf
    >>> cf.distributions.transforms.SoftplusTransform()(cf.tensor(0.0))
    tensor(0.6931)
    """

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SoftplusTransform)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-(-y).expm1()).log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return logsigmoid(x)


class TanhTransform(Transform):
    """y = tanh(x). Its inverse overflows where y is rounded to 1: use `cache_size=1`.

    >>> import contraflow as cf
    >>> cf.distributions.transforms.TanhTransform()(cf.tensor(1.0))
    tensor(0.7616)
    """

    domain = constraints.real
    codomain = constraints.interval(-1.0, 1.0)
    bijective = True
    sign = 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TanhTransform)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        # tanh(x) = 2 sigmoid(2 x) - 1
        return _log_slope_of_sigmoid(2 * x) + 2 * math.log(2)


class AbsTransform(Transform):
    """y = |x|, whose inverse gives the positive one of the two.

    >>> import contraflow as cf
    >>> cf.distributions.transforms.AbsTransform()(cf.tensor(-2.0))
    tensor(2.)
    """

    domain = constraints.real
    codomain = constraints.positive

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbsTransform)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class AffineTransform(Transform):
    """y = loc + scale x; the last `event_dim` dims are one event.

    >>> import contraflow as cf
    >>> cf.distributions.transforms.AffineTransform(1.0, 2.0)(cf.tensor(3.0))
    tensor(7.)
    """

    bijective = True

    def __init__(
        self,
        loc: Tensor | float,
        scale: Tensor | float,
        event_dim: int = 0,
        cache_size: int = 0,
    ) -> None:
        super().__init__(cache_size)
        self.loc: Any = loc
        self.scale: Any = scale
        self._event_dim = event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @property
    def domain(self) -> Constraint:
        return constraints.independent(constraints.real, self._event_dim)

    @property
    def codomain(self) -> Constraint:
        return constraints.independent(constraints.real, self._event_dim)

    @property
    def sign(self) -> Any:
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return (self.scale > 0) - (self.scale < 0)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, AffineTransform)
            and _equal(self.loc, other.loc)
            and _equal(self.scale, other.scale)
        )

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if isinstance(self.scale, Tensor):
            slope = self.scale.abs().log().expand(broadcast_shapes("", [x.shape, self.scale.shape]))
        else:
            slope = full_like(x, math.log(abs(self.scale)))
        return sum_rightmost(slope, self._event_dim)

    def forward_shape(self, shape: Any) -> Any:
        return _broadcast(shape, self.loc, self.scale)

    def inverse_shape(self, shape: Any) -> Any:
        return _broadcast(shape, self.loc, self.scale)


class CumulativeDistributionTransform(Transform):
    """y = cdf(x) of a distribution of numbers.

    >>> import contraflow as cf
    >>> d = cf.distributions
    >>> d.transforms.CumulativeDistributionTransform(d.Normal(0.0, 1.0))(cf.tensor(0.0))
    tensor(0.5000)
    """

    bijective = True
    codomain = constraints.unit_interval
    sign = 1

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:
        return self.distribution.support

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)
