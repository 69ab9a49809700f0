"""Tensors out of nothing: shapes, ranges, random numbers, and the options all of them take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.helpers.engine_common import refused

import contraflow as cf
from contraflow import devices
from contraflow.errors import AbsentByChoice
from contraflow.tensors.tensor import Tensor
from contraflow.testing import assert_close

try:
    import torch
except ImportError:
    torch = None

X = cf.ones(2, 3, dtype=cf.float64)
THERE = f"there is {', '.join(devices._openers)}."

# Every function that makes a tensor, called with the options it is given.
MAKERS: dict[str, Callable[..., Tensor]] = {
    "zeros": lambda **o: cf.zeros(2, 3, **o),
    "ones": lambda **o: cf.ones((2, 3), **o),
    "empty": lambda **o: cf.empty([2, 3], **o),
    "full": lambda **o: cf.full((2, 3), 2.5, **o),
    "arange": lambda **o: cf.arange(1, 4, 0.5, **o),
    "linspace": lambda **o: cf.linspace(0, 1, 5, **o),
    "logspace": lambda **o: cf.logspace(0, 1, 5, **o),
    "eye": lambda **o: cf.eye(2, 3, **o),
    "tensor": lambda **o: cf.tensor([1.5, 2.5], **o),
    "rand": lambda **o: cf.rand(2, 3, **o),
    "randn": lambda **o: cf.randn(2, 3, **o),
    "randint": lambda **o: cf.randint(5, (2, 3), **o),
    "randperm": lambda **o: cf.randperm(6, **o),
    "normal": lambda **o: cf.normal(1.0, 2.0, (2, 3), **o),
    "zeros_like": lambda **o: cf.zeros_like(X, **o),
    "ones_like": lambda **o: cf.ones_like(X, **o),
    "empty_like": lambda **o: cf.empty_like(X, **o),
    "full_like": lambda **o: cf.full_like(X, 2, **o),
    "rand_like": lambda **o: cf.rand_like(X, **o),
    "randn_like": lambda **o: cf.randn_like(X, **o),
    "randint_like": lambda **o: cf.randint_like(X, 5, **o),
    "new_zeros": lambda **o: X.new_zeros(2, 3, **o),
    "new_ones": lambda **o: X.new_ones((2, 3), **o),
    "new_empty": lambda **o: X.new_empty(2, 3, **o),
    "new_full": lambda **o: X.new_full((2, 3), 2, **o),
    "new_tensor": lambda **o: X.new_tensor([1, 2], **o),
}
RANDOM = {name for name in MAKERS if name.startswith("rand") or name == "normal"}


@pytest.mark.parametrize("name", MAKERS)
def test_options_of_every_maker(name: str) -> None:
    make = MAKERS[name]
    x = make(dtype=cf.float16, device="cpu", requires_grad=True)
    assert (x.dtype, x.device, x.requires_grad) == (cf.float16, cf.device("cpu"), True)
    assert x.is_leaf
    before = cf.get_rng_state()
    with refused(cf.DeviceError, f"{name}: device 'cpu:9' is not available; {THERE}"):
        make(device="cpu:9")
    with pytest.raises((cf.GradientError, TypeError), match=r"int64.* is not (a )?floating-point"):
        make(dtype=cf.int64, requires_grad=True)
    assert cf.get_rng_state() == before
    with cf.inference_mode():
        assert make().is_inference()


@pytest.mark.parametrize("name", sorted(set(MAKERS) - {"new_tensor"}))
def test_makers_in_a_compiled_function(name: str) -> None:
    """The same values, and the random state advances as it does in eager mode."""
    make = MAKERS[name]
    compiled = cf.compile(lambda: make())
    cf.manual_seed(3)
    expected = [make(), make()]
    after = cf.get_rng_state()
    cf.manual_seed(3)
    found = [compiled(), compiled()]
    assert cf.get_rng_state() == after
    for a, b in zip(found, expected):
        assert a.dtype is b.dtype
        assert_close(a, b)
    assert (after != (3, 0)) == (name in RANDOM)


def test_default_dtype_and_device() -> None:
    assert cf.get_default_device() == cf.device("cpu")
    with refused(cf.DeviceError, f"set_default_device: device 'cpu:9' is not available; {THERE}"):
        cf.set_default_device("cpu:9")
    cf.set_default_device("cpu")
    before = cf.get_default_dtype()
    cf.set_default_dtype(cf.float64)
    try:
        made = (cf.zeros(1), cf.arange(1.0), cf.linspace(0, 1, 2), cf.eye(1), cf.rand(1))
        assert {x.dtype for x in (*made, cf.full((1,), 1.0), cf.tensor(1.0))} == {cf.float64}
        assert cf.full((1,), 1).dtype is cf.int64
    finally:
        cf.set_default_dtype(before)


def test_devices_have_names() -> None:
    device = cf.device("cuda:1")
    assert (str(device), device.type, device.index) == ("cuda:1", "cuda", 1)
    assert repr(device) == "device(type='cuda', index=1)"
    assert cf.device("cuda", 1) == cf.device(device) != cf.device("cuda")
    assert {device: 1}[cf.device("cuda:1")] == 1
    for wrong in ("gpu", "cuda:", "cuda:-1", "cuda:x", ""):
        with pytest.raises(
            ValueError, match=f"device: '{wrong}' is not a device. Use 'cpu', 'cuda'"
        ):
            cf.device(wrong)
    with refused(TypeError, "device: expected a name such as 'cpu', not 3."):
        cf.device(3)
    with refused(cf.DeviceError, f"to: device 'cpu:9' is not available; {THERE}"):
        X.to("cpu:9")


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: cf.zeros(-1), ValueError, "zeros: size -1 in shape (-1,) is negative."),
        (lambda: cf.ones(2**40, 2**40), ValueError,
         f"ones: shape ({2**40}, {2**40}) has more elements than memory can hold."),
        (lambda: cf.ones(2.5), TypeError, "ones: the sizes (2.5,) must be integers."),
        (lambda: cf.rand(2, dtype=cf.int64), TypeError,
         "rand: int64 is not a floating-point dtype."),
        (lambda: cf.zeros(2, dtype=complex), TypeError,
         "zeros: dtype <class 'complex'> is not a dtype. Use one such as contraflow.float32."),
        (lambda: cf.full((2,), 2**70), ValueError, f"full: {2**70} does not fit int64."),
        (lambda: cf.full((2,), 300, dtype=cf.uint8), ValueError, "full: 300 does not fit uint8."),
        (lambda: cf.full((2,), "a"), TypeError, "full: the value is a str; it must be a number."),
        (lambda: cf.arange(5, 2), ValueError, "arange: step 1 does not lead from 5 to 2."),
        (lambda: cf.arange(1, 2, 0), ValueError, "arange: step 0 does not lead from 1 to 2."),
        (lambda: cf.arange(float("nan")), ValueError, "arange: end is nan; it must be finite."),
        (lambda: cf.linspace(0, 1, -1), ValueError,
         "linspace: size -1 in shape (-1,) is negative."),
        (lambda: cf.eye(-1), ValueError, "eye: size -1 in shape (-1, -1) is negative."),
        (lambda: cf.randint(5, 2, (3,)), ValueError,
         "randint: [5, 2) holds 0 integers; it must hold 1 to 2**32."),
        (lambda: cf.randint(0, 300, (3,), dtype=cf.uint8), ValueError,
         "randint: [0, 300) does not fit uint8."),
        (lambda: cf.randint(0, 2.5, (3,)), TypeError,
         "randint: the bounds 0 and 2.5 must be integers."),
        (lambda: cf.randint(3), TypeError,
         "randint: missing size. It takes (high, size) or (low, high, size)."),
        (lambda: cf.randperm(300, dtype=cf.uint8), ValueError,
         "randperm: 300 numbers do not fit uint8."),
        (lambda: cf.normal(0.0, -1.0, (2,)), ValueError,
         "normal: std is -1.0; it must not be negative."),
        (lambda: cf.normal(0.0, 1.0), TypeError,
         "normal: missing size, since neither mean nor std is a tensor."),
        (lambda: cf.bernoulli(cf.tensor([2.0])), ValueError,
         "bernoulli: float32[1] has invalid elements; a probability lies between 0 and 1."),
        (lambda: cf.multinomial(cf.ones(3), 4), ValueError,
         "multinomial: cannot draw 4 of the 3 columns of float32[3] without replacement."),
        (lambda: cf.multinomial(cf.zeros(3), 1), ValueError,
         "multinomial: float32[3] has invalid elements; weights are finite, positive or 0."),
        (lambda: cf.tensor([[1, 2], [3]]), ValueError,
         "tensor: the nested sequences are ragged: they hold parts of shape [2] and [1]."),
        (lambda: cf.tensor([2**70]), ValueError, f"tensor: {2**70} does not fit int64."),
        (lambda: cf.tensor([300], dtype=cf.uint8), ValueError, "tensor: 300 does not fit uint8."),
        (lambda: cf.tensor([None]), TypeError, "tensor: cannot make a tensor of NoneType None."),
        (lambda: cf.tensor("a"), TypeError, "tensor: cannot make a tensor of str 'a'."),
        (lambda: cf.tensor([1j]), NotImplementedError,
         "tensor: there are no complex tensors; see docs/differences.md."),
        (lambda: cf.fft.rfft, AbsentByChoice,
         "fft.rfft: there are no Fourier transforms here. Use NumPy's outside of the graph, or a "
         "product with a matrix of sines and cosines. See docs/names.md."),
        (lambda: cf.complex64, AbsentByChoice,
         "complex64: there are no complex numbers here. Keep real and imaginary parts in a last "
         "dim of size two. See docs/names.md."),
        (lambda: cf.sparse, AbsentByChoice,
         "sparse: there are no sparse tensors here. Use dense ones with index_add, scatter_add or "
         "embedding. See docs/names.md."),
    ],
)  # fmt: skip
def test_wrong_arguments(call: Callable[[], Any], error: type[Exception], text: str) -> None:
    before = cf.get_rng_state()
    with refused(error, text):
        call()
    assert cf.get_rng_state() == before


def test_ranges() -> None:
    assert cf.linspace(3, 4, 1).tolist() == [3.0]
    assert cf.linspace(3, 4, 0).shape == (0,)
    assert cf.linspace(-3, 10, 7, dtype=cf.int32).tolist() == [-3, 0, 1, 3, 5, 7, 10]
    assert cf.linspace(0, 1, 1001)[-1].item() == 1.0
    assert cf.logspace(0, 3, 4, dtype=cf.int64).tolist() == [1, 10, 100, 1000]
    assert cf.arange(10, 0, -3).tolist() == [10, 7, 4, 1]
    assert cf.arange(cf.tensor(3)).tolist() == [0, 1, 2]
    assert cf.arange(2**62, 2**62 + 2).tolist() == [2**62, 2**62 + 1]
    assert cf.eye(2, dtype=cf.bool).tolist() == [[True, False], [False, True]]
    assert cf.eye(0, 3).shape == (0, 3)


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        ([1, True], cf.int64), ([1, 2.5], cf.float32), ([True], cf.bool), ([], cf.float32),
        ([np.float64(1.5), 2], cf.float64), ([np.float32(1.5), 2.0], cf.float32),
        ([np.ones(2)], cf.float64), ([np.int8(1), True], cf.int8), (np.float64(1.0), cf.float64),
        ([cf.ones((), dtype=cf.float16), 2.0], cf.float32), (range(3), cf.int64),
        ([cf.ones(2, dtype=cf.bfloat16)], cf.bfloat16), ((1, 2), cf.int64),
    ],
)  # fmt: skip
def test_the_dtype_of_data(data: Any, dtype: cf.dtype) -> None:
    assert cf.tensor(data).dtype is dtype


def test_floats_that_are_no_integers_saturate() -> None:
    x = cf.tensor([float("nan"), 1e30, -float("inf"), 2.9], dtype=cf.int64)
    assert x.tolist() == [0, 2**63 - 1, -(2**63), 2]
    assert cf.tensor([2**70], dtype=cf.float32).item() == 2.0**70
    assert cf.tensor([-1], dtype=cf.uint8).item() == 255


def test_numpy_numbers_are_numbers() -> None:
    one = np.int64(1)
    assert (
        cf.full((one,), np.float32(2.5)).tolist() == cf.zeros(one).fill_(np.float32(2.5)).tolist()
    )
    assert cf.arange(np.int32(2)).tolist() == [0, 1]


def test_numbers_beyond_int64_are_refused() -> None:
    with refused(ValueError, f"add: {2**70} does not fit int64."):
        cf.ones(2, dtype=cf.int64) + 2**70


# --- conversions ---------------------------------------------------------------------------------


def test_conversions_by_name() -> None:
    names = {
        "float": cf.float32, "double": cf.float64, "half": cf.float16, "bfloat16": cf.bfloat16,
        "byte": cf.uint8, "char": cf.int8, "short": cf.int16, "int": cf.int32, "long": cf.int64,
        "bool": cf.bool,
    }  # fmt: skip
    for name, dtype in names.items():
        assert getattr(cf.tensor([1.0]), name)().dtype is dtype


def test_to_takes_a_dtype_a_device_or_a_tensor() -> None:
    x = cf.ones(2)
    assert x.to(cf.float32) is x.to("cpu") is x.to(cf.device("cpu")) is x.to(cf.zeros(1)) is x
    assert x.cpu() is x.type_as(x) is x
    for y in (
        x.to(cf.float64), x.to("cpu", cf.float64), x.to(X), x.to(dtype=cf.float64),
        x.to(device="cpu", dtype=cf.float64), x.to(cf.float64, False, True), x.type_as(X),
    ):  # fmt: skip
        assert y.dtype is cf.float64
    for y in (x.to(cf.float32, copy=True), x.to(copy=True), x.to("cpu", copy=True)):
        assert y.data_ptr() != x.data_ptr()
    with refused(TypeError, "to: dtype is given twice."):
        x.to(X, dtype=cf.float32)
    with refused(TypeError, "to: expected a dtype, a device or a tensor, not int."):
        x.to(3)
    with refused(TypeError, "to: argument 'type' is unknown. It takes device, dtype, copy."):
        x.to(type=3)


# --- random numbers ------------------------------------------------------------------------------


def test_randint_is_even_and_within_its_bounds() -> None:
    cf.manual_seed(0)
    drawn = cf.randint(-3, 4, (70_000,), dtype=cf.int8)
    assert drawn.dtype is cf.int8
    counts = np.bincount(drawn.numpy() + 3, minlength=7)
    assert len(counts) == 7
    assert abs(counts - 10_000).max() < 400
    assert cf.randint(2**32, (1000,)).amax().item() > 2**31
    assert cf.randint(5, (3,), dtype=cf.float32).dtype is cf.float32


def test_randperm_is_a_permutation_and_no_order_is_preferred() -> None:
    cf.manual_seed(0)
    assert sorted(cf.randperm(1000).tolist()) == list(range(1000))
    first = [cf.randperm(3).tolist()[0] for _ in range(600)]
    assert min(first.count(k) for k in range(3)) > 150
    assert cf.randperm(0).shape == (0,)


def test_normal_takes_tensors_for_its_parameters() -> None:
    cf.manual_seed(0)
    x = cf.normal(cf.tensor([0.0, 100.0]), cf.tensor([[1.0], [0.0]]))
    assert x.shape == (2, 2)
    assert x[1].tolist() == [0.0, 100.0]
    many = cf.normal(5.0, 2.0, (20_000,))
    assert abs(many.mean().item() - 5.0) < 0.05
    assert abs(many.std().item() - 2.0) < 0.05


def test_draws_by_probability() -> None:
    cf.manual_seed(0)
    p = cf.tensor([0.0, 0.25, 1.0], requires_grad=True).expand(8000, 3)
    means = cf.bernoulli(p).mean(0).tolist()
    assert (means[0], means[2]) == (0.0, 1.0)
    assert abs(means[1] - 0.25) < 0.02
    weights = cf.tensor([[1.0, 0.0, 3.0], [0.0, 2.0, 0.0]])
    drawn = weights.multinomial(8000, replacement=True)
    assert abs((drawn[0] == 2).float().mean().item() - 0.75) < 0.02
    assert set(drawn[0].tolist()) == {0, 2}
    assert set(drawn[1].tolist()) == {1}
    first = cf.multinomial(cf.tensor([1.0, 3.0]).expand(8000, 2), 2)
    assert (first.sum(1) == 1).all()
    assert abs(first[:, 0].float().mean().item() - 0.75) < 0.02


def test_random_numbers_in_place() -> None:
    cf.manual_seed(0)
    x = cf.zeros(20_000)
    assert abs(x.uniform_(2.0, 4.0).mean().item() - 3.0) < 0.02
    assert 2.0 <= x.amin().item() <= x.amax().item() < 4.0
    assert abs(x.normal_(1.0, 3.0).std().item() - 3.0) < 0.1
    assert abs(x.exponential_(2.0).mean().item() - 0.5) < 0.02
    assert abs(x.bernoulli_(0.25).mean().item() - 0.25) < 0.02
    assert set(x.random_(2, 5).tolist()) == {2.0, 3.0, 4.0}
    assert cf.zeros(4, dtype=cf.uint8).random_().dtype is cf.uint8
    assert x._version == 5
    generator = cf.Generator(1)
    assert cf.zeros(3).uniform_(generator=generator).equal(cf.rand(3, generator=cf.Generator(1)))
    leaf = cf.zeros(3, requires_grad=True)
    before = cf.get_rng_state()
    with pytest.raises(cf.GradientError, match=r"uniform_: .* is a leaf that requires"):
        leaf.uniform_()
    assert cf.get_rng_state() == before


# --- PyTorch -------------------------------------------------------------------------------------


@pytest.mark.peers
@pytest.mark.skipif(torch is None, reason="needs PyTorch, which `make peers` installs")
def test_pytorch_makes_the_same() -> None:
    calls: list[Callable[[Any], Any]] = [
        lambda m: m.linspace(-3, 10, 7, dtype=m.int32), lambda m: m.linspace(0, 1, 11),
        lambda m: m.linspace(5, -5, 8, dtype=m.float64), lambda m: m.logspace(-2, 2, 5),
        lambda m: m.logspace(0, 6, 7, base=2.0, dtype=m.int64), lambda m: m.eye(3, 2),
        lambda m: m.arange(0, 1, 0.1), lambda m: m.arange(5, -3, -2, dtype=m.float16),
        lambda m: m.full((2,), 3.5, dtype=m.int64), lambda m: m.full((2,), True),
        lambda m: m.tensor([1.5, 2], dtype=m.bool), lambda m: m.tensor([[1, 2], [3, 4.5]]),
        lambda m: m.ones(2, dtype=m.int8).new_zeros(3), lambda m: m.ones(2).new_tensor([1, 2]),
        lambda m: m.zeros_like(m.ones(2), dtype=m.int32), lambda m: m.full_like(m.ones(2), 3),
    ]  # fmt: skip
    for call in calls:
        ours, theirs = call(cf), call(torch)
        assert str(theirs.dtype) == f"torch.{ours.dtype}"
        assert_close(ours, theirs.numpy())


def test_arange_of_truth_values_compiles() -> None:
    step = cf.compile(lambda: cf.arange(0, 3, True))
    assert step().tolist() == cf.arange(0, 3, True).tolist() == [0, 1, 2]
    assert step().dtype is cf.int64


def test_hasattr_of_what_is_absent() -> None:
    assert not hasattr(cf, "complex64")
    assert getattr(cf.fft, "rfft", None) is None
    for kind in (NotImplementedError, AttributeError):
        with pytest.raises(kind, match="complex64: there are no complex numbers here"):
            _ = cf.complex64
