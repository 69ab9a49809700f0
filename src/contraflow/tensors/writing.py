"""In-place writes to tensors: the checks, the data, and the graph afterwards."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from contraflow.errors import GradientError, describe
from contraflow.expressions.expression import Number
from contraflow.operation import core
from contraflow.operation.context import apply, changed, other_devices, state
from contraflow.operation.reference import quiet
from contraflow.shapes import View, broadcast_shapes, contiguous
from contraflow.tensors.source_line import user_line
from contraflow.tensors.tensor import Tensor, lies_in


def check_write(target: Tensor, op: str) -> None:
    """Refuse, before anything changes, a write that would break the graph or overlap itself."""
    if target.layout.overlaps_itself():
        raise GradientError(
            f"{op}: {describe(target)} has elements that share memory (it was expanded or cut "
            f"into windows). Use .clone() before writing to it."
        )
    if target.storage.frozen:
        raise ValueError(
            f"{op}: {describe(target)} shares the memory of a read-only array. Clone it first."
        )
    current = state()
    if target.storage.inference and not current.inference:
        raise GradientError(
            f"{op}: {describe(target)} was made in inference_mode and cannot be written in place "
            f"outside of it. Clone it first."
        )
    if not current.grad:
        return
    if target.requires_grad and target.is_leaf:
        raise GradientError(
            f"{op}: {describe(target)} is a leaf that requires grad and cannot be written in "
            f"place. Write under contraflow.no_grad(), or to a copy."
        )
    base = target._base
    if base is None:
        if not target._writable and target._needs:
            raise GradientError(
                f"{op}: {describe(target)} is a view that a custom Function, or a module with "
                f"backward hooks, gave; writing to it under grad is refused. Clone it before."
            )
        return
    if base._needs and base._node is None:
        raise GradientError(
            f"{op}: {describe(target)} is a view of a leaf that requires grad and cannot be "
            f"written in place. Write under contraflow.no_grad(), or to a copy."
        )
    if not target._writable and (base._needs or target._needs):
        raise GradientError(
            f"{op}: {describe(target)} is a view made under no_grad, or one of several made "
            f"together by split, chunk or unbind; writing to it under grad is refused. "
            f"Clone it before."
        )


def write(target: Tensor, value: Any, op: str, fresh: bool = False) -> Tensor:
    """Give the elements of `target` new values: data, version and graph. Returns the target.

    The caller has called `check_write` before it computed `value`; `fresh` says that nobody else
    has that tensor, so that the target may take its place in the graph.
    """
    device = target.storage.device
    if other_devices and state().device != device:
        with changed(device=device):
            return write(target, value, op, fresh)
    line = state().line or user_line()
    given = value
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Tensor):
        if value.storage.device != device:
            value = value.to(device, target.dtype)
        if value.layout.shape != target.layout.shape:
            if broadcast_shapes(op, (value.shape, target.shape)) != target.shape:
                raise ValueError(f"{op}: {describe(value)} does not fit into {describe(target)}.")
            value = core.expand(value, target.layout.shape)
        if value.dtype is not target.dtype:
            value = core.to_dtype(value, dtype=target.dtype)
    elif isinstance(value, (bool, int, float)):
        # NumPy rounds a float to a floating dtype as a tensor made of it would be.
        plain = type(value) is float and target.dtype.is_floating_point and device == "cpu"
        if plain and state().context.immediate and not _is_tracked(target):
            state().context.write(target, value, op, line)
            return target
        value = core.full(target.layout.shape, value, dtype=target.dtype)
    else:
        raise TypeError(
            f"{op}: expected a tensor or a number, not {type(value).__name__}. "
            f"Make it one: contraflow.tensor(x)."
        )
    current = state()
    base = target._base
    if not (current.grad and value.requires_grad) and not _is_tracked(target):
        current.context.write(target, value, op, line)
        return target
    if base is None:
        if not value.requires_grad or (target._needs and not fresh):
            # The old value has a gradient still, which is zero, and the target requires grad.
            everything = contiguous(target.layout.shape)
            place = current.context.placed(target, value, everything)
            current.context.write(target, value, op, line)
            take_place(target, place)
            return target
        if value is given and not fresh:
            value = apply(core.clone, (value,))  # with its own hooks and gradient
        current.context.write(target, value, op, line)
        take_place(target, value)
        return target
    place = current.context.placed(base, value, region_of(target, base, op))
    current.context.write(target, value, op, line)
    take_place(base, place)
    if target._retains:
        target._rebuild(base)  # now, since what it retains is the gradient of the new elements
    return target


def write_at(target: Tensor, key: Any, value: Any, op: str) -> bool:
    """Write a tensor or a float to the places that an index of NumPy's names, and to no others.

    False where it was not done: something has to be recorded or cast, or an argument is wrong.
    """
    current, storage = state(), target.storage
    if not current.context.immediate or storage.device != "cpu" or _is_tracked(target):
        return False
    source = value
    if isinstance(value, Tensor):
        other = value.storage
        if value.dtype is not target.dtype or (current.grad and value.requires_grad):
            return False
        if other.device != "cpu":
            return False
        source = value.array.copy() if other is storage else value.array
    elif type(value) is not float or not target.dtype.is_floating_point:
        return False
    if storage.borrowers is not None:
        storage.recall()
    try:
        quiet.call(operator.setitem, target.array, key, source)
    except (IndexError, ValueError):  # before anything was written
        return False
    storage.wrote(op, current.line or user_line())
    return True


def _is_tracked(target: Tensor) -> bool:
    """Whether the graph must know that a tensor is written to, whatever the value is."""
    base = target._base
    return state().grad and (target.requires_grad or (base is not None and base._needs))


def region_of(target: Tensor, base: Tensor, op: str) -> View:
    """Where a view's elements stand among its base's, counted as if that were contiguous."""
    region = lies_in(target, base)
    if region is not None:
        return region
    region = contiguous(base.layout.shape)
    for view_op, params in target.view_ops:
        moved: View | None = view_op.body(region, **params)
        if moved is None:  # the base's own memory is not in order, so it was a view there
            raise GradientError(
                f"{op}: {describe(target)} is not a regular part of its base {describe(base)}, "
                f"whose memory is strided. Use .contiguous() on the base before."
            )
        region = moved
    return region


def take_place(target: Tensor, source: Tensor) -> None:
    """Put `target` where `source` stands in the graph; its views follow when they are used."""
    needed = target._needs
    target._stand_at(source)
    target._edits += 1
    if not needed:
        target._needs_changed(needed)


# --- methods ---------------------------------------------------------------------------------


def copy_(self: Tensor, source: Tensor) -> Tensor:
    """Write the elements of `source`, broadcast and cast, into this tensor.

    >>> import contraflow as cf
    >>> cf.zeros(2, 3).copy_(cf.tensor([1, 2, 3]))
    tensor([[1., 2., 3.],
            [1., 2., 3.]])
    """
    check_write(self, "copy_")
    return write(self, source, "copy_")


def fill_(self: Tensor, value: Number) -> Tensor:
    """Write one value into every element.

    >>> import contraflow as cf
    >>> cf.zeros(2).fill_(7)
    tensor([7., 7.])
    """
    check_write(self, "fill_")
    return write(self, value, "fill_")


def zero_(self: Tensor) -> Tensor:
    """Write zeros.

    >>> import contraflow as cf
    >>> cf.ones(2).zero_()
    tensor([0., 0.])
    """
    return self.fill_(0)
