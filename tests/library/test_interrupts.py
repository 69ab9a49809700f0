"""Ctrl-C at any moment: nothing crashes or hangs, no interrupt is lost, and no state is half done.

`interrupted.py` is the program that is interrupted at random. Beside it stand tests of single
places that went wrong: each failed before it was mended.
"""

from __future__ import annotations

import ast
import dis
import gc
import inspect
import itertools
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from tests.helpers.interrupted import WORKS

import contraflow as cf
from contraflow import threads
from contraflow.capture import hit
from contraflow.devices.cpu import jit
from contraflow.devices.cpu.program import _scratch
from contraflow.dtypes import float32
from contraflow.expressions import expression
from contraflow.operation import context
from contraflow.tensors import epoch
from contraflow.tensors.replayed import Writes, count_replays
from contraflow.tensors.storage import Storage

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(cf.__file__).parent
LIMIT = 300  # seconds for a process, on a machine that does much else

# How many processes of each work: in `make test`, and all.
FEW = {"imports": 3, "eager": 5, "compiled": 4, "replay": 3, "backward": 2, "save": 3, "threads": 4}
MANY = dict.fromkeys(WORKS, 62) | {"eager": 66, "compiled": 65, "processes": 59}
PARTS = 8  # in which all are run, for as many processors


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))), **more}


def failure(work: str, seed: int, folder: Path) -> str | None:
    """What goes wrong in a process that is interrupted; None if nothing does."""
    folder.mkdir()
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "tests.helpers.interrupted", work, str(seed), str(folder)],
            env=environment(CONTRAFLOW_CACHE_DIR=str(folder / "cache"), OMP_NUM_THREADS="1"),
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return f"{work} {seed} hangs: {error.stderr!r}"
    # Python says on stderr what it has dropped; an import may lose an interrupt, and nothing else.
    if ended.returncode or ("ignored" in ended.stderr and work != "imports"):
        return f"{work} {seed} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}"
    return None


def run_all(work: str, seeds: range, folder: Path) -> list[str]:
    found = [failure(work, seed, folder / f"{work}-{seed}") for seed in seeds]
    return [problem for problem in found if problem is not None]


@pytest.mark.parametrize("work", FEW)
def test_interrupted_processes(work, tmp_path):
    assert run_all(work, range(FEW[work]), tmp_path) == []


def test_an_interrupted_loop_over_processes(tmp_path):
    assert run_all("processes", range(1), tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("work", MANY)
def test_five_hundred_interrupted_processes(work, part, tmp_path):
    assert sum(MANY.values()) == 500
    assert run_all(work, range(part, MANY[work], PARTS), tmp_path) == []


def script(text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", text],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


COMPILES = """
import contraflow as cf
cf.set_num_threads(2)
def work():
    f = cf.compile(lambda x: (x @ x).sin().sum() + x.sum())
    print(f"{f(cf.zeros(600, 600)).item()} {f(cf.zeros(3, 3)).item()}")
"""
AT_THE_END = {
    "handler": "import atexit; atexit.register(work)",
    "thread": """
import threading
main = threading.main_thread()
threading.Thread(target=lambda: (main.join(), work())).start()
""",
    "no threads": """
import _thread, threading
def refuse(*_, **__):
    raise RuntimeError("can't create new thread at interpreter shutdown")
_thread.start_new_thread = threading._start_new_thread = refuse
threading._start_joinable_thread = refuse
work()
""",
}


@pytest.mark.parametrize("how", AT_THE_END)
def test_first_calls_when_the_interpreter_ends(how):
    """Python 3.12 starts no threads then, and llvmlite may never hear that it ends."""
    ended = script(COMPILES + AT_THE_END[how])
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "0.0 0.0\n", "")


# --- finalizers --------------------------------------------------------------------------------

# Python prints and drops what is raised in a finalizer or in the callback of a weak reference, an
# interrupt too. So there are none in Python: what is called then is written in C.
CALLBACKS = {
    "capture/guards.py": ["callback"],  # list.append, partial of setattr
    "capture/sight.py": ["self.gone.append"],
    "data/workers.py": [
        "self.orders.put",
        "functools.partial(_open.pop, key)",
    ],  # SimpleQueue, dict
    "devices/cpu/memory.py": ["self._back[power].append"],  # deque
    "optim/optimizer.py": ["functools.partial(_programs.pop, key)"],
    "profiler.py": ["self._gone.append"],  # deque
    "expressions/expression.py": ["_gone.append"],  # list
    "tensors/storage.py": ["partial(self.borrowers.pop, id(node))"],
}
IN_PYTHON = ("finalize", "WeakKeyDictionary", "WeakMethod", "WeakSet", "WeakValueDictionary")


def finalizers(text: str) -> Iterator[str]:
    """What a module has that runs when an object goes, as source text."""
    if "weakref" not in text and "__del__" not in text:
        return
    tree = ast.parse(text)
    references = {"weakref.ref"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            bases = [ast.unparse(base) for base in node.bases]
            if any(base.startswith("weakref.ref") for base in bases):
                references.add(node.name)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "__del__":
            yield "__del__"
        elif isinstance(node, ast.Attribute) and node.attr in IN_PYTHON:
            yield ast.unparse(node)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in references:
            yield from (ast.unparse(callback) for callback in node.args[1:])


def test_finalizers_are_written_in_c():
    found = {
        str(path.relative_to(SOURCE)): sorted(set(names))
        for path in SOURCE.rglob("*.py")
        if (names := list(finalizers(path.read_text())))
    }
    assert found == {path: sorted(names) for path, names in CALLBACKS.items()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("class A:\n  def __del__(self): pass", ["__del__"]),
        ("weakref.finalize(x, f)", ["weakref.finalize"]),
        ("a = weakref.WeakSet()", ["weakref.WeakSet"]),
        ("weakref.ref(x, lambda r: None)", ["lambda r: None"]),
        ("class R(weakref.ref[X]): pass\nR(x, f.g)", ["f.g"]),
        ("weakref.ref(x)", []),
    ],
)
def test_finalizers_are_found(text, expected):
    assert list(finalizers(text)) == expected


def test_nothing_is_printed_when_the_interpreter_ends():
    """Arrays whose memory is lent may be the last to go, when modules are empty already."""
    ended = script(
        "import sys, numpy, contraflow as cf\n"
        "sys.kept = [cf.ones(400, 400) + 1.0 for _ in range(4)]\n"
        "numpy.kept = [cf.ones(400, 400) * 2.0 for _ in range(4)]\n"
        "cycle = [cf.ones(400, 400) @ cf.ones(400, 400)]\n"
        "cycle.append(cycle)\n"
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


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
    module.register_forward_hook(lambda *given: None).remove()
    assert seen == [1, 0]


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


# --- half states -------------------------------------------------------------------------------


class Interrupting:
    """Raises KeyboardInterrupt at the n-th moment in some files of the package at which Python may.

    That is where a function of Python's begins, where one of C has returned, and where a loop goes
    on.
    """

    def __init__(self, n: int, *files: str) -> None:
        self.n, self.files = n, tuple(str(SOURCE / file) for file in files)

    def __enter__(self) -> Interrupting:
        sys.setprofile(self.look)
        sys.settrace(self.trace)
        return self

    def look(self, frame: FrameType, event: str, argument: Any) -> None:
        # A generator is also called when it goes, where Python looks for no interrupt.
        generator = frame.f_code.co_flags & inspect.CO_GENERATOR
        known = frame.f_code.co_filename.startswith(self.files)
        if known and (event == "c_return" or (event == "call" and not generator)):
            self.count()

    def trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(self.files):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and dis.opname[frame.f_code.co_code[frame.f_lasti]] == "JUMP_BACKWARD":
            self.count()
        return self.trace

    def count(self) -> None:
        self.n -= 1
        if self.n == 0:
            self.__exit__()
            raise KeyboardInterrupt

    def __exit__(self, *error: Any) -> None:
        sys.setprofile(None)
        sys.settrace(None)


def test_the_state_of_a_thread_is_put_back_wherever_an_interrupt_comes():
    before = context.state()
    for n in range(1, 200):
        interrupting = Interrupting(n, "context.py")
        try:
            with interrupting, context.changed(grad=False):
                context.changed(region=1)
        except KeyboardInterrupt:
            pass
        assert context.state() is before, n
        if interrupting.n > 0:
            return
    raise AssertionError("it never came to the end")


MODES = {
    "no_grad": cf.no_grad,
    "inference_mode": cf.inference_mode,
    "autocast": lambda: cf.autocast("cpu"),
    "set_grad_enabled": lambda: cf.set_grad_enabled(False),
    "detect_anomaly": cf.autograd.detect_anomaly,
    "set_detect_anomaly": lambda: cf.autograd.set_detect_anomaly(True),
    "saved_tensors_hooks": lambda: cf.autograd.graph.saved_tensors_hooks(str, str),
    "profile": cf.profiler.profile,
}


ENTERED = [(name, False) for name in MODES]
ENTERED += [(name, True) for name in MODES if name != "profile"]  # which runs once at a time


@pytest.mark.parametrize(("name", "twice"), ENTERED)
def test_a_mode_is_left_wherever_an_interrupt_comes(name, twice):
    for n in range(1, 200):
        before = context.state()
        mode = MODES[name]()
        on, entered = context.state(), False  # `set_grad_enabled` is on before it is entered
        interrupting = Interrupting(n, "context.py", "autograd/", "profiler.py")
        try:
            with interrupting, mode:
                entered = True
                with mode if twice else nullcontext():
                    pass
        except KeyboardInterrupt:
            pass
        found = context.state()
        context._state.set(before)
        assert found == before or (found == on and not entered), n
        if interrupting.n > 0:
            return
    raise AssertionError("it never came to the end")


def test_a_capture_that_is_interrupted_leaves_nothing():
    """Neither a context, nor a gradient or version, nor a garbage collector that is off."""
    w = cf.ones(3, requires_grad=True)

    def function(x: Any) -> Any:
        y = (w * x).sum()
        y.backward()
        return y

    x, before = cf.tensor([1.0, 2.0, 3.0]), context.state()
    cf.compile(function)(x)
    for n in range(1, 10_000):
        w.grad = None
        interrupting = Interrupting(n, "capture/trace.py", "record.py", "context.py")
        try:
            with interrupting:
                result = cf.compile(function)(x)
        except KeyboardInterrupt:
            assert context.state() is before, n
            assert w.grad is None, n
            assert w._version == 0, n
            assert gc.isenabled(), n
        if interrupting.n > 0:
            assert result.item() == 6
            assert w.grad is not None
            return
    raise AssertionError("it never came to the end")


@pytest.mark.skipif(not hasattr(sys, "monitoring"), reason="Python tells what runs from 3.12 on")
def test_nobody_listens_after_an_interrupted_recording():
    def tools():
        return [sys.monitoring.get_tool(tool) for tool in range(6)]

    x, before = cf.ones(2), tools()
    for n in range(1, 1_000):
        interrupting = Interrupting(n, "capture/alarm.py")
        try:
            with interrupting:
                cf.compile(lambda x: x + 1)(x)
        except KeyboardInterrupt:
            assert tools() == before, n
        if interrupting.n > 0:
            return
    raise AssertionError("it never came to the end")


REPLAYING = ("devices/cpu/program.py", "runtime/executable.py", "runtime/outputs.py")


@pytest.mark.parametrize("warm", [0, 4], ids=["first", "hit"])
def test_what_an_interrupted_replay_has_written_is_counted(warm):
    state = cf.zeros(3)
    step = cf.compile(lambda x: state.add_(x).sum())
    x = cf.ones(3)
    step(x)
    for n in range(1, 300):
        for _ in range(warm):
            step(x)
        if not warm:
            step._hit = hit.misses
        before, version = state.tolist(), state._version
        interrupting = Interrupting(n, *REPLAYING)
        try:
            with interrupting:
                step(x)
        except KeyboardInterrupt:
            assert state._version > version or state.tolist() == before, n
        if interrupting.n > 0:
            assert state._version == version + 1
            return
    raise AssertionError("it never came to the end")


def test_gradients_are_those_of_the_call_after_an_interrupted_one():
    leaves = [cf.ones(3, requires_grad=True) for _ in range(3)]

    @cf.compile
    def step(x: cf.Tensor) -> cf.Tensor:
        for leaf in leaves:
            leaf.grad = None
        loss = sum((leaf * x).sum() for leaf in leaves)
        loss.backward()
        return loss.detach()

    for _ in range(4):
        step(cf.ones(3))
    for n in range(1, 300):
        assert all(leaf.grad is not None for leaf in leaves)  # the next call gives them others
        interrupting = Interrupting(n, *REPLAYING)
        try:
            with interrupting:
                step(cf.full((3,), 0.25))
        except KeyboardInterrupt:
            pass
        step(cf.full((3,), n + 0.5))
        assert [leaf.grad.tolist() for leaf in leaves] == [[n + 0.5] * 3] * 3, n
        if interrupting.n > 0:
            return
    raise AssertionError("it never came to the end")


def test_a_second_run_that_is_interrupted_is_undone():
    """Of a checkpointed function, and of a compiled one whose gradient is differentiated."""
    x, count = cf.ones(3, requires_grad=True), cf.zeros(())

    def function() -> Any:
        with cf.no_grad():
            count.add_(1)
        return (x * x * cf.rand(3)).sum()

    compiled = cf.compile(function)
    compiled()
    for kind in ("checkpoint", "compiled"):
        files = ("autograd/checkpoint.py",)
        if kind == "compiled":
            files = (
                "capture/pullback.py",
                "capture/replay.py",
                "tensors/storage.py",
                "tensors/replayed.py",
            )
        for n in range(1, 3000):
            y = cf.checkpoint(function) if kind == "checkpoint" else compiled()
            before = count.item(), count._version, cf.get_rng_state()
            interrupting = Interrupting(n, *files)
            try:
                with interrupting:
                    cf.autograd.grad(y, x, create_graph=kind == "compiled")
            except KeyboardInterrupt:
                pass
            assert (count.item(), count._version) == before[:2], (kind, n)
            assert str(cf.get_rng_state()) == str(before[2]), (kind, n)
            assert not cf.is_recomputing(), (kind, n)
            if interrupting.n > 0:
                break
        else:
            raise AssertionError("it never came to the end")


def test_a_nested_arena_is_never_given_out_twice():
    for n in range(1, 15):
        before = _scratch.arena
        interrupting = Interrupting(n, "devices/cpu/program.py")
        try:
            with interrupting, _scratch.nested():
                pass
        except KeyboardInterrupt:
            pass
        known = [id(_scratch.arena), *map(id, _scratch._spare)]
        _scratch.arena = before
        assert len(known) == len(set(known)), n


def test_functional_call_puts_parameters_back():
    module = cf.nn.Linear(2, 2)
    before = dict(module.named_parameters())
    other = {name: cf.zeros(*p.shape) for name, p in before.items()}
    for n in range(1, 400):
        interrupting = Interrupting(n, "func.py", "nn/")
        try:
            with interrupting:
                cf.func.functional_call(module, other, (cf.ones(1, 2),))
        except KeyboardInterrupt:
            pass
        found = dict(module.named_parameters())
        assert all(found[name] is p for name, p in before.items()), n
        if interrupting.n > 0:
            return
    raise AssertionError("it never came to the end")


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


def test_an_interrupt_ends_the_wait_and_not_the_work():
    ended = script(
        "import os, signal, threading, time\n"
        "from contraflow import threads\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "go, done = threading.Event(), []\n"
        "def work():\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
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
