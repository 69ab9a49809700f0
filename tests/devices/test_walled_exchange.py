"""Memory that crosses the wall when somebody asks for it: DLPack, pinned memory, files."""

from __future__ import annotations

import gc
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.helpers.walled import AsynchronousDevice, WalledDevice, WalledExchange, opened

import contraflow as cf
from contraflow.data import DataLoader, TensorDataset


def sharing() -> WalledDevice:
    device = WalledDevice()
    device.exchange = WalledExchange(device)
    return device


@pytest.fixture(autouse=True)
def device():
    with opened(sharing) as found:
        yield found


DTYPES = [cf.float32, cf.bfloat16, cf.int64, cf.bool]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dlpack_shares_memory_of_a_device(device, dtype):
    x = cf.tensor([[0, 1, 1], [1, 0, 1]], dtype=dtype, device="walled")
    for view in (x, x[1:], x.T, x[:, 1], x[0, 0], x[:0]):
        y = cf.from_dlpack(view)
        assert (y.device, y.dtype, y.tolist()) == (x.device, dtype, view.tolist())
    cf.from_dlpack(x[1]).fill_(1)
    assert x.tolist() == cf.tensor([[0, 1, 1], [1, 1, 1]], dtype=dtype).tolist()
    assert device.exchange.streams[-1] == WalledExchange.stream


def test_the_array_interface_has_a_plain_tuple_as_its_shape(monkeypatch):
    monkeypatch.setattr(cf.Tensor, "is_cuda", True)
    for x in (cf.ones(2, 3, device="walled"), cf.ones(2, 3, device="walled").T):
        shown = x.__cuda_array_interface__
        assert shown["shape"] == x.shape
        assert type(shown["shape"]) is tuple  # CuPy refuses subclasses


def test_dlpack_memory_of_a_device_outlives_its_owner(device):
    y = cf.from_dlpack(cf.arange(5, device="walled"))
    gc.collect()
    assert (y + 1).tolist() == [1, 2, 3, 4, 5]
    capsule = cf.arange(5, device="walled").__dlpack__(stream=3)
    held = len(device._memory)
    del capsule  # which nobody has taken
    gc.collect()
    assert len(device._memory) < held


class Foreign:
    """A tensor as another library shows it, with methods that know no versions."""

    def __init__(self, x: cf.Tensor) -> None:
        self.x = x

    def __dlpack__(self, stream: Any = None) -> Any:
        return self.x.__dlpack__(stream=stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.x.__dlpack_device__()


def test_dlpack_of_other_libraries_and_devices(device):
    x = cf.ones(2, device="walled")
    assert cf.from_dlpack(Foreign(x)).tolist() == [1.0, 1.0]
    moved = cf.from_dlpack(x, device="cpu")
    assert moved.device == cf.device("cpu")
    copy = cf.from_dlpack(x, copy=True).fill_(2)
    assert (x.tolist(), copy.tolist()) == ([1.0, 1.0], [2.0, 2.0])
    assert np.from_dlpack(Foreign(cf.ones(2))).tolist() == [1.0, 1.0]
    there = cf.from_dlpack(np.ones(2, np.float32), device="walled")
    assert (str(there.device), there.tolist()) == ("walled", [1.0, 1.0])
    x.__dlpack__(dl_device=(1, 0))
    with pytest.raises(BufferError, match=r"float32\[2\].* must be copied to the cpu"):
        x.__dlpack__(dl_device=(1, 0), copy=False)
    with pytest.raises(ValueError, match="the array does not lie on cpu; it must be copied"):
        cf.from_dlpack(x, device="cpu", copy=False)


def test_a_dlpack_device_that_is_not_known_is_refused():
    class Elsewhere(Foreign):
        def __dlpack_device__(self) -> tuple[int, int]:
            return 16, 3

    with pytest.raises(
        cf.DeviceError, match=r"from_dlpack: the data lies on DLPack device \(16, 3\), which is"
    ):
        cf.from_dlpack(Elsewhere(cf.ones(2, device="walled")))


def test_a_device_without_exchange_refuses_dlpack(device):
    device.exchange = None
    x = cf.ones(2, device="walled")
    with pytest.raises(BufferError, match=r"cannot be exported from its device. Use x.cpu()"):
        x.__dlpack__()


# --- pinned memory -----------------------------------------------------------------------------


def test_pinned_memory_is_uploaded_without_blocking(device):
    x = cf.arange(6).reshape(2, 3).pin_memory()
    assert x.is_pinned()
    assert x.is_pinned("walled")
    assert not cf.ones(2).is_pinned()
    assert x.pin_memory() is x
    assert x.to("walled").tolist() == x.tolist()
    assert device.unblocked == 0
    assert x.to("walled", non_blocking=True).tolist() == x.tolist()
    assert x[1:].to("walled", cf.int32, non_blocking=True).tolist() == [[3, 4, 5]]
    assert x[1:].to("walled", non_blocking=True).tolist() == [[3, 4, 5]]
    assert device.unblocked == 2  # what is cast before lies elsewhere
    assert cf.ones(2).to("walled", non_blocking=True).tolist() == [1.0, 1.0]
    assert device.unblocked == 2


def test_what_cannot_be_pinned(device):
    with pytest.raises(cf.DeviceError, match=r"pin_memory: float32\[2\].* does not lie on the cpu"):
        cf.ones(2, device="walled").pin_memory()
    with pytest.raises(cf.GradientError, match=r"pin_memory: .* requires grad"):
        cf.ones(2, requires_grad=True).pin_memory()
    x = cf.ones(2)
    assert x.pin_memory("cpu") is x


class Pair(NamedTuple):
    x: Any
    name: str


class Custom:
    def __init__(self, x: cf.Tensor) -> None:
        self.x = x

    def pin_memory(self) -> Custom:
        return Custom(self.x.pin_memory())


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_pins_its_batches(device, workers):
    data = TensorDataset(cf.arange(6), cf.arange(6.0))
    loader = DataLoader(data, batch_size=2, num_workers=workers, pin_memory=True)
    for x, y in loader:
        assert x.is_pinned()
        assert y.is_pinned()
    samples = [{"a": cf.ones(2), "b": Pair(cf.zeros(1), "name"), "c": [1.0, None]}]
    (batch,) = DataLoader(
        samples, batch_size=None, num_workers=workers, pin_memory=True, collate_fn=lambda x: x
    )
    assert batch["a"].is_pinned()
    assert batch["b"].x.is_pinned()
    assert batch["b"].name == "name"
    assert batch["c"] == [1.0, None]
    (custom,) = DataLoader(
        [cf.ones(2)], num_workers=workers, pin_memory=True, collate_fn=lambda xs: Custom(xs[0])
    )
    assert custom.x.is_pinned()


# --- files -------------------------------------------------------------------------------------


def test_map_location_names_a_device_or_maps_those_that_tensors_lay_on(tmp_path):
    path = tmp_path / "state.safetensors"
    x = cf.arange(4.0, device="walled")
    cf.save({"there": x, "view": x[1:3], "here": cf.ones(2)}, path)

    def places(map_location: Any) -> list[str]:
        found = cf.load(path, map_location=map_location)
        assert found["there"].tolist() == [0.0, 1.0, 2.0, 3.0]
        assert found["view"].tolist() == [1.0, 2.0]
        assert found["view"].storage is found["there"].storage
        return [str(found[name].device) for name in ("there", "here")]

    assert places(None) == ["cpu", "cpu"]
    assert places("walled") == places(cf.device("walled")) == ["walled", "walled"]
    assert places({"walled": "cpu"}) == ["cpu", "cpu"]
    assert places({"cuda:0": "cpu"}) == places({}) == ["walled", "cpu"]
    assert places({"cpu": cf.device("walled")}) == ["walled", "walled"]
    assert places(lambda storage, location: storage) == ["cpu", "cpu"]
    assert places(lambda storage, location: None) == ["walled", "cpu"]
    assert places(lambda storage, location: storage.to("walled")) == ["walled", "walled"]
    seen = []
    places(lambda storage, location: seen.append((location, str(storage.device), storage.ndim)))
    assert sorted(seen) == [("cpu", "cpu", 1), ("walled", "cpu", 1)]


def test_what_map_location_must_not_be(tmp_path):
    path = tmp_path / "state.safetensors"
    cf.save({"x": cf.ones(2), "y": cf.ones(1, device="walled")}, path)
    with pytest.raises(TypeError, match=r"load: map_location is 3. It is a device, a dict"):
        cf.load(path, map_location=3)
    with pytest.raises(ValueError, match=r"load: map_location gave float32\[1\] for memory of"):
        cf.load(
            path, map_location=lambda storage, location: cf.ones(1) if len(storage) > 1 else None
        )
    with pytest.raises(cf.DeviceError, match="load: device 'webgpu:3' is not available"):
        cf.load(path, map_location={"walled": "webgpu:3"})
    with pytest.raises(ValueError, match="load: tensors on walled cannot lie in the file"):
        cf.load(path, mmap=True, map_location={})


def test_an_asynchronous_device_hands_memory_over_when_it_is_filled():
    def make() -> WalledDevice:
        found = AsynchronousDevice("later")
        found.exchange = WalledExchange(found)
        found.exchange.kind = (12, 1)
        return found

    with opened(make, "later") as later:
        x = cf.ones(3, device="later") + 1
        assert later.queue
        y = cf.from_dlpack(x)
        assert not later.queue
        assert y.tolist() == [2.0] * 3


# Ways in which an array of NumPy becomes a tensor of the device.
FROM_ARRAYS = {
    "from_numpy": lambda a: cf.from_numpy(a).to("walled"),
    "tensor": lambda a: cf.tensor(a, device="walled"),
    "as_tensor": lambda a: cf.as_tensor(a, device="walled"),
    "asarray": lambda a: cf.asarray(a, device="walled"),
    "new_tensor": lambda a: cf.ones(1, device="walled").new_tensor(a),
    "an operand": lambda a: cf.ones(2, 3, device="walled") * a,
    "copy_": lambda a: cf.zeros(2, 3, device="walled").copy_(cf.from_numpy(a)),
    "DLPack": lambda a: cf.from_dlpack(a).to("walled"),
    "a buffer": lambda a: cf.frombuffer(a, dtype=cf.float32).to("walled"),
    "a row": lambda a: cf.from_numpy(a[1]).to("walled"),
    "a number": lambda a: cf.ones(2, device="walled") * cf.from_numpy(a[1, 1:2].reshape(())),
}


@pytest.mark.parametrize("form", FROM_ARRAYS)
def test_an_array_of_numpy_is_read_at_every_call(form):
    array = np.arange(6, dtype=np.float32).reshape(2, 3)

    def function(x: cf.Tensor) -> cf.Tensor:
        return FROM_ARRAYS[form](array) + x

    compiled, zero = cf.compile(function), cf.zeros(1, device="walled")
    for i in range(5):
        array[1, 1] = i
        assert compiled(zero).tolist() == function(zero).tolist()
    assert compiled.captures == (1 if form not in ("a row", "a number") else 5)


def test_an_array_is_copied_to_a_device():
    array = np.ones(2, np.float32)
    x = cf.asarray(array, device="walled", copy=True)
    array[0] = 5.0
    assert (str(x.device), x.tolist()) == ("walled", [1.0, 1.0])
    with pytest.raises(ValueError, match="asarray: ndarray must be copied, and copy is False"):
        cf.asarray(array, device="walled", copy=False)
