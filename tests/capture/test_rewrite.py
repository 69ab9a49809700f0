"""Observed code: the same program, and every read, store and call of Python state seen by hooks.

Code is taken apart and put together (bytecode.py), and run with hooks that do what the instructions
did: output, tracebacks with their columns, and the lines that a debugger stops at are compared with
those of the original. Hooks that are written in C add no frames, so most are.
"""

import contextlib
import io
import linecache
import pdb
import threading
import time

import pytest
from tests.helpers.observed import LIBRARY, PLAIN, compiled, logging_hooks, nested, outcome, plain
from tests.helpers.python_programs import PROGRAMS

from contraflow import thresholds
from contraflow.capture.rewriting import bytecode, rewrite
from contraflow.capture.rewriting.rewrite import Rewriter, is_observed, original

pytestmark = pytest.mark.skipif(
    not rewrite.KNOWN, reason="the bytecode of this Python is not known"
)


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
    monkeypatch.setattr(thresholds, "kept_rewrites", 10)
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
