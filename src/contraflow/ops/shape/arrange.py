"""Rearranging: flips, rolls, windows and padding."""

from __future__ import annotations

from typing import Any

import numpy as np

from contraflow.errors import describe
from contraflow.expressions import expression as s
from contraflow.operation.context import apply, state
from contraflow.operation.kinds import composite, index, view
from contraflow.operation.op import Op
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.ops.creation.create import zeros
from contraflow.ops.creation.data import tensor
from contraflow.ops.index.gather import constant_pad, sum_at
from contraflow.ops.nn.window import windows
from contraflow.ops.shape.joining import cat
from contraflow.ops.shape.view import assign, expand, movedim, reshape, slice_, transpose, unpacked
from contraflow.shapes import Shape, View, normalize_dim, numel, whole
from contraflow.tensors.tensor import Tensor

# --- rearranging -------------------------------------------------------------------------------


def _dims(name: str, dims: Any, rank: int) -> Shape:
    given = (dims,) if isinstance(dims, int) else tuple(dims)
    found = tuple(normalize_dim(name, d, rank) for d in given)
    if len(set(found)) != len(found):
        raise ValueError(f"{name}: dims {given} name a dim twice.")
    return tuple(d for d in found if d < rank)


@index(
    ref=lambda x, dims: np.flip(x, dims).copy(),
    dtype="same",
    shape=lambda x, dims: x.shape,
    source=lambda at, x, dims: x[
        tuple(x.shape[d] - 1 - i if d in dims else i for d, i in enumerate(at))
    ],
    vjp={"x": lambda g, dims: flip(g, dims)},
    samples=lambda: (
        Sample((Array((3, 4)),), {"dims": (1,)}),
        Sample((Array((2, 3, 2)),), {"dims": (0, 2)}),
        Sample((Array(()),), {"dims": ()}),
    ),
    failures=lambda: (
        Failure((Array((2, 3)),), {"dims": (0, -2)}, ValueError, "flip: dims (0, -2) name a dim"),
        Failure((Array((2,)),), {"dims": (1,)}, IndexError, "flip: dim 1 is out of range"),
    ),
    linear=True,
)
def flip(x, *, dims):
    """The elements in reverse order along some dims."""


@flip.signature
def _flip(x: Tensor, *dims: Any, **named: Any) -> Tensor:
    given = named.get("dims", unpacked(dims))
    return apply(flip, (x,), {"dims": _dims("flip", given, x.ndim)})


def _flipping(name: str, ref: Any, dim: int) -> Op:
    def body(x: Any) -> Any:
        if x.ndim <= dim:
            raise ValueError(f"{name}: {describe(x)} has fewer than {dim + 1} dims.")
        return flip(x, (dim,))

    body.__name__ = name
    body.__doc__ = f"The elements in reverse order along dim {dim}."
    return composite(
        ref=ref,
        samples=lambda: (Sample((Array((2, 3)),)),),
        failures=lambda: (Failure((Array(()),), {}, ValueError, f"{name}: float64[] has fewer"),),
    )(body)


flipud = _flipping("flipud", np.flipud, 0)
fliplr = _flipping("fliplr", np.fliplr, 1)


def _roll_source(at: Any, x: Any, shifts: Shape, dims: Shape) -> Any:
    source = list(at)
    for shift, d in zip(shifts, dims):
        back = at[d] - s.Size(shift)  # a shift is less than the size, so one turn is enough
        source[d] = s.select(back < 0, back + x.shape[d], back)
    return x[tuple(source)]


@index(
    ref=lambda x, shifts, dims: np.roll(x, shifts, dims),
    dtype="same",
    shape=lambda x, shifts, dims: x.shape,
    source=_roll_source,
    vjp={"x": lambda g, shifts, dims: roll(g, tuple(-n for n in shifts), dims)},
    samples=lambda: (
        Sample((Array((3, 4)),), {"shifts": (1,), "dims": (0,)}),
        Sample((Array((2, 3, 4)),), {"shifts": (2, 3), "dims": (1, 2)}),
        Sample((Array((2, 0)),), {"shifts": (0,), "dims": (1,)}),
    ),
    failures=lambda: (
        Failure(
            (Array((2, 3)),), {"shifts": (1, 2), "dims": (0,)}, ValueError,
            "roll: 2 shifts for 1 dims.",
        ),
    ),
    linear=True,
)  # fmt: skip
def roll(x, *, shifts, dims):
    """The elements shifted along some dims; those that leave one end enter at the other."""


@roll.signature
def _roll(x: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    shifts = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    if dims is None or (not isinstance(dims, int) and not len(dims)):
        if len(shifts) != 1:
            raise ValueError(f"roll: {len(shifts)} shifts for 0 dims.")
        return reshape(_roll(reshape(x, (-1,)), shifts, 0), x.shape)
    named = (dims,) if isinstance(dims, int) else tuple(dims)
    if len(shifts) != len(named):
        raise ValueError(f"roll: {len(shifts)} shifts for {len(named)} dims.")
    total: dict[int, int] = {}  # a dim may be named twice
    for n, d in zip(shifts, named):
        d = normalize_dim("roll", d, x.ndim)
        total[d] = total.get(d, 0) + n
    turns = tuple(n % max(1, x.shape[d]) for d, n in total.items())
    return apply(roll, (x,), {"shifts": turns, "dims": tuple(total)})


@composite(
    ref=lambda x, k, dims: np.rot90(x, k, dims),
    samples=lambda: (
        Sample((Array((2, 3)),), {"k": 1, "dims": (0, 1)}),
        Sample((Array((2, 3, 2)),), {"k": -1, "dims": (2, 0)}),
        Sample((Array((2, 3)),), {"k": 2, "dims": (0, 1)}),
        Sample((Array((2, 3)),), {"k": 4, "dims": (0, 1)}),
    ),
    failures=lambda: (
        Failure((Array((2, 3)),), {"k": 1, "dims": (0,)}, ValueError, "rot90: dims (0,) are not"),
        Failure((Array((2, 3)),), {"k": 1.0, "dims": (0, 1)}, TypeError, "rot90: k must be an int"),
    ),
)
def rot90(x, *, k=1, dims=(0, 1)):
    """The plane of two dims rotated k times by 90 degrees, from the first towards the second."""
    plane, k = _dims("rot90", dims, x.ndim), whole("rot90", "k", k)
    if len(plane) != 2:
        raise ValueError(f"rot90: dims {tuple(dims)} are not two dims of {describe(x)}.")
    if k % 2 == 0:
        return flip(x, plane if k % 4 else ())
    return flip(transpose(x, *plane), plane[0] if k % 4 == 1 else plane[1])


# --- windows and raw strides -------------------------------------------------------------------


def _unfold_ref(x: np.ndarray, dimension: int, size: int, step: int) -> np.ndarray:
    slides = np.lib.stride_tricks.sliding_window_view(x, size, dimension)
    return slides[(slice(None),) * (dimension % x.ndim) + (slice(None, None, step),)]


@composite(
    ref=_unfold_ref,
    samples=lambda: (
        Sample((Array((5, 2)),), {"dimension": 0, "size": 3, "step": 1}),
        Sample((Array((2, 7)),), {"dimension": -1, "size": 2, "step": 3}),
    ),
    failures=lambda: (
        Failure(
            (Array((3,)),), {"dimension": 0, "size": 4, "step": 1}, ValueError,
            "unfold: windows of 4 do not fit into dim 0 of float64[3].",
        ),
        Failure(
            (Array((3,)),), {"dimension": 0, "size": 1, "step": 0}, ValueError,
            "unfold: step 0 must be at least 1.",
        ),
        Failure(
            (Array((3,)),), {"dimension": 0, "size": 1.5, "step": 1}, TypeError,
            "unfold: size must be an int, not 1.5.",
        ),
    ),
)  # fmt: skip
def unfold(x, *, dimension, size, step):
    """All windows of a dim, `step` apart, as a view with the window as its last dim."""
    dim = normalize_dim("unfold", dimension, x.ndim)
    size, step = whole("unfold", "size", size), whole("unfold", "step", step)
    if step < 1:
        raise ValueError(f"unfold: step {step} must be at least 1.")
    if not 0 <= size <= (x.shape[dim] if x.ndim else 1):
        raise ValueError(f"unfold: windows of {size} do not fit into dim {dim} of {describe(x)}.")
    line = movedim(x, dim, -1) if x.ndim else reshape(x, (1,))
    slides = windows(line, kernel=(size,), stride=(step,), dilation=(1,))
    return movedim(slides, -1, dim) if x.ndim else reshape(slides, (size,))


def _as_strided_vjp(g: Tensor, x_spec: Any, size: Shape, stride: Shape, offset: int) -> Tensor:
    """Every element added where it was read; several may have been the same one."""
    region = View(size, stride, offset)
    if not region.overlaps_itself():
        return apply(assign, (zeros(x_spec.shape, dtype=g.dtype), g), region._asdict())
    grid = np.indices(size, sparse=True)
    places = offset + sum((i * st for i, st in zip(grid, stride)), np.zeros(size, np.int64))
    at = tensor(places.reshape(1, -1))
    flat = sum_at(reshape(g, (-1,)), at, dims=(0,), shape=(numel(x_spec.shape),), wrap=False)
    return reshape(flat, x_spec.shape)


@view(
    vjp={"x": _as_strided_vjp},
    samples=lambda: (
        Sample((Array((3, 4)),), {"size": (2, 3), "stride": (4, 1), "offset": 1}),
        Sample((Array((6,)),), {"size": (4, 3), "stride": (1, 1), "offset": 0}),
    ),
    linear=True,
)
def as_strided(x, *, size, stride, offset):
    """A view of the memory with given sizes and strides, `offset` elements after the first one."""
    return View(size, stride, x.offset + offset)


@as_strided.signature
def _as_strided(x: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    size = tuple(whole("as_strided", "size", n) for n in size)
    stride = tuple(whole("as_strided", "stride", n) for n in stride)
    start = x.storage_offset()
    if storage_offset is not None:
        start = whole("as_strided", "storage_offset", storage_offset)
    low, high = View(size, stride, start).extent()
    if len(size) != len(stride) or min((*size, *stride), default=0) < 0:
        raise ValueError(
            f"as_strided: size {size} and stride {stride} must be of one length and not negative."
        )
    first, end = x.layout.extent()
    if numel(size) and not (first <= low and high <= end):
        raise ValueError(
            f"as_strided: size {size}, stride {stride} and offset {start} reach elements {low} to "
            f"{high - 1}; {describe(x)} lies in {first} to {end - 1}."
        )
    if not x.is_contiguous() and x.requires_grad and state().grad:
        raise NotImplementedError(
            f"as_strided: {describe(x)} requires grad and is not contiguous; use .contiguous()."
        )
    params = {"size": size, "stride": stride, "offset": start - x.storage_offset()}
    return apply(as_strided, (x,), params)


# --- padding -----------------------------------------------------------------------------------


def _edges(mode: str, x: Tensor, dim: int, before: int, after: int) -> tuple[Tensor, Tensor]:
    """The padding before and after a dim: its reflection, its last elements, or its other end."""
    n = x.shape[dim]

    def part(start: int, stop: int) -> Tensor:
        return slice_(x, dim=dim, start=start, stop=stop, step=1)

    if mode == "reflect":
        return flip(part(1, before + 1), dim), flip(part(n - 1 - after, n - 1), dim)
    if mode == "circular":
        return part(n - before, n), part(0, after)
    sizes = ((*x.shape[:dim], count, *x.shape[dim + 1 :]) for count in (before, after))
    first, last = part(0, 1), part(n - 1, n)
    return expand(first, next(sizes)), expand(last, next(sizes))


_NUMPY_MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _pad_ref(x: np.ndarray, pad: Shape, mode: str, value: Any) -> np.ndarray:
    pairs = [(0, 0)] * (x.ndim - len(pad) // 2) + list(zip(pad[::2], pad[1::2]))[::-1]
    widths = [(max(0, a), max(0, b)) for a, b in pairs]
    if mode == "replicate":
        x, widths = np.pad(x, widths, mode="edge"), [(0, 0)] * x.ndim
    kept = tuple(slice(max(0, -a), n - max(0, -b)) for n, (a, b) in zip(x.shape, pairs))
    if mode == "constant":
        return np.pad(x[kept], widths, constant_values=value or 0)
    return np.pad(x[kept], widths, mode=_NUMPY_MODES[mode])  # type: ignore[call-overload]


def _pad_sample(shape: Shape, pad: Shape, mode: str, value: Any = None) -> Sample:
    return Sample((Array(shape),), {"pad": pad, "mode": mode, "value": value})


def _pad_failure(shape: Shape, pad: Shape, mode: str, text: str) -> Failure:
    return Failure((Array(shape),), {"pad": pad, "mode": mode, "value": None}, ValueError, text)


@composite(
    ref=_pad_ref,
    samples=lambda: (
        _pad_sample((3, 4), (1, 2), "constant", 2.0),
        _pad_sample((3, 4), (1, 0, -1, 2), "constant"),
        _pad_sample((2, 3, 4), (2, 1), "reflect"),
        _pad_sample((1, 2, 3, 4), (2, 0, 1, 3), "replicate"),
        _pad_sample((2, 3, 4), (-1, 3), "circular"),
        _pad_sample((1, 2, 4), (-4, 3), "replicate"),
    ),
    failures=lambda: (
        _pad_failure((3,), (1, 2, 3), "constant", "pad: (1, 2, 3) has 3 numbers; there must be"),
        _pad_failure((3,), (1, 2, 3, 4), "constant", "pad: (1, 2, 3, 4) is for more dims than"),
        _pad_failure((1, 3), (3, 0), "reflect", "pad: 3 elements cannot be reflected"),
        _pad_failure((1, 3), (0, 4), "circular", "pad: 4 elements cannot be taken from the other"),
        _pad_failure((3,), (1, 2), "mirror", "pad: mode is 'mirror'"),
    ),
    method=False,
)
def pad(x, *, pad, mode="constant", value=None):
    """A border around the last dims: (before, after) for the last dim, then the one before it."""
    if mode not in ("constant", *_NUMPY_MODES):
        raise ValueError(
            f"pad: mode is {mode!r}; it must be 'constant', 'reflect', 'replicate' or 'circular'."
        )
    if len(pad) % 2 or len(pad) // 2 > x.ndim:
        problem = f"has {len(pad)} numbers; there must be an even number of them."
        if len(pad) % 2 == 0:
            problem = f"is for more dims than {describe(x)} has."
        raise ValueError(f"pad: {pad} {problem}")
    if value is not None and mode != "constant":
        raise ValueError(f"pad: mode {mode!r} takes no value, got {value}.")
    pairs = {x.ndim - 1 - i: (pad[2 * i], pad[2 * i + 1]) for i in range(len(pad) // 2)}
    if mode != "replicate":
        x = _cropped(x, pairs)
    widths = {d: (max(0, a), max(0, b)) for d, (a, b) in pairs.items() if a > 0 or b > 0}
    if mode == "constant":
        pads = tuple(widths.get(d, (0, 0)) for d in range(x.ndim))
        return constant_pad(x, 0 if value is None else value, pads=pads)
    for dim, (before, after) in widths.items():
        _check_edge(mode, x, dim, max(before, after))
        first, last = _edges(mode, x, dim, before, after)
        x = cat([first, x, last], dim)
    # Last, since the edge that is repeated may itself be taken away.
    return _cropped(x, pairs).contiguous() if mode == "replicate" else x


def _cropped(x: Tensor, pairs: dict[int, tuple[int, int]]) -> Tensor:
    """The part that negative widths leave."""
    for dim, (before, after) in pairs.items():
        if before < 0 or after < 0:
            stop = x.shape[dim] + min(0, after)
            if stop + min(0, before) < 0:
                raise ValueError(
                    f"pad: {(before, after)} leaves a negative size in dim {dim} of {describe(x)}."
                )
            x = slice_(x, dim=dim, start=max(0, -before), stop=stop, step=1)
    return x


def _check_edge(mode: str, x: Tensor, dim: int, width: int) -> None:
    limit, done = x.shape[dim], "taken from the other end of"
    if mode == "reflect":
        limit, done = limit - 1, "reflected in"
    elif mode == "replicate":
        limit = width if limit else 0
    if width > limit:
        raise ValueError(f"pad: {width} elements cannot be {done} dim {dim} of {describe(x)}.")
