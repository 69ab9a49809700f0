"""Random numbers: ops of a seed, an offset and the element's position.

Integers, uniforms and masks are bit-identical everywhere; normals to 4 ulp (`philox.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from contraflow.devices.names import Device
from contraflow.dtypes import (
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int64,
    uint8,
    uint32,
)
from contraflow.expressions import expression as s
from contraflow.expressions import philox
from contraflow.operation.context import apply, other_devices
from contraflow.operation.kinds import LINEAR, composite, random
from contraflow.operation.op import Op
from contraflow.operation.public import creation
from contraflow.operation.samples import Failure, Sample
from contraflow.ops.creation.create import check_options, finish, made, on, shape_of
from contraflow.ops.elementwise.basic import where
from contraflow.shapes import Shape, numel
from contraflow.spec import Params
from contraflow.tensors.generator import Generator, default_generator
from contraflow.tensors.tensor import Tensor


def _samples(*dtypes_: DType) -> Any:
    return lambda: [
        Sample((seed, 5), {"shape": shape, "dtype": dtype})
        for dtype in dtypes_
        for seed, shape in ((3, (4, 5)), (-(1 << 40) - 1, (7,)), (0, ()), (1, (0,)))
    ]


# The largest float32 below 1 would round to 1: half-precision numbers keep only leading bits.
_STEPS = {float16: 2.0**11, bfloat16: 2.0**8}


def _uniforms(seed: Any, offset: Any, shape: Any, dtype: DType) -> np.ndarray:
    drawn = philox.uniforms(int(seed), int(offset), numel(shape), dtype.compute).reshape(shape)
    steps = _STEPS.get(dtype)
    return drawn if steps is None else np.floor(drawn * np.float32(steps)) / np.float32(steps)


@random(
    ref=_uniforms,
    dtype="param",
    method=False,
    internal=True,
    samples=_samples(float32, float64, float16, bfloat16),
)
def uniform(seed, offset, *, shape, dtype):
    """Numbers in [0, 1) at (seed, offset)."""
    drawn = philox.uniform(philox.stream(seed, offset), LINEAR, dtype.compute)
    steps = _STEPS.get(dtype)
    return drawn if steps is None else s.floor(drawn * steps) * (1 / steps)


@random(
    ref=lambda seed, offset, shape, dtype: philox.normals(
        int(seed), int(offset), numel(shape), dtype.compute
    ).reshape(shape),
    dtype="param",
    method=False,
    internal=True,
    samples=_samples(float32, float64),
)
def normal(seed, offset, *, shape, dtype):
    """Standard normal numbers at (seed, offset)."""
    return philox.normal(philox.stream(seed, offset), LINEAR, dtype.compute)


def _keep(seed: Any, offset: Any, threshold: Any, shape: Any) -> Any:
    words = philox.words(int(seed), int(offset), numel(shape))
    return (words.astype(np.int64) >= int(threshold)).reshape(shape)


@random(
    ref=_keep,
    dtype=lambda inputs, params: ((None,) * 3, (bool_,)),
    method=False,
    internal=True,
    samples=lambda: (
        Sample((3, 5, philox.threshold(0.3)), {"shape": (4, 5)}),
        Sample((3, 5, philox.threshold(1.0)), {"shape": (6,)}),
    ),
)
def keep_mask(seed, offset, threshold, *, shape):
    """Which elements survive dropout: those whose word reaches the threshold."""
    low, high = s.cast(threshold, uint32), s.cast(threshold >> 32, uint32)
    return philox.keep(philox.stream(seed, offset), LINEAR, low, high)


@random(
    ref=lambda seed, offset, low, span, shape, dtype: philox.integers(
        int(seed), int(offset), numel(shape), int(low), int(low) + int(span)
    ).reshape(shape),
    dtype="param",
    method=False,
    internal=True,
    samples=lambda: (
        Sample((3, 5, -3, 6), {"shape": (4, 5), "dtype": int64}),
        Sample((3, 5, 0, 1 << 32), {"shape": (6,), "dtype": int64}),
        Sample((0, 1, 0, 256), {"shape": (7,), "dtype": uint8}),
        Sample((0, 1, -5, 11), {"shape": (2, 0), "dtype": float32}),
    ),
)
def integers(seed, offset, low, span, *, shape, dtype):
    """Integers in [low, low + span) at (seed, offset); at most 2**32 different ones."""
    drawn = philox.integer(philox.stream(seed, offset), LINEAR, low, s.cast(span, uint32))
    return s.cast(drawn, dtype.compute)


def draw(
    op: Op, shape: Shape, dtype: DType, generator: Generator | None, *numbers: Any,
    device: Device | str | None = None,
) -> Tensor:  # fmt: skip
    """Random numbers of one of the ops above, in a checked shape and dtype, on a checked device."""
    words = numel(shape) * (2 if dtype is float64 and op is not integers else 1)
    params = {"shape": shape, "dtype": dtype}
    if not other_devices:
        return _drawn(op, words, generator or default_generator, numbers, params)
    with on(device):
        return _drawn(op, words, generator or default_generator, numbers, params)


def _drawn(
    op: Op, words: int, generator: Generator, numbers: tuple[Any, ...], params: Params
) -> Tensor:
    drawn = generator.draw(words)
    try:
        return made(op, (*drawn, *numbers), params, None)
    except Exception:  # a device may not have the dtype, or the memory
        generator.put_back(words, drawn)
        raise


def several(
    like: Tensor, shape: Shape, count: int, generator: Generator | None = None
) -> Callable[[Op, int], Tensor]:
    """A function that makes any of `count` draws of a shape, by op and number, beside a tensor.

    All of them are taken from the generator now, so that it is left in the same state by a loop
    that ends early (`is_settled`) and by one that cannot, in a recording.
    """
    blocks = -(-numel(shape) * (2 if like.dtype is float64 else 1) // 4)
    params = {"shape": shape, "dtype": like.dtype}
    with on(like.device):
        seed, offset = (generator or default_generator).draw(4 * blocks * count)

    def drawn(op: Op, i: int) -> Tensor:
        with on(like.device):
            t: Tensor = apply(op, (seed, offset + i * blocks), params)
        return t

    return drawn


def is_settled(done: Tensor) -> bool:
    """Whether all elements are known to be true: not in a recording, nor on a device that waits."""
    known = not done.storage.is_recorded and done.storage.device == "cpu"
    return known and bool(done.all())


def check_floating(
    op: str, dtype: DType | None, device: Device | str | None = None, requires_grad: bool = False
) -> DType:
    """`check_options`, for what cannot give integers."""
    dtype = check_options(op, dtype, device, requires_grad)
    if not dtype.is_floating_point:
        raise TypeError(f"{op}: {dtype} is not a floating-point dtype.")
    return dtype


@creation
def rand(
    *size: Any, dtype: DType | None = None, device: Device | str | None = None,
    requires_grad: bool = False, generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Random numbers, uniform in [0, 1).

    >>> import contraflow as cf
    >>> cf.rand(2, 3).shape
    (2, 3)
    """
    dtype = check_floating("rand", dtype, device, requires_grad)
    drawn = draw(uniform, shape_of("rand", size), dtype, generator, device=device)
    return finish(drawn, requires_grad)


@creation
def randn(
    *size: Any, dtype: DType | None = None, device: Device | str | None = None,
    requires_grad: bool = False, generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Random numbers, standard normal.

    >>> import contraflow as cf
    >>> cf.randn(2, 3).shape
    (2, 3)
    """
    dtype = check_floating("randn", dtype, device, requires_grad)
    drawn = draw(normal, shape_of("randn", size), dtype, generator, device=device)
    return drawn.requires_grad_() if requires_grad else drawn


def check_tensor(op: str, x: Any) -> None:
    """Refuse anything but a tensor, before random numbers are drawn for it."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{op}: expected a tensor, not {type(x).__name__}.")


def _dropout_failures() -> Any:
    yield Failure(
        (np.ones(3),), {"p": 1.5, "training": True}, ValueError, "dropout: p is 1.5; a probability"
    )


@composite(
    ref=lambda x, p, training: x if not training or p == 0 else x * 0.0,
    samples=lambda: (
        Sample((np.linspace(-1.0, 1.0, 6),), {"p": 0.5, "training": False}),
        Sample((np.linspace(-1.0, 1.0, 6),), {"p": 1.0, "training": True}),
    ),
    failures=_dropout_failures,
    method=False,
)
def dropout(x, *, p=0.5, training=True):
    """Zero each element with probability p and scale the others by 1 / (1 - p)."""
    check_tensor("dropout", x)
    threshold = philox.threshold(p)
    if not training or p == 0:
        return x
    seed, offset = default_generator.draw(numel(x.shape))
    mask = apply(keep_mask, (seed, offset, threshold), {"shape": x.shape})
    scale = 1.0 / (1.0 - p) if p < 1 else 0.0
    return where(mask, x * scale, 0.0)
