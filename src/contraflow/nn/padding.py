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
    """Signals [n, c, l] padded with one value.

    >>> import contraflow as cf
    >>> layer = cf.nn.ConstantPad1d(1, 0.5)
    >>> layer(cf.ones(2, 4, 8)).shape
    (2, 4, 10)
    """

    dims = 1


class ConstantPad2d(_ConstantPad):
    """Images [n, c, h, w] padded with one value.

    >>> import contraflow as cf
    >>> layer = cf.nn.ConstantPad2d(1, 0.5)
    >>> layer(cf.ones(2, 4, 8, 8)).shape
    (2, 4, 10, 10)
    """

    dims = 2


class ConstantPad3d(_ConstantPad):
    """Volumes [n, c, d, h, w] padded with one value.

    >>> import contraflow as cf
    >>> layer = cf.nn.ConstantPad3d(1, 0.5)
    >>> layer(cf.ones(2, 4, 8, 8, 8)).shape
    (2, 4, 10, 10, 10)
    """

    dims = 3


class ZeroPad1d(_Pad):
    """Signals [n, c, l] padded with zeros.

    >>> import contraflow as cf
    >>> layer = cf.nn.ZeroPad1d(1)
    >>> layer(cf.ones(2, 4, 8)).shape
    (2, 4, 10)
    """

    dims, mode = 1, "constant"


class ZeroPad2d(_Pad):
    """Images [n, c, h, w] padded with zeros.

    >>> import contraflow as cf
    >>> cf.nn.ZeroPad2d((1, 1, 0, 2))(cf.ones(1, 1, 2, 3)).shape
    (1, 1, 4, 5)
    """

    dims, mode = 2, "constant"


class ZeroPad3d(_Pad):
    """Volumes [n, c, d, h, w] padded with zeros.

    >>> import contraflow as cf
    >>> layer = cf.nn.ZeroPad3d(1)
    >>> layer(cf.ones(2, 4, 8, 8, 8)).shape
    (2, 4, 10, 10, 10)
    """

    dims, mode = 3, "constant"


class ReflectionPad1d(_Pad):
    """Signals [n, c, l] padded by reflection at the edges.

    >>> import contraflow as cf
    >>> layer = cf.nn.ReflectionPad1d(1)
    >>> layer(cf.ones(2, 4, 8)).shape
    (2, 4, 10)
    """

    dims, mode = 1, "reflect"


class ReflectionPad2d(_Pad):
    """Images [n, c, h, w] padded by reflection at the edges.

    >>> import contraflow as cf
    >>> layer = cf.nn.ReflectionPad2d(1)
    >>> layer(cf.ones(2, 4, 8, 8)).shape
    (2, 4, 10, 10)
    """

    dims, mode = 2, "reflect"


class ReflectionPad3d(_Pad):
    """Volumes [n, c, d, h, w] padded by reflection at the edges.

    >>> import contraflow as cf
    >>> layer = cf.nn.ReflectionPad3d(1)
    >>> layer(cf.ones(2, 4, 8, 8, 8)).shape
    (2, 4, 10, 10, 10)
    """

    dims, mode = 3, "reflect"


class ReplicationPad1d(_Pad):
    """Signals [n, c, l] padded by repeating the elements at the edges.

    >>> import contraflow as cf
    >>> layer = cf.nn.ReplicationPad1d(1)
    >>> layer(cf.ones(2, 4, 8)).shape
    (2, 4, 10)
    """

    dims, mode = 1, "replicate"


class ReplicationPad2d(_Pad):
    """Images [n, c, h, w] padded by repeating the elements at the edges.

    >>> import contraflow as cf
    >>> layer = cf.nn.ReplicationPad2d(1)
    >>> layer(cf.ones(2, 4, 8, 8)).shape
    (2, 4, 10, 10)
    """

    dims, mode = 2, "replicate"


class ReplicationPad3d(_Pad):
    """Volumes [n, c, d, h, w] padded by repeating the elements at the edges.

    >>> import contraflow as cf
    >>> layer = cf.nn.ReplicationPad3d(1)
    >>> layer(cf.ones(2, 4, 8, 8, 8)).shape
    (2, 4, 10, 10, 10)
    """

    dims, mode = 3, "replicate"


class CircularPad1d(_Pad):
    """Signals [n, c, l] padded circularly, with elements of the opposite end.

    >>> import contraflow as cf
    >>> layer = cf.nn.CircularPad1d(1)
    >>> layer(cf.ones(2, 4, 8)).shape
    (2, 4, 10)
    """

    dims, mode = 1, "circular"


class CircularPad2d(_Pad):
    """Images [n, c, h, w] padded circularly, with elements of the opposite end.

    >>> import contraflow as cf
    >>> layer = cf.nn.CircularPad2d(1)
    >>> layer(cf.ones(2, 4, 8, 8)).shape
    (2, 4, 10, 10)
    """

    dims, mode = 2, "circular"


class CircularPad3d(_Pad):
    """Volumes [n, c, d, h, w] padded circularly, with elements of the opposite end.

    >>> import contraflow as cf
    >>> layer = cf.nn.CircularPad3d(1)
    >>> layer(cf.ones(2, 4, 8, 8, 8)).shape
    (2, 4, 10, 10, 10)
    """

    dims, mode = 3, "circular"
