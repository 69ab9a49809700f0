"""What hooks of observed code are told, in which order, and what becomes of what they return."""

import linecache
import sys
import traceback
from typing import Any

import pytest
from tests.helpers.observed import PLAIN, logging_hooks

from contraflow.capture.rewriting import rewrite
from contraflow.capture.rewriting.rewrite import ObserverHooks, Rewriter

pytestmark = pytest.mark.skipif(
    not rewrite.KNOWN, reason="the bytecode of this Python is not known"
)


def told(program, call):
    """What the hooks are told by `f` of a program, nothing else of it being observed."""
    log, space = [], {"__name__": "program"}
    exec(program, space)
    f = space["f"]
    f.__code__ = Rewriter(logging_hooks(log)).observed(f.__code__)
    exec(call, space)
    return log


# A program, what is called, and what the hooks are told, by the Python from which on they are.
TOLD = {
    "globals": (
        "g = 1\ndef f():\n return g, len('ab')\n",
        "f()",
        {
            11: [
                "load_global(1, 'g')",
                "load_global(len, 'len')",
                "callee(len)",
            ],
        },
    ),
    "stores into globals": (
        "def f():\n global g\n g = 4\n del g\n",
        "f()",
        {
            11: [
                "store_global(4, 'g')",
                "delete_global('g')",
            ],
        },
    ),
    "cells": (
        "def outer():\n"
        " c = 5\n"
        " def f():\n"
        "  nonlocal c\n"
        "  c = c + 1\n"
        "  del c\n"
        " return f\n"
        "f = outer()\n",
        "f()",
        {
            11: [
                "load_cell(5, cell)",
                "operate(5, 1, 0)",
                "store_cell(6, cell)",
                "delete_cell(cell)",
            ],
        },
    ),
    "own cells": (
        "def f():\n c = 5\n def g():\n  return c\n c = 6\n return g()\n",
        "f()",
        {
            11: [
                "made(g)",
                "callee(g)",
                "load_cell(6, cell)",
            ],
        },
    ),
    "attributes": (
        "class A:\n pass\na = A()\na.b = A()\ndef f():\n a.b.c = 3\n a.b.c += 2\n del a.b.c\n",
        "f()",
        {
            11: [
                "load_global(A, 'a')",
                "load_attribute(A, 'b')",
                "store_attribute(A, 3, 'c')",
                "load_global(A, 'a')",
                "load_attribute(A, 'b')",
                "load_attribute(A, 'c')",
                "operate(3, 2, 13)",
                "store_attribute(A, 5, 'c')",
                "load_global(A, 'a')",
                "load_attribute(A, 'b')",
                "delete_attribute(A, 'c')",
            ],
        },
    ),
    "methods": (
        "class A:\n def m(self, x):\n  return x\ndef f(a):\n return a.m(1), 'a'.join(['b'])\n",
        "f(A())",
        {
            11: [
                "load_method(A, 'm')",
                "callee(m)",
                "load_method('a', 'join')",
                "callee(join)",
            ],
        },
    ),
    "bound methods": (
        "def f(x):\n m = x.append\n m(1)\n",
        "f([])",
        {
            11: [
                "load_attribute([], 'append')",
                "callee(append)",
            ],
        },
    ),
    "arguments": (
        "def g(*a, **k):\n pass\nh = 3\ndef f():\n g(h, 1, k=h)\n",
        "f()",
        {
            11: [
                "load_global(g, 'g')",
                "load_global(3, 'h')",
                "load_global(3, 'h')",
                "callee(g)",
            ],
        },
    ),
    "nested calls": (
        "def g(x):\n return g\ndef f():\n g(g(1))(2)\n",
        "f()",
        {
            11: [
                "load_global(g, 'g')",
                "load_global(g, 'g')",
                "callee(g)",
                "callee(g)",
                "callee(g)",
            ],
        },
    ),
    "unpacked arguments": (
        "def g(*a, **k):\n pass\ndef f(a, k):\n g(*a)\n g(1, *a, **k)\n",
        "f([1, 2], {'k': 3})",
        {
            11: [
                "load_global(g, 'g')",
                "iterate([1, 2])",
                "callee(g)",
                "load_global(g, 'g')",
                "iterate([1, 2])",
                "look({'k': 3})",
                "iterate((1, 1, 2))",
                "callee(g)",
            ],
        },
    ),
    "callables from expressions": (
        "def g():\n return 1\ndef f(x, c):\n x[0]()\n (c or g)()\n (x if c else g)()\n",
        "f((dict,), None)",
        {
            11: [
                "load_item((<class 'dict'>,), 0)",
                "callee(dict)",
                "truth(None)",
                "load_global(g, 'g')",
                "callee(g)",
                "truth(None)",
                "load_global(g, 'g')",
                "callee(g)",
            ],
        },
    ),
    "conditional arguments": (
        "def g(x):\n return x\ndef f(x):\n return g(1 if x else 2)\n",
        "f(0)",
        {
            11: [
                "load_global(g, 'g')",
                "truth(0)",
                "callee(g)",
            ],
        },
    ),
    "keywords": (
        "def f(x):\n return dict(a=x), max(x, key=len)\n",
        "f(['a'])",
        {
            11: [
                "load_global(dict, 'dict')",
                "callee(dict)",
                "load_global(max, 'max')",
                "load_global(len, 'len')",
                "callee(max)",
            ],
        },
    ),
    "decorators": (
        "def d(g):\n return g\ndef f():\n @d\n def g():\n  pass\n",
        "f()",
        {
            11: [
                "load_global(d, 'd')",
                "made(g)",
                "callee(d)",
            ],
        },
    ),
    "items": (
        "def f(x):\n x[0] = x[1]\n del x[1]\n x[0] += 1\n",
        "f([1, 2])",
        {
            11: [
                "load_item([1, 2], 1)",
                "store_item([1, 2], 0, 2)",
                "delete_item([2, 2], 1)",
                "load_item([2], 0)",
                "operate(2, 1, 13)",
                "store_item([2], 0, 3)",
            ],
        },
    ),
    "slices": (
        "def f(x, i):\n x[i:2] = x[1:i]\n",
        "f([1, 2, 3], 2)",
        {
            11: [
                "load_item([1, 2, 3], slice)",
                "store_item([1, 2, 3], slice, [2])",
            ],
            12: [
                "load_slice([1, 2, 3], 1, 2)",
                "store_slice([1, 2, 3], 2, 2, [2])",
            ],
        },
    ),
    "iteration": (
        "def f(x):\n for a, b in x:\n  pass\n return [y for y in x], [*x, 1], {**{1: 2}}\n",
        "f([(1, 2)])",
        {
            11: [
                "iterate([(1, 2)])",
                "iterate((1, 2))",
                "iterate([(1, 2)])",
                "iterate([(1, 2)])",
                "look({1: 2})",
            ],
        },
    ),
    "starred targets": (
        "def f(x):\n a, *b = x\n",
        "f([1])",
        {
            11: [
                "iterate([1])",
            ],
        },
    ),
    "truth": (
        "def f(x, y):\n if x:\n  pass\n return not y, x and y\n",
        "f([], 0)",
        {
            11: [
                "truth([])",
                "truth(0)",
                "truth([])",
            ],
        },
    ),
    "tests": (
        "def f(x, y):\n if x < 2:\n  pass\n if x is None:\n  pass\n if x in y:\n  pass\n",
        "f(1, [2])",
        {
            11: [
                "operate(1, 2, -1)",
                "truth(True)",
                "contain(1, [2])",
            ],
        },
    ),
    "comparisons": (
        "def f(x, y):\n return x == y, x is not y, x not in y\n",
        "f(1, [2])",
        {
            11: [
                "operate(1, [2], -1)",
                "compare_identity(1, [2])",
                "contain(1, [2])",
            ],
        },
    ),
    "operators": (
        "def f(x, y):\n x + y\n x **= y\n return -x, ~x, +x\n",
        "f(3, 2)",
        {
            11: [
                "operate(3, 2, 0)",
                "operate(3, 2, 21)",
                "look(9)",
                "look(9)",
                "look(9)",
            ],
        },
    ),
    "formats": (
        "def f(x, y):\n return f'{x} {x!r:>{y}}'\n",
        "f(7, 9)",
        {
            11: [
                "look(7)",
                "look(9)",
                "look(7)",
            ],
            13: [
                "look(7)",
                "look(7)",
                "look(9)",
                "look('7')",
            ],
        },
    ),
    "imports": (
        "def f():\n import string\n from string import digits\n",
        "f()",
        {
            11: [
                "imported(string, 'string')",
                "imported(string, 'string')",
                "import_from(string, 'digits')",
            ],
        },
    ),
    "patterns": (
        "def f(x):\n match x:\n  case {'a': [p, q]}:\n   pass\n  case int(y):\n   pass\n",
        "f({'a': [1, 2]}), f(3)",
        {
            11: [
                "look({'a': [1, 2]})",
                "length({'a': [1, 2]})",
                "operate(1, 1, -1)",
                "truth(True)",
                "look({'a': [1, 2]})",
                "iterate(([1, 2],))",
                "look([1, 2])",
                "length([1, 2])",
                "operate(2, 2, -1)",
                "truth(True)",
                "iterate([1, 2])",
                "look(3)",
                "load_global(int, 'int')",
                "look(3)",
                "match_class(int)",
                "iterate((3,))",
            ],
            13: [
                "look({'a': [1, 2]})",
                "length({'a': [1, 2]})",
                "operate(1, 1, -1)",
                "look({'a': [1, 2]})",
                "iterate(([1, 2],))",
                "look([1, 2])",
                "length([1, 2])",
                "operate(2, 2, -1)",
                "iterate([1, 2])",
                "look(3)",
                "load_global(int, 'int')",
                "look(3)",
                "match_class(int)",
                "iterate((3,))",
            ],
        },
    ),
    "handlers": (
        "def f(x):\n try:\n  return x[5]\n except IndexError:\n  return 0\n",
        "f([])",
        {
            11: [
                "load_item([], 5)",
                "load_global(IndexError, 'IndexError')",
                "classes(IndexError)",
            ],
        },
    ),
    "super": (
        "class A:\n"
        " v = 2\n"
        " def m(self):\n"
        "  return 1\n"
        "class B(A):\n"
        " def f(self):\n"
        "  return super().m(), super().v\n"
        "f = B.f\n",
        "f(B())",
        {
            11: [
                "load_global(super, 'super')",
                "callee(super)",
                "load_method(super, 'm')",
                "callee(m)",
                "load_global(super, 'super')",
                "callee(super)",
                "load_attribute(super, 'v')",
            ],
            12: [
                "load_global(super, 'super')",
                "load_cell(B, cell)",
                "load_super(super, B, B, 'm', True)",
                "callee(m)",
                "load_global(super, 'super')",
                "load_cell(B, cell)",
                "load_super(super, B, B, 'v', False)",
            ],
        },
    ),
    "class bodies": (
        "g = 1\n"
        "def f(n):\n"
        " class A:\n"
        "  x = n\n"
        "  y = x + g\n"
        "  def m(self):\n"
        "   return self.y\n"
        " return A().m()\n",
        "f(4)",
        {
            11: [
                "made(A)",
                "callee(__build_class__)",
                "load_name('program', '__name__')",
                "load_cell(4, cell)",
                "load_name(4, 'x')",
                "load_name(1, 'g')",
                "operate(4, 1, 0)",
                "made(m)",
                "callee(A)",
                "load_method(A, 'm')",
                "callee(m)",
                "load_attribute(A, 'y')",
            ],
        },
    ),
    "context managers": (
        "from threading import Lock\ndef f(x):\n with x:\n  pass\n",
        "f(Lock())",
        {
            11: [
                "look(lock)",
                "callee(__exit__)",
            ],
        },
    ),
    "generators": (
        "def f(x):\n yield from x\n return sum(y + 1 for y in x)\n",
        "list(f([1]))",
        {
            11: [
                "iterate([1])",
                "load_global(sum, 'sum')",
                "iterate([1])",
                "callee(sum)",
                "operate(1, 1, 0)",
            ],
        },
    ),
}


@pytest.mark.parametrize(("program", "call", "wanted"), TOLD.values(), ids=TOLD)
def test_hooks_are_told_in_the_order_of_evaluation(program, call, wanted):
    latest = max(version for version in wanted if (3, version) <= sys.version_info)
    assert told(program, call) == wanted[latest]


def test_every_hook_is_told():
    lines = [line for *_, wanted in TOLD.values() for lines in wanted.values() for line in lines]
    assert {line.partition("(")[0] for line in lines} | {"entered"} == set(ObserverHooks._fields)


def test_what_hooks_return_is_used():
    changed = PLAIN._replace(
        load_global=lambda value, name: 10 if name == "g" else value,
        load_item=lambda container, key: (container, key),
        load_attribute=lambda x, name: name,
        callee=lambda f: (lambda *a: a) if f is print else f,
        truth=lambda x: not x,
    )
    space = {"g": 1}
    exec("def f(x): return g, x[2], x.attribute, print(3), 'yes' if x else 'no'", space)
    f = space["f"]
    f.__code__ = Rewriter(changed).observed(f.__code__)
    assert f([]) == (10, ([], 2), "attribute", (3,), "yes")


def test_hooks_find_the_frame_of_the_observed_code():
    seen = []

    def note(value, name):
        frame = sys._getframe(1)
        seen.append((frame.f_code.co_name, frame.f_lineno, frame.f_globals is space))
        return value

    space = {"g": 1}
    exec("def f():\n    return (\n        g,\n        [g for _ in 'a'],\n    )", space)
    f = space["f"]
    f.__code__ = Rewriter(PLAIN._replace(load_global=note)).observed(f.__code__)
    f()
    inner = "f" if sys.version_info >= (3, 12) else "<listcomp>"
    assert seen == [("f", 3, True), (inner, 4, True)]


def test_refused_by_a_hook_at_the_line():
    def refuse(f):
        if f is input:
            raise RuntimeError("no input")
        return f

    program = "def f(x):\n    return [\n        x,\n        input(x),\n    ]\n"
    filename = "<refused>"
    linecache.cache[filename] = len(program), None, program.splitlines(keepends=True), filename
    space = {}
    exec(compile(program, filename, "exec"), space)
    f = space["f"]
    f.__code__ = Rewriter(PLAIN._replace(callee=refuse)).observed(f.__code__)
    with pytest.raises(RuntimeError, match="no input") as caught:
        f("x")
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert [frame.name for frame in frames[1:]] == ["f", "refuse"]
    assert (frames[1].lineno, frames[1].line) == (4, "input(x),")


def test_a_function_that_tells_says_so_at_its_first_line() -> None:
    """Generators at their first step; tracing sees no other lines than before."""
    for program in (
        "def f(x):\n    return x",
        "def f(x):\n    while x < 3:\n        x += 1\n    return x",
        "def f(x):\n    for i in range(2):\n        yield i",
        "def f(x):\n    def g():\n        return x\n    return g()",
        "def f(x):\n    try:\n        return 1 / x\n    except ArithmeticError:\n        return 0",
    ):
        heard: list[Any] = []
        space: dict[str, Any] = {}
        exec(program, space)
        f, code = space["f"], space["f"].__code__
        expected = lines_of(f)
        f.__code__ = Rewriter(PLAIN._replace(entered=heard.append)).observed(code, tells=True)
        assert lines_of(f) == expected
        assert heard == [code]


def lines_of(f: Any) -> list[int]:
    """The lines of a function of one number that tracing sees."""
    seen: list[int] = []

    def trace(frame: Any, event: str, _: object) -> Any:
        if event == "line" and frame.f_code.co_name == "f":
            seen.append(frame.f_lineno)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        found = f(0)
        if hasattr(found, "__next__"):
            list(found)
    finally:
        sys.settrace(before)
    return seen
