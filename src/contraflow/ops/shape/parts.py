"""Parts of a tensor: one or several views of it, and copies of it with one part replaced."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from contraflow import thresholds
from contraflow.dtypes import INT
from contraflow.errors import describe
from contraflow.graph.op_node import PartsNode
from contraflow.operation.context import apply, state
from contraflow.operation.kinds import composite, view
from contraflow.operation.op import Op
from contraflow.operation.reference import strided as strided_array
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.ops.elementwise.basic import to_dtype
from contraflow.ops.index.gather import constant_pad
from contraflow.ops.index.positions import part_from
from contraflow.ops.shape.view import assign, embed, select, select_params, slice_
from contraflow.shapes import View, normalize_dim, whole
from contraflow.shapes import contiguous as fresh_view
from contraflow.tensors.tensor import Tensor

# --- parts ---------------------------------------------------------------------------------------


@composite(
    ref=lambda x, dim, start, length: np.take(x, range(start, start + length), dim),
    samples=lambda: (
        Sample((Array((5, 4)),), {"dim": 0, "start": 1, "length": 3}),
        Sample((Array((2, 4)),), {"dim": -1, "start": 4, "length": 0}),
    ),
    failures=lambda: (
        Failure(
            (Array((3,)),), {"dim": 0, "start": 2, "length": 2}, IndexError,
            "narrow: 2 elements from 2 on do not lie within dim 0 of float64[3].",
        ),
    ),
)  # fmt: skip
def narrow(x, *, dim, start, length):
    """`length` elements of a dim from `start` on, as a view."""
    if isinstance(start, Tensor) and start.dtype.category != INT:
        raise TypeError(f"narrow: start is {describe(start)}; it must be an integer.")
    dim = normalize_dim("narrow", dim, x.ndim)
    if x.ndim and (part := part_from(x, dim, start, length)) is not None:
        return part
    start, length = whole("narrow", "start", start), whole("narrow", "length", length)
    n = x.shape[dim] if x.ndim else 0
    first = start + n if start < 0 else start
    if not 0 <= first <= first + length <= n:
        raise IndexError(
            f"narrow: {length} elements from {start} on do not lie within dim {dim} of "
            f"{describe(x)}."
        )
    return slice_(x, dim=dim, start=first, stop=first + length, step=1)


def _diagonal(x: View, offset: int, dim1: int, dim2: int) -> View:
    (rows, columns), (down, right) = ((a[dim1], a[dim2]) for a in (x.shape, x.strides))
    count = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    kept = [d for d in range(len(x.shape)) if d not in (dim1, dim2)]
    start = max(-offset, 0) * down + max(offset, 0) * right if count else 0
    return View(
        (*(x.shape[d] for d in kept), count),
        (*(x.strides[d] for d in kept), down + right),
        x.offset + start,
    )


def _two_dims(name: str, x: Tensor, dim1: int, dim2: int) -> dict[str, int]:
    first, second = (normalize_dim(name, d, x.ndim) for d in (dim1, dim2))
    if first == second:
        raise ValueError(f"{name}: dim1 {dim1} and dim2 {dim2} are not two dims of {describe(x)}.")
    return {"dim1": first, "dim2": second}


@view(
    vjp={"x": lambda g, x_spec, offset, dim1, dim2: embed(
        g, x_spec, diagonal, offset=offset, dim1=dim1, dim2=dim2)},
    samples=lambda: (
        Sample((Array((3, 4)),), {"offset": 1, "dim1": 0, "dim2": 1}),
        Sample((Array((3, 2, 4)),), {"offset": -1, "dim1": 2, "dim2": 0}),
        Sample((Array((2, 2)),), {"offset": 5, "dim1": 0, "dim2": 1}),
    ),
    failures=lambda: (
        Failure(
            (Array((3, 3)),), {"offset": 0, "dim1": 0, "dim2": -2}, ValueError,
            "diagonal: dim1 0 and dim2 -2 are not two dims of float64[3, 3].",
        ),
        Failure(
            (Array((3, 3)),), {"offset": 1.5, "dim1": 0, "dim2": 1}, TypeError,
            "diagonal: offset must be an int, not 1.5.",
        ),
    ),
    normalize=lambda x, offset, dim1, dim2: {
        "offset": whole("diagonal", "offset", offset), **_two_dims("diagonal", x, dim1, dim2)},
    linear=True,
    distinct=True,
)  # fmt: skip
def diagonal(x, *, offset=0, dim1=0, dim2=1):
    """A view of a diagonal over two dims, `offset` from the main one, as the last dim."""
    return _diagonal(x, offset, dim1, dim2)


# --- one part replaced ---------------------------------------------------------------------------


def replaced(name: str, x: Tensor, source: Tensor, part: Op, params: dict[str, Any]) -> Tensor:
    """`x` with the elements that a view of it shows replaced by those of `source`."""
    region = part.body(fresh_view(x.shape), **params)
    if source.shape != region.shape:
        raise ValueError(
            f"{name}: {describe(source)} does not fit the part {list(region.shape)} of "
            f"{describe(x)}."
        )
    if source.dtype is not x.dtype:
        source = to_dtype(source, dtype=x.dtype)
    return apply(assign, (x, source), region._asdict())


def _part_ref(part: Any) -> Any:
    def ref(x: np.ndarray, src: np.ndarray, **params: Any) -> np.ndarray:
        out = x.copy()
        out[part(**params)] = src
        return out

    return ref


@composite(
    ref=_part_ref(lambda dim, index: (slice(None),) * dim + (index,)),
    samples=lambda: (Sample((Array((3, 4)), Array((3,))), {"dim": 1, "index": -1}),),
    failures=lambda: (
        Failure(
            (Array((3, 4)), Array((3,))), {"dim": 0, "index": 0}, ValueError,
            "select_scatter: float64[3] does not fit the part [4] of float64[3, 4].",
        ),
    ),
)  # fmt: skip
def select_scatter(x, src, *, dim, index):
    """`x` with the slice at one index of a dim replaced by `src`."""
    return replaced("select_scatter", x, src, select, select_params(x, dim, index))


@composite(
    ref=_part_ref(lambda dim, start, end, step: (slice(None),) * dim + (slice(start, end, step),)),
    samples=lambda: (
        Sample((Array((5, 2)), Array((2, 2))), {"dim": 0, "start": 1, "end": -1, "step": 2}),
        Sample((Array((3,)), Array((3,))), {"dim": 0, "start": None, "end": None, "step": 1}),
    ),
)
def slice_scatter(x, src, *, dim=0, start=None, end=None, step=1):
    """`x` with every `step`-th element of a dim from `start` to `end` replaced by `src`."""
    dim = normalize_dim("slice_scatter", dim, x.ndim)
    first, last, step = slice(start, end, step).indices(x.shape[dim])
    params = {"dim": dim, "start": first, "stop": max(first, last), "step": step}
    return replaced("slice_scatter", x, src, slice_, params)


def _diagonal_scatter_ref(
    x: np.ndarray, src: np.ndarray, offset: int, dim1: int, dim2: int
) -> np.ndarray:
    out = x.copy()
    strided_array(out, _diagonal(fresh_view(x.shape), offset, dim1, dim2))[...] = src
    return out


@composite(
    ref=_diagonal_scatter_ref,
    samples=lambda: (Sample((Array((3, 4)), Array((2,))), {"offset": -1, "dim1": 0, "dim2": 1}),),
    normalize=lambda x, src, offset, dim1, dim2: _two_dims(
        "diagonal_scatter", x, dim1, dim2),
)  # fmt: skip
def diagonal_scatter(x, src, *, offset=0, dim1=0, dim2=1):
    """`x` with a diagonal replaced by `src`."""
    params = {"offset": offset, "dim1": dim1, "dim2": dim2}
    return replaced("diagonal_scatter", x, src, diagonal, params)


# --- several parts ---------------------------------------------------------------------------


def _piece_vjp(g: Tensor, x_spec: Any, dim: int, start: int, stop: int) -> Tensor:
    """Zeros around it: a border fuses with the sum over all pieces, which a store does not."""
    pads = [(0, 0)] * len(x_spec.shape)
    pads[dim] = (start, x_spec.shape[dim] - stop)
    return constant_pad(g, 0, pads=tuple(pads))


@view(
    vjp={"x": _piece_vjp},
    samples=lambda: (Sample((Array((5, 4)),), {"dim": 0, "start": 1, "stop": 3}),),
    method=False,
    internal=True,
    several=True,
    linear=True,
    distinct=True,
)
def piece(x, *, dim, start, stop):
    """One of several views made together; it may not be written to under grad."""
    return x.slice(dim, start, stop, 1)


def _cut(x: Tensor, dim: int, ends: Any, drops: bool = False) -> tuple[Tensor, ...]:
    """The pieces of a dim between the numbers in `ends`, which rise from 0 to its size.

    Of size 1 each, and without that dim, if it `drops`.
    """
    current = state()
    if current.context.immediate and isinstance(x, Tensor):
        in_graph = current.grad and x.requires_grad  # where a few pieces have a node each
        if not in_graph or len(ends) > thresholds.eager_pieces:
            return _cut_together(x, dim, ends, drops)
    pieces = (
        apply(piece, (x,), {"dim": dim, "start": a, "stop": b}) for a, b in itertools.pairwise(ends)
    )
    first = {"dim": dim, "index": 0}
    return tuple(apply(select, (part,), first) for part in pieces) if drops else tuple(pieces)


def _cut_together(x: Tensor, dim: int, ends: Any, drops: bool) -> tuple[Tensor, ...]:
    """The same without an op for each: what they have in common is found out once."""
    grad = state().grad
    node = PartsNode(x, dim, ends, drops) if grad and x.requires_grad else None
    base = x if x._base is None else x._base
    storage, dtype, edits = x.storage, x.dtype, base._edits
    shape, strides, offset = x.layout
    stride, before, after = strides[dim], shape[:dim], shape[dim + 1 :]
    if drops:
        strides = strides[:dim] + strides[dim + 1 :]
    size = before + after
    # There may be many thousands of them, which Python's collector looks at: few objects for each.
    view_ops = _PieceOps(x, dim, drops)
    parts = []
    for index, (a, b) in enumerate(itertools.pairwise(ends)):
        if not drops:
            size = (*before, b - a, *after)
        t = _new(Tensor)
        t.storage, t.dtype = storage, dtype
        t.layout = _new_tuple(View, (size, strides, offset + a * stride))
        t._base, t._edits, t._writable, t._view_ops = base, edits, False, view_ops
        if node is not None:
            t._node, t._index, t._needs = node, index, True
        parts.append(t)
    return tuple(parts)


_new: Any = object.__new__
_new_tuple: Any = tuple.__new__  # of a named tuple, as its class does it, which takes longer


class _PieceOps:
    """How pieces of a tensor came from its base, told when somebody asks: see `Tensor.view_ops`."""

    def __init__(self, x: Tensor, dim: int, drops: bool) -> None:
        self._before = () if x._base is None else x.view_ops
        self._layout, self._dim, self._drops = x.layout, dim, drops

    def of(self, part: View) -> tuple[tuple[Op, Any], ...]:
        """The ops that lead to a piece, by its layout."""
        dim = self._dim
        stride = self._layout.strides[dim]
        start = (part.offset - self._layout.offset) // stride if stride else 0
        if self._drops:
            return (*self._before, (select, {"dim": dim, "index": start}))
        stop = start + part.shape[dim]
        return (*self._before, (piece, {"dim": dim, "start": start, "stop": stop}))


def _sliced(x: Tensor, dim: int, ends: Any) -> tuple[Tensor, ...]:
    """The same as slices, each of which may be written to."""
    return tuple(
        apply(slice_, (x,), {"dim": dim, "start": a, "stop": max(a, b), "step": 1})
        for a, b in itertools.pairwise(ends)
    )


def _np_split(x: np.ndarray, sizes: Any, dim: int) -> tuple[np.ndarray, ...]:
    return tuple(np.split(x, np.cumsum(sizes)[:-1], dim))


def _every(n: int, size: int) -> list[int]:
    """Where pieces of one size end; a dim without elements is one piece."""
    return [*range(0, n, size), n] if n else [0, 0]


@composite(
    aliases=("unsafe_split",),
    ref=lambda x, split_size_or_sections, dim: _np_split(
        x, split_size_or_sections if isinstance(split_size_or_sections, tuple)
        else np.diff(_every(x.shape[dim], split_size_or_sections)), dim),
    samples=lambda: (
        Sample((Array((5, 3)),), {"split_size_or_sections": 2, "dim": 0}),
        Sample((Array((2, 6)),), {"split_size_or_sections": (1, 0, 5), "dim": -1}),
        Sample((Array((0, 2)),), {"split_size_or_sections": 2, "dim": 0}),
    ),
    failures=lambda: (
        Failure(
            (Array((5,)),), {"split_size_or_sections": (2, 2), "dim": 0}, ValueError,
            "split: sizes (2, 2) do not add up to 5, the size of dim 0 of float64[5].",
        ),
        Failure(
            (Array((5,)),), {"split_size_or_sections": 0, "dim": 0}, ValueError,
            "split: cannot split dim 0 of float64[5] into pieces of size 0.",
        ),
    ),
    several=True,
    by_parts=True,
)  # fmt: skip
def split(x, *, split_size_or_sections, dim=0):
    """Views of a dim cut into pieces: of one size, the last one smaller, or of given sizes."""
    dim = normalize_dim("split", dim, x.ndim)
    n, given = x.shape[dim], split_size_or_sections
    if isinstance(given, int):
        if given < 0 or (given == 0 and n):
            raise ValueError(
                f"split: cannot split dim {dim} of {describe(x)} into pieces of size {given}."
            )
        return _cut(x, dim, _every(n, given))
    if sum(given) != n or min(given, default=0) < 0:
        raise ValueError(
            f"split: sizes {tuple(given)} do not add up to {n}, the size of dim {dim} of "
            f"{describe(x)}."
        )
    return _cut(x, dim, [0, *(int(end) for end in np.cumsum(given))])


@composite(
    aliases=("unsafe_split_with_sizes",),
    ref=lambda x, split_sizes, dim: _np_split(x, split_sizes, dim),
    samples=lambda: (Sample((Array((5, 3)),), {"split_sizes": (4, 1), "dim": 0}),),
    several=True,
    by_parts=True,
)
def split_with_sizes(x, *, split_sizes, dim=0):
    """Views of a dim cut into pieces of given sizes."""
    return split(x, tuple(split_sizes), dim)


def _chunk_ref(x: np.ndarray, chunks: int, dim: int) -> tuple[np.ndarray, ...]:
    n = x.shape[dim]
    return _np_split(x, np.diff(_every(n, -(-n // chunks))) if n else [0] * chunks, dim)


@composite(
    aliases=("unsafe_chunk",),
    ref=lambda x, chunks, dim: _chunk_ref(x, chunks, dim),
    samples=lambda: (
        Sample((Array((7, 2)),), {"chunks": 3, "dim": 0}),
        Sample((Array((2, 3)),), {"chunks": 5, "dim": 1}),
        Sample((Array((2, 0)),), {"chunks": 2, "dim": 1}),
    ),
    failures=lambda: (
        Failure((Array((3,)),), {"chunks": 0, "dim": 0}, ValueError, "chunk: 0 chunks"),
    ),
    several=True,
    by_parts=True,
)  # fmt: skip
def chunk(x, *, chunks, dim=0):
    """A dim cut into at most `chunks` views of one size, the last one smaller."""
    if chunks < 1:
        raise ValueError(f"chunk: {chunks} chunks of {describe(x)}; there must be at least one.")
    dim = normalize_dim("chunk", dim, x.ndim)
    if not x.shape[dim]:
        return _cut(x, dim, [0] * (chunks + 1))
    return split(x, max(1, -(-x.shape[dim] // chunks)), dim)


# Sections beyond the number of elements are empty, but each is a tensor.
_MOST_SECTIONS = 2**20


@composite(
    ref=lambda x, indices_or_sections, dim: tuple(np.array_split(x, indices_or_sections, dim)),
    samples=lambda: (
        Sample((Array((7, 2)),), {"indices_or_sections": 3, "dim": 0}),
        Sample((Array((2, 6)),), {"indices_or_sections": (1, 4), "dim": -1}),
        Sample((Array((3,)),), {"indices_or_sections": (2, 1, 5), "dim": 0}),
    ),
    failures=lambda: (
        Failure(
            (Array((3,)),), {"indices_or_sections": 0, "dim": 0}, ValueError,
            "tensor_split: 0 sections of float64[3]; there must be at least one, and",
        ),
        Failure(
            (Array((3,)),), {"indices_or_sections": 2**40, "dim": 0}, ValueError,
            "tensor_split: 1099511627776 sections of float64[3]; there must be at least one, and",
        ),
    ),
    several=True,
)  # fmt: skip
def tensor_split(x, *, indices_or_sections, dim=0):
    """Views of a dim cut into nearly equal sections, or before given indices."""
    dim = normalize_dim("tensor_split", dim, x.ndim)
    n, given = x.shape[dim], indices_or_sections
    if isinstance(given, int):
        if not 1 <= given <= max(n, _MOST_SECTIONS):
            raise ValueError(
                f"tensor_split: {given} sections of {describe(x)}; there must be at least one, "
                f"and not more than there is memory for."
            )
        larger = n % given  # the first ones have an element more
        return _sliced(x, dim, [i * (n // given) + min(i, larger) for i in range(given + 1)])
    ends = [slice(0, i).indices(n)[1] for i in given]
    return _sliced(x, dim, [0, *ends, n])


@tensor_split.signature
def _tensor_split(
    x: Tensor, indices_or_sections: Any = None, dim: int = 0, *, indices: Any = None,
    sections: Any = None,
) -> Any:  # fmt: skip
    given = next(v for v in (indices_or_sections, indices, sections) if v is not None)
    given = given.tolist() if isinstance(given, Tensor) else given
    given = given if isinstance(given, int) else tuple(given)
    return apply(tensor_split, (x,), {"indices_or_sections": given, "dim": dim})


def _split_along(name: str, ref: Any, least: int, dim_of: Any) -> Op:
    """hsplit, vsplit and dsplit: tensor_split along a dim, which must divide evenly."""

    def body(x: Any, *, indices_or_sections: Any) -> Any:
        if x.ndim < least:
            raise ValueError(f"{name}: {describe(x)} has fewer than {least} dims.")
        dim, given = dim_of(x.ndim), indices_or_sections
        if isinstance(given, int) and (given < 1 or x.shape[dim] % given):
            raise ValueError(
                f"{name}: cannot cut dim {dim} of {describe(x)} into {given} equal parts."
            )
        return tensor_split(x, given, dim)

    body.__name__ = name
    body.__doc__ = f"Views of equal parts, or parts before given indices, as np.{name} cuts them."
    shape = (2, 6, 4)[: max(2, least)]
    return composite(
        ref=lambda x, indices_or_sections: tuple(ref(x, indices_or_sections)),
        samples=lambda: (
            Sample((Array(shape),), {"indices_or_sections": 2}),
            Sample((Array(shape),), {"indices_or_sections": (1, 3)}),
        ),
        failures=lambda: (
            Failure((Array(shape),), {"indices_or_sections": 5}, ValueError, "into 5 equal"),
            Failure((Array(()),), {"indices_or_sections": 1}, ValueError, f"fewer than {least}"),
        ),
        several=True,
    )(body)


hsplit = _split_along("hsplit", np.hsplit, 1, lambda rank: min(rank - 1, 1))
vsplit = _split_along("vsplit", np.vsplit, 2, lambda rank: 0)
dsplit = _split_along("dsplit", np.dsplit, 3, lambda rank: 2)


@composite(
    ref=lambda x, dim: tuple(np.moveaxis(x, dim, 0)),
    samples=lambda: (
        Sample((Array((3, 4)),), {"dim": 0}),
        Sample((Array((2, 3, 2)),), {"dim": -1}),
    ),
    failures=lambda: (
        Failure((Array(()),), {"dim": 0}, IndexError, "unbind: a 0-d tensor has no dim to drop."),
    ),
    several=True,
    by_parts=True,
)
def unbind(x, *, dim=0):
    """The slices at all indices of a dim, without that dim, as views."""
    if not x.ndim:
        raise IndexError("unbind: a 0-d tensor has no dim to drop.")
    dim = normalize_dim("unbind", dim, x.ndim)
    return _cut(x, dim, range(x.shape[dim] + 1), drops=True)
