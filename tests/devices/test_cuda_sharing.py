"""A GPU beside other libraries and other processes. Skipped without a GPU, or without them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import contraflow as cf
import contraflow.nn.functional as F
from contraflow import devices
from contraflow.errors import DeviceError


@pytest.fixture(autouse=True, scope="module")
def device():
    try:
        return devices.lookup("cuda")
    except DeviceError as error:
        pytest.skip(str(error))


def test_torch_tensors_come_in_and_go_out_in_the_order_of_streams():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    stream = torch.cuda.Stream()
    for _ in range(20):
        with torch.cuda.stream(stream):
            given = torch.randn(1000, 1000, device="cuda")
            for _ in range(5):
                given = given @ given / 1000  # work that is still to be done
            x = cf.from_dlpack(given)
            y = (x * 2 + 1).sin()
            back = torch.from_dlpack(y)
            assert back.data_ptr() == y.data_ptr()
            torch.testing.assert_close(back, (given * 2 + 1).sin())
    assert x.data_ptr() == given.data_ptr()
    x.add_(1.0)
    cf.cuda.synchronize()
    torch.testing.assert_close(torch.from_dlpack(x), given)


def test_cupy_arrays_come_in_and_go_out():
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    with cupy.cuda.Stream(non_blocking=True):
        given = cupy.arange(12, dtype=cupy.float32).reshape(3, 4)[:, ::2]
        x = cf.from_dlpack(given)
        back = cupy.from_dlpack(x * 3)
        np.testing.assert_array_equal(cupy.asnumpy(back), cupy.asnumpy(given) * 3)
        other = cupy.asarray(x.T)  # by __cuda_array_interface__
        assert other.data.ptr == x.data_ptr()
        np.testing.assert_array_equal(cupy.asnumpy(other), cupy.asnumpy(given).T)
        whole = cupy.asarray(cf.ones(2, 3, device="cuda"))
        np.testing.assert_array_equal(cupy.asnumpy(whole), np.ones((2, 3)))


def test_jax_arrays_come_in_and_go_out(monkeypatch):
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    if jax.default_backend() != "gpu":
        pytest.skip("this JAX has no GPU")
    given = jax.numpy.arange(6.0).reshape(2, 3)
    x = cf.from_dlpack(given)
    back = jax.dlpack.from_dlpack(x + 1)
    np.testing.assert_array_equal(np.asarray(back), np.asarray(given) + 1)


def test_the_array_interface_shows_memory_and_strides():
    x = cf.ones(4, 6, device="cuda")[1:, ::2]
    shown = x.__cuda_array_interface__
    assert shown["shape"] == (3, 3)
    assert shown["typestr"] == "<f4"
    assert shown["strides"] == (24, 8)
    assert shown["data"] == (x.data_ptr(), False)
    assert cf.ones(2, device="cuda").__cuda_array_interface__["strides"] is None
    assert not hasattr(cf.ones(2), "__cuda_array_interface__")
    with pytest.raises(cf.GradientError, match="requires grad, which another library would lose"):
        cf.ones(2, device="cuda", requires_grad=True).__cuda_array_interface__  # noqa: B018


TRAINED = """
import contraflow as cf
from benchmarks.models import STEPS
from tests.devices.test_cuda_training import training
train, batches = training(STEPS["gpt"](), "cuda")
print([train(*batches[k % len(batches)]).item().hex() for k in range(12)])
"""


def test_two_processes_have_the_same_bits():
    found = [
        subprocess.run(
            [sys.executable, "-c", TRAINED], capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    assert found[0] == found[1]
    assert found[0].count("0x1.") == 12


@pytest.mark.parametrize("shift", [0, 1])
def test_a_linear_layer_whose_operands_are_not_aligned(shift):
    random = np.random.default_rng(0)
    x, w, b = (
        cf.tensor(random.standard_normal(shape), dtype=cf.float32)
        for shape in ((33, 40 + shift), (65, 40 + shift), (65 + shift,))
    )
    expected = F.linear(x[:, shift:].double(), w[:, shift:].double(), b[shift:].double())
    there = [t.to("cuda") for t in (x, w, b)]
    found = F.linear(there[0][:, shift:], there[1][:, shift:], there[2][shift:])
    np.testing.assert_allclose(found.cpu().numpy(), expected.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shift", [0, 1, 2])
@pytest.mark.parametrize("dtype", [cf.float32, cf.bfloat16, cf.int64, cf.bool], ids=str)
def test_large_maps_whose_operands_are_not_aligned(shift, dtype):
    x = cf.tensor(np.arange(70001) % 100, dtype=dtype)
    there = x.to("cuda")[shift:]
    for function in (lambda x: x + x, lambda x: x * 2 - 1, lambda x: ~(x == 3)):
        if dtype is cf.bool and function(cf.ones(1)).dtype is not cf.bool:
            continue
        assert (function(there).cpu() == function(x[shift:])).all()
    if dtype is not cf.bfloat16:  # whose sums are rounded
        rows, expected = (t[:69600].reshape(-1, 600)[:, 4:504] for t in (there, x[shift:]))
        assert (rows.sum(0).cpu() == expected.sum(0)).all()
        assert ((rows == rows[0]).cpu() == (expected == expected[0])).all()


def test_a_loss_that_is_read_at_every_step_is_the_loss():
    w = cf.tensor(np.ones((64, 64), np.float32), device="cuda", requires_grad=True)
    optimizer = cf.optim.SGD([w], lr=0.01)

    @cf.compile
    def step(x: cf.Tensor) -> tuple[cf.Tensor, cf.Tensor]:
        optimizer.zero_grad()
        loss = (x @ w).tanh().square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach(), x.sum()

    losses, kept = [], []
    for k in range(40):
        x = cf.full((8, 64), 0.01 * (k % 7), device="cuda")
        loss, total = step(x)
        kept.append((loss, total))
        losses.append((loss.item(), total.item()))
    assert losses == [(loss.item(), total.item()) for loss, total in kept]
    np.testing.assert_allclose([t for _, t in losses], [5.12 * (k % 7) for k in range(40)], 1e-5)
