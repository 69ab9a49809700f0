"""The observer's part for reads of variables and attributes, of objects, classes and modules."""

from __future__ import annotations

import builtins
import enum
import functools
import operator
import types
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from contraflow.capture.observing.objects import (
    TENSOR_FIELDS,
    described_fields,
    is_alias,
    is_component,
    is_dunder,
    is_passed,
)
from contraflow.capture.observing.showing import Showing
from contraflow.capture.restart import PartsSeen
from contraflow.capture.rewriting.library import (
    in_python,
    is_library_class,
    is_library_code,
    is_library_module,
    is_ours,
    names,
)
from contraflow.capture.state.places import (
    MISSING,
    Attribute,
    ClassAttribute,
    Constant,
    Described,
    Field,
    Global,
    Item,
    Namespace,
    NestedPlace,
    Place,
    lookup,
    own_attributes,
)
from contraflow.capture.state.reads import (
    PLAIN,
    Absent,
    Bases,
    Lacks,
    LacksAttribute,
    Names,
)
from contraflow.errors import describe
from contraflow.tensors.node import Node
from contraflow.tensors.storage import PartStorage
from contraflow.tensors.symbol import Symbol
from contraflow.tensors.tensor import Tensor

# The attributes that every module has.
REGISTRIES = ("_parameters", "_buffers", "_modules", "_transient")
BOOKKEEPING = frozenset(["_structure", "_other_mode", "_born", "_transient"])
_INTERNAL = frozenset(["training", "_parameters", "_buffers", "_modules", *BOOKKEEPING])


# Properties of tensors that the key of a call does not describe.
_NODES = ("grad_fn", "node", "_node")
_PROPERTIES = names("is_leaf is_inference _base _version data_ptr storage_offset").union(_NODES)
_AROUND = ("_base", "data_ptr", "storage_offset")  # those that differ for a part of a tensor
_HOOKING = ("register_hook", "register_prehook")
_PASS = "Read it outside, and pass what it gives as an argument."

_OF_FUNCTIONS = ("__annotations__", "__doc__", "__name__", "__qualname__")
_TUPLE_FIELD = type(NamedTuple("_Pair", [("first", int)]).first)  # type: ignore[attr-defined]


class Attributes(Showing):
    """Notes what is read of variables and attributes."""

    def global_(self, namespace: dict[str, Any], name: str, value: Any) -> Any:
        """A global variable was read, or what Python itself has of that name."""
        key = (id(namespace), name)
        if id(namespace) not in self.known:  # of code that the function itself executes
            self.show(value)
            return value
        if name in namespace:
            return self.read(key, Global(namespace, name), value)
        if key not in self.stored:
            self._add(("lacks", *key), Lacks(Global(namespace, name)))
        if name in vars(builtins):
            self.see_globals(vars(builtins))
            return self.read((id(vars(builtins)), name), Global(vars(builtins), name), value)
        return value

    def cell(self, cell: types.CellType, value: Any) -> Any:
        """A variable of a closure was read; in a class, what it has of that name comes first."""
        place = self.place_of(cell)
        if place is None or cell.cell_contents is not value:
            self.show(value)
            return value
        assert isinstance(place, NestedPlace)
        return self.read((id(cell),), place, value)

    def attribute(self, x: Any, name: str) -> Any:
        """Read an attribute."""
        kind = type(x)
        if kind in PLAIN or kind is Symbol:
            return getattr(x, name)
        if issubclass(kind, Tensor):
            if name in _PROPERTIES:
                self.in_class(kind.__mro__, name)
                return self._tensor_property(x, name)
            if name in TENSOR_FIELDS:
                return getattr(x, name)
            if lookup(Tensor, name) is not MISSING:
                self.in_class(kind.__mro__, name)
                return getattr(x, name)
            return self._tensor_attribute(x, name)
        if kind is types.ModuleType:
            return self._module_attribute(x, name)
        if issubclass(kind, Node) and x.sequence_nr < self.recorder.first_node:
            return self._node_attribute(x, name)
        if kind is super:
            return self._super_attribute(x, name)
        if issubclass(kind, type):
            return self._class_attribute(x, name)
        if is_component(kind):
            return self._component_attribute(x, name)
        if is_ours(kind):
            if id(x) in self.known and type(own_attributes(x).get(name, MISSING)) in PLAIN:
                return self._own_attribute(x, name)  # it may be the user's
            found = getattr(x, name)
            self.given_out(found)
            return found
        if issubclass(kind, enum.Enum) and id(kind) not in self._made:
            self.see(x)  # which its class keeps
        if id(x) not in self.known:
            return self._fresh_attribute(x, name)
        return self._object_attribute(x, name)

    def _own_attribute(self, x: Any, name: str) -> Any:
        """An attribute that an object from before keeps itself."""
        own, place = own_attributes(x), self.place_of(x)
        value = dict.__getitem__(own, name)
        if place is None or (is_passed(place) and name in described_fields(x)):
            self.show(value)
            return value
        self._see_namespace(own, place)
        return self.read((id(own), name), Attribute(place, name), value)

    def _tensor_attribute(self, x: Any, name: str) -> Any:
        """An attribute that tensors do not have by themselves."""
        if id(x) not in self.known and self._is_parameter(x):
            self.see(x)
        if id(x) in self.known:
            self.in_class(type(x).__mro__, name)
            if name in own_attributes(x):
                return self._own_attribute(x, name)
            self._lacks_attribute(x, name)
        return getattr(x, name)

    def _tensor_property(self, x: Tensor, name: str) -> Any:
        """A property that the key of a call does not describe."""
        if name in _AROUND and self.recorder.is_of_argument(x.storage):
            self.recorder.looks_around = True
            if isinstance(x.storage, PartStorage):
                x.storage.look_around()
                raise PartsSeen
        if name == "_version" and self.recorder.is_from_before(x.storage):
            raise self.refuse(
                f"_version of {describe(x)} is read, which counts the writes of all calls", _PASS
            )
        if name == "data_ptr" and self.recorder.is_of_argument(x.storage):
            raise self.refuse(
                f"data_ptr() of {describe(x)} is its address in this call alone", _PASS
            )
        found = getattr(x, name)
        if id(x) not in self.known and not self._is_parameter(x):
            return found
        if name in ("is_leaf", "_base"):
            self.read_of_tensor(x, name, found)
        elif name == "is_inference":
            self.read_of_tensor(x, name, found(), "storage", "inference")
        elif name in _NODES:
            self.read_of_tensor(x, name, type(found), "grad_fn", "__class__")
            place = self.tensor_place(x)
            if found is not None and place is not None:
                self.known.setdefault(id(found), (found, Field(place, "grad_fn")))
        if name == "_base" and found is not None:
            self.see(found)
        return found

    def _node_attribute(self, x: Node, name: str) -> Any:
        """An attribute of a node that was applied before the call."""
        place = self.place_of(x)
        if name in _HOOKING:
            return getattr(x, name)
        if place is None or name not in ("name", "label", "output_count", "__class__"):
            raise self.refuse(
                f"{name} of the node of {x.name} is read, which was applied before the call and is "
                f"another one in each call",
                _PASS,
            )
        return self.read((id(x), name), Field(place, name), getattr(x, name))

    def _is_parameter(self, x: Tensor) -> bool:
        """Whether a module that the function has used holds a tensor as a parameter."""
        parameters, modules = self._parameters, self.recorder.modules
        for module in modules[self._indexed :]:
            for held in own_attributes(module).get("_parameters", {}).values():
                parameters[id(held)] = held
        self._indexed = len(modules)
        return parameters.get(id(x)) is x

    def _lacks_attribute(self, x: Any, name: str) -> None:
        """An object from before does not keep an attribute itself."""
        own, place = own_attributes(x), self.place_of(x)
        if place is not None and not is_dunder(name):
            self._see_namespace(own, place)
            if (id(own), name) not in self.stored:
                self._add((id(own), name), LacksAttribute(Attribute(place, name)))

    def _see_namespace(self, own: dict[str, Any], place: Place) -> None:
        self.known.setdefault(id(own), (own, Namespace(place)))

    def _module_attribute(self, module: Any, name: str) -> Any:
        namespace = module.__dict__
        self.see_globals(namespace)
        if is_library_module(namespace.get("__name__")):
            getattr(module, name, None)  # a module that is found late is an attribute from then on
        if name not in namespace and name != "__dict__":
            key = (id(namespace), name)
            if key not in self.stored:
                self._add(("lacks", *key), Lacks(Global(namespace, name)))
        found = getattr(module, name)
        if name not in namespace:
            self.show(found)
            return found
        return self.global_(namespace, name, found)

    # --- of classes ---------------------------------------------------------------------------

    def in_class(self, bases: Sequence[type], name: str) -> Any:
        """The attribute in the first of some classes that has it; MISSING if none has."""
        for number, base in enumerate(bases):
            place = None
            if is_library_class(base) and tuple(bases[number:]) == base.__mro__:
                method = lookup(base, name)
                if type(method) is types.FunctionType and in_python(base):
                    self.note_method(base, name, method)
                    self.show(method)
                    return method
            if in_python(base) and id(base) not in self._made:
                place = self._class_place(base)
            if name in base.__dict__:
                value = base.__dict__[name]
                if place is None:
                    return value
                return self.read((id(base), name, "class"), ClassAttribute(place, name), value)
            if place is not None and (id(base), name, "class") not in self.stored:
                lacking = LacksAttribute(ClassAttribute(place, name))
                self._add((id(base), name, "class"), lacking)
        return MISSING

    def _class_place(self, kind: type) -> Place | None:
        """Where a class is found; the bases of the user's are noted."""
        if is_library_class(kind):
            return Constant(kind, kind.__name__)
        self.see(kind)
        place = self.place_of(kind)
        if place is not None:
            self._add((id(kind), "__mro__"), Bases(Field(place, "__mro__"), kind.__mro__))
        return place

    def class_of(self, proxy: Any) -> type | None:
        """The class whose attributes `vars` has given."""
        found = self._proxies.get(id(proxy))
        return None if found is None else found[1]

    def class_names(self, kind: type) -> None:
        """The names of all attributes of a class and its bases are read."""
        for base in kind.__mro__:
            if in_python(base) and not is_library_class(base) and id(base) not in self._made:
                place = self._class_place(base)
                if place is not None:
                    names = Names(Field(place, "__dict__"), base.__dict__)
                    self._add((id(base), "__dict__"), names)

    def whole_class(self, kind: type) -> None:
        """All that a class keeps is read."""
        for each in list(kind.__dict__):
            if type(number := self.in_class((kind,), each)) is Symbol:
                self.recorder.symbols.need(number)
        place = self._class_place(kind)
        if place is not None:
            self._add((id(kind), "__dict__"), Names(Field(place, "__dict__"), kind.__dict__))

    def _super_attribute(self, x: Any, name: str) -> Any:
        bases = x.__self_class__.__mro__
        bases = bases[bases.index(x.__thisclass__) + 1 :]
        return self._class_value(getattr(x, name), bases, name)

    def _class_value(self, found: Any, bases: Sequence[type], name: str) -> Any:
        """An attribute that a class keeps, as it is or bound; or what stands for it."""
        raw = next((b.__dict__[name] for b in bases if name in b.__dict__), MISSING)
        value = self.in_class(bases, name)
        if raw is found:
            return value
        self.show(found)
        return found

    def _class_attribute(self, kind: Any, name: str) -> Any:
        if id(kind) in self._made or not in_python(kind):
            found = getattr(kind, name)
            self.show(found)
            return found
        if name == "__dict__":
            shown = kind.__dict__
            self._proxies[id(shown)] = shown, kind
            return shown
        if type(kind) is not type and not is_dunder(name):
            self.in_class(type(kind).__mro__, name)
        try:
            found = getattr(kind, name)
        except AttributeError:
            self.in_class(kind.__mro__, name)
            raise
        if not is_dunder(name):
            return self._class_value(found, kind.__mro__, name)
        place = self._class_place(kind)
        if place is not None and (type(found) in PLAIN or type(found) is dict):
            return self.read((id(kind), name, "field"), Field(place, name), found)
        return found

    # --- of objects ---------------------------------------------------------------------------

    def _component_attribute(self, x: Any, name: str) -> Any:
        """Of a module or an optimizer, whose count of changes guards what is registered."""
        self.show(x)
        if id(x) not in self.known and not self.recorder.made_here(x):
            self.see(x)
        known = id(x) in self.known
        if known:
            self.recorder.visit_module(x)
        own, kind = own_attributes(x), type(x)
        place = self.place_of(x)
        if place is not None and name == "__dict__":
            self._see_namespace(own, place)
            return own
        if known and name in own and name not in _INTERNAL:
            held = type(own[name])
            if issubclass(held, Tensor) or not is_ours(held):
                return self._own_attribute(x, name)
        if known and lookup(kind, name) is not MISSING:
            self.in_class(kind.__mro__, name)
        try:
            found = getattr(x, name)
        except AttributeError:
            if known:
                self._lacks_attribute(x, name)
            raise
        if known:
            for registry in ("_parameters", "_buffers", "_modules"):
                kept = own.get(registry, ())
                if name in kept:
                    assert place is not None
                    return self._registered(
                        kept, Item(Attribute(place, registry), name, dict), found
                    )
            self.see(found) if is_component(type(found)) else self.show(found)
        else:
            self.show(found)
        return found

    def _registered(self, held: dict[str, Any], place: Item, value: Any) -> Any:
        """A parameter, a buffer or a child: guarded by the count of changes of its module."""
        key = (id(held), place.key)
        if key in self.stored:
            self.show(value)
            return value
        self.known.setdefault(id(held), (held, place.parent))
        self.slots.setdefault(key, (place, value))
        self.see(value, place)
        return value

    def _fresh_attribute(self, x: Any, name: str) -> Any:
        """Of an object that the function has made, or the library: only its class is old."""
        own = own_attributes(x)
        place = self.place_of(own)
        if name in own and place is not None:  # an object made here, but kept elsewhere
            return self._dict_item(own, place, name)
        self._see_descriptor(type(x).__mro__, name)
        found = getattr(x, name)
        if name in own:
            self.show(found)
            return found
        return self._class_value(found, type(x).__mro__, name)

    def _see_descriptor(self, bases: Sequence[type], name: str) -> None:
        """See an attribute of a class whose `__get__` is code of the user's, before that runs."""
        raw = next((b.__dict__[name] for b in bases if name in b.__dict__), MISSING)
        if type(lookup(type(raw), "__get__")) is types.FunctionType:
            self.in_class(bases, name)

    def _object_attribute(self, x: Any, name: str) -> Any:
        """Of an object from before."""
        kind, place = type(x), self.place_of(x)
        self.show_class(kind)
        own, raw = own_attributes(x), lookup(kind, name)
        if place is None:
            found = getattr(x, name)
            self.show(found)
            return found
        # An attribute in an object's `__dict__` is found there, unless its class has the name too.
        if (
            in_python(kind)
            and not is_library_class(kind)
            and (name not in own or raw is not MISSING)
        ):
            self.note_class(x, place)
        if type(lookup(kind, "__getattribute__")) is types.FunctionType:
            self.in_class(kind.__mro__, "__getattribute__")
            found = getattr(x, name)  # observed
            self.show(found)
            return found
        return self.plain_attribute(x, name, getattr)

    def plain_attribute(self, x: Any, name: str, get: Callable[[Any, str], Any]) -> Any:
        """An attribute of an object from before, found by `object.__getattribute__` or
        `__getattr__`, not by a custom `__getattribute__`."""
        kind, place = type(x), self.place_of(x)
        assert place is not None
        own, raw = own_attributes(x), lookup(kind, name)
        data = raw is not MISSING and hasattr(type(raw), "__set__")
        if type(raw) is _TUPLE_FIELD:
            return self.item(x, raw.__reduce__()[1][0])
        if name == "__dict__":
            if is_passed(place) and set(own) <= set(described_fields(x)):
                self.known.setdefault(id(own), (own, Described(Namespace(place))))
            else:
                self._see_namespace(own, place)
            return get(x, name)
        if data and type(raw) is types.MemberDescriptorType:
            return self._field(x, name, place)
        if data and type(raw) is types.GetSetDescriptorType:
            found = get(x, name)
            if name in _OF_FUNCTIONS:
                return self.read((id(x), name, "field"), Field(place, name), found)
            if not name.startswith("__"):
                self._add((id(x), name), self._expected(Field(place, name), found))
                self.see(found, Field(place, name))
            return found
        if data:  # computed by code, which is observed itself
            self.in_class(kind.__mro__, name)
            getter = getattr(raw, "fget", None)
            if type(getter) is types.FunctionType and is_library_code(
                getter.__code__, getter.__globals__
            ):
                return self._ask(x, place, operator.attrgetter(name))
            found = get(x, name)
            self.show(found)
            return found
        if name in own:
            return self._own_attribute(x, name)
        if own_attributes(x, None) is not None:
            self._lacks_attribute(x, name)
        if raw is not MISSING:
            self._see_descriptor(kind.__mro__, name)
            if type(raw) is functools.cached_property:
                self._undo.append(functools.partial(dict.pop, own, name, None))
            found = get(x, name)
            if type(raw) is functools.cached_property and name in own:
                self._stored(own, (id(own), name), Attribute(place, name), found)
            return self._class_value(found, kind.__mro__, name)
        self.in_class(kind.__mro__, name)
        getter = lookup(kind, "__getattr__")
        if get is getattr and is_alias(getter, "__getattr__"):
            self.in_class(kind.__mro__, "__getattr__")
            return self.call(getter, (x, name), {})
        found = get(x, name)  # by __getattr__, or an error
        if own_attributes(x, None) is None and getter is MISSING:
            where = Field(place, name)  # an object of C's, which keeps it to itself
            return self.read((id(x), name, "field"), where, found)
        self.show(found)
        return found

    def note_class(self, x: Any, place: Place) -> None:
        """The class of an object from before was looked at."""
        if not is_passed(place):
            self._add((id(x), "__class__"), self._expected(Field(place, "__class__"), type(x)))

    def _field(self, x: Any, name: str, place: Place) -> Any:
        where = Field(place, name)
        try:
            found = getattr(x, name)
        except AttributeError:
            self._add((id(x), name, "field"), Absent(where))
            raise
        if is_passed(place) and name in described_fields(x):
            self.show(found)
            return found
        return self.read((id(x), name, "field"), where, found)
