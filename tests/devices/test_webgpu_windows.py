"""Tensors larger than what a kernel may bind on the webgpu device, with that limit held small."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import contraflow as cf
import contraflow.nn.functional as F
from contraflow import devices, thresholds
from contraflow.compiler.kernel import KernelCall, Operand, Store, loops
from contraflow.compiler.plan import Binding, KernelStep, Slot
from contraflow.devices.webgpu import windows
from contraflow.expressions import expression as s
from contraflow.runtime import eager_programs

LIMIT = 4096  # bytes: 1024 floats


@pytest.fixture(autouse=True)
def small(webgpu: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A device that binds little of a buffer; and folds are cut as those of large tensors are."""
    monkeypatch.setattr(webgpu, "binding", LIMIT)
    webgpu.release_unused()
    with thresholds.using(long_fold=512, fold_part=64):
        eager_programs.forget()
        yield webgpu
    eager_programs.forget()


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


X, Y, Z = drawn(5000), drawn(70, 90, seed=1), drawn(3, 40, 50, seed=2)
TABLE: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "map": (lambda x: x.exp() * 2 + x, (X,)),
    "map of two": (lambda x, y: x * y - x, (X, X[::-1].copy())),
    "broadcast row": (lambda x, y: x + y, (Y, Y[0])),
    "broadcast column": (lambda x, y: x * y, (Y, Y[:, :1].copy())),
    "transposed": (lambda x: (x.T * 2).contiguous(), (Y,)),
    "permuted": (lambda x: x.permute(2, 0, 1).clone(), (Z,)),
    "strided part": (lambda x: x[3::7] + 1, (X,)),
    "cast": (lambda x: (x * 100).int(), (X,)),
    "to bool": (lambda x: x > 0, (X,)),
    "half": (lambda x: x.half(), (X,)),
    "fill": (lambda x: cf.full((3000,), 2.5, device=x.device), (X,)),
    "arange": (lambda x: cf.arange(3000, device=x.device), (X,)),
    "where": (lambda x: cf.where(x > 0, x, -x), (X,)),
    "sum": (lambda x: x.sum(), (X,)),
    "mean of rows": (lambda x: x.mean(1), (Y,)),
    "sum of columns": (lambda x: x.sum(0), (drawn(1200, 4),)),
    "sum in the middle": (lambda x: x.sum(1), (drawn(30, 10, 8),)),
    "largest": (lambda x: x.amax(1), (Y,)),
    "variance": (lambda x: x.var(1), (Y,)),
    "softmax": (lambda x: x.softmax(1), (Y,)),
    "layer norm": (lambda x: F.layer_norm(x, (90,)), (Y,)),
    "argmax of rows": (lambda x: x.argmax(1), (Y,)),
    "product": (lambda x, y: x @ y, (Y, drawn(90, 6, seed=3))),
    "product of many columns": (lambda x, y: x @ y, (drawn(6, 8, seed=4), drawn(8, 600, seed=5))),
    "product, turned": (lambda x, y: x.T @ y, (drawn(9, 600, seed=6), drawn(9, 5, seed=7))),
    "product over many": (lambda x, y: x @ y, (drawn(1, 5000), drawn(5000, 1))),
    "batched product": (lambda x, y: x @ y, (Z, drawn(3, 50, 4, seed=8))),
    "float16 product": (lambda x, y: x.half() @ y.half(), (Y, drawn(90, 6, seed=3))),
    "in place": (lambda x: x.clone().add_(1).mul_(x), (X,)),
    "part in place": (lambda x: x.clone()[1000:4500].mul_(2), (X,)),
}


@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize("name", TABLE)
def test_values_are_those_of_the_cpu(name: str, mode: str) -> None:
    function, arrays = TABLE[name]
    there = [cf.tensor(x, device="webgpu") for x in arrays]
    found = (cf.compile(function) if mode == "compiled" else function)(*there)
    wanted = function(*map(cf.tensor, arrays))
    assert found.spec == wanted.spec
    error = 2e-2 if wanted.dtype is cf.float16 else 1e-5
    np.testing.assert_allclose(found.numpy(force=True), wanted.numpy(), error, error)


def test_gradients_are_those_of_the_cpu() -> None:
    def gradients(place: str) -> list[np.ndarray]:
        x, w = (cf.tensor(a, device=place, requires_grad=True) for a in (Y, drawn(90, 60, seed=9)))
        F.gelu(x @ w).square().mean().backward()
        return [x.grad.numpy(force=True), w.grad.numpy(force=True)]

    for found, wanted in zip(gradients("webgpu"), gradients("cpu")):
        np.testing.assert_allclose(found, wanted, 1e-4, 1e-6)


def test_random_numbers_are_those_of_the_cpu() -> None:
    found = []
    for place in ("cpu", "webgpu"):
        cf.manual_seed(11)
        whole, integers = cf.rand(5000, device=place), cf.randint(9, (3000,), device=place)
        found.append([whole.tolist(), integers.tolist()])
    assert found[0] == found[1]


def test_a_training_run_follows_the_cpu(small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small, "binding", 1 << 14)

    def losses(place: str) -> list[float]:
        cf.manual_seed(1)
        model = cf.nn.Sequential(cf.nn.Linear(40, 48), cf.nn.ReLU(), cf.nn.Linear(48, 5)).to(place)
        optimizer = cf.optim.AdamW(model.parameters(), lr=1e-2)
        x, y = cf.randn(200, 40).to(place), cf.randint(5, (200,)).to(place)

        @cf.compile
        def step() -> cf.Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        return [step().item() for _ in range(5)]

    with thresholds.using(long_fold=128):
        np.testing.assert_allclose(losses("webgpu"), losses("cpu"), rtol=1e-4)


REFUSAL = (
    r": its kernel needs [\d,]+ bytes of one tensor at a time, and this adapter of webgpu lets it "
    r"have 3,840\. Use smaller batches, parts of the tensor, or the cpu: device='cpu', at test_"
)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("getitem", lambda x: x[cf.tensor([1, 4999], device="webgpu")]),  # anywhere
        ("sum", lambda x: x.reshape(50, 100).sum(0)),  # all for each column, which is short
        ("matmul", lambda x: x.reshape(1, 5000).int() @ x.reshape(5000, 1).int()),
        ("cumsum", lambda x: x.cumsum(0)),
        ("flip", lambda x: x.flip(0)),
        ("cat", lambda x: cf.cat([x, x])),
    ],
)
def test_what_needs_all_of_a_tensor_at_a_time_is_refused(name: str, function: Any) -> None:
    x = cf.tensor(X, device="webgpu")
    with pytest.raises(cf.DeviceError, match=f"^{name}{REFUSAL}"):
        function(x)
    np.testing.assert_array_equal(x.numpy(force=True), X)


def test_parts_are_all_of_a_call_and_fit() -> None:
    operands = (Operand(cf.float32, "in", (1,)), Operand(cf.float32, "out", (1,)))
    kernel = loops(1, 0, 0, operands, (), (Store(1, s.leaf("load", cf.float32, 0), True),))
    step = KernelStep(KernelCall(kernel, (5000,), ((1,), (1,))), (Binding(0, 10), Binding(1)))
    slots = [Slot("input", cf.float32, 5010), Slot("output", cf.float32, 5000)]
    parts = windows.divided([step], slots, LIMIT)
    assert len(parts) == 8
    sizes = [part.call.sizes[0] for part in parts]
    assert sum(sizes) == 5000
    starts = list(itertools.accumulate(sizes, initial=0))[:-1]
    bound = [(Binding(0, 10 + n), Binding(1, n)) for n in starts]
    assert [part.bindings for part in parts] == bound
    for part in parts:
        first, end = windows.extent(part, slots, 0)
        assert 4 * (end - first) <= LIMIT - windows.ALIGNED
    (whole,) = windows.divided([step], slots, 1 << 20)
    assert (whole.call, whole.bindings) == (step.call, step.bindings)


def test_a_step_of_very_many_points_is_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "POINTS", 1000)
    monkeypatch.setattr(devices.lookup("webgpu"), "binding", 1 << 20)
    assert (cf.tensor(X, device="webgpu") + 1).tolist() == (cf.tensor(X) + 1).tolist()
