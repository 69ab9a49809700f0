"""A compiled function that does not run backward itself is one node of the graph around it.

Each test runs with the tape interpreted and with native programs, and compares with eager.
"""

from __future__ import annotations

import gc
import queue
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.helpers.differentiable import _set_row, agree, leaf

import contraflow as cf
from contraflow.testing import assert_close

F = cf.nn.functional


pytestmark = pytest.mark.usefixtures("mode")


def test_gradients_of_every_order() -> None:
    compiled = agree(lambda x, w: (x @ w).tanh() * x.sum(), [leaf(3, 3), leaf(3, 3)], order=4)
    assert compiled.captures == 1


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "several results": lambda x, y: (x * y, (x.exp() + y).sum(0), x.detach()),
    "nested results": lambda x, y: {"a": [x * y], "b": (x.sin(), None, "text")},
    "a view of a result": lambda x, y: (lambda h: (h, h[0]))(x * y),
    "a view of an argument": lambda x, y: (x[0], x.mT * y),
    "an argument itself": lambda x, y: (x, x * y),
    "softmax": lambda x, y: F.log_softmax(x @ y, 1).sum(0),
    "layer norm": lambda x, y: F.layer_norm(x * y, (3,)),
    "detach inside": lambda x, y: x * (x * y).detach() + y.detach().exp() * x,
    "no_grad inside": lambda x, y: x * cf.no_grad()(lambda: y * x)(),
    "indexing": lambda x, y: x[[0, 2, 0]] * y[:, 1:].sum(1, keepdim=True),
    "in place": lambda x, y: (x * 1).mul_(y).add_(x),
    "in place on a view": lambda x, y: _set_row(x * 1, y),
    "an unused argument": lambda x, y: x.exp(),
    "a grad inside": lambda x, y: cf.autograd.grad((x**3 * y).sum(), x, create_graph=True)[0],
    "a checkpoint inside": lambda x, y: cf.checkpoint(lambda v: (v * y).tanh().exp(), x * 2),
    "dropout": lambda x, y: F.dropout((x * y).tanh(), 0.4) * x,
    "dropout in a checkpoint": lambda x, y: cf.checkpoint(
        lambda v: F.dropout((v * y).tanh(), 0.4) * v, x * 2
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_those_of_eager(name: str) -> None:
    compiled = agree(FUNCTIONS[name], [leaf(3, 3), leaf(3, 3)])
    assert compiled.captures == 1


def test_inputs_may_be_results_of_other_ops() -> None:
    w = leaf(3)
    f = cf.compile(lambda x, y: (x * y).exp())
    for _ in range(2):
        (want,) = cf.autograd.grad(((w * 2) * w.sin()).exp().sum(), w)
        (got,) = cf.autograd.grad(f(w * 2, w.sin()).sum(), w)
        assert_close(got, want)
    assert f.captures == 1


def test_captured_tensors_with_a_graph_of_their_own() -> None:
    w = leaf(3)
    h = w * 2
    part = h[1:]
    f = cf.compile(lambda x: (x * h).sum() + part.sum())
    for _ in range(2):
        (want,) = cf.autograd.grad((w * 2).sum() + (w * 2)[1:].sum(), w)
        (got,) = cf.autograd.grad(f(cf.ones(3, dtype=cf.float64)), w, retain_graph=True)
        assert_close(got, want)


def test_gradients_of_parameters_accumulate() -> None:
    model = cf.nn.Sequential(cf.nn.Linear(3, 4), cf.nn.Tanh(), cf.nn.Linear(4, 2))
    twin = cf.nn.Sequential(cf.nn.Linear(3, 4), cf.nn.Tanh(), cf.nn.Linear(4, 2))
    twin.load_state_dict(model.state_dict())
    f = cf.compile(lambda x: model(x))
    for _ in range(3):
        x = cf.randn(5, 3)
        f(x).sum().backward()
        twin(x).sum().backward()
        for p, q in zip(model.parameters(), twin.parameters()):
            assert_close(p.grad, q.grad)
    assert f.captures == 1


def test_a_training_loop_around_a_compiled_function() -> None:
    def train(compiled: bool) -> list[float]:
        cf.manual_seed(3)
        model = cf.nn.Sequential(cf.nn.Linear(3, 8), cf.nn.Dropout(0.2), cf.nn.Linear(8, 1))
        optimizer = cf.optim.Adam(model.parameters(), lr=0.01)

        def function(x: Any) -> Any:
            return model(x)

        f: Any = cf.compile(function) if compiled else function
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = f(cf.randn(4, 3)).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    np.testing.assert_allclose(train(True), train(False), 1e-5)


def test_outstanding_calls_share_nothing() -> None:
    f = cf.compile(lambda x: (x.exp() * x).tanh())
    a, b = leaf(4), leaf(4)
    first, second = f(a), f(b)
    second.sum().backward()
    first.sum().backward()
    for x in (a, b):
        (want,) = cf.autograd.grad((x.exp() * x).tanh().sum(), x)
        assert_close(x.grad, want)
    assert f.captures == 1


def test_a_second_backward_says_what_others_say() -> None:
    f = cf.compile(lambda x: x.exp())
    x = leaf(3)
    out = f(x).sum()
    out.backward(retain_graph=True)
    out.backward()
    assert_close(x.grad, 2 * x.detach().exp())
    with pytest.raises(cf.GradientError, match="has run already and its saved values were freed"):
        out.backward()


def test_an_overwritten_input_is_noticed() -> None:
    x, factor = leaf(3), cf.ones(3, dtype=cf.float64)

    def scale(v: Any) -> Any:
        return v * factor

    f = cf.compile(scale)
    out = f(x)
    factor.add_(1)
    with pytest.raises(cf.GradientError, match=r"saved float64\[3\] at test_comp"):
        out.sum().backward()
    out = f(x)
    out.sum().backward()
    assert_close(x.grad, factor)


def test_an_overwritten_result_is_noticed_where_backward_needs_it() -> None:
    f = cf.compile(lambda x: (x.exp(), x + 1))
    x = leaf(3)
    a, b = f(x)
    b.add_(1)  # nobody saved it
    b.sum().backward(retain_graph=True)
    assert_close(x.grad, np.ones(3))
    a.mul_(2)
    with pytest.raises(cf.GradientError, match="overwrote it"):
        a.sum().backward()


def test_what_need_not_be_kept_may_be_overwritten() -> None:
    """As in eager: x + 1 and its tanh keep the result alone."""
    f = cf.compile(lambda x, y: (x + y).tanh() * 2)
    x, y = leaf(3), cf.ones(3, dtype=cf.float64)
    out = f(x, y)
    y.fill_(9)
    out.sum().backward()
    assert_close(x.grad, 2 * (1 - (x.detach() + 1).tanh() ** 2))


def test_hooks_on_results_and_inputs() -> None:
    seen: list[Any] = []
    f = cf.compile(lambda x: x * 3)
    x = leaf(3)
    x.register_hook(lambda g: g * 10)
    out = f(x)
    out.register_hook(lambda g: seen.append(g) or g * 2)
    out.retain_grad()
    out.sum().backward()
    assert_close(seen[0], np.ones(3))
    assert_close(out.grad, np.full(3, 2.0))
    assert_close(x.grad, np.full(3, 60.0))


def test_hooks_inside_are_part_of_the_backward() -> None:
    def f(x: Any) -> Any:
        h = x * 3
        h.register_hook(lambda g: g * g)
        return h.exp()

    agree(f, [leaf(3)], order=1)


def test_hooks_inside_that_keep_or_write_are_refused() -> None:
    kept, buffer = [], cf.zeros(3, dtype=cf.float64)

    def keeping(x: Any) -> Any:
        h = x * 3
        h.register_hook(lambda g: kept.append(g * 2))
        return h.exp()

    queued: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def queueing(x: Any) -> Any:
        h = x * 3
        h.register_hook(lambda g: queued.put(g * 2))
        return h.exp()

    def writing(x: Any) -> Any:
        h = x * 3
        h.register_hook(lambda g: buffer.copy_(g) * 1)
        return h.exp()

    with pytest.raises(cf.CaptureError, match=r"in backward writes to a tensor or to Python's"):
        cf.compile(keeping)(leaf(3))
    assert kept == []
    with pytest.raises(cf.CaptureError, match=r"a hook keeps float64.*only backward computes"):
        cf.compile(queueing)(leaf(3))
    with pytest.raises(cf.CaptureError, match="a hook that runs in backward writes to a tensor"):
        cf.compile(writing)(leaf(3))
    assert_close(buffer, np.zeros(3))


def test_retaining_the_gradient_of_a_result_inside_is_refused() -> None:
    def f(x: Any) -> Any:
        h = x * 3
        h.retain_grad()
        return h

    with pytest.raises(
        cf.CaptureError, match=r"`h = x \* 3` at .*: retain_grad is called on this result"
    ):
        cf.compile(f)(leaf(3))


def test_autocast_around_the_call() -> None:
    def function(x: Any, w: Any) -> Any:
        return (x @ w).tanh().sum()

    f = cf.compile(function)
    x, w = leaf(3, 3, dtype=cf.float32), leaf(3, 3, dtype=cf.float32)
    for _ in range(2):
        found = []
        for g in (f, function):
            with cf.amp.autocast("cpu", dtype=cf.bfloat16):
                out = g(x, w)
            first = cf.autograd.grad(out, (x, w), create_graph=True)
            second = cf.autograd.grad(first[0].sum(), (x, w))
            found.append([out.detach(), *(t.detach() for t in first), *second])
        for got, want in zip(*found):
            assert got.dtype is want.dtype
            assert_close(got, want, 0.05, 0.05)


def test_batches_of_calls() -> None:
    f = cf.compile(lambda x: (x * x).sum())
    x = cf.randn(4, 3, dtype=cf.float64)
    assert_close(cf.func.vmap(f)(x), (x * x).sum(1))
    assert_close(cf.func.vmap(cf.func.grad(f))(x), 2 * x)


def test_only_the_gradients_asked_for_are_computed() -> None:
    f = cf.compile(lambda x, w: (x @ w).tanh())
    x, w = leaf(3, 3), leaf(3, 3)
    (got,) = cf.autograd.grad(f(x, w).sum(), x)
    assert_close(got, cf.autograd.grad((x @ w).tanh().sum(), x)[0])
    variants = f.programs[-1].pullback.variants
    assert list(variants) == [((True,), (True, False))]
    f(x, w).sum().backward(inputs=[w])
    assert list(variants)[1:] == [((True,), (False, True))]
    assert x.grad is None


def test_a_cotangent_that_did_not_come_is_not_zero_times_infinity() -> None:
    f = cf.compile(lambda x: (x.log(), x * 2 + x.sqrt() * 0))
    x = cf.tensor([0.0, 1.0], requires_grad=True)
    y = cf.compile(lambda x: (x.log(), x * 2))(x)[1]
    y.sum().backward()
    assert_close(x.grad, np.full(2, 2.0, np.float32))
    x.grad = None
    f(x)[0].sum().backward()
    assert x.grad.tolist() == [np.inf, 1.0]


@pytest.mark.parametrize("which", [(0,), (1,), (2,), (0, 2), (1, 2)])
def test_backward_from_some_of_the_results(which: tuple[int, ...]) -> None:
    def function(x: Any, w: Any) -> Any:
        h = (x @ w).tanh()
        return h * 2, h.sum(0) / w.exp(), F.softmax(h, 1).clone()

    f = cf.compile(function)
    x, w = leaf(3, 3), leaf(3, 3)
    for _ in range(2):
        results = []
        for g in (f, function):
            outs = g(x, w)
            total = sum((outs[i] * (i + 1)).sin().sum() for i in which)
            results.append(cf.autograd.grad(total, (x, w)))
        for got, want in zip(*results):
            assert_close(got, want)


def test_few_residuals() -> None:
    """tanh of a product: the result is what eager keeps, and cheap work is done again."""
    f = cf.compile(lambda x, w: F.gelu(x @ w, approximate="tanh") * 2 + 1)
    x, w = leaf(4, 4), leaf(4, 4)
    f(x, w)
    program = f.programs[-1]
    assert len(program.residuals) == 1, "the product"
    assert len(program.pullback.kept) == 3, "and both factors, which are inputs"


def test_nothing_outlives_the_graph() -> None:
    f = cf.compile(lambda x: (x.exp() * x).tanh())
    x = leaf(3)
    out = f(x * 1)
    alive = [weakref.ref(saved.storage) for saved in out.grad_fn.saved.values()]
    assert alive
    out.sum().backward()
    gc.disable()
    try:
        del out
        assert [ref() for ref in alive] == [None] * len(alive)
    finally:
        gc.enable()


def test_batch_statistics_are_updated_once() -> None:
    def build() -> Any:
        cf.manual_seed(1)
        return cf.nn.Sequential(cf.nn.Linear(3, 4), cf.nn.BatchNorm1d(4)).to(cf.float64)

    model, twin = build(), build()
    f = cf.compile(lambda x: model(x))
    for _ in range(3):
        x = leaf(5, 3)
        grads = []
        for g, module in ((f, model), (twin, twin)):
            (first,) = cf.autograd.grad(g(x).square().sum(), x, create_graph=True)
            module.zero_grad()
            first.square().sum().backward()
            grads.append([first.detach(), *(p.grad for p in module.parameters())])
        for a, b in zip(*grads):
            assert_close(a, b, 1e-8, 1e-8)
        for p, q in zip(model.buffers(), twin.buffers()):
            assert_close(p, q)


def test_a_function_that_reads_what_it_overwrites() -> None:
    total = cf.zeros(3, dtype=cf.float64)

    def accumulate(x: Any) -> Any:
        out = x * x + total
        total.add_(1)
        return out

    f = cf.compile(accumulate)
    x = leaf(3)
    for call in range(3):
        out = f(x)
        with pytest.raises(cf.GradientError, match="it overwrites what it reads"):
            cf.autograd.grad(out.sum(), x, create_graph=True, retain_graph=True)
        x.grad = None
        out.sum().backward()
        assert_close(x.grad, 2 * x.detach())
        assert_close(out.detach(), x.detach() ** 2 + call)


def test_arguments_that_are_written_in_place() -> None:
    def f(x: Any, buffer: Any) -> Any:
        out = x * buffer
        buffer.copy_(x.detach() * 5)
        return out

    out = cf.compile(f)(leaf(3), cf.ones(3, dtype=cf.float64)).sum()
    with pytest.raises(cf.GradientError, match="overwrote it"):
        out.backward()  # as in eager
    h = leaf(3) * 1
    with pytest.raises(
        cf.CaptureError, match=r"mul_.* at .*: float64\[3\] is given a value that requires"
    ):
        cf.compile(lambda v: v.mul_(2))(h)


def test_double_backward_notices_what_changed() -> None:
    w = leaf(3)
    factor = cf.ones(3, dtype=cf.float64)
    layer = cf.nn.Dropout(0.5)
    f = cf.compile(lambda x: layer(x * factor * w).sum())
    x = leaf(3)
    out = f(x)
    layer.eval()
    with pytest.raises(cf.GradientError, match="modules or variables that it uses have changed"):
        cf.autograd.grad(out, x, create_graph=True)
    scale = 2.0
    f = cf.compile(lambda x: (x * scale).exp().sum())
    out = f(x)
    scale = 3.0
    with pytest.raises(cf.GradientError, match="modules or variables that it uses have changed"):
        cf.autograd.grad(out, x, create_graph=True)
    f = cf.compile(lambda x: (x + factor).exp().sum())
    out = f(x)
    factor.add_(1)
    with pytest.raises(cf.GradientError, match="but add_ overwrote what it reads at"):
        cf.autograd.grad(out, x, create_graph=True)


def test_leaves_made_inside() -> None:
    f = cf.compile(lambda x: x.detach().mul(2).requires_grad_())
    x = leaf(3)
    for _ in range(2):
        out = f(x)
        assert out.requires_grad
        assert out.is_leaf
        (out * 3).sum().backward()
        assert_close(out.grad, np.full(3, 3.0))
        assert x.grad is None

    def shared(x: Any) -> Any:
        made = (x.detach() * 2).requires_grad_()
        return made, made * x

    with pytest.raises(cf.CaptureError, match="is returned beside a result computed from it"):
        cf.compile(shared)(x)


def test_results_that_share_memory_are_not_written_under_grad() -> None:
    f = cf.compile(lambda x: (lambda h: (h, h[0]))(x * 2))
    whole, row = f(leaf(3, 3))
    with pytest.raises(cf.GradientError, match="writing to it under grad is refused"):
        row.add_(1)
    assert whole[0].storage is row.storage
    alone = cf.compile(lambda x: x * 2)(leaf(3))
    alone.add_(1).sum().backward()
