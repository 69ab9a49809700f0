"""Profiles of compiled calls: each kernel is noted at the line of the op that it is for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers.marked_lines import lines_of
from tests.helpers.walled import AsynchronousDevice, GraphDevice, WalledDevice, opened

import contraflow as cf
from contraflow.profiler import Event, profile

DEVICES: dict[str, Callable[[], Any]] = {
    "walled": WalledDevice, "graph": GraphDevice,
}  # fmt: skip


@pytest.fixture(params=["cpu", "webgpu", *DEVICES])
def place(request: pytest.FixtureRequest) -> Iterator[str]:
    """A device by its name."""
    if request.param == "webgpu":
        request.getfixturevalue("webgpu")
    if request.param not in DEVICES:
        yield request.param
        return
    device = DEVICES[request.param]()
    with opened(lambda: device, "walled"):
        yield "walled"


def drawn(place: str, *shape: int, grad: bool = False) -> cf.Tensor:
    array = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    return cf.tensor(array, device=place, requires_grad=grad)


def kernels(p: profile) -> list[Event]:
    return [e for e in p.events if e.kind == "kernel"]


def training(place: str) -> tuple[Any, cf.Tensor, cf.Tensor]:
    w = drawn(place, 12, 6, grad=True)

    @cf.compile
    def step(x: cf.Tensor) -> cf.Tensor:
        w.grad = None
        h = x @ w  # product
        y = h.softmax(-1)  # rows
        loss = (y * y).sum()  # loss
        loss.backward()  # backward
        return loss

    return step, drawn(place, 8, 12), w


def test_a_step_of_training(place: str, tmp_path: Path) -> None:
    step, x, w = training(place)
    for _ in range(3):
        expected = step(x)
    gradient = w.grad
    with profile() as p:
        found = step(x)
        found.item()
    np.testing.assert_allclose(found.numpy(force=True), expected.numpy(force=True), 1e-6)
    np.testing.assert_allclose(w.grad.numpy(force=True), gradient.numpy(force=True), 1e-6)
    at = lines_of(training)
    by_line: dict[str, set[str]] = {}
    for event in kernels(p):
        by_line.setdefault(str(event.line), set()).add(event.op)
    assert by_line[at["product"]] == {"matmul", "matmul backward"}
    assert "softmax backward" in by_line[at["rows"]]
    assert by_line.keys() <= {at["product"], at["rows"], at["loss"], at["backward"]}
    rows = {row.name.split()[0]: row for row in p.key_averages("line")}
    assert rows[at["product"]].calls == 2
    assert all(event.total > 0 for event in kernels(p))
    names = [row.name for row in p.key_averages()]
    assert any(name.startswith("matmul backward ") and "contraction" in name for name in names)
    p.export_chrome_trace(tmp_path / "trace.json")
    shown = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    (product,) = (row for row in shown if row["name"] == f"matmul at {at['product']}")
    assert product["cat"] == "kernel"
    assert product["args"]["line"] == at["product"]
    assert product["args"]["kernel"].startswith("contraction")


def joined(place: str) -> tuple[Any, cf.Tensor]:
    @cf.compile
    def run(x: cf.Tensor) -> cf.Tensor:
        y = x.exp()  # first
        z = y * 2.0 + 1.0  # second
        return z.sin()  # third

    return run, drawn(place, 5, 7)


def test_a_kernel_of_several_lines_counts_the_others(place: str, tmp_path: Path) -> None:
    run, x = joined(place)
    run(x)
    with profile() as p:
        run(x).tolist()
    at = lines_of(joined)
    (kernel,) = kernels(p)
    assert (kernel.op, str(kernel.line)) == ("sin", at["third"])
    assert {str(line) for line in kernel.others} == {at["first"], at["second"]}
    (row,) = (row for row in p.key_averages("line") if row.name.startswith(at["third"]))
    assert row.name == f"{at['third']} +2"
    p.export_chrome_trace(tmp_path / "trace.json")
    shown = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert f"sin at {at['third']} +2" in [row["name"] for row in shown]


def differentiated(place: str) -> tuple[Any, cf.Tensor]:
    w = drawn(place, 7, 4, grad=True)

    @cf.compile
    def run(x: cf.Tensor) -> cf.Tensor:
        return (x @ w).sum(0)  # inside

    return run, drawn(place, 5, 7)


def test_the_backward_of_a_compiled_function_belongs_to_its_lines(place: str) -> None:
    run, x = differentiated(place)
    run(x).sum().backward()
    with profile() as p:
        run(x).sum().backward()
    inside = lines_of(differentiated)["inside"]
    ops = [event.op for event in kernels(p) if str(event.line) == inside]
    assert "matmul backward" in ops
    assert ops[0] == "matmul"


def test_a_program_of_eager_mode_belongs_to_the_op_that_runs() -> None:
    x = drawn("cpu", 300, 200)

    def run() -> None:
        x @ x.mT  # here
        x @ x.mT  # there

    run()  # the program is recorded by neither of the two below
    with profile() as p:
        run()
    at = lines_of(run)
    assert [(e.op, str(e.line)) for e in kernels(p)] == [
        ("matmul", at["here"]), ("matmul", at["there"]),
    ]  # fmt: skip


def test_host_steps_have_lines_too() -> None:
    def solved() -> tuple[Any, cf.Tensor]:
        @cf.compile
        def run(x: cf.Tensor) -> cf.Tensor:
            y = x @ x.mT + cf.eye(6)
            return cf.linalg.inv(y)  # host

        return run, drawn("cpu", 6, 6)

    run, x = solved()
    run(x)
    with profile() as p:
        run(x)
    (host,) = (event for event in p.events if event.kind == "host")
    assert (host.name, str(host.line)) == ("inv", lines_of(solved)["host"])


def counted(place: str) -> tuple[Any, cf.Tensor]:
    total = cf.zeros(6, device=place)

    @cf.compile
    def run(x: cf.Tensor) -> cf.Tensor:
        before = total.clone()
        total.add_(x)  # written
        return before

    return run, drawn(place, 6)


def test_a_write_to_state_belongs_to_its_line(place: str) -> None:
    run, x = counted(place)
    run(x)
    with profile() as p:
        run(x).tolist()
    assert lines_of(counted)["written"] in {
        str(line) for event in kernels(p) for line in (event.line, *event.others)
    }


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_wrong_index_under_a_profile_names_its_line(asynchronous: bool) -> None:
    device = AsynchronousDevice() if asynchronous else WalledDevice()

    def chosen(place: str) -> Any:
        x = drawn(place, 5, 3)

        @cf.compile
        def run(at: cf.Tensor) -> cf.Tensor:
            return x[at] * 2.0  # wrong

        return run

    with opened(lambda: device, "walled"):
        run = chosen("walled")
        run(cf.tensor([0, 1], device="walled"))
        with profile(), pytest.raises(IndexError, match=f"at {lines_of(chosen)['wrong']}"):
            run(cf.tensor([0, 9], device="walled")).tolist()
