"""Threads, forks and hooks that meet at the worst moment: nothing is lost or half done."""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import FrameType
from typing import Any

import numpy as np
import pytest
from tests.helpers.scripts import script

import contraflow as cf
from contraflow import threads
from contraflow.devices.cpu import jit
from contraflow.dtypes import float32
from contraflow.expressions import expression
from contraflow.tensors import epoch
from contraflow.tensors.replayed import Writes, count_replays
from contraflow.tensors.storage import Storage

# --- races -------------------------------------------------------------------------------------


def between_lines(module: Any, call: Callable[[], Any], act: Callable[[], Any]) -> Any:
    """What a call gives, if something happens before each line that runs in a module, as it may by
    another thread."""

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != module.__file__:
            return None
        if event == "line":
            act()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return call()
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("moment", range(10))
def test_equal_expressions_are_one_object(moment):
    """Although another thread makes the same one at any moment."""
    results: list[Any] = []
    lines = itertools.count()

    def make() -> None:
        results.append(expression.make("const", (), float32, moment + 0.123456))

    other = threading.Thread(target=make)

    def act() -> None:
        if next(lines) == moment:
            other.start()
            other.join(0.05)  # it may have to wait for this thread

    between_lines(expression, make, act)
    if other.ident is not None:
        other.join()
    assert len(results) == 2 or moment > 3
    assert len({id(e) for e in results}) == 1


def test_expressions_made_by_many_threads_are_one_object():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            start = threading.Barrier(4)

            def make(_: int) -> list[Any]:
                start.wait()
                return [expression.make("const", (), float32, n + 0.25) for n in range(2000)]

            lists = list(pool.map(make, range(4)))
    finally:
        sys.setswitchinterval(interval)
    assert all(len({id(e) for e in same}) == 1 for same in zip(*lists, strict=True))


def test_expressions_that_nobody_holds_are_forgotten():
    def deep() -> Any:
        e = expression.const(0.987654, float32)
        for _ in range(50):
            e = e + e
        return e

    e = deep()
    assert deep() is e
    before = len(expression._interned)
    del e
    expression.const(0.876543, float32)
    assert len(expression._interned) <= before - 50


def test_a_storage_that_programs_write_to_has_a_version_at_any_moment():
    module = sys.modules[Writes.__module__]
    storage, owner = Storage(np.zeros(2)), expression.Size(1)
    storage.wrote("add_", None)
    seen: list[Any] = []

    class Owner:
        pass

    def look() -> None:
        seen.append((storage.version, storage.writer[0]))

    owner = Owner()
    writes = Writes(weakref.ref(owner))
    between_lines(module, lambda: count_replays(storage, writes, ("replay", None)), look)
    assert set(seen) == {(1, "add_")}
    writes.count, writes.last = 5, 1 << 60
    assert (storage.version, storage.writer[0]) == (6, "replay")
    del owner  # the program is gone, and what it has counted is taken over
    other = Owner()
    seen.clear()
    writes = Writes(weakref.ref(other))
    between_lines(module, lambda: count_replays(storage, writes, ("b", None)), look)
    assert len(seen) > 3
    assert set(seen) == {(6, "replay")}
    assert len(storage.log.replays) == 1


def watch_epoch(monkeypatch: pytest.MonkeyPatch, look: Callable[[], Any]) -> list[Any]:
    """What is seen at the moment when the structure epoch moves."""
    seen: list[Any] = []
    changed = epoch.Structure.changed

    def watched() -> None:
        seen.append(look())
        changed()

    monkeypatch.setattr(epoch.Structure, "changed", watched)
    return seen


@pytest.mark.parametrize("name", ["register_hook", "register_post_accumulate_grad_hook"])
def test_a_hook_is_there_when_the_epoch_moves(name, monkeypatch):
    x = cf.ones(2, requires_grad=True)
    seen = watch_epoch(
        monkeypatch, lambda: len({**(x._hooks or {}), **(x._accumulated_hooks or {})})
    )
    handle = getattr(x, name)(lambda t: None)
    assert seen == [1]
    handle.remove()
    assert seen == [1, 0]


def test_a_hook_of_a_module_is_there_when_the_epoch_moves(monkeypatch):
    module = cf.nn.Linear(2, 2)
    seen = watch_epoch(monkeypatch, lambda: len(module._forward_hooks))
    handle = module.register_forward_hook(lambda *given: None)
    assert set(seen) == {1}
    seen.clear()
    handle.remove()
    assert set(seen) == {0}


def test_an_optimizer_has_changed_when_the_epoch_moves(monkeypatch):
    optimizer = cf.optim.SGD([cf.ones(2, requires_grad=True)], lr=0.1)
    before = optimizer._structure
    seen = watch_epoch(monkeypatch, lambda: optimizer._structure > before)
    optimizer.register_step_pre_hook(lambda *given: None)
    optimizer.param_groups[0].restructured()
    assert seen == [True, True]


def test_what_changes_while_guards_look_is_looked_at_again(monkeypatch):
    x = cf.ones(3, requires_grad=True)
    step = cf.compile(lambda: (x * 2).sum())
    step()
    guards = step.programs[0].guards
    epoch.Structure.changed()
    watched = guards.watched[0]
    kind = type(watched)
    holds = kind.holds

    def held(self: Any) -> bool:
        found = holds(self)
        epoch.Structure.changed()  # as another thread does at this moment
        return found

    monkeypatch.setattr(kind, "holds", held)
    assert guards.are_current()
    assert guards.epoch != epoch.Structure.epoch


# --- threads and forks -------------------------------------------------------------------------


def test_work_aside_is_done_by_another_thread_one_at_a_time():
    main, busy, most = threading.get_ident(), [], []

    def work(n: int) -> tuple[int, int]:
        busy.append(n)
        most.append(len(busy))
        time.sleep(0.001)
        busy.remove(n)
        return n, threads.run(threading.get_ident)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda n: threads.run(work, n), range(12)))
    assert [n for n, _ in found] == list(range(12))
    assert main not in {ident for _, ident in found}
    assert set(most) == {1}


def test_what_goes_wrong_aside_is_raised():
    def fail() -> None:
        raise LookupError("aside")

    with pytest.raises(LookupError, match="aside"):
        threads.run(fail)


@pytest.mark.parametrize("most", [1, 3, 20])
def test_calls_that_are_made_together_keep_their_order_and_a_number_of_threads(most: int):
    busy, counts = set[int](), list[int]()

    def work(n: int) -> int:
        busy.add(n)
        counts.append(len(busy))
        time.sleep(0.001 * (n % 3))
        busy.remove(n)
        return n * n

    found = threads.together([partial(work, n) for n in range(12)], most)
    assert found == [n * n for n in range(12)]
    assert max(counts) <= most
    assert threads.together([], most) == []


@pytest.mark.parametrize("most", [1, 3])
def test_one_of_the_calls_made_together_that_fails_is_the_error_of_all(most: int):
    def fail() -> int:
        raise LookupError("one of three")

    with pytest.raises(LookupError, match="one of three"):
        threads.together([lambda: 1, fail, lambda: 3], most)


def test_an_interrupt_ends_the_wait_and_not_the_work():
    """Signals are sent until one is seen: one that comes just before a wait does not end it."""
    ended = script(
        "import os, signal, threading, time\n"
        "from contraflow import threads\n"
        "go, seen, done = threading.Event(), threading.Event(), []\n"
        "def interrupt(*given):\n"
        "    if not seen.is_set():\n"
        "        seen.set()\n"
        "        raise KeyboardInterrupt\n"
        "signal.signal(signal.SIGINT, interrupt)\n"
        "def work():\n"
        "    while not seen.is_set():\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        time.sleep(0.1)\n"
        "    go.wait()\n"
        "    done.append(1)\n"
        "try:\n"
        "    threads.run(work)\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', done)\n"
        "go.set()\n"
        "print(threads.run(len, 'next'), done)\n"
    )
    assert (ended.stdout, ended.stderr) == ("interrupted []\n4 [1]\n", "")


def test_modules_are_imported_without_work_aside():
    """A thread that imports would wait for the module that is just being imported here."""
    ended = script(
        "import pkgutil, importlib, contraflow\n"
        "from contraflow import threads\n"
        "def refuse(*given): raise AssertionError('work aside in an import')\n"
        "threads.start = refuse\n"
        "for found in pkgutil.walk_packages(contraflow.__path__, 'contraflow.'):\n"
        "    if not found.name.endswith('__main__'):\n"
        "        importlib.import_module(found.name)\n"
        "print('all')\n"
    )
    assert (ended.stdout, ended.stderr) == ("all\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Python warns of forks beside threads
def test_a_child_forked_while_something_compiles_works(tmp_path, monkeypatch):
    monkeypatch.setattr(cf.config, "cache_folder", tmp_path)
    stop = threading.Event()
    step = cf.compile(lambda x: (x * 2.0).sum())

    def compile_on() -> None:
        n = 0
        while not stop.is_set():
            n += 1
            text = f"define i64 @f{n}() {{ ret i64 {n} }}"
            assert jit.function(f"f{n}", text)
            cf.compile(lambda x, n=n: (x + n).tanh() * n)(cf.ones(3))
            step(cf.ones(7))

    thread = threading.Thread(target=compile_on)
    thread.start()
    try:
        for number in range(6):
            child = os.fork()
            if not child:
                try:
                    x = cf.full((3,), float(number))
                    found = cf.compile(lambda x: (x - 1.0).exp() * 3.0)(x)
                    fine = np.allclose(found.numpy(), 3 * np.exp(x.numpy() - 1))
                    fine &= step(cf.ones(7)).item() == 14
                    os._exit(0 if fine else 1)
                finally:
                    os._exit(2)
            assert os.waitpid(child, 0)[1] == 0, number
    finally:
        stop.set()
        thread.join()
