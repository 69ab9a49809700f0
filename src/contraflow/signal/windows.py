"""Window functions: weights that fall off towards the ends of a part of a signal.

A symmetric window of M points ends where it began; one that is not symmetric (`sym=False`) leaves
the last point out, so that copies side by side are periodic. The functions at the top of the
package (`contraflow.hann_window`) are periodic unless asked otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from contraflow.devices.names import Device
from contraflow.dtypes import DType, float64
from contraflow.names import getter
from contraflow.operation.public import creation
from contraflow.ops.creation.create import (
    arange,
    check_options,
    finish,
    linspace,
    of_doubles,
    ones,
    zeros,
)
from contraflow.ops.elementwise.basic import abs_, cos, exp, sin, sqrt, where
from contraflow.ops.elementwise.bessel import i0
from contraflow.tensors.tensor import Tensor

DeviceLike = Device | str | None


def _check_length(op: str, M: int) -> None:
    if not isinstance(M, int) or M < 0:
        raise ValueError(f"{op}: {M!r} is not a number of points.")


def _positions(M: int, sym: bool) -> Tensor:
    """The points 0, ..., M - 1 of a window, as parts of its length."""
    at: Tensor = arange(M, dtype=float64) / max(M - 1 if sym else M, 1)
    return at


def _made(
    op: str, M: int, compute: Callable[[], Tensor], dtype: DType | None, device: DeviceLike,
    requires_grad: bool,
) -> Tensor:  # fmt: skip
    """A window whose points `compute` gives in float64; that of one point is 1."""
    dtype = check_options(op, dtype, device, requires_grad)
    if not dtype.is_floating_point:
        raise TypeError(f"{op}: {dtype} is not a floating-point dtype.")
    if M == 1:
        return ones(1, dtype=dtype, device=device, requires_grad=requires_grad)
    return finish(of_doubles(op, compute, dtype, device), requires_grad)


@creation
def general_cosine(
    M: int, *, a: Sequence[float], sym: bool = True, dtype: DType | None = None,
    device: DeviceLike = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A sum of cosines, a[0] - a[1] cos(2 pi t) + a[2] cos(4 pi t) - ...

    >>> general_cosine(3, a=[0.5, 0.5])
    tensor([0., 1., 0.])
    """
    _check_length("general_cosine", M)

    def compute() -> Tensor:
        at = _positions(M, sym) * (2 * math.pi)
        total: Tensor = zeros(M, dtype=float64)
        for k, weight in enumerate(a):
            total = total + cos(at * k) * ((-1) ** k * weight)
        return total

    return _made("general_cosine", M, compute, dtype, device, requires_grad)


@creation
def general_hamming(
    M: int, *, alpha: float = 0.54, sym: bool = True, dtype: DType | None = None,
    device: DeviceLike = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """alpha - (1 - alpha) cos(2 pi t).

    >>> general_hamming(3, alpha=0.75)
    tensor([0.5000, 1.0000, 0.5000])
    """
    return general_cosine(
        M, a=[alpha, 1.0 - alpha], sym=sym, dtype=dtype, device=device, requires_grad=requires_grad
    )


@creation
def hamming(
    M: int, *, sym: bool = True, dtype: DType | None = None, device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """0.54 - 0.46 cos(2 pi t).

    >>> hamming(3)
    tensor([0.0800, 1.0000, 0.0800])
    """
    return general_hamming(M, sym=sym, dtype=dtype, device=device, requires_grad=requires_grad)


@creation
def hann(
    M: int, *, sym: bool = True, dtype: DType | None = None, device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """0.5 - 0.5 cos(2 pi t).

    >>> hann(3)
    tensor([0., 1., 0.])
    """
    return general_hamming(
        M, alpha=0.5, sym=sym, dtype=dtype, device=device, requires_grad=requires_grad
    )


@creation
def blackman(
    M: int, *, sym: bool = True, dtype: DType | None = None, device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """0.42 - 0.5 cos(2 pi t) + 0.08 cos(4 pi t).

    >>> blackman(3)[1]
    tensor(1.)
    """
    return general_cosine(
        M, a=[0.42, 0.5, 0.08], sym=sym, dtype=dtype, device=device, requires_grad=requires_grad
    )


@creation
def nuttall(
    M: int, *, sym: bool = True, dtype: DType | None = None, device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Nuttall's sum of four cosines, whose side lobes are small.

    >>> nuttall(3)[1]
    tensor(1.)
    """
    return general_cosine(
        M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, dtype=dtype, device=device,
        requires_grad=requires_grad,
    )  # fmt: skip


@creation
def bartlett(
    M: int, *, sym: bool = True, dtype: DType | None = None, device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A triangle that begins with zero.

    >>> bartlett(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    _check_length("bartlett", M)

    def compute() -> Tensor:
        triangle: Tensor = 1.0 - abs_(2.0 * _positions(M, sym) - 1.0)
        return triangle

    return _made("bartlett", M, compute, dtype, device, requires_grad)


@creation
def cosine(
    M: int, *, sym: bool = True, dtype: DType | None = None, device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Half a period of a sine, whose zeros lie half a point outside.

    >>> cosine(2, sym=False)
    tensor([0.5000, 1.0000])
    """
    _check_length("cosine", M)

    def compute() -> Tensor:
        at = (arange(M, dtype=float64) + 0.5) / max(M if sym else M + 1, 1)
        half: Tensor = sin(at * math.pi)
        return half

    return _made("cosine", M, compute, dtype, device, requires_grad)


@creation
def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True,
    dtype: DType | None = None, device: DeviceLike = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """exp(-|n - center| / tau).

    >>> exponential(3, tau=2.0)
    tensor([0.6065, 1.0000, 0.6065])
    """
    if tau <= 0:
        raise ValueError(f"exponential: tau is {tau}; it must be positive.")
    if center is not None and sym:
        raise ValueError("exponential: a symmetric window has its center in the middle.")
    _check_length("exponential", M)
    middle = (M - 1 if sym else M) / 2.0 if center is None else center

    def compute() -> Tensor:
        falling: Tensor = exp(abs_(arange(M, dtype=float64) - middle) * (-1.0 / tau))
        return falling

    return _made("exponential", M, compute, dtype, device, requires_grad)


@creation
def gaussian(
    M: int, *, std: float = 1.0, sym: bool = True, dtype: DType | None = None,
    device: DeviceLike = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """exp(-(n / std)**2 / 2), with n counted from the middle.

    >>> gaussian(3)
    tensor([0.6065, 1.0000, 0.6065])
    """
    if std <= 0:
        raise ValueError(f"gaussian: std is {std}; it must be positive.")
    _check_length("gaussian", M)

    def compute() -> Tensor:
        at = (arange(M, dtype=float64) - (M - 1 if sym else M) / 2.0) / std
        bell: Tensor = exp(at * at * -0.5)
        return bell

    return _made("gaussian", M, compute, dtype, device, requires_grad)


@creation
def kaiser(
    M: int, *, beta: float = 12.0, sym: bool = True, dtype: DType | None = None,
    device: DeviceLike = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """I0(beta sqrt(1 - x**2)) / I0(beta), with x from -1 to 1.

    >>> kaiser(3)[1]
    tensor(1.)
    """
    if beta < 0:
        raise ValueError(f"kaiser: beta is {beta}; it must not be negative.")
    _check_length("kaiser", M)

    def compute() -> Tensor:
        x = 2.0 * _positions(M, sym) - 1.0
        inside = 1.0 - x * x
        shape = i0(sqrt(where(inside > 0, inside, 0.0)) * beta)
        found: Tensor = shape / i0(linspace(beta, beta, 1, dtype=float64))
        return found

    return _made("kaiser", M, compute, dtype, device, requires_grad)


# --- under the names at the top of the package -------------------------------------------------


@creation
def hann_window(
    window_length: int, periodic: bool = True, *, dtype: DType | None = None,
    device: DeviceLike = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """`signal.windows.hann`, periodic unless asked otherwise.

    >>> hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return hann(
        window_length, sym=not periodic, dtype=dtype, device=device, requires_grad=requires_grad
    )


@creation
def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *,
    dtype: DType | None = None, device: DeviceLike = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """alpha - beta cos(2 pi t), periodic unless asked otherwise.

    >>> hamming_window(4, alpha=0.5, beta=0.5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return general_cosine(
        window_length, a=[alpha, beta], sym=not periodic, dtype=dtype, device=device,
        requires_grad=requires_grad,
    )  # fmt: skip


@creation
def blackman_window(
    window_length: int, periodic: bool = True, *, dtype: DType | None = None,
    device: DeviceLike = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """`signal.windows.blackman`, periodic unless asked otherwise.

    >>> blackman_window(4)[2]
    tensor(1.)
    """
    return blackman(
        window_length, sym=not periodic, dtype=dtype, device=device, requires_grad=requires_grad
    )


@creation
def bartlett_window(
    window_length: int, periodic: bool = True, *, dtype: DType | None = None,
    device: DeviceLike = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """`signal.windows.bartlett`, periodic unless asked otherwise.

    >>> bartlett_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return bartlett(
        window_length, sym=not periodic, dtype=dtype, device=device, requires_grad=requires_grad
    )


@creation
def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: DType | None = None,
    device: DeviceLike = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """`signal.windows.kaiser`, periodic unless asked otherwise.

    >>> kaiser_window(4)[2]
    tensor(1.)
    """
    return kaiser(
        window_length, beta=beta, sym=not periodic, dtype=dtype, device=device,
        requires_grad=requires_grad,
    )  # fmt: skip


__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]

globals()["__getattr__"] = getter(__name__)
