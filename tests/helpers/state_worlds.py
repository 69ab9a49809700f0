"""Worlds of Python state: a small program, its calls, and all that can be seen of it afterwards.

A form is a small program in a text file of `tests/capture/state`, written as a user would write it:

    === dict item :: learns
    cfg = {"scale": 2.0}
    def f(x):
        return x * cfg["scale"]
    ---
    cfg["scale"] = 3.0

The first part makes the state and `f`, the function to compile; each part after a `---` changes
the state between calls. `World` runs the parts as one module, whose text and lines are those of the
file, and `seen` writes down the state that a call leaves: values, containers, and what is the same
object as what. Two worlds of one form, one of which compiles `f`, must be indistinguishable.

Words after `::` say what is expected beside that: `learns` (a round may record once more, to learn
which state is carried from call to call), `records=n` (at most n recordings in all).

A form that is refused has the mark `# refused` at the line that the error names, and says under its
name, in a comment that begins with `# says:`, how the error ends; LINE stands for the line there.
"""

from __future__ import annotations

import collections
import contextvars
import enum
import functools
import itertools
import linecache
import sys
import types
import weakref
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import contraflow as cf
from contraflow import config
from contraflow.testing import assert_close

FOLDER = Path(__file__).resolve().parents[1] / "capture" / "state"
CALLS = 4  # of each round; the third call of a program is the first whose guards are written out
_numbers = itertools.count()

Notes = list[tuple[str, Any]]
Compile = Callable[[Any], Any]


class Form(NamedTuple):
    """A program and the changes made to its state, with the lines where they stand in the file."""

    name: str
    words: tuple[str, ...]
    path: Path
    parts: tuple[tuple[int, str], ...]  # (first line, text); the first makes the world
    prelude: types.CodeType | None = None  # what is there before, and not looked at

    def marked(self, mark: str) -> int:
        """The line whose comment is a mark."""
        for first, text in self.parts:
            for number, line in enumerate(text.splitlines(), first):
                if line.endswith(f"# {mark}"):
                    return number
        raise AssertionError(f"{self.name}: no line is marked {mark}")

    def says(self) -> str | None:
        """What a refusal says, from its comment under the name; LINE is the line of the mark."""
        lines = self.parts[0][1].splitlines()
        if not lines[0].startswith("# says: "):
            return None
        said = itertools.takewhile(lambda line: line.startswith("#"), lines)
        text = " ".join(line.removeprefix("# says:").removeprefix("#").strip() for line in said)
        return text.replace("LINE", f"{self.path.name}:{self.marked('refused')}")

    def most_recordings(self) -> int | None:
        """What `records=n` says."""
        found = [int(word.removeprefix("records=")) for word in self.words if "=" in word]
        return found[0] if found else None


def forms(stem: str) -> list[Form]:
    """The forms of one file."""
    path = FOLDER / f"{stem}.txt"
    found: list[Form] = []
    parts: list[tuple[int, list[str]]] = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.startswith("=== "):
            name, _, words = line.removeprefix("=== ").partition(" :: ")
            parts = [(number + 1, [])]
            found.append(Form(name, tuple(words.split()), path, parts))  # type: ignore[arg-type]
        elif line == "---":
            parts.append((number + 1, []))
        elif parts:
            parts[-1][1].append(line)
    return [
        form._replace(parts=tuple((first, "\n".join(lines) + "\n") for first, lines in form.parts))
        for form in found
    ]


def code_of(text: str, file: str) -> types.CodeType:
    """The code of a module, to which the future imports of this file do not apply."""
    return compile(text, file, "exec", dont_inherit=True)


def remember(file: str, text: str) -> str:
    """Let tracebacks and messages find the lines of a file that is not there."""
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    return file


class World:
    """One life of a form: its module, and `f` in it, compiled or not."""

    def __init__(self, form: Form, compiler: Compile | None = None, library: Any = cf) -> None:
        self.form = form
        self.module = types.ModuleType(f"world_{next(_numbers)}")
        self.modules = [self.module.__name__]
        self.names = self.module.__dict__
        nn = library.nn
        self.names.update(cf=library, nn=nn, F=nn.functional, optim=library.optim)
        self.names.update(np=np, imported=self.imported)
        self.names.update(__file__=str(form.path), __name__=self.module.__name__)
        sys.modules[self.module.__name__] = self.module  # dataclasses and pickle look there
        if form.prelude:
            exec(form.prelude, self.names)
        self.given = set(self.names)
        library.manual_seed(0)
        self.change(0)
        function = self.names["f"]
        self.call: Any = compiler(function) if compiler else function

    def change(self, part: int) -> None:
        """Run a part of the form: the first makes the state, the others change it."""
        first, text = self.form.parts[part]
        exec(code_of("\n" * (first - 1) + text, str(self.form.path)), self.names)

    def imported(self, text: str) -> types.ModuleType:
        """A module beside the world's own."""
        module = types.ModuleType(f"{self.module.__name__}_imports_{len(self.modules)}")
        module.__file__ = remember(f"imported_{zlib.crc32(text.encode())}.py", text)
        self.modules.append(module.__name__)
        sys.modules[module.__name__] = module
        exec(code_of(text, module.__file__), module.__dict__)
        return module

    def seen(self, **others: Any) -> Notes:
        """What the state holds, and results or arguments beside it."""
        look = Look(self.module.__name__)
        own = {n: v for n, v in self.names.items() if n not in self.given and n[0] != "_"}
        return [note for n, v in {**own, **others}.items() for note in look.at(n, v)]

    def leave(self) -> None:
        for name in self.modules:
            sys.modules.pop(name, None)


def argument(k: int, library: Any = cf) -> Any:
    """What the calls of a round are given: the same in every round."""
    return library.tensor([[0.5, -1.0, 2.0], [1.5, 3.0, -0.25]]) * (1.0 + k)


# --- what can be seen ----------------------------------------------------------------------------

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...), cf.dtype, range, slice)


class Look:
    """A walk over state: (place, value) of all it holds; an object met again is its first place."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.places: dict[int, str] = {}
        self.kept: list[Any] = []

    def at(self, place: str, x: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(x, _PLAIN) and not isinstance(x, enum.Enum):
            yield place, (type(x).__name__, x)
            return
        if isinstance(x, types.CodeType):
            yield place, (x.co_name, x.co_filename, x.co_firstlineno, x.co_code)
            return
        if id(x) in self.places:
            yield place, ("same as", self.places[id(x)])
            return
        if not isinstance(x, (tuple, frozenset)):  # of which equal ones cannot be told apart
            self.places[id(x)] = place
            self.kept.append(x)
        yield place, type(x).__name__
        for name, part in self.parts(x):
            if isinstance(part, np.ndarray):
                yield f"{place}{name}", part.copy()
            else:
                yield from self.at(f"{place}{name}", part)

    def parts(self, x: Any) -> Iterator[tuple[str, Any]]:
        """The parts of an object that have a place of their own."""
        kind = type(x)
        if hasattr(kind, "requires_grad") and hasattr(kind, "detach"):
            yield ".values", np.asarray(x.detach())
            yield ".requires_grad", x.requires_grad
            yield ".is_leaf", x.is_leaf
            yield ".grad", x.grad if x.is_leaf else None
        elif isinstance(x, np.ndarray):
            yield "", x
        elif hasattr(kind, "named_parameters"):
            yield ".training", x.training
            yield ".parameters", dict(x._parameters)
            yield ".buffers", dict(x._buffers)
            yield ".modules", dict(x._modules)
            yield ".__dict__", {k: v for k, v in vars(x).items() if k[0] != "_"}
        elif hasattr(kind, "add_param_group"):
            yield ".state_dict", x.state_dict()
            yield ".params", [list(group["params"]) for group in x.param_groups]
        elif isinstance(x, (dict, collections.UserDict, types.MappingProxyType)):
            yield ".keys", [k if isinstance(k, _PLAIN) else type(k).__name__ for k in x]
            yield from ((f"[{i}]", value) for i, value in enumerate(x.values()))
        elif isinstance(x, (list, tuple, collections.deque)):
            yield from ((f"[{i}]", item) for i, item in enumerate(x))
        elif isinstance(x, (set, frozenset)):
            yield ".items", sorted(map(repr, x))
        elif isinstance(x, types.FunctionType):
            yield from self.parts_of_function(x)
        elif isinstance(x, type):
            if x.__module__ == self.module and not issubclass(x, enum.Enum):
                own = {k: v for k, v in vars(x).items() if not k.startswith("_")}
                yield from ((f".{k}", v) for k, v in own.items())
        elif isinstance(x, types.ModuleType):
            if x.__name__.startswith(self.module):
                yield from ((f".{k}", v) for k, v in vars(x).items() if not k.startswith("_"))
        elif isinstance(x, types.MethodType):
            yield ".__func__", x.__func__
            yield ".__self__", x.__self__
        elif isinstance(x, functools.partial):
            yield ".partial", [x.func, x.args, x.keywords]
        elif isinstance(x, (property, functools.cached_property, classmethod, staticmethod)):
            return
        elif isinstance(x, enum.Enum):
            yield ".name", x.name
        elif isinstance(x, weakref.ref):
            yield "()", x()
        elif isinstance(x, contextvars.ContextVar):
            yield ".get()", x.get(None)
        elif type(x).__module__ in (self.module, "types", "collections"):
            slots = [n for c in type(x).__mro__ for n in vars(c).get("__slots__", ())]
            yield from ((f".{n}", getattr(x, n)) for n in slots if hasattr(x, n))
            yield from ((f".{n}", v) for n, v in getattr(x, "__dict__", {}).items())

    @staticmethod
    def parts_of_function(x: types.FunctionType) -> Iterator[tuple[str, Any]]:
        yield ".__code__", x.__code__
        if x.__defaults__ or x.__kwdefaults__:
            yield ".__defaults__", [x.__defaults__, x.__kwdefaults__]
        if vars(x):
            yield ".__dict__", dict(vars(x))
        for name, cell in zip(x.__code__.co_freevars, x.__closure__ or ()):
            try:
                yield f".{name}", cell.cell_contents
            except ValueError:
                yield f".{name}", None


def difference(actual: Notes, expected: Notes) -> str | None:
    """The first place where what was seen is not what was expected."""
    for (place, a), (where, b) in itertools.zip_longest(actual, expected, fillvalue=("end", None)):
        if place != where:
            return f"{place or 'nothing'} where {where or 'nothing'} was expected"
        if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
            if (a.dtype, a.shape) != (b.dtype, b.shape):
                return f"{place} is {a.dtype}{list(a.shape)}, eager {b.dtype}{list(b.shape)}"
            try:
                assert_close(a, b, rtol=1e-5, atol=1e-5)
            except AssertionError as error:
                return f"{place} is {a.tolist()}, eager {b.tolist()}: {error}"
        elif not _same(a, b):
            return f"{place} is {a}, eager {b}"
    return None


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, tuple) and a[0] == "float" == b[0]:
        return bool(np.isclose(a[1], b[1], rtol=1e-5, atol=1e-7, equal_nan=True))
    return bool(a == b)


# --- judging -------------------------------------------------------------------------------------


class Call(NamedTuple):
    """What a call left, and whether it was recorded."""

    part: int
    number: int  # in its round
    seen: Notes
    recorded: int


def rounds(form: Form, compiled: bool) -> Iterator[Call]:
    """The calls of a form: a round of them after each of its parts."""
    mode = config.compile_mode
    config.compile_mode = mode if compiled else "off"  # for what the form itself compiles
    world = World(form, cf.compile if compiled else None)
    try:
        for part in range(len(form.parts)):
            if part:
                world.change(part)
            for k in range(CALLS):
                x = argument(k)
                before = world.call.captures if compiled else 0
                result = world.call(x)
                recorded = world.call.captures - before if compiled else 0
                yield Call(part, k, world.seen(argument=x, result=result), recorded)
    finally:
        world.leave()
        config.compile_mode = mode


def judge(form: Form) -> None:
    """Fail unless the compiled world is the eager one, and records no more than it must."""
    expected = list(rounds(form, compiled=False))
    counts = []
    for call, eager in zip(rounds(form, compiled=True), expected):
        found = difference(call.seen, eager.seen)
        place = f"{form.path.name}:{form.parts[call.part][0]}"
        where = f"{form.name}, call {call.number + 1} of round {call.part + 1} ({place})"
        assert found is None, f"{where}: {found}"
        counts.append((call, where))
    most = form.most_recordings()
    if most is not None:
        total = sum(call.recorded for call, _ in counts)
        assert total <= most, f"{form.name}: {total} recordings, {most} are enough"
        return
    learning = 2 if "learns" in form.words else 1  # so many calls of a round may record
    for call, where in counts:
        assert call.recorded <= (call.number < learning), f"{where} recorded {call.recorded} times"
