"""Integers that reach a device on which int64 has 32 bits: those that do not fit are refused.

Results that kernels compute are checked by themselves (`compiler/narrow_integers.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from contraflow.compiler.kernel import Kernel
from contraflow.compiler.narrow_integers import OVERFLOW
from contraflow.compiler.plan import SCALARS, KernelStep
from contraflow.devices.failures import IndexOutOfRange
from contraflow.errors import DeviceError

_INT32 = np.iinfo(np.int32)


def check_elements(device: str, array: np.ndarray) -> None:
    """Refuse an array of int64 with elements that do not fit."""
    if array.size and not (_INT32.min <= array.min() and array.max() <= _INT32.max):
        outside = array[(array < _INT32.min) | (array > _INT32.max)].reshape(-1)[0]
        raise DeviceError(
            f"to: {device} holds int64 in 32 bits, and {outside} does not fit. "
            "Keep this tensor on the cpu."
        )


def packed_scalars(
    step: KernelStep,
    scalars: Sequence[float | int],
    pack: Callable[[Kernel, Sequence[float | int]], bytes],
) -> bytes:
    """The host scalars of a step as its kernel takes them. An integer that does not fit is told as
    one that the kernel finds too large."""
    given = [scalars[b.offset] if b.slot == SCALARS else 0 for b in step.bindings]
    try:
        return pack(step.call.kernel, given)
    except DeviceError:
        raise IndexOutOfRange(OVERFLOW, step.line) from None
