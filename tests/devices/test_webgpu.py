"""The webgpu device: transfers, memory, wrong indices and small training runs."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import contraflow as cf
import contraflow.nn.functional as F
from contraflow.devices.webgpu import device as module

pytestmark = pytest.mark.usefixtures("webgpu")


@pytest.mark.parametrize(
    "array",
    [
        np.float32(2.5),
        np.arange(7, dtype=np.float32),
        np.array([[True, False, True]]),
        np.array([-5, 2**31 - 1, -(2**31)]),
        np.array([3, -4], np.int32),
        np.zeros((0, 3), np.float32),
        np.array([np.nan, np.inf, -0.0, 1e-40], np.float32),
    ],
    ids=repr,
)
def test_elements_come_back_as_they_went(array):
    x = cf.tensor(array)
    y = x.to("webgpu")
    assert str(y.device) == "webgpu"
    assert y.spec == x.spec
    np.testing.assert_array_equal(y.cpu().numpy(), x.numpy())


def test_transfers_larger_than_what_is_staged_at_once(monkeypatch):
    monkeypatch.setattr(module, "_STAGED", 4096)
    array = np.arange(5000, dtype=np.float32)
    np.testing.assert_array_equal(cf.tensor(array, device="webgpu").numpy(force=True), array)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(2), r"^to: float64 is not a dtype of webgpu.*x\.to\(contraflow\.float32\)\.$"),
        (np.zeros(2, np.uint8), r"^to: uint8 is not a dtype of webgpu.*contraflow\.int32\)\.$"),
        (np.array([1, 2**31]), r"^to: webgpu holds int64 in 32 bits, and 2147483648 does not fit"),
        (np.array([-(2**40)]), "does not fit"),
    ],
)
def test_what_it_cannot_hold_is_refused(array, message):
    with pytest.raises(cf.DeviceError, match=message):
        cf.tensor(array, device="webgpu")


def test_memory_is_used_again(webgpu):
    cf.ones(1000, device="webgpu").sum().item()
    gc.collect()
    reserved = webgpu.pool.reserved
    for _ in range(100):
        x = cf.ones(1000, device="webgpu")
        x = x + 1
    assert x[0].item() == 2.0
    assert webgpu.pool.reserved <= reserved + 64 * 1024


def test_an_upload_waits_for_kernels_that_use_its_memory(webgpu):
    """They are queued, and bytes would be written at once."""
    x = cf.ones(512, device="webgpu")
    total = x.sum()
    x = x * 3
    later = (x + 1).sum()
    del x
    many = [cf.tensor(np.full(512, 7, np.float32), device="webgpu") for _ in range(8)]
    assert total.item() == 512.0
    assert later.item() == 512 * 4.0
    assert all(y.sum().item() == 512 * 7.0 for y in many)


def test_a_wrong_index_is_an_error_of_the_op_and_its_line():
    x = cf.ones(4, 3, device="webgpu")
    with pytest.raises(IndexError, match=r"^getitem: index 7 is out of range.*size 4"):
        x[cf.tensor([0, 7], device="webgpu")]
    assert x[cf.tensor([0, 3], device="webgpu")].sum().item() == 6.0


def test_a_step_that_fails_changes_nothing():
    table = cf.nn.Embedding(5, 4).to("webgpu")
    optimizer = cf.optim.SGD(table.parameters(), lr=0.1)

    @cf.compile
    def step(tokens):
        optimizer.zero_grad()
        loss = table(tokens).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(3):
        step(cf.tensor([0, 1, 2], device="webgpu"))
    before = table.weight.tolist()
    with pytest.raises(IndexError, match=r"embedding: index 9 .* at test_webgpu.py:\d+"):
        step(cf.tensor([0, 9, 2], device="webgpu")).item()
    assert table.weight.tolist() == before
    step(cf.tensor([0, 1, 2], device="webgpu"))
    assert table.weight.tolist() != before


def test_parts_of_one_buffer_are_read_and_written():
    """No kernel may bind one buffer for both."""

    def both(place: str) -> list[float]:
        whole = cf.arange(12.0, device=place)
        a, b = whole[:6], whole[6:]

        @cf.compile
        def f(x, y):
            x.add_(y * 2)
            y.mul_(x)

        for _ in range(3):
            f(a, b)
        return whole.tolist()

    assert both("webgpu") == both("cpu")


def models():
    def mlp():
        return cf.nn.Sequential(
            cf.nn.Linear(6, 16), cf.nn.GELU(), cf.nn.LayerNorm(16), cf.nn.Dropout(0.1),
            cf.nn.Linear(16, 4),
        )  # fmt: skip

    def convolutions():
        return cf.nn.Sequential(
            cf.nn.Unflatten(1, (1, 2, 3)), cf.nn.Conv2d(1, 4, 2, padding=1), cf.nn.BatchNorm2d(4),
            cf.nn.ReLU(), cf.nn.MaxPool2d(2), cf.nn.Flatten(), cf.nn.Linear(8, 4),
        )  # fmt: skip

    return {"mlp": mlp, "convolutions": convolutions}


def losses(place: str, make, mode: str) -> list[float]:
    cf.manual_seed(3)
    model = make().to(place)
    optimizer = cf.optim.AdamW(model.parameters(), lr=1e-2)
    rng = np.random.default_rng(5)
    x = cf.tensor(rng.standard_normal((12, 6)).astype(np.float32), device=place)
    y = cf.tensor(rng.integers(0, 4, 12), device=place)

    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        cf.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    run = cf.compile(step) if mode == "compiled" else step
    return [run().item() for _ in range(8)]


@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize("name", models())
def test_a_training_run_follows_the_cpu(name, mode):
    make = models()[name]
    expected = losses("cpu", make, mode)
    np.testing.assert_allclose(losses("webgpu", make, mode), expected, rtol=2e-4)
    assert expected[-1] < expected[0]


@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_a_transformer_follows_the_cpu(mode):
    def run(place: str) -> list[float]:
        cf.manual_seed(0)
        model = cf.nn.Sequential(
            cf.nn.Embedding(7, 8), cf.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
            cf.nn.Linear(8, 7),
        ).to(place)  # fmt: skip
        optimizer = cf.optim.AdamW(model.parameters(), lr=1e-2)
        tokens = cf.randint(7, (2, 5)).to(place)

        def step(tokens):
            optimizer.zero_grad()
            out = model(tokens[:, :-1])
            loss = F.cross_entropy(out.flatten(0, 1), tokens[:, 1:].flatten())
            loss.backward()
            optimizer.step()
            return loss

        run = cf.compile(step) if mode == "compiled" else step
        return [run(tokens).item() for _ in range(6)]

    np.testing.assert_allclose(run("webgpu"), run("cpu"), rtol=1e-3)


def test_random_numbers_are_those_of_the_cpu():
    drawn = []
    for place in ("cpu", "webgpu"):
        cf.manual_seed(11)
        drawn.append(
            [
                cf.rand(100, device=place).tolist(),
                cf.randint(50, (100,), device=place).tolist(),
                cf.bernoulli(cf.full((100,), 0.3, device=place)).tolist(),
            ]
        )
    assert drawn[0] == drawn[1]
    for n in (0, 1, 7, 3000):
        orders = []
        for place in ("cpu", "webgpu"):
            cf.manual_seed(n)
            orders.append([cf.randperm(n, device=place).tolist() for _ in range(2)])
        assert orders[0] == orders[1]
    normals = []
    for place in ("cpu", "webgpu"):
        cf.manual_seed(12)
        normals.append(cf.randn(4000, device=place).numpy(force=True))
    np.testing.assert_array_max_ulp(normals[0], normals[1], 4)


@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_gradients_of_attention_that_are_parts_of_one_value(mode):
    """No kernel may write two parts of one buffer by two of its operands."""

    def gradient(place: str) -> np.ndarray:
        drawn = np.random.default_rng(5).standard_normal((2, 16, 3, 2, 8)).astype(np.float32)
        x = cf.tensor(drawn, device=place, requires_grad=True)

        def loss(x):
            q, k, v = ((x * 2)[:, :, i].swapaxes(1, 2) for i in range(3))
            return F.scaled_dot_product_attention(q, k, v, is_causal=True).square().sum()

        def both(x):
            return cf.autograd.grad(loss(x), [x])[0]

        return (cf.compile(both) if mode == "compiled" else both)(x).numpy(force=True)

    np.testing.assert_allclose(gradient("webgpu"), gradient("cpu"), rtol=1e-4, atol=2e-4)
