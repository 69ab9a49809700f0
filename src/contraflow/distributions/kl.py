"""Kullback-Leibler divergences: the table of pairs, and the choice among its entries.

The formulas are in `divergences.py`, those of vectors and of distributions made of others in
`event_divergences.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from contraflow.distributions.distribution import Distribution
from contraflow.tensors.tensor import Tensor

F = TypeVar("F", bound=Callable[[Any, Any], Tensor])
_PAIRS: dict[tuple[type, type], Callable[[Any, Any], Tensor]] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[F], F]:
    """Decorator of a function (p, q) that gives KL(p || q) for two classes and their subclasses.

    >>> import contraflow as cf
    >>> D = cf.distributions
    >>> class Mine(D.Normal):
    ...     pass
    >>> @D.register_kl(Mine, Mine)
    ... def kl(p, q):
    ...     return p.loc - q.loc
    >>> D.kl_divergence(Mine(3.0, 1.0), Mine(1.0, 1.0))
    tensor(2.)
    """
    for given in (type_p, type_q):
        if not (isinstance(given, type) and issubclass(given, Distribution)):
            raise TypeError(f"register_kl: {given!r} is not a class of distributions.")

    def decorator(function: F) -> F:
        _PAIRS[type_p, type_q] = function
        return function

    return decorator


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """KL(p || q) = E[log p(x) - log q(x)] of x drawn from p, of shape batch_shape.

    >>> import contraflow as cf
    >>> D = cf.distributions
    >>> D.kl_divergence(D.Normal(0.0, 1.0), D.Normal(1.0, 1.0))
    tensor(0.5000)
    """
    function = _find(type(p), type(q))
    if function is None:
        raise NotImplementedError(
            f"kl_divergence: there is no formula for {type(p).__name__} and {type(q).__name__}. "
            f"Register one: register_kl."
        )
    return function(p, q)


def _find(p: type, q: type) -> Callable[[Any, Any], Tensor] | None:
    """The entry whose classes are nearest, those of p before those of q."""
    for left in p.__mro__:
        for right in q.__mro__:
            if (left, right) in _PAIRS:
                return _PAIRS[left, right]
    return None
