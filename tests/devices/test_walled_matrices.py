"""Ops that a library of a device does, in eager mode and in compiled functions.

On the walled device NumPy stands for the library. It is given whole buffers of the dtypes that it
computes in.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.helpers.walled import PLAIN, AsynchronousDevice, GraphDevice, WalledDevice, opened

import contraflow as cf
from contraflow.devices.cuda.matrices import OPS
from contraflow.runtime import routine
from contraflow.testing import assert_close

L = cf.linalg
LIMITS = PLAIN._replace(library=frozenset(OPS))


@pytest.fixture(params=[WalledDevice, AsynchronousDevice, GraphDevice])
def device(request) -> Iterator[WalledDevice]:
    with opened(lambda: request.param(limits=LIMITS)) as found:
        yield found


def regular(*shape: int) -> np.ndarray:
    values = np.random.default_rng(0).standard_normal(shape)
    return values + 3.0 * np.eye(shape[-2], shape[-1])


def definite(*shape: int) -> np.ndarray:
    x = regular(*shape)
    return x @ np.swapaxes(x, -1, -2)


CASES = {
    "cholesky": (lambda x: L.cholesky(x * 2.0).exp(), [definite(2, 4, 4)]),
    "solve": (lambda a, b: L.solve(a @ a, b).sin(), [regular(4, 4), regular(4, 3)]),
    "inv of a part that lies across": (lambda x: L.inv(x.mT[1:]) @ x[0], [regular(3, 4, 4)]),
    "inv of a product": (lambda x: L.inv(x @ x + 1.0) @ x, [regular(3, 3)]),
    "one behind the other": (lambda x: L.inv(L.cholesky(x)).sum(-1), [definite(3, 3)]),
    "det": (lambda x: L.det(x) * 2.0, [regular(2, 3, 3)]),
    "slogdet": (lambda x: tuple(L.slogdet(x)), [regular(3, 3)]),
    "qr": (lambda x: tuple(y.abs() for y in L.qr(x)), [regular(5, 3)]),
    "eigh": (lambda x: L.eigvalsh(x), [definite(4, 4)]),
    "singular values": (lambda x: L.svdvals(x), [regular(4, 3)]),
    "composite": (lambda x: L.matrix_norm(x, "nuc"), [regular(4, 3)]),
}  # fmt: skip


def values_and_gradients(function: Any, arrays: list[np.ndarray], place: str) -> Any:
    inputs = [cf.tensor(x, device=place, requires_grad=True) for x in arrays]

    def derived(*xs: Any) -> Any:
        found = function(*xs)
        outs = found if isinstance(found, tuple) else (found,)
        total = sum((out * out.detach().cos()).sum() for out in outs if out.requires_grad)
        return outs, cf.autograd.grad(total, xs)

    return inputs, derived


def flat(found: Any) -> list[Any]:
    return [x.detach().cpu() for part in found for x in part]


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name, device):
    function, arrays = CASES[name]
    here, derived = values_and_gradients(function, arrays, "cpu")
    expected = flat(derived(*here))
    there, derived = values_and_gradients(function, arrays, "walled")
    device.synchronize()
    before = device.downloads
    eager, compiled = derived(*there), cf.compile(derived)
    found = [eager, compiled(*there), compiled(*there)]
    assert device.downloads == before
    assert compiled.captures == 1
    for each in found:
        for x, y in zip(flat(each), expected, strict=True):
            assert_close(x, y)


def test_an_input_is_cast_to_what_the_op_computes_in(device):
    x = cf.tensor([[3, 1], [1, 2]], device="walled")
    compiled = cf.compile(lambda x: L.inv(x.float()))
    assert_close(compiled(x).cpu(), L.inv(x.cpu().float()))


def test_explain_names_what_the_library_does(device):
    compiled = cf.compile(lambda x: L.cholesky(x + 1.0).exp())
    compiled(cf.tensor(definite(3, 3), device="walled"))
    rows = compiled.explain().splitlines()
    assert [row.split()[0] for row in rows if "cholesky" in row and "at test" in row] == ["library"]


def test_a_composite_is_recorded_once(device, monkeypatch):
    x = cf.tensor(regular(4, 3), device="walled")
    L.matrix_norm(x, "nuc")
    made: list[str] = []
    monkeypatch.setattr(routine, "recorded", lambda name, *_: made.append(name))
    L.matrix_norm(x, "nuc")
    assert made == []


def test_a_matrix_without_a_result_changes_nothing(device):
    weight = cf.tensor(definite(3, 3), device="walled")
    count = cf.zeros(1, device="walled")

    @cf.compile
    def step(x: Any) -> Any:
        count.add_(1.0)
        weight.mul_(0.5)
        return L.cholesky(x * 2.0) @ weight

    good = cf.tensor(definite(3, 3), device="walled")
    for _ in range(2):
        step(good)
    before = weight.cpu(), count.cpu()
    for bad in (-good, good * 0.0):
        with pytest.raises(L.LinAlgError, match="not positive definite"):
            step(bad).cpu()
        assert_close(weight.cpu(), before[0])
        assert_close(count.cpu(), before[1])
    step(good)
    assert count.item() == before[1].item() + 1.0


def test_other_ops_without_a_kernel_are_refused(device):
    with pytest.raises(cf.DeviceError, match="lu_factor: it runs on the host only"):
        L.lu_factor(cf.tensor(regular(3, 3), device="walled"))
