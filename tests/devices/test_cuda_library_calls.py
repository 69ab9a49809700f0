"""Steps that a library does among the launches of a program, over a driver that notes its calls.

NumPy stands for the library, whose results land where the program wants them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from tests.devices.test_cuda_driver import recorded
from tests.helpers.recording_driver import RecordingDriver

import contraflow as cf
from contraflow.devices.cuda import matrices
from contraflow.devices.cuda.device import CudaDevice
from contraflow.devices.cuda.memory import CudaBuffer
from contraflow.testing import assert_close

L = cf.linalg


class Solver:
    """Inverses by NumPy; as the library, it knows none of a singular matrix."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self.calls: list[str] = []
        self.inverse = np.linalg.inv

    def run(self, name: str, inputs: Sequence[CudaBuffer], params: Any) -> list[CudaBuffer] | None:
        self.calls.append(name)
        assert not params
        try:
            return [self._device.upload(self.inverse(self._device.read(x))) for x in inputs]
        except np.linalg.LinAlgError:
            return None


@pytest.fixture
def device(monkeypatch) -> Iterator[tuple[CudaDevice, RecordingDriver, Solver]]:
    monkeypatch.setattr(matrices, "library", lambda: object())
    with recorded() as (found, library):
        found.limits = found.limits._replace(library=frozenset(["inv"]))
        found.solver = Solver(found)
        yield found, library, found.solver


def matrix() -> Any:
    return cf.tensor([[2.0, 1.0], [1.0, 3.0]], device="recorded")


def test_results_lie_where_the_program_wants_them(device):
    *_, solver = device
    expected = L.inv(matrix().cpu())
    assert_close(L.inv(matrix()).cpu(), expected)
    compiled = cf.compile(L.inv)
    for _ in range(8):
        assert_close(compiled(matrix()).cpu(), expected)
    assert solver.calls == ["inv"] * 9


def test_the_calls_come_in_the_order_of_the_steps(device):
    _, library, solver = device
    solver.inverse = np.copy  # kernels are not run: what they make is not a matrix
    compiled = cf.compile(lambda x: L.inv(x.exp()).sin())
    compiled(matrix())
    solver.calls.clear()
    library.launched.clear()
    order = solver.calls = library.launched
    compiled(matrix())
    assert len(order) == 3
    assert order[1] == "inv"


def test_explain_says_why_there_is_no_graph(device):
    device[2].inverse = np.copy
    compiled = cf.compile(lambda x: (L.inv(x.exp().cumsum(0)).cumsum(1)).cumsum(0))
    for _ in range(8):
        compiled(matrix())
    text = compiled.explain()
    assert "run as  launches: calls of cuSOLVER are not recorded (inv)" in text
    assert "library inv at test_cuda_library_calls.py" in text


def test_the_host_says_what_is_wrong_with_a_matrix_and_knows_what_is_empty(device):
    *_, solver = device
    singular = cf.ones(2, 2, device="recorded")
    device[0].write(np.ones((2, 2), np.float32), singular.storage.data)
    for function in (L.inv, cf.compile(lambda x: L.inv(x))):
        with pytest.raises(L.LinAlgError, match=r"inv: float32\[2, 2\] is singular."):
            function(singular)
        solver.calls.clear()
        assert function(cf.zeros(0, 2, 2, device="recorded")).shape == (0, 2, 2)
        assert solver.calls == []


def test_without_the_library_the_command_that_installs_it_is_named(device, monkeypatch):
    monkeypatch.setattr(matrices, "library", lambda: None)
    text = r"inv: .*cuSOLVER does it, which is not installed: pip install 'contraflow\[cuda\]'"
    with pytest.raises(cf.DeviceError, match=text):
        cf.compile(lambda x: L.inv(x))(matrix())


def test_a_failed_call_of_the_library_names_op_and_line(device, monkeypatch):
    def fail(*_: Any) -> None:
        raise cf.DeviceError("cuda: cusolverDnSgetrf failed with status 7.")

    monkeypatch.setattr(device[2], "run", fail)
    with pytest.raises(cf.DeviceError, match=r"inv: .*status 7.*test_cuda_library_calls.py"):
        cf.compile(lambda x: L.inv(x))(matrix())


def test_the_arena_stays_while_the_library_needs_memory(device):
    found = device[0]
    arena = found.arena(1 << 12)
    with found.arena_in_use():
        found.memory.make_room()
        assert found.arena(1 << 12) == arena
        assert found._arena[1]
    found.memory.make_room()
    assert found._arena == (0, 0)


def test_a_plan_of_kernels_needs_no_library(monkeypatch):
    monkeypatch.setattr(matrices, "library", lambda: pytest.fail("it was looked for"))
    with recorded():
        cf.compile(lambda x: x.exp())(matrix())
