"""Numbers of a recording that only select a place: `x[n]`, `x[:, n : n + 1]`, `x.select(0, n)`.

A number that is an argument of a compiled function, or counted between its calls, is a symbol while
the function is recorded. Where one selects a place it becomes an input of the program, as an index
that is a tensor does: one recording serves every place. Python checks the bounds in every call,
before anything is changed, and a call with another outcome is recorded anew: it raises eager's
error. Other uses need the number itself.
"""

from __future__ import annotations

import operator
from typing import Any

from contraflow.dtypes import bool_, int64
from contraflow.errors import describe
from contraflow.operation.context import apply, other_devices, state
from contraflow.ops.creation.create import arange
from contraflow.ops.index.gather import take_at
from contraflow.ops.shape.view import reshape, select
from contraflow.shapes import normalize_dim
from contraflow.tensors.symbol import Known, Symbol, Symbols, apply_step
from contraflow.tensors.tensor import Tensor


def index_fits(i: int, size: int) -> bool:
    """Whether an index is one of a dim of so many elements; it may count from the end.

    >>> index_fits(-3, 3), index_fits(3, 3)
    (True, False)
    """
    return -size <= i < size


def part_fits(start: int, length: int, size: int) -> bool:
    """Whether a part of so many elements lies within a dim, counted from its first element.

    >>> part_fits(1, 2, 3), part_fits(2, 2, 3)
    (True, False)
    """
    return 0 <= start <= size - length


def is_position(k: Any) -> bool:
    """Whether something is a whole number of the recording that goes on here."""
    return type(k) is Symbol and type(k._number) is int and k._symbols is _recorded()


def _recorded() -> Symbols | None:
    """The symbols of the recording that hears of ops first, if one does."""
    symbols: Symbols | None = state().context.symbols
    return symbols if symbols is not None and symbols.open else None


def position_at(name: str, x: Tensor, dim: int, i: Symbol) -> Tensor:
    """The 0-d tensor that stands for an index of a dim, which is checked by every call."""
    size = x.layout.shape[dim]
    if not apply_step(index_fits, i, size):
        raise out_of_range(name, x, dim, i._number)
    return _near(x, i._tensor)


def out_of_range(name: str, x: Tensor, dim: int, i: int | float) -> IndexError:
    """The error for an index that a dim does not have."""
    size = x.layout.shape[dim]
    return IndexError(
        f"{name}: index {i} is out of range for dim {dim} of {describe(x)} with size {size}."
    )


def positions_from(x: Tensor, dim: int, start: Symbol, length: int) -> Tensor | None:
    """The vector that stands for `length` indices of a dim from one on, None where they are not
    all within it."""
    if not apply_step(part_fits, start, length, x.layout.shape[dim]):
        return None
    first = reshape(start._tensor, (1,))
    if length == 1:
        return _near(x, first)
    return _near(x, first + arange(length, dtype=int64, device="cpu"))


def _near(x: Tensor, k: Tensor) -> Tensor:
    if other_devices and k.storage.device != x.storage.device:
        k = k.to(x.storage.device)
    return k


def slice_length(k: slice) -> int | None:
    """The number of elements of a slice from a number of the recording on, where it is the same for
    every number: of `n : n + 2` or `n - 2 : n`."""
    start, stop = k.start, k.stop
    if not (is_position(start) and is_position(stop) and k.step in (None, 1)):
        return None
    (first, before), (last, after) = map(_from_number, (start, stop))
    return after - before if first == last and before < after else None


def _from_number(x: Symbol) -> tuple[Known, int]:
    """A number and a constant of which Python has computed the sum, `n` and -2 for `n - 2`."""
    steps, leaves = x._symbols.steps, x._symbols.leaves
    known, constant = x._known, 0
    while known.position >= leaves:
        function, operands, _ = steps[known.position - leaves]
        if function not in (operator.add, operator.sub):
            break
        a, b = operands
        if isinstance(b, Known) and function is operator.add:
            a, b = b, a
        if not isinstance(a, Known) or type(b) is not int:
            break
        known, constant = a, constant + (b if function is operator.add else -b)
    return known, constant


def take_copy(
    x: Tensor, at: Tensor, dims: tuple[int, ...], symbols: tuple[Any, ...], key: Any = None
) -> Tensor:
    """The elements of a tensor at positions that the recording going on here does not know, where
    eager mode has a view; `key` is the index of what the user has written, if it was one."""
    out: Tensor = apply(take_at, (x, at), {"dims": dims, "wrap": True})
    state().context.stand_in(out, x, symbols, key)
    return out


def is_place(k: Any) -> bool:
    """Whether a part of an index is a tensor that selects one place, for which eager mode has a
    view."""
    return isinstance(k, Tensor) and not k.layout.shape and k.dtype is not bool_


@select.shortcut
def _select(*args: Any, **named: Any) -> Any:
    if len(args) == 3 and is_position(args[2]) and isinstance(args[0], Tensor):
        x, dim, index = args
        if x.layout.shape:
            dim = normalize_dim("select", dim, len(x.layout.shape))
            at = reshape(position_at("select", x, dim, index), (1,))
            return take_copy(x, at, (dim,), (index,))
    return select.bind(*args, **named)


def part_from(x: Tensor, dim: int, start: Any, length: int) -> Tensor | None:
    """`length` elements of a dim from a number of the recording on, None where they do not lie
    within it, or where the number itself is needed."""
    if not is_position(start) or type(length) is not int or length < 1:
        return None
    at = positions_from(x, dim, start, length)
    if at is None:
        return None
    return take_copy(x, reshape(at, (1, length)), (dim,), (start,))
