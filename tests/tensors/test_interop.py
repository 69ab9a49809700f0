"""Tensors and the world: NumPy, DLPack, copies and pickles."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.helpers.engine_common import leaf, refused

import contraflow as cf
from contraflow.tensors.tensor import Tensor
from contraflow.testing import assert_close

try:
    import jax.numpy as jnp
    import torch
except ImportError:
    torch = None

needs_peers = pytest.mark.skipif(torch is None, reason="needs PyTorch and JAX: `make peers`")
DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")

# --- NumPy ---------------------------------------------------------------------------------------


def test_numpy_shares_memory_unless_grad_would_be_lost() -> None:
    x = cf.zeros(3)
    x.numpy()[1] = 5.0
    assert x.tolist() == [0.0, 5.0, 0.0]
    y = leaf(1.0, 2.0)
    with refused(
        cf.GradientError,
        "numpy: float64[2] requires grad, and NumPy would lose that. Use x.detach().numpy().",
    ):
        y.numpy()
    assert y.numpy(force=True).tolist() == [1.0, 2.0]


def test_array_protocol() -> None:
    x = cf.tensor([1.5, 2.5])
    assert np.shares_memory(np.asarray(x), x.numpy())
    assert np.asarray(x, dtype=np.int32).dtype == np.int32
    assert not np.shares_memory(np.array(x, copy=True), x.numpy())
    with pytest.raises(ValueError, match="copy"):
        np.asarray(x, dtype=np.float64, copy=False)


def test_numpy_functions_take_tensors() -> None:
    x = cf.tensor([[1.0, 2.0], [3.0, 4.0]])
    for y in (np.exp(x), np.add(x, np.ones(2)), np.add(np.ones(2), x)):
        assert isinstance(y, Tensor)
    assert_close(np.exp(x), np.exp(x.numpy()))
    assert np.sum(x) == 10.0
    assert np.mean(x, axis=0).tolist() == [2.0, 3.0]
    assert np.concatenate([x, x]).shape == (4, 2)
    assert isinstance(np.max(x), np.float32)
    assert np.shape(leaf(1.0)) == (1,)
    with pytest.raises(cf.GradientError, match=r"numpy: float64\[1\] requires grad"):
        np.concatenate([leaf(1.0)])


def test_sequences_of_tensors() -> None:
    x = cf.tensor([[1, 2], [3, 4]])
    assert [row.tolist() for row in x] == [[1, 2], [3, 4]]
    assert len(x) == 2
    assert {x: 1}[x] == 1
    assert x != [1]
    assert cf.tensor(list(x)).tolist() == x.tolist()
    with refused(TypeError, "len: a 0-d tensor has no length."):
        len(cf.tensor(1))


# --- DLPack --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*DTYPES, "bfloat16"])
def test_dlpack_round_trip_shares_memory(name: str) -> None:
    x = cf.arange(6).reshape(2, 3).to(getattr(cf, name))
    for view in (x, x.T, x[:, 1:], x[1, 2], x[:0]):
        y = cf.from_dlpack(view)
        assert (y.dtype, y.shape) == (view.dtype, view.shape)
        assert y.tolist() == view.tolist()
    cf.from_dlpack(x).fill_(1)
    assert x.tolist() == cf.ones(2, 3, dtype=x.dtype).tolist()


def test_dlpack_with_numpy() -> None:
    x = cf.zeros(2, 3)
    np.from_dlpack(x)[1, 2] = 7.0
    assert x[1, 2].item() == 7.0
    assert x.__dlpack_device__() == (1, 0)
    array = np.zeros((3, 2))
    cf.from_dlpack(array.T).add_(1.0)
    assert array.sum() == 6.0
    assert cf.from_dlpack(array, copy=True).add_(1.0).sum().item() == 12.0
    assert array.sum() == 6.0


def test_dlpack_memory_outlives_its_owner() -> None:
    big = cf.from_dlpack(np.arange(100_000.0))
    assert big.sum().item() == sum(range(100_000))
    array = np.from_dlpack(cf.arange(100_000))
    assert array.sum() == sum(range(100_000))


def test_read_only_memory_is_shared_and_not_written() -> None:
    array = np.arange(3.0)
    array.flags.writeable = False
    x = cf.from_dlpack(array)
    assert np.shares_memory(x.numpy(), array)
    text = "shares the memory of a read-only array. Clone it first."
    with refused(ValueError, f"add_: float64[3] {text}"):
        x.add_(1.0)
    with refused(ValueError, f"setitem: float64[1] {text}"):
        x[:1] = 0.0
    step = cf.compile(lambda t: t.mul_(2.0))
    assert step(cf.ones(3, dtype=cf.float64)).tolist() == [2.0, 2.0, 2.0]
    with refused(ValueError, f"mul_: float64[3] {text}"):
        step(x)
    assert array.tolist() == [0.0, 1.0, 2.0]
    with refused(ValueError, "from_numpy: the array is read-only. Use contraflow.tensor(array)."):
        cf.from_numpy(array)


def test_negative_strides_are_copied_or_refused() -> None:
    array = np.arange(3.0)[::-1]
    assert cf.from_dlpack(array).tolist() == cf.as_tensor(array).tolist() == [2.0, 1.0, 0.0]
    with refused(ValueError, "from_dlpack: the array has negative strides; it must be copied."):
        cf.from_dlpack(array, copy=False)
    with pytest.raises(ValueError, match="from_numpy: the array has strides that are negative"):
        cf.from_numpy(array)


def test_dlpack_refusals() -> None:
    with refused(TypeError, "from_dlpack: list has no __dlpack__ method."):
        cf.from_dlpack([1.0])
    with pytest.raises(TypeError, match="from_dlpack: dtype complex128 is not supported"):
        cf.from_dlpack(np.ones(2, complex))
    with refused(
        cf.GradientError,
        "dlpack: float64[1] requires grad, which another library would lose. Use x.detach().",
    ):
        leaf(1.0).__dlpack__()
    with refused(ValueError, "dlpack: stream is 1, but the cpu has none. Pass None."):
        cf.ones(1).__dlpack__(stream=1)
    with refused(BufferError, "dlpack: cannot export float32[1] to device (2, 0)."):
        cf.ones(1).__dlpack__(dl_device=(2, 0))

    class OnAnother:
        def __dlpack__(self) -> Any:
            raise AssertionError

        def __dlpack_device__(self) -> tuple[int, int]:
            return 10, 0

    with refused(
        cf.DeviceError,
        "from_dlpack: the data lies on DLPack device (10, 0), which is not known here. Move it to "
        "the cpu first.",
    ):
        cf.from_dlpack(OnAnother())


def test_dlpack_before_version_one() -> None:
    class Old:
        def __dlpack__(self, stream: Any = None) -> Any:
            return np.arange(3).__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

    assert cf.from_dlpack(Old()).tolist() == [0, 1, 2]
    assert np.from_dlpack(cf.arange(3)).tolist() == [0, 1, 2]


@pytest.mark.peers
@needs_peers
@pytest.mark.parametrize("name", [*DTYPES, "bfloat16"])
def test_dlpack_with_pytorch(name: str) -> None:
    theirs = torch.arange(6).reshape(2, 3).to(getattr(torch, name))
    for view in (theirs, theirs.T, theirs[:, 1:], theirs[1, 2]):
        ours = cf.from_dlpack(view)
        assert f"torch.{ours.dtype}" == str(view.dtype)
        assert ours.data_ptr() == view.data_ptr()
        assert ours.tolist() == view.tolist()
        back = torch.from_dlpack(ours)
        assert (back.dtype, back.stride()) == (view.dtype, view.stride())
        assert back.data_ptr() == view.data_ptr()
    cf.from_dlpack(theirs).fill_(1)
    assert theirs.tolist() == torch.ones_like(theirs).tolist()


@pytest.mark.peers
@needs_peers
@pytest.mark.parametrize("name", ["bool", "int32", "float32", "bfloat16"])
def test_dlpack_with_jax(name: str) -> None:
    theirs = jnp.arange(6).reshape(2, 3).astype(name)
    ours = cf.from_dlpack(theirs)
    assert ours.data_ptr() == theirs.unsafe_buffer_pointer()
    assert ours.tolist() == theirs.tolist()
    with pytest.raises(ValueError, match="shares the memory of a read-only array"):
        ours.fill_(0)
    back = jnp.from_dlpack(ours.clone())
    assert back.dtype == theirs.dtype
    assert back.tolist() == theirs.tolist()


@pytest.mark.peers
@needs_peers
def test_jax_shares_memory_that_is_aligned() -> None:
    raw = np.zeros(64 * 17, np.uint8)
    start = -raw.ctypes.data % 64  # JAX copies what begins elsewhere
    ours = cf.from_numpy(raw[start : start + 64 * 16].view(np.float32))
    theirs = jnp.from_dlpack(ours)
    assert theirs.unsafe_buffer_pointer() == ours.data_ptr()


# --- copies --------------------------------------------------------------------------------------

COPIES = [copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))]


@pytest.mark.parametrize("duplicate", COPIES)
@pytest.mark.parametrize(
    "make",
    [
        lambda: cf.tensor([1.0, 2.0]),
        lambda: leaf(1.0, 2.0),
        lambda: cf.nn.Parameter(cf.ones(2)),
        lambda: cf.arange(12).reshape(3, 4)[1:, ::2],
        lambda: cf.tensor([1.5], dtype=cf.bfloat16),
        lambda: cf.zeros(0, 3),
        lambda: cf.tensor(True),
    ],
)
def test_duplicates(duplicate: Callable[[Tensor], Tensor], make: Callable[[], Tensor]) -> None:
    x = make()
    y = duplicate(x)
    assert type(y) is type(x)
    assert (y.dtype, y.stride(), y.requires_grad) == (x.dtype, x.stride(), x.requires_grad)
    assert y.tolist() == x.tolist()
    with cf.no_grad():
        y.fill_(1)
        x.fill_(0)
    assert y.tolist() == cf.ones_like(y).tolist()


def test_copy_shares_memory_and_is_a_leaf() -> None:
    x = leaf(1.0, 2.0)
    x.grad = cf.ones(2, dtype=cf.float64)
    for t in (x, x * 2.0):
        y = copy.copy(t)
        assert y.data_ptr() == t.data_ptr()
        assert y.is_leaf
        assert y.requires_grad
        assert y.grad is None


@pytest.mark.parametrize("duplicate", COPIES)
def test_duplicates_share_what_was_shared(duplicate: Callable[[Any], Any]) -> None:
    x = cf.zeros(4)
    again, whole, part = duplicate([x, x, x[1:3]])
    assert again is whole
    part.fill_(5.0)
    assert whole.tolist() == [0.0, 5.0, 5.0, 0.0]
    assert x.tolist() == [0.0] * 4


def test_deepcopy_keeps_gradients_and_leaves_hooks_and_graphs() -> None:
    x = leaf(1.0)
    x.register_hook(lambda g: g * 100.0)
    x.grad = cf.tensor([3.0], dtype=cf.float64)
    y = copy.deepcopy(x)
    y.sum().backward()
    assert y.grad.tolist() == [4.0]
    assert x.grad.tolist() == [3.0]
    with refused(
        cf.GradientError,
        "deepcopy: float64[1] was made by mul; only leaves can be copied deeply. "
        "Use x.detach().clone().",
    ):
        copy.deepcopy(x * 2.0)
    made = pickle.loads(pickle.dumps(x * 2.0))
    assert made.is_leaf
    assert made.requires_grad


def test_modules_and_devices_are_pickled() -> None:
    model = cf.nn.Linear(2, 1)
    again = pickle.loads(pickle.dumps(model))
    x = cf.ones(1, 2)
    assert again(x).tolist() == model(x).tolist()
    assert pickle.loads(pickle.dumps(cf.device("cuda:1"))) == cf.device("cuda:1")


def test_recorded_tensors_do_not_leave() -> None:
    for leave in (
        pickle.dumps,
        np.from_dlpack,
        lambda t: t.numpy(force=True),
    ):
        step = cf.compile(lambda x, leave=leave: leave(x * 2.0))
        with pytest.raises(cf.CaptureError, match="needs the value of float32"):
            step(cf.ones(2))


def test_arrays_of_bfloat16_are_known_before_anything_else_needs_them():
    """The package that has NumPy's bfloat16 is imported when it is first asked for."""
    program = (
        "import ml_dtypes, numpy as np, contraflow as cf; "
        "print(cf.tensor(np.ones(2, ml_dtypes.bfloat16)).dtype, cf.bfloat16.numpy.name)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stderr, done.stdout) == ("", "bfloat16 bfloat16\n")


# --- scalars of NumPy ------------------------------------------------------------------------

SCALARS: dict[str, tuple[Callable[..., Any], Any]] = {
    "+=": (lambda x, s: x.__iadd__(s), np.float32(2)),
    "*=": (lambda x, s: x.__imul__(s), np.int64(2)),
    "**=": (lambda x, s: x.__ipow__(s), np.int64(2)),
    "an in-place method": (lambda x, s: x.mul_(s), np.float32(0.5)),
    "a method": (lambda x, s: x.add(s), np.float32(2)),
    "alpha": (lambda x, s: cf.add(x, 1, alpha=s), np.float32(2)),
    "first": (lambda x, s: cf.pow(s, x), np.float32(2)),
    "clamp": (lambda x, s: cf.clamp(x, s), np.float32(2)),
    "where": (lambda x, s: cf.where(x > 0, s, x), np.float32(2)),
    "lerp": (lambda x, s: cf.lerp(x, x * 2, s), np.float32(0.5)),
    "leaky_relu": (lambda x, s: cf.nn.functional.leaky_relu(-x, s), np.float32(0.5)),
    "elu": (lambda x, s: cf.nn.functional.elu(-x, s), np.float32(0.5)),
    "chunk": (lambda x, s: x.chunk(s)[0], np.int64(2)),
    "roll": (lambda x, s: cf.roll(x, s, s), np.int64(0)),
    "a size among others": (lambda x, s: x.split([s, 1])[0], np.int64(2)),
    "full": (lambda x, s: cf.full((2,), s), np.float32(2)),
    "zeros": (lambda x, s: cf.zeros(s, 2), np.int64(3)),
    "a part": (lambda x, s: cf.index_fill(x, 0, cf.tensor([0]), s), np.float32(2)),
}


@pytest.mark.parametrize("name", SCALARS)
def test_a_scalar_of_numpys_is_a_number(name: str) -> None:
    function, scalar = SCALARS[name]
    expected = function(cf.ones(3), scalar.item())
    for taken in (function, cf.compile(function)):
        found = taken(cf.ones(3), scalar)
        assert found.dtype is expected.dtype
        assert_close(found, expected)


def test_a_scalar_of_numpys_beside_a_tensor_without_dims_does_not_promote() -> None:
    x = cf.tensor(1, dtype=cf.int32)
    assert (x + np.int64(1)).dtype is (np.int64(1) + x).dtype is cf.int32


def test_scalars_of_numpys_in_places_that_are_written_and_in_seeds() -> None:
    x, state = cf.ones(2), {"s": np.float32(3)}
    x[0] += np.float32(2)
    assert x.tolist() == [3, 1]
    assert cf.manual_seed(np.int64(3)).initial_seed() == 3
    scaled = cf.compile(lambda x: x.mul(state["s"]))
    assert scaled(x).tolist() == [9, 3]
    state["s"] = np.float32(2)
    assert scaled(x).tolist() == [6, 2]


def test_an_error_of_a_users_function_is_raised_once_beside_scalars_of_numpys() -> None:
    calls: list[Any] = []

    @cf.custom_op
    def mine(x, *, s):
        calls.append(s)
        raise TypeError("not mine")

    with pytest.raises(TypeError, match="not mine"):
        mine(cf.ones(2), s=np.float32(1))
    assert len(calls) == 1
