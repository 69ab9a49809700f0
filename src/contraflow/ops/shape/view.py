"""Views: the same elements under another shape. No data moves; gradients are views too."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from contraflow.dtypes import DType
from contraflow.errors import DeviceError, GradientError, MismatchError, describe
from contraflow.operation.context import apply, state
from contraflow.operation.kinds import assigning, composite, view
from contraflow.operation.op import Op
from contraflow.operation.reference import strided as strided_array
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.ops.creation.create import zeros
from contraflow.ops.creation.data import from_numpy
from contraflow.ops.elementwise.basic import clone
from contraflow.shapes import Shape, View, broadcast_shapes, normalize_dim, numel, whole
from contraflow.shapes import contiguous as fresh_view
from contraflow.tensors.tensor import Tensor


def _assign_ref(base: Any, value: Any, shape: Shape, strides: Shape, offset: int) -> Any:
    out = np.array(base, order="C", copy=True)
    if numel(shape):
        strided_array(out, View(shape, strides, offset))[...] = value
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
    internal=True,
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
    internal=True,
    linear=True,
    distinct=True,
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
    distinct=True,
)
def reshape(x, *, shape):
    """The same elements in the same order under another shape; one size may be -1."""
    return x.reshape(shape)


@reshape.signature
def _reshape(x: Tensor, *shape: Any, **named: Any) -> Tensor:
    target = _wanted_shape("reshape", x, _numbers("reshape", "shape", shape, named))
    if x.layout.reshape(target) is None:
        x = clone(x)
    return apply(reshape, (x,), {"shape": target})


_INTS = frozenset((int,))


def _numbers(op: str, name: str, given: tuple[Any, ...], named: dict[str, Any]) -> Shape:
    """Sizes or dims given one by one, as one sequence, or by name."""
    if not named and _INTS.issuperset(map(type, given)):
        return given
    if name == "shape" and not given and "size" in named:  # PyTorch's name in some functions
        named = {"shape" if n == "size" else n: value for n, value in named.items()}
    if unknown := set(named) - {name}:
        raise TypeError(f"{op}: argument {unknown.pop()!r} is unknown. It takes x, {name}.")
    numbers: Any = named.get(name, given)
    if isinstance(numbers, int):
        numbers = (numbers,)
    if len(numbers) == 1 and isinstance(numbers[0], (tuple, list)):
        numbers = numbers[0]
    try:
        return tuple([operator.index(n) for n in numbers])
    except TypeError:
        raise TypeError(f"{op}: {name} {tuple(numbers)} must be integers.") from None


def _wanted_shape(name: str, x: Tensor, shape: Shape) -> Shape:
    """Fill in a size of -1 and check the number of elements."""
    total, unknown = numel(x.layout.shape), shape.count(-1)
    if unknown == 1:
        known = numel([n for n in shape if n != -1])
        if known and total % known == 0:
            shape = tuple([total // known if n == -1 else n for n in shape])
    if unknown > 1 or numel(shape) != total or min(shape, default=0) < 0:
        raise MismatchError(
            f"{name}: cannot make {list(shape)} of {describe(x)}, which has {total} elements."
        )
    return shape


@view(
    vjp={
        "x": lambda g, dims: apply(
            permute, (g,), {"dims": tuple(map(dims.index, range(len(dims))))}
        )
    },
    samples=lambda: (
        Sample((Array((2, 3, 4)),), {"dims": (2, 0, 1)}),
        Sample((Array((3, 4)),), {"dims": (1, 0)}),
    ),
    failures=lambda: (
        Failure((Array((3, 4)),), {"dims": (0, 0)}, ValueError, "permute: dims (0, 0)"),
    ),
    linear=True,
    distinct=True,
)
def permute(x, *, dims):
    """The dims in another order."""
    return x.permute(dims)


@permute.signature
def _permute(x: Tensor, *dims: Any, **named: Any) -> Tensor:
    rank = len(x.layout.shape)
    given = _numbers("permute", "dims", dims, named)
    wanted = tuple([normalize_dim("permute", d, rank) for d in given])
    if sorted(wanted) != list(range(rank)):
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
    own = x.layout.shape
    wanted = tuple([own[i - lead] if n == -1 and i >= lead else n for i, n in enumerate(wanted)])
    fits = lead >= 0 and all(n in (1, m) for n, m in zip(own, wanted[lead:]))
    if not fits or min(wanted, default=0) < 0:
        raise MismatchError(f"expand: {describe(x)} does not expand to {list(wanted)}.")
    return apply(expand, (x,), {"shape": wanted})


def embed(g: Tensor, x_spec: Any, op: Any, **params: Any) -> Tensor:
    """Zeros of the input's shape with `g` at the elements the view shows."""
    region = op.body(fresh_view(x_spec.shape), **params)
    return assign(
        zeros(x_spec.shape, dtype=g.dtype), g,
        shape=region.shape, strides=region.strides, offset=region.offset,
    )  # fmt: skip


@view(
    vjp={"x": lambda g, x_spec, dim, start, stop, step: embed(
        g, x_spec, slice_, dim=dim, start=start, stop=stop, step=step)},
    samples=lambda: (
        Sample((Array((5, 4)),), {"dim": 0, "start": 1, "stop": 4, "step": 1}),
        Sample((Array((5, 4)),), {"dim": 1, "start": 0, "stop": 4, "step": 2}),
        Sample((Array((5,)),), {"dim": 0, "start": 2, "stop": 2, "step": 1}),
    ),
    method=False,
    internal=True,
    linear=True,
    distinct=True,
)  # fmt: skip
def slice_(x, *, dim, start, stop, step):
    """Every `step`-th element of one dim from `start` to `stop`, as a view."""
    return x.slice(dim, start, stop, step)


@view(
    vjp={"x": lambda g, x_spec, dim, index: embed(g, x_spec, select, dim=dim, index=index)},
    samples=lambda: (
        Sample((Array((5, 4)),), {"dim": 0, "index": 3}),
        Sample((Array((5, 4, 2)),), {"dim": 1, "index": 0}),
    ),
    failures=lambda: (
        Failure((Array((3,)),), {"dim": 0, "index": 3}, IndexError, "select: index 3"),
        Failure(
            (Array((3,)),),
            {"dim": 0, "index": 0.5},
            TypeError,
            "select: index must be an int, not 0.5.",
        ),
    ),
    normalize=lambda x, dim, index: select_params(x, dim, index),
    linear=True,
    distinct=True,
)
def select(x, *, dim, index):
    """The slice at one index of a dim, without that dim, as a view."""
    return x.select(dim, index)


def select_params(x: Tensor, dim: int, index: int) -> dict[str, Any]:
    """The parameters of `select`, checked, with both counted from the start."""
    if not x.ndim:
        raise IndexError("select: a 0-d tensor cannot be indexed.")
    dim, index = normalize_dim("select", dim, x.ndim), whole("select", "index", index)
    n = x.shape[dim]
    if not -n <= index < n:
        raise IndexError(f"select: index {index} is out of range for dim {dim} of {describe(x)}.")
    return {"dim": dim, "index": index % n}


# --- PyTorch's other names for these -----------------------------------------------------------


@composite(ref=np.ascontiguousarray, samples=lambda: (Sample((Array((3, 4)),)),))
def contiguous(x):
    """The tensor itself if it is contiguous (row-major, without gaps), else a contiguous copy."""
    return x if x.is_contiguous() else clone(x)


@composite(
    aliases=("swapaxes", "swapdims"),
    ref=lambda x, dim0, dim1: np.swapaxes(x, dim0, dim1),
    samples=lambda: (
        Sample((Array((2, 3, 4)),), {"dim0": 0, "dim1": -1}),
        Sample((Array((3, 4)),), {"dim0": 1, "dim1": 1}),
    ),
    failures=lambda: (
        Failure((Array((2,)),), {"dim0": 0, "dim1": 1}, IndexError, "transpose: dim 1 is out of"),
    ),
    by_parts=True,
)
def transpose(x, *, dim0, dim1):
    """Two dims exchanged."""
    rank = x.ndim
    a, b = normalize_dim("transpose", dim0, rank), normalize_dim("transpose", dim1, rank)
    dims = list(range(rank))
    if dims:  # a 0-d tensor may be asked for dims 0 and -1
        dims[a], dims[b] = b, a
    return apply(permute, (x,), {"dims": tuple(dims)})


@transpose.signature
def _transpose(
    x: Tensor, dim0: Any = None, dim1: Any = None, *, axis0: Any = None, axis1: Any = None
) -> Tensor:
    if isinstance(dim0, (tuple, list)) and dim1 is None:  # all dims in a new order, as in NumPy
        return _permute(x, tuple(dim0))
    dims = [dim if axis is None else axis for dim, axis in ((dim0, axis0), (dim1, axis1))]
    if None in dims:
        raise TypeError("transpose: missing dim0 or dim1.")
    return apply(transpose, (x,), {"dim0": dims[0], "dim1": dims[1]})


@composite(
    ref=lambda x, dim: np.expand_dims(x, dim),
    samples=lambda: (Sample((Array((2, 3)),), {"dim": -1}), Sample((Array(()),), {"dim": 0})),
    by_parts=True,
)
def unsqueeze(x, *, dim):
    """A new dim of size one."""
    shape = x.layout.shape
    dim = normalize_dim("unsqueeze", dim, len(shape) + 1)
    return apply(reshape, (x,), {"shape": (*shape[:dim], 1, *shape[dim:])})


@composite(
    ref=lambda x, dim: np.squeeze(x, dim),
    samples=lambda: (
        Sample((Array((2, 1, 3)),), {"dim": 1}),
        Sample((Array((1, 2, 1)),), {"dim": None}),
        Sample((Array((1, 2, 1)),), {"dim": (0, 2)}),
    ),
    by_parts=True,
)
def squeeze(x, *, dim=None):
    """Dims of size one dropped: all, or those named."""
    named = range(x.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    dims = [normalize_dim("squeeze", d, x.ndim) for d in named]
    if len(set(dims)) != len(dims):
        raise ValueError(f"squeeze: dim {dim} names a dim twice.")
    shape = tuple([n for d, n in enumerate(x.layout.shape) if n != 1 or d not in dims])
    return apply(reshape, (x,), {"shape": shape})


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
    first, last = (normalize_dim("flatten", d, x.ndim) for d in (start_dim, end_dim))
    if not x.ndim:
        return reshape(x, (1,))
    if first > last:
        raise ValueError(f"flatten: start_dim {start_dim} comes after end_dim {end_dim}.")
    return reshape(x, (*x.shape[:first], numel(x.shape[first : last + 1]), *x.shape[last + 1 :]))


@composite(
    ref=lambda x, shape: x.reshape(shape),
    samples=lambda: (
        Sample((Array((3, 4)),), {"shape": (3, 1, -1)}),
        Sample((Array((0, 4)),), {"shape": (4, 0)}),
    ),
    failures=lambda: (
        Failure((Array((3, 4)),), {"shape": (5, 2)}, ValueError, "view: cannot make [5, 2]"),
    ),
    by_parts=True,
)
def view_(x, *, shape):
    """The same elements under another shape, never copied; one size may be -1.

    With a dtype in place of a shape, the same bytes as elements of that dtype.
    """
    target = _wanted_shape("view", x, shape)
    if x.layout.reshape(target) is None:
        raise ValueError(
            f"view: {describe(x)} with strides {x.stride()} cannot be viewed as {list(target)} "
            f"without a copy. Use reshape."
        )
    return apply(reshape, (x,), {"shape": target})


def _reinterpreted(x: Tensor, dtype: DType) -> Tensor:
    """The same bytes as elements of another dtype, in the memory of the host."""
    state().context.leave(x, "view() as another dtype")
    if x.device != "cpu":
        raise DeviceError(
            f"view: {describe(x)} cannot be viewed as {dtype}: its bytes do not lie in the memory "
            f"of the host. Use x.cpu().view(contraflow.{dtype})."
        )
    array = (x if dtype.is_floating_point else x.detach()).numpy()
    try:
        return from_numpy(array.view(dtype.numpy))
    except ValueError as error:
        raise ValueError(
            f"view: {describe(x)} with strides {x.stride()} cannot be viewed as {dtype}: {error}"
        ) from None


@view_.signature
def _view(x: Tensor, *shape: Any, **named: Any) -> Tensor:
    dtype = named.get("dtype", shape[0] if len(shape) == 1 else None)
    if isinstance(dtype, DType):
        return _reinterpreted(x, dtype)
    return apply(view_, (x,), {"shape": _numbers("view", "shape", shape, named)})


@composite(
    ref=lambda x, other: x.reshape(other.shape),
    samples=lambda: (Sample((Array((3, 4)), np.zeros((2, 6), np.int64))),),
)
def reshape_as(x, other):
    """The elements under the shape of another tensor."""
    return reshape(x, other.shape)


@composite(
    ref=lambda x, other: np.broadcast_to(x, other.shape),
    samples=lambda: (Sample((Array((3, 1)), np.zeros((2, 3, 4), np.int64))),),
    by_parts=True,
)
def expand_as(x, other):
    """The tensor broadcast to the shape of another."""
    return expand(x, other.shape)


@composite(
    ref=lambda x, shape: np.broadcast_to(x, shape),
    samples=lambda: (Sample((Array((3, 1)),), {"shape": (2, 3, 4)}),),
    failures=lambda: (
        Failure((Array((3,)),), {"shape": (2,)}, ValueError, "float64[3] does not expand to [2]"),
    ),
    by_parts=True,
)
def broadcast_to(x, *, shape):
    """The tensor broadcast to a shape, without copying."""
    return expand(x, shape)


@broadcast_to.signature
def _broadcast_to(x: Tensor, *shape: Any, **named: Any) -> Tensor:
    return apply(broadcast_to, (x,), {"shape": _numbers("broadcast_to", "shape", shape, named)})


@composite(
    ref=lambda *xs: tuple(np.broadcast_arrays(*xs)),
    samples=lambda: (Sample((Array((3, 1)), Array((4,)), Array(()))), Sample((Array((2,)),))),
    method=False,
    several=True,
)
def broadcast_tensors(*xs):
    """All tensors expanded to their common shape."""
    shape = broadcast_shapes("broadcast_tensors", [x.shape for x in xs])
    return tuple(expand(x, shape) for x in xs)


def unpacked(tensors: tuple[Any, ...]) -> tuple[Any, ...]:
    """Tensors given one by one, or as one sequence."""
    one = len(tensors) == 1 and isinstance(tensors[0], (tuple, list))
    return tuple(tensors[0]) if one else tensors


@broadcast_tensors.signature
def _broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    outs: tuple[Tensor, ...] = apply(broadcast_tensors, unpacked(tensors))
    return outs


@composite(ref=np.ravel, samples=lambda: (Sample((Array((2, 3)),)), Sample((Array(()),))))
def ravel(x):
    """All dims merged into one."""
    return reshape(x, (-1,))


@composite(
    ref=np.transpose,
    samples=lambda: (Sample((Array((2, 3)),)), Sample((Array((3,)),)), Sample((Array(()),))),
    failures=lambda: (
        Failure((Array((2, 3, 4)),), {}, ValueError, "t: float64[2, 3, 4] has more than two dims"),
    ),
    by_parts=True,
)
def t(x):
    """The two dims of a matrix exchanged; a vector stays as it is."""
    if x.ndim > 2:
        raise ValueError(f"t: {describe(x)} has more than two dims. Use transpose or mT.")
    return apply(permute, (x,), {"dims": tuple(reversed(range(x.ndim)))})


@composite(
    aliases=("moveaxis",),
    ref=np.moveaxis,
    samples=lambda: (
        Sample((Array((2, 3, 4)),), {"source": 0, "destination": -1}),
        Sample((Array((2, 3, 4)),), {"source": (2, 0), "destination": (0, 1)}),
    ),
    failures=lambda: (
        Failure(
            (Array((2, 3)),), {"source": (0, 1), "destination": (0,)}, ValueError,
            "movedim: source (0, 1) and destination (0,) must name equally many distinct dims.",
        ),
        Failure(
            (Array((2, 3)),), {"source": 2, "destination": 0}, IndexError,
            "movedim: dim 2 is out of range",
        ),
    ),
    by_parts=True,
)  # fmt: skip
def movedim(x, *, source, destination):
    """Dims moved to other positions; the remaining dims keep their order."""
    given = [(d,) if isinstance(d, int) else tuple(d) for d in (source, destination)]
    # The dims of a 0-d tensor are named 0 and -1, and none of them moves.
    old, new = ([normalize_dim("movedim", d, x.ndim) for d in dims] for dims in given)
    if not len(old) == len(new) == len(set(old)) == len(set(new)):
        raise ValueError(
            f"movedim: source {given[0]} and destination {given[1]} must name equally many "
            f"distinct dims."
        )
    if not x.ndim:
        return permute(x, ())
    dims = [d for d in range(x.ndim) if d not in old]
    for place, d in sorted(zip(new, old)):
        dims.insert(place, d)
    return permute(x, tuple(dims))


@composite(
    ref=lambda x, dim, sizes: x.reshape(*x.shape[:dim], *sizes, *x.shape[dim:][1:]),
    samples=lambda: (
        Sample((Array((2, 6)),), {"dim": 1, "sizes": (3, 2)}),
        Sample((Array((4, 3)),), {"dim": 0, "sizes": (-1, 2)}),
    ),
    failures=lambda: (
        Failure(
            (Array((2, 6)),), {"dim": 1, "sizes": (4, -1)}, ValueError,
            "unflatten: sizes (4, -1) do not multiply to 6, the size of dim 1 of float64[2, 6].",
        ),
    ),
    by_parts=True,
)  # fmt: skip
def unflatten(x, *, dim, sizes):
    """One dim split into several; one size may be -1."""
    dim = normalize_dim("unflatten", dim, x.ndim)
    known = numel(n for n in sizes if n != -1)
    filled = tuple(x.shape[dim] // max(known, 1) if n == -1 else n for n in sizes)
    if sum(n == -1 for n in sizes) > 1 or numel(filled) != x.shape[dim]:
        raise ValueError(
            f"unflatten: sizes {tuple(sizes)} do not multiply to {x.shape[dim]}, the size of dim "
            f"{dim} of {describe(x)}."
        )
    return reshape(x, (*x.shape[:dim], *filled, *x.shape[dim + 1 :]))


def _at_least(name: str, ref: Any, grow: Any) -> Op:
    """The op that gives each tensor a number of dims at the least; several come as a tuple."""

    def body(*xs: Any) -> Any:
        grown = tuple(reshape(x, grow(x.shape)) for x in xs)
        return grown[0] if len(grown) == 1 else grown

    body.__name__ = name
    body.__doc__ = f"Tensors with new dims of size one where they have fewer than {name[8]}."
    op = composite(
        ref=ref, samples=lambda: (Sample((Array(()),)), Sample((Array((2,)), Array((3, 2)))))
    )(body)

    @op.signature
    def call(*tensors: Any) -> Any:
        many = len(tensors) == 1 and isinstance(tensors[0], (tuple, list))
        outs = apply(op, unpacked(tensors))
        return (outs,) if many and isinstance(outs, Tensor) else outs

    return op


atleast_1d = _at_least("atleast_1d", np.atleast_1d, lambda n: n or (1,))
atleast_2d = _at_least("atleast_2d", np.atleast_2d, lambda n: (1,) * (2 - len(n)) + n)
atleast_3d = _at_least(
    "atleast_3d", np.atleast_3d, lambda n: ((1,) * (2 - len(n)) + n + (1,))[: max(3, len(n))]
)


# --- in place ------------------------------------------------------------------------------------


def _in_place(name: str, given: str, shape: tuple[int, ...]) -> Any:
    """The method by which a tensor becomes its own view; `given` to [2, 1] makes it of `shape`."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if self.requires_grad:
            raise GradientError(
                f"{name}_: {describe(self)} requires grad, and its place in the graph has a "
                f"shape. Use x = x.{name}(...), which copies nothing."
            )
        context = state().context
        if context.is_recording and not self.storage.is_recorded:
            raise context.refusal(
                f"{name}_ changes the shape of {describe(self)} from outside, and a replay would "
                f"not",
                f"Use x = x.{name}(...), which copies nothing.",
            )
        view = getattr(self, name)(*args, **kwargs)
        if view is not self:
            self.data = view
            if self._base is not None:
                self._view_ops = view.view_ops
        return self

    method.__name__, method.__qualname__ = f"{name}_", f"Tensor.{name}_"
    method.__doc__ = (
        f"Take the shape of `x.{name}(...)` in place; not where x requires grad.\n\n"
        f">>> import contraflow as cf\n>>> cf.ones(2, 1).{name}_({given}).shape\n{shape}\n"
    )
    return method


for _name, _given, _shape in (
    ("squeeze", "1", (2,)), ("unsqueeze", "0", (1, 2, 1)), ("t", "", (1, 2)),
    ("transpose", "0, 1", (1, 2)), ("swapaxes", "0, 1", (1, 2)), ("swapdims", "0, 1", (1, 2)),
    ("as_strided", "(1, 2), (2, 1)", (1, 2)),
):  # fmt: skip
    setattr(Tensor, f"{_name}_", _in_place(_name, _given, _shape))
