"""Programs observed by hooks that do what the instructions did, and what they give."""

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

from tests.helpers.python_programs import PROGRAMS

from contraflow.capture.rewriting.rewrite import ObserverHooks, Rewriter

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


def import_from(module, name):
    scope = {"__builtins__": {"__import__": lambda *_: module}}
    exec(compile(f"from _ import {name} as it", __file__, "exec"), scope)
    return scope["it"]


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
    match_class=same,
    classes=same,
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
    entered=same,
    callee=same,
    made=same,
    imported=first,
    import_from=import_from,
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
