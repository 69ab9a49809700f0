"""The standard library and the interpreter's own tests do the same when they are observed."""

import importlib.util
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.helpers.observed import LIBRARY, nested, plain
from tests.helpers.python_programs import PROGRAMS

from contraflow.capture.rewriting import rewrite
from contraflow.capture.rewriting.rewrite import is_observed

pytestmark = pytest.mark.skipif(
    not rewrite.KNOWN, reason="the bytecode of this Python is not known"
)


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
from tests.capture.test_rewrite_library import load_module
from tests.helpers.observed import plain
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
