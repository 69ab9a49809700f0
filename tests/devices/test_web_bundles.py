"""Bundles that `export_web` writes: their plans, replayed by wgpu, do what Python does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.web_bundle import Bundle

import contraflow as cf
import contraflow.nn.functional as F
from contraflow.capture.web import numbers

pytestmark = pytest.mark.usefixtures("webgpu")
RUNTIME = Path(numbers.__file__).with_name("contraflow.js")


class Trainer:
    """A small network with all that a step may have: random numbers, indices, counters."""

    def __init__(self, device: str = "webgpu") -> None:
        cf.manual_seed(3)
        self.model = cf.nn.Sequential(
            cf.nn.Embedding(11, 8), cf.nn.Flatten(), cf.nn.Linear(24, 16), cf.nn.BatchNorm1d(16),
            cf.nn.GELU(), cf.nn.Dropout(0.25), cf.nn.Linear(16, 5),
        ).to(device)  # fmt: skip
        self.optimizer = cf.optim.AdamW(self.model.parameters(), lr=0.01)

    @cf.compile
    def step(self, tokens, labels):
        self.optimizer.zero_grad()
        logits = self.model(tokens)
        loss = F.cross_entropy(logits, labels)
        loss.backward()
        self.optimizer.step()
        return {"loss": loss, "logits": logits.detach()}


def batches(count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    random = np.random.default_rng(0)
    return [(random.integers(0, 11, (6, 3)), random.integers(0, 5, 6)) for _ in range(count)]


def on_webgpu(*arrays: np.ndarray) -> list[cf.Tensor]:
    return [cf.tensor(array, device="webgpu") for array in arrays]


def test_a_training_step_goes_on_as_in_python(webgpu, tmp_path):
    trainer = Trainer()
    data = batches(6)
    for tokens, labels in data[:2]:
        trainer.step(*on_webgpu(tokens, labels))
    trainer.step.export_web(tmp_path)
    assert "product_" in (tmp_path / "kernels.wgsl").read_text()  # with the map behind it
    bundle = Bundle(tmp_path, webgpu.wgpu_device)
    for number, (tokens, labels) in enumerate(data[2:]):
        if number == 2:
            trainer.optimizer.param_groups[0]["lr"] = 0.002
            bundle.write(bundle.find("step", "optimizer.lr"), 0.002)
        expected = trainer.step(*on_webgpu(tokens, labels))
        bundle.run("step", tokens=tokens, labels=labels)
        for name in ("loss", "logits"):
            np.testing.assert_array_equal(
                bundle.read("step", name), expected[name].numpy(force=True)
            )
    for name, t in trainer.model.state_dict().items():
        np.testing.assert_array_equal(bundle.read("step", f"model.{name}"), t.numpy(force=True))
    weight = trainer.model[6].weight
    np.testing.assert_array_equal(
        bundle.read("step", "model.6.weight.grad"), weight.grad.numpy(force=True)
    )
    averages = trainer.optimizer.state[weight]["exp_avg"]
    np.testing.assert_array_equal(
        bundle.read("step", "model.6.weight.exp_avg"), averages.numpy(force=True)
    )
    assert bundle.read("step", "optimizer.step") == 6
    assert bundle.read("step", "random.offset") == cf.get_rng_state()[1]


def test_a_wrong_index_is_told_as_in_python_and_changes_nothing(webgpu, tmp_path):
    trainer = Trainer()
    (tokens, labels), _ = batches(2)
    trainer.step(*on_webgpu(tokens, labels))
    trainer.step.export_web(tmp_path)
    bundle = Bundle(tmp_path, webgpu.wgpu_device)
    for wrong in (11, 400, -1, -7):
        bad = tokens.copy()
        bad[2, 1] = wrong
        with pytest.raises(IndexError) as expected:
            trainer.step(*on_webgpu(bad, labels))["loss"].item()
        with pytest.raises(IndexError) as found:
            bundle.run("step", tokens=bad, labels=labels)
        assert str(found.value) == str(expected.value)
    assert bundle.read("step", "optimizer.step") == 1
    before = trainer.model[2].weight.numpy(force=True)
    np.testing.assert_array_equal(bundle.read("step", "model.2.weight"), before)


def test_functions_that_are_exported_together_share_their_state(webgpu, tmp_path):
    model = cf.nn.Linear(3, 2).to("webgpu")

    @cf.compile
    def halve():
        with cf.no_grad():
            model.weight.mul_(0.5)

    @cf.compile
    def predict(x):
        return model(x)

    x = np.ones((4, 3), np.float32)
    halve()
    predict(*on_webgpu(x))
    halve.export_web(tmp_path, predict)
    bundle = Bundle(tmp_path, webgpu.wgpu_device)
    bundle.run("halve")
    bundle.run("predict", x=x)
    halve()
    expected = predict(*on_webgpu(x)).numpy(force=True)
    np.testing.assert_array_equal(bundle.read("predict", "result"), expected)


def test_views_numbers_and_containers(webgpu, tmp_path):
    shift = cf.tensor([1.0, 2.0], device="webgpu")

    @cf.compile
    def f(pair, scale, unused):
        a, b = pair["a"], pair["b"]
        return (a.T @ b) * scale + shift, b[:, 1], pair["a"], 3

    a = np.arange(12, dtype=np.float32).reshape(4, 3)
    b = np.arange(8, dtype=np.float32).reshape(4, 2)

    def call(scale: float) -> tuple[cf.Tensor, ...]:
        first, second = on_webgpu(a.T.copy(), b)
        return f({"a": first.T, "b": second}, scale, cf.ones(2, device="webgpu"))

    call(2.0)
    f.export_web(tmp_path)
    bundle = Bundle(tmp_path, webgpu.wgpu_device)
    assert bundle.plan["programs"]["f"]["tensors"]["unused"]["role"] == "unused"
    bundle.run("f", **{"pair['a']": a, "pair['b']": b, "scale": 0.5})
    product, column, same, three = call(0.5)
    np.testing.assert_array_equal(bundle.read("f", "result[0]"), product.numpy(force=True))
    np.testing.assert_array_equal(bundle.read("f", "result[1]"), column.numpy(force=True))
    np.testing.assert_array_equal(bundle.read("f", "result[2]"), same.numpy(force=True))
    assert bundle.read("f", "result[3]") == three == 3
    np.testing.assert_array_equal(bundle.read("f", "shift"), shift.numpy(force=True))


def test_quotients_and_remainders_of_numbers(webgpu, tmp_path):
    """The host computes them, which has float64."""
    weight = cf.ones(2, device="webgpu", requires_grad=True)
    optimizer = cf.optim.SGD([weight], lr=1.0)

    @cf.compile
    def f():
        lr = optimizer.param_groups[0]["lr"]
        return weight.detach() * (lr // 0.1) + lr % 0.3

    def expected(lr: float) -> list[float]:
        return [float(np.float32(lr // 0.1) + np.float32(lr % 0.3))] * 2

    assert f().tolist() == expected(1.0)
    f.export_web(tmp_path)
    bundle = Bundle(tmp_path, webgpu.wgpu_device)
    for lr in (0.7, -0.6, 3.0):
        bundle.write(bundle.find("f", "optimizer.lr"), lr)
        bundle.run("f")
        assert bundle.read("f", "result").tolist() == pytest.approx(expected(lr), rel=1e-6)


def test_gradients_that_are_added_up(webgpu, tmp_path):
    w = cf.ones(3, device="webgpu", requires_grad=True)

    @cf.compile
    def accumulate(x):
        (w * x).sum().backward()

    x = np.array([1, 2, 3], np.float32)
    accumulate(*on_webgpu(x))
    with pytest.raises(cf.CaptureError, match=r"adds to the gradients .* call it twice"):
        accumulate.export_web(tmp_path)
    assert not list(tmp_path.iterdir())
    accumulate(*on_webgpu(x))
    accumulate.export_web(tmp_path)
    bundle = Bundle(tmp_path, webgpu.wgpu_device)
    for _ in range(2):
        bundle.run("accumulate", x=x)
    np.testing.assert_array_equal(bundle.read("accumulate", "w.grad"), 4 * x)


def test_random_numbers_go_on_where_python_stood(webgpu, tmp_path):
    @cf.compile
    def draw():
        return cf.rand(5, device="webgpu"), cf.randint(0, 100, (4,), device="webgpu")

    cf.manual_seed(-(2**40) - 5)
    draw()
    draw.export_web(tmp_path)
    bundle = Bundle(tmp_path, webgpu.wgpu_device)
    for _ in range(2):
        bundle.run("draw")
        for i, expected in enumerate(draw()):
            np.testing.assert_array_equal(
                bundle.read("draw", f"result[{i}]"), expected.numpy(force=True)
            )


def test_a_compiled_module(webgpu, tmp_path):
    model = cf.compile(cf.nn.Sequential(cf.nn.Linear(2, 3), cf.nn.ReLU()).to("webgpu"))
    x = np.ones((2, 2), np.float32)
    expected = model(*on_webgpu(x)).numpy(force=True)
    model.export_web(tmp_path)
    bundle = Bundle(tmp_path, webgpu.wgpu_device)
    (name,) = bundle.plan["programs"]
    assert {"0.weight", "0.bias"} <= bundle.plan["state"].keys()
    (given,) = bundle.plan["programs"][name]["tensors"]
    bundle.run(name, **{given: x})
    np.testing.assert_array_equal(bundle.read(name, "result"), expected)


# --- refusals ------------------------------------------------------------------------------------


def test_a_function_that_was_not_called(tmp_path):
    @cf.compile
    def f(x):
        return x

    with pytest.raises(cf.CaptureError, match=r"compile\(f\): no program is kept.*Call it first"):
        f.export_web(tmp_path)


def test_a_function_of_another_device(tmp_path):
    @cf.compile
    def f(x):
        return x + 1

    f(cf.ones(2))
    with pytest.raises(cf.DeviceError, match=r"export_web\(f\): its last call ran on cpu, .*to\('"):
        f.export_web(tmp_path)


def test_python_state_and_numbers(tmp_path):
    seen = []

    @cf.compile
    def appends(x):
        seen.append(x.sum())
        return x + 1

    @cf.compile
    def halves(x, n):
        return x * (n / 2)

    x = cf.ones(2, device="webgpu")
    appends(x)
    halves(x, 3.0)
    with pytest.raises(cf.CaptureError, match=r"export_web\(appends\).*Python's state, seen.*Retu"):
        appends.export_web(tmp_path)
    with pytest.raises(cf.CaptureError, match=r"export_web\(halves\): Python computes with a numb"):
        halves.export_web(tmp_path)


def test_float16(tmp_path):
    @cf.compile
    def f(x):
        return (x.half() * 2).float()

    f(cf.ones(2, device="webgpu"))
    with pytest.raises(
        cf.CaptureError, match=r"export_web\(f\): it has values of float16, .*float\("
    ):
        f.export_web(tmp_path)


def test_what_is_exported_beside_it(tmp_path):
    @cf.compile
    def f(x):
        return x + 1

    @cf.compile(name="f")
    def g(x):
        return x + 2

    x = cf.ones(2, device="webgpu")
    f(x)
    g(x)
    with pytest.raises(ValueError, match=r"two functions are called f; .*name=\.\.\.\)"):
        f.export_web(tmp_path, g)
    with pytest.raises(TypeError, match=r"function is not a compiled function\. Comp"):
        f.export_web(tmp_path, lambda x: x)


# --- files ---------------------------------------------------------------------------------------


def test_the_module_has_the_functions_that_plans_may_name():
    text = RUNTIME.read_text()
    table = text[text.index("const FUNCTIONS = {") :].split("\n};")[0]
    assert set(re.findall(r"^  (\w+):", table, re.MULTILINE)) == numbers.FUNCTIONS


def test_nothing_is_fetched_from_elsewhere():
    assert not re.findall(r"https?://", RUNTIME.read_text())


def test_the_files_of_a_bundle(tmp_path):
    @cf.compile
    def f(x):
        return x + 1

    f(cf.ones(2, device="webgpu"))
    folder = tmp_path / "made" / "anew"
    f.export_web(str(folder))
    names = {"plan.json", "kernels.wgsl", "weights.bin", "contraflow.js"}
    assert {path.name for path in folder.iterdir()} == names
    assert folder.joinpath("contraflow.js").read_text() == RUNTIME.read_text()
    plan = json.loads(folder.joinpath("plan.json").read_text())
    assert plan["programs"]["f"]["results"]["result"]["shape"] == [2]
