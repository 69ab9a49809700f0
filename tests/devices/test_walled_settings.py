"""Every op on the walled device in its other settings.

Within the limits of WebGPU: few bindings, none of them aliases, no float64. Asynchronous: programs
run when something waits for them. Graph: addresses are frozen when a program is bound to them.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest
from tests.devices.test_walled_ops import (
    CASES,
    applied,
    differentiable,
    fits,
    gradients,
    skip_host_op,
)
from tests.helpers.walled import WEBGPU, AsynchronousDevice, GraphDevice, WalledDevice, opened

import contraflow as cf
from contraflow.operation.context import changed
from contraflow.testing import assert_close, make_inputs

# The first sample of each op, and the others in `make test-all`.
SAMPLES = [
    pytest.param(*case.values, id=case.id, marks=() if case.id.endswith("-0") else pytest.mark.slow)
    for case in CASES
]


SETTINGS = {
    "webgpu": functools.partial(WalledDevice, limits=WEBGPU),
    "asynchronous": AsynchronousDevice,
    "graph": GraphDevice,
}


@pytest.fixture(scope="module", params=SETTINGS)
def device(request):
    with opened(SETTINGS[request.param]) as found:
        yield found


@pytest.mark.parametrize(("op", "sample"), SAMPLES)
def test_op(op, sample, device):
    inputs = make_inputs(sample, dtype=cf.float32)
    here = [cf.tensor(x) if isinstance(x, np.ndarray) else x for x in inputs]
    expected = applied(op, here, sample.params)
    met = [x.dtype.name for x in (*here, *expected) if isinstance(x, cf.Tensor)]
    if not device.limits.lacks.isdisjoint(met):
        with pytest.raises(cf.DeviceError, match="is not a dtype of walled"):
            check(op, sample, here, expected)
        return
    if device.limits.int64_bits < 64 and not all(map(fits, expected)):
        if op.name in ("full", "integers"):
            pytest.skip("the functions that apply it check numbers given: test_narrow_integers.py")
        with pytest.raises(OverflowError, match="does not fit the 32 bits that int64 has"):
            check(op, sample, here, expected)
        return
    try:
        check(op, sample, here, expected)
    except cf.DeviceError as error:
        skip_host_op(error)


def check(op, sample, here, expected) -> None:
    """Value and gradients as on the cpu."""
    there = [x.to("walled") if isinstance(x, cf.Tensor) else x for x in here]
    with changed(device="walled"):
        found = applied(op, there, sample.params)
    for x, y in zip(found, expected, strict=True):
        assert_close(x.cpu(), y)
    wrt = differentiable(op, make_inputs(sample))
    if wrt and any(o.dtype.is_floating_point for o in expected):
        for x, y in zip(
            gradients(op, there, sample.params, wrt)[0],
            gradients(op, here, sample.params, wrt)[0],
            strict=True,
        ):
            assert (x is None) == (y is None)
            if x is not None:
                assert_close(x.cpu(), y, 1e-3, 1e-5)


def test_a_model_trains(device):
    losses = []
    for place in ("cpu", "walled"):
        cf.manual_seed(0)
        model = cf.nn.Sequential(
            cf.nn.Embedding(7, 8), cf.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
            cf.nn.Linear(8, 7),
        ).to(place)  # fmt: skip
        optimizer = cf.optim.AdamW(model.parameters(), lr=1e-2)
        tokens = cf.randint(7, (2, 5)).to(place)

        @cf.compile
        def step(tokens, model=model, optimizer=optimizer):
            optimizer.zero_grad()
            out = model(tokens[:, :-1])
            loss = cf.nn.functional.cross_entropy(out.flatten(0, 1), tokens[:, 1:].flatten())
            loss.backward()
            optimizer.step()
            return loss

        losses.append([step(tokens).item() for _ in range(6)])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-3)


def test_a_compiled_step_is_bound_to_few_addresses():
    def losses(place: str) -> list[float]:
        weight = cf.ones(3, device=place, requires_grad=True)
        optimizer = cf.optim.SGD([weight], lr=0.1, momentum=0.9)

        @cf.compile
        def step(x):
            optimizer.zero_grad()
            loss = (weight * x).square().sum()
            loss.backward()
            optimizer.step()
            return loss

        x, found = cf.ones(3, device=place), []
        for i in range(12):
            bound.append(device.binds)
            optimizer.param_groups[0]["lr"] = 0.1 / (i + 1)
            found.append(step(x).item())
        assert step.captures == 1
        return found

    with opened(functools.partial(GraphDevice, "bound"), "bound") as device:
        bound: list[int] = []
        expected = losses("cpu")
        np.testing.assert_allclose(losses("bound"), expected, rtol=1e-5)
        assert bound[-1] == bound[-8] > 0


def test_numbers_of_the_cpu_need_no_dtype_of_the_device():
    limits = functools.partial(WalledDevice, "small", WEBGPU)
    with opened(limits, "small"):
        x = cf.ones(3, device="small") * cf.tensor(0.5, dtype=cf.float64)
        assert x.dtype is cf.float32
        assert x.tolist() == [0.5] * 3


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_gradients_are_scaled_on_a_device_without_float64(compiled):
    found = []
    for place in ("cpu", "narrow"):
        with opened(lambda: WalledDevice("narrow", WEBGPU), "narrow"):
            w = cf.tensor([1.0, -2.0, 3.0], device=place, requires_grad=True)
            optimizer = cf.optim.SGD([w], lr=0.1)
            scaler = cf.amp.GradScaler(place, init_scale=1536.0, growth_interval=2)

            def step(x, w=w, optimizer=optimizer, scaler=scaler):
                optimizer.zero_grad()
                scaler.scale((w * w * x).sum()).backward()
                scaler.unscale_(optimizer)
                scaler.step(optimizer)
                scaler.update()

            run = cf.compile(step) if compiled else step
            for factor in (1.0, 0.5, float("inf"), 2.0):
                run(cf.full((3,), factor, device=place))
            found.append((w.tolist(), scaler.get_scale()))
    assert found[1] == (pytest.approx(found[0][0]), found[0][1])


def test_autocast_is_refused_on_a_device_without_the_dtype():
    with opened(lambda: WalledDevice("narrow", WEBGPU._replace(lacks=("float16",))), "narrow"):
        with pytest.raises(
            cf.DeviceError,
            match=r"^autocast: float16 is not a dtype of narrow. Leave autocast out, or give it "
            r"enabled=False: narrow computes in float32.$",
        ):
            cf.autocast("narrow")
        with cf.autocast("narrow", enabled=False):
            assert (cf.ones(2, 2, device="narrow") @ cf.ones(2, 2, device="narrow")).sum() == 8.0
        cf.autocast("narrow", cf.bfloat16)


def test_autocast_concerns_ops_on_every_device():
    with opened(lambda: WalledDevice("other"), "other"), cf.autocast("cpu", cf.bfloat16):
        for place in ("cpu", "other"):
            x = cf.ones(2, 2, device=place)
            assert (x @ x).dtype is cf.bfloat16
