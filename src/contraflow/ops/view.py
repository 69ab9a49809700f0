"""Views: the same elements under another shape. No data moves; gradients are views too."""

from __future__ import annotations

from typing import Any

import numpy as np

from contraflow.errors import describe
from contraflow.op import Array, Failure, Sample, apply, assigning, composite, view
from contraflow.ops.create import zeros
from contraflow.ops.elementwise import clone
from contraflow.shapes import Shape, View, normalize_dim, numel
from contraflow.shapes import contiguous as fresh_view
from contraflow.tensor import Tensor


def _strided(array: np.ndarray, region: View) -> np.ndarray:
    """The NumPy view of a region of a contiguous array."""
    size = array.itemsize
    return np.lib.stride_tricks.as_strided(
        array.reshape(-1)[region.offset :], region.shape, [st * size for st in region.strides]
    )


def _assign_ref(base: Any, value: Any, shape: Shape, strides: Shape, offset: int) -> Any:
    out = np.array(base, order="C", copy=True)
    if numel(shape):
        _strided(out, View(shape, strides, offset))[...] = value
    return out


@assigning(
    ref=_assign_ref,
    dtype="same",
    shape=lambda base, value, shape, strides, offset: base.shape,
    vjp={
        "base": lambda g, value_spec, shape, strides, offset: assign(
            g, zeros(shape, dtype=g.dtype), shape=shape, strides=strides, offset=offset
        ),
        "value": lambda g, shape, strides, offset: strided(g, shape, strides, offset),
    },
    samples=lambda: (
        Sample((Array((3, 4)), Array((3,))), {"shape": (3,), "strides": (4,), "offset": 1}),
        Sample((Array((3, 4)), Array((2, 2))), {"shape": (2, 2), "strides": (4, 2), "offset": 0}),
    ),
    method=False,
    linear=True,
)
def assign(base, value, *, shape, strides, offset):
    """`base` with the elements of one region (a view of it, as if contiguous) replaced."""


@view(
    vjp={"x": lambda g, x_spec, shape, strides, offset: assign(
        zeros(x_spec.shape, dtype=g.dtype), g, shape=shape, strides=strides, offset=offset)},
    samples=lambda: (
        Sample((Array((3, 4)),), {"shape": (3, 2), "strides": (4, 2), "offset": 1}),
    ),
    method=False,
    linear=True,
)  # fmt: skip
def strided(x, *, shape, strides, offset):
    """Elements at offset + i * strides of a contiguous tensor; they must not overlap."""
    return View(shape, strides, x.offset + offset)


@strided.signature
def _strided_call(x: Tensor, shape: Shape, strides: Shape, offset: int) -> Tensor:
    params = {"shape": tuple(shape), "strides": tuple(strides), "offset": offset}
    return apply(strided, (contiguous(x),), params)


@view(
    vjp={"x": lambda g, x_spec: reshape(g, x_spec.shape)},
    samples=lambda: (
        Sample((Array((3, 4)),), {"shape": (2, 6)}),
        Sample((Array((3, 4)),), {"shape": (12,)}),
        Sample((Array(()),), {"shape": (1, 1)}),
    ),
    failures=lambda: (
        Failure((Array((3, 4)),), {"shape": (5, 2)}, ValueError, "reshape: cannot make [5, 2]"),
    ),
    linear=True,
)
def reshape(x, *, shape):
    """The same elements in the same order under another shape; one size may be -1."""
    return x.reshape(shape)


@reshape.signature
def _reshape(x: Tensor, *shape: Any, **named: Any) -> Tensor:
    target = _wanted_shape("reshape", x, _numbers("reshape", "shape", shape, named))
    if x.view.reshape(target) is None:
        x = clone(x)
    return apply(reshape, (x,), {"shape": target})


def _numbers(op: str, name: str, given: tuple[Any, ...], named: dict[str, Any]) -> Shape:
    """Sizes or dims given one by one, as one sequence, or by name."""
    if unknown := set(named) - {name}:
        raise TypeError(f"{op}: argument {unknown.pop()!r} is unknown. It takes x, {name}.")
    numbers: Any = named.get(name, given)
    if isinstance(numbers, int):
        numbers = (numbers,)
    if len(numbers) == 1 and isinstance(numbers[0], (tuple, list)):
        numbers = numbers[0]
    return tuple(int(n) for n in numbers)


def _wanted_shape(name: str, x: Tensor, shape: Shape) -> Shape:
    """Fill in a size of -1 and check the number of elements."""
    known = numel(n for n in shape if n != -1)
    unknown = sum(n == -1 for n in shape)
    total = numel(x.shape)
    if unknown == 1 and known and total % known == 0:
        shape = tuple(total // known if n == -1 else n for n in shape)
    if unknown > 1 or numel(shape) != total or any(n < 0 for n in shape):
        raise ValueError(
            f"{name}: cannot make {list(shape)} of {describe(x)}, which has {total} elements."
        )
    return shape


@view(
    vjp={"x": lambda g, dims: permute(g, tuple(int(i) for i in np.argsort(dims)))},
    samples=lambda: (
        Sample((Array((2, 3, 4)),), {"dims": (2, 0, 1)}),
        Sample((Array((3, 4)),), {"dims": (1, 0)}),
    ),
    failures=lambda: (
        Failure((Array((3, 4)),), {"dims": (0, 0)}, ValueError, "permute: dims (0, 0)"),
    ),
    linear=True,
)
def permute(x, *, dims):
    """The dims in another order."""
    return x.permute(dims)


@permute.signature
def _permute(x: Tensor, *dims: Any, **named: Any) -> Tensor:
    wanted = tuple(
        normalize_dim("permute", d, x.ndim) for d in _numbers("permute", "dims", dims, named)
    )
    if sorted(wanted) != list(range(x.ndim)):
        raise ValueError(f"permute: dims {wanted} do not name each dim of {describe(x)} once.")
    return apply(permute, (x,), {"dims": wanted})


@view(
    vjp={"x": lambda g: g},  # the engine sums over what was expanded
    samples=lambda: (
        Sample((Array((3, 1)),), {"shape": (2, 3, 4)}),
        Sample((Array(()),), {"shape": (2, 2)}),
    ),
    failures=lambda: (
        Failure((Array((3, 2)),), {"shape": (3, 4)}, ValueError, "expand: float64[3, 2] does not"),
        Failure((Array((3,)),), {"shape": (-2, 3)}, ValueError, "does not expand to [-2, 3]"),
    ),
    linear=True,
)
def expand(x, *, shape):
    """The tensor broadcast to a larger shape without copying; -1 keeps a size."""
    return x.expand(shape)


@expand.signature
def _expand(x: Tensor, *shape: Any, **named: Any) -> Tensor:
    wanted = _numbers("expand", "shape", shape, named)
    lead = len(wanted) - x.ndim
    wanted = tuple(x.shape[i - lead] if n == -1 and i >= lead else n for i, n in enumerate(wanted))
    fits = lead >= 0 and all(n in (1, m) for n, m in zip(x.shape, wanted[lead:]))
    if not fits or any(n < 0 for n in wanted):
        raise ValueError(f"expand: {describe(x)} does not expand to {list(wanted)}.")
    return apply(expand, (x,), {"shape": wanted})


def _embed(g: Tensor, x_spec: Any, op: Any, **params: Any) -> Tensor:
    """Zeros of the input's shape with `g` at the elements the view shows."""
    region = op.body(fresh_view(x_spec.shape), **params)
    return assign(
        zeros(x_spec.shape, dtype=g.dtype), g,
        shape=region.shape, strides=region.strides, offset=region.offset,
    )  # fmt: skip


@view(
    vjp={"x": lambda g, x_spec, dim, start, stop, step: _embed(
        g, x_spec, slice_, dim=dim, start=start, stop=stop, step=step)},
    samples=lambda: (
        Sample((Array((5, 4)),), {"dim": 0, "start": 1, "stop": 4, "step": 1}),
        Sample((Array((5, 4)),), {"dim": 1, "start": 0, "stop": 4, "step": 2}),
        Sample((Array((5,)),), {"dim": 0, "start": 2, "stop": 2, "step": 1}),
    ),
    method=False,
    linear=True,
)  # fmt: skip
def slice_(x, *, dim, start, stop, step):
    """Elements start, start + step, ... below stop of one dim."""
    return x.slice(dim, start, stop, step)


@view(
    vjp={"x": lambda g, x_spec, dim, index: _embed(g, x_spec, select, dim=dim, index=index)},
    samples=lambda: (
        Sample((Array((5, 4)),), {"dim": 0, "index": 3}),
        Sample((Array((5, 4, 2)),), {"dim": 1, "index": 0}),
    ),
    failures=lambda: (
        Failure((Array((3,)),), {"dim": 0, "index": 3}, IndexError, "select: index 3"),
    ),
    normalize=lambda x, dim, index: _select_params(x, dim, index),
    linear=True,
)
def select(x, *, dim, index):
    """One coordinate of a dim, which is dropped."""
    return x.select(dim, index)


def _select_params(x: Tensor, dim: int, index: int) -> dict[str, Any]:
    if not x.ndim:
        raise IndexError("select: a 0-d tensor cannot be indexed.")
    dim = normalize_dim("select", dim, x.ndim)
    n = x.shape[dim]
    if not -n <= index < n:
        raise IndexError(f"select: index {index} is out of range for dim {dim} of {describe(x)}.")
    return {"dim": dim, "index": index % n}


# --- PyTorch's other names for these -----------------------------------------------------------


@composite(ref=np.ascontiguousarray, samples=lambda: (Sample((Array((3, 4)),)),))
def contiguous(x):
    """The tensor itself if its elements lie in order, else a copy."""
    return x if x.is_contiguous() else clone(x)


@composite(
    ref=lambda x, dim0, dim1: np.swapaxes(x, dim0, dim1),
    samples=lambda: (
        Sample((Array((2, 3, 4)),), {"dim0": 0, "dim1": -1}),
        Sample((Array((3, 4)),), {"dim0": 1, "dim1": 1}),
    ),
    failures=lambda: (
        Failure((Array((2,)),), {"dim0": 0, "dim1": 1}, IndexError, "transpose: dim 1 is out of"),
    ),
)
def transpose(x, *, dim0, dim1):
    """Two dims exchanged."""
    a, b = (normalize_dim("transpose", d, x.ndim) for d in (dim0, dim1))
    dims = list(range(x.ndim))
    if dims:  # a 0-d tensor may be asked for dims 0 and -1
        dims[a], dims[b] = b, a
    return permute(x, tuple(dims))


@composite(
    ref=lambda x, dim: np.expand_dims(x, dim),
    samples=lambda: (Sample((Array((2, 3)),), {"dim": -1}), Sample((Array(()),), {"dim": 0})),
)
def unsqueeze(x, *, dim):
    """A new dim of size one."""
    dim = normalize_dim("unsqueeze", dim, x.ndim + 1)
    return reshape(x, (*x.shape[:dim], 1, *x.shape[dim:]))


@composite(
    ref=lambda x, dim: np.squeeze(x, dim),
    samples=lambda: (
        Sample((Array((2, 1, 3)),), {"dim": 1}),
        Sample((Array((1, 2, 1)),), {"dim": None}),
    ),
)
def squeeze(x, *, dim=None):
    """Dims of size one dropped: all, or one."""
    if dim is None:
        return reshape(x, tuple(n for n in x.shape if n != 1))
    dim = normalize_dim("squeeze", dim, x.ndim)
    if not x.ndim or x.shape[dim] != 1:
        return x
    return reshape(x, x.shape[:dim] + x.shape[dim + 1 :])


@composite(
    ref=lambda x, start_dim, end_dim: x.reshape(
        *x.shape[:start_dim], -1, *(x.shape[end_dim + 1 :] if end_dim != -1 else ())
    ),
    samples=lambda: (
        Sample((Array((2, 3, 4)),), {"start_dim": 1, "end_dim": -1}),
        Sample((Array((2, 3, 4)),), {"start_dim": 0, "end_dim": 1}),
        Sample((Array(()),), {"start_dim": 0, "end_dim": -1}),
    ),
    failures=lambda: (
        Failure(
            (Array((2, 3)),), {"start_dim": 1, "end_dim": 0}, ValueError,
            "flatten: start_dim 1 comes after end_dim 0.",
        ),
    ),
)  # fmt: skip
def flatten(x, *, start_dim=0, end_dim=-1):
    """Dims start_dim to end_dim merged into one."""
    if not x.ndim:
        return reshape(x, (1,))
    first, last = (normalize_dim("flatten", d, x.ndim) for d in (start_dim, end_dim))
    if first > last:
        raise ValueError(f"flatten: start_dim {start_dim} comes after end_dim {end_dim}.")
    return reshape(x, (*x.shape[:first], numel(x.shape[first : last + 1]), *x.shape[last + 1 :]))
