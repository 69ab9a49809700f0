"""Padding layers over one, two and three spatial dims; negative widths crop."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import ClassVar

from contraflow.nn import functional as F
from contraflow.nn.applied import Applied
from contraflow.ops.nn.window import numbers
from contraflow.tensors.tensor import Tensor


class _Pad(Applied, hidden=()):
    """A border around [n, c, ...]: one width, or two for each spatial dim, the last one's first."""

    dims: ClassVar[int]
    mode: ClassVar[str]
    padding: int | Sequence[int]

    def __post_init__(self) -> None:
        name, sides = type(self).__name__, 2 * self.dims
        self.padding = numbers(name, "padding", self.padding, sides, -sys.maxsize)

    def forward(self, input: Tensor) -> Tensor:
        out: Tensor = F.pad(input, self.padding, self.mode)
        return out

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad, hidden=()):
    value: float

    def forward(self, input: Tensor) -> Tensor:
        out: Tensor = F.pad(input, self.padding, "constant", self.value)
        return out

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    """One value around signals [n, c, l]."""

    dims = 1


class ConstantPad2d(_ConstantPad):
    """One value around images [n, c, h, w]."""

    dims = 2


class ConstantPad3d(_ConstantPad):
    """One value around volumes [n, c, d, h, w]."""

    dims = 3


class ZeroPad1d(_Pad):
    """Zeros around signals [n, c, l]."""

    dims, mode = 1, "constant"


class ZeroPad2d(_Pad):
    """Zeros around images [n, c, h, w].

    >>> import contraflow as cf
    >>> cf.nn.ZeroPad2d((1, 1, 0, 2))(cf.ones(1, 1, 2, 3)).shape
    (1, 1, 4, 5)
    """

    dims, mode = 2, "constant"


class ZeroPad3d(_Pad):
    """Zeros around volumes [n, c, d, h, w]."""

    dims, mode = 3, "constant"


class ReflectionPad1d(_Pad):
    """What lies within around signals [n, c, l], mirrored at the edge."""

    dims, mode = 1, "reflect"


class ReflectionPad2d(_Pad):
    """What lies within around images [n, c, h, w], mirrored at the edge."""

    dims, mode = 2, "reflect"


class ReflectionPad3d(_Pad):
    """What lies within around volumes [n, c, d, h, w], mirrored at the edge."""

    dims, mode = 3, "reflect"


class ReplicationPad1d(_Pad):
    """The edge around signals [n, c, l], repeated."""

    dims, mode = 1, "replicate"


class ReplicationPad2d(_Pad):
    """The edge around images [n, c, h, w], repeated."""

    dims, mode = 2, "replicate"


class ReplicationPad3d(_Pad):
    """The edge around volumes [n, c, d, h, w], repeated."""

    dims, mode = 3, "replicate"


class CircularPad1d(_Pad):
    """What lies at the other end around signals [n, c, l]."""

    dims, mode = 1, "circular"


class CircularPad2d(_Pad):
    """What lies at the other end around images [n, c, h, w]."""

    dims, mode = 2, "circular"


class CircularPad3d(_Pad):
    """What lies at the other end around volumes [n, c, d, h, w]."""

    dims, mode = 3, "circular"
