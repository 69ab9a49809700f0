"""The scenarios of the engine on the walled device, in each setting, beside the cpu."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.capture import test_compiled_engine
from tests.helpers import scenario as scenarios
from tests.helpers.scenario import CALLS, SCENARIOS, Notes, compare, observe
from tests.helpers.walled import (
    WEBGPU,
    AsynchronousDevice,
    GraphDevice,
    WalledDevice,
    opened,
)

import contraflow as cf

assert test_compiled_engine.DECLARED_BY  # which declares them

SETTINGS: dict[str, Callable[[], WalledDevice]] = {
    "plain": WalledDevice,
    "asynchronous": AsynchronousDevice,
    "graph": GraphDevice,
    "webgpu": lambda: WalledDevice(limits=WEBGPU),
}
# Scenarios of ops without a kernel, and of the user's own NumPy: refused by name.
REFUSED = {
    "indexing: a mask of values": "getitem: it runs on the host only",
    "indexing: where of values": "where: it runs on the host only",
    "indexing: nonzero of values": "nonzero: it runs on the host only",
    "indexing: unique of values": "unique: it runs on the host only",
    "indexing: repeat_interleave of values": "repeat_interleave: it runs on the host only",
    "indexing: is_in": "isin: it runs on the host only",
    "saved: values packed by NumPy": "numpy: float64[3] does not lie in the memory of the host",
}
# Indices that kernels find to be wrong: told when something waits, on a device that computes later.
# A write in place waits in eager mode.
LATE = ("indexing: write_out_of_range", "indexing: read_out_of_range")
LATE_TEXT = r"index \d is out of range .* at scenarios_"
# Second gradients lose digits of float32, more so where products and sums are contracted.
NARROW = (1e-3, 1e-3)
# These take sines of numbers in the thousands, which have few digits left in float32.
ROUGH = dict.fromkeys(
    (
        "indexing: write in_a_view, gradients inside",
        "inplace: read_through_many, gradients inside",
        "saved: a checkpoint, gradients inside",
    ),
    (0.05, 100.0),  # of elements up to 20,000
)
# Here gradients of a million cancel: in float32 the cpu itself is 28 away from float64.
ROUGH["parallel: targets_and_checkpoints"] = (1e-3, 10.0)
LACKING = re.compile(r": \w+ is not a dtype of walled")


@contextlib.contextmanager
def narrow() -> Iterator[None]:
    """Has scenarios compute in float32 where they ask for float64."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cf, "float64", cf.float32)
        patch.setattr(cf.Tensor, "double", cf.Tensor.float)
        patch.setattr(scenarios, "given_by", lambda make: lambda rng: _narrowed(make, rng))
        before = cf.get_default_dtype()
        try:
            yield
        finally:
            cf.set_default_dtype(before)


def _narrowed(make: scenarios.Argument, rng: np.random.Generator) -> Any:
    """An argument that is made on the cpu and then moved, since the device has no float64."""
    there = cf.get_default_device()
    cf.set_default_device(None)
    try:
        x = make(rng)
    finally:
        cf.set_default_device(there)
    if not isinstance(x, cf.Tensor):
        return x
    dtype = cf.float32 if x.dtype.itemsize == 8 and x.dtype.is_floating_point else x.dtype
    return x.detach().to(there, dtype).requires_grad_(x.requires_grad)


@functools.cache
def on_cpu(name: str, is_narrow: bool) -> Notes:
    with narrow() if is_narrow else contextlib.nullcontext():
        return observe(name, "eager")


def without_device(notes: Notes) -> Notes:
    """Notes in which messages do not name the device."""

    def plain(x: Any) -> Any:
        if isinstance(x, tuple) and len(x) == 2 and isinstance(x[1], str):
            return x[0], x[1].replace(" on walled", "")
        return x

    return [(place, plain(x)) for place, x in notes]


def observed(name: str, setting: str, mode: str) -> Notes:
    """What is seen of a scenario on the device."""
    with opened(SETTINGS[setting]) as device:
        cf.set_default_device("walled")
        try:
            with narrow() if setting == "webgpu" else contextlib.nullcontext():
                found = without_device(observe(name, mode))
            device.synchronize()
        finally:
            cf.set_default_device(None)
    return found


def check(name: str, setting: str, mode: str) -> None:
    scenario, is_narrow = SCENARIOS[name], setting == "webgpu"
    if setting == "asynchronous" and name in LATE:
        if mode == "eager" and "write" in name:
            found = observed(name, setting, mode)
            assert [kind for _, (kind, _) in found] == [IndexError] * CALLS
            assert all(re.search(LATE_TEXT, text) for _, (_, text) in found)
            return
        with pytest.raises(IndexError, match=LATE_TEXT):
            observed(name, setting, mode)
        return
    expected = on_cpu(name, is_narrow)
    try:
        found = observed(name, setting, mode)
    except cf.DeviceError as error:
        if is_narrow and LACKING.search(str(error)):
            pytest.skip(str(error))
        raise
    words = scenario.refuses or scenario.words if mode != "eager" else None
    if name in REFUSED:
        words = words or REFUSED[name].replace("float64", "float32" if is_narrow else "float64")
    if words is None and is_narrow and LACKING.search(str(found[0][1])):
        pytest.skip(found[0][1][1])
    if words is None:
        allowed = ROUGH.get(name, NARROW) if is_narrow else (None, None)
        compare(found, expected, exact=False, through=scenario.through, allowed=allowed)
        return
    assert len(found) == CALLS
    assert all(words in text for _, (_, text) in found), found
    if mode != "eager" and scenario.refuses:
        assert all(kind is cf.CaptureError for _, (kind, _) in found)


@pytest.mark.parametrize("mode", ["eager", "native"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_plain(name: str, mode: str) -> None:
    check(name, "plain", mode)


@pytest.mark.parametrize("setting", ["asynchronous", "graph", "webgpu"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_compiled_in_other_settings(name: str, setting: str) -> None:
    check(name, setting, "native")


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["asynchronous", "graph", "webgpu"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_eager_in_other_settings(name: str, setting: str) -> None:
    check(name, setting, "eager")
