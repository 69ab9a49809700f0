"""Functions that run unobserved while another is recorded are named."""

from __future__ import annotations

import ctypes
import importlib
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import contraflow as cf
from contraflow.capture import explain
from contraflow.capture.observing import alarm

heard = pytest.mark.skipif(not alarm.HEARS, reason="Python tells what runs from 3.12 on")
monitoring: Any = getattr(sys, "monitoring", None)
scale = 2.0


def hidden(x: float) -> float:
    return scale * x


# An object of C's whose function cannot be found.
callback = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(hidden)
HIDDEN = f"hidden at test_alarm.py:{hidden.__code__.co_firstlineno}"


def tools() -> list[str | None]:
    return [monitoring.get_tool(tool) for tool in range(6)]


@heard
def test_a_function_that_only_c_knows_is_named_once() -> None:
    f = cf.compile(lambda x: x * callback(3.0))
    with pytest.warns(UserWarning, match="not observed") as warned:
        assert f(cf.ones(2)).tolist() == [6.0, 6.0]
    assert [str(warning.message) for warning in warned] == [
        f"compile(<lambda>): {HIDDEN} ran while recording and was not observed, so that nobody "
        f"notices when what it reads changes. Call it from Python code of yours, or compare the "
        f"first n calls with eager: cf.compile(f, verify=n)."
    ]
    assert warned[0].filename == __file__
    f(cf.ones(3))  # recorded again, and no warning
    assert f.captures == 2
    assert f.unobserved == [HIDDEN]
    assert f"not observed: {HIDDEN}" in f.explain().splitlines()
    f.clear()
    assert f.unobserved == []


@heard
def test_observed_functions_give_no_alarm() -> None:
    def helper(x: cf.Tensor) -> cf.Tensor:
        return x * sum(map(hidden, sorted([1.0, 2.0], key=lambda v: -v)))

    f = cf.compile(lambda x: helper(x))
    assert f(cf.ones(2)).tolist() == [6.0, 6.0]
    assert f.unobserved == []
    assert "not observed" not in f.explain()


@heard
def test_a_recording_during_an_import_gives_the_alarm(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What happens once is an import by the function, not one around the recording."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "recorded_at_import.py").write_text(
        "import contraflow as cf\n"
        "from tests.capture.test_alarm import callback\n"
        "f = cf.compile(lambda x: x * callback(3.0))\n"
        "result = f(cf.ones(2)).tolist()\n"
    )
    with pytest.warns(UserWarning, match="not observed"):
        module = importlib.import_module("recorded_at_import")
    assert module.f.unobserved == [HIDDEN]


class Output:
    """Where `print` goes, as in a notebook: C calls its methods."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines

    def write(self, text: str) -> None:
        self.note(text)

    def note(self, text: str) -> None:
        self.lines.append(text)


@heard
def test_what_happens_once_gives_no_alarm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "imported_meanwhile.py").write_text(
        "def double(x):\n    return x * 2\n\nFOUR = double(2)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "imported_meanwhile", raising=False)
    lines: list[str] = []

    def f(x: cf.Tensor) -> cf.Tensor:
        print("recorded")
        import imported_meanwhile  # type: ignore[import-not-found]

        return x * imported_meanwhile.FOUR

    monkeypatch.setattr(sys, "stdout", Output(lines))
    compiled = cf.compile(f)
    for _ in range(3):
        assert compiled(cf.ones(2)).tolist() == [4.0, 4.0]
    assert lines == ["recorded", "\n"]
    assert compiled.unobserved == []


@heard
def test_nobody_listens_after_a_recording() -> None:
    before = tools()

    def fail(x: cf.Tensor) -> None:
        assert tools() != before
        raise KeyboardInterrupt

    cf.compile(lambda x: x + 1)(cf.ones(2))
    assert tools() == before
    with pytest.raises(KeyboardInterrupt):
        cf.compile(fail)(cf.ones(2))
    assert tools() == before


@heard
def test_numbers_of_tools_that_others_have_are_left_alone() -> None:
    taken = [tool for tool in range(6) if monitoring.get_tool(tool) is None]
    for tool in taken:
        monitoring.use_tool_id(tool, "test")
    try:
        before = tools()
        f = cf.compile(lambda x: x * callback(3.0))
        assert f(cf.ones(2)).tolist() == [6.0, 6.0]
        assert f.unobserved == []
        assert tools() == before
    finally:
        for tool in taken:
            monitoring.free_tool_id(tool)


@heard
def test_other_threads_are_not_heard() -> None:
    done, begun = threading.Event(), threading.Event()

    def run() -> None:
        while not done.is_set():
            hidden(1.0)
            begun.set()

    def wait(x: float) -> float:
        begun.clear()
        begun.wait(60)  # so that the other thread has run its function meanwhile
        return x

    waiting = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(wait)
    f = cf.compile(lambda x: x * waiting(3.0))
    thread = threading.Thread(target=run)
    thread.start()
    try:
        with pytest.warns(UserWarning, match="wait at test_alarm.py"):
            f(cf.ones(2))
    finally:
        done.set()
        thread.join()
    assert len(f.unobserved) == 1


def test_where_python_does_not_tell_explain_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alarm, "HEARS", False)
    monkeypatch.setattr(explain, "HEARS", False)
    f = cf.compile(lambda x: x * callback(3.0))
    assert f(cf.ones(2)).tolist() == [6.0, 6.0]
    assert f.unobserved == []
    last = f.explain().splitlines()[-1]
    assert last == "not observed: unknown, since only Python 3.12 and later tell what runs"
