"""Small namespaces of PyTorch's: `masked`, `fft` without transforms, `nn.quantized`, and others."""

from __future__ import annotations

import importlib
import subprocess
import sys
import warnings

import numpy as np
import pytest

import contraflow as cf
from contraflow.testing import assert_close

X = np.random.default_rng(0).standard_normal((3, 4, 5))
MASK = np.random.default_rng(1).random((3, 4, 5)) > 0.4
MASK[0] = False  # which shows nothing there


SUBMODULES = (
    "autograd.function", "autograd.functional", "autograd.graph", "distributed.device_mesh",
    "distributed.fsdp", "distributed.nn", "distributed.nn.functional", "distributed.rpc",
    "distributed.tensor", "nn.attention.flex_attention", "nn.parallel.distributed",
    "nn.parallel.scatter_gather", "onnx.symbolic_helper", "utils.model_zoo", "utils.tensorboard",
)  # fmt: skip


@pytest.mark.parametrize("path", SUBMODULES)
def test_submodules_are_found_before_they_are_imported(path: str) -> None:
    package, _, name = path.rpartition(".")
    within = importlib.import_module(f"contraflow.{package}")
    # Another test may have imported it, so that Python would not ask the package.
    assert within.__getattr__(name) is importlib.import_module(f"contraflow.{path}")


def test_a_new_process_finds_submodules() -> None:
    program = """
import contraflow as cf
from contraflow import distributed as dist

dist.init_process_group("gloo", rank=0, world_size=1)
(x,) = dist.nn.all_gather(cf.ones(2))
print(dist.nn.functional.all_reduce(x).tolist(), cf.autograd.function.Function.__name__)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[1.0, 1.0] Function\n", "")


def test_torch_is_itself() -> None:
    assert cf.torch is cf
    assert cf.torch.Tensor is cf.Tensor


@pytest.mark.peers
@pytest.mark.parametrize("dim", [None, 1, (0, 2), -1])
@pytest.mark.parametrize("name", ["sum", "mean", "var", "std", "amax", "amin"])
def test_masked_reductions_are_pytorchs(name: str, dim: object) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    given = {"dim": dim, "keepdim": True}
    if name in ("var", "std"):
        given["unbiased"] = True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its masked namespace is a prototype
        expected = getattr(torch.masked, name)(torch.tensor(X), mask=torch.tensor(MASK), **given)
    found = getattr(cf.masked, name)(cf.tensor(X), mask=cf.tensor(MASK), **given)
    assert_close(found, cf.tensor(expected.numpy()))


@pytest.mark.peers
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_masked_softmaxes_are_pytorchs(name: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = getattr(torch.masked, name)(torch.tensor(X), 0, mask=torch.tensor(MASK))
    found = getattr(cf.masked, name)(cf.tensor(X), 0, mask=cf.tensor(MASK))
    assert_close(found, cf.tensor(expected.numpy()))


def test_masked_reductions_have_gradients() -> None:
    x = cf.tensor(X, requires_grad=True)
    shown = cf.tensor(MASK)
    cf.masked.mean(x, mask=shown).backward()
    assert_close(x.grad, shown.double() / shown.sum())


@pytest.mark.parametrize("n", [1, 4, 5])
def test_frequencies_and_their_order_are_numpys(n: int) -> None:
    assert_close(cf.fft.fftfreq(n, 0.5, dtype=cf.float64), cf.tensor(np.fft.fftfreq(n, 0.5)))
    assert_close(cf.fft.rfftfreq(n, 0.5, dtype=cf.float64), cf.tensor(np.fft.rfftfreq(n, 0.5)))
    x = np.arange(3 * n).reshape(3, n)
    for dim in (None, 0, (1,)):
        assert cf.fft.fftshift(cf.tensor(x), dim).tolist() == np.fft.fftshift(x, dim).tolist()
        assert cf.fft.ifftshift(cf.tensor(x), dim).tolist() == np.fft.ifftshift(x, dim).tolist()


def test_transforms_are_refused() -> None:
    with pytest.raises(AttributeError, match=r"fft\.rfft: there are no Fourier transforms here"):
        cf.fft.rfft  # noqa: B018


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("upper", [False, True])
def test_triangular_solve(upper: bool, transpose: bool) -> None:
    a = cf.tensor(X[:, :, :4]) + 5 * cf.eye(4)
    triangle = a.triu() if upper else a.tril()
    solution, matrix = cf.triangular_solve(cf.tensor(X), a, upper=upper, transpose=transpose)
    assert_close((triangle.mT if transpose else triangle) @ solution, cf.tensor(X))
    assert matrix is not a
    assert_close(matrix, a)


def test_solve_ex_tells_which_matrices_are_singular() -> None:
    a = cf.stack([cf.tensor(X[1, :, :4]), cf.ones(4, 4, dtype=cf.float64)])
    b = cf.tensor(X[:2])
    result, info = cf.linalg.solve_ex(a, b)
    assert info.bool().tolist() == [False, True]
    assert_close(a[0] @ result[0], b[0])
    with pytest.raises(cf.linalg.LinAlgError, match=r"solve_ex: float64\[2, 4, 4\] is singular"):
        cf.linalg.solve_ex(a, b, check_errors=True)


def test_float_functional_computes_with_floats() -> None:
    marks = cf.nn.quantized.FloatFunctional()
    x, y = cf.tensor([1.0, -2.0]), cf.tensor([3.0, 1.0])
    assert marks.add(x, y).tolist() == [4.0, -1.0]
    assert marks.add_relu(x, y).tolist() == [4.0, 0.0]
    assert marks.mul(x, y).tolist() == [3.0, -2.0]
    assert marks.add_scalar(x, 1).tolist() == [2.0, -1.0]
    assert marks.mul_scalar(x, 2).tolist() == [2.0, -4.0]
    assert marks.matmul(x, y).item() == 1.0
    assert marks.cat([x, y]).tolist() == [1.0, -2.0, 3.0, 1.0]
    with pytest.raises(RuntimeError, match="FloatFunctional: call one of its methods"):
        marks(x)


def test_assert_close_takes_what_pytorchs_takes() -> None:
    x, nan = cf.ones(2), cf.tensor([1.0, float("nan")])
    assert_close(x, x.double(), check_dtype=False)
    assert_close(nan, nan)
    with pytest.raises(AssertionError, match="dtype float32 is not float64"):
        assert_close(x, x.double())
    with pytest.raises(AssertionError, match="1 of 2 elements"):
        assert_close(nan, nan, equal_nan=False)
    with pytest.raises(AssertionError, match=r"^mine$"):
        assert_close(x, 2 * x, msg="mine")
    with pytest.raises(AssertionError, match=r"^mine: assert_close.*: 2 of 2 elements"):
        assert_close(x, 2 * x, msg=lambda text: f"mine: {text}")


def test_inputs_are_scattered_to_one_device() -> None:
    scatter_gather = importlib.import_module("contraflow.nn.parallel.scatter_gather")
    x = cf.ones(2)
    ((moved, [same], number),) = scatter_gather.scatter((x, [x], 3), ["cpu"])
    assert cf.equal(moved, x)
    assert cf.equal(same, x)
    assert number == 3
    with pytest.raises(NotImplementedError, match="scatter: target_gpus names 2 devices"):
        scatter_gather.scatter(x, [0, 1])
    distributed = importlib.import_module("contraflow.nn.parallel.distributed")
    assert distributed.DistributedDataParallel is cf.nn.parallel.DistributedDataParallel


def test_memory_of_gpus_may_be_asked_for_where_there_is_none(monkeypatch) -> None:
    monkeypatch.setattr(cf.cuda, "device_count", lambda: 0)
    cf.cuda.empty_cache()
    cf.cuda.reset_peak_memory_stats()
    asked = (cf.cuda.memory_allocated, cf.cuda.max_memory_allocated, cf.cuda.memory_reserved)
    assert [ask() for ask in asked] == [0, 0, 0]
    assert dict(cf.cuda.memory_stats()) == {}
    states = cf.cuda.get_rng_state_all()
    assert states == []
    cf.cuda.set_rng_state_all(states)


def test_the_cpu_is_no_accelerator() -> None:
    assert cf.accelerator.current_accelerator() is None
    assert not cf.accelerator.is_available()
    assert cf.accelerator.device_count() == 0
    assert cf.accelerator.current_device_index() == 0
    assert cf.accelerator.get_device_module() is cf.cpu
    cf.accelerator.synchronize()
    with pytest.raises(AttributeError, match=r"accelerator\.empty_cache: "):
        _ = cf.accelerator.empty_cache


def test_sharing_memory_gives_the_tensor_itself() -> None:
    x = cf.ones(3)
    assert x.share_memory_() is x
    assert not x.is_shared()
    model = cf.nn.Linear(2, 2)
    assert model.share_memory() is model
