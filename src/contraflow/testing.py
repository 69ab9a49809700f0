"""Helpers for tests: comparing tensors, inputs from samples, and checks of gradients.

Tolerances come from the dtype alone, and only from `dtypes.TOLERANCES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from contraflow import dtypes
from contraflow.autograd import grad
from contraflow.dtypes import DType, tolerance
from contraflow.errors import describe_spec
from contraflow.names import getter
from contraflow.operation.context import apply
from contraflow.operation.op import Op
from contraflow.operation.samples import Array, Sample
from contraflow.ops.creation.data import tensor
from contraflow.ops.reduction.reduce import sum_
from contraflow.spec import Params
from contraflow.tensors.tensor import Tensor

TOLERANCES = dtypes.TOLERANCES

# Central differences in float64: with this step truncation and rounding are both near 1e-10.
STEP = 1e-5
DIFFERENCE_TOLERANCE = 1e-6


def _array(x: Any) -> np.ndarray:
    return x.detach().fetched() if isinstance(x, Tensor) else np.asarray(x)


def _comparable(array: np.ndarray) -> np.ndarray:
    """Floats, the half-precision ones included, as float64; everything else as it is."""
    exact = array.dtype.kind in "biu"
    return array if exact else array.astype(np.float64)


def assert_close(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    *,
    equal_nan: bool = True,
    check_dtype: bool = True,
    check_device: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise AssertionError unless both have one shape and |actual - expected| is small.

    Small is `atol + rtol * |expected|`, from the looser dtype of the two unless given. NaN equals
    NaN and devices may differ, unless told otherwise; PyTorch's defaults are the opposite. Two
    tensors must have the same dtype unless told otherwise; with an array or a number only values
    count. Lists, tuples and dicts are compared member by member. `msg` replaces the text of the
    error, or is a function of it.

    >>> import contraflow as cf
    >>> assert_close(cf.tensor([1.0, 2.0]), cf.tensor([1.0, 2.5]))
    Traceback (most recent call last):
    AssertionError: assert_close: 1 of 2 elements of float32[2] differ, the most at (1,): 2.0 is \
not 2.5; the difference 0.5 exceeds 1e-05 + 2e-06 * |expected|.
    """
    pairs = _pairs(actual, expected)
    if pairs is not None:
        for name, a, b in pairs:
            try:
                assert_close(
                    a, b, rtol, atol, equal_nan=equal_nan, check_dtype=check_dtype,
                    check_device=check_device, msg=msg,
                )  # fmt: skip
            except AssertionError as error:
                if msg is not None:
                    raise
                raise AssertionError(f"{error} It is at [{name!r}].") from None
        return
    made_by = getattr(actual, "node", None)
    start = f"assert_close({made_by.name})" if made_by is not None else "assert_close"
    problem = _difference(start, actual, expected, (rtol, atol), equal_nan, check_dtype)
    places = [x.device for x in (actual, expected) if isinstance(x, Tensor)]
    if check_device and len({str(place) for place in places}) > 1:
        problem = f"{start}: device {places[0]} is not {places[1]}."
    if problem is not None:
        raise AssertionError(problem if msg is None else msg(problem) if callable(msg) else msg)


def _pairs(actual: Any, expected: Any) -> list[tuple[Any, Any, Any]] | None:
    """The members of two containers with their names; None for what is compared as one array."""
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if actual.keys() != expected.keys():
            names = sorted(map(repr, actual.keys() ^ expected.keys()))
            raise AssertionError(f"assert_close: only one has {', '.join(names)}.")
        return [(name, x, expected[name]) for name, x in actual.items()]
    if isinstance(actual, (list, tuple)) and isinstance(expected, (list, tuple)):
        if all(isinstance(x, (bool, int, float)) for x in (*actual, *expected)):
            return None
        if len(actual) != len(expected):
            raise AssertionError(
                f"assert_close: the lengths {len(actual)} and {len(expected)} differ."
            )
        return [(i, *pair) for i, pair in enumerate(zip(actual, expected))]
    return None


def _difference(
    start: str,
    actual: Any,
    expected: Any,
    tolerances: tuple[float | None, float | None],
    equal_nan: bool,
    check_dtype: bool,
) -> str | None:
    """The sentence that says how two values differ, if they do."""
    rtol, atol = tolerances
    a, b = _array(actual), _array(expected)
    types = dtypes.from_numpy(a.dtype), dtypes.from_numpy(b.dtype)
    if a.shape != b.shape:
        return (
            f"{start}: {describe_spec(types[0], a.shape)} is not {describe_spec(types[1], b.shape)}"
            f": the shapes differ."
        )
    tensors = isinstance(actual, Tensor) and isinstance(expected, Tensor)
    if tensors and check_dtype and types[0] is not types[1]:
        return f"{start}: dtype {types[0]} is not {types[1]}."
    relative, absolute = tolerance(*types)
    relative, absolute = relative if rtol is None else rtol, absolute if atol is None else atol
    a, b = _comparable(a), _comparable(b)
    with np.errstate(all="ignore"):
        difference = np.abs(np.subtract(a, b, dtype=np.float64))
        allowed = absolute + relative * np.abs(b, dtype=np.float64)
        # Not finite on either side: only the very same value will do.
        same = (a == b) | ((a != a) & (b != b) & equal_nan)
        bad = ~same & ~(difference <= np.where(np.isfinite(allowed), allowed, -1.0))
    if not bad.any():
        return None
    excess = np.where(bad, np.nan_to_num(difference, nan=np.inf), -1.0)
    at = tuple(int(i) for i in np.unravel_index(np.argmax(excess), a.shape))
    return (
        f"{start}: {int(bad.sum())} of {a.size} elements of "
        f"{describe_spec(types[0], a.shape)} differ, the most at {at}: {a[at]} is not {b[at]}; "
        f"the difference {difference[at]:.3g} exceeds {absolute:g} + {relative:g} * |expected|."
    )


def make_inputs(sample: Sample, seed: int = 0, dtype: DType | None = None) -> tuple[Any, ...]:
    """The inputs of a sample: arrays for tensors, numbers and None as they are.

    With a dtype the random float64 inputs are drawn in it instead.

    >>> make_inputs(Sample((Array((2,)), 3.0)))
    (array([ 0.54784675, -0.92085314]), 3.0)
    """
    rng = np.random.default_rng(seed)
    made: list[Any] = []
    for given in sample.inputs:
        if isinstance(given, Array):
            replaced = dtype is not None and given.dtype is dtypes.float64
            made.append((given._replace(dtype=dtype) if replaced else given).make(rng))  # type: ignore[arg-type]
        elif isinstance(given, np.ndarray):
            replaced = dtype is not None and given.dtype == np.float64
            with np.errstate(over="ignore"):  # what a smaller dtype does not have is infinite
                made.append(given.astype(dtype.numpy) if replaced else given.copy())  # type: ignore[union-attr]
        else:
            made.append(given)
    return tuple(made)


def is_real(x: Any) -> bool:
    """Whether an input is an array that finite differences can be taken of.

    >>> is_real(np.ones(2)), is_real(np.ones(2, np.int64))
    (True, False)
    """
    return isinstance(x, np.ndarray) and x.dtype == np.float64


def check_gradients(
    function: Op | Callable[..., Any],
    inputs: Sequence[Any],
    params: Params | None = None,
    order: int = 2,
    *,
    wrt: Sequence[int] | None = None,
    project: Callable[[np.ndarray], np.ndarray] | None = None,
    seed: int = 0,
) -> None:
    """Compare gradients with central differences, in one random direction, up to `order`.

    `inputs` are float64 arrays (others are constants; `wrt` picks among them), all outputs count.
    `project` makes directions of what `function` accepts, symmetric ones for instance.

    With random cotangents c and directions u, the first order is that of F(x, c) = <c, f(x)>, the
    next that of <grad F, u>, and so on: a rule that is wrong, or right but written with something
    that is not differentiable, is found.

    >>> import contraflow as cf
    >>> check_gradients(lambda x: (x * x).tanh(), [np.linspace(-1.0, 1.0, 3)])
    """
    rng = np.random.default_rng(seed)
    fixed = dict(params or {})
    chosen = [i for i, x in enumerate(inputs) if is_real(x)] if wrt is None else list(wrt)

    def outputs(points: Sequence[Tensor]) -> list[Tensor]:
        given = [tensor(x) if isinstance(x, np.ndarray) else x for x in inputs]
        for i, point in zip(chosen, points):
            given[i] = point
        found = (
            apply(function, tuple(given), fixed)
            if isinstance(function, Op)
            else function(*given, **fixed)
        )
        listed = found if isinstance(found, (tuple, list)) else (found,)
        return [out for out in listed if out.dtype.is_floating_point]

    start = [np.asarray(inputs[i]) for i in chosen]
    cotangents = [rng.standard_normal(out.shape) for out in outputs([tensor(x) for x in start])]

    def weighed(points: Sequence[Tensor]) -> Tensor:
        outs = outputs(points[: len(chosen)])
        return _inner(outs, points[len(chosen) :])

    def direction(k: int, like: np.ndarray) -> np.ndarray:
        drawn = rng.standard_normal(like.shape)
        return project(drawn) if project is not None and k < len(chosen) else drawn

    at = [*start, *cotangents]
    current: Callable[[Sequence[Tensor]], Tensor] = weighed
    for level in range(1, order + 1):
        _check_direction(current, at, [direction(k, x) for k, x in enumerate(at)], level)
        current = _derivative(current, [tensor(direction(k, x)) for k, x in enumerate(at)])


def _inner(left: Sequence[Tensor | None], right: Sequence[Tensor]) -> Tensor:
    """The inner product of two lists of tensors, absent ones counting as zero."""
    total: Tensor = tensor(0.0, dtype=dtypes.float64)
    for a, b in zip(left, right, strict=True):
        if a is not None:
            total = total + sum_(a * b)
    return total


def _derivative(
    function: Callable[[Sequence[Tensor]], Tensor], along: Sequence[Tensor]
) -> Callable[[Sequence[Tensor]], Tensor]:
    def derivative(points: Sequence[Tensor]) -> Tensor:
        points = [p if p.requires_grad else p.requires_grad_() for p in points]
        value = function(points)
        return _inner(grad(value, points, create_graph=True, allow_unused=True), along)

    return derivative


def _check_direction(
    function: Callable[[Sequence[Tensor]], Tensor],
    at: Sequence[np.ndarray],
    along: Sequence[np.ndarray],
    level: int,
) -> None:
    points = [tensor(x, requires_grad=True) for x in at]
    value = function(points)
    found = grad(value, points, allow_unused=True)
    terms = [_array(g) * v for g, v in zip(found, along) if g is not None]
    for g, x in zip(found, at):
        assert g is None or g.shape == x.shape, f"order {level}: {g!r} for shape {x.shape}"
    analytic = float(sum(term.sum() for term in terms))
    above, below = (
        function([tensor(x + sign * STEP * v) for x, v in zip(at, along)]).item()
        for sign in (1.0, -1.0)
    )
    numeric = (above - below) / (2 * STEP)
    scale = 1.0 + abs(value.item()) + float(sum(np.abs(term).sum() for term in terms))
    if not abs(analytic - numeric) <= DIFFERENCE_TOLERANCE * scale:
        raise AssertionError(
            f"check_gradients: order {level}: the rules give {analytic:.10g} in a random "
            f"direction, differences {numeric:.10g}."
        )


globals()["__getattr__"] = getter(__name__)
