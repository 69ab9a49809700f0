"""float16 on the webgpu device: stored in two bytes, computed in float32 and rounded as on the cpu.

`make test` tries the first sample of every fifth op, `make test-all` all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.devices.test_walled_ops import CASES, applied, differentiable, skip_host_op
from tests.devices.test_webgpu_ops import fits
from tests.devices.test_webgpu_products import SIZES, tiling  # noqa: F401 (a fixture)

import contraflow as cf
import contraflow.nn.functional as F
from contraflow.autograd import grad
from contraflow.compiler.kernel import KernelCall, Operand, Store, loops
from contraflow.compiler.plan import Binding, KernelStep, Plan, Slot
from contraflow.devices.webgpu import adapters
from contraflow.devices.webgpu.device import WebgpuDevice
from contraflow.expressions import expression as s
from contraflow.operation.context import changed, other_devices
from contraflow.operation.op import Op
from contraflow.operation.samples import Sample
from contraflow.render.clike import wgsl
from contraflow.testing import assert_close, make_inputs


@pytest.fixture(autouse=True)
def device(webgpu: Any) -> Any:
    if "float16" in webgpu.limits.lacks:
        pytest.skip(f"{webgpu.description} does not have float16")
    return webgpu


SAMPLES = [
    pytest.param(
        *case.values, id=case.id,
        marks=() if case.id.endswith("-0") and i % 5 == 0 else pytest.mark.slow,
    )
    for i, case in enumerate(CASES)
]  # fmt: skip


# Ops that are given float32 by those that use them.
WIDE = ("attention_gradients", "binomial_quantile")


@pytest.mark.parametrize(("op", "sample"), SAMPLES)
def test_op(op: Op, sample: Sample) -> None:
    inputs = make_inputs(sample, dtype=cf.float16)
    here = [cf.tensor(x) if isinstance(x, np.ndarray) else x for x in inputs]
    if not any(isinstance(x, cf.Tensor) and x.dtype is cf.float16 for x in here):
        pytest.skip("this sample has no floats that could be float16")
    if op.name in WIDE:
        pytest.skip("this op is given float32 by those that use it")
    wrt = differentiable(op, inputs)

    def found(place: str) -> tuple[Any, Any]:
        given = [x.to(place).detach() if isinstance(x, cf.Tensor) else x for x in here]
        for i in wrt:
            given[i].requires_grad_()
        with changed(device=place):
            outs = applied(op, given, sample.params)
        floats = [o for o in outs if o.dtype.is_floating_point and o.requires_grad]
        weights = [cf.full_like(o, 0.5) for o in floats]
        points = [given[i] for i in wrt]
        return outs, grad(floats, points, weights, allow_unused=True) if floats else ()

    try:
        expected = found("cpu")
    except (TypeError, ValueError, NotImplementedError) as error:
        pytest.skip(f"not on the cpu either: {error}")
    met = {x.dtype.name for x in (*here, *expected[0]) if isinstance(x, cf.Tensor)}
    if not wgsl.LIMITS.lacks.isdisjoint(met):
        pytest.skip(f"webgpu does not have all of {', '.join(sorted(met))}")
    if any(x.dtype is cf.int64 and x.numel() and not fits(x) for x in expected[0]):
        pytest.skip("int64 has 32 bits there, and results of this sample have more")
    try:
        outs, gradients = found("webgpu")
    except cf.DeviceError as error:
        skip_host_op(error)
    for x, y in zip((*outs, *gradients), (*expected[0], *expected[1]), strict=True):
        assert (x is None) == (y is None)
        if x is not None:
            assert str(x.device) == "webgpu"
            assert x.spec == y.spec
            error = 4e-3 if x.is_floating_point() else 0.0
            assert_close(x.cpu(), y, error, error)


def test_rounding_is_that_of_ieee_754() -> None:
    """To the nearest, ties to even, below the smallest normal and beyond the largest number too."""
    rng = np.random.default_rng(0)
    drawn = rng.standard_normal(5000) * 10.0 ** rng.integers(-9, 6, 5000)
    edges = [np.nan, np.inf, 65504, 65519.9, 65520, 1e30, 0.0, 2.0**-14, 6e-8, 2.0**-25, 2.99e-8]
    ties = (1 + np.arange(64) / 2048) * 2.0 ** rng.integers(-20, 15, 64)
    x = np.concatenate([drawn, edges, ties, -np.array(edges)]).astype(np.float32)
    with np.errstate(over="ignore"):
        wanted = x.astype(np.float16)
    found = cf.tensor(x, device="webgpu").half().numpy(force=True)
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.isnan(found), ~numbers)
    np.testing.assert_array_equal(found.view(np.uint16)[numbers], wanted.view(np.uint16)[numbers])


def test_each_op_rounds_once() -> None:
    """A sum of two numbers is that of their exact sum, which float32 holds; then it is rounded."""
    x = cf.tensor([2048.0, 1.0, 60000.0], dtype=cf.float16, device="webgpu")
    y = cf.tensor([1.0, 2.0**-11, 60000.0], dtype=cf.float16, device="webgpu")
    assert (x + y).tolist() == [2048.0, 1.0, float("inf")]
    assert ((x + y) - x).tolist() == [0.0, 0.0, float("inf")]


@pytest.mark.parametrize("count", [0, 1, 2, 7, 5001])
def test_elements_come_back_as_they_went(count: int, device: Any) -> None:
    array = np.arange(count).astype(np.float16)
    x = cf.tensor(array, device="webgpu")
    np.testing.assert_array_equal(x.numpy(force=True), array)
    np.testing.assert_array_equal(x.clone().numpy(force=True), array)
    assert x.storage.data.memory.nbytes < max(3 * count, 512)


def test_parts_that_begin_at_odd_elements() -> None:
    def written(place: str) -> list[float]:
        x = cf.arange(9.0, device=place).half()
        x[1:4] += 1
        x[5] = -1
        x[3:7].mul_(2)
        return [*x.tolist(), *cf.cat([x[1:4], x[:3]]).tolist(), *x[1::2].clone().tolist()]

    assert written("webgpu") == written("cpu")


def test_two_parts_that_one_kernel_writes(device: Any) -> None:
    """No kernel may bind one buffer twice: one part is a copy, and copies have whole words."""
    x = s.leaf("load", cf.float16, 0)
    operands = (Operand(cf.float16, "in", (1,)), *[Operand(cf.float16, "out", (1,))] * 2)
    kernel = loops(1, 0, 0, operands, (), (Store(1, x, True), Store(2, -x, True)))
    for size in (4, 3):
        step = KernelStep(
            KernelCall(kernel, (size,), ((1,),) * 3), (Binding(0), Binding(1), Binding(2))
        )
        slots = [Slot("input", cf.float16, size) for _ in range(3)]
        program = device.load(Plan(slots, [step], [], []))
        given = device.upload(np.ones(size, np.float16))
        both = device.upload(np.zeros(12, np.float16))
        parts = [device.address(both) + 2 * at for at in (0, size)]
        if size % 2:
            with pytest.raises(cf.DeviceError, match=r"begins or ends at an odd element.*clone"):
                program.replay([given, *parts], ())
        else:
            program.replay([given, *parts], ())
            assert device.download(both).tolist() == [1.0] * size + [-1.0] * size + [0.0] * 4


@pytest.mark.parametrize(("m", "k", "n"), SIZES)
def test_products(m: int, k: int, n: int, tiling: Any) -> None:  # noqa: F811
    """Sums are carried in float32 to the end, however long they are."""
    rng = np.random.default_rng(m)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((m, k), (k, n)))
    wanted = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float16)
    found = (cf.tensor(a, device="webgpu") @ cf.tensor(b, device="webgpu")).numpy(force=True)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)
    turned = cf.tensor(b.T.copy(), device="webgpu").T
    again = (cf.tensor(a, device="webgpu") @ turned).numpy(force=True)
    np.testing.assert_array_equal(found, again)


@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_training_with_autocast_and_a_scaler_follows_the_cpu(mode: str) -> None:
    def losses(place: str) -> list[float]:
        cf.manual_seed(3)
        model = cf.nn.Sequential(
            cf.nn.Linear(8, 32), cf.nn.GELU(), cf.nn.LayerNorm(32), cf.nn.Linear(32, 4)
        ).to(place)
        optimizer = cf.optim.AdamW(model.parameters(), lr=1e-2)
        scaler = cf.amp.GradScaler(place)
        x, y = cf.randn(32, 8).to(place), cf.randint(4, (32,)).to(place)

        def step() -> cf.Tensor:
            optimizer.zero_grad()
            with cf.autocast(place, dtype=cf.float16):
                out = model(x)
                assert out.dtype is cf.float16
                loss = F.cross_entropy(out, y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            return loss

        run = cf.compile(step) if mode == "compiled" else step
        return [run().item() for _ in range(12)]

    expected = losses("cpu")
    np.testing.assert_allclose(losses("webgpu"), expected, rtol=5e-3)
    assert expected[-1] < 0.7 * expected[0]


def test_a_scaler_skips_a_step_whose_gradients_are_infinite() -> None:
    weight = cf.ones(2, device="webgpu", requires_grad=True)
    optimizer = cf.optim.SGD([weight], lr=0.1)
    scaler = cf.amp.GradScaler("webgpu", init_scale=2.0**16)
    for expected in (2.0**15, 2.0**14):
        optimizer.zero_grad()
        loss = (weight.half() * 4).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == expected
    assert weight.tolist() == [1.0, 1.0]


def test_attention_in_float16() -> None:
    drawn = np.random.default_rng(1).standard_normal((3, 2, 2, 20, 8)).astype(np.float16)

    def run(place: str) -> list[np.ndarray]:
        x = cf.tensor(drawn, device=place, requires_grad=True)
        out = F.scaled_dot_product_attention(*x.unbind(0), is_causal=True)
        out.square().sum().backward()
        return [out.numpy(force=True), x.grad.numpy(force=True)]

    for found, wanted in zip(run("webgpu"), run("cpu")):
        np.testing.assert_allclose(found, wanted, rtol=5e-3, atol=1e-2)


def test_without_the_feature(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapters, "FLOAT16", "a feature that no adapter has")
    without = WebgpuDevice()
    assert "float16" in without.limits.lacks
    text = (
        r"^to: float16 is not a dtype of this adapter, .*Cast it before: x\.to\(contraflow\.float32"
    )
    with pytest.raises(cf.DeviceError, match=text):
        without.upload(np.ones(3, np.float16))
    monkeypatch.setitem(other_devices, "webgpu", without)
    with pytest.raises(
        cf.DeviceError, match=r"^autocast: float16 is not a dtype of webgpu\. Leave"
    ):
        cf.autocast("webgpu")


def test_bfloat16_is_refused_with_what_works() -> None:
    text = r"^autocast: bfloat16 is not a dtype of webgpu\. Use dtype=contraflow\.float16\.$"
    with pytest.raises(cf.DeviceError, match=text):
        cf.autocast("webgpu", dtype=cf.bfloat16)


def test_temporaries_take_two_bytes() -> None:
    used = []
    for dtype in (cf.float32, cf.float16):
        function = cf.compile(lambda x: ((x @ x).softmax(0) @ x).sum())
        function(cf.ones(101, 101, device="webgpu", dtype=dtype))
        used.append(function.memory.temporaries)
    assert used[0] >= 2 * 4 * 101 * 101
    assert used[1] <= used[0] // 2 + 4
