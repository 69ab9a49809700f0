"""Every op and sample compiled among constants: eager and native code agree.

A compiler knows more of a constant than of other values: a fill is not stored but written into the
kernels that read it. So gradients are taken here for cotangents that are fills (of a sum, of a
mean) beside random ones, and of inputs that are fills, with both orders of gradient.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

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


def gradients(outs: Sequence[Tensor], points: list[Tensor], weights: Any) -> list[Tensor]:
    """Gradients for each kind of cotangent, and for those of a sum the gradients' gradients."""
    found: list[Tensor] = []
    for name, cotangent in COTANGENTS.items():
        loss = sum(cotangent(out, weight) for out, weight in zip(outs, weights))
        first = grad(loss, points, create_graph=name == "sum", retain_graph=True, allow_unused=True)
        found += [g.detach() for g in first if g is not None]
        again = [g.sum() for g in first if g is not None and g.requires_grad]
        if again:
            second = grad(again, points, retain_graph=True, allow_unused=True)
            found += [g for g in second if g is not None]
    return found


def as_float(x: Any, dtype: Any) -> Any:
    return x.to(dtype) if isinstance(x, Tensor) and x.is_floating_point() else x


def compare(function: Any, given: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eager and native: the same values, or the same kind of error."""
    monkeypatch.setattr(config, "eager_kernels", False)
    expected: Any
    try:
        with np.errstate(all="ignore"):
            expected = run_mode("off", function, given, monkeypatch)
    except (cf.GradientError, ArithmeticError, IndexError, RuntimeError, ValueError) as error:
        with pytest.raises(type(error)):
            run_mode("native", function, given, monkeypatch)
        return
    native = run_mode("native", function, given, monkeypatch)
    assert len(native) == len(expected)
    for n, e in zip(native, expected):
        assert_close(n, e)


def check_cotangents(op: Op, sample: Sample, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = make_inputs(sample)
    wrt = differentiable(op, inputs)
    given = [as_float(to_tensor(x), dtype) for x in inputs]
    if not wrt:
        return
    for i in wrt:
        given[i].requires_grad_()
    rng = np.random.default_rng(4)
    shapes = [o.shape for o in as_tuple(apply(op, tuple(given), sample.params))]
    weights = [cf.tensor(rng.standard_normal(shape), dtype=dtype) for shape in shapes]

    def run(weights: Any, *given: Any) -> Any:
        outs = as_tuple(apply(op, given, sample.params))
        pairs = [(o, w) for o, w in zip(outs, weights) if o.requires_grad]
        if not pairs:
            return []
        outs, chosen = zip(*pairs)
        return gradients(outs, [given[i] for i in wrt], chosen)

    compare(run, (weights, *given), monkeypatch)


def check_fills(op: Op, sample: Sample, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = make_inputs(sample)
    wrt = differentiable(op, inputs)

    def filled(number: int, x: Any) -> Any:
        """A fill in the place of an array, with one of its elements."""
        if not isinstance(x, np.ndarray) or not x.size:
            return as_float(to_tensor(x), dtype)
        kind = dtype if x.dtype.kind == "f" else cf.from_numpy(x).dtype
        made = cf.full(x.shape, x.reshape(-1)[0].item(), dtype=kind)
        return made.requires_grad_() if number in wrt else made

    def run() -> Any:
        given = [filled(i, x) for i, x in enumerate(inputs)]
        outs = as_tuple(apply(op, tuple(given), sample.params))
        results = [o.detach() for o in outs]
        outs = tuple(o for o in outs if o.requires_grad)
        if wrt and outs:
            weights = [cf.full(o.shape, 0.5, dtype=o.dtype) for o in outs]
            results += gradients(outs, [given[i] for i in wrt], weights)
        return results

    compare(run, (), monkeypatch)


CHECKS = {"cotangents": check_cotangents, "fills": check_fills}


def sampled() -> Iterator[Any]:
    """Every case; of an op's samples all but the first are slow."""
    for case in cases():
        later = not case.id.endswith("-0")
        yield pytest.param(*case.values, id=case.id, marks=[pytest.mark.slow] if later else [])


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(("op", "sample"), list(sampled()))
def test_among_constants(
    op: Op, sample: Sample, check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    CHECKS[check](op, sample, cf.float32, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(("op", "sample"), list(cases()))
def test_among_constants_in_float64(
    op: Op, sample: Sample, check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    CHECKS[check](op, sample, cf.float64, monkeypatch)


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
