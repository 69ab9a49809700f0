"""Every op and sample compiled among constants: eager and native code agree.

A compiler knows more of a constant than of other values: a fill is not stored but written into the
kernels that read it. So gradients are taken here for cotangents that are fills (of a sum, of a
mean) beside random ones, and of inputs that are fills, with both orders of gradient. No gradient
of an op with a result of floats may be missing, and the gradients are counted.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.helpers.op_checks import as_tuple, differentiable, to_tensor
from tests.ops.test_compiled_ops import cases, run_mode

import contraflow as cf
import contraflow.nn.functional as F
from contraflow import config
from contraflow.autograd import grad
from contraflow.operation.context import apply
from contraflow.operation.op import Op
from contraflow.operation.samples import Sample
from contraflow.tensors.tensor import Tensor
from contraflow.testing import assert_close, make_inputs

COTANGENTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "sum": lambda out, _: out.sum(),
    "mean": lambda out, _: out.mean(),
    "random": lambda out, weight: (out * weight).sum(),
}
Gradients = list[Tensor | None]


class Orders(NamedTuple):
    """What a function gives: values, gradients, and gradients of gradients."""

    values: Sequence[Tensor]
    first: Gradients
    second: Gradients


def gradients(
    outs: Sequence[Tensor], points: list[Tensor], weights: Any, point_weights: Any
) -> tuple[Gradients, Gradients]:
    """Both orders of gradient for each kind of cotangent, None where there is none."""
    first: Gradients = []
    second: Gradients = []
    for name, cotangent in COTANGENTS.items():
        loss: Any = sum(map(cotangent, outs, weights))
        found = grad(loss, points, create_graph=True, allow_unused=True)
        first += [g if g is None else g.detach() for g in found]
        again = [
            cotangent(g, weight)
            for g, weight in zip(found, point_weights)
            if g is not None and g.requires_grad
        ]
        none: Gradients = [None] * len(points)
        second += grad(again, points, retain_graph=True, allow_unused=True) if again else none
        if name != "sum":  # without a graph rules may take another way
            first += grad(loss, points, retain_graph=True, allow_unused=True)
    return first, second


def as_float(x: Any, dtype: Any) -> Any:
    return x.to(dtype) if isinstance(x, Tensor) and x.is_floating_point() else x


def drawn(shapes: Any, dtype: Any) -> list[Tensor]:
    rng = np.random.default_rng(4)
    return [cf.tensor(rng.standard_normal(shape), dtype=dtype) for shape in shapes]


def program(
    op: Op, sample: Sample, check: str, dtype: Any
) -> tuple[Callable[..., Orders], Sequence[Any], list[int]]:
    """A function of an op and its gradients, what it is called with, and what it differentiates.

    Its inputs are arguments, or ("fills") constants made inside of it, with an element of each.
    """
    inputs = make_inputs(sample)
    wrt = differentiable(op, inputs)

    def filled(number: int, x: Any) -> Any:
        if not isinstance(x, np.ndarray):
            return x
        kind = dtype if x.dtype.kind == "f" else cf.from_numpy(x).dtype
        value = x.reshape(-1)[0].item() if x.size else 1
        made = cf.full(x.shape, value, dtype=kind)
        return made.requires_grad_() if number in wrt else made

    def run(weights: Any, *given: Any) -> Orders:
        if check == "fills":
            given = tuple(filled(i, x) for i, x in enumerate(inputs))
        points = [given[i] for i in wrt]
        results = as_tuple(apply(op, given, sample.params))
        values = [o.detach() for o in results]
        outs = [o for o in results if o.requires_grad]
        if not outs:
            return Orders(values, [], [])
        if check == "fills":
            weights = [cf.full(x.shape, 0.5, dtype=dtype) for x in (*points, *results)]
        chosen = [w for w, o in zip(weights[len(wrt) :], results) if o.requires_grad]
        return Orders(values, *gradients(outs, points, chosen, weights))

    if check == "fills":
        return run, ((),), wrt
    given = [as_float(to_tensor(x), dtype) for x in inputs]
    for i in wrt:
        given[i].requires_grad_()
    results = as_tuple(apply(op, tuple(given), sample.params))
    weights = drawn([x.shape for x in (*(given[i] for i in wrt), *results)], dtype)
    return run, (weights, *given), wrt


# Fills make singular matrices: the ops and numbers of samples that refuse them.
SINGULAR = {
    "cholesky-0", "cholesky-1", "cond-1", "inv-0", "inv-1", "logdet-0", "lu_factor-0",
    "matrix_power-1", "slogdet-0", "slogdet-1", "solve-0", "solve-1",
}  # fmt: skip


def eagerly(op: Op, sample: Sample, check: str, dtype: Any, patch: pytest.MonkeyPatch) -> Any:
    """A program, what it is called with, and what it gives in eager mode: every gradient."""
    function, given, wrt = program(op, sample, check, dtype)
    patch.setattr(config, "eager_kernels", False)
    with np.errstate(all="ignore"):
        expected = run_mode("off", function, given, patch)
    assert len(expected.first) == len(expected.second) * 5 // 3
    if any(x.dtype.is_floating_point for x in expected.values):
        assert len(expected.first) == 5 * len(wrt)
        assert all(g is not None for g in expected.first)
    return function, given, expected


def compare(
    op: Op, sample: Sample, check: str, dtype: Any, name: str, patch: pytest.MonkeyPatch
) -> None:
    """Eager and native: the same values and gradients, or the error that is known."""
    if check == "fills" and name in SINGULAR:
        function, given, _ = program(op, sample, check, dtype)
        for mode in ("off", "native"):
            with pytest.raises(cf.linalg.LinAlgError):
                run_mode(mode, function, given, patch)
        return
    function, given, expected = eagerly(op, sample, check, dtype, patch)
    native = run_mode("native", function, given, patch)
    for kind in Orders._fields:
        got, want = getattr(native, kind), getattr(expected, kind)
        assert len(got) == len(want)
        for n, e in zip(got, want):
            assert (n is None) == (e is None)
            if n is not None:
                assert_close(n, e)


CHECKS = ("cotangents", "fills")


def is_first(case: Any) -> bool:
    return str(case.id).endswith("-0")


def sampled(first_are_quick: bool) -> Iterator[Any]:
    """Every case; of an op's samples all but the first are slow."""
    for case in cases():
        marks = [] if first_are_quick and is_first(case) else [pytest.mark.slow]
        yield pytest.param(*case.values, case.id, id=case.id, marks=marks)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(("op", "sample", "name"), list(sampled(first_are_quick=True)))
def test_among_constants(
    op: Op, sample: Sample, name: str, check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare(op, sample, check, cf.float32, name, monkeypatch)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(("op", "sample", "name"), list(sampled(first_are_quick=False)))
def test_among_constants_in_float64(
    op: Op, sample: Sample, name: str, check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare(op, sample, check, cf.float64, name, monkeypatch)


# How many gradients of either order the tests above compare, per check and dtype: at least.
COUNTS = {"first samples": (2680, 810), "all": (7300, 2300)}


@pytest.mark.parametrize(
    ("check", "which"),
    [
        ("cotangents", "first samples"),
        *(pytest.param(check, "all", marks=pytest.mark.slow) for check in CHECKS),
    ],
)
def test_how_many_gradients_are_compared(
    check: str, which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = second = 0
    for case in cases():
        if (which == "all" or is_first(case)) and not (check == "fills" and case.id in SINGULAR):
            *_, expected = eagerly(*case.values, check, cf.float32, monkeypatch)
            first += len(expected.first)
            second += sum(g is not None for g in expected.second)
    print(f"{which}, {check}: {first} gradients, {second} gradients of gradients")
    assert first >= COUNTS[which][0]
    assert second >= COUNTS[which][1]


# --- numbers known before a call ----------------------------------------------------------------


@pytest.mark.parametrize("name", ["lgamma", "digamma", "erfinv", "signbit", "tanh", "expm1"])
def test_functions_of_a_constant(name: str) -> None:
    # A number is computed on the host where float64 may stand for its dtype; the text of a long
    # body is linear in it.
    function = getattr(cf, name)
    for dtype in (cf.float32, cf.float64):
        expected = function(cf.full((), 0.3, dtype=dtype))
        assert_close(cf.compile(lambda d=dtype: function(cf.full((), 0.3, dtype=d)))(), expected)


def test_small_integers_wrap() -> None:
    def wrap() -> Any:
        x = cf.full((), 200, dtype=cf.uint8)
        return x + x, cf.bitwise_not(x), cf.full((), 127, dtype=cf.int8) + 1

    assert [int(x.item()) for x in cf.compile(wrap)()] == [144, 55, -128]


def test_neighbours_of_a_constant() -> None:
    def step() -> Tensor:
        return cf.nextafter(cf.full((), 1.0), cf.full((), 2.0))

    assert cf.compile(step)().item() == step().item() == np.nextafter(np.float32(1), np.float32(2))


# --- fills read at computed positions -----------------------------------------------------------

IMAGE = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)
READS: dict[str, Callable[[Tensor], Tensor]] = {
    "max_pool1d": lambda x: F.max_pool1d(x[0], 2),
    "max_pool2d": lambda x: F.max_pool2d(x, 3, stride=2, padding=1),
    "max_pool3d": lambda x: F.max_pool3d(x[:, None], 2),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x, 3),
    "F.unfold": lambda x: F.unfold(x, 3, padding=1, stride=2),
    "Tensor.unfold": lambda x: x.unfold(3, 3, 2),
    "F.fold": lambda x: F.fold(x.reshape(2, 12, 16), (8, 8), 2, stride=2),
    "interpolate": lambda x: F.interpolate(x, scale_factor=1.7),
    "grid_sample": lambda x: F.grid_sample(x, x[:, :2].permute(0, 2, 3, 1) * 1.5),
}


@pytest.mark.parametrize("name", READS)
def test_a_constant_cotangent_reaches_only_what_was_read(name: str) -> None:
    x = cf.tensor(IMAGE).requires_grad_()
    for cotangent in (Tensor.sum, Tensor.mean):

        def gradient(x: Tensor, of: Any = cotangent) -> Tensor:
            return grad(of(READS[name](x)), x)[0]

        assert_close(cf.compile(gradient)(x), gradient(x))


def test_a_compiled_step_behind_a_pool() -> None:
    x = cf.tensor(IMAGE)

    def step(w: Tensor) -> None:
        F.max_pool2d(x * w, 2).mean().backward()

    eager, compiled = (cf.ones(3, 1, 1).requires_grad_() for _ in range(2))
    step(eager)
    cf.compile(step)(compiled)
    assert_close(compiled.grad, eager.grad)


@pytest.mark.parametrize("padding", [0, 1])
def test_folds_of_a_fill(padding: int) -> None:
    def fold() -> Tensor:
        size = 4 + 2 * padding
        windows = (size - 2) ** 2
        return F.fold(cf.ones(1, 9, windows), (4, 4), 3, padding=padding)

    assert_close(cf.compile(fold)(), fold())


@pytest.mark.parametrize(
    "read",
    [
        lambda i: cf.ones(5)[i],
        lambda i: cf.ones(5, 2).gather(0, i[:, None]),
        lambda i: cf.index_select(cf.ones(5, 2), 0, i),
        lambda i: F.embedding(i, cf.ones(5, 2)),
        lambda i: F.nll_loss(cf.zeros(2, 5), i),
        lambda i: cf.take(cf.ones(5), i),
    ],
)
def test_indices_into_a_fill_are_checked(read: Any) -> None:
    compiled = cf.compile(read)
    assert_close(compiled(cf.tensor([1, 4])), read(cf.tensor([1, 4])))
    with pytest.raises(IndexError, match="index 9 is out of range"):
        compiled(cf.tensor([1, 9]))


INEXACT = [
    (3, cf.bool), (0.5, cf.bool), (3.7, cf.int32), (-1, cf.uint8), (0.1, cf.float16),
    (70000.0, cf.float16), (1e-9, cf.float16), (0.1, cf.bfloat16), (2**24 + 1, cf.float32),
    (1e39, cf.float32), (0.1, cf.float32),
]  # fmt: skip


@pytest.mark.parametrize("shape", [(), (5,)])
@pytest.mark.parametrize(("value", "dtype"), INEXACT)
def test_a_fill_holds_numbers_of_its_dtype(value: Any, dtype: Any, shape: Any) -> None:
    def uses(x: Tensor) -> tuple[Tensor, ...]:
        fill = cf.full(shape, value, dtype=dtype)
        flat = fill.reshape(-1)
        return (fill * x, cf.where(x > 0, fill, x), fill.double() * x, fill,
                fill.sum(dtype=cf.float64), flat.cumsum(0, dtype=cf.float64),
                flat[cf.zeros(2, dtype=cf.int64)].double(),
                F.pad(fill.expand(5), (1, 1)).double())  # fmt: skip

    x = cf.tensor([-2.0, -1.0, 0.5, 1.0, 3.0], dtype=cf.float64)
    for found, expected in zip(cf.compile(uses)(x), uses(x), strict=True):
        assert found.dtype is expected.dtype
        np.testing.assert_array_equal(found.numpy(), expected.numpy())


# --- arithmetic among constants ----------------------------------------------------------------

NUMBERS = (0.1, 1 / 3, 16777217, 16777216.0, 1e30, 1e-30, 3, 0.7, 2, -1.5, 1e38)
STEPS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: b - a,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "from the right": lambda a, b: b / a,
    "sqrt": lambda a, b: a.abs().sqrt(),
    "square": lambda a, b: a.square(),
    "reciprocal": lambda a, b: a.reciprocal(),
    "neg": lambda a, b: -a,
    "maximum": lambda a, b: a.clamp(min=b),
}


@pytest.mark.parametrize("number", [None, 0.3])
def test_arithmetic_among_constants_rounds_as_in_eager(number: float | None) -> None:
    """What is known before a call is computed in float64, in which nothing must show of that."""

    def counts(x: Tensor) -> tuple[Tensor, ...]:
        c = cf.full((), 16777216.0) + 1.0
        return x * (c + 1.0 - 16777216.0), c + 1.0, c * 1e30 * 1e10 * 0.0

    given = (cf.tensor([1.0, 2.0, 3.0]),)
    expected, got = counts(*given), cf.compile(counts)(*given)
    assert [t.array.tobytes() for t in got] == [t.array.tobytes() for t in expected]
    rng = np.random.default_rng(0)
    for _ in range(12):
        names = rng.choice(list(STEPS), 6)
        numbers = [NUMBERS[i] for i in rng.integers(len(NUMBERS), size=7)]

        def chain(x: Tensor, n: Any, names: Any = names, numbers: Any = numbers) -> list[Tensor]:
            values = [cf.full((), numbers[0])]
            for name, b in zip(names, numbers[1:]):
                values.append(STEPS[name](values[-1], b if n is None else n))
            return [*values, *(x * v for v in values)]

        expected, compiled = chain(*given, number), cf.compile(chain)
        for _ in range(2):
            for a, b in zip(compiled(*given, number), expected):
                assert np.isnan(b.array).all() or a.array.tobytes() == b.array.tobytes(), names


# --- constants of no elements ---------------------------------------------------------------------


def _none(*shape: int) -> Tensor:
    return cf.zeros(shape, dtype=cf.int64)


NOWHERE: dict[str, Callable[[Tensor], Tensor]] = {
    "index_select": lambda x: x.index_select(0, _none(0)),
    "and its sum": lambda x: x.index_select(0, _none(0)).sum(0),
    "and a sum beside": lambda x: cf.cat([x, x])[_none(0)].sum() + x.sum(),
    "gather": lambda x: x.gather(0, _none(0, 3)),
    "take": lambda x: x.take(_none(0)),
    "embedding": lambda x: F.embedding(_none(0), x),
    "scatter_add": lambda x: x.scatter_add(0, _none(0, 3), cf.zeros(0, 3)),
    "index_add": lambda x: x.index_add(0, _none(0), cf.zeros(0, 3)),
    "index_put": lambda x: x.index_put((_none(0),), cf.zeros(0, 3)),
    "put": lambda x: x.put(_none(0), cf.zeros(0)),
}


@pytest.mark.parametrize("rows", [0, 2])
@pytest.mark.parametrize("function", NOWHERE.values(), ids=NOWHERE.keys())
def test_an_index_of_no_elements_is_in_range(function: Any, rows: int) -> None:
    """What is read once for all turns of a loop is not read where the loop has none."""

    def gradient(x: Tensor) -> Tensor:
        return cf.autograd.grad(function(x).sum(), x)[0]

    x = cf.ones(rows, 3, requires_grad=True)
    for f in (function, gradient):
        for found in (cf.compile(f)(x), f(x)):
            assert found.shape == f(x).shape
            assert found.tolist() == f(x).tolist()


def test_a_constant_index_out_of_range_is_found() -> None:
    for shape in ((2, 3), (2, 1)):
        with pytest.raises(IndexError, match="index 2 is out of range"):
            cf.compile(lambda x: x.index_select(0, cf.full((4,), 2)) + 1)(cf.ones(shape))
