"""Places: how a Python value is found again at each call.

A recording reads `self.config["scale"]`; a call that comes later has to look there again. An object
that can be referred to weakly is found by that reference, and never kept alive. A list, a dict or a
tuple cannot: it is found by the way from such an object to it.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from threading import local
from types import FunctionType, MappingProxyType
from typing import Any, Protocol

from contraflow.names import AbsentMethod
from contraflow.tensors.tree import elements_of, plain_type

GivenArguments = tuple[Sequence[Any], Mapping[str, Any]]  # the arguments of a call

# The errors that looking at a place raises where nothing is there.
NOTHING_THERE = (AttributeError, LookupError, TypeError, ValueError)


class ConditionWriter(Protocol):
    """Writes the function of a call that hits."""

    def name(self, x: Any) -> str:
        """A name for an object."""

    def place(self, place: Place) -> str:
        """A variable that holds what is found at a place."""

    def value(self, place: Place) -> str:
        """The value at a place as an expression: a variable where it is needed again."""


class Place:
    """The way to a Python value, by which each call finds it again."""

    __slots__ = ()

    def get(self, given: GivenArguments) -> Any:
        """The value in this call; raises one of NOTHING_THERE if there is none."""
        raise NotImplementedError

    def source(self, writer: ConditionWriter) -> str:
        """The expression that finds the value, for the function of a hit."""
        raise NotImplementedError


class Object(Place):
    """An object from before the recording, by a weak reference."""

    __slots__ = ("reference", "label")

    def __init__(self, reference: Callable[[], Any], label: str) -> None:
        self.reference, self.label = reference, label

    def get(self, given: GivenArguments) -> Any:
        return self.reference()

    def source(self, writer: ConditionWriter) -> str:
        return f"{writer.name(self.reference)}()"

    def __str__(self) -> str:
        return self.label


class Constant(Place):
    """An object that a program may keep alive: the globals of a module, or a builtin."""

    __slots__ = ("value", "label")

    def __init__(self, value: Any, label: str) -> None:
        self.value, self.label = value, label

    def get(self, given: GivenArguments) -> Any:
        return self.value

    def source(self, writer: ConditionWriter) -> str:
        return writer.name(self.value)

    def __str__(self) -> str:
        return self.label


class Argument(Place):
    """An argument of the call."""

    __slots__ = ("key", "label")

    def __init__(self, key: int | str, label: str) -> None:
        self.key, self.label = key, label

    def get(self, given: GivenArguments) -> Any:
        return given[1][self.key] if isinstance(self.key, str) else given[0][self.key]

    def source(self, writer: ConditionWriter) -> str:
        return f"args[{self.key}]"

    def __str__(self) -> str:
        return self.label


class NestedPlace(Place):
    """A place within what is found at another one: its `parent` and a `key`."""

    __slots__ = ("parent", "key")

    def __init__(self, parent: Place, key: Any) -> None:
        self.parent, self.key = parent, key

    def address(self, given: GivenArguments) -> tuple[Any, ...]:
        """The observer's identity of it in this call: the address of its holder, and the key."""
        return id(self.parent.get(given)), self.key

    def put(self, holder: Any, value: Any) -> None:
        """Put a value there; `holder` is what is found at `parent`."""
        raise NotImplementedError

    def remove(self, holder: Any) -> None:
        """Take away what is there, if anything is."""
        raise NotImplementedError


class Attribute(NestedPlace):
    """An attribute in the `__dict__` of an object."""

    __slots__ = ()

    def address(self, given: GivenArguments) -> tuple[Any, ...]:
        return id(namespace_of(self.parent.get(given))), self.key

    def get(self, given: GivenArguments) -> Any:
        return namespace_of(self.parent.get(given))[self.key]

    def source(self, writer: ConditionWriter) -> str:
        return f"{namespace_source(self.parent, writer)}[{self.key!r}]"

    def put(self, holder: Any, value: Any) -> None:
        namespace_of(holder)[self.key] = value

    def remove(self, holder: Any) -> None:
        namespace_of(holder).pop(self.key, None)

    def __str__(self) -> str:
        return f"{self.parent}.{self.key}"


class Field(NestedPlace):
    """An attribute stored through a descriptor of the class: a slot, or a field of a C type."""

    __slots__ = ()

    def address(self, given: GivenArguments) -> tuple[Any, ...]:
        return id(self.parent.get(given)), self.key, "field"

    def get(self, given: GivenArguments) -> Any:
        return getattr(self.parent.get(given), self.key)

    def source(self, writer: ConditionWriter) -> str:
        return f"{writer.place(self.parent)}.{self.key}"

    def put(self, holder: Any, value: Any) -> None:
        kind: Any = type(holder)
        by_code = isinstance(kind.__setattr__, FunctionType)
        (object.__setattr__ if by_code else kind.__setattr__)(holder, self.key, value)

    def remove(self, holder: Any) -> None:
        kind: Any = type(holder)
        by_code = isinstance(kind.__delattr__, FunctionType)
        with suppress(AttributeError):
            (object.__delattr__ if by_code else kind.__delattr__)(holder, self.key)

    def __str__(self) -> str:
        return f"{self.parent}.{self.key}"


class ClassAttribute(NestedPlace):
    """An attribute in the `__dict__` of a class."""

    __slots__ = ()

    def address(self, given: GivenArguments) -> tuple[Any, ...]:
        return id(self.parent.get(given)), self.key, "class"

    def get(self, given: GivenArguments) -> Any:
        return self.parent.get(given).__dict__[self.key]

    def source(self, writer: ConditionWriter) -> str:
        if isinstance(self.parent, Constant):  # whose attributes are always in one dict
            (own,) = gc.get_referents(self.parent.value.__dict__)  # not a view of it: half the time
            return f"{writer.name(own)}[{self.key!r}]"
        return f"{writer.place(self.parent)}.__dict__[{self.key!r}]"

    def put(self, holder: Any, value: Any) -> None:
        if holder is not None:  # else it was made within the function, and is gone
            type.__setattr__(holder, self.key, value)

    def remove(self, holder: Any) -> None:
        if holder is not None and self.key in holder.__dict__:
            type.__delattr__(holder, self.key)

    def __str__(self) -> str:
        return f"{self.parent}.{self.key}"


class Item(NestedPlace):
    """An item of a list, a tuple or a dict; code of a user's class that is one does not run."""

    __slots__ = ("kind", "exact")

    def __init__(self, parent: Place, key: Any, kind: type) -> None:
        super().__init__(parent, key)
        self.kind: Any = plain_type(kind)
        self.exact = kind is self.kind  # and so has no code of a user's

    def get(self, given: GivenArguments) -> Any:
        return self.kind.__getitem__(self.parent.get(given), self.key)

    def source(self, writer: ConditionWriter) -> str:
        key = repr(self.key) if type(self.key) in (int, str) else writer.name(self.key)
        if self.exact:
            return f"{writer.place(self.parent)}[{key}]"
        return f"{writer.name(self.kind.__getitem__)}({writer.place(self.parent)}, {key})"

    def put(self, holder: Any, value: Any) -> None:
        self.kind.__setitem__(holder, self.key, value)

    def remove(self, holder: Any) -> None:
        self.kind.pop(holder, self.key, None)

    def __str__(self) -> str:
        return f"{self.parent}[{self.key!r}]"


class RecordField(Item):
    """A field of a dataclass or a namespace that is an argument."""

    __slots__ = ()

    def __init__(self, parent: Place, key: str) -> None:
        super().__init__(parent, key, dict)

    def get(self, given: GivenArguments) -> Any:
        return getattr(self.parent.get(given), self.key)

    def source(self, writer: ConditionWriter) -> str:
        return f"{writer.place(self.parent)}.{self.key}"

    def __str__(self) -> str:
        return f"{self.parent}.{self.key}"


class DictKey(Item):
    """A key of a dict, by its number: a tensor among the arguments."""

    __slots__ = ()

    def get(self, given: GivenArguments) -> Any:
        return list(elements_of(self.parent.get(given)))[self.key]

    def source(self, writer: ConditionWriter) -> str:
        return f"list({writer.name(elements_of)}({writer.place(self.parent)}))[{self.key}]"

    def __str__(self) -> str:
        return f"key {self.key} of {self.parent}"


class Global(Item):
    """A global variable: an item of a module's namespace."""

    __slots__ = ()

    def __init__(self, namespace: dict[str, Any], name: str) -> None:
        super().__init__(Constant(namespace, "globals()"), name, dict)

    def __str__(self) -> str:
        return str(self.key)


class Cell(NestedPlace):
    """A variable of a closure, by its number among those of a function."""

    __slots__ = ("label",)

    def __init__(self, parent: Place, key: int, label: str) -> None:
        super().__init__(parent, key)
        self.label = label

    def address(self, given: GivenArguments) -> tuple[Any, ...]:
        return (id(self.parent.get(given).__closure__[self.key]),)

    def get(self, given: GivenArguments) -> Any:
        return self.parent.get(given).__closure__[self.key].cell_contents

    def source(self, writer: ConditionWriter) -> str:
        if isinstance(self.parent, Constant):  # whose cells are always the same
            return f"{writer.name(self.parent.value.__closure__[self.key])}.cell_contents"
        return f"{writer.place(self.parent)}.__closure__[{self.key}].cell_contents"

    def put(self, holder: Any, value: Any) -> None:
        holder.__closure__[self.key].cell_contents = value

    def remove(self, holder: Any) -> None:
        with suppress(ValueError):
            del holder.__closure__[self.key].cell_contents

    def __str__(self) -> str:
        return self.label


class Namespace(Place):
    """The `__dict__` of an object, as a dict."""

    __slots__ = ("parent",)

    def __init__(self, parent: Place) -> None:
        self.parent = parent

    def get(self, given: GivenArguments) -> Any:
        return namespace_of(self.parent.get(given))

    def source(self, writer: ConditionWriter) -> str:
        return namespace_source(self.parent, writer)

    def __str__(self) -> str:
        return f"{self.parent}.__dict__"


class Answer(Place):
    """The answer of an object that hides its state: a cached function, a context
    variable, the environment."""

    __slots__ = ("parent", "question")

    def __init__(self, parent: Place, question: Callable[[Any], Any]) -> None:
        self.parent, self.question = parent, question

    def get(self, given: GivenArguments) -> Any:
        try:
            return self.question(self.parent.get(given))
        except Exception as error:
            raise LookupError(str(self.parent)) from error

    def source(self, writer: ConditionWriter) -> str:
        return f"{writer.name(self.get)}((args, {{}}))"

    def __str__(self) -> str:
        return str(self.parent)


class Located:
    """Stands in a written value for an object from before: each call takes what is at its place."""

    __slots__ = ("place",)

    def __init__(self, place: Place) -> None:
        self.place = place


class Described(Place):
    """A container whose contents are inputs of the program, so that the key describes it."""

    __slots__ = ("place",)

    def __init__(self, place: Place) -> None:
        self.place = place

    def get(self, given: GivenArguments) -> Any:
        return self.place.get(given)

    def source(self, writer: ConditionWriter) -> str:
        return self.place.source(writer)

    def __str__(self) -> str:
        return str(self.place)


def namespace_of(x: Any) -> Any:
    """The `__dict__` of an object, or of this thread for one that is thread-local; no code of its
    class runs."""
    look = local.__getattribute__ if issubclass(type(x), local) else object.__getattribute__
    return look(x, "__dict__")


def own_attributes(x: Any, default: Any = MappingProxyType({})) -> Any:
    """The same; a default if there is none."""
    try:
        found = namespace_of(x)
    except (AttributeError, TypeError):
        return default
    return found if issubclass(type(found), dict) else default


def namespace_source(place: Place, writer: ConditionWriter) -> str:
    """The `__dict__` of the object at a place as an expression.

    An argument in it is a tensor. The class of any other object may have code for attributes.
    """
    here = writer.place(place)
    with suppress(*NOTHING_THERE):
        kind: Any = type(place.get(((), {})))
        if isinstance(kind.__getattribute__, FunctionType):
            return f"{writer.name(namespace_of)}({here})"
    return f"{here}.__dict__"


MISSING: Any = type("Missing", (), {"__repr__": lambda self: "nothing"})()


def lookup(kind: type, name: str) -> Any:
    """An attribute as found along the MRO of a class, MISSING if there is none.

    A name that tensors lack by choice is none: they may be given such an attribute.
    """
    for base in kind.__mro__:
        if name in base.__dict__:
            found = base.__dict__[name]
            return MISSING if isinstance(found, AbsentMethod) else found
    return MISSING
