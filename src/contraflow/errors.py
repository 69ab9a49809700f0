"""Errors of wrong state, and how messages name tensors and arguments.

Wrong arguments raise Python's own TypeError, ValueError and IndexError. A wrong state of the
program (the graph, a recording, a machine) raises one of these. Every message reads `op: what was
asked; what is wrong; what would work`. The errors of backward that a program may want to tell apart
are subclasses, whose fields hold the facts of the message; all can be pickled.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from operator import is_
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np


class GradientError(RuntimeError):
    """The autograd graph cannot give the gradient that was asked for.

    >>> import contraflow as cf
    >>> try:
    ...     cf.ones(()).backward()
    ... except cf.GradientError as error:
    ...     print(error)
    backward: float32[] does not require grad ... Call x.requires_grad_() on an input first.
    """


class Location(NamedTuple):
    """A line of a file; as text it is what messages say."""

    file: str
    number: int

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.number}"


class OverwrittenError(GradientError):
    """A value that backward needs was overwritten after it was saved.

    >>> import contraflow as cf
    >>> x = cf.ones(3, requires_grad=True)
    >>> y = x * 2
    >>> z = y.sin()
    >>> y.add_(1).shape
    (3,)
    >>> try:
    ...     z.sum().backward()
    ... except cf.OverwrittenError as error:
    ...     print(error.op, error.shape, error.writer, error.saved_version, error.version)
    sin (3,) add_ 0 1
    """

    def __init__(
        self,
        message: str = "",
        *,
        op: str = "",
        line: Location | None = None,
        shape: tuple[int, ...] = (),
        dtype: str = "",
        saved_version: int = 0,
        version: int = 0,
        writer: str = "",
        written: Location | None = None,
    ) -> None:
        super().__init__(message)
        self.op = op  # what saved the value
        self.line = line  # where that was applied
        self.shape, self.dtype = shape, dtype  # of the value
        self.saved_version, self.version = saved_version, version  # of its storage, then and now
        self.writer = writer  # what wrote to it last
        self.written = written  # where that was applied


class GradientShapeError(GradientError):
    """A gradient has another shape than the tensor that it belongs to.

    >>> import contraflow as cf
    >>> y = cf.ones(3, requires_grad=True) * 2
    >>> try:
    ...     y.backward(cf.ones(2))
    ... except cf.GradientShapeError as error:
    ...     print(error.op, error.shape, error.expected)
    backward (2,) (3,)
    """

    def __init__(
        self,
        message: str = "",
        *,
        op: str = "",
        line: Location | None = None,
        shape: tuple[int, ...] = (),
        expected: tuple[int, ...] = (),
    ) -> None:
        super().__init__(message)
        self.op = op  # whose gradient it is: an op, a custom function, a hook, or backward itself
        self.line = line  # where that was applied
        self.shape, self.expected = shape, expected


class NotScalarError(GradientError):
    """Backward was asked of a tensor of several elements, without a gradient for it.

    >>> import contraflow as cf
    >>> try:
    ...     cf.ones(3, requires_grad=True).exp().backward()
    ... except cf.NotScalarError as error:
    ...     print(error.op, error.shape)
    backward (3,)
    """

    def __init__(
        self, message: str = "", *, op: str = "", shape: tuple[int, ...] | None = None
    ) -> None:
        super().__init__(message)
        self.op = op  # what was asked
        self.shape = shape  # of the value that should be a scalar; None if it is not a tensor


class CaptureError(RuntimeError):
    """A function being compiled does something that cannot be recorded.

    >>> import contraflow as cf
    >>> @cf.compile(fullgraph=True)
    ... def positive(x):  # [n] to [n] or a message, which depends on the elements
    ...     return x if x.sum() > 0 else "negative"
    >>> try:
    ...     positive(cf.ones(3))
    ... except cf.CaptureError as error:
    ...     print(error)
    compile(positive): ...
    """


class DeviceError(RuntimeError):
    """A device is absent, full, or has no kernel for what was asked.

    >>> import contraflow as cf
    >>> try:
    ...     cf.ones(3).to("cuda:99")
    ... except cf.DeviceError as error:
    ...     print(error)
    to: device 'cuda:99' is not available: ...
    """


class OutOfMemoryError(DeviceError):
    """A device has no memory left for what was asked.

    >>> import contraflow as cf
    >>> def squared(x):  # [n, i], in two parts where one does not fit
    ...     try:
    ...         return x @ x.T
    ...     except cf.OutOfMemoryError:
    ...         return cf.cat([part @ x.T for part in x.chunk(2)])
    >>> squared(cf.ones(4, 3)).shape
    (4, 4)
    """


def host_only(op: str, line: object = None) -> DeviceError:
    """The error for an op that has no kernel on the device of its inputs."""
    where = "" if line is None else f", at {line}"
    return DeviceError(
        f"{op}: it runs on the host only, and its input lies on another device{where}. Move what "
        f"it is given to the cpu (x.cpu(), mask.cpu()), and what it gives back: y.to(x.device)."
    )


class MismatchError(ValueError, RuntimeError):
    """Shapes that do not fit one another or what is asked, or a state dict and its module.

    It is a RuntimeError as well, which PyTorch raises there.

    >>> import contraflow as cf
    >>> try:
    ...     cf.ones(2) + cf.ones(3)
    ... except RuntimeError as error:
    ...     print(error)
    add: shapes [2] and [3] do not broadcast: sizes 2 and 3 differ at dim -1.
    """


class AbsentByChoice(AttributeError, NotImplementedError):
    """PyTorch has something of this name, which is absent here by choice; `hasattr` is False."""


class OutOfRange(IndexError):
    """An index found out of range by a part that many ops share; `retold` names the op."""


def describe(x: Any) -> str:
    """Name a tensor-like value as `float32[32, 128]`, with its device unless that is the cpu."""
    if isinstance(x, (bool, int, float)):
        return repr(x)
    if hasattr(x, "dtype") and hasattr(x, "shape"):
        device = str(getattr(x, "device", "cpu"))
        kind = "NumPy " if isinstance(x, np.ndarray) else ""
        where = "" if device == "cpu" else f" on {device}"
        return f"{kind}{describe_spec(x.dtype, x.shape)}{where}"
    return type(x).__name__


def describe_there(x: Any) -> str:
    """The same with the device always, for messages that compare devices."""
    return f"{describe_spec(x.dtype, x.shape)} on {x.device}"


def describe_spec(dtype: object, shape: Sequence[int]) -> str:
    """Write a dtype and a shape the way every message and every tape does."""
    return f"{dtype}[{', '.join(map(str, shape))}]"


def counted(n: int, noun: str) -> str:
    """A number of things: `1 line`, `2 lines`."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def bytes_text(n: int) -> str:
    """A number of bytes with a unit, for listings of graphs and profiles."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n >= 10 * scale:
            return f"{n / scale:.1f} {unit}"
    return f"{n} bytes"


# --- errors that are Python's or NumPy's ---------------------------------------------------------

# Errors raised inside an op that was given a wrong argument, and the type that the user sees.
TRANSLATED: dict[type[Exception], type[Exception]] = {
    AttributeError: TypeError,
    TypeError: TypeError,
    IndexError: IndexError,
    KeyError: ValueError,
    ValueError: ValueError,
    ArithmeticError: ValueError,
    StopIteration: ValueError,
    MemoryError: DeviceError,
}

DIM_LIMIT = 64  # NumPy's
TOO_MANY_DIMS = f"a tensor has at most {DIM_LIMIT} dims."
_NUMPY_DIMS = "maximum (supported|number of) dimension"

# A message of ours begins with a name and a colon; Python's and NumPy's do not.
_OURS = r"[A-Za-z_][\w.]*(\(.*?\))?: "
_INSIDE = tuple(os.path.dirname(file) + os.sep for file in (__file__, np.__file__))


def retold(
    error: Exception,
    name: str,
    takes: Callable[[], str],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
) -> Exception:
    """The error that a caller of `name` sees instead of `error`: the call, and what it takes.

    An error that says it already, and one that a hook or another function of the user's raised,
    stays as it is. Of nested calls the outermost is named, the one that the user wrote. It is for
    the caller to raise: a frame that raised an error it holds would be a cycle with it.
    """
    raw = getattr(error, "retold", error)
    inside = _raised_inside(error.__traceback__)
    if inside and any(map(is_pytorchs, (*args, *(kwargs or {}).values()))):
        return TypeError(f"{name}: {PYTORCHS_TENSOR}")
    said = str(error.args[0]) if error.args else ""  # what str(KeyError) puts into quotes
    if (raw is error and re.match(_OURS, said)) or not inside:
        return error
    told = next(told for kind, told in TRANSLATED.items() if isinstance(raw, kind))
    if isinstance(raw, OutOfRange):
        text = f"{name}: {raw}"
    elif isinstance(raw, ValueError) and re.search(_NUMPY_DIMS, str(raw)):
        text = f"{name}: {TOO_MANY_DIMS}"
    else:
        given = [brief(value) for value in args]
        given += [f"{key}={brief(value)}" for key, value in (kwargs or {}).items()]
        problem = "there is no memory for" if told is DeviceError else "cannot take"
        text = f"{name}: {problem} ({', '.join(given)}). It takes ({takes()})."
    new = told(text)
    new.retold = raw  # type: ignore[attr-defined]
    new.__cause__ = raw
    return new


def with_plain_numbers(
    error: Exception, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The arguments of a call that failed with Python's numbers in place of NumPy's scalars.

    None where there are none, or where a function of the user's raised the error. The callers try
    again with them, so that calls without such scalars never look for any.
    """
    if not _raised_inside(error.__traceback__):
        return None
    plain = tuple(map(plain_number, args)), {k: plain_number(x) for k, x in kwargs.items()}
    same = all(map(is_, args, plain[0])) and all(map(is_, kwargs.values(), plain[1].values()))
    return None if same else plain


def plain_number(x: Any) -> Any:
    """Python's number in place of a scalar of NumPy's, in sequences too; others as they are."""
    if isinstance(x, np.generic):
        kind = x.dtype.kind
        return float(x) if kind == "f" else x.item() if kind in "biu" else x
    if type(x) in (tuple, list):
        inner = [plain_number(part) for part in x]
        if not all(map(is_, x, inner)):
            return type(x)(inner)
    return x


def is_pytorchs(x: Any) -> bool:
    """Whether something is a tensor of PyTorch itself, which ops do not take, or has one in it."""
    if isinstance(x, (list, tuple)):
        return any(map(is_pytorchs, x))
    return type(x).__name__ in ("Tensor", "Parameter") and type(x).__module__.startswith("torch")


PYTORCHS_TENSOR = (
    "a PyTorch tensor is not one of contraflow's. Use contraflow.from_dlpack(x), which shares its "
    "memory, or contraflow.from_numpy(x.numpy())."
)


def hide_frames(error: Exception) -> None:
    """Hide the frames of this package and NumPy, for an error whose text says what is wrong.

    Other errors keep theirs: they may be faults of this package. The user's frames stay.
    """
    if not error.args or not re.match(_OURS, str(error.args[0])):
        return
    shown, at = [], error.__traceback__
    while at is not None:
        if not at.tb_frame.f_code.co_filename.startswith(_INSIDE):
            shown.append(at)
        at = at.tb_next
    for above, below in zip(shown, [*shown[1:], None]):
        above.tb_next = below
    error.__traceback__ = shown[0] if shown else None


def _raised_inside(traceback: TracebackType | None) -> bool:
    """Whether only frames of this package and NumPy are below the one that caught the error."""
    while traceback is not None:
        if not traceback.tb_frame.f_code.co_filename.startswith(_INSIDE):
            return False
        traceback = traceback.tb_next
    return True


def brief(x: Any) -> str:
    """An argument for a message: numbers, strings and short sequences of them as they are."""
    if x is None or isinstance(x, (str, slice)):
        return repr(x) if len(repr(x)) < 60 else type(x).__name__
    if isinstance(x, (tuple, list)) and len(x) <= 6 and not hasattr(x, "dtype"):
        inner = ", ".join(map(brief, x))
        return f"[{inner}]" if isinstance(x, list) else f"({inner}{',' if len(x) == 1 else ''})"
    return describe(x)
