"""Keys: what a program depends on beside values, part by part.

A key is compared as the tuple it is. Each of its parts is declared once, with its field: an
expression that gives its value, the same expression compared with the value in the function of a
call that hits (`hit.py`), and words for the message about recording again. A new part is a new
field and nothing else. Three fields of a whole key are not expressions: the structure of the
arguments, the tensors in it and the numbers whose values the function needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, NamedTuple, get_type_hints

from contraflow import config, devices, dtypes, thresholds
from contraflow.capture.call import FunctionCall
from contraflow.capture.state.places import ConditionWriter
from contraflow.capture.state.reads import shown
from contraflow.capture.state.trees import VALUE, leaf_names
from contraflow.contexts.record import refusal
from contraflow.devices.names import Device
from contraflow.dtypes import DType
from contraflow.errors import CaptureError, describe
from contraflow.operation.context import ThreadState
from contraflow.shapes import View
from contraflow.tensors.symbol import number_text
from contraflow.tensors.tensor import Tensor

# The condition that an expression gives a value that it gave before.
Comparison = Callable[[str, Any, ConditionWriter], str]
# The difference between two values of a part of a key, as text.
Difference = Callable[[str, Any, Any], str]


def _same(here: str, value: Any, writer: ConditionWriter) -> str:
    known = repr(value) if value is None or type(value) is bool else writer.name(value)
    return f"{here} is {known}"


def _equal(here: str, value: Any, writer: ConditionWriter) -> str:
    return f"{here} == {value!r}"


def _same_or_equal(here: str, value: Any, writer: ConditionWriter) -> str:
    known = writer.name(value)
    return f"({here} is {known} or {here} == {known})"


def _apart(here: str, value: Any, writer: ConditionWriter) -> str:
    """A hit is written for arguments that share no memory: their numbers are those of storages."""
    if value < thresholds.paired_storages:
        return " and ".join(f"s{other} is not s{value}" for other in range(value))
    if value == thresholds.paired_storages:
        # From here on one lookup each: pairs would be a quadratic number.
        every = ", ".join(f"s{number}" for number in range(value + 1))
        return f"len(apart := {{{every}}}) == {value + 1}"
    return f"s{value} not in apart and not apart.add(s{value})"


def _compared_before(here: str, value: Any, write: ConditionWriter) -> str:
    """A hit looks at the classes of arguments before it looks at their attributes."""
    return ""


def _apart_already(here: str, value: Any, write: ConditionWriter) -> str:
    """Tensors with memory of their own are not the same one."""
    return ""


def _layout_difference(of: str, then: View, now: View) -> str:
    names = ("shape", "stride", "offset")
    name, a, b = next(found for found in zip(names, then, now) if found[1] != found[2])
    return f"the {name}{of} was {a} and is {b}"


def _alias_difference(of: str, then: int, now: int) -> str:
    return "which arguments share memory has changed"


def _class_difference(of: str, then: type, now: type) -> str:
    return f"the class{of} was {then.__name__} and is {now.__name__}"


def _twin_difference(of: str, then: int, now: int) -> str:
    return "which arguments are one tensor has changed"


class KeyPart(NamedTuple):
    """How a part of a key is read, compared and described."""

    source: str  # the expression that gives it
    words: str  # its name in messages: {} is replaced by what it belongs to
    compare: Comparison = _same
    difference: Difference | None = None  # where words are not enough

    def change(self, of: str, then: Any, now: Any) -> str:
        """The difference as text; `of` says what the part belongs to, such as " of x"."""
        if self.difference is not None:
            return self.difference(of, then, now)
        return f"{self.words.format(of)} was {then} and is {now}"


class TensorKey(NamedTuple):
    """The properties of a tensor `{t}` with storage `{s}` that programs depend on."""

    kind: Annotated[type, KeyPart("type({t})", "", _compared_before, _class_difference)]
    layout: Annotated[View, KeyPart("{t}.layout", "", _same_or_equal, _layout_difference)]
    dtype: Annotated[DType, KeyPart("{t}.dtype", "the dtype{}")]
    requires_grad: Annotated[
        bool,
        KeyPart("({t}._needs if {t}._base is None else {t}.requires_grad)", "requires_grad{}"),
    ]
    alias: Annotated[  # the number of its storage among all, as they come
        int,
        KeyPart("numbers.setdefault({s}, len(numbers))", "", _apart, _alias_difference),
    ]
    twin: Annotated[  # the number of the tensor itself among all
        int, KeyPart("twins.setdefault({t}, len(twins))", "", _apart_already, _twin_difference)
    ]
    size: Annotated[int, KeyPart("{s}._data.size", "the size of the memory{}", _equal)]
    device: Annotated[str, KeyPart("{s}.device", "the device{}", _equal)]
    frozen: Annotated[bool, KeyPart("{s}.frozen", "the protection{} against writes")]


class ModesKey(NamedTuple):
    """The modes of the thread, whose state is `current`."""

    inference: Annotated[bool, KeyPart("current.inference", "inference mode")]
    grad: Annotated[bool, KeyPart("current.grad", "grad mode")]
    autocast: Annotated[DType | None, KeyPart("current.autocast", "autocast")]
    device: Annotated[str | None, KeyPart("current.device", "the device of creation", _equal)]


class SettingsKey(NamedTuple):
    """Settings of the whole process."""

    num_threads: Annotated[int, KeyPart("config.num_threads", "the number of threads", _equal)]
    compile_mode: Annotated[str, KeyPart("config.compile_mode", "config.compile_mode", _equal)]
    default_dtype: Annotated[DType, KeyPart("dtypes._default", "the default dtype")]
    default_device: Annotated[Device, KeyPart("devices._default", "the default device")]


PartsKey = TensorKey | ModesKey | SettingsKey


def _declared(kind: type[PartsKey]) -> list[KeyPart]:
    hints = get_type_hints(kind, include_extras=True)
    return [hints[name].__metadata__[0] for name in kind._fields]


PARTS: dict[type[PartsKey], list[KeyPart]] = {
    kind: _declared(kind) for kind in (TensorKey, ModesKey, SettingsKey)
}
SCOPE = {
    "config": config,
    "devices": devices,
    "dtypes": dtypes,
}  # what expressions use beside `t`, `s` and `current`


def conditions(known: PartsKey, writer: ConditionWriter, number: int = 0) -> Iterator[str]:
    """The conditions that all parts are as they are in a key.

    There the variables `a0`, `a1`, ... hold the tensors, and `s0`, `s1`, ... their storages.
    """
    for part, value in zip(PARTS[type(known)], known):
        here = part.source.format(t=f"a{number}", s=f"s{number}")
        condition = part.compare(here, value, writer)
        if condition:
            yield condition


def _difference(then: PartsKey, now: PartsKey, of: str = "") -> str:
    """The first part that is not the same."""
    found = zip(PARTS[type(now)], then, now)
    return next(part.change(of, a, b) for part, a, b in found if a != b)


class CallKey(NamedTuple):
    """Everything that a program may depend on beside values."""

    structure: Any
    tensors: tuple[TensorKey, ...]
    numbers: tuple[Any, ...]  # those whose values the function needs
    modes: ModesKey
    settings: SettingsKey

    def leaf_names(self, parts: Sequence[str]) -> list[str]:
        """The names of the leaves, from those of arguments and of carried places."""
        found = zip(parts, _arguments(self.structure))
        return [name for label, part in found for name in leaf_names(part, label)]

    def change(
        self, before: CallKey, call: FunctionCall, parts: Sequence[str], fixed: Sequence[int]
    ) -> str:
        """The first difference from another key, as text.

        `parts` are the names of arguments and of what is carried, `fixed` the positions of the
        numbers.
        """
        if self.structure != before.structure:
            now, then = _arguments(self.structure), _arguments(before.structure)
            found = zip(parts, then, now) if len(now) == len(then) else ()
            changes = (_argument_change(*each) for each in found)
            return next(filter(None, changes), "an argument that is not a tensor has changed")
        names = self.leaf_names(parts)
        if self.tensors != before.tensors:
            named = [name for name, x in zip(names, call.leaves) if isinstance(x, Tensor)]
            pairs = zip(named, before.tensors, self.tensors)
            return next(_difference(a, b, f" of {name}") for name, a, b in pairs if a != b)
        for position, was, value in zip(fixed, before.numbers, self.numbers):
            if was != value:
                number = float.fromhex(was) if isinstance(was, str) else was
                now_there = number_text(call.leaves[position])
                return f"{names[position]} was {number_text(number)} and is {now_there}"
        if self.numbers != before.numbers:
            return "which numbers the function needs the values of has changed"
        if self.modes != before.modes:
            return _difference(before.modes, self.modes)
        return _difference(before.settings, self.settings)


def _arguments(structure: Any) -> list[Any]:
    """The structures of the arguments, and of what is carried."""
    _, ((_, positional), (_, named), (_, carried)) = structure
    return [*positional, *(part for _, part in named), *carried]


def _argument_change(name: str, then: Any, now: Any) -> str | None:
    """The change of an argument as text, if there is one."""
    if then == now:
        return None
    if then[0] == now[0] == VALUE:
        return f"{name} was {shown(then[2])} and is {shown(now[2])}"
    return f"{name} has changed"


# The key of a call from the numbers that are fixed, the state of the thread, and the name of the
# function.
KeyReader = Callable[[FunctionCall, tuple[Any, ...], ThreadState, str], CallKey]


def _reader() -> KeyReader:
    """The function that makes a key, with the expressions of all parts in it."""
    tensor, modes, settings = (
        f"new({kind.__name__}, ({', '.join(part.source.format(t='t', s='s') for part in parts)}))"
        for kind, parts in PARTS.items()
    )
    text = f"""
def key_of(call, fixed, current, name):
    numbers, twins, tensors = {{}}, {{}}, []
    for t in call.arguments:
        s = t.storage
        if s._data is None: raise refusal(name, t)
        tensors.append({tensor})
    return new(CallKey, (call.structure, tuple(tensors), fixed, {modes}, {settings}))
"""
    scope: dict[str, Any] = {kind.__name__: kind for kind in (CallKey, *PARTS)}
    # As a NamedTuple makes itself, without a function of Python's for each.
    scope |= {**SCOPE, "new": tuple.__new__, "refusal": _refusal}
    exec(compile(text, "<key>", "exec"), scope)
    return scope["key_of"]  # type: ignore[no-any-return]


def _refusal(name: str, t: Tensor) -> CaptureError:
    return refusal(
        name,
        f"argument {describe(t)} was recorded by another compiled call and never had a value",
        "Pass what that call returns.",
    )


key_of = _reader()
