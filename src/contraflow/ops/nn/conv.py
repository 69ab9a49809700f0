"""Convolutions over one, two and three spatial dims, and their transposes.

A convolution contracts a window view with the weight, and so do its gradients: that of the weight
contracts the same windows with the output's, and that of the input is, where the stride is 1, a
convolution of the output's gradient with the weight turned round. With larger strides it goes
through all windows, each element times its taps, which are then added up; where each channel has
its own filter, zeros are put between the elements instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from contraflow.errors import MismatchError, describe
from contraflow.operation.kinds import composite
from contraflow.operation.op import Op
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.ops.creation.create import zeros
from contraflow.ops.linalg.products import contract
from contraflow.ops.nn.window import (
    Pads,
    add_windows,
    check_fit,
    extents,
    np_windows,
    numbers,
    padded,
    reach,
    windows,
)
from contraflow.ops.reduction.reduce import sum_
from contraflow.ops.shape.arrange import flip
from contraflow.ops.shape.view import assign, reshape
from contraflow.shapes import Shape, contiguous_strides
from contraflow.tensors.tensor import Tensor

_TAPS, _PLACES = "ijk", "xyz"  # labels of a kernel's dims and of the spatial dims


def _arrays(*shapes: Sequence[int] | None) -> tuple[Any, ...]:
    return tuple(None if shape is None else Array(tuple(shape)) for shape in shapes)


def _batch(op: str, x: Tensor, weight: Tensor, n: int) -> tuple[Tensor, bool]:
    """The input with a batch dim, and whether it had one."""
    if x.ndim not in (n + 1, n + 2) or weight.ndim != n + 2:
        raise MismatchError(
            f"{op}: cannot convolve {describe(x)} with {describe(weight)}; it needs [n, channels] "
            f"or [channels], then {n} spatial dims, and a weight of {n + 2} dims."
        )
    batched = x.ndim == n + 2
    return (x if batched else reshape(x, (1, *x.shape))), batched


def _check_bias(op: str, bias: Tensor | None, channels: int) -> None:
    if bias is not None and bias.shape != (channels,):
        raise MismatchError(
            f"{op}: the bias is {describe(bias)}; it needs shape [{channels}], one number per "
            f"output channel."
        )


def _plus(out: Tensor, bias: Tensor | None) -> Tensor:
    """Images with the number of each channel added, if there are any."""
    return out if bias is None else out + reshape(bias, (out.shape[1], *(1,) * (out.ndim - 2)))


def _grouped(op: str, x: Tensor, weight: Tensor, groups: int, per_group: int) -> None:
    if groups < 1 or x.shape[1] != per_group * groups or weight.shape[0] % groups:
        raise MismatchError(
            f"{op}: {describe(x)} has {x.shape[1]} channels, but the weight {describe(weight)} "
            f"with groups={groups} needs {per_group * groups}."
        )


def given_pads(op: str, padding: Any, kernel: Shape, stride: Shape, dilation: Shape) -> Pads:
    """How much is added before and after each dim."""
    if padding == "same":
        if any(st != 1 for st in stride):
            raise ValueError(f"{op}: padding='same' needs stride 1, not {list(stride)}.")
        totals = [span - 1 for span in extents(kernel, dilation)]
        return tuple((total // 2, total - total // 2) for total in totals)
    if isinstance(padding, str) and padding != "valid":
        raise ValueError(f"{op}: padding is {padding!r}; it must be numbers, 'same' or 'valid'.")
    given = 0 if padding == "valid" else padding
    return tuple((p, p) for p in numbers(op, "padding", given, len(kernel)))


def _in_groups(x: Tensor, groups: int, dim: int) -> Tensor:
    """A dim of channels as groups and the channels of each, where there are groups."""
    if groups == 1:
        return x
    shape = (*x.shape[:dim], groups, x.shape[dim] // groups, *x.shape[dim + 1 :])
    return reshape(x, shape)


def _labels(n: int, groups: int) -> tuple[str, str, str]:
    return _TAPS[:n], _PLACES[:n], "g" if groups > 1 else ""


def _with_gaps(x: Tensor, sizes: Shape, start: Shape, stride: Shape) -> Tensor:
    """Images of zeros with the elements of `x` in them, from `start` on, `stride` apart."""
    whole = contiguous_strides((*x.shape[:2], *sizes))
    lead, last = whole[:2], whole[2:]
    offset = sum(first * step for first, step in zip(start, last))
    strides = (*lead, *(st * step for st, step in zip(stride, last)))
    empty = zeros((*x.shape[:2], *sizes), dtype=x.dtype)
    return assign(empty, x, shape=x.shape, strides=strides, offset=offset)


def _spread(
    x: Tensor, weight: Tensor, sizes: Shape, start: Shape, stride: Shape, dilation: Shape,
    groups: int,
) -> Tensor:  # fmt: skip
    """Every element paints its kernel, scaled, onto an image, of which `sizes` are cut out."""
    n = len(sizes)
    kernel, ones = weight.shape[2:], (1,) * n
    taps, places, g = _labels(n, groups)
    spans = extents(kernel, dilation)
    before = tuple(span - 1 - first for span, first in zip(spans, start))
    after = tuple(
        size + span - 1 - m - first
        for size, span, m, first in zip(
            sizes, spans, reach(x.shape[2:], ones, stride, ones), before
        )
    )
    # A filter for each channel costs less than writing the products of every element and tap.
    apart = weight.shape[0] == groups and weight.shape[1] == 1
    channels = weight.shape[1] * groups
    weight = _in_groups(weight, groups, 0)
    if (max(stride) == 1 or apart) and min(before + after) >= 0:
        if max(stride) == 1:
            around = padded(x, tuple(zip(before, after)))
        else:
            whole = tuple(size + span - 1 for size, span in zip(sizes, spans))
            around = _with_gaps(x, whole, before, stride)
        around = _in_groups(around, groups, 1)
        patches = windows(around, kernel=kernel, stride=ones, dilation=dilation)
        # All taps of a filter in one dim are turned round as one row.
        turned = reshape(flip(reshape(weight, (*weight.shape[:-n], -1)), (-1,)), weight.shape)
        out = contract(patches, turned, spec=f"n{g}o{taps}{places},{g}oc{taps}->n{g}c{places}")
        return reshape(out, (x.shape[0], channels, *sizes))
    x = _in_groups(x, groups, 1)
    patches = contract(x, weight, spec=f"n{g}o{places},{g}oc{taps}->n{g}c{taps}{places}")
    if kernel == ones and not any(start):
        # Windows of one element do not overlap: each goes to its place among zeros.
        return _with_gaps(
            reshape(patches, (x.shape[0], channels, *x.shape[-n:])), sizes, start, stride
        )
    patches = reshape(patches, (x.shape[0], channels, *patches.shape[-2 * n :]))
    return add_windows(
        patches, kernel=kernel, stride=stride, dilation=dilation, size=sizes, start=start
    )


def _of_weight(
    g_: Tensor, x: Tensor, weight_spec: Any, stride: Shape, dilation: Shape, pads: Pads, groups: int
) -> Tensor:
    shape: Shape = weight_spec.shape
    taps, places, g = _labels(len(stride), groups)
    patches = windows(
        _in_groups(padded(x, pads), groups, 1), kernel=shape[2:], stride=stride, dilation=dilation
    )
    spec = f"n{g}o{places},n{g}c{taps}{places}->{g}oc{taps}"
    return reshape(contract(_in_groups(g_, groups, 1), patches, spec=spec), shape)


def _correlate_ref(
    x: Any, weight: Any, bias: Any, stride: Shape, dilation: Shape, pads: Pads, groups: int
) -> Any:
    n = len(stride)
    taps, places, g = _labels(n, groups)
    patches = np_windows(x, weight.shape[2:], stride, dilation, pads)
    patches = np.moveaxis(patches, range(2, 2 + n), range(-n, 0))
    out_shape = (x.shape[0], weight.shape[0], *patches.shape[-n:])
    if groups > 1:
        patches = patches.reshape(x.shape[0], groups, -1, *patches.shape[2:])
        weight = weight.reshape(groups, -1, *weight.shape[1:])
    spec = f"n{g}c{taps}{places},{g}oc{taps}->n{g}o{places}"
    out = np.einsum(spec, patches, weight, optimize=True).reshape(out_shape)
    return out if bias is None else out + bias.reshape(-1, *(1,) * n)


@composite(
    ref=_correlate_ref,
    vjp={
        "x": lambda g, weight, x_spec, stride, dilation, pads, groups: _spread(
            g, weight, x_spec.shape[2:], tuple(before for before, _ in pads), stride, dilation,
            groups),
        "weight": lambda g, x, weight_spec, stride, dilation, pads, groups: _of_weight(
            g, x, weight_spec, stride, dilation, pads, groups),
        "bias": lambda g: sum_(g, dim=(0, *range(2, g.ndim))),
    },
    samples=lambda: (
        Sample(_arrays((2, 2, 5, 4), (4, 1, 3, 2), (4,)), {
            "stride": (1, 1), "dilation": (1, 2), "pads": ((1, 2), (0, 1)), "groups": 2}),
        Sample(_arrays((1, 2, 7), (2, 2, 3), None), {
            "stride": (2,), "dilation": (1,), "pads": ((0, 1),), "groups": 1}),
        # More padding than the kernel reaches over.
        Sample(_arrays((1, 1, 4), (2, 1, 2), None), {
            "stride": (1,), "dilation": (1,), "pads": ((2, 3),), "groups": 1}),
    ),
    method=False,
    internal=True,
)  # fmt: skip
def correlate(x, weight, bias=None, *, stride, dilation, pads, groups):
    """Cross-correlation of [n, c, ...], padded with zeros, with kernels [out, c / groups, ...]."""
    taps, places, g = _labels(len(stride), groups)
    patches = windows(
        _in_groups(padded(x, pads), groups, 1), kernel=weight.shape[2:], stride=stride,
        dilation=dilation,
    )  # fmt: skip
    spec = f"n{g}c{taps}{places},{g}oc{taps}->n{g}o{places}"
    out = contract(patches, _in_groups(weight, groups, 0), spec=spec)
    return _plus(reshape(out, (x.shape[0], weight.shape[0], *patches.shape[-len(stride) :])), bias)


def _convolve(
    op: str, n: int, x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any,
    dilation: Any, groups: int,
) -> Tensor:  # fmt: skip
    x, batched = _batch(op, x, weight, n)
    stride, dilation = numbers(op, "stride", stride, n, 1), numbers(op, "dilation", dilation, n, 1)
    _, per_group, *kernel = weight.shape
    _grouped(op, x, weight, groups, per_group)
    pads = given_pads(op, padding, tuple(kernel), stride, dilation)
    sizes = tuple(m + before + after for m, (before, after) in zip(x.shape[2:], pads))
    check_fit(op, x, sizes, tuple(kernel), dilation)
    _check_bias(op, bias, weight.shape[0])
    out = correlate(x, weight, bias, stride=stride, dilation=dilation, pads=pads, groups=groups)
    return out if batched else reshape(out, out.shape[1:])


def _np_convolve(
    n: int, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    if x.ndim == n + 1:
        return _np_convolve(n, x[None], weight, bias, stride, padding, dilation, groups)[0]
    stride, dilation = numbers("", "", stride, n), numbers("", "", dilation, n)
    kernel = weight.shape[2:]
    pads = given_pads("", padding, kernel, stride, dilation)
    patches = np_windows(x, kernel, stride, dilation, pads)
    parts = [
        np.tensordot(
            np.moveaxis(patch, 1, -n - 1), share, (range(-n - 1, 0), range(-n - 1, 0))
        )
        for patch, share in zip(np.split(patches, groups, 1), np.split(weight, groups))
    ]  # fmt: skip
    out = np.moveaxis(np.concatenate(parts, -1), -1, 1)
    return out if bias is None else out + bias.reshape(-1, *(1,) * n)


def _convolution(n: int, samples: Any, failures: Any = None) -> Op:
    name = f"conv{n}d"

    def body(x, weight, bias=None, *, stride=1, padding=0, dilation=1, groups=1):
        return _convolve(name, n, x, weight, bias, stride, padding, dilation, groups)

    def ref(x, weight, bias, stride=1, padding=0, dilation=1, groups=1):
        return _np_convolve(n, x, weight, bias, stride, padding, dilation, groups)

    body.__name__ = name
    dims = ", ".join("dhw"[-n:])
    body.__doc__ = f"Cross-correlation of [n, c, {dims}] with kernels [out, c / groups, ...]."
    return composite(
        ref=ref, samples=samples, failures=failures, method=False, autocast="low", by_parts=True
    )(body)  # fmt: skip


conv1d = _convolution(
    1,
    lambda: (
        Sample(_arrays((2, 3, 8), (4, 3, 3), (4,)), {"stride": 2, "padding": 1}),
        Sample(_arrays((2, 7), (4, 1, 4), None), {"padding": "same", "dilation": 2, "groups": 2}),
    ),
)
conv2d = _convolution(
    2,
    lambda: (
        Sample(_arrays((2, 3, 5, 6), (4, 3, 3, 2), (4,)), {"padding": 1}),
        # The stride does not divide the input: its last row and column are in no window.
        Sample(_arrays((1, 2, 6, 6), (2, 2, 3, 3), None), {"stride": 2}),
        Sample(_arrays((2, 4, 5, 5), (6, 2, 2, 2), (6,)), {"dilation": (2, 1), "groups": 2}),
        Sample(_arrays((0, 1, 3, 3), (1, 1, 2, 2), None), {"padding": "valid"}),
    ),
    lambda: (
        Failure(
            _arrays((1, 3, 5, 5), (2, 4, 3, 3), None), {}, ValueError,
            "conv2d: float64[1, 3, 5, 5] has 3 channels, but the weight float64[2, 4, 3, 3] with "
            "groups=1 needs 4.",
        ),
        Failure(
            _arrays((3, 5), (2, 3, 3, 3), None), {}, ValueError,
            "conv2d: cannot convolve float64[3, 5] with float64[2, 3, 3, 3]; it needs",
        ),
        Failure(
            _arrays((1, 3, 5, 5), (2, 3, 3, 3), (3,)), {}, ValueError,
            "conv2d: the bias is float64[3]; it needs shape [2]",
        ),
        Failure(
            _arrays((1, 1, 2, 2), (1, 1, 3, 3), None), {}, ValueError,
            "conv2d: a window of [3, 3] with dilation [1, 1] does not fit into float64[1, 1, 2, 2]",
        ),
        Failure(
            _arrays((1, 1, 4, 4), (1, 1, 3, 3), None), {"stride": 2, "padding": "same"}, ValueError,
            "conv2d: padding='same' needs stride 1, not [2, 2].",
        ),
        Failure(
            _arrays((1, 1, 4, 4), (1, 1, 3, 3), None), {"padding": "full"}, ValueError,
            "conv2d: padding is 'full'; it must be numbers, 'same' or 'valid'.",
        ),
        Failure(
            _arrays((1, 1, 4, 4), (1, 1, 3, 3), None), {"stride": 0}, ValueError,
            "conv2d: stride is 0; it must be at least 1.",
        ),
        Failure(
            _arrays((1, 1, 4, 4), (1, 1, 3, 3), None), {"dilation": (1, 1, 1)}, TypeError,
            "conv2d: dilation is (1, 1, 1); it must be an integer or 2 of them.",
        ),
    ),
)  # fmt: skip
conv3d = _convolution(
    3,
    lambda: (
        Sample(_arrays((2, 2, 3, 4, 3), (2, 2, 2, 2, 1), (2,)), {"stride": (1, 2, 1)}),
        Sample(_arrays((1, 2, 2, 2), (2, 1, 2, 2, 2), None), {"padding": (1, 0, 1), "groups": 1}),
    ),
)


# --- transposes --------------------------------------------------------------------------------


def _transpose(
    op: str, n: int, x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any,
    output_padding: Any, groups: int, dilation: Any,
) -> Tensor:  # fmt: skip
    x, batched = _batch(op, x, weight, n)
    stride, dilation = numbers(op, "stride", stride, n, 1), numbers(op, "dilation", dilation, n, 1)
    padding = numbers(op, "padding", padding, n)
    extra = numbers(op, "output_padding", output_padding, n)
    in_channels, _, *kernel = weight.shape
    _grouped(op, x, weight, groups, in_channels // max(groups, 1))
    if any(e >= max(st, d) for e, st, d in zip(extra, stride, dilation)):
        raise ValueError(
            f"{op}: output_padding {list(extra)} must be less than the stride {list(stride)} or "
            f"the dilation {list(dilation)}."
        )
    whole = reach(x.shape[2:], tuple(kernel), stride, dilation)
    sizes = tuple(m + e - 2 * p for m, e, p in zip(whole, extra, padding))
    if any(m < 1 for m in sizes):
        raise MismatchError(f"{op}: {describe(x)} would give spatial sizes {list(sizes)}.")
    _check_bias(op, bias, weight.shape[1] * groups)
    out = _plus(_spread(x, weight, sizes, padding, stride, dilation, groups), bias)
    return out if batched else reshape(out, out.shape[1:])


def _np_transpose(
    n: int, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, extra: Any, groups: int,
    dilation: Any,
) -> Any:  # fmt: skip
    """Every input element paints its kernel, scaled, onto the output."""
    stride, padding, extra, dilation = (
        numbers("", "", v, n) for v in (stride, padding, extra, dilation)
    )
    kernel = weight.shape[2:]
    spans = extents(kernel, dilation)
    size = [m + e for m, e in zip(reach(x.shape[2:], kernel, stride, dilation), extra)]
    per_in, per_out = weight.shape[0] // groups, weight.shape[1]
    out: Any = np.zeros((x.shape[0], per_out * groups, *size), np.result_type(x, weight))
    for c in range(x.shape[1]):
        channels = slice(c // per_in * per_out, (c // per_in + 1) * per_out)
        for at in np.ndindex(x.shape[2:]):
            corner = [i * st for i, st in zip(at, stride)]
            painted = [slice(i, i + span, d) for i, span, d in zip(corner, spans, dilation)]
            scale = x[(slice(None), c, *at)].reshape(-1, 1, *(1,) * n)
            out[(slice(None), channels, *painted)] += scale * weight[c]
    out = out[(..., *(slice(p, m - p) for p, m in zip(padding, size)))]
    return out if bias is None else out + bias.reshape(-1, *(1,) * n)


def _transposed_convolution(n: int, samples: Any, failures: Any = None) -> Op:
    name = f"conv_transpose{n}d"

    def body(x, weight, bias=None, *, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        return _transpose(
            name, n, x, weight, bias, stride, padding, output_padding, groups, dilation
        )

    def ref(
        x, weight, bias, stride=1, padding=0, output_padding=0, groups=1, dilation=1
    ):  # fmt: skip
        return _np_transpose(n, x, weight, bias, stride, padding, output_padding, groups, dilation)

    body.__name__ = name
    body.__doc__ = f"The transpose of conv{n}d: [n, c, ...] with kernels [c, out / groups, ...]."
    return composite(
        ref=ref, samples=samples, failures=failures, method=False, autocast="low"
    )(body)  # fmt: skip


conv_transpose1d = _transposed_convolution(
    1,
    lambda: (
        Sample(
            _arrays((2, 3, 4), (3, 2, 3), (2,)), {"stride": 2, "padding": 1, "output_padding": 1}
        ),
        Sample(_arrays((1, 4, 3), (4, 1, 2), None), {"groups": 2, "dilation": 3}),
    ),
)
conv_transpose2d = _transposed_convolution(
    2,
    lambda: (
        Sample(_arrays((2, 2, 3, 3), (2, 3, 2, 3), (3,)), {"stride": (2, 1)}),
        # An output padding of the stride's size makes room for one more window than there is.
        Sample(
            _arrays((1, 2, 2, 3), (2, 1, 2, 2), None),
            {"padding": 1, "output_padding": 1, "dilation": 2},
        ),
    ),
    lambda: (
        Failure(
            _arrays((1, 2, 3, 3), (2, 1, 2, 2), None), {"output_padding": 1}, ValueError,
            "conv_transpose2d: output_padding [1, 1] must be less than the stride [1, 1] or the",
        ),
        Failure(
            _arrays((1, 3, 3, 3), (2, 1, 2, 2), None), {}, ValueError,
            "conv_transpose2d: float64[1, 3, 3, 3] has 3 channels, but the weight",
        ),
        Failure(
            _arrays((1, 2, 1, 1), (2, 1, 2, 2), None), {"padding": 1}, ValueError,
            "conv_transpose2d: float64[1, 2, 1, 1] would give spatial sizes [0, 0].",
        ),
    ),
)  # fmt: skip
conv_transpose3d = _transposed_convolution(
    3, lambda: (Sample(_arrays((1, 2, 2, 2, 2), (2, 1, 2, 1, 2), (1,)), {"stride": 2}),)
)
