"""The observer's part for stores: what instructions and methods of containers write."""

from __future__ import annotations

import functools
import operator
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from contraflow.capture.observing.changes import Changes
from contraflow.capture.observing.objects import (
    MUTABLE,
    VIEWS,
    is_alias,
    is_component,
    is_filled,
    is_iterator,
    is_passed,
)
from contraflow.capture.rewriting.library import is_library_class, is_ours, names
from contraflow.capture.state.places import (
    MISSING,
    Attribute,
    ClassAttribute,
    Constant,
    Field,
    Global,
    Item,
    Namespace,
    NestedPlace,
    Place,
    lookup,
    own_attributes,
)
from contraflow.capture.state.reads import Member, fingerprint
from contraflow.capture.state.writes import (
    REFILL,
    Mutation,
    copied,
    refill,
)
from contraflow.errors import CaptureError
from contraflow.tensors.tensor import Tensor
from contraflow.tensors.tree import length_of, plain_type

# Methods that change a container alike, whatever is in it.
_BLIND = names("append add extend update clear appendleft extendleft __setitem__ __ior__ __iadd__")
# Methods that take what they are given item by item, and keep the items alone.
_ITEMWISE = names(
    "extend extendleft update difference_update intersection_update symmetric_difference_update "
    "__iadd__ __ior__"
)
# Descriptors of attributes that C keeps.
_SLOTS = types.MemberDescriptorType, types.GetSetDescriptorType


class Stores(Changes):
    """Notes what is written."""

    def store_attribute(self, x: Any, value: Any, name: str) -> None:
        """Set an attribute."""
        kind = type(x)
        if is_component(kind):
            self._store_in_component(x, name, value)
            return
        if id(x) not in self.known and not (issubclass(kind, (type, types.ModuleType))):
            own = own_attributes(x)
            if id(own) in self.known and lookup(kind, name) is MISSING:
                self.put_item(own, name, value)  # of an object made here, but kept elsewhere
            else:
                setattr(x, name, value)
            return
        self.show_class(kind)
        raw = lookup(kind, name)
        setter = lookup(kind, "__setattr__")
        if kind is not type and type(setter) is types.FunctionType:
            setattr(x, name, value)  # observed
            return
        if is_alias(setter, "__setattr__"):
            self.call(setter, (x, name, value), {})
            return
        if name == "__dict__" and id(x) in self.known:
            self._replace_namespace(x, value)
            return
        data = raw is not MISSING and hasattr(type(raw), "__set__")
        if data and type(raw) not in _SLOTS:
            self.show(raw)
            setattr(x, name, value)  # by code that is observed
            return
        self.put_attribute(x, name, value)

    def _replace_namespace(self, x: Any, values: dict[str, Any]) -> None:
        if id(values) in self.known:  # both would be one, or the old attributes be back
            raise self.refuse(
                "a namespace from outside becomes the __dict__ of an object, and a replay would "
                "only copy its attributes",
                "Assign a copy of it: x.__dict__ = dict(...).",
            )
        own, new = own_attributes(x), dict(values)
        for name in [name for name in own if name not in new]:
            self.put_attribute(x, name, MISSING)
        for name, value in new.items():
            self.put_attribute(x, name, value)

    def put_attribute(self, x: Any, name: str, value: Any) -> None:
        """Set an attribute, or take it away, as `object` does."""
        kind = type(x)
        if issubclass(kind, type):
            self._put_class_attribute(x, name, value)
            return
        if kind is types.ModuleType:
            self._put_in_dict(x.__dict__, name, value, Global(x.__dict__, name))
            return
        place = self.place_of(x)
        raw = lookup(kind, name)
        if place is None:
            setattr(x, name, value) if value is not MISSING else delattr(x, name)
            return
        if own_attributes(x, None) is None or (
            raw is not MISSING and hasattr(type(raw), "__set__")
        ):
            self._put_field(x, name, value, place)
            return
        own = own_attributes(x)
        self._see_namespace(own, place)
        self._put_in_dict(own, name, value, Attribute(place, name))

    def _put_field(self, x: Any, name: str, value: Any, place: Place) -> None:
        """Set an attribute that C keeps, or take it away."""
        kind: Any = type(x)
        self._change(
            x, (id(x), name, "field"), Field(place, name), getattr(x, name, MISSING), value,
            functools.partial(kind.__setattr__, x, name),
            functools.partial(kind.__delattr__, x, name),
        )  # fmt: skip

    def _put_in_dict(
        self, holder: dict[Any, Any], name: Any, value: Any, place: NestedPlace
    ) -> None:
        """Set an item of a dict, or take it away."""
        self._refuse_key(name)
        kind: Any = plain_type(type(holder))
        before, key = dict.get(holder, name, MISSING), (id(holder), name)
        if value is MISSING:
            self._remember(holder)
            kind.__delitem__(holder, name)
            self._restore(holder)  # in its order
            self._stored(holder, key, place, value)
            return
        put = functools.partial(kind.__setitem__, holder, name)
        remove = functools.partial(kind.pop, holder, name, None)
        self._change(holder, key, place, before, value, put, remove)

    def _refuse_key(self, key: Any) -> None:
        """A tensor that is another one in each call cannot be the key under which replays store."""
        if type(key) is tuple:
            for part in key:
                self._refuse_key(part)
        elif issubclass(type(key), Tensor):
            place = self.place_of(key)
            # Of the tensors from outside, those without a place came from the library, of modules.
            outside = place is not None or self.recorder.is_from_outside(key)
            if not outside or (place is not None and is_passed(place)):
                raise self.refuse(
                    "a tensor of this call is the key of an item that is stored or taken away, and "
                    "a replay would use the same key",
                    "Use a name as the key.",
                )

    def _put_class_attribute(self, kind: Any, name: str, value: Any) -> None:
        if id(kind) in self._made:
            setattr(kind, name, value) if value is not MISSING else delattr(kind, name)
            return
        self.see(kind)
        place = self.place_of(kind)
        assert place is not None
        if (value is MISSING) is (name in kind.__dict__):
            self._counted.pop(id(kind), None)
        self._change(
            kind, (id(kind), name, "class"), ClassAttribute(place, name),
            kind.__dict__.get(name, MISSING), value,
            functools.partial(type.__setattr__, kind, name),
            functools.partial(type.__delattr__, kind, name),
        )  # fmt: skip

    def delete_attribute(self, x: Any, name: str) -> None:
        """Take an attribute away."""
        if is_component(type(x)):
            self._store_in_component(x, name, MISSING)
        elif id(x) in self.known or issubclass(type(x), type):
            remover = lookup(type(x), "__delattr__")
            if is_alias(remover, "__delattr__"):
                self.call(remover, (x, name), {})
                return
            if type(remover) is types.FunctionType:
                self.show_class(type(x))
                delattr(x, name)  # by code that is observed
            else:
                self.plain_delete(x, name)
        else:
            delattr(x, name)

    def plain_delete(self, x: Any, name: str) -> None:
        """Take an attribute away, as `object` does."""
        raw, a_class = lookup(type(x), name), issubclass(type(x), type)
        delete: Any = (type if a_class else object).__delattr__
        if hasattr(type(raw), "__delete__") and type(raw) not in _SLOTS:
            self.show(raw)
            delete(x, name)  # by code that is observed
            return
        self._note_whether_there(x, name, raw)
        if a_class:
            there = name in x.__dict__
        else:
            there = hasattr(x, name) if type(raw) in _SLOTS else name in own_attributes(x)
        if there:
            self.put_attribute(x, name, MISSING)
        else:
            delete(x, name)  # the error

    def _note_whether_there(self, x: Any, name: str, raw: Any) -> None:
        """An attribute is about to be taken away, which another call may lack, or have."""
        self.see(x)
        place = self.place_of(x)
        if place is None or is_passed(place):
            return
        if type(raw) in _SLOTS:
            if (id(x), name, "field") not in self.stored:
                self._ask(x, place, functools.partial(_has, name))
        elif issubclass(type(x), type):
            if id(x) not in self._made and (id(x), name, "class") not in self.stored:
                there = Member(Field(place, "__dict__"), name, x.__dict__)
                self._add(("member", id(x), name), there)
        else:
            own = own_attributes(x)
            if (id(own), name) not in self.stored:
                self._add(("member", id(own), name), Member(Namespace(place), name, own))

    def store_item(self, container: Any, key: Any, value: Any) -> None:
        """Set an item."""
        kind, place = type(container), self.place_of(container)
        if place is None or issubclass(kind, Tensor) or is_ours(kind):
            if hasattr(kind, "registered_in"):
                self.change_registry(
                    container, functools.partial(operator.setitem, container, key, value)
                )
                return
            if is_component(kind):
                self.registering(
                    [container], functools.partial(operator.setitem, container, key, value)
                )
                return
            container[key] = value
            return
        self.show_class(kind)
        if hasattr(kind, "keeps_for_users") and key not in container._initial:
            self.put_item(container, key, value)
            return
        if type(lookup(kind, "__setitem__")) is types.FunctionType:
            if hasattr(kind, "keeps_for_users"):  # what an optimizer begins with is its own
                container[key] = value
                return
            if is_library_class(kind):
                raise self.refuse(
                    f"a {kind.__name__} from outside is changed, and a replay would not change it",
                    "Use a dict or a list.",
                )
            container[key] = value  # observed
            return
        if issubclass(kind, np.ndarray):
            raise self.refuse(
                f"an element of {place}, a NumPy array from outside, is set, and a replay would "
                f"not set it",
                "Make it a tensor.",
            )
        self.put_item(container, key, value)

    def put_item(self, container: Any, key: Any, value: Any) -> None:
        """Set an item of a container of Python's own, or take it away."""
        kind, place = type(container), self.place_of(container)
        if place is None:
            container[key] = value
        elif issubclass(kind, dict):
            self._put_in_dict(container, key, value, Item(place, key, kind))
        elif not issubclass(kind, MUTABLE):
            if hasattr(kind, "__setitem__"):  # an array.array, a memoryview
                raise self.refuse_change(container)
            container[key] = value  # the error
        elif type(key) is slice or value is MISSING or not issubclass(kind, (list, deque)):
            method = "__delitem__" if value is MISSING else "__setitem__"
            count = len(self.writes)
            if type(key) is slice and key.step is not None:  # it must be given as many items
                if id(container) in self._mutated:
                    self.plain_length(container)
                else:
                    self._ask(container, place, functools.partial(_places_in, key))
            args = self._mutate(container, method, (key,) if value is MISSING else (key, value), {})
            try:
                getattr(plain_type(kind), method)(container, *args)
            except Exception:
                if not is_iterator(value):  # which has given some items by then
                    del self.writes[count:]  # the user may catch it
                raise
        else:
            own: Any = plain_type(kind)
            try:
                before = own.__getitem__(container, key)
            except IndexError:
                self.plain_length(container)
                raise
            key = self.position(container, key)
            slot = (id(container), key)
            if not (slot in self.slots or slot in self.stored or id(container) in self._mutated):
                self._ask(container, place, functools.partial(_reaches, key))
            self._change(
                container, (id(container), key), Item(place, key, kind), before, value,
                functools.partial(own.__setitem__, container, key),
                functools.partial(own.__delitem__, container, key),
            )  # fmt: skip

    def refuse_change(self, x: Any) -> CaptureError:
        """The error about a change of something from outside that no replay would make."""
        return self.refuse(
            f"something of type {type(x).__name__} from outside is changed, and a replay would not "
            f"change it",
            "Use a list, or a tensor.",
        )

    def delete_item(self, container: Any, key: Any) -> None:
        """Take an item away."""
        kind = type(container)
        python = type(lookup(kind, "__delitem__")) is types.FunctionType
        if hasattr(kind, "registered_in"):
            self.change_registry(container, functools.partial(operator.delitem, container, key))
            return
        if id(container) not in self.known or python or issubclass(kind, Tensor):
            del container[key]
            return
        if issubclass(kind, dict):
            self._dict_item(container, self.place_of(container) or Constant(container, ""), key)
        self.put_item(container, key, MISSING)

    def _mutate(
        self, container: Any, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, ...]:
        """A method is about to change a container from before; the arguments to call it with."""
        place, kind = self.place_of(container), type(container)
        assert place is not None
        if method not in _BLIND and not (
            method in ("pop", "setdefault") and issubclass(kind, dict)
        ):
            self.touch(container)
        self._remember(container)
        self._mutated.add(id(container))
        self._restore(container)
        self._latest.pop(id(container), None)
        self._count_appended(container, method, args)
        line, noted = self.recorder.user_line(), args
        if method in _ITEMWISE or (method == "__setitem__" and type(args[0]) is slice):
            args, noted = self._item_by_item(container, args)
        self.writes.append(Mutation(container, place, method, noted, kwargs, line))
        return args

    def _item_by_item(
        self, container: Any, args: tuple[Any, ...]
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Arguments whose items a method takes at once, and lists of those for replays."""
        given, noted = list(args), list(args)
        for i, x in enumerate(args):
            if is_iterator(x):
                noted[i] = []
                given[i] = self._passing(x, noted[i], container)
            elif issubclass(type(x), VIEWS):
                noted[i] = list(x)
        return tuple(given), tuple(noted)

    def _passing(self, items: Iterator[Any], taken: list[Any], container: Any) -> Iterator[Any]:
        """The items of an iterator, noted when a container takes them."""
        count = len(self.writes)
        for item in items:
            if any(write.changes(container) for write in self.writes[count:]):
                raise self.refuse(
                    "a container is changed by the iterator whose items it is given",
                    "Make a list of them first.",
                )
            taken.append(item)
            yield item

    def _count_appended(self, container: Any, method: str, args: tuple[Any, ...]) -> None:
        """Count the elements at the end of a list or deque that the function itself has put."""
        count = 0
        if method == "append":
            count = self._appended.get(id(container), 0) + 1
        elif method in ("extend", "__iadd__") and type(args[0]) in (list, tuple):
            count = self._appended.get(id(container), 0) + len(args[0])
        self._appended[id(container)] = count

    def refilling(self, given: Iterable[Any], call: Callable[[], Any]) -> Any:
        """Run unobserved code that is given containers from before, and note its changes."""
        found: dict[int, Any] = {}
        for x in given:
            for part in (x, *(own_attributes(x).values() if id(x) in self.known else ())):
                if issubclass(type(part), (*MUTABLE, np.ndarray)) and id(part) in self.known:
                    found[id(part)] = part
        before = {key: copied(x) for key, x in found.items()}
        result = call()
        for key, x in found.items():
            then = before[key]
            if issubclass(type(x), np.ndarray):
                if x.tobytes() != then.tobytes():
                    np.copyto(x, then)
                    self._refuse_write(x)
                continue
            if fingerprint(then) == fingerprint(x):
                continue
            now = copied(x)
            refill(x, then)
            self._mutate(x, REFILL, (now,), {})
            refill(x, now)
        return result

    def store_cell(self, cell: types.CellType, value: Any) -> None:
        """Set a variable of a closure, or take it away."""
        place = self.place_of(cell)
        put = functools.partial(setattr, cell, "cell_contents")
        remove = functools.partial(delattr, cell, "cell_contents")
        if place is None:
            remove() if value is MISSING else put(value)
            return
        assert isinstance(place, NestedPlace)
        try:
            before = cell.cell_contents
        except ValueError:
            before = MISSING
        if value is MISSING and (id(cell),) not in self.stored:
            self._ask(cell, place, is_filled)  # it may be empty in another call
        self._change(cell, (id(cell),), place, before, value, put, remove)

    def store_global(self, namespace: dict[str, Any], name: str, value: Any) -> None:
        """Set a global variable."""
        self.see_globals(namespace)
        self._put_in_dict(namespace, name, value, Global(namespace, name))

    def delete_global(self, namespace: dict[str, Any], name: str) -> None:
        """Take a global variable away."""
        self.see_globals(namespace)
        if (id(namespace), name) not in self.stored:
            there = Member(Constant(namespace, "globals()"), name, namespace)
            self._add(("member", id(namespace), name), there)
        if name not in namespace:
            raise NameError(f"name {name!r} is not defined", name=name)
        self._put_in_dict(namespace, name, MISSING, Global(namespace, name))


def _reaches(index: int, container: Any) -> bool:
    return length_of(container) > index


def _places_in(part: slice, container: Any) -> int:
    return len(range(*part.indices(length_of(container))))


def _has(name: str, x: Any) -> bool:
    return hasattr(x, name)
