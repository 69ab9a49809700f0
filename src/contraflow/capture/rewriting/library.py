"""Which code is observed: not contraflow, its dependencies or the standard library."""

from __future__ import annotations

import collections
import functools
import operator
import os
import sys
import types
from importlib.util import find_spec
from typing import Any, NamedTuple

from contraflow import devices
from contraflow.tensors.source_line import PACKAGE, is_standard

_HEAP, _IMMUTABLE = 1 << 9, 1 << 8  # flags of classes: made at run time; cannot be changed

_DEPENDENCIES = (str(spec.origin) for name in ("numpy", "ml_dtypes") if (spec := find_spec(name)))
_OURS = (PACKAGE, *(os.path.dirname(file) + os.sep for file in _DEPENDENCIES))
# Containers in Python of the standard library, and datasets, keep what is the user's, and call its
# code: they are observed.
_DATASETS = "contraflow.data.datasets"
OBSERVED = (
    str(collections.__file__),
    "<frozen _collections_abc>",
    f"{PACKAGE}data{os.sep}datasets.py",
)
_GENERATED = "<"  # the code of exec: whose it is says the module it runs in

_files: dict[str, bool] = {}
_modules: dict[str, bool] = {
    "builtins": True, "collections": False, "collections.abc": False, "_collections_abc": False,
    _DATASETS: False,
}  # fmt: skip


def is_library_code(code: types.CodeType, namespace: dict[str, Any]) -> bool:
    """Whether code that runs in a namespace is not the user's."""
    file = code.co_filename
    known = _is_of_library(file)
    if known is None:
        return not file.startswith("<doctest") and is_library_module(str(namespace.get("__name__")))
    return known


def _is_of_library(file: str) -> bool | None:
    """Whether a file is not the user's; None where only the module of its code says that."""
    known = _files.get(file)
    if known is None and (not file.startswith(_GENERATED) or file.startswith("<frozen")):
        known = _files[file] = _is_library_file(file)
    return known


class _Searched(NamedTuple):
    """A search of a class: all its values, its functions with their code, and those of users."""

    held: list[Any]
    functions: list[types.FunctionType]
    codes: list[types.CodeType]
    found: list[types.FunctionType]


_searched: dict[type, _Searched] = {}  # classes that have a name in their module, so that they stay
_code_of, _file_of = operator.attrgetter("__code__"), operator.attrgetter("co_filename")


def functions_of_users(kind: type) -> list[types.FunctionType]:
    """The functions of the user's in a class, most of whose functions are the library's."""
    held = list(kind.__dict__.values())
    known = _searched.get(kind)
    if (
        known is None
        or not _are_same(held, known.held)
        or not _are_same(list(map(_code_of, known.functions)), known.codes)
    ):
        functions = [x for x in held if type(x) is types.FunctionType]
        codes = list(map(_code_of, functions))
        found: list[types.FunctionType] = []
        if not all(map(_is_of_library, set(map(_file_of, codes)))):  # few files
            found = [f for f in functions if not is_library_code(f.__code__, f.__globals__)]
        known = _Searched(held, functions, codes, found)
        if (
            not any(map(_has_own_equality, set(map(type, held))))
            and vars(sys.modules.get(kind.__module__, types)).get(kind.__name__) is kind
        ):
            _searched[kind] = known
    return known.found


def _has_own_equality(kind: type) -> bool:
    """Whether objects of a class of Python's say themselves what they equal, perhaps anything."""
    equality: Any = kind.__eq__
    return in_python(kind) and equality is not object.__eq__


def _are_same(a: list[Any], b: list[Any]) -> bool:
    """Whether two lists hold the same functions or code: `==` looks at what is identical first, and
    is far faster than a loop. Nothing in one of them has an equality of its own."""
    try:
        return a == b
    except Exception:  # of an `__eq__`
        return False


def is_library_class(kind: type) -> bool:
    """Whether a class is not the user's."""
    return is_library_module(kind.__module__)


def is_ours(kind: type) -> bool:
    """Whether objects of a class keep what is the library's own business."""
    return kind.__module__.startswith("contraflow.") and not hasattr(kind, "keeps_for_users")


def is_library_module(name: Any) -> bool:
    """Whether a module is not the user's."""
    known = _modules.get(name)
    if known is None:
        module = sys.modules.get(name)
        # Not by `getattr`: a module may have a function of the user's for what it lacks.
        file = getattr(module, "__dict__", {}).get("__file__")
        if not isinstance(name, str) or module is None or name == "__main__":
            return False
        builtin = name in sys.stdlib_module_names if file is None else _is_library_file(str(file))
        known = _modules[name] = builtin
    return known


def _is_library_file(file: str) -> bool:
    if file in OBSERVED:
        return False
    return file.startswith((*_OURS, *devices.driven_by)) or is_standard(file)


def in_python(kind: type) -> bool:
    """Whether a class was made by Python code: C makes some at run time too, but fixed ones."""
    return bool(kind.__flags__ & _HEAP) and not kind.__flags__ & _IMMUTABLE


def is_partial(kind: type) -> bool:
    """Whether objects of a class are called as `functools.partial` are."""
    return issubclass(kind, functools.partial) and kind.__call__ is functools.partial.__call__


def names(text: str) -> frozenset[str]:
    """A table of names."""
    return frozenset(text.split())
