"""Observed code: the same program, and every read, store and call of Python state seen by hooks.

Code is taken apart and put together (bytecode.py), and run with hooks that do what the instructions
did: output, tracebacks with their columns, and the lines that a debugger stops at are compared with
those of the original. Hooks that are written in C add no frames, so most are.
"""

import contextlib
import functools
import io
import linecache
import operator
import sys
import sysconfig
import traceback
import types
from pathlib import Path

import pytest
from tests.python_programs import PROGRAMS

from contraflow.capture import bytecode, rewrite
from contraflow.capture.rewrite import Hooks, Rewriter, original

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


PLAIN = Hooks(
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
    parts = [b"" if i.opcode in bytecode.JUMPS else i.encoded for i in instructions]
    return bytecode.put_together(code, instructions, parts, code.co_consts, 0)


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
