"""Devices as with-blocks and decorators: where tensors are made meanwhile."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.helpers.walled import opened

import contraflow as cf


@pytest.fixture(autouse=True)
def walled():
    with opened():
        yield cf.device("walled")


def place() -> str:
    return str(cf.zeros(2).device)


def test_tensors_are_made_on_the_device_of_the_innermost_block(walled):
    with walled as entered:
        assert entered is walled
        assert cf.get_default_device() == "walled"
        assert {str(p.device) for p in cf.nn.Linear(2, 3).parameters()} == {"walled"}
        assert str(cf.tensor([1.0]).device) == "walled"
        assert str(cf.zeros(2, device="cpu").device) == "cpu"
        with cf.device("cpu"):
            assert place() == "cpu"
            with walled:  # the same object, entered again
                assert place() == "walled"
            assert place() == "cpu"
        assert place() == "walled"
    assert place() == "cpu"
    assert cf.get_default_device() == "cpu"


def test_tensors_of_another_device_keep_theirs(walled):
    x = cf.ones(3, requires_grad=True)
    with walled:
        y = cf.nn.functional.dropout(x * 2, 0.5)
        y.sum().backward()
    assert str(y.device) == str(x.grad.device) == "cpu"


def test_a_block_that_fails_ends_too(walled):
    with pytest.raises(ZeroDivisionError), walled:
        1 / 0  # noqa: B018
    assert place() == "cpu"


def test_a_block_concerns_its_thread_only(walled):
    with ThreadPoolExecutor(1) as other:
        with walled:
            assert other.submit(place).result() == "cpu"
            assert place() == "walled"
        with walled:
            assert place() == "walled"


def test_functions_that_are_decorated(walled):
    decorated = walled(place)
    assert decorated() == "walled"
    assert decorated.__name__ == "place"
    assert place() == "cpu"


def test_a_compiled_function_is_recorded_for_each_device(walled):
    ones = cf.compile(lambda: cf.ones(3) * 2)
    for _ in range(2):
        assert str(ones().device) == "cpu"
        with walled:
            assert str(ones().device) == "walled"
    assert ones.captures == 2


def test_a_block_within_a_compiled_function(walled):
    @cf.compile
    def f(x):
        with cf.device("walled"):
            y = cf.ones(3)
        return x + y

    for _ in range(3):
        assert f(cf.ones(3, device="walled")).tolist() == [2.0] * 3
    assert f.captures == 1


def test_a_device_that_is_absent_is_an_error_before_the_block():
    with (
        pytest.raises(cf.DeviceError, match=r"^device: device 'cuda:9' is not available"),
        cf.device("cuda:9"),
    ):
        raise AssertionError
    assert place() == "cpu"


def test_devices_stay_values(walled):
    with walled:
        found = pickle.loads(pickle.dumps(walled))
    assert found == walled == "walled"
    assert hash(found) == hash("walled")
