"""Functions of Python's own that stand for reads and writes: the observer does these itself."""

from __future__ import annotations

import collections
import dis
import functools
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from contraflow.capture.observing.objects import MUTABLE, is_component, is_passed
from contraflow.capture.rewriting import rewrite
from contraflow.capture.rewriting.library import in_python
from contraflow.capture.state.reads import PLAIN
from contraflow.tensors.symbol import Symbol

if TYPE_CHECKING:
    from contraflow.capture.observing.observer import Observer

# How many frames above a function of SPECIAL the user's frame is: `Observer.call` and
# `observer.called` are between them.
CALLER = 3


def _getattr(observer: Observer, x: Any, name: str, *default: Any) -> Any:
    if not default:
        return observer.attribute(x, name)
    try:
        return observer.attribute(x, name)
    except AttributeError:
        return default[0]


def _hasattr(observer: Observer, x: Any, name: str) -> bool:
    try:
        observer.attribute(x, name)
    except AttributeError:
        return False
    return True


def _setattr(observer: Observer, x: Any, name: str, value: Any) -> None:
    observer.store_attribute(x, value, name)


def _delattr(observer: Observer, x: Any, name: str) -> None:
    observer.delete_attribute(x, name)


def _vars(observer: Observer, *given: Any) -> Any:
    if not given:
        return sys._getframe(CALLER).f_locals
    return observer.attribute(given[0], "__dict__")


def _dir(observer: Observer, *given: Any) -> Any:
    if not given:
        return sorted(sys._getframe(CALLER).f_locals)
    observer.hand_over(given[0])
    kind = given[0] if issubclass(type(given[0]), type) else type(given[0])
    observer.class_names(kind)
    return dir(*given)


def _print(observer: Observer, *given: Any, **named: Any) -> None:
    """It happens once, however often a recording starts again."""
    file = named.get("file") or sys.stdout
    if not observer.again or any(file is own for own in observer._own):
        for x in given:
            observer.hand_over(x) if type(x) is not Symbol else None
        print(*(x._number if type(x) is Symbol else x for x in given), **named)


def _len(observer: Observer, x: Any) -> int:
    observer.length(x)
    return len(x)


def _isinstance(observer: Observer, x: Any, kinds: Any) -> bool:
    observer.classes(kinds)
    place = observer.place_of(x)
    if place is not None and type(x) not in PLAIN and not is_component(type(x)):
        observer.note_class(x, place)
        if any(type(kind) is not type for kind in (kinds if type(kinds) is tuple else (kinds,))):
            observer._ask(x, place, functools.partial(_is_one, kinds))
    elif place is None:
        observer.subclass(type(x), kinds)
    return isinstance(x, kinds)


def _is_one(kinds: Any, x: Any) -> bool:
    return isinstance(x, kinds)


def _globals(observer: Observer) -> Any:
    namespace = sys._getframe(CALLER).f_globals
    observer.see_globals(namespace)
    return namespace


def _issubclass(observer: Observer, x: Any, kinds: Any) -> bool:
    observer.classes(kinds)
    observer.subclass(x, kinds)
    return issubclass(x, kinds)


def _callable(observer: Observer, x: Any) -> bool:
    if in_python(type(x)):
        observer.in_class(type(x).__mro__, "__call__")
    return callable(x)


def _id(observer: Observer, x: Any) -> int:
    _refuse_address(observer, "id", x)
    place = observer.place_of(x)
    if place is not None and type(x) in MUTABLE and not is_passed(place):
        return int(observer._ask(x, place, id))  # others are compared by identity anyway
    return id(x)


def _hash(observer: Observer, x: Any) -> int:
    _refuse_address(observer, "hash", x)
    observer.hand_over(x)
    return hash(x)


def _refuse_address(observer: Observer, name: str, x: Any) -> None:
    if observer.recorder.argument_of(x) is not None:
        raise observer.refuse(
            f"{name}() of an argument is that of this call's tensor alone",
            "Compare tensors with `is`, or pass the number as an argument.",
        )


def _next(observer: Observer, x: Any, *default: Any) -> Any:
    observer.touch(x)
    found = next(x, *default)
    observer.show(found)
    return found


def _evaluate(function: Callable[..., Any]) -> Callable[..., Any]:
    """`eval` or `exec` of a text as code that is observed."""

    def run(observer: Observer, source: Any, *spaces: Any, **named: Any) -> Any:
        frame = sys._getframe(CALLER)
        if isinstance(source, (str, bytes)):
            source = compile(source, "<string>", function.__name__)
        spaces = spaces or (frame.f_globals, frame.f_locals)
        _refuse_names(observer, function.__name__, source, named.get("locals", spaces[-1]))
        return function(rewrite.observed(source), *spaces, **named)

    return run


def _refuse_names(observer: Observer, name: str, code: types.CodeType, space: Any) -> None:
    """Refuse code that assigns or deletes names of a namespace from before."""
    if observer.place_of(space) is None or not issubclass(type(space), dict):
        return
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("STORE_NAME", "DELETE_NAME"):
            raise observer.recorder.refusal(
                f"{name} assigns {instruction.argval} in a dict from outside",
                "Assign it in the function itself, as an item of the dict.",
            )


def _count_elements(observer: Observer, counts: Any, items: Any) -> None:
    """`Counter.update`, item by item: the counts of a counter from before are carried."""
    observer.hand_over(items)
    if observer.place_of(counts) is None:
        collections._count_elements(counts, items)  # type: ignore[attr-defined]
        return
    for item in items:
        count = observer.call(dict.get, (counts, item, 0), {})
        observer.store_item(counts, item, count + 1)


SPECIAL: dict[str, Callable[..., Any]] = {
    "getattr": _getattr, "hasattr": _hasattr, "setattr": _setattr, "delattr": _delattr,
    "print": _print, "vars": _vars, "dir": _dir, "len": _len, "isinstance": _isinstance,
    "issubclass": _issubclass, "callable": _callable, "id": _id, "hash": _hash, "next": _next,
    "globals": _globals, "eval": _evaluate(eval), "exec": _evaluate(exec),
    "_count_elements": _count_elements,
}  # fmt: skip
