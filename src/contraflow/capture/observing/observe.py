"""Hooks that rewritten code calls: they report reads, stores and calls to the observer.

While a recording lasts, functions of the program run rewritten (`rewrite.py`): every load of a
global, a closure variable, an attribute or an item, every iteration, comparison, call and store
goes through a hook below, and tells the observer of its thread. Reads of objects from before the
recording become guards, which later calls compare (`reads.py`); writes to them are undone when the
recording ends and done again by every replay (`writes.py`).

Only what is reached from globals, closures, defaults and arguments was there before: `known`.
Code of contraflow, of NumPy and of the standard library is not observed. User objects that it is
given are looked at as a whole.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import get_ident
from typing import Any

from contraflow.capture.observing.observer import Observer
from contraflow.capture.observing.session import give_back_later, listening, putting_back
from contraflow.capture.observing.unheard import Unheard
from contraflow.capture.rewriting import rewrite
from contraflow.capture.rewriting.library import names
from contraflow.capture.state.places import (
    MISSING,
    GivenArguments,
    Place,
)

# Attributes that Python reads of a module which lacks a name that is imported from it.
_OF_MODULES = names("__name__ __file__ __spec__")
# Packages whose code runs between two observed lines of user code.
_UNSEEN = frozenset(f"contraflow.capture.{name}" for name in names("observing state rewriting"))


def _load_global(value: Any, name: str) -> Any:
    observer = listening.get(get_ident())
    if observer is None:
        return value
    return observer.global_(sys._getframe(1).f_globals, name, value)


def _load_name(value: Any, name: str) -> Any:
    observer, frame = listening.get(get_ident()), sys._getframe(1)
    if observer is None or (name in frame.f_locals and frame.f_locals is not frame.f_globals):
        return value
    return observer.global_(frame.f_globals, name, value)


def _load_cell(value: Any, cell: types.CellType) -> Any:
    observer = listening.get(get_ident())
    return value if observer is None else observer.cell(cell, value)


def _load_attribute(x: Any, name: str) -> Any:
    observer = listening.get(get_ident())
    return getattr(x, name) if observer is None else observer.attribute(x, name)


def _load_super(super_: Any, kind: Any, x: Any, name: str, method: bool) -> Any:
    return _load_attribute(super_(kind, x), name)


def _load_item(container: Any, key: Any) -> Any:
    observer = listening.get(get_ident())
    return container[key] if observer is None else observer.item(container, key)


def _load_slice(container: Any, start: Any, stop: Any) -> Any:
    return _load_item(container, slice(start, stop))


def _told(note: Callable[..., None]) -> Callable[..., Any]:
    """A hook that tells the observer of something before it is used, and gives the first of it."""

    def hook(*given: Any) -> Any:
        observer = listening.get(get_ident())
        if observer is not None:
            note(observer, *given)
        return given[0]

    return hook


def _store_attribute(x: Any, value: Any, name: str) -> None:
    observer = listening.get(get_ident())
    if observer is None:
        setattr(x, name, value)
    else:
        observer.store_attribute(x, value, name)


def _delete_attribute(x: Any, name: str) -> None:
    observer = listening.get(get_ident())
    if observer is None:
        delattr(x, name)
    else:
        observer.delete_attribute(x, name)


def _store_item(container: Any, key: Any, value: Any) -> None:
    observer = listening.get(get_ident())
    if observer is None:
        container[key] = value
    else:
        observer.store_item(container, key, value)


def _store_slice(container: Any, start: Any, stop: Any, value: Any) -> None:
    _store_item(container, slice(start, stop), value)


def _delete_item(container: Any, key: Any) -> None:
    observer = listening.get(get_ident())
    if observer is None:
        del container[key]
    else:
        observer.delete_item(container, key)


def _store_global(value: Any, name: str) -> None:
    observer, namespace = listening.get(get_ident()), sys._getframe(1).f_globals
    if observer is None:
        namespace[name] = value
    else:
        observer.store_global(namespace, name, value)


def _delete_global(name: str) -> None:
    observer, namespace = listening.get(get_ident()), sys._getframe(1).f_globals
    if observer is not None:
        observer.delete_global(namespace, name)
    elif name in namespace:
        del namespace[name]
    else:
        raise NameError(f"name {name!r} is not defined", name=name)


def _store_cell(value: Any, cell: types.CellType) -> None:
    observer = listening.get(get_ident())
    if observer is None:
        cell.cell_contents = value
    else:
        observer.store_cell(cell, value)


def _delete_cell(cell: types.CellType) -> None:
    observer = listening.get(get_ident())
    if observer is None:
        del cell.cell_contents
    else:
        observer.store_cell(cell, MISSING)


def _entered(code: types.CodeType) -> None:
    observer = listening.get(get_ident())
    if observer is not None:
        observer.entered(code)


def _callee(f: Any) -> Any:
    observer = listening.get(get_ident())
    return f if observer is None else observer.callee(f)


def _made_function(f: Any) -> Any:
    give_back_later(f)
    observer = listening.get(get_ident())
    if observer is not None:
        observer.made(f)
    return f


def _imported(module: Any, name: str) -> Any:
    observer = listening.get(get_ident())
    if observer is not None:
        observer.imported(name)
    return module


def _import_from(module: Any, name: str) -> Any:
    observer = listening.get(get_ident())
    if observer is None:
        return _found_by_import(module, name)
    observer.show(module)  # its `__getattr__` runs observed
    try:
        return observer.attribute(module, name)
    except AttributeError:
        # A submodule in `sys.modules`, or an ImportError; a `__getattr__` is not called again.
        bare, own = types.ModuleType(""), getattr(module, "__dict__", {})
        bare.__dict__.update({kept: own[kept] for kept in _OF_MODULES if kept in own})
        return _found_by_import(bare, name)


def _found_by_import(module: Any, name: str) -> Any:
    """The object that Python's own `from module import name` finds."""
    builtins, found = {"__import__": lambda *_: module}, dict[str, Any]()
    scope = {"__builtins__": builtins, "__package__": __package__}  # as a frame of this package
    exec(f"from _ import {name} as it", scope, found)
    return found["it"]


rewrite.install(
    rewrite.ObserverHooks(
        load_global=_load_global, load_name=_load_name, load_cell=_load_cell,
        load_attribute=_load_attribute, load_method=_load_attribute, load_super=_load_super,
        load_item=_load_item, load_slice=_load_slice,
        iterate=_told(Observer.iterate), look=_told(Observer.look), length=_told(Observer.length),
        truth=_told(Observer.truth), match_class=_told(Observer.match_class),
        classes=_told(Observer.classes),
        operate=_told(Observer.operate),
        contain=_told(Observer.member), compare_identity=_told(Observer.identity),
        store_attribute=_store_attribute,
        delete_attribute=_delete_attribute, store_item=_store_item, store_slice=_store_slice,
        delete_item=_delete_item, store_global=_store_global, delete_global=_delete_global,
        store_cell=_store_cell, delete_cell=_delete_cell, entered=_entered, callee=_callee,
        made=_made_function, imported=_imported, import_from=_import_from,
    )
)  # fmt: skip


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """A block in which an observer hears of each read, store and call of its thread.

    Afterwards everything is as it was before: what was written, and the code of functions. No
    interrupt comes in between, since Python looks for one after a call has returned.
    """
    thread, outer = get_ident(), listening.get(get_ident())
    undo, put_back = observer.undo(), putting_back()
    listening[thread] = observer
    try:
        yield
    finally:
        try:
            undo()
        finally:
            try:
                listening.pop(thread, None)
                listening.pop(~thread, None)  # where an interrupt has ended `unheard`
                if outer is not None:
                    listening[thread] = outer
            finally:
                if not listening:
                    put_back()


def hide_observer(error: BaseException) -> None:
    """Take the frames of the observer out of the traceback of an error, and of those behind it.

    The frames of an eager call remain.
    """
    found: list[BaseException | None] = [error]
    for one in found:
        if one is None:
            continue
        one.__traceback__ = _users(one.__traceback__)
        chained = [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            chained += one.exceptions
        found += [x for x in chained if not any(x is known for known in found)]


def _users(first: types.TracebackType | None) -> types.TracebackType | None:
    """A traceback from its first frame on that is not the observer's, without others of those."""
    while first is not None and _is_unseen(first):
        first = first.tb_next
    last = first
    while last is not None and last.tb_next is not None:
        following = last.tb_next
        if _is_unseen(following):
            last.tb_next = following.tb_next
        else:
            last = following
    return first


def _is_unseen(at: types.TracebackType) -> bool:
    return at.tb_frame.f_globals.get("__package__") in _UNSEEN


@contextmanager
def undone(
    owner: Any, given: GivenArguments, places: Sequence[Place] = (), contents: Sequence[Any] = ()
) -> Iterator[Observer]:
    """A time in which a function may run eagerly, and leaves Python's state as it is.

    At some places it reads the values of an earlier call. The observer tells what it writes.
    """
    observer = Observer(Unheard(owner.name))
    observer.carry(places, contents, given)
    with observing(observer):
        observer.begin(owner.function, owner.instance, *given)
        yield observer
    observer.forget()
