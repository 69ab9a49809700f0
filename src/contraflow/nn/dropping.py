"""Dropout as functions: of elements, of whole channels, and the kinds that keep the variance."""

from __future__ import annotations

from contraflow.errors import describe
from contraflow.operation.public import public
from contraflow.ops.creation.random import dropout as _dropout
from contraflow.ops.nn.dropout import alpha_dropout as _alpha_dropout
from contraflow.ops.nn.dropout import feature_alpha_dropout as _feature_alpha_dropout
from contraflow.ops.nn.dropout import feature_dropout as _feature_dropout
from contraflow.tensors.tensor import Tensor


@public
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero each element with probability p and scale the others by 1 / (1 - p).

    >>> import contraflow as cf
    >>> cf.nn.functional.dropout(cf.ones(4), 0.5, training=False)
    tensor([1., 1., 1., 1.])
    """
    return _placed(input, _dropout(input, p, training), inplace)


def _placed(input: Tensor, out: Tensor, inplace: bool) -> Tensor:
    return input.copy_(out) if inplace else out


@public
def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Drop elements with probability p, keeping zero mean and unit variance.

    >>> import contraflow as cf
    >>> cf.nn.functional.alpha_dropout(cf.ones(2, 3), training=True).shape
    (2, 3)
    """
    return _placed(input, _alpha_dropout(input, p, training), inplace)


@public
def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Drop whole channels [n, c, ...] with probability p, keeping zero mean and unit variance.

    >>> import contraflow as cf
    >>> cf.nn.functional.feature_alpha_dropout(cf.ones(2, 3, 4), training=True).shape
    (2, 3, 4)
    """
    return _placed(input, _feature_alpha_dropout(input, p, training), inplace)


@public
def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zero whole channels of [n, c, l] or [c, l] with probability p.

    >>> import contraflow as cf
    >>> cf.nn.functional.dropout1d(cf.ones(2, 3, 4)).shape
    (2, 3, 4)
    """
    return _drop_channels("dropout1d", input, p, training, inplace, (2, 3))


@public
def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zero whole channels of [n, c, h, w] with probability p; three dims are [n, c, l].

    >>> import contraflow as cf
    >>> cf.nn.functional.dropout2d(cf.ones(2, 3, 4, 4)).shape
    (2, 3, 4, 4)
    """
    return _drop_channels("dropout2d", input, p, training, inplace, (3, 4))


@public
def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zero whole channels of [n, c, d, h, w] or [c, d, h, w] with probability p.

    >>> import contraflow as cf
    >>> cf.nn.functional.dropout3d(cf.ones(2, 3, 4, 4, 4)).shape
    (2, 3, 4, 4, 4)
    """
    return _drop_channels("dropout3d", input, p, training, inplace, (4, 5))


def _drop_channels(
    name: str, input: Tensor, p: float, training: bool, inplace: bool, ranks: tuple[int, int]
) -> Tensor:
    if input.ndim not in ranks:
        raise ValueError(
            f"{name}: {describe(input)} has {input.ndim} dims; it needs {ranks[0]} or {ranks[1]}."
        )
    single = name != "dropout2d" and input.ndim == ranks[0]  # a sample without a batch
    out = _feature_dropout(input[None] if single else input, p, training)
    return _placed(input, out[0] if single else out, inplace)
