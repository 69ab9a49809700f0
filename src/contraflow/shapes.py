"""Shapes, strides and views: arithmetic on tuples of integers, for every layer above.

A `View` says how a tensor's elements lie in its storage. Strides and offsets count elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from operator import index
from typing import Any, NamedTuple

from contraflow.errors import MismatchError, brief

# Labels of dims, as einsum has them. Importing `string`, which has them too, takes a while.
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

Shape = tuple[int, ...]
Lengths = int | Sequence[int]  # one for every dim, or one for each


class Sizes(tuple[int, ...]):
    """A shape as users get it: a tuple of sizes that can say how many elements they make.

    >>> Sizes((2, 3)).numel()
    6
    """

    __slots__ = ()
    prefix = "contraflow."  # of the names of memory formats and layouts

    def numel(self) -> int:
        """The number of elements of a tensor of this shape."""
        return math.prod(self)


def _part(sizes: Sizes, key: Any) -> int | Sizes:
    found = _item(sizes, key)
    return found if found.__class__ is int else Sizes(found)


_item: Callable[[tuple[int, ...], Any], Any] = tuple.__getitem__
_OF_PYTORCH = {
    "__getitem__": _part,
    "__add__": lambda left, right: Sizes((*left, *right)),
    "__radd__": lambda right, left: Sizes((*left, *right)),
    "__repr__": lambda sizes: f"torch.Size({list(sizes)})",
}


def behave_as_pytorchs(wanted: bool) -> None:
    """Make slices and sums of `Sizes` be `Sizes` again, printed as PyTorch prints them, or not.

    Memory formats and layouts are spelt as in PyTorch too.

    Python calls methods of a class more slowly than those of tuples, and ops slice shapes: only
    PyTorch's programs pay for it.
    """
    Sizes.prefix = "torch." if wanted else "contraflow."
    for name, method in _OF_PYTORCH.items():
        if wanted:
            setattr(Sizes, name, method)
        elif name in vars(Sizes):
            delattr(Sizes, name)


class MemoryFormat(NamedTuple):
    """An order of elements in memory. Functions take one and lay out results row-major anyway.

    >>> import contraflow as cf
    >>> cf.ones(1, 3, 2, 2).to(memory_format=cf.channels_last).stride()
    (12, 4, 2, 1)
    """

    name: str

    def __repr__(self) -> str:
        return f"{Sizes.prefix}{self.name}"


contiguous_format, preserve_format = (
    MemoryFormat("contiguous_format"),
    MemoryFormat("preserve_format"),
)
channels_last, channels_last_3d = MemoryFormat("channels_last"), MemoryFormat("channels_last_3d")
# PyTorch's layouts of sparse tensors: no tensor has one, so that programs may ask.
sparse_coo, sparse_csr, sparse_csc, sparse_bsr, sparse_bsc = (
    MemoryFormat(f"sparse_{kind}") for kind in ("coo", "csr", "csc", "bsr", "bsc")
)


class View(NamedTuple):
    """Element (i, j, ...) lies at `offset + i * strides[0] + j * strides[1] + ...`."""

    shape: Shape
    strides: Shape
    offset: int = 0

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie in row-major order without gaps."""
        shape, strides, _ = self
        return strides == contiguous_strides(shape) or is_contiguous(shape, strides)

    def permute(self, dims: Sequence[int]) -> View:
        """Reorder the dims."""
        shape, strides, offset = self
        return _new(
            View, (tuple([shape[d] for d in dims]), tuple([strides[d] for d in dims]), offset)
        )

    def expand(self, shape: Shape) -> View:
        """Broadcast to `shape`, which must be compatible."""
        strides = broadcast_strides(self.shape, self.strides, shape)
        return _new(View, (shape, strides, self.offset))

    def slice(self, dim: int, start: int, stop: int, step: int) -> View:
        """Keep the elements start, start + step, ... below stop of one dim."""
        shape, strides = list(self.shape), list(self.strides)
        offset = self.offset + start * strides[dim]
        shape[dim] = len(range(start, stop, step))
        strides[dim] *= step
        return _new(View, (tuple(shape), tuple(strides), offset))

    def select(self, dim: int, index: int) -> View:
        """Drop one dim by fixing its coordinate."""
        shape, strides, offset = self
        rest, steps = shape[:dim] + shape[dim + 1 :], strides[:dim] + strides[dim + 1 :]
        return _new(View, (rest, steps, offset + index * strides[dim]))

    def reshape(self, shape: Shape) -> View | None:
        """The same elements under another shape, or None where that needs a copy."""
        strides = reshape_strides(self.shape, self.strides, shape)
        return None if strides is None else _new(View, (shape, strides, self.offset))

    def overlaps_itself(self) -> bool:
        """Whether two coordinates may name one element. Says yes where it cannot tell."""
        if self.strides == contiguous_strides(self.shape):
            return False
        dims = sorted((abs(st), n) for n, st in zip(self.shape, self.strides) if n > 1)
        reach = 0
        for stride, size in dims:
            if stride <= reach:
                return True
            reach += stride * (size - 1)
        return False

    def extent(self) -> tuple[int, int]:
        """The lowest and one past the highest element touched."""
        if 0 in self.shape:
            return self.offset, self.offset
        ends = [(n - 1) * st for n, st in zip(self.shape, self.strides)]
        low = sum(e for e in ends if e < 0)
        high = sum(e for e in ends if e > 0)
        return self.offset + low, self.offset + high + 1


# As the class of a named tuple does it, which takes twice as long.
_new: Callable[[type[View], tuple[Shape, Shape, int]], View] = tuple.__new__


class StridedLayout(View):
    """PyTorch's layout of all tensors that are not sparse: it equals that of every tensor here.

    >>> import contraflow as cf
    >>> cf.ones(2).layout == cf.strided, cf.ones(2).layout == cf.sparse_coo
    (True, False)
    """

    def __eq__(self, other: object) -> bool:
        return isinstance(other, View)

    def __ne__(self, other: object) -> bool:
        return not isinstance(other, View)

    __hash__ = View.__hash__

    def __repr__(self) -> str:
        return f"{Sizes.prefix}strided"


strided = StridedLayout((), ())


@lru_cache(maxsize=8192)
def contiguous(shape: Shape) -> View:
    """The row-major view of a fresh storage."""
    return View(Sizes(shape), contiguous_strides(shape), 0)


@lru_cache(maxsize=8192)
def contiguous_strides(shape: Shape) -> Shape:
    """Row-major strides."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def is_contiguous(shape: Shape, strides: Shape) -> bool:
    """Whether `strides` are row-major, dims of size one aside."""
    expected = 1
    for n, stride in zip(reversed(shape), reversed(strides)):
        if n == 0:
            return True
        if n != 1:
            if stride != expected:
                return False
            expected *= n
    return True


def numel(shape: Iterable[int]) -> int:
    """The number of elements."""
    return math.prod(shape)


def broadcast_shapes(op: str, shapes: Sequence[Shape]) -> Shape:
    """The common shape, or a ValueError that names the op and all shapes."""
    if len(shapes) == 1 or all(s == shapes[0] for s in shapes[1:]):
        return shapes[0]
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(s)) + tuple(s) for s in shapes]
    result = []
    for dim, sizes in enumerate(zip(*padded)):
        distinct = {n for n in sizes if n != 1}
        if len(distinct) > 1:
            listed = " and ".join(str(list(s)) for s in shapes)
            raise MismatchError(
                f"{op}: shapes {listed} do not broadcast: "
                f"sizes {' and '.join(map(str, sorted(distinct)))} differ at dim {dim - rank}."
            )
        result.append(distinct.pop() if distinct else 1)
    return tuple(result)


def broadcast_strides(shape: Shape, strides: Shape, target: Shape) -> Shape:
    """Strides that read `shape` as if it had been expanded to `target`."""
    lead = len(target) - len(shape)
    own = tuple(0 if n == 1 and m != 1 else st for n, st, m in zip(shape, strides, target[lead:]))
    return (0,) * lead + own


@lru_cache(maxsize=8192)
def reshape_strides(shape: Shape, strides: Shape, target: Shape) -> Shape | None:
    """Strides of `target` over the same elements in the same order, or None."""
    if 0 in shape:
        return contiguous_strides(target)
    # Merge runs of dims that are contiguous among themselves, then cut the runs up again.
    runs: list[tuple[int, int]] = []
    for n, stride in zip(shape, strides):
        if n == 1:
            continue
        if runs and runs[-1][1] == n * stride:
            runs[-1] = (runs[-1][0] * n, stride)
        else:
            runs.append((n, stride))
    result = [1] * len(target)
    position = len(target) - 1
    for size, stride in reversed(runs):
        covered = 1
        while covered < size:
            if position < 0:
                return None
            result[position] = covered * stride
            covered *= target[position]
            position -= 1
        if covered != size:
            return None
    return tuple(result)


@lru_cache(maxsize=8192)
def rearranged(shape: Shape, view: View, region: View) -> View | None:
    """The layout of a contiguous tensor after its view `view` is copied into `region`.

    None if the view does not show all of them once, or they do not lie at even distances there.
    """
    order = sorted(range(len(view.shape)), key=lambda d: -view.strides[d])
    shown = view.permute(order)
    if view.offset or not shown.is_contiguous or numel(view.shape) != numel(shape):
        return None
    return region.permute(order).reshape(shape)


def whole(op: str, name: str, value: Any) -> int:
    """A whole number that was given as argument `name`, or the TypeError for anything else."""
    try:
        return index(value)
    except TypeError:
        raise TypeError(f"{op}: {name} must be an int, not {brief(value)}.") from None


def normalize_dim(op: str, dim: int, rank: int) -> int:
    """Count a negative dim from the end; IndexError where it is out of range."""
    if type(dim) is not int:
        dim = whole(op, "dim", dim)
    limit = rank or 1
    if not -limit <= dim < limit:
        raise IndexError(
            f"{op}: dim {dim} is out of range for a tensor with {rank} dims; "
            f"it must be in [{-limit}, {limit - 1}]."
        )
    return dim % limit


def normalize_dims(op: str, dims: int | Sequence[int] | None, rank: int) -> Shape:
    """A sorted tuple of distinct dims; None means all of them."""
    if dims is None:
        return tuple(range(rank))
    one = isinstance(dims, int) or not isinstance(dims, Iterable)
    given: tuple[Any, ...] = (dims,) if one else tuple(dims)  # type: ignore[arg-type]
    if not given:
        return tuple(range(rank))
    result = sorted(normalize_dim(op, d, rank) for d in given)
    if len(set(result)) != len(result):
        raise ValueError(f"{op}: dim {given} names a dim twice.")
    return tuple(d for d in result if d < rank)


def reduced_shape(shape: Shape, dims: Shape, keepdim: bool) -> Shape:
    """The shape that is left when `dims` are reduced."""
    if keepdim:
        return tuple(1 if d in dims else n for d, n in enumerate(shape))
    return tuple(n for d, n in enumerate(shape) if d not in dims)
