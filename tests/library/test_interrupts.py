"""Ctrl-C at any moment: nothing crashes or hangs, no interrupt is lost, and no state is half done.

`interrupted.py` is the program that is interrupted at random. Beside it stand tests of single
places that went wrong: each failed before it was mended.
"""

from __future__ import annotations

import ast
import dis
import gc
import inspect
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import nullcontext
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from tests.helpers.interrupted import COUNT, WORKS
from tests.helpers.scripts import LIMIT, environment, script

import contraflow as cf
from contraflow.capture import hit
from contraflow.capture.observing import session
from contraflow.devices.cpu.program import _scratch
from contraflow.operation import context

SOURCE = Path(cf.__file__).parent

# How many processes of each work: in `make test`, and 500 in all; those of a GPU come beside them.
FEW = {"imports": 3, "eager": 5, "compiled": 4, "replay": 3, "backward": 2, "save": 3, "threads": 4}
MANY = dict.fromkeys([work for work in WORKS if work != "webgpu"], 62) | {
    "eager": 64,
    "compiled": 64,
}
OF_A_GPU = 55
PARTS = 8  # in which all are run, for as many processors


def interrupted(work: str, seed: int, folder: Path) -> tuple[int, int, str | None]:
    """The interrupts that a process was sent and has seen, and what goes wrong, if anything."""
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
        return 0, 0, f"{work} {seed} hangs: {error.stderr!r}"
    # Python says on stderr what it has dropped; an import may lose an interrupt, and nothing else.
    if ended.returncode or ("ignored" in ended.stderr and work != "imports"):
        problem = f"{work} {seed} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}"
        return 0, 0, problem
    sent, seen = map(int, ended.stdout.split())
    return sent, seen, None


def run_all(work: str, seeds: range, folder: Path) -> list[str]:
    """What goes wrong in processes of a work; says how many interrupts they had."""
    found = [interrupted(work, seed, folder / f"{work}-{seed}") for seed in seeds]
    sent, seen, problems = zip(*found)
    print(f"{work}: {len(found)} processes, {sum(sent)} interrupts sent, {sum(seen)} seen")
    problems = [problem for problem in problems if problem is not None]
    assert problems or sum(sent) == COUNT * len(found)
    assert problems or work == "imports" or sent == seen
    return problems


@pytest.mark.parametrize("work", FEW)
def test_interrupted_processes(work, tmp_path):
    assert run_all(work, range(FEW[work]), tmp_path) == []


def test_an_interrupted_loop_over_processes(tmp_path):
    assert run_all("processes", range(1), tmp_path) == []


def test_interrupted_work_of_a_gpu(tmp_path):
    if not cf.webgpu.is_available():
        pytest.skip("there is no webgpu device")
    assert run_all("webgpu", range(3), tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("work", MANY)
def test_five_hundred_interrupted_processes(work, part, tmp_path):
    assert sum(MANY.values()) == 500
    assert run_all(work, range(part, MANY[work], PARTS), tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_much_interrupted_work_of_a_gpu(part, tmp_path):
    if not cf.webgpu.is_available():
        pytest.skip("there is no webgpu device")
    assert run_all("webgpu", range(part, OF_A_GPU, PARTS), tmp_path) == []


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
    # This stands for C code: as Python code it is heard of while recording, from 3.12 on.
    "no threads": """
import _thread, threading, warnings
warnings.filterwarnings("ignore", "compile.*: refuse at .* was not observed")
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
    "capture/state/guards.py": ["callback"],  # list.append, partial of setattr
    "capture/observing/observer.py": ["weakref.WeakMethod"],  # which is called, not made
    "distributions/transform.py": ["held.pop"],
    "devices/cuda/device.py": ["self._ended.append"],
    "devices/cuda/memory.py": ["self._gone.append"],
    "devices/webgpu/buffers.py": ["self._returned.append"],
    "capture/observing/sight.py": ["self.gone.append"],
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
            self.count(frame)

    def trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(self.files):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and dis.opname[frame.f_code.co_code[frame.f_lasti]] == "JUMP_BACKWARD":
            self.count(frame)
        return self.trace

    def count(self, frame: FrameType) -> None:
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
        interrupting = Interrupting(
            n, "capture/trace.py", "capture/findings.py", "record.py", "context.py"
        )
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
        interrupting = Interrupting(n, "capture/observing/alarm.py")
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


class Places(Interrupting):
    """Interrupts nothing, and notes the first and the last moment at each place in the files."""

    def __init__(self, *files: str) -> None:
        super().__init__(0, *files)
        self.found: dict[tuple[str, int], tuple[int, int]] = {}

    def count(self, frame: FrameType) -> None:
        self.n += 1
        at = frame.f_code.co_qualname, frame.f_lasti
        self.found[at] = self.found.get(at, (self.n, 0))[0], self.n


class Layer:
    """What a function keeps in every place, and writes in each call."""

    __slots__ = ("mean", "unset", "__dict__")

    def __init__(self) -> None:
        self.mean, self.weight = cf.zeros(3), 2.0
        self.table: dict[str, Any] = {"n": 1, "last": None}
        self.counts: dict[str, int] = defaultdict(int)
        self.log, self.lock = [1.0], threading.Lock()

    @cached_property
    def positions(self) -> float:
        return 0.5

    def __call__(self, x: cf.Tensor) -> cf.Tensor:
        self.mean = self.mean * 0.5 + x.detach()
        self.unset = 1.0
        self.table["last"] = x.detach() * 2
        self.table["n"] += 1
        self.table.pop("removed", None)
        self.log.append(3.0)
        self.lock.acquire()
        self.counts["calls"] += 1
        self.lock.release()
        return helped(x) * self.weight * self.positions

    def state(self) -> list[Any]:
        """What may be compared with `==`: tensors by identity."""
        here = [*vars(self).items(), *self.table.items(), *self.counts.items(), *self.log]
        flat = [x for pair in here for x in (pair if type(pair) is tuple else (pair,))]
        places = [self.mean, getattr(self, "unset", None), self.lock.locked(), factor, *flat]
        return [id(x) if isinstance(x, cf.Tensor) else repr(x) for x in places]


factor = 2.0


def helped(x: cf.Tensor) -> cf.Tensor:
    global factor
    factor = factor + 1.0
    return x * factor


OBSERVING = ("capture/observing/", "capture/rewriting/")


@pytest.mark.parametrize("every", [29, pytest.param(1, marks=pytest.mark.slow)])
def test_a_recording_that_is_interrupted_while_it_is_observed_leaves_all_as_it_was(every):
    """The code of functions, attributes, items and globals, wherever the interrupt comes: at the
    first and at the last moment of each place in the code that observes and rewrites."""
    x, functions = cf.ones(3), (helped, Layer.__call__, Layer.positions.func)
    codes, thread = [f.__code__ for f in functions], context.state()

    def make() -> tuple[Layer, Any]:
        layer = Layer()
        return layer, cf.compile(lambda x: sum(map(layer, [x, helped(x)])))

    make()[1](x)  # what is found out once for all recordings
    places = Places(*OBSERVING)
    _, function = make()
    with places:
        function(x)
    moments = sorted({n for pair in places.found.values() for n in pair})
    assert len(moments) > 700
    for n in moments[::every]:
        layer, function = make()
        before, kept = layer.state(), vars(layer).copy()
        interrupting = Interrupting(n, *OBSERVING)
        try:
            with interrupting:
                function(x)
        except KeyboardInterrupt:
            assert layer.state() == before, n
            assert list(vars(layer)) == list(kept), n
        else:
            assert interrupting.n > 0, f"{n} was swallowed"
        assert [f.__code__ for f in functions] == codes, n
        assert session._swapped == [None], n
        assert not session.listening, n
        assert context.state() is thread, n
    function(x)
    assert layer.counts["calls"] >= 2


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
        interrupting = Interrupting(n, "func/", "nn/")
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
