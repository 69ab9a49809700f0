"""Creation of tensors: constants and ranges.

Every function takes `dtype`, `device` and `requires_grad`, checked before anything is made.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from contraflow import devices, dtypes
from contraflow.devices.cpu import memory
from contraflow.devices.names import CPU, Device
from contraflow.dtypes import DType, float32, float64, int64, uint8
from contraflow.errors import GradientError
from contraflow.expressions import expression as s
from contraflow.expressions.evaluate import saturating_cast
from contraflow.expressions.expression import Number
from contraflow.operation.context import apply, changed, other_devices, outermost, state
from contraflow.operation.kinds import LINEAR, create
from contraflow.operation.op import Op
from contraflow.operation.public import creation
from contraflow.operation.reference import quiet
from contraflow.operation.samples import Sample
from contraflow.ops.elementwise.basic import where
from contraflow.shapes import Shape
from contraflow.spec import Params
from contraflow.tensors import convert
from contraflow.tensors.methods import method
from contraflow.tensors.symbol import is_symbol
from contraflow.tensors.tensor import Tensor

# --- what every creation function takes --------------------------------------------------------


_INTS, _NUMBERS = frozenset((int,)), frozenset((bool, int, float))


def shape_of(op: str, given: Any) -> Shape:
    """Sizes given one by one, or as one sequence."""
    sizes = given[0] if len(given) == 1 and isinstance(given[0], (tuple, list)) else given
    shape = tuple(sizes)
    if not _INTS.issuperset(map(type, shape)):
        try:
            shape = tuple([operator.index(n) for n in sizes])
        except TypeError:
            raise TypeError(f"{op}: the sizes {tuple(sizes)} must be integers.") from None
    for n in shape:
        if n < 0:
            raise ValueError(f"{op}: size {n} in shape {shape} is negative.")
    if math.prod(shape) >= 1 << 60:
        raise ValueError(f"{op}: shape {shape} has more elements than memory can hold.")
    return shape


def check_options(op: str, dtype: Any, device: Device | str | None, requires_grad: bool) -> DType:
    """Refuse a dtype, device or flag that cannot be; the dtype, the default one for None."""
    if device is not None:
        devices.find(op, device)
    if dtype is None:
        dtype = dtypes.get_default_dtype()
    if not isinstance(dtype, DType):
        dtype = dtypes.of_python(dtype)
    if not isinstance(dtype, DType):
        raise TypeError(
            f"{op}: dtype {dtype!r} is not a dtype. Use one such as contraflow.float32."
        )
    if requires_grad and not dtype.is_floating_point:
        raise GradientError(f"{op}: {dtype} is not floating-point and has no gradient.")
    return dtype


def made(op: Op, inputs: tuple[Any, ...], params: Params, device: Device | str | None) -> Tensor:
    """The tensor that a creating op makes on a device, which was checked, or where others lie.

    It comes from numbers and is outside of any graph: where nothing listens the `ref` makes it.
    """
    t: Tensor
    if other_devices:
        with on(device):
            t = apply(op, inputs, params)
        return t
    current = state()
    if current.context.immediate and not current.inference and len(params["shape"]) <= _FEW_DIMS:
        ref: Any = op.ref
        # By position, which is faster: a `ref` takes them in the order of the declaration.
        array = quiet.run(ref, *inputs, params["shape"], params["dtype"])
        if array.dtype is params["dtype"].numpy:
            return Tensor.of_array(array)
    t = apply(op, inputs, params)
    return t


_FEW_DIMS = 8  # that any device takes, so that there is nothing to refuse


def on(device: Device | str | None) -> AbstractContextManager[Any]:
    """A block in which tensors are made on a device, which was checked; None changes nothing."""
    if device is None or not other_devices:
        return _NOWHERE_ELSE
    name = str(devices.find("device", device))
    return _NOWHERE_ELSE if name == devices.current() else changed(device=name)


_NOWHERE_ELSE = nullcontext()


def lacks_doubles(op: str, device: Device | str | None) -> bool:
    """Whether float64 is not a dtype of a device, or of that of new tensors."""
    if not other_devices:
        return False
    place = devices.find(op, device)
    return float64.name in devices.lookup(str(place)).limits.lacks


def of_doubles(
    op: str, compute: Callable[[], Tensor], dtype: DType, device: Device | str | None
) -> Tensor:
    """A tensor of numbers that `compute` gives in float64, from nothing but Python's numbers.

    Where the device has no float64 the cpu computes them, and the result is moved: as a constant
    where a function is being recorded.
    """
    if not lacks_doubles(op, device):
        with on(device):
            return compute().to(dtype)
    place = devices.find(op, device)
    with changed(device=CPU, context=outermost()):
        return compute().to(dtype).to(place)


def finish(t: Tensor, requires_grad: bool) -> Tensor:
    """The tensor, as a leaf that requires grad if that was asked for."""
    return t.requires_grad_() if requires_grad else t


# --- constants ---------------------------------------------------------------------------------

_SMALL = range(-128, 128)  # these fit every dtype


def _full_ref(value: Any, shape: Any, dtype: DType) -> np.ndarray:
    if not dtype.is_floating_point:
        value = saturating_cast(value, dtype)
    return memory.full(shape, dtype.numpy, value)


@create(
    ref=_full_ref,
    dtype="param",
    method=False,
    samples=lambda: (
        Sample((2.5,), {"shape": (2, 3), "dtype": float32}),
        Sample((7,), {"shape": (), "dtype": int64}),
        Sample((1.0,), {"shape": (0, 2), "dtype": float32}),
        Sample((float("nan"),), {"shape": (2,), "dtype": int64}),
        Sample((-1e30,), {"shape": (2,), "dtype": int64}),
        Sample((-1,), {"shape": (2,), "dtype": uint8}),
    ),
    is_fill=True,
)
def full(value, *, shape, dtype):
    """A tensor of one value."""
    return s.cast(value, dtype.compute)


def _constant(
    op: str, size: tuple[Any, ...], value: Any, dtype: DType | None, device: Device | str | None,
    requires_grad: bool,
) -> Tensor:  # fmt: skip
    if type(value) not in _NUMBERS:
        if isinstance(value, (Tensor, np.generic)) and not value.shape:
            value = value.item()
        if not isinstance(value, (bool, int, float)):
            raise TypeError(f"{op}: the value is a {type(value).__name__}; it must be a number.")
    dtype = dtypes.of_number(value) if dtype is None else dtype
    dtype = check_options(op, dtype, device, requires_grad)
    if isinstance(value, int) and (type(value) is not int or value not in _SMALL):
        fits = dtype if dtype.category == dtypes.INT else int64
        # A symbol that does not fit int64 is never one of a program.
        if not (is_symbol(value) and fits is int64) and value not in _SMALL:
            convert.array_of(op, value, fits)  # or refuses
    if dtype is int64 and other_devices and isinstance(value, float):
        _check_bits(op, (value,), device)  # a float that becomes an integer
    params = {"shape": shape_of(op, size), "dtype": dtype}
    t = made(full, (value,), params, device)
    return t.requires_grad_() if requires_grad else t


@full.signature
def _full(
    size: Any, fill_value: Number | Tensor, dtype: DType | None = None,
    device: Device | str | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    return _constant("full", (size,), fill_value, dtype, device, requires_grad)


@creation
def zeros(
    *size: Any, dtype: DType | None = None, device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of zeros.

    >>> import contraflow as cf
    >>> cf.zeros(2, dtype=cf.int64)
    tensor([0, 0])
    """
    dtype = dtype or dtypes.get_default_dtype()
    return _constant("zeros", size, 0, dtype, device, requires_grad)


@creation
def ones(
    *size: Any, dtype: DType | None = None, device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of ones.

    >>> import contraflow as cf
    >>> cf.ones(2, 3)
    tensor([[1., 1., 1.],
            [1., 1., 1.]])
    """
    dtype = dtype or dtypes.get_default_dtype()
    return _constant("ones", size, 1, dtype, device, requires_grad)


@creation
def empty(
    *size: Any, dtype: DType | None = None, device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor to be written to. It starts with zeros: nothing here is undefined.

    >>> import contraflow as cf
    >>> cf.empty(2, 3).shape
    (2, 3)
    """
    dtype = dtype or dtypes.get_default_dtype()
    return _constant("empty", size, 0, dtype, device, requires_grad)


@creation
def full_like(
    input: Tensor, fill_value: Number | Tensor, *, dtype: DType | None = None,
    device: Device | str | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A constant with the shape and dtype of `input`.

    >>> import contraflow as cf
    >>> cf.full_like(cf.ones(2), 7.0)
    tensor([7., 7.])
    """
    dtype = dtype or input.dtype
    device = device or input.storage.device
    return _constant("full_like", input.shape, fill_value, dtype, device, requires_grad)


@creation
def zeros_like(
    input: Tensor, *, dtype: DType | None = None, device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Zeros with the shape and dtype of `input`.

    >>> import contraflow as cf
    >>> cf.zeros_like(cf.ones(2))
    tensor([0., 0.])
    """
    dtype = dtype or input.dtype
    device = device or input.storage.device
    return _constant("zeros_like", input.shape, 0, dtype, device, requires_grad)


@creation
def ones_like(
    input: Tensor, *, dtype: DType | None = None, device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Ones with the shape and dtype of `input`.

    >>> import contraflow as cf
    >>> cf.ones_like(cf.zeros(2))
    tensor([1., 1.])
    """
    dtype = dtype or input.dtype
    device = device or input.storage.device
    return _constant("ones_like", input.shape, 1, dtype, device, requires_grad)


@creation
def empty_like(
    input: Tensor, *, dtype: DType | None = None, device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor to be written to, with the shape and dtype of `input`. It starts with zeros.

    >>> import contraflow as cf
    >>> cf.empty_like(cf.ones(2, 3)).shape
    (2, 3)
    """
    dtype = dtype or input.dtype
    device = device or input.storage.device
    return _constant("empty_like", input.shape, 0, dtype, device, requires_grad)


@method
def new_full(
    self: Tensor, size: Any, fill_value: Number, *, dtype: DType | None = None,
    device: Device | str | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of one value, in the dtype of this one.

    >>> import contraflow as cf
    >>> cf.ones(1, dtype=cf.int64).new_full((2,), 7)
    tensor([7, 7])
    """
    device = device or self.storage.device
    return _constant("new_full", (size,), fill_value, dtype or self.dtype, device, requires_grad)


@method
def new_zeros(
    self: Tensor, *size: Any, dtype: DType | None = None, device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Zeros, in the dtype of this tensor.

    >>> import contraflow as cf
    >>> cf.ones(1, dtype=cf.int64).new_zeros(2)
    tensor([0, 0])
    """
    device = device or self.storage.device
    return _constant("new_zeros", size, 0, dtype or self.dtype, device, requires_grad)


@method
def new_ones(
    self: Tensor, *size: Any, dtype: DType | None = None, device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Ones, in the dtype of this tensor.

    >>> import contraflow as cf
    >>> cf.ones(1, dtype=cf.int64).new_ones(2)
    tensor([1, 1])
    """
    device = device or self.storage.device
    return _constant("new_ones", size, 1, dtype or self.dtype, device, requires_grad)


@method
def new_empty(
    self: Tensor, *size: Any, dtype: DType | None = None, device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor to be written to, in the dtype of this one. It starts with zeros.

    >>> import contraflow as cf
    >>> cf.ones(1).new_empty(2, 3).shape
    (2, 3)
    """
    device = device or self.storage.device
    return _constant("new_empty", size, 0, dtype or self.dtype, device, requires_grad)


@creation
def eye(
    n: int, m: int | None = None, *, dtype: DType | None = None,
    device: Device | str | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A matrix with ones on the diagonal and zeros elsewhere.

    >>> eye(2, 3).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    dtype = check_options("eye", dtype, device, requires_grad)
    rows, columns = shape_of("eye", (n, n if m is None else m))
    with on(device):
        diagonal = arange(rows).reshape(rows, 1) == arange(columns)
        return finish(diagonal.to(dtype), requires_grad)


# --- ranges ------------------------------------------------------------------------------------


@create(
    ref=lambda start, step, shape, dtype: (start + step * np.arange(shape[0])).astype(dtype.numpy),
    dtype="param",
    method=False,
    samples=lambda: (
        Sample((0, 1), {"shape": (5,), "dtype": int64}),
        Sample((1.0, 0.5), {"shape": (4,), "dtype": float32}),
    ),
)
def arange(start, step, *, shape, dtype):
    """Numbers from `start` on in steps of `step`, up to `end`, which is left out."""
    return s.cast(start + step * s.cast(LINEAR, step.dtype), dtype.compute)


def _number(op: str, name: str, value: Any) -> bool | int | float:
    """A finite number, or the element of a 0-d tensor."""
    if isinstance(value, (Tensor, np.generic)):
        value = value.item()
    if not isinstance(value, (bool, int, float)):
        raise TypeError(f"{op}: {name} is a {type(value).__name__}; it must be a number.")
    if not math.isfinite(value):
        raise ValueError(f"{op}: {name} is {value}; it must be finite.")
    return value


def narrow_place(op: str, device: Device | str | None) -> str | None:
    """The bits that int64 has on the device of creation, for a message; None if these are 64."""
    place = devices.find(op, device)
    bits = devices.lookup(str(place)).limits.int64_bits
    return None if bits >= 64 else f"the {bits} bits that int64 has on {place}"


def _check_bits(op: str, values: tuple[Any, ...], device: Device | str | None) -> None:
    """Refuse integers that the device of creation cannot hold."""
    for value in values:
        if -(1 << 31) <= value < 1 << 31 or value != value:  # which every device holds
            continue
        narrow = narrow_place(op, device)
        if narrow is not None:
            raise OverflowError(
                f"{op}: {value} does not fit {narrow}. "
                "Use dtype=contraflow.float32, or device='cpu'."
            )


@arange.signature
def _arange(
    start: Any, end: Any = None, step: Any = 1, *, dtype: DType | None = None,
    device: Device | str | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    if end is None:
        start, end = 0, start
    start, end = _number("arange", "start", start), _number("arange", "end", end)
    step = _number("arange", "step", step)
    if step == 0 or (end - start) * step < 0:
        raise ValueError(f"arange: step {step} does not lead from {start} to {end}.")
    floating = any(isinstance(v, float) for v in (start, end, step))
    if dtype is None and not floating:
        dtype = int64
    dtype = check_options("arange", dtype, device, requires_grad)
    count = math.ceil((end - start) / step) if floating else -((start - end) // step)
    kind = float if floating else int  # the body adds them, and has no mixed dtypes
    start, step = kind(start), kind(step)
    if dtype is int64 and other_devices and count:
        _check_bits("arange", (start, start + step * (count - 1)), device)
    params = {"shape": (count,), "dtype": dtype}
    return finish(made(arange, (start, step), params, device), requires_grad)


def _evenly(op: str, start: Any, end: Any, steps: Any, dtype: DType) -> Tensor:
    """`steps` numbers from `start` to `end`; the last ones are counted from the end."""
    start, end = _number(op, "start", start), _number(op, "end", end)
    if not dtype.is_floating_point:  # cut first, as PyTorch does, and the numbers between them last
        start, end = int(start), int(end)
    (steps,) = shape_of(op, (steps,))
    wide = dtype.compute if dtype.is_floating_point else float64
    if steps < 2:
        return _full((steps,), start, dtype=wide)
    step = (end - start) / (steps - 1)
    at = _arange(steps, dtype=wide)
    return where(at < steps // 2, at * step + start, end - (steps - 1 - at) * step)


def _spaced(
    op: str, start: Any, end: Any, steps: Any, base: float | None, dtype: DType,
    device: Device | str | None,
) -> Tensor:  # fmt: skip
    """Evenly spaced numbers, or the powers of a base that have them as exponents."""

    def compute() -> Tensor:
        numbers = _evenly(op, start, end, steps, dtype)
        return numbers if base is None else base**numbers

    if not dtype.is_floating_point:
        return of_doubles(op, compute, dtype, device)
    with on(device):
        return compute().to(dtype)


@creation
def linspace(
    start: Any, end: Any, steps: int, *, dtype: DType | None = None,
    device: Device | str | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """`steps` evenly spaced numbers from `start` to `end`.

    >>> linspace(0, 1, 5).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    dtype = check_options("linspace", dtype, device, requires_grad)
    return finish(_spaced("linspace", start, end, steps, None, dtype, device), requires_grad)


@creation
def logspace(
    start: Any, end: Any, steps: int, base: float = 10.0, *, dtype: DType | None = None,
    device: Device | str | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """`base` to the power of `steps` evenly spaced numbers from `start` to `end`.

    >>> logspace(0, 3, 4, base=2.0).tolist()
    [1.0, 2.0, 4.0, 8.0]
    """
    dtype = check_options("logspace", dtype, device, requires_grad)
    return finish(_spaced("logspace", start, end, steps, base, dtype, device), requires_grad)
