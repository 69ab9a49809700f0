"""LLVM works in the library's own threads only: an interrupt in the main one would break it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from llvmlite.binding import ffi

import contraflow as cf
from contraflow import config
from contraflow import threads as own
from contraflow.devices.cpu import jit, program
from contraflow.runtime import eager_programs
from contraflow.testing import assert_close

Call = tuple[str, bool]  # the function of LLVM's, and whether a thread of `threads.run` called it

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "elementwise": lambda x: (x * 1.25).sin() + 0.75,
    "fold": lambda x: (x * 1.25).sum(0),
    "product": lambda x: (x @ x).tanh(),
    "scan": lambda x: (x * 1.25).cumsum(0),
    "gradient": lambda x: cf.func.grad(lambda y: (y.exp() @ y).mean())(x),
}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> list[Call]:
    """The calls of LLVM, from a state in which nothing has been compiled or asked for."""
    found: list[Call] = []
    call, emit = ffi._lib_fn_wrapper.__call__, jit._emit_to_memory

    def note(name: str) -> None:
        main = threading.current_thread() is threading.main_thread()
        found.append((name, getattr(own._local, "inside", False) and not main))

    def noted(function: Any, *args: Any) -> Any:
        note(function._cfn.__name__)
        return call(function, *args)

    def noted_emit(*args: Any) -> Any:
        note("LLVMPY_TargetMachineEmitToMemory")
        return emit(*args)

    monkeypatch.setattr(ffi._lib_fn_wrapper, "__call__", noted)
    monkeypatch.setattr(jit, "_emit_to_memory", noted_emit)
    for module, name in ((jit, "_addresses"), (program, "_entries"), (eager_programs, "_routines")):
        monkeypatch.setattr(module, name, type(getattr(module, name))())
    monkeypatch.setattr(config, "cache_folder", tmp_path)
    for cached in (jit.processor, jit._features, jit.features, jit._target):
        cached.cache_clear()
    return found


def compile_all() -> None:
    """First calls of compiled functions, and of a large eager op."""
    x = cf.rand(40, 40)
    for function in FUNCTIONS.values():
        assert_close(cf.compile(function)(x), function(x))
    (cf.rand(500, 500) * 0.5).exp()


def test_only_threads_of_the_library_call_llvm(calls: list[Call]) -> None:
    compile_all()
    names = {name for name, _ in calls}
    assert {"LLVMPY_TargetMachineEmitToMemory", "LLVMPY_ParseAssembly"} <= names
    assert "LLVMPY_GetHostCPUName" in names
    assert sum(name == "LLVMPY_TargetMachineEmitToMemory" for name, _ in calls) >= len(FUNCTIONS)
    assert not {name for name, inside in calls if not inside}


def test_a_call_of_the_main_thread_is_found(
    calls: list[Call], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own, "run", lambda function, *args: function(*args))
    compile_all()
    strays = {name for name, inside in calls if not inside}
    assert {"LLVMPY_ParseAssembly", "LLVMPY_GetHostCPUName"} <= strays
