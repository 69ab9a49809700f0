"""Functions that make tensors, on a device without float64: with `device=`, where it is the device
of new tensors, and in compiled functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.helpers.walled import WEBGPU, WalledDevice, opened

import contraflow as cf
from contraflow.nn import init
from contraflow.signal import windows
from contraflow.testing import assert_close

# What these take beside the number of points.
PARAMETERS: dict[str, dict[str, Any]] = {"general_cosine": {"a": [0.5, 0.5]}}


def window(name: str) -> Callable[..., cf.Tensor]:
    make = getattr(windows, name)
    return lambda **given: make(5, **PARAMETERS.get(name, {}), **given)


FUNCTIONS: dict[str, Callable[..., cf.Tensor]] = {
    "arange": lambda **k: cf.arange(3, **k),
    "arange of floats": lambda **k: cf.arange(0.0, 1.0, 0.25, **k),
    "asarray": lambda **k: cf.asarray([1.5, 2.0], **k),
    "empty": lambda **k: cf.zeros_like(cf.empty(3, **k)),
    "eye": lambda **k: cf.eye(3, **k),
    "fftfreq": lambda **k: cf.fft.fftfreq(4, **k),
    "rfftfreq": lambda **k: cf.fft.rfftfreq(4, **k),
    "full": lambda **k: cf.full((2, 2), 0.5, **k),
    "full of integers": lambda **k: cf.full((), 2, **k),
    "linspace": lambda **k: cf.linspace(0, 8, 5, **k),
    "linspace of integers": lambda **k: cf.linspace(0, 10**9, 7, dtype=cf.int64, **k),
    "logspace": lambda **k: cf.logspace(0, 2, 3, **k),
    "logspace of integers": lambda **k: cf.logspace(0, 9, 5, dtype=cf.int64, **k),
    "ones": lambda **k: cf.ones(3, **k),
    "rand": lambda **k: cf.rand(5, **k),
    "randint": lambda **k: cf.randint(0, 9, (3,), **k),
    "randn": lambda **k: cf.randn(5, **k),
    "randperm": lambda **k: cf.randperm(4, **k),
    "range": lambda **k: cf.range(0, 3, **k),
    "range of floats": lambda **k: cf.range(0, 1, 0.1, **k),
    "scalar_tensor": lambda **k: cf.scalar_tensor(2.0, **k),
    "tensor": lambda **k: cf.tensor([1.0, 2.0], **k),
    "tril_indices": lambda **k: cf.tril_indices(3, 3, **k),
    "triu_indices": lambda **k: cf.triu_indices(3, 3, **k),
    "zeros": lambda **k: cf.zeros(3, **k),
    **{name: window(name) for name in windows.__all__},
    **{
        name: lambda name=name, **k: getattr(cf, name)(4, **k)
        for name in dir(cf)
        if name.endswith("_window")
    },
}
DRAWN = ("rand", "randint", "randn", "randperm")
INITIALISERS = sorted(
    name for name in vars(init) if name.endswith("_") and name[0] != "_" and name != "affine_"
)
# What these take beside the tensor.
GIVEN: dict[str, tuple[Any, ...]] = {"constant_": (2.0,), "sparse_": (0.5,)}


@pytest.fixture(autouse=True)
def device():
    with opened(lambda: WalledDevice(limits=WEBGPU)) as found:
        yield found


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_device_without_float64_has_tensors_made_there(name: str) -> None:
    make = FUNCTIONS[name]
    found = [make(device="walled")]
    with cf.device("walled"):
        found.append(make())
        found.append(cf.compile(lambda: make())())
    found.append(cf.compile(lambda: make(device="walled") * 1)())
    assert [str(x.device) for x in found] == ["walled"] * 4
    expected = make()
    for x in found:
        assert (x.dtype, x.shape) == (expected.dtype, expected.shape)
        if name not in DRAWN:
            assert_close(x.cpu(), expected)


@pytest.mark.parametrize("name", INITIALISERS)
def test_a_device_without_float64_has_weights_initialised(name: str) -> None:
    initialise, shape = getattr(init, name), (3, 3, 3) if name == "dirac_" else (3, 4)
    weight = initialise(cf.empty(*shape, device="walled"), *GIVEN.get(name, ()))
    assert str(weight.device) == "walled"
    if name == "dirac_":
        assert_close(weight.cpu(), initialise(cf.empty(*shape)))
    assert bool(weight.isfinite().all())


def test_an_integer_window_is_refused_as_on_the_cpu() -> None:
    with pytest.raises(TypeError, match=r"general_cosine: .*int64 is not a floating-point dtype"):
        windows.hann(4, dtype=cf.int64, device="walled")
    with pytest.raises(ValueError, match="bartlett: -1 is not a number of points"):
        windows.bartlett(-1, device="walled")


# Values in float64 that are written to float32 there, which takes them: numbers of NumPy's are
# numbers, and a tensor of the cpu is cast before it moves.
WRITES: dict[str, Callable[[cf.Tensor], Any]] = {
    "a number": lambda x: x.__setitem__(0, np.float64(3)),
    "a number at a column": lambda x: x.__setitem__((slice(None), 1), np.sqrt(2.0)),
    "a number at points": lambda x: x.__setitem__(cf.tensor([0, 1]), np.float64(2)),
    "an array": lambda x: x.__setitem__(0, np.arange(4.0)),
    "a tensor": lambda x: x.__setitem__(1, cf.arange(4.0, dtype=cf.float64)),
    "a tensor without dims": lambda x: x.__setitem__(1, cf.tensor(0.1, dtype=cf.float64)),
    "copy_": lambda x: x.copy_(cf.arange(12.0, dtype=cf.float64).reshape(3, 4)),
    "as_tensor": lambda x: x.copy_(
        cf.as_tensor(cf.ones(4, dtype=cf.float64), dtype=cf.float32, device=x.device)
    ),
}


@pytest.mark.parametrize("name", WRITES)
def test_values_in_a_dtype_that_a_device_lacks_are_cast_before_they_move(name: str) -> None:
    expected, found = cf.zeros(3, 4), cf.zeros(3, 4, device="walled")
    WRITES[name](expected)
    WRITES[name](found)
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("value", [np.float64(0.1), np.int64(3), np.True_])
def test_a_compiled_function_writes_a_number_of_numpy(value: Any) -> None:
    def function(x: cf.Tensor) -> cf.Tensor:
        y = x * 1
        y[0] = value
        return y

    compiled, x = cf.compile(function), cf.ones(3, device="walled")
    assert [compiled(x).tolist() for _ in range(3)] == [function(x.cpu()).tolist()] * 3


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + np.array(1.0),
        lambda x: np.array(2.0) * x,
        lambda x: cf.add(x, 2.0, alpha=3),
        lambda x: cf.sub(x, np.float64(2), alpha=np.int64(3)),
    ],
)
def test_numbers_in_float64_need_no_float64_there(function: Callable[[cf.Tensor], Any]) -> None:
    x = cf.ones(3)
    assert function(x.to("walled")).tolist() == function(x).tolist()
