"""Trials: how a line of "Engine behaviour" is tried, on each device, eager and compiled.

A new device is one more name in `seeds.DEVICES`, and a line in `LONGEST` where it is slow.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.helpers.seeds import DEVICES, MODES
from tests.helpers.walled import opened

import contraflow as cf
from contraflow import devices
from contraflow.compiler.kernel import Limits
from contraflow.dtypes import DType
from contraflow.errors import DeviceError
from contraflow.tensors.tensor import Tensor


class Trial(NamedTuple):
    """Calls a function of tensors, eagerly or compiled; tensors are made on its device."""

    device: str
    mode: str

    def __str__(self) -> str:
        return f"{self.device}-{self.mode}"

    def __call__(self, step: Callable[..., Any], *args: Any) -> Any:
        """What a call gives: of a compiled function the second one, which replays what the first
        has recorded."""
        if self.mode == "eager":
            return step(*args)
        function = cf.compile(step)
        function(*args)
        result = function(*args)
        assert function.captures == 1
        return result

    @property
    def limits(self) -> Limits:
        """Those of the device."""
        return devices.lookup(self.device).limits

    @property
    def real(self) -> DType:
        """The most precise dtype of the device."""
        return cf.float32 if "float64" in self.limits.lacks else cf.float64

    @property
    def there(self) -> str:
        """What messages say of a tensor on the device."""
        return "" if self.device == "cpu" else f" on {self.device}"

    @property
    def tolerance(self) -> float:
        """How close gradients come to differences that were taken in float64."""
        return 1e-6 if self.real is cf.float64 else 1e-3

    def tensor(self, array: Any, requires_grad: bool = False) -> Tensor:
        """An array on the device, as precise as it has it."""
        return cf.tensor(array, dtype=self.real, requires_grad=requires_grad)

    def leaf(self, *values: float) -> Tensor:
        """A vector that requires grad."""
        return self.tensor(list(values), requires_grad=True)


TRIALS = [Trial(device, mode) for device in DEVICES for mode in MODES]
# For a test that compiles nothing.
eager_alone = pytest.mark.parametrize(
    "run", [trial for trial in TRIALS if trial.mode == "eager"], ids=str, indirect=True
)
# For a test of what devices beside the cpu promise.
beside_the_cpu = pytest.mark.parametrize(
    "run", [trial for trial in TRIALS if trial.device != "cpu"], ids=str, indirect=True
)
# How long a chain is tried, by `make seeds` and `make test-all`; 64,000 ops unless said.
LONGEST = {
    "cpu-eager": 1_000_000,
    "walled-eager": 20_000,  # the interpreter takes a good part of a millisecond for each op
    "walled-compiled": 20_000,
    "cuda-eager": 1_000_000,
}


@contextlib.contextmanager
def placed(device: str) -> Iterator[None]:
    """Tensors are made on a device; where there is none, the test is skipped and says why."""
    with opened() if device == "walled" else contextlib.nullcontext():
        try:
            devices.lookup(device)
        except DeviceError as error:
            pytest.skip(str(error))
        with on(device):
            yield
            devices.lookup(device).synchronize()


@contextlib.contextmanager
def on(device: str) -> Iterator[None]:
    """Tensors are made on a device that is there."""
    before = cf.get_default_device()
    cf.set_default_device(device)
    try:
        yield
    finally:
        cf.set_default_device(before)


def on_cpu(function: Callable[..., Tensor], *arrays: Any) -> np.ndarray:
    """What a function of tensors gives on the cpu."""
    with on("cpu"):
        return function(*map(cf.tensor, arrays)).array
