"""Reads: what a recording found at a place, and whether a call finds it again.

Each has two faces: `holds` asks the long way, `source` is the same as an expression in the
function of a call that hits (`hit.py`).
"""

from __future__ import annotations

import itertools
import types
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from contraflow.capture.rewriting.rewrite import original
from contraflow.capture.state.places import (
    NOTHING_THERE,
    ConditionWriter,
    GivenArguments,
    Item,
    NestedPlace,
    Place,
    namespace_of,
    namespace_source,
)
from contraflow.tensors.tree import elements_of, exact, is_exact, is_in, length_of

PLAIN = frozenset([
    bool, int, float, complex, str, bytes, types.NoneType, types.EllipsisType,
    types.NotImplementedType, range,
])  # fmt: skip
# Objects of subclasses of these have a value, and cannot be referred to weakly.
VALUED: tuple[Any, ...] = (int, bytes)
_CODE = (
    "the class ", "the function ", "a code", "a module", "a property", "a staticmethod",
    "a builtin_function_or_method", "an Op",
)  # fmt: skip


class Read:
    """The value that a recording found at a place, as a condition for later calls."""

    __slots__ = ("place",)
    matters = True  # in messages: it is not part of the code itself

    def __init__(self, place: Place) -> None:
        self.place = place

    def holds(self, given: GivenArguments) -> bool:
        """Whether it is so in this call."""
        try:
            return self.fits(self.place.get(given))
        except NOTHING_THERE:
            return False

    def fits(self, value: Any) -> bool:
        """Whether a value is the one that was found."""
        raise NotImplementedError

    def source(self, writer: ConditionWriter) -> str:
        """The condition that it is so; classes for which there is a faster one have their own."""
        return f"{writer.name(self.fits)}({writer.value(self.place)})"

    def was(self) -> str:
        """The value that was found, as text."""
        raise NotImplementedError

    def change(self, given: GivenArguments) -> str:
        """The difference in this call, as text."""
        try:
            now = self.now(self.place.get(given))
        except NOTHING_THERE:
            now = "gone"
        return f"{self.place} was {self.was()} and is {now}"

    def now(self, value: Any) -> str:
        """A value as text."""
        return shown(value)

    def __str__(self) -> str:
        return str(self.place)


class Equal(Read):
    """A number, a text, a tuple of them: compared by type and value."""

    __slots__ = ("value", "token")

    def __init__(self, place: Place, value: Any) -> None:
        super().__init__(place)
        self.value, self.token = value, token(value)

    def fits(self, value: Any) -> bool:
        return value is self.value or token(value) == self.token

    def source(self, writer: ConditionWriter) -> str:
        here = writer.value(self.place)
        if self.value is None or type(self.value) is bool:
            return f"{here} is {self.value}"
        known, expected = writer.name(self.value), writer.name(self.token)
        return f"((v := {here}) is {known} or {writer.name(token)}(v) == {expected})"

    def was(self) -> str:
        return shown(self.value)


class Same(Read):
    """An object, which is compared by identity.

    A weak reference does not keep it alive, and its address is valid while that reference is. An
    object that lives as long as the process, or allows no weak references, is referred to directly.
    """

    __slots__ = ("address", "reference", "label")

    def __init__(self, place: Place, value: Any, reference: Any) -> None:
        super().__init__(place)
        self.address, self.reference, self.label = id(value), reference, shown(value)

    @property
    def matters(self) -> bool:  # type: ignore[override]
        """Whether it is not part of the code itself."""
        return not self.label.startswith(_CODE)

    def fits(self, value: Any) -> bool:
        return id(value) == self.address

    def source(self, writer: ConditionWriter) -> str:
        here = writer.value(self.place)
        if id(self.reference) == self.address:
            return f"{here} is {writer.name(self.reference)}"
        return f"id({here}) == {self.address}"

    def was(self) -> str:
        return self.label

    def now(self, value: Any) -> str:
        now = shown(value)
        return f"another {now.partition(' ')[2]}" if now == self.label else now


class FunctionCode(Same):
    """The code of a function, also while it runs observed for another recording."""

    __slots__ = ()

    def fits(self, value: Any) -> bool:
        return id(original(value)) == self.address

    def source(self, writer: ConditionWriter) -> str:
        known = writer.name(self.reference)
        return f"((v := {writer.value(self.place)}) is {known} or {writer.name(self.fits)}(v))"


class BoundMethod(Same):
    """A bound method, of which there is another one each time that an object is asked for it:
    compared by its function and its object."""

    __slots__ = ("owner",)
    matters = True

    def __init__(self, place: Place, value: types.MethodType, reference: Any) -> None:
        super().__init__(place, value, reference)  # a reference to each of the two
        self.address, self.owner = id(value.__func__), id(value.__self__)

    def fits(self, value: Any) -> bool:
        return type(value) is types.MethodType and (
            id(value.__func__) == self.address and id(value.__self__) == self.owner
        )

    def source(self, writer: ConditionWriter) -> str:
        return f"{writer.name(self.fits)}({writer.value(self.place)})"


class Bases(Read):
    """The bases of a class, in the order in which attributes are looked up."""

    __slots__ = ("addresses",)
    matters = False

    def __init__(self, place: Place, bases: tuple[type, ...]) -> None:
        super().__init__(place)
        self.addresses = [*map(id, bases)]  # the class, which is referred to weakly, keeps them

    def fits(self, value: Any) -> bool:
        return [*map(id, value)] == self.addresses

    def source(self, writer: ConditionWriter) -> str:
        return f"[*map(id, {self.place.source(writer)})] == {writer.name(self.addresses)}"

    def was(self) -> str:
        return "of other bases"


class Names(Read):
    """The names of the attributes of a class, or the keys of a dict."""

    __slots__ = ("names", "kept", "addresses")

    def __init__(self, place: Place, names: Iterable[Any]) -> None:
        super().__init__(place)
        self.names = [_print(name) for name in elements_of(names)]
        self.kept = [*elements_of(names)]
        self.addresses = [*map(id, self.kept)]

    def fits(self, value: Any) -> bool:
        if [*map(id, elements_of(value))] == self.addresses:  # without a call of Python for each
            return True
        return [_print(name) for name in elements_of(value)] == self.names

    def was(self) -> str:
        return f"of {len(self.names)} other keys"


class Typed(Read):
    """A container, or another object that is found by the way to it: what is read of it is guarded
    by itself."""

    __slots__ = ("kind",)

    def __init__(self, place: Place, value: Any) -> None:
        super().__init__(place)
        self.kind = type(value)

    def fits(self, value: Any) -> bool:
        return type(value) is self.kind

    def source(self, writer: ConditionWriter) -> str:
        return f"type({writer.place(self.place)}) is {writer.name(self.kind)}"

    def was(self) -> str:
        return f"a {self.kind.__name__}"


class Valued(Typed):
    """A number or bytes of a user's class, an IntEnum for instance: compared by type and value.

    Other reads of it, of its attributes for instance, have guards of their own.
    """

    __slots__ = ("base", "value")

    def __init__(self, place: Place, value: Any) -> None:
        super().__init__(place, value)
        self.base = next(base for base in VALUED if isinstance(value, base))
        # A plain int or bytes: adding the base's zero leaves the user's class behind.
        self.value = self.base.__add__(value, self.base())

    def fits(self, value: Any) -> bool:
        return type(value) is self.kind and self.base.__eq__(value, self.value) is True

    def source(self, writer: ConditionWriter) -> str:
        return f"{writer.name(self.fits)}({writer.value(self.place)})"

    def was(self) -> str:
        return f"{self.kind.__name__}({self.value!r})"

    def now(self, value: Any) -> str:
        if type(value) is not self.kind:
            return shown(value)
        return f"{self.kind.__name__}({self.base.__repr__(value)})"


class Absent(Read):
    """Nothing is at the place."""

    __slots__ = ()
    matters = False

    def holds(self, given: GivenArguments) -> bool:
        try:
            self.place.get(given)
        except NOTHING_THERE:
            return True
        return False

    def source(self, writer: ConditionWriter) -> str:
        return f"{writer.name(self.holds)}((args, {{}}))"

    def was(self) -> str:
        return "not there"


class Lacks(Absent):
    """A dict does not hold a key."""

    __slots__ = ()
    place: NestedPlace

    def holds(self, given: GivenArguments) -> bool:
        try:
            return not dict.__contains__(self.place.parent.get(given), self.place.key)
        except NOTHING_THERE:
            return False

    def source(self, writer: ConditionWriter) -> str:
        key, here = writer.name(self.place.key), writer.place(self.place.parent)
        if isinstance(self.place, Item) and self.place.exact:
            return f"{key} not in {here}"
        return f"not {writer.name(dict.__contains__)}({here}, {key})"


class LacksAttribute(Absent):
    """An object has no attribute of its own by a name, so that the class's is found."""

    __slots__ = ()
    place: NestedPlace

    def holds(self, given: GivenArguments) -> bool:
        try:
            return self.place.key not in namespace_of(self.place.parent.get(given))
        except NOTHING_THERE:
            return False

    def source(self, writer: ConditionWriter) -> str:
        return f"{self.place.key!r} not in {namespace_source(self.place.parent, writer)}"


class Sized(Read):
    """The length of a container."""

    __slots__ = ("length", "exact")

    def __init__(self, place: Place, value: Any) -> None:
        super().__init__(place)
        self.length, self.exact = length_of(value), is_exact(type(value))

    def fits(self, value: Any) -> bool:
        return length_of(value) == self.length

    def source(self, writer: ConditionWriter) -> str:
        count = "len" if self.exact else writer.name(length_of)
        return f"{count}({writer.place(self.place)}) == {self.length}"

    def was(self) -> str:
        return f"of length {self.length}"

    def now(self, value: Any) -> str:
        return f"of length {length_of(value)}"


class Member(Read):
    """Whether something is in a container."""

    __slots__ = ("item", "answer", "exact")

    def __init__(self, place: Place, item: Any, value: Any) -> None:
        super().__init__(place)
        self.item, self.answer, self.exact = item, is_in(item, value), is_exact(type(value))

    def fits(self, value: Any) -> bool:
        return is_in(self.item, value) is self.answer

    def source(self, writer: ConditionWriter) -> str:
        item, here = writer.name(self.item), writer.place(self.place)
        held = f"({item} in {here})" if self.exact else f"{writer.name(is_in)}({item}, {here})"
        return f"{held} is {self.answer}"

    def was(self) -> str:
        return f"{'with' if self.answer else 'without'} {shown(self.item)}"

    def now(self, value: Any) -> str:
        return f"{'without' if self.answer else 'with'} {shown(self.item)}"


class Contents(Read):
    """All that a container holds: plain values by value, containers by type, others by identity."""

    __slots__ = ("known", "kept", "length", "plain", "addresses")

    def __init__(self, place: Place, value: Any, keep: Callable[[Any], Any]) -> None:
        super().__init__(place)
        held = _elements(value)
        self.known, self.kept = fingerprint(value), [keep(x) for x in held]
        self.length = length_of(value)
        # Elements at the same addresses are the same, if those addresses stay theirs: what is plain
        # is kept, and Guards are told of what `keep` refers to. The others are compared otherwise.
        otherwise = any(map(_is_compared_otherwise, held))
        self.plain = [] if otherwise else [x for x in held if is_plain(x)]
        self.addresses = None if otherwise else [*map(id, held)]

    def fits(self, value: Any) -> bool:
        if length_of(value) != self.length:
            return False
        # First without a call of Python for each element.
        same = self.addresses is not None and [*map(id, _elements(value))] == self.addresses
        return same or fingerprint(value) == self.known

    def was(self) -> str:
        return f"with other contents ({self.length} of them)"

    def change(self, given: GivenArguments) -> str:
        try:
            value = self.place.get(given)
            length = length_of(value)
            if length != self.length:
                return f"{self.place} was of length {self.length} and is of length {length}"
        except NOTHING_THERE:
            return f"{self.place} was a container and is gone"
        return f"what {self.place} holds has changed"


class Elements(Read):
    """The elements of a NumPy array that the function computed with in NumPy."""

    __slots__ = ("elements",)

    def __init__(self, place: Place, value: np.ndarray) -> None:
        super().__init__(place)
        self.elements = value.copy()

    def fits(self, value: Any) -> bool:
        known = self.elements
        same = type(value) is np.ndarray and (value.shape, value.dtype) == (
            known.shape,
            known.dtype,
        )
        return same and value.tobytes() == known.tobytes()

    def was(self) -> str:
        return "of other elements"


class PlacesCompared(Read):
    """Compares containers at places by identity, and keeps none of them."""

    __slots__ = ()

    @property
    def compared(self) -> Sequence[Place]:
        """The places."""
        raise NotImplementedError


class Together(PlacesCompared):
    """Whether two places hold the same container."""

    __slots__ = ("other", "answer")

    def __init__(self, place: Place, other: Place, answer: bool) -> None:
        super().__init__(place)
        self.other, self.answer = other, answer

    @property
    def compared(self) -> Sequence[Place]:
        return self.place, self.other

    def holds(self, given: GivenArguments) -> bool:
        try:
            return (self.place.get(given) is self.other.get(given)) is self.answer
        except NOTHING_THERE:
            return False

    def source(self, writer: ConditionWriter) -> str:
        return f"({writer.place(self.place)} is {writer.place(self.other)}) is {self.answer}"

    def change(self, given: GivenArguments) -> str:
        return f"whether {self.place} is {self.other} has changed"


class Apart(PlacesCompared):
    """Containers of which the function changes one are not the same one at any two places."""

    __slots__ = ("places",)

    def __init__(self, places: Sequence[Place]) -> None:
        super().__init__(places[0])
        self.places = places

    @property
    def compared(self) -> Sequence[Place]:
        return self.places

    def holds(self, given: GivenArguments) -> bool:
        try:
            return len({id(place.get(given)) for place in self.places}) == len(self.places)
        except NOTHING_THERE:
            return False

    def source(self, writer: ConditionWriter) -> str:
        addresses = ", ".join(f"id({writer.place(place)})" for place in self.places)
        return f"len({{{addresses}}}) == {len(self.places)}"

    def change(self, given: GivenArguments) -> str:
        return f"which of {', '.join(map(str, self.places))} are one container has changed"


class _SameNan:
    """A NaN, which `in`, `==` of containers and `is` tell from others by its identity."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return type(other) is _SameNan and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def token(x: Any) -> Any:
    """A token of plain values that is equal only for the same types and values."""
    kind = type(x)
    if (kind is float or kind is complex or issubclass(kind, np.inexact)) and x != x:
        return kind, _SameNan(x)
    if kind in PLAIN:
        if kind is complex:
            return kind, x.real.hex(), x.imag.hex()
        return kind, exact(x)
    if kind is tuple or kind is frozenset:
        return kind, kind(map(token, x))
    if issubclass(kind, np.generic):
        return kind, x.tobytes()
    if kind is slice:
        return kind, token((x.start, x.stop, x.step))
    return None, id(x)


def is_plain(x: Any) -> bool:
    """Whether something is compared by value."""
    kind = type(x)
    if kind is tuple or kind is frozenset:
        return all(map(is_plain, x))
    return kind in PLAIN or issubclass(kind, np.generic) or kind is slice


def fingerprint(container: Any) -> Any:
    """A fingerprint of a container's contents, which keeps none of them alive."""
    if issubclass(type(container), dict):
        return [(_print(k), _print(v)) for k, v in items(container)]
    if isinstance(container, (set, frozenset)):
        return frozenset(map(_print, elements_of(container)))
    return [_print(x) for x in elements_of(container)]


def items(container: Any) -> Any:
    """The items of a dict, in its own order; code of a user's class that is one does not run."""
    ordered = issubclass(type(container), OrderedDict)
    return OrderedDict.items(container) if ordered else dict.items(container)


def _print(x: Any) -> Any:
    if is_plain(x):
        return token(x)
    if type(x) is types.MethodType:  # another one each time that it is asked for
        return id(x.__func__), id(x.__self__)
    return type(x) if type(x) in (list, dict, tuple, bytearray) else id(x)


def _is_compared_otherwise(x: Any) -> bool:
    """Whether an element is not compared by its identity, nor by a value that never changes."""
    kind = type(x)
    if kind in (tuple, frozenset) and is_plain(x):
        return any(map(_is_compared_otherwise, x))
    if issubclass(kind, np.generic) or kind is slice:  # a record, or around something else
        return True
    return kind in (types.MethodType, list, dict, tuple, bytearray)


def _elements(container: Any) -> list[Any]:
    if issubclass(type(container), dict):
        return [*itertools.chain.from_iterable(items(container))]
    return list(elements_of(container))


def shown(x: Any) -> str:
    """A value as text: short ones as they are, others by their type."""
    if type(x) in PLAIN or is_plain(x):
        text = repr(x)
        return text if len(text) <= 60 else f"{text[:56]} ..."
    kind = type(x)  # `isinstance` would ask `x` for its class, by code that may be the user's
    if issubclass(kind, type):
        return f"the class {x.__name__}"
    if kind is types.FunctionType:
        return f"the function {x.__name__}"
    return f"{'an' if kind.__name__[0] in 'AEIOUaeiou' else 'a'} {kind.__name__}"
