"""Products with the map behind them as one dispatch of the webgpu device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from benchmarks import models, with_contraflow

import contraflow as cf
import contraflow.nn.functional as F
from contraflow.compiler.kernel import KernelCall, Operand, Store, contraction, loops
from contraflow.compiler.plan import Binding, KernelStep, Slot
from contraflow.devices.webgpu import program as module
from contraflow.devices.webgpu.epilogues import with_epilogues
from contraflow.dtypes import float32
from contraflow.expressions import expression as s
from contraflow.render.clike import wgsl, wide
from contraflow.render.clike.fused import FusedProduct

pytestmark = pytest.mark.usefixtures("webgpu")


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[list[Any]]:
    """The steps of the programs that are loaded."""
    found: list[list[Any]] = []

    def noted(given: Any, slots: Any) -> Any:
        found.append(with_epilogues(given, slots))
        return found[-1]

    monkeypatch.setattr(module, "with_epilogues", noted)
    return found


def fused_steps(steps: list[list[Any]]) -> int:
    return sum(isinstance(x.call.kernel, FusedProduct) for x in max(steps, key=len))


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


X, W, B, R = drawn(33, 40), drawn(40, 50), drawn(50), drawn(33, 50)
LONG = drawn(33, 2100), drawn(2100, 50)
P, Q, HEADS = drawn(4, 3, 17, 20), drawn(4, 3, 20, 30), drawn(3, 1, 1)
TALL = drawn(120, 40), drawn(40, 250), drawn(250)
TALL_AND_LONG = drawn(120, 2100), drawn(2100, 250), drawn(250)

# A function, its arguments, and how many dispatches it is.
TABLE: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...], int]] = {
    "bias": (lambda x, w, b: x @ w + b, (X, W, B), 1),
    "activation": (lambda x, w, b: F.gelu(x @ w + b), (X, W, B), 1),
    "residual": (lambda x, w, r: x @ w + r, (X, W, R), 1),
    "number": (lambda x, w: (x @ w) * 2 - 1, (X, W), 1),
    "turned": (lambda x, w, b: w.T @ x.T + b.unsqueeze(1), (X, W, B), 1),
    "several results": (lambda x, w, b: ((x @ w + b).tanh(), (x @ w + b).exp()), (X, W, B), 1),
    "kept": (lambda x, w, b: (x @ w, x @ w + b), (X, W, B), 1),
    "float16": (lambda x, w, b: F.gelu((x.half() @ w.half()).float() + b), (X, W, B), 3),
    "float16, kept": (lambda x, w: (x.half() @ w.half(), (x.half() @ w.half()) * 2), (X, W), 3),
    "to integers": (lambda x, w: (x @ w).int(), (X, W), 1),
    "in several panels": (lambda x, w, b: x @ w + b, (*LONG, B), 1),
    "in several panels, kept": (lambda x, w, b: (x @ w, x @ w + b), (*LONG, B), 1),
    "read again": (lambda x, w: (x @ w).tanh() - (x @ w).mean(1, keepdim=True), (X, W), 2),
    "batches": (lambda x, w: (x.reshape(3, 11, 40) @ w.expand(3, 40, 50)) + 1, (X, W), 1),
    "two axes of batches": (lambda p, q, h: F.gelu(p @ q + h), (P, Q, HEADS), 1),
    "heads beside each other": (lambda p, q: (p @ q).transpose(1, 2) * 2, (P, Q), 1),
    "one element": (lambda x, w: x[:1] @ w[:, :1] + 1, (X, W), 1),
    "coordinates": (lambda x, w: (x @ w).triu(), (X, W), 1),
    "coordinates of batches": (lambda p, q: (p @ q).tril(3) + 1, (P, Q), 1),
    "another order": (lambda x, w, r: (x @ w).T + r.reshape(50, 33), (X, W, R), 1),
    "a part of an axis": (lambda x, w, b: (x @ w).view(33, 5, 10) + b[:10], (X, W, B), 2),
    "repeated": (lambda x, w, b: (x @ w) + b[:3, None, None], (X, W, B), 2),
    "rows": (lambda x, w: (x @ w).softmax(1), (X, W), 2),
}


@pytest.mark.parametrize("name", TABLE)
def test_values_and_dispatches(name: str, steps: list[list[Any]]) -> None:
    function, arrays, count = TABLE[name]
    compiled = cf.compile(function)
    there = [cf.tensor(x, device="webgpu") for x in arrays]
    wanted = function(*map(cf.tensor, arrays))
    for _ in range(2):
        found = compiled(*there)
    assert len(max(steps, key=len)) == count
    pairs = zip(found, wanted) if isinstance(found, tuple) else [(found, wanted)]
    for x, y in pairs:
        assert x.spec == y.spec
        error = 4e-3 if "float16" in name else 2e-5 * arrays[0].shape[1] ** 0.5
        np.testing.assert_allclose(x.numpy(force=True), y.numpy(), error, error)


@pytest.mark.parametrize("arrays", [TALL, TALL_AND_LONG], ids=["one panel", "several panels"])
def test_the_largest_tiles_have_epilogues(
    arrays: tuple[np.ndarray, ...], steps: list[list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wgsl, "BUSY_GROUPS", 1)
    x, w, b = (cf.tensor(y, device="webgpu") for y in arrays)
    found = cf.compile(lambda x, w, b: F.relu(x @ w + b))(x, w, b)
    (step,) = steps[-1]
    assert wgsl.variant_of(step.call).tiling == wide.TILINGS[0]
    error = 2e-5 * arrays[0].shape[1] ** 0.5
    wanted = np.maximum(arrays[0] @ arrays[1] + arrays[2], 0)
    np.testing.assert_allclose(found.numpy(force=True), wanted, error, error)


@pytest.mark.parametrize("shape", [(33, 40), (3, 11, 40)], ids=["matrices", "batches"])
def test_random_masks(shape: tuple[int, ...], steps: list[list[Any]]) -> None:
    """Each element has the word of its place in the result."""

    def function(x: cf.Tensor, w: cf.Tensor) -> cf.Tensor:
        return F.dropout(x @ w, 0.4)

    found = {}
    for place in ("cpu", "webgpu"):
        cf.manual_seed(5)
        x, w = (cf.tensor(y, device=place) for y in (X.reshape(shape), W))
        if len(shape) == 3:
            w = w.expand(3, 40, 50)
        compiled = cf.compile(function)
        found[place] = [compiled(x, w).numpy(force=True) for _ in range(2)]
    assert len(steps[-1]) == fused_steps(steps) == 1
    for here, there in zip(found["cpu"], found["webgpu"]):
        np.testing.assert_array_equal(there == 0, here == 0)
        np.testing.assert_allclose(there, here, 1e-4, 1e-4)


DISPATCHES = {"small": (18, 5), "mlp": (18, 5), "gpt": (166, 26)}
NAMES = ["small", "mlp", pytest.param("gpt", marks=pytest.mark.slow)]


@pytest.mark.parametrize("name", NAMES)
def test_dispatches_of_training_steps(name: str, steps: list[list[Any]]) -> None:
    """Of the benchmarks: biases with activations, and optimizers with the gradients of weights."""
    losses = []
    for place in ("cpu", "webgpu"):
        cf.set_default_device(place)
        try:
            step = with_contraflow.make(models.STEPS[name](), "compiled")
            losses.append([step.values(i) for i in range(2)])
        finally:
            cf.set_default_device(None)
    np.testing.assert_allclose(losses[1], losses[0], rtol=2e-3)
    assert (len(max(steps, key=len)), fused_steps(steps)) == DISPATCHES[name]


def pair(slots: dict[int, Slot], stored: int, between: tuple[int, int] | None = None) -> list[Any]:
    """A product of slots 0 and 1 into 2, a map of that into slot `stored`, and between them another
    map that reads and writes slots."""
    strides = (0, 0, 8, 1)
    product = KernelCall(contraction(float32, float32), (1, 1, 8, 8, 8), (strides,) * 3)
    operands = (Operand(float32, "in", (1,)), Operand(float32, "out", (1,)))
    kernel = loops(1, 0, 0, operands, (), (Store(1, -s.leaf("load", float32, 0), True),))
    negated = KernelCall(kernel, (64,), ((1,), (1,)))
    steps = [KernelStep(product, (Binding(0), Binding(1), Binding(2)))]
    if between is not None:
        steps.append(KernelStep(negated, (Binding(between[0]), Binding(between[1]))))
    steps.append(KernelStep(negated, (Binding(2), Binding(stored))))
    return with_epilogues(steps, [slots[i] for i in range(len(slots))])


def test_a_map_comes_earlier_only_where_nobody_notices() -> None:
    given = {i: Slot("input", float32, 64) for i in range(6)}
    given[2] = Slot("temp", float32, 64, arena=0)
    assert len(pair(given, 3)) == 1
    assert len(pair(given, 3, (4, 5))) == 2
    assert len(pair(given, 0)) == 2  # the product reads it to the end
    assert len(pair(given, 3, (3, 4))) == 3  # the step between reads what the map writes
    assert len(pair(given, 3, (4, 3))) == 3  # or writes it
    assert len(pair(given, 3, (4, 2))) == 3  # or writes what the map reads
    taken = given | {1: Slot("temp", float32, 64, arena=1), 3: Slot("temp", float32, 64, arena=1)}
    assert len(pair(taken, 3)) == 2  # one memory, of which the product would read what is written
    (joined,) = pair(given, 3)
    assert not joined.call.kernel.keeps
    (joined, _) = pair(given, 3, (2, 4))
    assert joined.call.kernel.keeps


def test_a_wrong_index_leaves_what_an_epilogue_would_write() -> None:
    weight = cf.tensor(drawn(8, 8), device="webgpu", requires_grad=True)
    table = cf.tensor(drawn(5, 8), device="webgpu")
    optimizer = cf.optim.AdamW([weight], lr=0.1)

    @cf.compile
    def step(tokens: cf.Tensor) -> cf.Tensor:
        optimizer.zero_grad()
        loss = (table[tokens] @ weight).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(2):
        step(cf.tensor([0, 1], device="webgpu")).item()
    before = weight.tolist()
    with pytest.raises(IndexError, match="index 9"):
        step(cf.tensor([0, 9], device="webgpu")).item()
    assert weight.tolist() == before
    step(cf.tensor([0, 1], device="webgpu")).item()
    assert weight.tolist() != before
