"""Temporaries that lie column by column: which they are, and that nobody can tell from results."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import contraflow as cf
from contraflow.compiler.narrow_layouts import columnwise, narrow_layouts, rearranged_view
from contraflow.compiler.tape import Tape
from contraflow.shapes import View, contiguous

F = cf.nn.functional


def chosen(*rows: str, shape: str = "20, 10", host: str = "") -> set[str]:
    """The values of a tape over two inputs that lie column by column."""
    inputs = f"  input %0 : float32[{shape}]  arg\n  input %1 : float32[10, 10]  arg\n"
    tape = Tape.parse(f"tape t\n{inputs}" + "\n".join(f"  {row}" for row in rows)).verify()
    return {str(v) for v in narrow_layouts(tape, {v for v in tape.specs if str(v) == host}, 16)}


PRODUCT = "%2 = matmul(%0, %1) : float32[20, 10]"
SUM = "sum({}, dim=(1,), keepdim=True) : float32[20, 1]"


def test_what_is_reduced_row_by_row_lies_column_by_column() -> None:
    exp = "%3 = exp(%2) : float32[20, 10]"
    total = "%4 = " + SUM.format("%3")
    quotient = "%5 = div(%3, %4) : float32[20, 10]"
    turned = "%6 = strided(%5, shape=(10, 20), strides=(1, 10), offset=0) : float32[10, 20]"
    result = "%7 = matmul(%6, %0) : float32[10, 10]"
    assert chosen(PRODUCT, exp, total, quotient, turned, result, "return %7") == {"%2", "%3", "%5"}
    # Others need it as it is: a result, an input, or what is computed from them.
    assert not chosen(PRODUCT, exp, total, quotient, "return %5")
    added = "%8 = add(%2, %0) : float32[20, 10]"
    assert not chosen(PRODUCT, added, "%4 = " + SUM.format("%8"), "return %4")
    assert not chosen(PRODUCT, exp, total, "return %4", host="%3")


def test_what_is_not_reduced_stays_as_it_is() -> None:
    down = "%3 = sum(%2, dim=(0,), keepdim=False) : float32[10]"
    assert not chosen(PRODUCT, down, "return %3")
    whole = "%3 = sum(%2, dim=(0, 1), keepdim=False) : float32[]"
    assert not chosen(PRODUCT, whole, "return %3")


@pytest.mark.parametrize(
    "row",
    [
        "%5 = strided(%2, shape=(200,), strides=(1,), offset=0) : float32[200]",
        "%5 = strided(%2, shape=(20, 5), strides=(10, 2), offset=0) : float32[20, 5]",
        "%5 = strided(%2, shape=(20, 9), strides=(10, 1), offset=1) : float32[20, 9]",
        "%5 = cumsum(%2, dim=1) : float32[20, 10]",
        "%5 = assign(%2, %0, shape=(20, 10), strides=(10, 1), offset=0) : float32[20, 10]",
    ],
)
def test_what_needs_rows_keeps_them(row: str) -> None:
    total = "%4 = " + SUM.format("%2")
    assert chosen(PRODUCT, total, "return %4") == {"%2"}
    assert not chosen(PRODUCT, total, row, "return %4, %5")


def test_shapes() -> None:
    total = "%4 = sum(%2, dim=(1,), keepdim=False) : float32[{}]"
    few = "%2 = matmul(%0, %1) : float32[15, 10]"
    assert not chosen(few, total.format(15), "return %4", shape="15, 10")
    assert columnwise((4, 5, 3)) == View((4, 5, 3), (5, 1, 20))


def test_views() -> None:
    layout = columnwise((20, 10))

    def shown(view: View) -> View | None:
        return rearranged_view(view, (20, 10), layout)

    assert shown(contiguous((20, 10))) == layout
    assert shown(View((10, 20), (1, 10))) == View((10, 20), (20, 1))
    assert shown(View((20, 1, 10), (10, 7, 1))) == View((20, 1, 10), (1, 0, 20))
    assert shown(View((3, 20, 10), (0, 10, 1))) == View((3, 20, 10), (0, 1, 20))
    assert shown(View((200,), (1,))) is None
    assert shown(View((10, 10), (1, 1))) is None  # which runs on into the next row
    assert shown(View((20, 9), (10, 1))) is None
    assert shown(View((20, 10), (10, 1), 3)) is None


x = cf.randn(20, 12)
w = cf.randn(12, 7)
t = cf.randint(0, 7, (20,))


def train(f: Callable[[cf.Tensor], cf.Tensor]) -> Callable[..., Any]:
    """The value and the gradient of a function of the weights."""

    def run(weights: cf.Tensor) -> Any:
        weights = weights.detach().requires_grad_()
        value = f(weights)
        value.sum().backward()
        return value.detach(), weights.grad

    return run


FUNCTIONS: dict[str, Callable[[cf.Tensor], cf.Tensor]] = {
    "cross_entropy": lambda w: F.cross_entropy(x @ w, t),
    "smoothed": lambda w: F.cross_entropy(x @ w, t, label_smoothing=0.1),
    "weighted": lambda w: F.cross_entropy(x @ w, t, weight=cf.arange(1.0, 8.0)),
    "softmax": lambda w: cf.softmax(x @ w, 1) @ cf.ones(7, 3),
    "clone": lambda w: cf.softmax((x @ w).clone(), -1).pow(2).sum(1),
    "turned": lambda w: cf.softmax(x @ w, -1).T.clone() @ x,
    "one row": lambda w: cf.log_softmax(x @ w, -1)[3],
    "part": lambda w: cf.log_softmax(x @ w, -1)[:, 1:5].sum(1),
    "norm": lambda w: F.layer_norm(x @ w, (7,)).tanh().sum(0),
    "dims": lambda w: cf.softmax((x @ w).reshape(4, 5, 7), -1).amax(-1),
    "three dims": lambda w: cf.softmax(x.reshape(4, 5, 12) @ w, -1).amax(-1),
    "maximum": lambda w: (x @ w).amax(1),
    "running": lambda w: cf.softmax(x @ w, 1).cumsum(1).amax(1),
    "sorted": lambda w: cf.sort(cf.softmax(x @ w, 1), 1).values[:, :2],
    "twice": lambda w: cf.softmax(x @ w, 1) + cf.softmax(x @ w, 0),
    "picked": lambda w: (x @ w).softmax(1).gather(1, t.unsqueeze(1)).log(),
    "overlapping": lambda w: (
        cf.softmax(x @ w, 1).reshape(-1).unfold(0, 7, 1)[:7] * (x @ w).exp().sum(1)[:7]
    ),
    "double": lambda w: F.cross_entropy(x.double() @ w.double(), t).float(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_those_of_eager_mode(name: str) -> None:
    run = train(FUNCTIONS[name])
    compiled = cf.compile(run)
    for _ in range(2):
        for got, want in zip(compiled(w), run(w)):
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=2e-5, atol=2e-6)


def test_random_numbers_are_those_of_eager_mode() -> None:
    def run(w: cf.Tensor) -> cf.Tensor:
        return cf.softmax(F.dropout(x @ w, 0.5), 1).amax(1)

    compiled = cf.compile(run)
    for seed in range(3):
        cf.manual_seed(seed)
        want = run(w)
        cf.manual_seed(seed)
        np.testing.assert_allclose(compiled(w).numpy(), want.numpy(), rtol=1e-5)


def test_a_training_step_uses_it() -> None:
    """The kernels of the loss read their operands in order."""
    model = cf.nn.Linear(12, 7)
    optimizer = cf.optim.SGD(model.parameters(), lr=0.1)

    @cf.compile
    def step(x: cf.Tensor, t: cf.Tensor) -> cf.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), t)
        loss.backward()
        optimizer.step()
        return loss.detach()

    step(x, t)
    (product, *_) = (
        s.call
        for s in step.programs[0].executable.plan.steps
        if "contraction" in s.call.kernel.name
    )
    assert product.sizes == (1, 1, 7, 20, 12)


class Narrow:
    """A random function of weights whose values are narrow, and go through all kinds of ops."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.columns = self.choose.choice([2, 3, 7, 10, 16])
        self.rows = self.choose.choice([16, 20, 33])
        cf.manual_seed(seed)
        # In float64, so that errors stay small even where a function magnifies them.
        self.x = cf.randn(self.rows, 6, dtype=cf.float64)
        self.w = cf.randn(6, self.columns, dtype=cf.float64)
        self.t = cf.randint(0, self.columns, (self.rows,))
        self.steps = self.choose.choices(STEPS, k=self.choose.randint(2, 7))
        if self.choose.random() < 0.3:
            self.steps.insert(2, self.choose.choice(BY_ROWS))
        self.end = self.choose.choice(ENDS)

    def __call__(self, w: cf.Tensor) -> cf.Tensor:
        value = self.x @ w
        for step in self.steps:
            value = step(value, self)
        return self.end(value, self)


Step = Callable[[cf.Tensor, Narrow], cf.Tensor]
STEPS: list[Step] = [
    lambda v, p: cf.softmax(v, 1),
    lambda v, p: cf.log_softmax(v, 1),
    lambda v, p: cf.softmax(v, 0),
    lambda v, p: v - v.amax(1, keepdim=True),
    lambda v, p: v * v.mean(1, keepdim=True).tanh(),
    lambda v, p: v + (p.x @ p.w),
    lambda v, p: v + cf.arange(float(p.columns)),
    lambda v, p: v.T.contiguous().T * 1.5,
    lambda v, p: (v.T @ v).sum() * v,
    lambda v, p: v.clone(),
    lambda v, p: cf.where(v > 0.1, v, 0.5 * v),
    lambda v, p: v.unsqueeze(1).expand(p.rows, 2, p.columns).sum(1),
    lambda v, p: v.gather(1, p.t.unsqueeze(1)) + v,
    lambda v, p: F.one_hot(p.t, p.columns).double() * v + v,
    lambda v, p: F.layer_norm(v, (p.columns,)),
]
# What needs values row by row.
BY_ROWS: list[Step] = [
    lambda v, p: v.reshape(-1).reshape(p.rows, p.columns).sin(),
    lambda v, p: cf.cat([v[:, 1:], v[:, :1]], 1),
    lambda v, p: v.flip(1) - v,
    lambda v, p: v.cumsum(1) * 0.1,
    lambda v, p: cf.sort(v, 1).values,
]
ENDS: list[Step] = [
    lambda v, p: F.cross_entropy(v, p.t),
    lambda v, p: v.sum(1),
    lambda v, p: v.sum(0),
    lambda v, p: v.T @ p.x,
    lambda v, p: v,
    lambda v, p: cf.logsumexp(v, 1),
    lambda v, p: cf.softmax(v, 1) @ p.w.T,
]


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_functions(first: int) -> None:
    for seed in range(first, first + 10):
        function = Narrow(seed)
        run = train(function)
        for got, want in zip(cf.compile(run)(function.w), run(function.w)):
            close = 1e-9 * (1 + float(want.abs().max()))
            np.testing.assert_allclose(got.numpy(), want.numpy(), 0, close, err_msg=f"{seed}")
