"""Compiled functions that read and write Python state agree with eager, form by form."""

from __future__ import annotations

import contextvars
import functools
import gc
import io
import itertools
import logging
import pdb
import sys
import threading
import traceback
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers.state_worlds import (
    FOLDER,
    Form,
    World,
    argument,
    difference,
    forms,
    judge,
    rounds,
)

import contraflow as cf
from contraflow import config, nn, thresholds
from contraflow.testing import assert_close

ALONE = ("either", "failures", "refusals", "prelude")
FORMS = [form for path in sorted(FOLDER.glob("*.txt")) for form in forms(path.stem)]
AGREE = [form for form in FORMS if form.path.stem not in ALONE]
READ = [form for form in AGREE if not form.path.stem.startswith("writes")]


def every(some: list[Form]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("form", some, ids=[f"{f.path.stem}: {f.name}" for f in some])


@pytest.fixture(params=["interpret", pytest.param("native", marks=pytest.mark.slow)])
def mode(request: pytest.FixtureRequest) -> Iterator[str]:
    before = config.compile_mode
    config.compile_mode = request.param
    yield request.param
    config.compile_mode = before


def test_there_are_forms_of_everything() -> None:
    assert len(AGREE) >= 390
    assert len({(form.path, form.name) for form in FORMS}) == len(FORMS)


@every(AGREE)
@pytest.mark.filterwarnings("ignore:.*recorded 8 times")  # where a form says it records so often
def test_form(form: Form, mode: str) -> None:
    contextvars.copy_context().run(judge, form)


@every(AGREE[::20])
@pytest.mark.filterwarnings("ignore:.*recorded 8 times")
def test_a_sample_of_forms_natively(form: Form, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them run natively among the slow tests."""
    monkeypatch.setattr(config, "compile_mode", "native")
    contextvars.copy_context().run(judge, form)


@every([form for form in READ if len(form.parts) > 1])
def test_the_form_can_fail(form: Form) -> None:
    """A change that eager results do not show would test nothing."""

    def results() -> list[Any]:
        calls = [call for call in rounds(form, compiled=False) if call.number == 0]
        return [[n for n in call.seen if n[0].startswith("result")] for call in calls]

    seen = contextvars.copy_context().run(results)
    for number, (before, after) in enumerate(itertools.pairwise(seen), 2):
        assert difference(after, before), f"round {number} of {form.name} changes nothing"


# --- what cannot be recorded ---------------------------------------------------------------------


@every(forms("refusals"))
def test_refused(form: Form, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("2.0\n" * 3))
    world = World(form, cf.compile)
    before = world.seen()
    place = f"{form.path.name}:{form.marked('refused')}"
    for _ in range(2):
        with pytest.raises(cf.CaptureError) as raised:
            world.call(argument(0))
        assert place in str(raised.value)
        assert str(raised.value).endswith(f" {form.says()}")
        assert difference(world.seen(), before) is None
    world.names["f"](argument(0))
    for part in range(1, len(form.parts)):
        world.change(part)
    world.leave()


@every(forms("either"))
@pytest.mark.filterwarnings("ignore:.*recorded 8 times")
def test_refused_or_as_in_eager(form: Form) -> None:
    refused = ""
    try:
        contextvars.copy_context().run(judge, form._replace(words=("records=99",)))
    except cf.CaptureError as error:
        refused = str(error)
    assert not refused or f"{form.path.name}:" in refused, refused


def test_a_refused_module_can_be_saved(tmp_path: Path) -> None:
    (form,) = (form for form in forms("refusals") if "writes of every kind" in form.name)
    world = World(form, cf.compile)
    net = world.names["net"]
    keys = list(net.state_dict())
    with pytest.raises(cf.CaptureError):
        world.call(argument(0))
    assert list(net.state_dict()) == keys
    cf.save(net.state_dict(), tmp_path / "net.cf")
    assert (net.mean + net.weight).detach().tolist() == [1.0] * 3


@pytest.mark.parametrize("fails", [False, True])
def test_a_default_dtype_that_a_refused_function_sets_does_not_stay(fails: bool) -> None:
    @cf.compile
    def step(x: cf.Tensor) -> cf.Tensor:
        cf.set_default_dtype(cf.float64)
        if fails:
            raise LookupError
        return x * 2

    with pytest.raises(LookupError if fails else cf.CaptureError):
        step(cf.ones(2))
    assert cf.get_default_dtype() is cf.float32


def test_a_cache_that_a_refused_function_fills_can_be_used() -> None:
    @functools.lru_cache
    def positions(n: int) -> cf.Tensor:
        return cf.arange(n) * 2

    with pytest.raises(cf.CaptureError, match="item"):
        cf.compile(lambda x: x * positions(3) * x.sum().item())(cf.ones(3))
    assert positions(3).tolist() == [0, 2, 4]


def test_a_seed_that_a_refused_function_sets_does_not_stay() -> None:
    before = np.random.get_state()[1].tolist()  # type: ignore[index]
    with pytest.raises(cf.CaptureError, match="seed sets the random state"):
        cf.compile(lambda x: np.random.seed(0) or x * 2)(cf.ones(2))
    assert np.random.get_state()[1].tolist() == before  # type: ignore[index]


# --- what fails ----------------------------------------------------------------------------------


def users_frames(error: BaseException, form: Form) -> list[Any]:
    """The lines of a traceback that show the form, columns included, and those it came from."""
    found = []
    for one in traceback.TracebackException.from_exception(error).stack:
        if one.filename == str(form.path):
            found.append((one.name, one.lineno, one.end_lineno, one.colno, one.end_colno, one.line))
    cause = error.__cause__ or error.__context__
    return found + (users_frames(cause, form) if cause else [])


def frames_between(error: BaseException | None) -> list[tuple[str, str]]:
    """The frames of errors, and of those behind them, from the first of a form's on."""
    found: list[tuple[str, str]] = []
    while error is not None:
        stack = traceback.TracebackException.from_exception(error).stack
        frames = [(Path(one.filename).name, one.name) for one in stack]
        found += itertools.dropwhile(lambda frame: not frame[0].endswith(".txt"), frames)
        error = error.__cause__ or error.__context__
    return found


@every(forms("failures"))
def test_failures_are_those_of_eager(form: Form) -> None:
    world, eager = World(form, cf.compile), World(form, None)
    before = world.seen()
    with pytest.raises(BaseException) as expected:  # noqa: PT011
        eager.call(argument(0))
    for _ in range(2):
        with pytest.raises(BaseException) as raised:  # noqa: PT011
            world.call(argument(0))
        assert (type(raised.value), str(raised.value)) == (expected.type, str(expected.value))
        frames = users_frames(raised.value, form)
        assert frames == users_frames(expected.value, form)
        assert frames_between(raised.value) == frames_between(expected.value)
        assert form.marked("raises") in [number for _, number, *_ in frames]
        assert difference(world.seen(), before) is None
    world.leave()
    eager.leave()


# --- what happens once, and what is not seen -----------------------------------------------------


def test_printing_and_logging_happen_once(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    log = logging.getLogger("state")
    scales = {"a": 2.0}

    @cf.compile
    def f(x: cf.Tensor) -> cf.Tensor:
        print("scale", scales["a"])
        log.warning("called with %s", x.shape)
        return x * scales["a"]

    for _ in range(4):
        f(argument(0))
    assert capsys.readouterr().out == "scale 2.0\n"
    assert len(caplog.records) == 1
    scales["a"] = 3.0
    f(argument(0))
    assert capsys.readouterr().out == "scale 3.0\n"


def test_text_is_written_once_if_a_recording_starts_again(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    counts, log = {"calls": 0.0, "written": 0}, logging.getLogger("state")

    @cf.compile
    def f(x: cf.Tensor) -> cf.Tensor:
        print("called")
        counts["written"] = sys.stdout.write("text")
        log.warning("by a logger")
        logging.error("by the root")
        warnings.warn("by warnings", stacklevel=2)
        counts["calls"] += 1.0
        return x * 2

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for _ in range(4):
            f(argument(0))
    assert [str(warning.message) for warning in warned] == ["by warnings"]
    assert [record.message for record in caplog.records] == ["by a logger", "by the root"]
    assert capsys.readouterr().out == "called\ntext"
    assert counts == {"calls": 4.0, "written": 4}


class Config:
    def __init__(self) -> None:
        self.scale: Any = 2.0
        self.act = lambda x: x * 2

    def apply(self, x: cf.Tensor) -> cf.Tensor:
        return x * self.scale


def holding(config: Config) -> Config:
    config.scale = cf.ones(3)
    return config


KEPT: dict[str, tuple[Callable[[], Any], Callable[[dict[str, Any], cf.Tensor], Any]]] = {
    "an object": (Config, lambda t, x: x * t["it"].scale),
    "an object given on": (Config, lambda t, x: Config.apply(t["it"], x)),
    "a bound method": (Config, lambda t, x: t["it"].apply(x)),
    "a function of its own": (Config, lambda t, x: t["it"].act(x)),
    "a tensor": (lambda: cf.ones(3), lambda t, x: x * t["it"]),
    "a tensor in an object": (lambda: holding(Config()), lambda t, x: x * t["it"].scale),
    "a module": (lambda: nn.Linear(3, 3), lambda t, x: t["it"](x)),
    "a function": (lambda: lambda x: x * 2, lambda t, x: t["it"](x)),
    "a class": (lambda: type("Local", (), {"by": 2.0}), lambda t, x: x * t["it"].by),
    "what is iterated": (lambda: type("L", (list,), {})([1.0]), lambda t, x: x * sum(t["it"])),
    "what is asked for its type": (Config, lambda t, x: x * isinstance(t["it"], Config)),
    "what is compared": (Config, lambda t, x: x if t["it"] is None else x * 2),
}


@pytest.mark.parametrize("what", KEPT)
def test_guards_keep_nothing_alive(what: str, mode: str) -> None:
    make, use = KEPT[what]
    table = {"it": make()}
    f = cf.compile(lambda x: use(table, x))
    for _ in range(4):
        f(argument(0))
    it = weakref.ref(table.pop("it"))
    gc.collect()
    assert it() is None
    table["it"] = make()
    assert f(argument(0)).shape == (2, 3)


def test_guards_keep_no_key_alive(mode: str) -> None:
    class Key:
        pass

    key = Key()
    reference, table = weakref.ref(key), weakref.WeakKeyDictionary({key: 2.0})

    @cf.compile
    def f(x: cf.Tensor) -> cf.Tensor:
        held = reference()
        return x * 0 if held is None else x * table[held]

    for _ in range(4):
        assert f(cf.ones(1)).item() == 2.0
    table[key] = 3.0
    assert [f(cf.ones(1)).item() for _ in range(3)] == [3.0] * 3
    del key
    gc.collect()
    assert reference() is None
    assert f(cf.ones(1)).item() == 0.0


def test_carried_state_keeps_nothing_alive(mode: str) -> None:
    state = {"h": cf.zeros(2, 3)}

    @cf.compile
    def f(x: cf.Tensor) -> None:
        state["h"] = state["h"] * 0.5 + x

    for k in range(5):
        before = weakref.ref(state["h"])
        f(argument(k))
        gc.collect()
        assert before() is None
    assert f.captures <= 2


def test_two_compiled_functions_share_state(mode: str) -> None:
    def world(compiler: Any) -> Iterator[Any]:
        state: dict[str, Any] = {"h": cf.zeros(2, 3), "n": 0}

        def write(x: cf.Tensor) -> cf.Tensor:
            state["h"] = state["h"] * 0.5 + x
            state["n"] += 1
            return state["h"] + 1

        def read(x: cf.Tensor) -> cf.Tensor:
            return x * state["h"] + state["n"]

        write, read = compiler(write), compiler(read)
        for k in (0, 1, 0, 1, 1, 0, 0):
            yield write(argument(k)) if k else None, read(argument(k)), state["n"], state["h"]
            state["h"].mul_(0.5)

    for actual, expected in zip(world(cf.compile), world(lambda f: f)):
        for a, b in zip(actual, expected):
            assert a == b if not isinstance(b, cf.Tensor) else cf.equal(a, b)


def test_the_kept_result_can_be_differentiated(mode: str) -> None:
    net, eager = nn.Linear(3, 3), nn.Linear(3, 3)
    eager.load_state_dict(net.state_dict())
    kept: dict[str, Any] = {}

    def f(x: cf.Tensor) -> cf.Tensor:
        kept["out"] = net(x)
        return kept["out"].sum()

    f = cf.compile(f)
    for k in range(4):
        net.zero_grad()
        eager.zero_grad()
        f(argument(k))
        kept["out"].square().sum().backward()
        eager(argument(k)).square().sum().backward()
        assert_close(net.weight.grad, eager.weight.grad)


@pytest.mark.parametrize("place", ["attribute", "list", "object", "buffer", "carried"])
def test_the_kept_result_can_be_differentiated_twice(place: str) -> None:
    def life(compiler: Callable[..., Any]) -> list[Any]:
        box, net, log = types.SimpleNamespace(h=cf.ones(2), n=0), nn.Module(), [None]
        net.register_buffer("b", cf.ones(2))

        def f(x: cf.Tensor) -> cf.Tensor:
            made = nn.Module()
            made.cube = x * x * x
            box.n += 1
            if place == "list":
                log.append(made.cube)
            elif place == "object":
                log[0] = types.SimpleNamespace(name="box", parts=[made.cube])
            elif place == "buffer":
                net.b = net.b.detach() + made.cube
            elif place == "carried":
                box.h = box.h.detach() * 0.5 + made.cube
            else:
                box.h = made.cube
            return x.exp()

        def kept() -> cf.Tensor:
            if place == "list":
                return log[-1]
            if place == "object":
                return log[0].parts[0]
            return net.b if place == "buffer" else box.h

        found, call = [], compiler(f)
        for k in range(4):
            x = cf.tensor([1.0 + k, 2.0], requires_grad=True)
            call(x)
            (g,) = cf.autograd.grad(kept().sin().sum(), [x], create_graph=True)
            (h,) = cf.autograd.grad(g.sum(), [x])
            found += [g.detach(), h, kept().detach(), cf.tensor(box.n)]
        return found

    for compiled_, eager in zip(life(cf.compile), life(lambda f: f)):
        assert_close(compiled_, eager)


def test_other_threads_do_not_matter() -> None:
    """A thread that runs the same functions while they are recorded reads for itself."""
    cfg, done, wrong = {"scale": 2.0, "n": 0}, threading.Event(), []

    def helper(x: cf.Tensor, table: dict[str, Any]) -> cf.Tensor:
        table["n"] += 1
        return x * table["scale"]

    def run() -> None:
        own = {"scale": 5.0, "n": 0}
        while not done.is_set():
            count = own["n"]
            if helper(cf.ones(1), own).item() != 5.0 or own["n"] != count + 1:
                wrong.append(own)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        for k in range(30):
            f = cf.compile(lambda x: helper(x, cfg))
            cfg["scale"] = float(k)
            assert f(cf.ones(1)).item() == k
            assert cfg["n"] == 2 * k + 1
            cfg["scale"] = k + 0.5
            assert f(cf.ones(1)).item() == k + 0.5
    finally:
        done.set()
        thread.join()
    assert not wrong


def test_functions_are_what_they_were() -> None:
    (form,) = (f for f in READ if f.name == "global read three calls deep")
    world = World(form, cf.compile)
    functions = [world.names[name] for name in ("f", "inner", "middle", "outer")]
    before = [function.__code__ for function in functions]
    world.call(argument(0))
    assert all(function.__code__ is code for function, code in zip(functions, before))
    world.leave()


TRACED = [f for f in READ if f.path.stem in ("objects", "classes", "flow", "syntax", "callbacks")]


@every(TRACED)
def test_tracing_sees_the_lines_of_the_user(form: Form) -> None:
    """What coverage and debuggers look at: the lines of the form, each at its place."""

    def lines(world: World) -> set[tuple[str, int]]:
        seen = set()

        def trace(frame: types.FrameType, event: str, _: object) -> Any:
            if frame.f_code.co_filename != str(form.path):
                return None
            if event == "line":
                seen.add((frame.f_code.co_name, frame.f_lineno))
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            world.call(argument(0))
        finally:
            sys.settrace(before)
            world.leave()
        return seen

    def both() -> tuple[Any, Any]:
        return lines(World(form, cf.compile)), lines(World(form, None))

    compiled, eager = contextvars.copy_context().run(both)
    assert compiled == eager


def test_a_debugger_shows_the_lines_of_the_user() -> None:
    cfg = {"scale": 2.0}

    def helper(x: cf.Tensor, debugger: pdb.Pdb) -> cf.Tensor:
        debugger.set_trace()
        y = x * cfg["scale"]
        return y + 1

    def session(f: Any) -> str:
        said = io.StringIO()
        last = helper.__code__.co_firstlineno + 3
        commands = f"until {last}\np cfg\nwhere\nup\np x.shape\ncontinue\n"
        source = io.StringIO(commands)
        f(cf.ones(3), pdb.Pdb(stdin=source, stdout=said, nosigint=True, readrc=False))
        return said.getvalue()

    def f(x: cf.Tensor, debugger: pdb.Pdb) -> cf.Tensor:
        return helper(x, debugger)

    def shown(said: str) -> list[str]:
        """What is said of the functions here, and the answers; the rest is who called them."""
        lines = said.splitlines()
        functions = (")helper()", ")f()")
        found = [a + b for a, b in itertools.pairwise(lines) if a.endswith(functions)]
        found = [line for line in found if "return" in line]  # versions stop first here or there
        return found + [line for line in lines if line.startswith("(Pdb)")]

    before = sys.gettrace()
    try:
        compiled, eager = session(cf.compile(f)), session(f)
    finally:
        sys.settrace(before)
    assert shown(compiled) == shown(eager)
    assert "-> return y + 1" in compiled
    assert "-> return helper(x, debugger)" in compiled
    assert "capture/observe" not in compiled


def test_an_argument_with_the_key_none_is_recorded_once() -> None:
    f = cf.compile(lambda table: sum(table.values()))
    for k in range(3):
        assert f({None: cf.ones(1) * k, "a": cf.ones(1)}).item() == k + 1
    assert f.captures == 1


def test_what_is_never_settled_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often a recording finds more that it must carry, a call comes to an end."""
    monkeypatch.setattr(thresholds, "learned_recordings", 0)
    state = {"h": cf.zeros(1)}

    def f(x: cf.Tensor) -> None:
        state["h"] = state["h"] + x

    f = cf.compile(f)
    with pytest.raises(cf.CaptureError, match=r"it is not settled what .* reads and changes"):
        f(cf.ones(1))
    assert f.refusals
    assert "state['h']" in f.refusals[0]
    monkeypatch.setattr(thresholds, "learned_recordings", 1)
    f(cf.ones(1))
    assert state["h"].item() == 1


def test_shared_results_can_be_differentiated_twice() -> None:
    class Box:
        pass

    def f(x: cf.Tensor) -> Any:
        box: Any = Box()
        box.n, box.both = 3, [x.square() * x]
        return box, types.SimpleNamespace(y=x.sin()), box.both

    fast = cf.compile(f)
    for _ in range(3):
        for call in (fast, f):
            x = cf.tensor([1.0, 2.0], requires_grad=True)
            box, space, both = call(x)
            assert box.both is both
            (g,) = cf.autograd.grad(both[0].sum() + space.y.sum(), [x], create_graph=True)
            (h,) = cf.autograd.grad(g.sum(), [x])
            assert_close(h, 6 * x.detach() - x.detach().sin())


def test_objects_of_results_are_verified_by_their_parts() -> None:
    class Box:
        pass

    def f(x: cf.Tensor) -> Any:
        box: Any = Box()
        box.name, box.y = "box", x * 2
        return box, Box()

    f = cf.compile(f, verify=3)
    for _ in range(4):
        box, other = f(cf.ones(2))
        assert box.y.tolist() == [2.0, 2.0]
        assert type(other) is Box
