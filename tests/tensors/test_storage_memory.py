"""The memory of a storage: it gets some once, and programs may rely on where it lies."""

from __future__ import annotations

import numpy as np
import pytest

import contraflow as cf
from contraflow.tensors.storage import Storage


def test_memory_is_received_once():
    storage = Storage(None)
    assert storage.is_recorded
    data = np.zeros(3)
    storage.receive(data)
    assert storage.data is data
    with pytest.raises(AssertionError, match="a storage that has memory keeps it"):
        storage.receive(np.zeros(3))
    assert storage.data is data


def test_a_parameter_of_unknown_shape_receives_memory_in_its_storage():
    layer = cf.nn.LazyLinear(2)
    storage = layer.weight.storage
    layer(cf.ones(1, 3))
    assert layer.weight.storage is storage
    assert storage.data.size == 6


def test_data_cannot_be_exchanged():
    storage = cf.ones(3).storage
    with pytest.raises(AttributeError):
        storage.data = np.zeros(3)
