"""`cf.profiler`: what ran, how long, where it was written, and what memory it took."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

import contraflow as cf
from contraflow.profiler import profile, record_function


def names(p: profile, kind: str) -> list[str]:
    return [e.name for e in p.events if e.kind == kind]


def test_ops_have_names_times_lines_and_bytes() -> None:
    x = cf.ones(64, 32)
    with profile() as p:
        y = x @ x.mT
        y.exp()
    assert names(p, "op")[-2:] == ["matmul", "exp"]
    (matmul,) = (e for e in p.events if e.name == "matmul")
    assert matmul.made == 64 * 64 * 4
    assert matmul.total > 0
    assert str(matmul.line).startswith("test_profiler.py:")
    (exp,) = (e for e in p.events if e.name == "exp")
    assert matmul.line is not None
    assert exp.line is not None
    assert exp.line.number == matmul.line.number + 1
    assert exp.start >= matmul.start + matmul.total


def test_own_time_leaves_out_what_is_inside() -> None:
    with profile() as p, record_function("outer"):
        time.sleep(0.02)
        with record_function("inner"):
            time.sleep(0.03)
    inner, outer = p.events
    assert (inner.name, outer.name) == ("inner", "outer")
    assert inner.own >= 0.03
    assert outer.total >= 0.05
    assert outer.own == pytest.approx(outer.total - inner.total)


def test_the_gradient_of_an_op_is_noted_at_its_line() -> None:
    w = cf.ones(8, 8, requires_grad=True)
    with profile() as p:
        out = (w @ w).tanh()
        out.sum().backward()
    (tanh,) = (e for e in p.events if e.name == "tanh" and e.kind == "op")
    (backward,) = (e for e in p.events if e.name == "tanh" and e.kind == "backward")
    assert backward.line == tanh.line
    assert {"matmul", "tanh", "sum"} <= set(names(p, "backward"))


def test_a_compiled_function_shows_its_kernels() -> None:
    x = cf.rand(300, 200)
    function = cf.compile(lambda x: cf.linalg.inv((x @ x.mT).softmax(-1) + cf.eye(300)))
    expected = function(x)
    with profile() as p:
        found = function(x)
    assert cf.equal(found, expected)
    assert any("contraction" in name for name in names(p, "kernel"))
    assert names(p, "op") == []
    assert "inv" in names(p, "host")


def test_memory_over_time() -> None:
    with profile() as p:
        a = cf.zeros(1000)
        b = a + 1
        del a
        del b
    assert p.peak_memory == 8000
    assert p.memory[-1][1] == 0
    assert [when for when, _ in p.memory] == sorted(when for when, _ in p.memory)


def test_tables() -> None:
    with profile() as p:
        for _ in range(3):
            cf.ones(4).exp()
    rows = {row.name: row for row in p.key_averages()}
    assert rows["exp"].calls == 3
    assert rows["exp"].made == 48
    text = p.key_averages().table(sort_by="calls", row_limit=1)
    assert text.splitlines()[0].split()[:2] == ["name", "calls"]
    assert "more" in text
    for theirs, ours in (
        ("cpu_time_total", "total"), ("self_cpu_time_total", "own"),
        ("count", "calls"), ("cpu_memory_usage", "made"),
    ):  # fmt: skip
        assert p.key_averages().table(theirs, 5) == p.key_averages().table(ours, 5)
    (line,) = p.key_averages("line")
    assert line.name.startswith("test_profiler.py:")
    with pytest.raises(ValueError, match="table: sort_by is 'x'"):
        p.key_averages().table(sort_by="x")
    with pytest.raises(ValueError, match="key_averages: group_by is 'x'"):
        p.key_averages("x")


def test_a_chrome_trace(tmp_path: Path) -> None:
    with profile() as p:
        cf.ones(4).exp()
    p.export_chrome_trace(tmp_path / "trace.json")
    rows: Any = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    (exp,) = (row for row in rows if row["name"] == "exp")
    assert exp["ph"] == "X"
    assert exp["dur"] > 0
    assert exp["args"]["bytes"] == 16
    assert any(row["ph"] == "C" for row in rows)


def test_it_changes_no_result_and_ends() -> None:
    x = cf.rand(5, 5, requires_grad=True)
    with profile() as p:
        (x.exp() * 2).sum().backward()
    count = len(p.events)
    found, x.grad = x.grad, None
    (x.exp() * 2).sum().backward()
    assert cf.equal(found, x.grad)
    assert len(p.events) == count
    with pytest.raises(RuntimeError, match="profile: is running already"), p, p:
        pass
    with pytest.raises(ZeroDivisionError), profile() as q:
        cf.ones(1, dtype=cf.int64) // cf.zeros(1, dtype=cf.int64)
    assert "floor_divide" in names(q, "op")


def test_without_a_profile_a_name_costs_nothing() -> None:
    with record_function("step"):
        assert cf.ones(1).item() == 1
