"""Functions of functions: gradients, products with Jacobians, nested every way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.helpers.engine_common import refused

import contraflow as cf
from contraflow import func
from contraflow.autograd import functional
from contraflow.contexts.forward import Forward
from contraflow.operation.context import apply, changed, state
from contraflow.operation.op import REGISTRY, Op
from contraflow.operation.samples import Sample
from contraflow.tensors.tensor import Tensor
from contraflow.testing import assert_close, is_real, make_inputs

# --- forward mode against backward, for every op -------------------------------------------------


def cases() -> Iterator[Any]:
    for op in REGISTRY.values():
        if op.differentiable:
            for number, sample in enumerate(op.samples()):
                yield pytest.param(op, sample, id=f"{op.name}-{number}")


@pytest.mark.parametrize(("op", "sample"), list(cases()))
def test_forward_mode_is_the_transpose_of_backward(op: Op, sample: Sample) -> None:
    """<c, J t> = <J'c, t>, and the value is the same."""
    rng = np.random.default_rng(1)
    given = make_inputs(sample)
    wanted = [i for i, x in enumerate(given) if is_real(x)]
    if not wanted:
        pytest.skip("no floating-point input")
    along = [rng.standard_normal(given[i].shape) for i in wanted]

    def tensors(needs: bool) -> list[Any]:
        made = [cf.tensor(x) if isinstance(x, np.ndarray) else x for x in given]
        for i in wanted:
            made[i].requires_grad_(needs)
        return made

    def outputs(result: Any) -> list[Tensor]:
        listed = result if isinstance(result, tuple) else (result,)
        return [out for out in listed if out.dtype.is_floating_point]

    params = dict(sample.params)
    plain = tensors(True)
    outs = outputs(apply(op, tuple(plain), params))
    seeds = [rng.standard_normal(out.shape) for out in outs]
    pairs = [(out, cf.tensor(c)) for out, c in zip(outs, seeds) if out.requires_grad]
    if not pairs:
        pytest.skip("no gradient")
    found = cf.autograd.grad(
        [o for o, _ in pairs], [plain[i] for i in wanted], [c for _, c in pairs], allow_unused=True
    )
    backward = sum((g.array * t).sum() for g, t in zip(found, along) if g is not None)
    duals = tensors(False)
    context = Forward(state().context)
    for i, t in zip(wanted, along):
        context.set_tangent(duals[i], cf.tensor(t))
    with changed(context=context):
        pushed = outputs(apply(op, tuple(duals), params))
    forward, scale = 0.0, 1.0
    for out, c in zip(pushed, seeds):
        t = context.tangent(out)
        if t is not None:
            assert t.spec == out.spec
            forward += (t.array * c).sum()
            scale += np.abs(t.array * c).sum()
    assert abs(forward - backward) <= 1e-9 * scale
    for a, b in zip(outs, pushed):
        assert_close(a, b.detach())


# --- known derivatives ---------------------------------------------------------------------------


X = np.array([0.5, -1.0, 2.0])


def x64(values: Any = X) -> Tensor:
    return cf.tensor(np.asarray(values, np.float64))


def test_grad_and_value() -> None:
    value, g = func.value_and_grad(lambda x: (x**3.0).sum())(x64())
    assert_close(value, (X**3).sum())
    assert_close(g, 3 * X**2)
    assert not value.requires_grad
    assert not g.requires_grad
    (g, aux) = func.grad(lambda x: ((x * x).sum(), {"seen": x * 2.0}), has_aux=True)(x64())
    assert_close(g, 2 * X)
    assert_close(aux["seen"], 2 * X)
    assert not aux["seen"].requires_grad


def test_argnums_and_containers() -> None:
    def loss(model: dict[str, Any], x: Tensor, scale: float) -> Tensor:
        return ((model["w"] * x + model["rest"][0]) * scale).sum()

    model = {"w": x64(), "rest": [x64([1.0, 1.0, 1.0])]}
    g = func.grad(loss)(model, x64(), 2.0)
    assert_close(g["w"], 2 * X)
    assert_close(g["rest"][0], np.full(3, 2.0))
    gm, gx = func.grad(loss, argnums=(0, 1))(model, x64(), 2.0)
    assert_close(gx, 2 * X)
    assert_close(gm["w"], 2 * X)
    assert_close(func.grad(loss, argnums=-1)(model, x64(), scale=2.0), 2 * X)
    with refused(ValueError, "grad: argnums names 3, but there are 3 arguments."):
        func.grad(loss, argnums=3)(model, x64(), 2.0)
    with refused(TypeError, "grad: can differentiate by floating-point tensors only, not by 2.0."):
        func.grad(loss, argnums=2)(model, x64(), 2.0)
    with refused(
        cf.GradientError,
        "grad: the function must return a scalar, not float64[3]. Use vjp or jacrev.",
    ):
        func.grad(lambda x: x * 2.0)(x64())


def test_grad_nests_and_works_under_no_grad() -> None:
    cube = func.grad(func.grad(func.grad(lambda x: x**4.0)))
    assert_close(cube(x64(2.0)), np.array(48.0))
    with cf.no_grad():
        assert_close(func.grad(lambda x: (x * x).sum())(x64()), 2 * X)


def test_results_stay_in_the_graph_of_what_requires_grad() -> None:
    w = x64().requires_grad_()
    g = func.grad(lambda x: (x * x * w).sum())(x64())
    g.sum().backward()
    assert_close(w.grad, 2 * X)
    x = x64().requires_grad_()
    func.grad(lambda v: (v**3.0).sum())(x).sum().backward()
    assert_close(x.grad, 6 * X)
    x.grad = None
    value, t = func.jvp(lambda v: v**3.0, (x,), (x64([1.0, 1.0, 1.0]),))
    (value + t).sum().backward()
    assert_close(x.grad, 3 * X**2 + 6 * X)


def test_vjp() -> None:
    value, pull, aux = func.vjp(
        lambda a, b: ((a * b, {"sum": a + b}), "aux"), x64(), x64([2.0, 3.0, 4.0]), has_aux=True
    )
    assert aux == "aux"
    assert_close(value[0], X * [2.0, 3.0, 4.0])
    c, d = x64([1.0, 10.0, 100.0]), x64([0.0, 0.0, 1.0])
    for _ in range(2):
        ga, gb = pull((c, {"sum": d}))
        assert_close(ga, np.array([2.0, 30.0, 401.0]))
        assert_close(gb, np.array([0.5, -10.0, 201.0]))
    with refused(ValueError, "vjp: 1 cotangents for a function with 2 results."):
        pull(c)


def test_jvp() -> None:
    t = np.array([1.0, 2.0, 3.0])
    value, pushed = func.jvp(lambda x: {"y": x.sin(), "c": cf.ones(2)}, (x64(),), (x64(t),))
    assert_close(value["y"], np.sin(X))
    assert_close(pushed["y"], np.cos(X) * t)
    assert_close(pushed["c"], np.zeros(2))
    with refused(ValueError, "jvp: the tangent float64[2] does not fit float64[3]."):
        func.jvp(cf.sin, (x64(),), (x64([1.0, 2.0]),))
    with refused(TypeError, "jvp: primals and tangents must be tuples, one entry per argument."):
        func.jvp(cf.sin, x64(), x64(t))


def test_linearize_runs_the_function_once() -> None:
    runs = []

    def f(a: Tensor, b: dict[str, Tensor]) -> dict[str, Tensor]:
        runs.append(a)
        return {"y": (a * b["b"]).sin(), "c": cf.ones(2), "n": (a > 0).sum(), "b": b["b"] ** 2.0}

    a, b = x64(), {"b": x64([2.0, 3.0, 4.0])}
    value, push = func.linearize(f, a, b)
    assert not value["y"].requires_grad
    for seed in range(3):
        t, u = (cf.tensor(t) for t in np.random.default_rng(seed).standard_normal((2, 3)))
        pushed = push(t, {"b": u})
        expected, jvp = func.jvp(f, (a, b), (t, {"b": u}))
        for name in ("y", "c", "b"):
            assert_close(value[name], expected[name].numpy())
            assert_close(pushed[name], jvp[name].numpy())
        assert not pushed["y"].requires_grad
    assert len(runs) == 1 + 3  # three of them are of jvp
    units = func.vmap(lambda t: func.linearize(cf.sin, a)[1](t))(cf.eye(3, dtype=cf.float64))
    assert_close(units, np.diag(np.cos(X)))
    with refused(ValueError, "linearize: 1 tangents for 2 primals."):
        push(a)
    with refused(ValueError, "linearize: the tangent float64[2] does not fit float64[3]."):
        push(x64([1.0, 2.0]), b)


def test_products_of_linearize_can_be_differentiated() -> None:
    x, t = x64().requires_grad_(), x64([1.0, 2.0, 3.0]).requires_grad_()
    _, push = func.linearize(lambda x: x**3.0, x)
    push(t).sum().backward()  # 3 x^2 t
    assert_close(x.grad, 6 * X * np.array([1.0, 2.0, 3.0]))
    assert_close(t.grad, 3 * X**2)
    hessian = func.jacrev(lambda x: func.linearize(lambda y: y**3.0, x)[1](cf.ones_like(x)))(x64())
    assert_close(hessian, np.diag(6 * X))


def test_linearize_of_what_does_not_depend_on_its_arguments() -> None:
    value, push = func.linearize(lambda x: cf.ones(2), x64())
    assert value.tolist() == [1.0, 1.0]
    assert push(x64()).tolist() == [0.0, 0.0]


def written(x: Tensor) -> Tensor:
    y = x * 2.0
    view = y[:2]
    y[1:] = x[:2] * x[1:]
    y.mul_(x)
    view.add_(1.0)
    y[0] = 7.0
    return view.sin().sum() + (y * y).sum()


def layered(x: Tensor) -> Tensor:
    h = cf.layer_norm(cf.stack([x, x * x]), (3,))
    return (cf.softmax(h, 1) * h).sum() + cf.checkpoint(lambda v: v.tanh().exp().sum(), x * x)


def reshaped(x: Tensor) -> Tensor:
    m = cf.outer(x, x.exp())
    return (m.mT.reshape(9)[::2].cumsum(0) * m.mT.mT.sum()).sum() + m.max(1)[0].prod()


@pytest.mark.parametrize("function", [written, layered, reshaped])
def test_every_nesting_agrees(function: Callable[[Tensor], Tensor]) -> None:
    x = x64(X)
    g = func.grad(function)(x)
    assert_close(func.jacfwd(function)(x), g.array, 1e-9)
    h = func.jacrev(func.jacrev(function))(x).array
    for outer in (func.jacrev, func.jacfwd):
        for inner in (func.jacrev, func.jacfwd):
            assert_close(outer(inner(function))(x), h, 1e-8, 1e-8)
    assert_close(func.hessian(function)(x), h, 1e-8, 1e-8)
    v = x64([1.0, -2.0, 0.5])
    assert_close(func.hvp(function, (x,), (v,))[0], h @ v.array, 1e-8, 1e-8)


def test_jacobians_of_structures() -> None:
    def function(a: Tensor, b: Tensor) -> dict[str, Tensor]:
        return {"outer": cf.outer(a, b), "sum": (a * 2.0).sum()}

    a, b = x64([1.0, 2.0]), x64()
    for make in (func.jacrev, func.jacfwd):
        found = make(function, argnums=(0, 1))(a, b)
        assert found["outer"][0].shape == (2, 3, 2)
        assert found["outer"][1].shape == (2, 3, 3)
        assert_close(found["outer"][0][1, :, 1], X)
        assert_close(found["sum"][0], np.array([2.0, 2.0]))
        assert_close(found["sum"][1], np.zeros(3))
        jacobian, aux = make(lambda v: (v * v, "aux"), has_aux=True)(b)
        assert_close(jacobian, np.diag(2 * X))
        assert aux == "aux"


def test_detach_stops_tangents() -> None:
    _, t = func.jvp(lambda x: x * x.detach(), (x64(),), (x64([1.0, 1.0, 1.0]),))
    assert_close(t, X)


def test_backward_inside_forward_mode() -> None:
    def gradient(x: Tensor) -> Tensor:
        leaf = (x * 1.0).requires_grad_()
        (leaf**3.0).sum().backward()
        return leaf.grad

    _, t = func.jvp(gradient, (x64(),), (x64([1.0, 1.0, 1.0]),))
    assert_close(t, 6 * X)


def test_under_capture() -> None:
    @cf.compile
    def everything(x: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        value, t = func.jvp(lambda u: (u.sin() * cf.ones(3)).sum(), (x,), (v,))
        return value, t, func.grad(layered)(x), func.hvp(written, (x,), (v,))[0]

    v = x64([1.0, -2.0, 0.5])
    for x in (x64(), x64(X + 0.25)):
        for a, b in zip(everything(x, v), everything.eager(x, v)):
            assert_close(a, b)
    assert everything.captures == 1


def test_a_compiled_function_inside_forward_mode() -> None:
    compiled = cf.compile(lambda x: x * x)
    compiled(x64())
    _, t = func.jvp(compiled, (x64(),), (x64([1.0, 1.0, 1.0]),))
    assert_close(t, 2 * X)


# --- modules -------------------------------------------------------------------------------------


def test_functional_call() -> None:
    model = cf.nn.Sequential(cf.nn.Linear(3, 4), cf.nn.Tanh(), cf.nn.Linear(4, 1))
    x = cf.ones(2, 3)
    expected = model(x)
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    assert_close(func.functional_call(model, parameters, x), expected.detach())
    zeros = {name: cf.zeros(*p.shape) for name, p in parameters.items()}
    assert_close(func.functional_call(model, (zeros,), (x,), strict=True), np.zeros((2, 1)))
    assert_close(model(x), expected)

    def loss(p: dict[str, Tensor]) -> Tensor:
        return func.functional_call(model, p, x).sum()

    g = func.grad(loss)(parameters)
    expected.sum().backward()
    for name, p in model.named_parameters():
        assert_close(g[name], p.grad)
    with pytest.raises(KeyError, match="functional_call: nothing is unknown in Sequential"):
        func.functional_call(model, {"nothing": x}, x)
    with pytest.raises(KeyError, match=r"2\.bias is missing"):
        func.functional_call(model, {"0.weight": parameters["0.weight"]}, x, strict=True)
    with pytest.raises(ZeroDivisionError):
        func.functional_call(cf.nn.Sequential(model, Broken()), {"0.0.weight": cf.ones(4, 3)}, x)
    assert_close(model(x), expected)


def test_functional_call_of_tied_weights() -> None:
    model = cf.nn.Sequential(cf.nn.Linear(1, 1, bias=False), cf.nn.Linear(1, 1, bias=False))
    model[1].weight = model[0].weight
    x, three = cf.ones(1, 1), {"1.weight": cf.tensor([[3.0]])}
    assert func.functional_call(model, three, x, strict=True).item() == 9.0
    own = model[0].weight.item()
    assert_close(func.functional_call(model, three, x, tie_weights=False), [[3.0 * own]], 1e-6)


class Broken(cf.nn.Module):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise ZeroDivisionError

    def forward(self, x: Tensor) -> Tensor:
        return x


# --- the older names -----------------------------------------------------------------------------


def test_functional() -> None:
    x, v = x64(), x64([1.0, 2.0, 3.0])
    value, product = functional.vjp(lambda u: u * u, x, v)
    assert_close(value, X * X)
    assert_close(product, 2 * X * v.array)
    _, (first, second) = functional.vjp(lambda a, b: (a * b * b).sum(), (x, x))
    assert_close(first, X * X)
    assert_close(second, 2 * X * X)
    assert_close(functional.jvp(lambda a, b: a * b, (x, x), (v, v))[1], 2 * X * v.array)
    assert_close(functional.jacobian(lambda u: u * u, x), np.diag(2 * X))
    forward = functional.jacobian(lambda u: u * u, x, strategy="forward-mode")
    assert_close(forward, np.diag(2 * X))
    rows = functional.jacobian(lambda a, b: (a * b, a), (x, x))
    assert_close(rows[0][1], np.diag(X))
    assert_close(rows[1][1], np.zeros((3, 3)))
    assert_close(functional.hessian(lambda u: (u**3.0).sum(), x), np.diag(6 * X))
    value, product = functional.hvp(lambda u: (u**3.0).sum(), x, v)
    assert_close(value, (X**3).sum())
    assert_close(product, 6 * X * v.array)
    value, (first, second) = functional.vhp(lambda a, b: (a * a * b).sum(), (x, x), (v, v))
    assert_close(value, (X**3).sum())
    assert_close(first, 4 * X * v.array)
    assert_close(second, 2 * X * v.array)
    w = x64().requires_grad_()
    assert not functional.jacobian(lambda u: u * w, x).requires_grad
    assert functional.jacobian(lambda u: u * u, w, create_graph=True).requires_grad
    with refused(cf.GradientError, "jacobian: output 1 does not depend on input 1."):
        functional.jacobian(lambda a, b: (a * b, a), (x, x), strict=True)
    with refused(cf.GradientError, "jvp: the output float32[2] does not depend on the arguments."):
        func.jvp(lambda u: cf.ones(2), (x,), (v,), strict=True)
    with refused(cf.GradientError, "vjp: float64[3] is not a scalar, so v must be given."):
        functional.vjp(lambda u: u * u, x)


# --- gradcheck -----------------------------------------------------------------------------------


class Wrong(cf.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return g * x * cf.tensor([2.0, 3.0, 2.0], dtype=cf.float64)


@pytest.mark.parametrize("fast", [False, True])
def test_gradcheck(fast: bool) -> None:
    check, again = cf.autograd.gradcheck, cf.autograd.gradgradcheck
    x, y = x64().requires_grad_(), x64([1.0, 2.0, 3.0]).requires_grad_()
    assert check(lambda a, b: (a * b.sin(), a.sum()), (x, y), fast_mode=fast, check_forward_ad=True)
    assert again(lambda a, b: (a * b.sin(), a.exp().sum()), (x, y), fast_mode=fast)
    assert not check(Wrong.apply, x, raise_exception=False, fast_mode=fast)
    with pytest.raises(
        cf.GradientError,
        match="gradcheck: the gradient by input 0"
        if fast
        else r"1 of 9 entries of the Jacobian of output 0 by input 0 differ; element "
        r"\(1,\) by element \(1,\): the gradient is -3, the difference quotient -2.",
    ):
        check(Wrong.apply, x, fast_mode=fast)  # fmt: skip
    with refused(
        cf.GradientError,
        "gradcheck: two backward passes give input 0 different gradients: the function is not ",
        "deterministic.",
    ):
        check(lambda a: a * cf.rand(3), x)
    with refused(ValueError, "gradcheck: no input requires grad, so there is nothing to check."):
        check(cf.sin, x64())


def test_jacobians_have_a_graph_only_where_there_is_more_to_it() -> None:
    x = cf.tensor([1.0, 2.0])
    w = cf.tensor([3.0, 4.0], requires_grad=True)
    for transform in (cf.func.jacrev, cf.func.jacfwd, cf.func.hessian):
        assert not transform(lambda x: (x**3.0).sum())(x).requires_grad
        assert transform(lambda x: (x**3.0 * w).sum())(x).requires_grad
