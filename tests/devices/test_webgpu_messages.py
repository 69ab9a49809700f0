"""Errors on the webgpu device: they name what the user called, as on the cpu, and a remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import contraflow as cf
import contraflow.nn.functional as F

pytestmark = pytest.mark.usefixtures("webgpu")


@pytest.mark.parametrize(
    "call",
    [
        lambda place: F.cross_entropy(cf.ones(2, 3).to(place), cf.tensor([0, 7]).to(place)),
        lambda place: F.embedding(cf.tensor([0, 3]).to(place), cf.ones(3, 2).to(place)),
        lambda place: cf.ones(2, 3).to(place).gather(1, cf.tensor([[0, 7]]).to(place)),
        lambda place: F.nll_loss(cf.ones(2, 3).to(place), cf.tensor([0, -4]).to(place)),
    ],
    ids=["cross_entropy", "embedding", "gather", "nll_loss"],
)
def test_a_wrong_index_is_told_as_on_the_cpu(call: Callable[[str], Any]) -> None:
    with pytest.raises(IndexError) as here:
        call("cpu")
    with pytest.raises(IndexError) as there:
        call("webgpu")
    assert type(there.value) is type(here.value) is IndexError
    assert str(there.value) == str(here.value)


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (lambda x: x.double(), r"^to: float64 is not a dtype of webgpu; compute it in float32, or"),
        (lambda x: x.bfloat16(), r"^to: bfloat16 is not .* cpu: x\.to\('cpu'\), at test_webgpu"),
        (lambda x: x.to(cf.int16), r"^to: int16 is not a dtype of webgpu; compute it in int32"),
        (cf.compile(lambda x: x.double().sum()), r"^to: float64 is not .*; compute it in float32"),
    ],
)
def test_a_dtype_that_it_lacks_is_refused_with_a_remedy(call: Any, remedy: str) -> None:
    with pytest.raises(cf.DeviceError, match=remedy):
        call(cf.ones(3, device="webgpu"))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x: cf.full((3,), 2**40, device=x.device), "full"),
        (lambda x: x + 2**40, "add"),
        (lambda x: cf.where(x > 1, 2**40, 0), "where"),
    ],
    ids=["full", "add", "where"],
)
def test_an_integer_that_does_not_fit_names_the_op(call: Any, name: str) -> None:
    x = cf.arange(3, device="webgpu")
    with pytest.raises(
        OverflowError, match=r"^\w+: a result, or a number given, does not fit the 32 bits"
    ) as found:
        call(x)
    assert str(found.value).startswith(f"{name}: ")
    assert x.tolist() == [0, 1, 2]


def test_an_integer_among_the_arguments_of_a_compiled_function() -> None:
    @cf.compile
    def f(x, n):
        return x.float().sin(), x + n

    x = cf.arange(3, device="webgpu")
    assert f(x, 5)[1].tolist() == [5, 6, 7]
    with pytest.raises(OverflowError, match=r"^add: .* 32 bits .* at test_webgpu_messages.py:\d+"):
        f(x, 2**40)
    assert f(x, 6)[1].tolist() == [6, 7, 8]
