"""Joining, repeating and rearranging: every element of a result is one of an input's, or a zero.

Views of one tensor are in `view.py`, elements chosen by other tensors in `index/gather.py` and
`index/indexing.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from contraflow import dtypes, thresholds
from contraflow.contexts.applying import outside_graph
from contraflow.errors import MismatchError, describe
from contraflow.expressions import expression as s
from contraflow.operation.context import apply, state
from contraflow.operation.kinds import composite, index
from contraflow.operation.op import Op
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.ops.elementwise.basic import clone, to_dtype
from contraflow.ops.index.gather import constant_pad
from contraflow.ops.shape.parts import split, unbind
from contraflow.ops.shape.view import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    expand,
    reshape,
    slice_,
    transpose,
    unpacked,
    unsqueeze,
)
from contraflow.shapes import Shape, normalize_dim, whole
from contraflow.tensors.tensor import Tensor

# --- joining -----------------------------------------------------------------------------------


def _stack_ref(*xs: np.ndarray, dim: int) -> np.ndarray:
    if dim or not xs[0].ndim:
        return np.stack(xs, dim)
    return np.concatenate(xs).reshape(len(xs), *xs[0].shape)  # which takes a third of the time


def _cat_shape(*xs: Any, dim: int) -> Shape:
    first = xs[0].shape
    for x in xs:
        fits = len(x.shape) == len(first) and all(
            d == dim or n == m for d, (n, m) in enumerate(zip(x.shape, first))
        )
        if not fits:
            raise MismatchError(
                f"cat: {x} does not fit {xs[0]}; all sizes but that of dim {dim} must be the same."
            )
    return (*first[:dim], sum(x.shape[dim] for x in xs), *first[dim + 1 :])


def _cat_source(at: Any, *xs: Any, dim: int) -> Any:
    """The last tensor that begins at or before the position; each is read only within itself."""
    out, start = None, 0
    for x in xs:
        i = at[dim] - s.Size(start)
        inside = (i >= 0) & (i < x.shape[dim])
        element = x.where(inside, (*at[:dim], i, *at[dim + 1 :]))
        out = element if out is None else s.select(i >= 0, element, out)
        start += x.shape[dim]
    return out


def _cat_vjp(g: Tensor, specs: Any, needs: Any, dim: int) -> list[Tensor | None]:
    if len(specs) > thresholds.eager_pieces:
        pieces = split(g, tuple(spec.shape[dim] for spec in specs), dim)
        return [part if needed else None for part, needed in zip(pieces, needs)]
    ends = list(itertools.accumulate((spec.shape[dim] for spec in specs), initial=0))
    return [
        slice_(g, dim=dim, start=a, stop=b, step=1) if needed else None
        for needed, a, b in zip(needs, ends[:-1], ends[1:])
    ]


@index(
    aliases=("concat", "concatenate"),
    ref=lambda *xs, dim: np.concatenate(xs, dim),
    dtype="same",
    shape=_cat_shape,
    source=_cat_source,
    vjp={"xs": _cat_vjp},
    samples=lambda: (
        Sample((Array((2, 3)), Array((4, 3)), Array((1, 3))), {"dim": 0}),
        Sample((Array((2, 3)), Array((2, 0)), Array((2, 2))), {"dim": 1}),
        Sample((Array((2,)),), {"dim": 0}),
    ),
    failures=lambda: (
        Failure(
            (Array((2, 3)), Array((2, 4))), {"dim": 0}, ValueError,
            "cat: float64[2, 4] does not fit float64[2, 3]; all sizes but that of dim 0 must",
        ),
        Failure((Array(()), Array(())), {"dim": 0}, ValueError, "cat: float64[] has no dims"),
        Failure((), {"dim": 0}, ValueError, "cat: there must be at least one tensor."),
        Failure((Array((2,)),), {"dim": 1}, IndexError, "cat: dim 1 is out of range"),
    ),
    method=False,
    linear=True,
    silent=True,
    along_dim=True,
)  # fmt: skip
def cat(*xs, dim):
    """Tensors joined along a dim."""


@cat.signature
def _cat(tensors: Any, dim: int = 0, *, axis: int | None = None) -> Tensor:
    given = _listed("cat", tensors)
    arrays = outside_graph(given, given[0].dtype)
    if arrays is not None and axis is None and type(dim) is int:
        try:
            return _joined(np.concatenate(arrays, dim))
        except (ValueError, TypeError):  # what does not fit is told below
            pass
    shapes = [x.layout.shape for x in given]
    distinct = set(shapes)
    if () in distinct:
        raise MismatchError(f"cat: {describe(given[shapes.index(())])} has no dims; use stack.")
    full: Sequence[Tensor] = given
    shape = shapes[0]
    dim = dim if axis is None else axis
    if distinct == {(0,)} and isinstance(dim, int):
        dim = 0  # whatever it names: they would fit tensors of any number of dims
    elif (0,) in distinct:
        # A vector without elements fits everything: PyTorch keeps it as the start of a loop.
        shape = next((other for other in shapes if other != (0,)), shape)
        at = normalize_dim("cat", dim, len(shape))
        nothing = (*shape[:at], 0, *shape[at + 1 :])
        full = [
            reshape(x, nothing) if x.shape == (0,) else x
            for x in given
            if x.shape != (0,) or x.requires_grad or len(shape) == 1
        ]
    dim = normalize_dim("cat", dim, len(shape))
    parts = tuple(_promoted(given, full))
    most = thresholds.joined_inputs
    while len(parts) > most and state().context.is_recording:
        groups = (parts[i : i + most] for i in range(0, len(parts), most))
        parts = tuple(apply(cat, group, {"dim": dim}) for group in groups)
    return apply(cat, parts, {"dim": dim})


def _joined(array: np.ndarray) -> Tensor:
    return Tensor.of_array(np.asarray(array, order="C"))


def _listed(name: str, tensors: Any) -> tuple[Tensor, ...]:
    if isinstance(tensors, Tensor) or not isinstance(tensors, (tuple, list)):
        raise TypeError(f"{name}: expected a tuple or list of tensors, not {describe(tensors)}.")
    if {*map(type, tensors)} != _TENSORS:
        for x in tensors:
            if not isinstance(x, Tensor):
                raise TypeError(f"{name}: expected tensors, not {type(x).__name__}.")
    if not tensors:
        raise ValueError(f"{name}: there must be at least one tensor.")
    return tensors if type(tensors) is tuple else tuple(tensors)


_TENSORS = {Tensor}


def _promoted(all_given: Any, kept: Any) -> Any:
    if len({x.dtype for x in all_given}) == 1:
        return kept
    dtype = dtypes.fold(x.dtype for x in all_given)
    return (x if x.dtype is dtype else to_dtype(x, dtype=dtype) for x in kept)


@composite(
    ref=_stack_ref,
    samples=lambda: (
        Sample((Array((2, 3)), Array((2, 3))), {"dim": 1}),
        Sample((Array(()), Array(()), Array(())), {"dim": 0}),
    ),
    failures=lambda: (
        Failure(
            (Array((2,)), Array((3,))), {"dim": 0}, ValueError,
            "stack: float64[3] does not fit float64[2]; all must have the same shape.",
        ),
    ),
    method=False,
)  # fmt: skip
def stack(*xs, dim=0):
    """Tensors of one shape joined along a new dim."""
    for x in xs:
        if x.shape != xs[0].shape:
            raise MismatchError(
                f"stack: {describe(x)} does not fit {describe(xs[0])}; all must have the same "
                f"shape."
            )
    dim = normalize_dim("stack", dim, xs[0].ndim + 1)
    return cat([unsqueeze(x, dim) for x in xs], dim)


@stack.signature
def _stack(tensors: Any, dim: int = 0) -> Tensor:
    given = _listed("stack", tensors)
    arrays = outside_graph(given, given[0].dtype)
    if arrays is not None and dim == 0 and type(dim) is int:
        shape = given[0].layout.shape
        for x in given:
            if x.layout.shape is not shape and x.layout.shape != shape:
                break
        else:
            return _joined(_stack_ref(*arrays, dim=0))
    current = state()
    if current.context.immediate:
        shape = given[0].layout.shape
        parts = current.grad and len(given) <= thresholds.eager_pieces
        for x in given:
            if x.layout.shape != shape or (parts and (x._needs or x._base is not None)):
                break
        else:
            dim = normalize_dim("stack", dim, len(shape) + 1)
            return apply(stack_many, tuple(_promoted(given, given)), {"dim": dim})
    return apply(stack, given, {"dim": dim})


def _stack_source(at: Any, *xs: Any, dim: int) -> Any:
    inside = (*at[:dim], *at[dim + 1 :])
    out = xs[0][inside]
    for number, x in enumerate(xs[1:], 1):
        out = s.select(s.eq(at[dim], number), x[inside], out)
    return out


def _stack_vjp(g: Tensor, needs: Any, dim: int) -> list[Tensor | None]:
    return [part if needed else None for part, needed in zip(unbind(g, dim), needs)]


@index(
    ref=_stack_ref,
    dtype="same",
    shape=lambda *xs, dim: (*xs[0].shape[:dim], len(xs), *xs[0].shape[dim:]),
    source=_stack_source,
    vjp={"xs": _stack_vjp},
    samples=lambda: (
        Sample((Array((2, 3)), Array((2, 3)), Array((2, 3))), {"dim": 1}),
        Sample((Array(()),) * (thresholds.eager_pieces + 1), {"dim": 0}),
    ),
    method=False,
    internal=True,
    linear=True,
    silent=True,
)
def stack_many(*xs, dim):
    """More tensors than a kernel of unsqueezed ones is made for: NumPy joins them."""


def _stacking(name: str, ref: Any, grow: Any, dim_of: Any, **fields: Any) -> Op:
    """An op that joins tensors which first get the dims they lack."""

    def body(*xs: Any) -> Any:
        grown = [grow(x) for x in xs]
        return cat(grown, dim_of(grown[0].ndim))

    body.__name__ = name
    body.__doc__ = f"Tensors joined as np.{name} joins them."
    op = composite(
        ref=lambda *xs: ref(xs),
        samples=lambda: (
            Sample((Array((3,)), Array((3,)))),
            Sample((Array((2, 3)), Array((2, 3)))),
            Sample((Array(()), Array(()))),
        ),
        failures=lambda: (
            Failure((Array((2, 3)), Array((4, 5))), {}, ValueError, "does not fit float64[2, 3"),
        ),
        method=False,
        **fields,
    )(body)

    @op.signature
    def call(tensors: Any) -> Tensor:
        out: Tensor = apply(op, _listed(name, tensors))
        return out

    return op


hstack = _stacking("hstack", np.hstack, atleast_1d, lambda rank: min(rank - 1, 1))
vstack = _stacking("vstack", np.vstack, atleast_2d, lambda rank: 0, aliases=("row_stack",))
dstack = _stacking("dstack", np.dstack, atleast_3d, lambda rank: 2)
column_stack = _stacking(
    "column_stack",
    np.column_stack,
    lambda x: reshape(x, (x.numel(), 1)) if x.ndim < 2 else x,
    lambda rank: 1,
)


def _block_diag_ref(*xs: np.ndarray) -> np.ndarray:
    blocks = [np.atleast_2d(x) for x in xs]
    out = np.zeros(np.sum([b.shape for b in blocks], axis=0), np.result_type(*blocks))
    row = column = 0
    for b in blocks:
        out[row : row + b.shape[0], column : column + b.shape[1]] = b
        row, column = row + b.shape[0], column + b.shape[1]
    return out


@composite(
    ref=_block_diag_ref,
    samples=lambda: (Sample((Array((2, 3)), Array(()), Array((2,)))), Sample((Array((2, 2)),))),
    failures=lambda: (
        Failure((Array((1, 2, 3)),), {}, ValueError, "block_diag: float64[1, 2, 3] has more than"),
    ),
    method=False,
)
def block_diag(*xs):
    """A matrix with the given ones along its diagonal and zeros elsewhere."""
    for x in xs:
        if x.ndim > 2:
            raise ValueError(f"block_diag: {describe(x)} has more than two dims.")
    blocks = [atleast_2d(x) for x in xs]
    width, rows, column = sum(b.shape[1] for b in blocks), [], 0
    for b in blocks:
        after = width - column - b.shape[1]
        rows.append(constant_pad(b, 0, pads=((0, 0), (column, after))))
        column += b.shape[1]
    return cat(rows)


@block_diag.signature
def _block_diag(*tensors: Any) -> Tensor:
    return apply(block_diag, _listed("block_diag", unpacked(tensors)))


# --- grids -------------------------------------------------------------------------------------


@composite(
    ref=lambda *xs, indexing: tuple(np.meshgrid(*xs, indexing=indexing)),
    samples=lambda: (
        Sample((Array((3,)), Array((2,))), {"indexing": "ij"}),
        Sample((Array((3,)), Array((2,)), Array(())), {"indexing": "xy"}),
    ),
    failures=lambda: (
        Failure((Array((2,)),), {"indexing": "yx"}, ValueError, "meshgrid: indexing is 'yx'"),
        Failure((Array((2, 2)),), {"indexing": "ij"}, ValueError, "meshgrid: float64[2, 2] has"),
    ),
    method=False,
    several=True,
)
def meshgrid(*xs, indexing="ij"):
    """The coordinates of a grid over vectors: one tensor per vector, expanded to the grid."""
    if indexing not in ("ij", "xy"):
        raise ValueError(f"meshgrid: indexing is {indexing!r}; it must be 'ij' or 'xy'.")
    for x in xs:
        if x.ndim > 1:
            raise ValueError(f"meshgrid: {describe(x)} has more than one dim.")
        if x.dtype is not xs[0].dtype:
            raise TypeError(
                f"meshgrid: {describe(x)} and {describe(xs[0])} must have the same dtype."
            )
    shape = tuple(x.numel() for x in xs)
    grids = [expand(reshape(x, (-1, *(1,) * (len(xs) - 1 - d))), shape) for d, x in enumerate(xs)]
    if indexing == "xy" and len(xs) > 1:  # the first two dims are exchanged
        grids = [transpose(grid, 0, 1) for grid in grids]
    return tuple(grids)


@meshgrid.signature
def _meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    listed = _listed("meshgrid", unpacked(tensors))
    outs: tuple[Tensor, ...] = apply(meshgrid, listed, {"indexing": indexing})
    return outs


@composite(
    ref=lambda *xs: np.stack([m.ravel() for m in np.meshgrid(*xs, indexing="ij")], -1)
    if len(xs) > 1 else xs[0],
    samples=lambda: (Sample((Array((3,)), Array((2,)))), Sample((Array((3,)),))),
    method=False,
)  # fmt: skip
def cartesian_prod(*xs):
    """All tuples with one element of each vector, as rows; a single vector is given back."""
    if len(xs) == 1:
        return xs[0]
    return stack([reshape(grid, (-1,)) for grid in meshgrid(*xs)], -1)


@cartesian_prod.signature
def _cartesian_prod(*tensors: Any) -> Tensor:
    return apply(cartesian_prod, _listed("cartesian_prod", unpacked(tensors)))


# --- repeating ---------------------------------------------------------------------------------


@composite(
    ref=lambda x, repeats: np.tile(x, repeats),
    samples=lambda: (
        Sample((Array((2, 3)),), {"repeats": (2, 1, 3)}),
        Sample((Array(()),), {"repeats": (2,)}),
        Sample((Array((2,)),), {"repeats": (0,)}),
    ),
    failures=lambda: (
        Failure((Array((2, 3)),), {"repeats": (2,)}, ValueError, "repeat: repeats (2,) are fewer"),
        Failure((Array((2,)),), {"repeats": (-1,)}, ValueError, "repeat: repeats (-1,) are"),
    ),
)
def repeat(x, *, repeats):
    """The tensor repeated along each dim; additional counts add dims in front."""
    lead = len(repeats) - x.ndim
    if lead < 0 or min(repeats, default=0) < 0:
        problem = "fewer than the dims of" if lead < 0 else "negative for"
        raise ValueError(f"repeat: repeats {repeats} are {problem} {describe(x)}.")
    shape = (1,) * lead + x.shape
    apart = tuple(n for size in shape for n in (1, size))
    spread = tuple(n for pair in zip(repeats, shape) for n in pair)
    joined = tuple(n * m for n, m in zip(repeats, shape))
    out = reshape(expand(reshape(x, apart), spread), joined)
    return clone(out) if out.storage is x.storage else out


@repeat.signature
def _repeat(x: Tensor, *repeats: Any, **named: Any) -> Tensor:
    given = named.get("repeats", unpacked(repeats))
    return apply(repeat, (x,), {"repeats": tuple(whole("repeat", "repeats", n) for n in given)})


@composite(
    ref=lambda x, dims: np.tile(x, dims),
    samples=lambda: (
        Sample((Array((2, 3)),), {"dims": (2,)}),
        Sample((Array((2,)),), {"dims": (2, 2)}),
    ),
)
def tile(x, *, dims):
    """The tensor repeated along its last dims."""
    return repeat(x, (1,) * (x.ndim - len(dims)) + tuple(dims))


@tile.signature
def _tile(x: Tensor, *dims: Any, **named: Any) -> Tensor:
    given = named.get("dims", unpacked(dims))
    return apply(tile, (x,), {"dims": tuple(whole("tile", "dims", n) for n in given)})
