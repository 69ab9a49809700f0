"""Scenarios: what the eager tests compute, as functions that can be compiled as well.

A scenario is a function of a few tensors that does a whole computation inside, backward included,
and names the eager tests whose computation it is. `observe` calls it several times and notes all
that can be seen afterwards, eagerly or compiled; `compare` says where two such notes differ.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import contraflow as cf
from contraflow.dtypes import tolerance
from contraflow.testing import assert_close

MODES = ("interpret", "native")
CALLS = 3  # the first records; gradients that are there from then on may make another recording

Argument = Callable[[np.random.Generator], Any]
Notes = list[tuple[str, Any]]


# --- arguments -----------------------------------------------------------------------------------


def leaf(*shape: int, dtype: cf.dtype = cf.float64) -> Argument:
    """A leaf that requires grad."""
    return lambda rng: cf.tensor(rng.standard_normal(shape), dtype=dtype, requires_grad=True)


def plain(*shape: int, dtype: cf.dtype = cf.float64) -> Argument:
    """A tensor that requires no grad."""
    return lambda rng: cf.tensor(rng.standard_normal(shape), dtype=dtype)


def positive(*shape: int) -> Argument:
    """A leaf with elements from 0.5 to 2."""
    return lambda rng: cf.tensor(rng.uniform(0.5, 2.0, shape), requires_grad=True)


def whole(below: int, *shape: int, dtype: cf.dtype = cf.int64) -> Argument:
    """Integers from 0."""
    return lambda rng: cf.tensor(rng.integers(0, below, shape), dtype=dtype)


def truth(*shape: int) -> Argument:
    """Booleans."""
    return lambda rng: cf.tensor(rng.integers(0, 2, shape) == 1)


def among(*values: float) -> Argument:
    """A leaf with these elements, in another order at each call."""
    return lambda rng: cf.tensor(rng.permutation(np.array(values)), requires_grad=True)


# --- declaring -----------------------------------------------------------------------------------


class Scenario(NamedTuple):
    """How to build the function, the state it changes and what to do before each of its calls."""

    build: Callable[[], tuple[Any, ...]]
    arguments: tuple[Argument, ...]
    covers: tuple[str, ...]
    differentiate: bool  # the results, from outside
    raises: type[Exception] | None  # what eager raises
    words: str | None  # what its text holds; without it compiled and eager say the very same
    refuses: str | None  # what the CaptureError says, where eager works
    through: cf.dtype | None  # the least precise dtype that values pass through


SCENARIOS: dict[str, Scenario] = {}


class EagerFile:
    """The tests of one subject; calling it declares a scenario that stands for some of them.

    A subject has the name of a file. Tests may be in other files of the subject.
    """

    def __init__(self, subject: str) -> None:
        self.subject = subject

    def __call__(self, *given: str | Argument, state: bool = False, **expected: Any) -> Any:
        """A decorator for a function, or with `state` for one that gives it and its state.

        `given` are names of tests, without `test_`, then the arguments.
        """
        covers = tuple(f"{self.subject}.test_{name}" for name in given if isinstance(name, str))
        arguments = tuple(x for x in given if not isinstance(x, str))
        fields = {**dict.fromkeys(Scenario._fields[3:]), **expected}

        def declare(function: Any) -> Any:
            build = function if state else lambda: (function, ())
            name = f"{self.subject.removeprefix('test_')}: {function.__name__}"
            assert name not in SCENARIOS, name
            SCENARIOS[name] = Scenario(build, arguments, covers, **fields)
            return function

        return declare

    def named(self, name: str, *given: str | Argument, **expected: Any) -> Any:
        """The same for a function without a name of its own."""

        def declare(function: Any) -> Any:
            def call(*args: Any) -> Any:
                return function(*args)

            call.__name__ = name
            return self(*given, **expected)(call)

        return declare

    def pure(self, name: str, *given: Any, order: int = 2) -> Any:
        """Two scenarios: gradients taken inside the function, and of its results from outside."""

        def declare(function: Any) -> Any:
            self.named(f"{name}, gradients inside", *given)(gradients(function, order))
            self.named(f"{name}, gradients outside", *given, differentiate=True)(function)
            return function

        return declare


def gradients(function: Callable[..., Any], order: int) -> Callable[..., Any]:
    """A function's values and their gradients up to an order."""

    def all_orders(*args: cf.Tensor) -> list[Any]:
        wanted = [x for x in args if x.requires_grad]
        outs = list(tensors(function(*args)))
        found: list[Any] = [out.detach() for out in outs]
        for k in range(order):
            total = sum((out * (i + 1.5)).sin().sum() for i, out in enumerate(outs))
            made = cf.autograd.grad(total, wanted, create_graph=k + 1 < order, allow_unused=True)
            found += [None if g is None else g.detach() for g in made]
            outs = [g for g in made if g is not None and g.requires_grad]
            if not outs:
                break
        return found

    return all_orders


def parameters(test: Callable[..., Any], which: int = 0) -> list[tuple[Any, ...]]:
    """What one of a test's `parametrize` marks lists, always as tuples."""
    marks = [mark for mark in test.pytestmark if mark.name == "parametrize"]  # type: ignore[attr-defined]
    names, values = marks[which].args
    single = isinstance(names, str) and "," not in names
    return [(value,) if single else tuple(value) for value in values]


def given_by(make: Argument) -> Argument:
    """How an argument is made: as it is declared, unless a test makes it otherwise."""
    return make


# --- running -------------------------------------------------------------------------------------


def observe(name: str, mode: str) -> Notes:
    """All that can be seen of the calls of a scenario, in order."""
    scenario = SCENARIOS[name]
    cf.manual_seed(0)
    function, state, *between = scenario.build()
    call = function if mode == "eager" else cf.compile(function, name="scenario")
    rng = np.random.default_rng(0)
    notes: Notes = []
    for number in range(CALLS):
        for change in between:
            change(number)
        given = [given_by(make)(rng) for make in scenario.arguments]
        around = [*given, *tensors(state)]
        before, versions = look(around, "around"), [t._version for t in around]
        try:
            result = call(*given)
        except Exception as error:
            # Where the call stops eager has done half of it, and a compiled call nothing.
            notes.append((f"call {number}", (type(error), str(error))))
            if mode != "eager":
                compare(look(around, "around"), before, exact=True)
                assert [t._version for t in around] == versions
            continue
        if scenario.differentiate:
            result = [result, *differentiate(result, around)]
        seen = {"result": result, "argument": given, "state": plainly(state)}
        notes += look(seen, f"call {number}")
        written = [t._version != v for t, v in zip(around, versions)]
        notes.append((f"call {number}: written", written))
        notes.append((f"call {number}: random", cf.get_rng_state()))
    if mode != "eager" and not scenario.raises and not scenario.refuses:
        assert call.captures < CALLS, f"{name}: every call was recorded, none replayed"
    return notes


def differentiate(result: Any, around: Sequence[cf.Tensor]) -> list[Any]:
    """Gradients of results by whatever leaf is around."""
    outs = [t for t in tensors(result) if t.requires_grad]
    total = sum((out * (i + 1.5)).sin().sum() for i, out in enumerate(outs))
    wanted = [t for t in around if t.requires_grad]
    return list(cf.autograd.grad(total, wanted, allow_unused=True, retain_graph=True))


def tensors(x: Any) -> Iterator[cf.Tensor]:
    """The tensors in containers, modules and optimizers."""
    if isinstance(x, cf.Tensor):
        yield x
    elif isinstance(x, cf.nn.Module):
        yield from (*x.parameters(), *x.buffers())
    elif isinstance(x, cf.optim.Optimizer):
        yield from tensors(x.state_dict())
    elif isinstance(x, dict):
        yield from tensors(list(x.values()))
    elif isinstance(x, (tuple, list)):
        for item in x:
            yield from tensors(item)


def plainly(state: Any) -> Any:
    """State as containers of tensors and numbers."""
    if isinstance(state, (cf.nn.Module, cf.optim.Optimizer)):
        return list(tensors(state)), dict(state.state_dict())
    return [plainly(x) for x in state] if isinstance(state, (tuple, list)) else state


def look(x: Any, place: str) -> Notes:
    """Values, gradients and numbers, each under its name."""
    if isinstance(x, cf.Tensor):
        hooks = len(x._hooks or ()), len(x._accumulated_hooks or ())
        notes: Notes = [(place, x.detach().fetched().copy()), (f"{place}: hooks", hooks)]
        notes.append((f"{place}: requires grad", x.requires_grad))
        return notes + look(x.grad, f"{place}.grad")
    if isinstance(x, dict):
        return [note for key in x for note in look(x[key], f"{place}: {key}")]
    if isinstance(x, (tuple, list)):
        return [note for i, item in enumerate(x) for note in look(item, f"{place}[{i}]")]
    return [(place, x)]


def compare(
    actual: Notes,
    expected: Notes,
    exact: bool,
    through: cf.dtype | None = None,
    allowed: tuple[float | None, float | None] = (None, None),
) -> None:
    """Raise AssertionError unless notes are the same: bit for bit, or as close as dtypes ask."""
    if through is not None:
        allowed = tolerance(through)
    places = [place for place, _ in expected]
    assert [place for place, _ in actual] == places, [x for x in actual if x[0] not in places]
    for (place, a), (_, b) in zip(actual, expected):
        if isinstance(b, np.ndarray):
            assert (a.dtype, a.shape) == (b.dtype, b.shape), place
            if exact:
                assert a.tobytes() == b.tobytes(), f"{place}: {a} is not {b}"
            else:
                try:
                    assert_close(a, b, *allowed)
                except AssertionError as error:
                    error.add_note(place)
                    raise
        else:
            assert a == (b if exact or not isinstance(b, float) else pytest.approx(b)), place


# --- coverage ------------------------------------------------------------------------------------

TESTS = Path(__file__).resolve().parents[1]


def declared_tests(subject: str, stems: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """The tests of some files, and whether each compiles its functions itself, by a fixture."""
    for stem in stems:
        (path,) = TESTS.rglob(f"{stem}.py")
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                itself = any(a.arg in ("run", "mode") for a in node.args.args)
                yield f"{subject}.{node.name}", itself
