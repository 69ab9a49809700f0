"""What must hold for an op and a sample: the checks of the matrix over the registry."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import contraflow as cf
from contraflow import dtypes
from contraflow.autograd import grad
from contraflow.dtypes import DType
from contraflow.expressions import expression as s
from contraflow.expressions.evaluate import evaluate, read_array, saturating_cast
from contraflow.operation.context import apply
from contraflow.operation.kinds import (
    Creating,
    Elementwise,
    Index,
    Reduction,
)
from contraflow.operation.op import Op
from contraflow.operation.samples import Array, Sample
from contraflow.shapes import contiguous, numel
from contraflow.spec import Given, Spec
from contraflow.tensors.tensor import Tensor
from contraflow.testing import TOLERANCES, assert_close, check_gradients, is_real, make_inputs

FLOATS = (cf.float64, cf.float32, cf.float16, cf.bfloat16)
HALVES = (cf.float16, cf.bfloat16)
INTEGERS = (cf.int64, cf.int32, cf.int16, cf.int8, cf.uint8)


# --- calling -----------------------------------------------------------------------------------


def to_tensor(x: Any) -> Any:
    return cf.tensor(x) if isinstance(x, np.ndarray) else x


def as_tuple(x: Any) -> tuple[Any, ...]:
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def run(op: Op, inputs: Any, params: Any) -> tuple[Tensor, ...]:
    """The op in recorded form, over arrays or tensors."""
    return as_tuple(apply(op, tuple(map(to_tensor, inputs)), params))


def call(op: Op, inputs: Any, params: Any) -> Any:
    """The op as a user calls it, everything by name (a public signature has its own order)."""
    if op.variadic:
        return op(inputs, **params)
    return op(**dict(zip(op.inputs, inputs)), **params)


def accepts(op: Op, params: Any) -> bool:
    """Whether the public signature takes these parameters: arange's has none for the shape."""
    try:
        inspect.signature(op.call).bind(**dict.fromkeys(op.inputs), **params)
    except TypeError:
        return False
    return True


def given_specs(inputs: Any) -> list[Given]:
    return [
        Spec(x.shape, dtypes.from_numpy(x.dtype)) if isinstance(x, np.ndarray) else x
        for x in inputs
    ]


def is_composite(op: Op) -> bool:
    return op.kind.lowering == "composite" or op.own_kernel is not None


def reference(op: Op, inputs: Any, params: Any) -> tuple[np.ndarray, ...]:
    """The op's `ref` over NumPy arrays as they are; a view's is its body over strides."""
    if op.kind.lowering == "view":
        x = inputs[0]
        view = op.body(contiguous(x.shape), **params)
        return (
            np.lib.stride_tricks.as_strided(
                x.reshape(-1)[view.offset :], view.shape, [n * x.itemsize for n in view.strides]
            ),
        )
    assert op.ref is not None
    with np.errstate(all="ignore"):
        return tuple(np.asarray(out) for out in as_tuple(op.ref(*inputs, **params)))


# --- the scalar body over NumPy ----------------------------------------------------------------


def evaluate_body(op: Op, inputs: Any, params: Any) -> tuple[np.ndarray, ...]:
    """What the op's scalar body says, without its `ref`: casts, coordinates, folds."""
    given = given_specs(inputs)
    casts, results = op.types(given, params)
    arrays, specs, sources = [], [], []
    for i, (x, spec, cast) in enumerate(zip(inputs, given, casts)):
        if isinstance(spec, Spec):
            dtype = (cast or spec.dtype).compute
            specs.append(Spec(spec.shape, dtype))
        else:  # a host scalar is int64 or float64 before its cast
            own = cf.int64 if isinstance(spec, int) else cf.float64
            dtype = own if cast is None else cast.compute
            specs.append(spec)
        arrays.append(saturating_cast(x, dtype))
        sources.append(s.leaf("input", dtype, i))
    expected = op.infer(given, params)
    with np.errstate(all="ignore"):
        if isinstance(op.kind, Reduction):
            outs = fold_body(op, arrays[0], sources[0], params)
        else:
            roots = op.kind.expression(op, specs, params, sources)
            shape = expected[0].shape
            grid = np.indices(shape, np.int64, sparse=True)
            linear = np.arange(numel(shape)).reshape(shape)

            def leaf(e: s.Expr, args: list[Any]) -> Any:
                if e.fn == "axis":
                    return linear if e.data == "linear" else grid[e.data]
                if e.fn == "read":
                    array = arrays[e.data]
                    return read_array(array, args, len(args) > array.ndim)
                return arrays[e.data]

            outs = [np.broadcast_to(v, shape) for v in evaluate(roots, leaf)]
            for root, result in zip(roots, results, strict=True):
                assert root.dtype is result.compute, f"the body gives {root.dtype}, not {result}"
    return tuple(saturating_cast(out, spec.dtype) for out, spec in zip(outs, expected))


def fold_body(op: Op, x: np.ndarray, source: s.Expr, params: Any) -> list[np.ndarray]:
    """A plain left fold over the reduced dims, in row-major order."""
    assert isinstance(op.kind, Reduction)
    values, combine, identity = op.kind.fold(op, source)
    dims = tuple(d for d in params["dim"] if d < x.ndim)  # a 0-d tensor may be asked for dim 0
    kept = tuple(d for d in range(x.ndim) if d not in dims)
    outer = tuple(x.shape[d] for d in kept)
    count = numel(x.shape[d] for d in dims)
    flat = np.transpose(x, kept + tuple(dims)).reshape(*outer, count)
    position = np.arange(count).reshape((1,) * len(outer) + (count,))
    at_points = evaluate(values, lambda e, _: position if e.fn == "axis" else flat)
    points = [np.broadcast_to(v, flat.shape) for v in at_points]
    total: list[Any] = [np.broadcast_to(v, outer) for v in evaluate(identity, lambda e, _: None)]
    for i in range(count):
        sides = {"left": total, "right": [p[..., i] for p in points]}
        total = evaluate(combine, lambda e, _, sides=sides: sides[e.fn][e.data])
    shape = tuple(1 if d in dims else n for d, n in enumerate(x.shape))
    return [np.reshape(t, shape) if params["keepdim"] else np.asarray(t) for t in total]


def has_body(op: Op) -> bool:
    return isinstance(op.kind, (Elementwise, Index, Creating, Reduction))


# --- gradients ---------------------------------------------------------------------------------


def differentiable(op: Op, inputs: Any) -> list[int]:
    """The numbers of the float64 inputs that have a gradient."""
    if op.rules and not op.variadic:
        ruled = {i for rule in op.rules for i in rule.inputs}
    elif op.rules or is_composite(op):
        ruled = set(range(len(inputs)))
    else:
        ruled = set()
    return [i for i, x in enumerate(inputs) if i in ruled and is_real(x)]


def projection(op: Op) -> Callable[[np.ndarray], np.ndarray] | None:
    """What directions a structured input admits: the op says it in its declaration."""
    if op.extra.get("symmetric"):
        return lambda v: (v + np.swapaxes(v, -1, -2)) / 2
    return np.tril if op.extra.get("triangular") else None


def gradients_of(op: Op, inputs: Any, params: Any, wrt: list[int], seed: int) -> list[np.ndarray]:
    """Gradients of the weighed sum of all outputs, with only `wrt` requiring any."""
    given = [to_tensor(x) for x in inputs]
    for i in wrt:
        given[i] = given[i].detach().requires_grad_()
    return [g.array for g in gradients_at(op, given, params, [given[i] for i in wrt], seed)]


def gradients_at(op: Op, given: Any, params: Any, points: Any, seed: int) -> list[Tensor]:
    rng = np.random.default_rng(seed)
    found = as_tuple(call(op, given, params)) if accepts(op, params) else run(op, given, params)
    outs = [o for o in found if o.dtype.is_floating_point]
    weights = [cf.tensor(rng.standard_normal(o.shape)).to(o.dtype) for o in outs]
    # Of several outputs some may not depend on what requires grad here.
    weighed = [(o, w) for o, w in zip(outs, weights) if o.requires_grad]
    return list(grad([o for o, _ in weighed], points, [w for _, w in weighed]))


# --- checks ------------------------------------------------------------------------------------


def check_eager(op: Op, sample: Sample) -> None:
    """Eager equals `ref`; shape and dtype are those of `infer`; the memory is new and in order."""
    inputs, params = make_inputs(sample), sample.params
    tensors = tuple(map(to_tensor, inputs))
    outs = run(op, tensors, params)
    expected = reference(op, inputs, params)
    for out, array in zip(outs, expected, strict=True):
        assert_close(out, array)
    if not is_composite(op) and not op.dynamic:
        inferred = op.infer(given_specs(inputs), params)
        assert [out.spec for out in outs] == list(inferred)
    for out in outs:
        assert out.array.dtype == out.dtype.numpy
        shared = [x for x in tensors if isinstance(x, Tensor) and x.storage is out.storage]
        if op.kind.lowering == "view":
            assert shared, "a view must share its input's storage"
        elif not shared:
            assert out.is_contiguous(), f"strides {out.stride()} for shape {out.shape}"
            assert out.array.flags.c_contiguous
            for x in tensors:
                if isinstance(x, Tensor):
                    assert not np.shares_memory(x.array, out.array), "memory shared in secret"
        else:
            assert is_composite(op), "only views and composites may return an input's storage"
    for x, array in zip(tensors, inputs):
        if isinstance(x, Tensor):
            assert_close(x, array, 0.0, 0.0)
            assert x._version == 0


def check_call(op: Op, sample: Sample) -> None:
    """The public signature gives what the recorded form gives."""
    inputs, params = make_inputs(sample), sample.params
    if not accepts(op, params):
        return
    tensors = tuple(map(to_tensor, inputs))
    for out, expected in zip(
        as_tuple(call(op, tensors, params)), run(op, inputs, params), strict=True
    ):
        assert_close(out, expected, 0.0, 0.0)


def check_body(op: Op, sample: Sample) -> None:
    """The scalar body, evaluated over NumPy, equals `ref`."""
    if not has_body(op):
        return
    inputs, params = make_inputs(sample), sample.params
    for out, expected in zip(
        evaluate_body(op, inputs, params), reference(op, inputs, params), strict=True
    ):
        assert_close(out, expected)


def check_dtypes(op: Op, sample: Sample) -> None:
    """Every floating dtype gives float64's values to its tolerance; halves round once."""
    params = sample.params
    exact = reference(op, make_inputs(sample), params)
    for dtype, varied in dtype_variants(op, sample, FLOATS):
        inputs = make_inputs(sample, dtype=dtype)
        outs = run(op, inputs, varied)
        check_specs(op, inputs, varied, outs)
        check_agreeing_body(op, inputs, varied, outs)
        if dtype in HALVES:
            wide = [x.astype(np.float32) if is_half(x) else x for x in inputs]
            wide_params = {**varied, "dtype": cf.float32} if varied != params else varied
            single = run(op, wide, wide_params)
            for out, expected in zip(outs, single, strict=True):
                if is_composite(op) or isinstance(op.kind, Creating):
                    assert_close(out, expected.array)
                else:
                    assert_close(out, saturating_cast(expected.array, out.dtype), 0.0, 0.0)
        elif varied == params and not isinstance(op.kind, Creating):
            for out, expected in zip(outs, exact, strict=True):
                assert_close(out, expected)


def check_integers(op: Op, sample: Sample) -> None:
    """Whole numbers give what the same numbers give in float64; the dtype is the rule's."""
    if not any(map(is_random, sample.inputs)):
        return
    for dtype in INTEGERS:
        inputs = make_inputs(integral(sample, dtype))
        # A mean of integers has no dtype of its own.
        if op.extra.get("floating") or op.extra.get("takes") == (dtypes.FLOAT,):
            with pytest.raises(TypeError, match="is not floating-point"):
                run(op, inputs, sample.params)
            continue
        outs = run(op, inputs, sample.params)
        check_specs(op, inputs, sample.params, outs)
        check_agreeing_body(op, inputs, sample.params, outs)
        wide = [
            x.astype(np.float64) if is_random(given) else x
            for given, x in zip(sample.inputs, inputs)
        ]
        # Unsigned differences wrap around, inside composites too.
        if dtype is not cf.uint8:
            for out, expected in zip(outs, reference(op, wide, sample.params), strict=True):
                assert_close(out, expected, *TOLERANCES[cf.float32])  # where an op needs floats


def is_random(given: Any) -> bool:
    """Whether this input of a sample may be drawn in another dtype."""
    return isinstance(given, Array) and given.dtype is cf.float64


def check_indices(op: Op, sample: Sample) -> None:
    """Index inputs of every integer dtype give what int64 gives."""
    if not any(isinstance(x, Array) and x.dtype is cf.int64 for x in sample.inputs):
        return
    params = sample.params
    inputs = make_inputs(sample)
    expected = run(op, inputs, params)
    for dtype in INTEGERS[1:]:
        narrow = [x.astype(dtype.numpy) if x_is(x, cf.int64) else x for x in inputs]
        outs = run(op, narrow, params)
        check_specs(op, narrow, params, outs)
        for out, wide in zip(outs, expected, strict=True):
            assert_close(out, wide.array, 0.0, 0.0)
        check_agreeing_body(op, narrow, params, outs)
        wrt = differentiable(op, inputs)
        if wrt:
            for g, h in zip(
                gradients_of(op, narrow, params, wrt, 5), gradients_of(op, inputs, params, wrt, 5)
            ):
                assert_close(g, h)


def x_is(x: Any, dtype: DType) -> bool:
    return isinstance(x, np.ndarray) and x.dtype == dtype.numpy


def is_half(x: Any) -> bool:
    return isinstance(x, np.ndarray) and dtypes.from_numpy(x.dtype) in HALVES


def integral(sample: Sample, dtype: DType) -> Sample:
    """The sample with its random float64 inputs replaced by whole numbers."""
    inputs = []
    for x in sample.inputs:
        if is_random(x):
            low = max(int(np.ceil(x.low)), -2 if dtype.is_signed else 0)
            x = x._replace(low=low, high=max(int(x.high) + 1, low + 1), dtype=dtype, avoid=())
        elif isinstance(x, float):
            x = float(int(x))
        inputs.append(x)
    return Sample(tuple(inputs), sample.params)


def dtype_variants(op: Op, sample: Sample, wanted: Any) -> Iterator[tuple[DType, Any]]:
    """(dtype, params): the random inputs vary, or for a creating op its dtype parameter."""
    if any(map(is_random, sample.inputs)):
        yield from ((dtype, sample.params) for dtype in wanted)
    elif isinstance(op.kind, Creating) and sample.params.get("dtype") is cf.float32:
        yield from ((dtype, {**sample.params, "dtype": dtype}) for dtype in wanted)


def check_specs(op: Op, inputs: Any, params: Any, outs: Any) -> None:
    for out in outs:
        assert out.array.dtype == out.dtype.numpy
        assert out.array.shape == out.shape
    if not is_composite(op) and not op.dynamic:
        assert [out.spec for out in outs] == list(op.infer(given_specs(inputs), params))


def check_agreeing_body(op: Op, inputs: Any, params: Any, outs: Any) -> None:
    """Body and eager agree in this dtype too; half bodies compute in float32."""
    if has_body(op):
        for body, out in zip(evaluate_body(op, inputs, params), outs, strict=True):
            assert body.dtype == out.dtype.numpy
            assert_close(body, out.array)


def layouts(x: np.ndarray) -> dict[str, Tensor]:
    """The same values laid out otherwise: dims stored in reverse, and every second of a buffer."""
    reverse = tuple(reversed(range(x.ndim)))
    stored = cf.tensor(np.transpose(x, reverse))
    wide = np.full([2 * n + 1 for n in x.shape], 77, x.dtype)
    wide[tuple(slice(1, None, 2) for _ in x.shape)] = x
    sliced = cf.tensor(wide)[tuple(slice(1, None, 2) for _ in x.shape)]
    return {"transposed": stored.permute(reverse), "sliced": sliced}


def check_layouts(op: Op, sample: Sample) -> None:
    """Strided and expanded inputs give what contiguous ones of the same values give."""
    inputs, params = make_inputs(sample), sample.params
    wrt = differentiable(op, inputs)
    for layout in ("transposed", "sliced"):
        given = [layouts(x)[layout] if isinstance(x, np.ndarray) else x for x in inputs]
        compare_layouts(op, inputs, given, params, wrt)
    for i, x in enumerate(inputs):
        if isinstance(x, np.ndarray) and x.ndim and x.shape[0] > 1 and not projection(op):
            plain = list(inputs)
            plain[i] = np.ascontiguousarray(np.broadcast_to(x[:1], x.shape))
            given = [to_tensor(v) for v in plain]
            given[i] = cf.tensor(x[:1]).expand(x.shape)
            # Equal elements are ties, whose gradients need not be those of any one layout.
            compare_layouts(op, plain, given, params, wrt)


def compare_layouts(op: Op, plain: Any, given: Any, params: Any, wrt: list[int]) -> None:
    # As a user calls it: the recorded form of reshape takes only what it can view.
    outs = as_tuple(call(op, given, params)) if accepts(op, params) else run(op, given, params)
    for out, expected in zip(outs, run(op, plain, params), strict=True):
        assert_close(out, expected)
        if op.kind.lowering not in ("view", "composite"):
            assert out.is_contiguous(), f"strides {out.stride()} for shape {out.shape}"
    if wrt and any(out.dtype.is_floating_point for out in outs):
        expected_grads = gradients_of(op, plain, params, wrt, seed=3)
        for i in wrt:
            given[i] = given[i].detach().requires_grad_()
        found = gradients_at(op, given, params, [given[i] for i in wrt], seed=3)
        for g, expected_g in zip(found, expected_grads, strict=True):
            assert_close(g, expected_g)


def check_rules(op: Op, sample: Sample) -> None:
    """VJP and its own gradient equal central differences, in one random direction."""
    inputs = make_inputs(sample)
    wrt = differentiable(op, inputs)
    if wrt and gives_floats(op, inputs, sample.params):
        check_gradients(op, inputs, sample.params, wrt=wrt, project=projection(op))


def gives_floats(op: Op, inputs: Any, params: Any) -> bool:
    return any(o.dtype.is_floating_point for o in run(op, inputs, params))


def check_subsets(op: Op, sample: Sample) -> None:
    """An input's gradient does not depend on which other inputs need one."""
    inputs = make_inputs(sample)
    wrt = differentiable(op, inputs)
    if len(wrt) > 1 and gives_floats(op, inputs, sample.params):
        together = gradients_of(op, inputs, sample.params, wrt, seed=5)
        for i, expected in zip(wrt, together):
            (alone,) = gradients_of(op, inputs, sample.params, [i], seed=5)
            assert_close(alone, expected)


def check_transpose(op: Op, sample: Sample) -> None:
    """<g, Jv> = <J'g, v>: J by differences, or by the op itself where it is declared linear."""
    inputs, params = make_inputs(sample), sample.params
    wrt = differentiable(op, inputs)
    if not wrt or not gives_floats(op, inputs, params):
        return
    rng = np.random.default_rng(11)
    project = projection(op) or (lambda v: v)
    tangents = {i: project(rng.standard_normal(inputs[i].shape)) for i in wrt}

    def at(step: float, start: float = 1.0) -> list[np.ndarray]:
        moved = list(inputs)
        for i, v in tangents.items():
            moved[i] = np.asarray(start * inputs[i] + step * v)
        outs = run(op, moved, params)
        return [o.array.copy() for o in outs if o.dtype.is_floating_point]

    if op.linear:
        pushed = at(1.0, start=0.0)
        exact = 1e-10
    else:
        step = 1e-6
        pushed = [(a - b) / (2 * step) for a, b in zip(at(step), at(-step))]
        exact = 1e-6
    weights = np.random.default_rng(5)
    left = sum(float((weights.standard_normal(p.shape) * p).sum()) for p in pushed)
    pulled = gradients_of(op, inputs, params, wrt, seed=5)
    right = sum(float((g * tangents[i]).sum()) for g, i in zip(pulled, wrt))
    scale = 1.0 + sum(float(np.abs(g * tangents[i]).sum()) for g, i in zip(pulled, wrt))
    assert abs(left - right) <= exact * scale, f"<g, Jv> = {left}, but <J'g, v> = {right}"


def check_half_gradients(op: Op, sample: Sample) -> None:
    """Gradients of every floating dtype have the input's dtype and float64's values."""
    inputs, params = make_inputs(sample), sample.params
    wrt = differentiable(op, inputs)
    if not wrt or not all(isinstance(sample.inputs[i], Array) for i in wrt):
        return
    for dtype in FLOATS[1:]:
        narrow = make_inputs(sample, dtype=dtype)
        given = [to_tensor(x) for x in narrow]
        points = [given[i].requires_grad_() for i in wrt]
        if not any(o.requires_grad for o in run(op, given, params)):
            return
        found = gradients_at(op, given, params, points, seed=5)
        wide = [x.astype(np.float64) if x_is(x, dtype) else x for x in narrow]
        for g, expected in zip(found, gradients_of(op, wide, params, wrt, seed=5), strict=True):
            assert g.dtype is dtype
            scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
            rtol, atol = (8 * t for t in TOLERANCES[dtype])
            assert_close(g, expected, rtol, atol * scale)


CHECKS: dict[str, Callable[[Op, Sample], None]] = {
    "eager": check_eager,
    "call": check_call,
    "body": check_body,
    "dtypes": check_dtypes,
    "integers": check_integers,
    "indices": check_indices,
    "layouts": check_layouts,
    "rules": check_rules,
    "subsets": check_subsets,
    "transpose": check_transpose,
    "half_gradients": check_half_gradients,
}


def samples_of(op: Op) -> list[Sample]:
    found = list(op.samples())
    if not found:
        raise ValueError(f"{op.name}: an op needs samples; declare samples=.")
    return found
