"""Every op of the registry with arguments nobody chose: the right value, or a clean refusal.

Hypothesis draws shapes, layouts, dtypes, values and static arguments. An op that returns must give
what its scalar body, or its reference, gives for contiguous copies, and leave its inputs alone. One
that raises must name itself in the house style and leave everything as it was. `make test` runs a
few fixed examples of each; the same tests with many more are marked slow.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from tests.helpers.drawn_calls import (
    DTYPES,
    OPS,
    SHAPES,
    Call,
    draw_array,
    draw_call,
    hostile_value,
    invoke,
    laid_out,
    takes,
    twice,
)
from tests.helpers.op_checks import (
    as_tuple,
    differentiable,
    evaluate_body,
    given_specs,
    gives_floats,
    has_body,
    is_composite,
    projection,
    reference,
    samples_of,
)

import contraflow as cf
from contraflow import dtypes
from contraflow.expressions.evaluate import saturating_cast
from contraflow.operation.context import apply
from contraflow.operation.kinds import Creating, Elementwise, Reduction
from contraflow.operation.op import Op
from contraflow.operation.samples import Array
from contraflow.shapes import Shape
from contraflow.tensors.tensor import Tensor
from contraflow.testing import STEP, assert_close, check_gradients, make_inputs, tolerance

# --- what must hold ----------------------------------------------------------------------------


REFUSALS = (ValueError, TypeError, IndexError, RuntimeError, ZeroDivisionError)
FOREIGN = re.compile(
    r"ufunc|Traceback|broadcast together|array element|object has no|not supported between|"
    r"unsupported operand|cannot be interpreted|unexpected keyword|truth value of an"
)


def is_clean(error: Exception) -> bool:
    """Whether an error is of a kind and in words that a user may meet."""
    named = re.match(r"[A-Za-z_][\w.]*(\(.*?\))?: ", str(error))
    foreign = FOREIGN.search(str(error)) or isinstance(error, RecursionError)
    return isinstance(error, REFUSALS) and bool(named) and not foreign


def snapshot(values: Any) -> list[Any]:
    return [
        (v._version, v.grad, v.shape, v.array.tobytes()) for v in values if isinstance(v, Tensor)
    ]


def attempt(function: Callable[[], Any], watched: Any) -> Any:
    """What `function` returns, or None for a clean refusal that changed nothing."""
    before, random_state = snapshot(watched), cf.get_rng_state()
    modes = cf.is_grad_enabled(), cf.is_inference_mode_enabled()
    result, refusal = None, None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = function()
    except Exception as error:
        refusal = error
    if refusal is not None:
        assert is_clean(refusal), f"{type(refusal).__name__}: {refusal}"
        assert cf.get_rng_state() == random_state
    assert snapshot(watched) == before, "an input was changed"
    assert (cf.is_grad_enabled(), cf.is_inference_mode_enabled()) == modes
    return result


@contextmanager
def writing(target: Tensor) -> Iterator[list[str]]:
    """A write that may be refused, cleanly and with nothing written; the list then says why."""
    base = target if target._base is None else target._base
    before = base.array.tobytes(), base._version
    refusals: list[str] = []
    clean = same = True
    try:
        yield refusals
    except Exception as error:
        refusals.append(f"{type(error).__name__}: {error}")
        clean = is_clean(error)
        same = (base.array.tobytes(), base._version) == before
    assert clean, refusals
    assert same, "a refused write changed its target"


def tensors_in(values: Any) -> list[Any]:
    if isinstance(values, (tuple, list)):
        return [t for v in values for t in tensors_in(v)]
    return [values]


def is_random(op: Op) -> bool:
    return "dropout" in op.name or op.name == "rrelu"


def expected_values(one: Call) -> tuple[np.ndarray, ...]:
    """The result by another way than the op took, where there is one for such inputs."""
    op, arrays, params = one.op, one.arrays, one.params
    if has_body(op) and not op.custom and not isinstance(op.kind, (Creating, Reduction)):
        return evaluate_body(op, arrays, params)
    if isinstance(op.kind, Reduction) and op.normalize is not None and len(op.outs) == 1:
        normal = op.normalize(one.tensors[0], **{**op.params, **params})
        if op.name in ("all", "any") and params["dim"] == ():  # no dims, not all of them
            normal["dim"] = ()
        return evaluate_body(op, arrays, {**op.params, **params, **normal})
    if isinstance(op.kind, (Elementwise, Reduction)) or op.kind.lowering == "view":
        return ()
    doubles = all(not isinstance(a, np.ndarray) or a.dtype.kind in "fb" for a in arrays)
    if one.special or not doubles:
        return ()
    wide = [
        a.astype(np.float64) if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a
        for a in arrays
    ]
    return reference(op, wide, params)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
@twice(8, 300)
def test_values(draw: Any, op: Op) -> None:
    """Any layout gives what contiguous copies give, and both what the oracle says."""
    one = draw_call(draw, op)
    if not takes(op, one.params):
        return
    found = attempt(one.again, one.tensors)
    plain = attempt(lambda: invoke(op, one.contiguous(), one.params), ())
    if op.name == "as_strided":  # it shows the memory, whose order is what a layout changes
        return
    if op.name == "view" and found is None:  # it never copies, as some layouts would have it do
        return
    assert (found is None) == (plain is None), "layout decides whether it works"
    if found is None or is_random(op):
        return
    outs = tensors_in(found)
    for out, same in zip(outs, tensors_in(plain), strict=True):
        if isinstance(out, Tensor):
            assert out.array.dtype == out.dtype.numpy
            assert_close(out, same, *in_another_order(one, out))
        else:
            assert out == same
    if not is_composite(op) and not op.dynamic and not op.custom:
        params = {**op.params, **one.params}
        if op.normalize is not None:
            params.update(op.normalize(*one.tensors, **params))
        assert [out.spec for out in outs] == list(op.infer(given_specs(one.arrays), params))
    compare(one, outs)


def in_another_order(one: Call, out: Tensor) -> tuple[float, float]:
    """The tolerance of sums whose terms are added in another order: the largest one's rounding."""
    relative, absolute = tolerance(out.dtype)
    if not isinstance(one.op.kind, Elementwise) and out.dtype.is_floating_point:
        floats = (a for a in one.arrays if isinstance(a, np.ndarray) and a.dtype.kind == "f")
        finite = (np.abs(a[np.isfinite(a)]).max(initial=0.0) for a in floats)
        absolute += relative * float(max(finite, default=0.0))
    return relative, absolute


def loosest(one: Call, out: Tensor) -> tuple[float, float]:
    """The tolerance of the narrowest dtype that took part."""
    given = [dtypes.from_numpy(a.dtype) for a in one.arrays if isinstance(a, np.ndarray)]
    return tolerance(out.dtype, *given)


def compare(one: Call, outs: list[Any]) -> None:
    """Values against the oracle."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = expected_values(one)
    for out, value in zip(outs, expected):  # max() of everything gives no indices
        assert out.shape == value.shape
        if has_body(one.op):
            assert_close(out, value)
        elif out.dtype.is_floating_point:
            relative, absolute = loosest(one, out)
            with np.errstate(over="ignore"):  # float16 overflows
                value = saturating_cast(value, out.dtype).astype(np.float64)
            scale = max(1.0, float(np.abs(value[np.isfinite(value)]).max(initial=0.0)))
            assert_close(out, value, 8 * relative, 8 * absolute * scale)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
@twice(6, 400)
def test_hostile_arguments(draw: Any, op: Op) -> None:
    """Any argument may be nonsense: the op gives something or refuses, and nothing else happens."""
    one = draw_call(draw, op)
    names = list(inspect.signature(op.call).parameters) if op.custom else list(op.params)
    known = one.params if takes(op, one.params) else {}
    positional: list[Any] = []
    if op.variadic:
        positional, named = [list(one.tensors)], dict(known)
    else:
        named = {**dict(zip(op.inputs, one.tensors)), **known}
    for _ in range(draw(st.integers(1, 2))):
        place = draw(st.sampled_from([*range(len(positional)), *names, *named, "no_such_argument"]))
        value = hostile_value(draw)
        if isinstance(place, int):
            positional[0] = draw(st.sampled_from((value, [value], [*one.tensors, value])))
        else:
            named[place] = value
    if draw(st.booleans()):
        positional += named.values()
        named = {}
    watched = (*one.tensors, *positional, *named.values())
    attempt(lambda: op(*positional, **named), watched)


@pytest.mark.parametrize("op", [op for op in OPS if op.inplace], ids=lambda op: op.name)
@twice(4, 200)
def test_in_place(draw: Any, op: Op) -> None:
    """The in-place method writes what the op gives, into its own elements alone, or nothing."""
    one = draw_call(draw, op)
    if not takes(op, one.params) or not isinstance(one.tensors[0], Tensor) or is_random(op):
        return
    target, rest = one.tensors[0], dict(zip(op.inputs[1:], one.tensors[1:]))
    base = target if target._base is None else target._base
    before, version = cf.tensor(base.array), base._version
    others = snapshot(one.tensors[1:])
    expected = attempt(one.again, one.tensors)
    expected = None if expected is None else expected[0]
    with writing(target) as refusals:
        getattr(target, f"{op.name}_")(**rest, **one.params)
    if refusals:
        fits = expected is not None and expected.shape == target.shape
        narrower = fits and expected.dtype.category > target.dtype.category
        assert not fits or narrower or target.layout.overlaps_itself(), refusals
    else:
        assert expected is not None
        assert_close(target, expected.to(target.dtype), 0.0, 0.0)
        assert base._version == version + 1
        layout = target.shape, target.stride(), target.storage_offset()
        cf.as_strided(before, *layout).copy_(target)
        assert_close(base, before, 0.0, 0.0)
    assert snapshot(one.tensors[1:]) == others


def nearly_ties(x: np.ndarray) -> bool:
    """Whether the steps of differences may change which of two elements is the larger."""
    gaps = np.diff(np.sort(x, axis=None))
    return bool(np.any((gaps > 0) & (gaps < 10 * STEP)))


@pytest.mark.parametrize(
    "op", [op for op in OPS if op.rules or is_composite(op)], ids=lambda op: op.name
)
@twice(2, 60)
def test_gradients(draw: Any, op: Op) -> None:
    """At smooth points the gradient is that of differences; shapes and dtypes are the input's."""
    sample = draw(st.sampled_from(samples_of(op)))
    inputs = list(make_inputs(sample, seed=draw(st.integers(0, 2**16))))
    wrt = differentiable(op, inputs)
    if not wrt or is_random(op) or not gives_floats(op, inputs, sample.params):
        return
    if isinstance(op.kind, Elementwise):
        shape, seed = draw(SHAPES), draw(st.integers(0, 2**16))
        rng = np.random.default_rng(seed)
        for i, given in enumerate(sample.inputs):
            own = shape if i == 0 else shape[draw(st.integers(0, len(shape))) :]
            if isinstance(given, Array):
                inputs[i] = given._replace(shape=own).make(rng)
    elif any(
        isinstance(given, Array) and nearly_ties(x) for given, x in zip(sample.inputs, inputs)
    ):
        return
    check_gradients(op, inputs, sample.params, order=1, wrt=wrt, project=projection(op))
    dtype = draw(st.sampled_from((cf.float64, cf.float32, cf.float16, cf.bfloat16)))
    points = [
        laid_out(draw, x.astype(dtype.numpy)).detach().requires_grad_() if i in wrt
        else cf.tensor(x) if isinstance(x, np.ndarray) else x
        for i, x in enumerate(inputs)
    ]  # fmt: skip
    form = invoke if takes(op, sample.params) else apply
    outs = attempt(lambda: as_tuple(form(op, tuple(points), sample.params)), points)
    if outs is None:  # not in this dtype
        return
    rng = np.random.default_rng(1)
    roots = [o for o in tensors_in(outs) if isinstance(o, Tensor) and o.requires_grad]
    weights = [cf.tensor(rng.standard_normal(o.shape)).to(o.dtype) for o in roots]
    if roots:
        found = cf.autograd.grad(roots, [points[i] for i in wrt], weights, allow_unused=True)
        for g, i in zip(found, wrt, strict=True):
            assert g is None or (g.shape, g.dtype) == (points[i].shape, dtype)


# --- x[...] ------------------------------------------------------------------------------------


def draw_key(draw: Any, shape: Shape) -> tuple[Any, ...]:
    """Ints, slices, None, one Ellipsis, masks and integer arrays, sometimes out of range.

    NumPy and PyTorch disagree about an int beside arrays, so only one of the two is drawn; and
    negative steps are refused, as PyTorch does.
    """
    arrays = draw(st.booleans())
    lead = draw(st.sampled_from(((), (2,), (3, 1))))
    items: list[Any] = []
    dim = 0
    while dim < len(shape) and draw(st.integers(0, 4)):
        n = shape[dim]
        kind = draw(st.sampled_from(("slice", "none", "index", "index", "mask")))
        if kind == "none":
            items.append(None)
            continue
        if kind == "mask" and arrays:
            deep = draw(st.integers(1, len(shape) - dim))
            items.append(draw_array(draw, shape[dim : dim + deep], cf.bool))
            dim += deep
            arrays = False  # one mask: two need as many true elements
            continue
        if kind == "index":
            slip = draw(st.integers(0, 9)) == 0
            low, high = (-n - 2, n + 2) if slip or not n else (-n, n)
            if arrays:
                rng = np.random.default_rng(draw(st.integers(0, 999)))
                items.append(rng.integers(low, high, lead))
            elif not any(isinstance(item, np.ndarray) for item in items):
                items.append(draw(st.integers(low, high - 1)))
            else:
                items.append(slice(None))
        else:
            ends = st.none() | st.integers(-n - 2, n + 2)
            items.append(slice(draw(ends), draw(ends), draw(st.none() | st.integers(1, 3))))
        dim += 1
    # To NumPy an Ellipsis parts the arrays beside it even where it stands for no dims.
    has_arrays = any(isinstance(item, np.ndarray) for item in items)
    if (dim < len(shape) or not has_arrays) and draw(st.booleans()):
        items.insert(draw(st.integers(0, len(items))), Ellipsis)
    if has_arrays:  # no ints left of a mask either
        items = [slice(i, i + 1) if isinstance(i, int) else i for i in items]
    return tuple(items)


@twice(400, 20000)
def test_indexing(draw: Any) -> None:
    """Reading and writing x[...] does what NumPy does, or both refuse."""
    array = draw_array(draw, draw(SHAPES), draw(DTYPES))
    x = laid_out(draw, array)
    key = draw_key(draw, array.shape)
    arrays = [item for item in key if isinstance(item, np.ndarray)]
    masks = [item for item in arrays if item.dtype == bool]
    if masks and len(arrays) > len(masks):
        return  # a mask beside arrays must count as many true elements as they have
    if any(not mask.size for mask in masks):
        return  # an empty mask fits any dims, NumPy thinks
    try:
        expected = array[key]
    except IndexError:
        expected = None
    wrapped = tuple(
        cf.tensor(item) if isinstance(item, np.ndarray) and draw(st.booleans()) else item
        for item in key
    )
    found = attempt(lambda: x[wrapped], (x, *wrapped))
    assert (found is None) == (expected is None), (key, expected)
    if expected is not None:
        assert found.dtype is x.dtype
        assert_close(found, expected, 0.0, 0.0)
    write_by_key(draw, array, key, wrapped, expected)


def write_by_key(draw: Any, array: np.ndarray, key: Any, wrapped: Any, expected: Any) -> None:
    target, changed = laid_out(draw, array), array.copy()
    value: Any = draw(st.sampled_from((1, 2.5, True)))
    repeated = any(isinstance(item, np.ndarray) and item.dtype != bool for item in key)
    if expected is not None and not repeated and draw(st.booleans()):
        shape = tuple(n if draw(st.integers(0, 3)) else 1 for n in np.shape(expected))
        value = draw_array(draw, shape, draw(DTYPES))
    given = laid_out(draw, value) if isinstance(value, np.ndarray) else value
    with writing(target) as refusals:
        target[wrapped] = given
    if refusals:
        assert expected is None or target.layout.overlaps_itself(), refusals
        return
    assert expected is not None
    if target.layout.overlaps_itself():
        return  # who writes to one element of an expanded tensor writes to others
    changed[key] = saturating_cast(np.asarray(value), target.dtype)
    assert_close(target, changed, 0.0, 0.0)


@twice(100, 2000)
def test_hostile_keys(draw: Any) -> None:
    """Anything may stand between the brackets, and on the right of an assignment."""
    x = laid_out(draw, draw_array(draw, draw(SHAPES), draw(DTYPES)))
    key = tuple(hostile_value(draw) for _ in range(draw(st.integers(1, 3))))
    key = key[0] if len(key) == 1 else key
    attempt(lambda: x[key], (x,))
    value = hostile_value(draw)
    with writing(x):
        x[key] = value


# --- compiled ----------------------------------------------------------------------------------


@twice(25, 1500)
def test_compiled(draw: Any) -> None:
    """A native program gives what eager gives for the same drawn call, or refuses as it does."""
    op = draw(st.sampled_from(OPS))
    one = draw_call(draw, op)
    if not takes(op, one.params) or is_random(op) or op.dynamic:
        return
    eager = attempt(one.again, one.tensors)
    if eager is None and op.extra.get("takes") and np.any(one.arrays[-1] == 0):
        return  # an integer divided by zero, for which a kernel gives a number
    places = [i for i, x in enumerate(one.tensors) if isinstance(x, Tensor)]

    @cf.compile
    def function(*tensors: Tensor) -> Any:
        inputs = list(one.tensors)
        for i, x in zip(places, tensors):
            inputs[i] = x
        return tuple(tensors_in(invoke(op, inputs, one.params)))

    native = attempt(lambda: function(*(one.tensors[i] for i in places)), one.tensors)
    if eager is None:
        assert native is None, "eager refuses this"
    elif native is not None:  # a value may be needed that a recording has not
        for out, value in zip(tensors_in(native), tensors_in(eager), strict=True):
            if isinstance(out, Tensor):
                assert out.dtype is value.dtype
                assert_close(out, value, *loosest(one, out))
