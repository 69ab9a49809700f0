"""Observed code: the same program, and every read, store and call of Python state seen by hooks.

Code is taken apart and put together (bytecode.py), and run with hooks that do what the instructions
did: output, tracebacks with their columns, and the lines that a debugger stops at are compared with
those of the original. Hooks that are written in C add no frames, so most are.
"""

import contextlib
import functools
import importlib.util
import io
import linecache
import operator
import os
import pdb
import subprocess
import sys
import sysconfig
import threading
import time
import traceback
import types
from pathlib import Path

import pytest
from tests.helpers.python_programs import PROGRAMS

from contraflow.capture import bytecode, rewrite
from contraflow.capture.rewrite import ObserverHooks, Rewriter, is_observed, original

pytestmark = pytest.mark.skipif(
    not rewrite.KNOWN, reason="the bytecode of this Python is not known"
)

LIBRARY = Path(sysconfig.get_path("stdlib"))

first = functools.partial(min, key=[].count)  # (a, b, …) -> a, without a frame: all keys are 0
same = functools.partial({}.get, None)  # x -> x, without a frame


def load_super(kind, cls, instance, name, is_method):
    return getattr(kind(cls, instance), name)


def load_slice(container, start, stop):
    return container[start:stop]


def store_slice(container, start, stop, value):
    container[start:stop] = value


def store_attribute(instance, value, name):
    setattr(instance, name, value)


def store_global(value, name):
    sys._getframe(1).f_globals[name] = value


def delete_global(name):
    space = sys._getframe(1).f_globals
    if name not in space:
        raise NameError(f"name {name!r} is not defined")
    del space[name]


def store_cell(value, cell):
    cell.cell_contents = value


def delete_cell(cell):
    del cell.cell_contents


PLAIN = ObserverHooks(
    load_global=first,
    load_name=first,
    load_cell=first,
    load_attribute=getattr,
    load_method=getattr,
    load_super=load_super,
    load_item=operator.getitem,
    load_slice=load_slice,
    iterate=same,
    look=same,
    length=same,
    truth=same,
    operate=first,
    contain=first,
    compare_identity=first,
    store_attribute=store_attribute,
    delete_attribute=delattr,
    store_item=operator.setitem,
    store_slice=store_slice,
    delete_item=operator.delitem,
    store_global=store_global,
    delete_global=delete_global,
    store_cell=store_cell,
    delete_cell=delete_cell,
    callee=same,
    made=same,
    imported=first,
    imported_from=first,
)
plain = Rewriter(PLAIN)


def nested(code):
    """A code object and all within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from nested(constant)


def compiled(name):
    """A program of the zoo, whose text tracebacks find."""
    filename, text = f"<{name}>", PROGRAMS[name]
    linecache.cache[filename] = len(text), None, text.splitlines(keepends=True), filename
    return compile(text, filename, "exec")


def without_hooks(trace):
    """A traceback without the frames of hooks written in Python."""
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    if trace is not None:
        trace.tb_next = without_hooks(trace.tb_next)
    return trace


def outcome(code, tracer=None):
    """What a program prints, the traceback that it ends with, and the names that it leaves."""
    space = {"__name__": "program", "__builtins__": vars(__import__("builtins"))}
    out, error = io.StringIO(), None
    before = sys.gettrace()
    with contextlib.redirect_stdout(out):
        try:
            if tracer is not None:
                sys.settrace(tracer)
            exec(code, space)
        except BaseException as raised:
            error = raised
        finally:
            if tracer is not None:
                sys.settrace(before)
    if error is None:
        return out.getvalue(), None, sorted(space)
    chain = error
    while chain is not None:
        chain.__traceback__ = without_hooks(chain.__traceback__)
        chain = chain.__cause__ or chain.__context__
    return out.getvalue(), traceback.format_exception(error), sorted(space)


# Taking apart and putting together.


def unchanged(code):
    instructions = bytecode.take_apart(code)
    return bytecode.put_together(code, instructions, instructions.encoded, code.co_consts, 0)


def check_unchanged(code):
    again = unchanged(code)
    assert again.co_code == code.co_code
    assert again.co_exceptiontable == code.co_exceptiontable
    assert list(again.co_positions()) == list(code.co_positions())
    assert list(again.co_lines()) == list(code.co_lines())
    assert again.co_stacksize == code.co_stacksize


@pytest.mark.parametrize("name", ["argparse", "ast", "asyncio/tasks", "dataclasses", "typing"])
def test_code_put_together_is_the_same(name):
    text = (LIBRARY / f"{name}.py").read_text(encoding="utf-8")
    for code in nested(compile(text, name, "exec")):
        check_unchanged(code)


def test_programs_put_together_are_the_same():
    for name in PROGRAMS:
        for code in nested(compiled(name)):
            check_unchanged(code)


@pytest.mark.slow
def test_library_put_together_is_the_same():
    paths = [*LIBRARY.glob("*.py"), *LIBRARY.glob("[a-m]*/*.py")]
    count = 0
    for path in paths:
        if "site-packages" in path.parts:
            continue
        try:
            module = compile(path.read_bytes(), str(path), "exec")
        except SyntaxError:
            continue
        for code in nested(module):
            check_unchanged(code)
            count += 1
    assert count > 5000


# The same program.


@pytest.mark.parametrize("name", PROGRAMS)
def test_observed_program_does_the_same(name):
    code = compiled(name)
    wanted = outcome(code)
    assert outcome(plain.observed(code)) == wanted


def events(code):
    """What a tracer is told about the frames of a program."""
    found = []

    def trace(frame, event, argument):
        if original(frame.f_code).co_filename != code.co_filename:
            return None
        found.append((event, frame.f_code.co_name, frame.f_lineno))
        return trace

    outcome(code, trace)
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_tracer_sees_the_same_lines(name):
    code = compiled(name)
    wanted = events(code)
    assert wanted
    assert events(plain.observed(code)) == wanted


@pytest.mark.parametrize("name", PROGRAMS)
def test_observed_code_keeps_what_it_says_of_itself(name):
    for code in nested(compiled(name)):
        made = plain.observed(code)
        for attribute in dir(code):
            if attribute.startswith("co_") and attribute not in (
                "co_code",
                "co_consts",
                "co_exceptiontable",
                "co_linetable",
                "co_lines",
                "co_lnotab",
                "co_positions",
                "co_stacksize",
                "co_branches",
                "_co_code_adaptive",
            ):
                assert getattr(made, attribute) == getattr(code, attribute), attribute
        assert {line for *_, line in made.co_lines()} == {line for *_, line in code.co_lines()}
        assert set(made.co_positions()) == set(code.co_positions())


# Whole modules of the standard library.


def load_module(name, rewriter=None):
    """A module of the standard library from its source, beside the one that is imported."""
    spec = importlib.util.find_spec(name)
    module = importlib.util.module_from_spec(spec)
    if name.startswith("test."):  # tests look themselves up
        sys.modules[name] = module
    code = spec.loader.get_code(name)
    if rewriter is not None:
        code = rewriter.observed(code)
        assert all(map(is_observed, nested(code)))
    exec(code, vars(module))
    return module


def exercise_argparse(m):
    parser = m.ArgumentParser(prog="program", description="does things", add_help=True)
    parser.add_argument("path", nargs="+", help="where")
    parser.add_argument("--count", "-c", type=int, default=3, choices=range(9), help="how often")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--fast", action="store_true")
    group.add_argument("--slow", action="store_const", const=5)
    commands = m.ArgumentParser(prog="other").add_subparsers(dest="command")
    commands.add_parser("run").add_argument("-x", action="append")
    return parser.parse_args(["a", "b", "-c", "4", "--fast"]).__dict__, parser.format_help()


def exercise_dataclasses(m):
    made = m.make_dataclass("P", [("x", int), ("y", int, m.field(default=3))], order=True)
    frozen = m.make_dataclass("Q", ["a"], frozen=True, slots=True)
    try:
        frozen(1).a = 2
    except m.FrozenInstanceError as error:
        refused = str(error)
    return made(1), made(1) < made(2), m.asdict(made(4)), m.replace(made(1), y=9), refused


def exercise_inspect(m):
    def f(a, /, b: int = 2, *args, c, d=4, **kwargs) -> str:
        return f"{a}"

    bound = m.signature(f).bind(1, 2, 3, c=5, e=6)
    return str(m.signature(f)), bound.arguments, m.getsource(f), m.getfullargspec(f)


def exercise_ast(m):
    tree = m.parse(PROGRAMS["match"] + PROGRAMS["class bodies"] + PROGRAMS["format strings"])
    names = [node.id for node in m.walk(tree) if isinstance(node, m.Name)]
    return m.unparse(tree), m.dump(tree, indent=1), names, m.literal_eval("{'a': [1, (2, -3j)]}")


def exercise_decimal(m):
    m.getcontext().prec = 30
    values = [m.Decimal("2").sqrt(), m.Decimal(1) / 7, m.Decimal("1e-5").ln(), m.Decimal(10) ** -3]
    return [*map(str, values), f"{values[1]:.5f}", m.Decimal("NaN").is_nan()]


def exercise_datetime(m):
    day = m.datetime(2024, 2, 29, 12, 30, tzinfo=m.timezone.utc)
    later = day + m.timedelta(days=366, seconds=5)
    return str(later), later - day, day.isocalendar()[:], day.strftime("%Y %j %H"), repr(later)


EXERCISES = {
    "json.encoder": lambda m: [
        m.JSONEncoder(indent=2, sort_keys=True).encode({"a": [1, 2.5, None, {"b": "é"}], "c": {}}),
        m.py_encode_basestring_ascii("é\n"),
    ],
    "json.decoder": lambda m: (
        m.JSONDecoder().decode('{"a": [1, -2.5e3, true], "b": {"c": "\\u00e9"}}'),
        m.py_scanstring('some \\u00e9 text" end', 0),
    ),
    "difflib": lambda m: [
        *m.unified_diff(["a", "b", "c", "d"], ["a", "x", "c", "e"]),
        *m.ndiff(["one two", "three"], ["one too", "tree"]),
        m.get_close_matches("appel", ["ape", "apple", "peach"]),
    ],
    "textwrap": lambda m: [
        m.fill("the quick brown fox jumps over the lazy dog " * 3, 30, subsequent_indent="  "),
        m.dedent("  a\n    b\n"),
        m.shorten("a long line of words", 12),
    ],
    "heapq": lambda m: [
        *m.merge([1, 4, 7], [2, 5], key=lambda x: x),
        m.nlargest(2, "hello", key=ord),
        m.nsmallest(2, [3, 1, 2]),
    ],
    "argparse": exercise_argparse,
    "dataclasses": exercise_dataclasses,
    "inspect": exercise_inspect,
    "ast": exercise_ast,
    "_pydecimal": exercise_decimal,
    "_pydatetime" if sys.version_info >= (3, 12) else "datetime": exercise_datetime,
    "string": lambda m: [
        m.Template("$a ${b}").substitute(a=1, b=2),
        m.Formatter().format("{0!r:>5} {x}", "y", x=[1]),
        m.capwords("some words"),
    ],
    "collections": lambda m: [
        m.namedtuple("P", "x y", defaults=[2])(1)._asdict(),
        m.Counter("hello").most_common(2),
        m.ChainMap({"a": 1}, {"b": 2})["b"],
        m.UserDict(a=1) | {"b": 2},
    ],
    "functools": lambda m: [
        sorted([3, 1, 2], key=m.cmp_to_key(lambda a, b: b - a)),
        m.singledispatch(lambda x: "any")(1),
        m.cached_property(len).__doc__ == len.__doc__,
        m.partialmethod(int, "1").func,
    ],
    "contextlib": lambda m: [
        m.ExitStack().__enter__().enter_context(m.nullcontext(4)),
        m.contextmanager(lambda: iter(()))().func.__name__,
    ],
    "statistics": lambda m: [m.mean([1, 2]), m.stdev([1, 2]), m.quantiles(range(9)), m.mode("ab")],
    "fractions": lambda m: [str(m.Fraction(3, 6) + m.Fraction("0.25")), m.Fraction(7, 3) // 2],
    "shlex": lambda m: [m.split("a 'b c' \"d e\" f\\ g"), m.quote("it's")],
    "configparser": lambda m: [
        (c := m.ConfigParser()),
        c.read_string("[a]\nx = 1\ny = %(x)s2\n[b]\nz: yes"),
        dict(c["a"]),
        c.getboolean("b", "z"),
    ][1:],
    "pprint": lambda m: m.pformat({"a": list(range(40)), "b": {"c": "x" * 90}}, width=40),
    "tokenize": lambda m: [
        (token.string, token.start)
        for token in m.generate_tokens(io.StringIO("def f(x):\n  return 1\n").readline)
    ],
    "graphlib": lambda m: [*m.TopologicalSorter({"b": ["a"], "c": ["b"]}).static_order()],
    "urllib.parse": lambda m: [m.urlsplit("http://u@h:8/p?q=1#f").port, m.urlencode({"a": "b c"})],
    "copy": lambda m: m.deepcopy({"a": [1, {2: (3, [4])}], "b": {5}}),
    "bisect": lambda m: [m.bisect([1, 2, 2, 3], 2), m.insort_left([1, 3], 2, key=lambda x: x)],
    "colorsys": lambda m: [m.rgb_to_hls(0.2, 0.4, 0.6), m.hsv_to_rgb(0.1, 0.5, 0.9)],
    "types": lambda m: [m.SimpleNamespace(a=1), m.new_class("A", (), {}).__name__],
    "html.parser": lambda m: [m.HTMLParser().feed("<a href='x'>t</a>"), m.unescape("&lt;&eacute;")],
}  # fmt: skip


@pytest.mark.parametrize("name", EXERCISES)
def test_observed_module_does_the_same(name):
    exercise = EXERCISES[name]
    wanted = exercise(load_module(name))
    module = load_module(name, plain)
    assert repr(exercise(module)) == repr(wanted)


# The interpreter's own tests of the language, observed; a test that looks at frames of hooks or at
# the last few levels of recursion is not among them.
LANGUAGE = [
    "test_asyncgen",
    "test_augassign",
    "test_call",
    "test_class",
    "test_compare",
    "test_contextlib",
    "test_coroutines",
    "test_decorators",
    "test_descr",
    "test_dictcomps",
    "test_enum",
    "test_except_star",
    "test_fstring",
    "test_funcattrs",
    "test_generators",
    "test_grammar",
    "test_iter",
    "test_keywordonlyarg",
    "test_listcomps",
    "test_named_expressions",
    "test_opcodes",
    "test_patma",
    "test_positional_only_arg",
    "test_property",
    "test_raise",
    "test_scope",
    "test_traceback",
    "test_type_params",
    "test_with",
    "test_yield_from",
]
RUN_TESTS = """
import io, sys, unittest
from tests.capture.test_rewrite import load_module, plain
name, is_observed = sys.argv[1:]
module = load_module("test." + name, plain if is_observed == "yes" else None)
suite = unittest.defaultTestLoader.loadTestsFromModule(module)
result = unittest.TextTestRunner(io.StringIO(), verbosity=0).run(suite)
print(result.testsRun, sorted(str(test) for test, _ in result.failures + result.errors))
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", LANGUAGE)
def test_observed_tests_of_the_language_give_the_same(name):
    if importlib.util.find_spec("test") is None or not (LIBRARY / f"test/{name}.py").exists():
        pytest.skip(f"this Python was installed without its test.{name}")
    root = Path(__file__).resolve().parents[2]
    results = [
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", RUN_TESTS, name, is_observed],
            cwd=root,
            env={**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"},
            capture_output=True,
            text=True,
            check=False,
        )
        for is_observed in ("no", "yes")
    ]
    assert [result.returncode for result in results] == [0, 0], results[1].stderr[-2000:]
    plainly, observed = (result.stdout.splitlines()[-1] for result in results)
    assert observed == plainly
    assert int(plainly.split()[0]) > 0


# What hooks are told.


def show(x):
    """A value in a log."""
    if isinstance(x, types.CellType):
        return "cell"
    return getattr(x, "__name__", None) or (repr(x) if type(x) in PLAIN_TYPES else type(x).__name__)


PLAIN_TYPES = (int, float, str, type(None), bool, list, tuple, dict, set)


def logging_hooks(log):
    """Hooks that do what PLAIN's do, and write down what they were called with."""

    def hook(name):
        run = getattr(PLAIN, name)

        def noting(*args):
            log.append(f"{name}({', '.join(map(show, args))})")
            if name in ("store_global", "delete_global"):
                space = sys._getframe(1).f_globals
                space.update({args[1]: args[0]}) if len(args) == 2 else space.pop(args[0])
                return None
            return run(*args)

        return noting

    return ObserverHooks._make(map(hook, ObserverHooks._fields))


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
                "imported_from(string, 'digits')",
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
                "iterate((3,))",
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
    assert {line.partition("(")[0] for line in lines} == set(ObserverHooks._fields)


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


# Debuggers, recursion.


def test_debugger_stops_at_the_lines_of_the_program():
    def session(code):
        commands = io.StringIO("step\nstep\nstep\nnext\nprint(y)\nwhere\nreturn\ncontinue\n")
        out = io.StringIO()
        debugger = pdb.Pdb(stdin=commands, stdout=out, nosigint=True, readrc=False)
        debugger.use_rawinput = False
        debugger.prompt = ""
        debugger.run(code, {"__name__": "program"})
        return out.getvalue()

    filename = "<debugged>"
    program = (
        "def g(x):\n    y = x + 1\n    z = [\n        y,\n        x * 2,\n    ]\n    return z\n"
        "print(\n    g(1)[0],\n)\n"
    )
    linecache.cache[filename] = len(program), None, program.splitlines(keepends=True), filename
    code = compile(program, filename, "exec")
    with contextlib.redirect_stdout(io.StringIO()):
        wanted, found = session(code), session(plain.observed(code))
    assert found == wanted
    assert "-> y = x + 1" in wanted
    assert "<debugged>(9)" in wanted


def test_recursions_are_as_deep():
    program = "def f(n):\n    global deepest\n    deepest = n\n    return f(n + 1)\n"

    def depth(make):
        space = {}
        exec(make(compile(program, "<deep>", "exec")), space)
        with pytest.raises(RecursionError):
            space["f"](0)
        return space["deepest"]

    # Hooks that are written in Python need a frame themselves, at the end only.
    noting = Rewriter(logging_hooks([]))
    wanted = depth(lambda code: code)
    assert wanted > 500
    assert abs(depth(plain.observed) - wanted) <= 3
    assert abs(depth(noting.observed) - wanted) <= 6


# The store of observed code.


def test_observed_code_is_kept_and_knows_its_original():
    code = compile("def f():\n    def g():\n        return 1\n    return g", "<kept>", "exec")
    made = plain.observed(code)
    assert plain.observed(code) is made
    assert plain.observed(made) is made
    assert is_observed(made)
    assert not is_observed(code)
    assert original(made) is code
    assert original(code) is code
    for old, new in zip(nested(code), nested(made)):
        assert original(new) is old
        assert plain.observed(old) is new
        assert is_observed(new)


def test_equal_code_has_its_own_observed_form():
    one, other = (compile("x.y", "<equal>", "eval") for _ in range(2))
    assert one == other
    assert original(plain.observed(one)) is one
    assert original(plain.observed(other)) is other


def test_store_is_bounded(monkeypatch):
    monkeypatch.setattr(rewrite, "LIMIT", 10)
    rewriter = Rewriter(PLAIN)
    made = [rewriter.observed(compile("x.y", f"<{i}>", "eval")) for i in range(50)]
    assert len(rewriter._made) == 10
    assert all(map(is_observed, made))
    assert [original(code).co_filename for code in made] == [f"<{i}>" for i in range(50)]


def test_threads_get_one_observed_form():
    codes = [code for name in ("match", "super in every form") for code in nested(compiled(name))]
    rewriter, made = Rewriter(PLAIN), []
    barrier = threading.Barrier(4)

    def work():
        barrier.wait()
        made.append([rewriter.observed(code) for code in codes])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 4
    assert all(one is other for forms in made[1:] for one, other in zip(made[0], forms))


def test_installed_hooks_are_the_ones_that_observed_code_calls(monkeypatch):
    monkeypatch.setattr(rewrite, "_rewriter", None)
    log = []
    rewrite.install(logging_hooks(log))
    assert eval(rewrite.observed(compile("a.real", "<e>", "eval")), {"a": 3}) == 3
    assert log == ["load_name(3, 'a')", "load_attribute(3, 'real')"]


def test_time_to_rewrite(capsys):
    codes = [
        code
        for name in ("argparse", "difflib", "textwrap")
        for code in nested(compile((LIBRARY / f"{name}.py").read_bytes(), name, "exec"))
    ]
    count = sum(len(bytecode.take_apart(code).opcodes) for code in codes)
    start = time.process_time()
    rewriter = Rewriter(PLAIN)
    for code in codes:
        rewriter.observed(code)
    taken = time.process_time() - start
    with capsys.disabled():
        print(
            f"\nrewriting: {1e6 * taken / len(codes):.0f} us a function of"
            f" {count / len(codes):.0f} instructions, {1e6 * taken / count:.2f} us an instruction"
        )
