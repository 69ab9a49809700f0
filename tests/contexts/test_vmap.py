"""`cf.func.vmap`: one call for a batch gives what a call for each example gives."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.helpers.op_checks import as_tuple, differentiable, to_tensor
from tests.ops.test_compiled_ops import cases

import contraflow as cf
from contraflow.contexts.batch import Batch
from contraflow.func import grad, jacfwd, jacrev, jvp, vjp, vmap
from contraflow.operation.context import apply
from contraflow.operation.kinds import Creating
from contraflow.operation.op import Op
from contraflow.operation.samples import Sample
from contraflow.tensors.tensor import Tensor
from contraflow.testing import assert_close, make_inputs

SIZE = 2


@pytest.fixture(autouse=True)
def first_seed() -> None:
    cf.manual_seed(3)


def seeded(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        cf.manual_seed(5)
        return function(*args)

    return run


def stacked(results: Any) -> list[Tensor]:
    return [cf.stack(list(parts)) for parts in zip(*results)]


def has_a_batch(op: Op, sample: Sample) -> bool:
    """Random numbers and constants are made of numbers, of which there is one for all examples."""
    return not isinstance(op.kind, Creating) and any(
        isinstance(x, np.ndarray) for x in make_inputs(sample)
    )


@pytest.mark.parametrize(("op", "sample"), [c for c in cases() if has_a_batch(*c.values)])
def test_every_op_and_its_gradient(op: Op, sample: Sample) -> None:
    inputs = make_inputs(sample)
    wrt = differentiable(op, inputs)
    examples = [
        [to_tensor(np.asarray(x * (1 - 0.03 * i)) if k in wrt else x) for k, x in enumerate(inputs)]
        for i in range(SIZE)
    ]
    tensors = [k for k, x in enumerate(inputs) if isinstance(x, np.ndarray)]
    full = [cf.stack([e[k] for e in examples]) if k in tensors else x
            for k, x in enumerate(examples[0])]  # fmt: skip
    dims = tuple(0 if k in tensors else None for k in range(len(inputs)))

    def run(*given: Any) -> Any:
        if not wrt:
            return as_tuple(apply(op, given, sample.params))

        def outs(*points: Any) -> Any:
            called = list(given)
            for k, x in zip(wrt, points):
                called[k] = x
            return as_tuple(apply(op, tuple(called), sample.params))

        values, pull = vjp(outs, *(given[k] for k in wrt))
        return (*values, *pull(tuple(cf.ones_like(v) * 0.7 for v in values)))

    expected = stacked([seeded(run)(*example) for example in examples])
    found = vmap(seeded(run), dims, randomness="same")(*full)
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        assert_close(a.detach(), b.detach(), rtol=1e-9, atol=1e-9)


def is_differentiable(op: Op, sample: Sample) -> bool:
    return has_a_batch(op, sample) and bool(differentiable(op, make_inputs(sample)))


@pytest.mark.parametrize(("op", "sample"), [c for c in cases() if is_differentiable(*c.values)])
def test_every_op_differentiated_from_outside(op: Op, sample: Sample) -> None:
    """Gradients from outside go through what ran on the batch: of a composite, its parts."""
    inputs = make_inputs(sample)
    wrt = differentiable(op, inputs)
    points = [
        cf.stack([to_tensor(np.asarray(inputs[k] * (1 - 0.03 * i))) for i in range(SIZE)])
        for k in wrt
    ]

    @seeded
    def outs(*given: Tensor) -> Any:
        called = [to_tensor(x) if isinstance(x, np.ndarray) else x for x in inputs]
        for k, x in zip(wrt, given):
            called[k] = x
        found = as_tuple(apply(op, tuple(called), sample.params))
        return tuple(x for x in found if x.dtype.is_floating_point)

    def batch(*given: Tensor) -> Any:
        return vmap(outs, randomness="same")(*given)

    def each(*given: Tensor) -> Any:
        return tuple(stacked([outs(*(x[i] for x in given)) for i in range(SIZE)]))

    results = []
    for function in (batch, each):
        values, pull = vjp(function, *points)
        results.append([*values, *pull(tuple(cf.ones_like(v) * 0.7 for v in values))])
    for a, b in zip(*results, strict=True):
        assert_close(a.detach(), b.detach(), rtol=1e-9, atol=1e-9)


def test_shapes_are_those_of_one_example() -> None:
    seen = []

    def f(x: Any, y: Any) -> Any:
        seen.append((x.shape, y.shape, x.ndim, len(y)))
        return x.sum() + y.mean()

    assert vmap(f, (0, 1))(cf.randn(4, 3), cf.randn(2, 4)).shape == (4,)
    assert seen == [((3,), (2,), 1, 2)]


def test_dims_of_arguments_and_results() -> None:
    x, w = cf.randn(3, 5), cf.randn(5, 2)
    out = vmap(lambda row, w: row @ w, in_dims=(0, None), out_dims=1)(x, w)
    assert_close(out, (x @ w).mT)
    out = vmap(lambda p: {"a": p["w"] * 2, "b": p["v"]}, in_dims=({"w": 1, "v": None},))(
        {"w": x, "v": w}
    )
    assert_close(out["a"], x.mT * 2)
    assert out["b"].shape == (5, 5, 2)


def test_keyword_arguments_are_batched_along_their_first_dim() -> None:
    a, b = cf.randn(3, 2), cf.randn(3, 2)
    assert_close(vmap(lambda a, *, b: a - b)(a, b=b), a - b)


def test_chunks() -> None:
    x = cf.randn(7, 3)
    sizes = []

    def f(row: Any) -> Any:
        sizes.append(1)
        return row.softmax(0)

    assert_close(vmap(f, chunk_size=3)(x), x.softmax(1))
    assert len(sizes) == 3


def test_nested() -> None:
    a, b = cf.randn(3), cf.randn(4)
    table = vmap(vmap(lambda x, y: x * y, (None, 0)), (0, None))(a, b)
    assert_close(table, a.outer(b))


def per_sample(loss: Callable[..., Any]) -> Any:
    return vmap(grad(loss), in_dims=(None, 0, 0))


def test_gradients_of_each_sample() -> None:
    model = cf.nn.Sequential(
        cf.nn.Conv2d(1, 3, 3), cf.nn.ReLU(), cf.nn.MaxPool2d(2), cf.nn.Flatten(0),
        cf.nn.LayerNorm(12), cf.nn.Linear(12, 4),
    )  # fmt: skip
    params = {k: v.detach() for k, v in model.named_parameters()}
    x, y = cf.randn(5, 1, 6, 6), cf.tensor([0, 1, 2, 3, 1])

    def loss(p: Any, x: Any, y: Any) -> Any:
        return cf.nn.functional.cross_entropy(cf.func.functional_call(model, p, x), y)

    found = per_sample(loss)(params, x, y)
    for name, g in found.items():
        assert not g.requires_grad
        expected = cf.stack([grad(loss)(params, a, b)[name] for a, b in zip(x, y)])
        assert_close(g, expected, rtol=1e-4, atol=1e-5)


def test_differentiated_from_outside_and_inside() -> None:
    w = cf.randn(3, 2, dtype=cf.float64).requires_grad_()
    x = cf.randn(4, 3, dtype=cf.float64)

    def value(row: Any) -> Any:
        return (w.mT @ cf.tanh(row)).exp().sum()  # by views of what is outside, too

    def penalty(w: Any) -> Any:
        return (vmap(grad(value))(x) ** 2).sum()

    def plainly(w: Any) -> Any:
        return sum((grad(value)(row) ** 2).sum() for row in x)

    penalty(w).backward()
    found = w.grad
    w.grad = None
    plainly(w).backward()
    assert_close(found, w.grad, rtol=1e-10)


def test_with_the_other_transformations() -> None:
    x = cf.randn(3, 2, dtype=cf.float64)
    f = lambda row: cf.sin(row).cumsum(0) * row.sum()  # noqa: E731
    each = cf.stack([jacrev(f)(row) for row in x])
    assert_close(vmap(jacrev(f))(x), each)
    assert_close(vmap(jacfwd(f))(x), each)
    pushed = vmap(lambda row: jvp(f, (row,), (cf.ones(2, dtype=cf.float64),))[1])(x)
    assert_close(pushed, each.sum(-1))


def test_forward_jacobian_is_one_pass() -> None:
    a, b = cf.randn(3, 4, dtype=cf.float64), cf.randn(4, 2, dtype=cf.float64)
    values = []

    def f(a: Any, b: Any) -> Any:
        values.append(a.sum().item())  # which all tangents share
        a = 2.0 * a
        out = cf.softmax(cf.sin(a) @ b, 0), {"of b": b.cumsum(0)}
        return out, {"sum": a.sum(), "name": "aux"}

    found, aux = jacfwd(f, (0, 1), has_aux=True)(a, b)
    assert len(values) == 1
    assert (aux["sum"].item(), aux["name"]) == (pytest.approx(2 * values[0]), "aux")
    expected, _ = jacrev(f, (0, 1), has_aux=True)(a, b)
    assert_close(found[0][0], expected[0][0], rtol=1e-10)
    assert_close(found[0][1], expected[0][1], rtol=1e-10)
    assert found[1]["of b"][0].shape == (4, 2, 3, 4)
    assert not cf.any(found[1]["of b"][0])
    assert_close(found[1]["of b"][1], expected[1]["of b"][1])


def test_forward_jacobian_without_elements() -> None:
    assert jacfwd(lambda x: x * 2)(cf.zeros(0, 2)).shape == (0, 2, 0, 2)
    assert jacfwd(lambda x: x[:0])(cf.zeros(3)).shape == (0, 3)


def test_randomness_of_a_forward_jacobian() -> None:
    with pytest.raises(cf.GradientError, match="vmap: the function draws random numbers"):
        jacfwd(lambda x: x * cf.rand(3))(cf.ones(3))
    cf.manual_seed(5)
    found = jacfwd(lambda x: x * cf.rand(3), randomness="same")(cf.ones(3))
    cf.manual_seed(5)
    assert found.tolist() == cf.diag(cf.rand(3)).tolist()
    with pytest.raises(ValueError, match="jacfwd: randomness is 'some'; it must be one of"):
        jacfwd(cf.sin, randomness="some")


def test_in_place_writes_to_what_belongs_to_an_example() -> None:
    x = cf.randn(3, 4)

    def f(row: Any) -> Any:
        out = row.clone()
        out[1] = 5.0
        out[2:].mul_(row[0])
        return out

    expected = cf.stack([f(row) for row in x])
    assert_close(vmap(f)(x), expected)


def test_in_place_writes_to_what_examples_share_are_refused() -> None:
    def counted(row: Any) -> Any:
        out = cf.zeros(2)
        out[1] = row.sum()
        out.add_(1.0)
        return out

    assert vmap(counted)(cf.ones(3, 4)).tolist() == [[1.0, 5.0]] * 3
    total = cf.zeros(4)
    with pytest.raises(cf.GradientError, match="vmap: add_ would write one value for each example"):
        vmap(lambda row: total.add_(row))(cf.ones(3, 4))
    assert (total == 0).all()


def test_random_numbers() -> None:
    x = cf.ones(4, 64)
    draw = lambda row: row * cf.rand(64)  # noqa: E731
    with pytest.raises(cf.GradientError, match="vmap: the function draws random numbers"):
        vmap(draw)(x)
    same = vmap(draw, randomness="same")(x)
    assert (same == same[0]).all()
    different = vmap(draw, randomness="different")(x)
    assert len({tuple(row.tolist()) for row in different}) == 4
    before = cf.get_rng_state()
    assert cf.get_rng_state() == before


def test_values_do_not_leave() -> None:
    with pytest.raises(cf.GradientError, match=r"vmap: .* needs the value of bool"):
        vmap(lambda row: row if row.sum() > 0 else -row)(cf.ones(3, 2))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: vmap(lambda x: x, 2)(cf.ones(3, 2)), "in_dims says dim 2 of float32[3, 2]"),
        (lambda: vmap(cf.add)(cf.ones(3), cf.ones(4)), "one batch size; they have 3 and 4"),
        (lambda: vmap(lambda x: x, None)(cf.ones(3)), "one batch size; they have none"),
        (lambda: vmap(lambda x: x, (0, 0))(cf.ones(3)), "in_dims has 2 entries for 1 values"),
        (lambda: vmap(lambda x: x, randomness="some"), "randomness is 'some'"),
        (lambda: vmap(lambda x: x, chunk_size=0), "chunk_size is 0"),
    ],
)  # fmt: skip
def test_wrong_calls(call: Any, text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        call()


def test_a_compiled_function_may_use_it() -> None:
    x = cf.randn(4, 3)
    f = lambda x: vmap(grad(lambda row: (row**3).sum()))(x)  # noqa: E731
    assert_close(cf.compile(f)(x), f(x))


def test_pulling_back_a_batch_of_cotangents_through_a_graph_from_outside() -> None:
    x = cf.randn(3, dtype=cf.float64).requires_grad_()

    def f(x: Any) -> Any:
        return cf.checkpoint(lambda v: (v * x).tanh(), x * x).cumsum(0)

    def norm(pulled: Any) -> Any:
        return (pulled**2).sum()

    units = cf.eye(3, dtype=cf.float64)
    norm(vmap(vjp(f, x)[1])(units)[0]).backward()
    found, x.grad = x.grad, None
    norm(cf.stack([vjp(f, x)[1](unit)[0] for unit in units])).backward()
    assert_close(found, x.grad)


def test_an_index_of_each_example() -> None:
    rows, at = cf.randn(3, 2, 4), cf.tensor([0, 1, 1])
    expected = cf.stack([row[i] for row, i in zip(rows, at.tolist())])
    assert_close(vmap(lambda row, i: row[i])(rows, at), expected)
    assert_close(vmap(lambda row, i: row[i, None, :2])(rows, at), expected[:, None, :2])
    shared = vmap(lambda row, i: row[0, i], in_dims=(None, 0))(rows, at)
    assert_close(shared, rows[0, at])
    g = vmap(grad(lambda row, i: (row[i] ** 2).sum()))(rows, at)
    assert_close(g[1], cf.stack([cf.zeros(4), 2 * rows[1, 1]]))

    def put(row: Any, i: Any) -> Any:
        row = row.clone()
        row[i] = 0.0
        return row

    assert vmap(put)(rows, at)[2, 1].tolist() == [0.0] * 4


INDEXED: dict[str, Any] = {
    "sort": lambda x, i: x.sort(1)[0],
    "cumsum": lambda x, i: x.cumsum(-1),
    "gather": lambda x, i: x.flatten(1).gather(1, i),
    "a row": lambda x, i: x[i],
    "in the middle": lambda x, i: x[:, i],
    "apart": lambda x, i: x[i, :, i],
    "last": lambda x, i: x[..., i, :1],
}


@pytest.mark.parametrize("shared", [None, 0, 1], ids=["none", "tensor", "index"])
@pytest.mark.parametrize("name", INDEXED)
def test_all_examples_at_once(
    name: str, shared: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What goes along a dim, or reads at given places, is one op for the whole batch."""
    function = INDEXED[name]
    x, i = cf.randn(4, 3, 3, 3), cf.randint(0, 3, (4, 3, 2))
    args = [t[0] if shared == k else t for k, t in enumerate((x, i))]
    in_dims = tuple(None if shared == k else 0 for k in range(2))
    rows = [[t if shared == k else t[n] for k, t in enumerate(args)] for n in range(4)]
    expected = cf.stack([function(*row) for row in rows])

    def refuse(*args: Any) -> Any:
        raise AssertionError("one by one")

    monkeypatch.setattr(Batch, "_one_by_one", refuse)
    assert_close(vmap(function, in_dims)(*args), expected)


STOPPED: dict[str, Callable[[Tensor], Tensor]] = {
    "product": lambda x: x * x.detach(),
    "view": lambda x: x[1:] * x.detach()[:-1].flip(0),
    "twice": lambda x: x.sum() * x.detach().sin().detach(),
    "straight through": lambda x: x.round().detach() - x.detach() + x * x,
    "inner gradient": lambda x: grad(lambda y: (y * y.detach() * y).sum())(x),
    "inner batch": lambda x: vmap(lambda y: y * y.detach().exp())(x),
}


@pytest.mark.parametrize("name", STOPPED)
def test_detach_stops_gradients_from_outside(name: str) -> None:
    def batch(x: Tensor) -> Tensor:
        return vmap(STOPPED[name])(x)

    def each(x: Tensor) -> Tensor:
        return cf.stack([STOPPED[name](row) for row in x])

    x = cf.randn(3, 4, dtype=cf.float64)
    weight = cf.randn(3, 4, dtype=cf.float64)[:, : each(x).shape[1]]
    expected = grad(lambda x: (each(x) * weight).sum())(x)
    assert_close(grad(lambda x: (batch(x) * weight).sum())(x), expected)
    assert_close(cf.compile(grad(lambda x: (batch(x) * weight).sum()))(x), expected)
    _, tangent = jvp(batch, (x,), (cf.ones_like(x),))
    assert_close((tangent * weight).sum(), (expected * cf.ones_like(x)).sum())


def _unrecorded(x: Tensor) -> Tensor:
    y = x * 3
    with cf.no_grad():
        y.mul_(2.0)
        y[1:] = y[:-1] * x[1:]
    return y * x


def _beneath(x: Tensor) -> Tensor:
    y = x * 3
    y.detach()[::2].mul_(2.0)
    y.data.add_(x.detach())
    return y * x


def _without_graph(x: Tensor) -> Tensor:
    with cf.no_grad():
        scale = x.exp()
        with cf.enable_grad():
            scale = scale * x
    return scale.sum() * x


def _gradient_without_graph(x: Tensor) -> Tensor:
    with cf.no_grad():
        direction = grad(lambda y: (y**3).sum())(x)
    return direction * x


UNRECORDED = [_unrecorded, _beneath, _without_graph, _gradient_without_graph]


@pytest.mark.parametrize("function", UNRECORDED)
def test_no_grad_stops_gradients_from_outside(function: Callable[[Tensor], Tensor]) -> None:
    x = cf.randn(3, 4, dtype=cf.float64)
    weight = cf.randn(3, 4, dtype=cf.float64)

    def each(x: Tensor) -> Tensor:
        return cf.stack([function(row) for row in x])

    def both(x: Tensor) -> Tensor:
        nested: Tensor = vmap(vmap(function))(x[None])[0]
        return nested + 2 * vmap(function)(x)

    assert_close(both(x), 3 * each(x))
    expected = 3 * grad(lambda x: (each(x) * weight).sum())(x)
    assert_close(grad(lambda x: (both(x) * weight).sum())(x), expected)
    _, tangent = jvp(both, (x,), (weight,))
    assert_close(tangent, 3 * jvp(each, (x,), (weight,))[1])


def test_a_detached_tensor_shares_memory() -> None:
    def after(x: Tensor) -> Tensor:
        y = x * 2
        shown = y.detach()
        y.add_(1.0)
        return shown * x

    def through(x: Tensor) -> Tensor:
        y = x * 2
        y.detach().mul_(3.0)
        return y

    x = cf.randn(3, 4)
    assert_close(vmap(after)(x), (x * 2 + 1) * x)
    assert_close(vmap(through)(x), x * 6)


def test_long_rows_keep_their_digits() -> None:
    """The largest element of a row has no gradient of its own in logsumexp."""
    x = cf.randn(2, 9001).requires_grad_()
    vmap(lambda row: row.logsumexp(0))(x).sum().backward()
    expected = x.detach().double().softmax(1)
    assert (x.grad.double() / expected - 1).abs().max().item() < 3e-6


def test_a_custom_function_is_refused_where_its_backward_would_be_missed() -> None:
    class Tenfold(cf.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return g * 10.0 * x

    x = cf.tensor([1.0, 2.0])
    assert vmap(Tenfold.apply)(x).tolist() == [1.0, 4.0]
    assert vmap(grad(Tenfold.apply))(x).tolist() == [10.0, 20.0]
    message = r"vmap: Tenfold has a backward of its own, which gradients from outside would miss\."
    with pytest.raises(cf.GradientError, match=message):
        vmap(Tenfold.apply)(x.requires_grad_())
    with pytest.raises(cf.GradientError, match=message):
        grad(lambda x: vmap(Tenfold.apply)(x).sum())(x.detach())
    with pytest.raises(cf.GradientError, match=message):
        cf.func.jvp(vmap(Tenfold.apply), (x.detach(),), (cf.ones(2),))
    with pytest.raises(cf.GradientError, match=message):
        grad(lambda x: vmap(vmap(Tenfold.apply))(x).sum())(cf.ones(2, 2))
    with cf.no_grad():
        assert vmap(Tenfold.apply)(x).tolist() == [1.0, 4.0]
