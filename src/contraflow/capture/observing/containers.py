"""The observer's part for reads of containers: items, lengths, membership, whole contents.

A container given to C or to a library is looked at as a whole.
"""

from __future__ import annotations

import functools
import gc
import io
import operator
import sys
import types
import weakref
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

import numpy as np

from contraflow.capture.observing.attributes import Attributes
from contraflow.capture.observing.objects import (
    CONTAINERS,
    MUTABLE,
    VIEWS,
    described_fields,
    holds_tensor,
    is_component,
    is_iterator,
    is_leaf,
    is_passed,
    items_of,
    keys_of,
)
from contraflow.capture.observing.sight import LARGEST
from contraflow.capture.rewriting.library import (
    in_python,
    is_library_class,
    is_ours,
)
from contraflow.capture.state.places import (
    MISSING,
    Answer,
    Constant,
    Item,
    Place,
    lookup,
    own_attributes,
)
from contraflow.capture.state.reads import (
    PLAIN,
    Absent,
    Contents,
    Elements,
    Lacks,
    Member,
    Names,
    Sized,
    Together,
    is_plain,
    items,
)
from contraflow.errors import CaptureError
from contraflow.tensors.symbol import Symbol
from contraflow.tensors.tensor import Tensor
from contraflow.tensors.tree import elements_of, length_of, plain_type

# In-place operators, as instructions number them.
IN_PLACE = {
    13: "__iadd__", 14: "__iand__", 15: "__ifloordiv__", 16: "__ilshift__", 17: "__imatmul__",
    18: "__imul__", 19: "__imod__", 20: "__ior__", 21: "__ipow__", 22: "__irshift__",
    23: "__isub__", 24: "__itruediv__", 25: "__ixor__",
}  # fmt: skip
ALL = -1  # levels of objects within objects
_OF_KEYS = (dict, defaultdict)  # which are iterated by their keys


class Containers(Attributes):
    """Notes what is read of containers."""

    def item(self, container: Any, key: Any) -> Any:
        """Read an item."""
        kind = type(container)
        if is_leaf(kind):
            self.hand_over(key)
            return container[key]
        if is_ours(kind):
            self.hand_over(key)
            self.registry(container)
            if is_component(kind):
                self.use_component(container)
            found = container[key]
            self.given_out(found)
            return found
        shown = self.class_of(container)
        if shown is not None and key in container:
            return self.in_class((shown,), key)
        place = self.place_of(container)
        if place is None:
            found = container[key]
            self.show(found)
            return found
        self.show_class(kind)
        getter = lookup(kind, "__getitem__")
        if type(getter) is types.FunctionType and not is_library_class(kind):
            self.in_class(kind.__mro__, "__getitem__")
            found = container[key]  # observed
            self.show(found)
            return found
        return self.plain_item(container, place, key)

    def plain_item(self, container: Any, place: Place, key: Any) -> Any:
        """Read an item as C does; code of a user's class does not run."""
        kind = type(container)
        if issubclass(kind, np.ndarray):
            self.touch(container)
            return container[key]
        if not issubclass(kind, (list, dict, tuple, deque)):
            return self._ask(container, place, _item_at(key))
        own: Any = plain_type(kind)
        if type(key) is slice:
            self.touch_all(container)
            return own.__getitem__(container, key)
        if issubclass(kind, dict):
            return self._dict_item(container, place, key)
        try:
            found = own.__getitem__(container, key)
        except (IndexError, TypeError):
            self.plain_length(container)
            raise
        if type(key) is int and 0 < -key <= self._appended.get(id(container), 0):
            self.show(found)  # put there by the function itself, whatever was there before
            return found
        key = self.position(container, key)
        if self._is_mutated(container):
            self.touch_all(container)
            self.show(found)
            return found
        return self.read((id(container), key), Item(place, key, kind), found)

    def position(self, container: Any, index: Any) -> int:
        """A position from the beginning; one from the end depends on the length."""
        index = operator.index(index)
        if index >= 0:
            return int(index)
        self.plain_length(container)
        return int(index) + length_of(container)

    def _dict_item(self, container: dict[Any, Any], place: Place, key: Any) -> Any:
        kind, slot = type(container), (id(container), key)
        if dict.__contains__(container, key):
            found = dict.__getitem__(container, key)
            before = self.before.get(id(container))
            if before is not None and before.get(key, MISSING) is not found:
                self.show(found)  # put there by the function itself
                return found
            return self.read(slot, Item(place, key, kind), found)
        self._lacks(container, place, key)
        before = dict(items(container))
        self._undo.append(functools.partial(dict.pop, container, key, None))
        found = dict.__getitem__(container, key)  # made by its class, or an error
        if dict.__contains__(container, key):
            self.before.setdefault(id(container), before)
            self._stored(container, slot, Item(place, key, kind), found)
        return found

    def _lacks(self, container: dict[Any, Any], place: Place, key: Any) -> None:
        slot, before = (id(container), key), self.before.get(id(container))
        if slot in self.stored or is_passed(place):
            return
        if before is not None and key in before:  # the function itself took it away
            self.read(slot, Item(place, key, type(container)), before[key])
            return
        self._add(("lacks", *slot), Lacks(Item(place, key, type(container))))

    def _ask(self, x: Any, place: Place, question: Callable[[Any], Any]) -> Any:
        """The answer of an object that hides its state."""
        where, key = Answer(place, question), ("asked", id(x), len(self.reads))
        try:
            answer = question(x)
        except Exception:
            self._add(key, Absent(where))
            raise
        if type(answer) is not Symbol:
            self._add(key, self._expected(where, answer))
        self.see(answer, where)
        if type(answer) in (list, dict, tuple, set) and not is_plain(answer):
            self.touch_all(answer)
        return answer

    def _is_mutated(self, container: Any) -> bool:
        return id(container) in self._mutated

    # --- looking into containers ------------------------------------------------------------

    def length(self, x: Any) -> None:
        """The length of something was asked for."""
        place, kind = self.place_of(x), type(x)
        if place is None or not issubclass(kind, CONTAINERS):
            if place is not None and is_component(kind):
                self.use_component(x)
            elif (
                place is not None
                and is_library_class(kind)
                and not (is_passed(place) or is_ours(kind))
            ):
                self._ask(x, place, len)  # of C, or a WeakSet
            return
        if not self._is_code(kind, "__len__"):
            self.plain_length(x)

    def plain_length(self, x: Any) -> None:
        """The length of a container was asked for, as C knows it."""
        place, kind = self.place_of(x), type(x)
        if place is not None and not is_passed(place) and not is_ours(kind):
            known = self.before.get(id(x), x)
            self._add(("length", id(x)), Sized(place, known))

    def _is_code(self, kind: type, name: str) -> bool:
        """Whether a class has a function of the user's for an instruction, which is observed."""
        if not in_python(kind) or type(lookup(kind, name)) is not types.FunctionType:
            return False
        self.show_class(kind)
        self.in_class(kind.__mro__, name)
        return not is_library_class(kind)

    def truth(self, x: Any) -> None:
        """Whether something is empty was asked for."""
        kind = type(x)
        if is_leaf(kind):
            return
        if in_python(kind) and not is_library_class(kind):
            for name in ("__bool__", "__len__"):
                if self.in_class(kind.__mro__, name) is not MISSING:
                    break
            if lookup(kind, "__bool__") is not MISSING:
                return
        if issubclass(kind, CONTAINERS) and id(x) in self.known:
            self.length(x)

    def member(self, item: Any, container: Any) -> None:
        """Whether something is in a container was asked for."""
        kind, place = type(container), self.place_of(container)
        if self.class_of(container) is not None:
            self.look(container)
        if place is None or kind in PLAIN:
            return
        if is_library_class(kind) and in_python(kind) and not issubclass(kind, CONTAINERS):
            self._ask(container, place, functools.partial(_holds, item))
            return
        if not self._is_code(kind, "__contains__"):
            self.plain_member(item, container, place)

    def plain_member(self, item: Any, container: Any, place: Place) -> None:
        """The same, as C knows it."""
        kind = type(container)
        if not issubclass(kind, (dict, set, frozenset)) or self._is_mutated(container):
            self.look(container)
            return
        if is_ours(kind) or is_passed(place):
            return
        if type(item) is Symbol or issubclass(type(item), Tensor):
            self.look(container)
            return
        if (id(container), item) not in self.stored:
            self._add(("member", id(container), item), Member(place, item, container))

    def iterate(self, x: Any) -> None:
        """Something is about to be taken apart."""
        place = self.place_of(x)
        if type(x) not in _OF_KEYS or place is None or self._is_mutated(x):
            self.touch(x)
        elif not is_passed(place):
            content = self.before.get(id(x), x)
            if len(content) > LARGEST:
                raise self._too_many(place, len(content))
            self._add(("keys", id(x)), Names(place, content))
            for key in content:
                self.see(key)

    def look(self, x: Any) -> None:
        """Something is about to be looked at as a whole, by C."""
        if issubclass(type(x), CONTAINERS) or id(x) not in self.known:
            self.touch_all(x)
        else:
            self.hand_over(x, 1)

    def match_class(self, kind: Any) -> None:
        """A pattern is about to take the attributes that a class names by position."""
        if issubclass(type(kind), type):
            self.touch_all(self.in_class(kind.__mro__, "__match_args__"))

    def classes(self, kinds: Any) -> None:
        """A class or a tuple of classes is about to be compared with."""
        if type(kinds) is tuple:
            self.touch_all(kinds)

    def touch_all(self, x: Any) -> None:
        """Note that a container from before is read whole, nested containers included."""
        pending, seen = [x], set()
        while pending:
            each = pending.pop()
            if id(each) in seen:
                continue
            seen.add(id(each))
            self.touch(each)
            if issubclass(type(each), CONTAINERS) and not is_ours(type(each)):
                inside = (item for _, item in items_of(each))
                pending += [item for item in inside if issubclass(type(item), CONTAINERS)]

    def touch(self, x: Any) -> None:
        """All that a container from before holds is read."""
        kind = type(x)
        if is_leaf(kind):
            return
        shown = self.class_of(x)
        if shown is not None:
            self.whole_class(shown)
        if issubclass(kind, CONTAINERS):
            if is_ours(kind):
                self.registry(x)
                for _, item in items_of(x):
                    if issubclass(type(item), Tensor) and not item.storage.is_recorded:
                        self.see(item)
                    self.given_out(item)
                return
            self._touch_container(x)
        elif id(x) not in self.known:
            return
        elif issubclass(kind, np.ndarray):
            self._touch_array(x)
        elif kind is memoryview or kind.__module__ == "array":
            place = self.place_of(x)
            if place is not None and not is_passed(place):
                self._ask(x, place, bytes)
        elif kind in VIEWS:
            self._touch_view(x)
        elif is_component(kind):
            self.use_component(x)
        elif kind.__module__.startswith("contraflow.data"):
            raise self.refuse(
                f"a {kind.__name__} from outside is iterated, and a replay would see the same "
                f"batches again",
                "Pass the batch as an argument.",
            )
        elif issubclass(kind, io.IOBase) and not is_ours(kind):
            raise self.refuse(
                f"{self.place_of(x)}, a {kind.__name__} from before the call, is read or written, "
                f"and a replay would not do that",
                "Use it outside, or make it in the function.",
            )
        elif is_iterator(x):
            raise self.refuse(
                f"{_kind_of_iterator(kind)} from before the call is advanced, and a replay would "
                f"not advance it",
                "Take the next item outside, and pass it as an argument.",
            )
        elif in_python(kind):
            self.show_class(kind)
            place = self.place_of(x)
            asked = is_library_class(kind) and hasattr(kind, "__iter__")
            if asked and place is not None and not hasattr(kind, "__next__"):
                self._ask(x, place, list)  # a WeakSet, and the like

    def _touch_view(self, x: Any) -> None:
        """A view of a dict, which `values` has given before the call, is read whole."""
        (shown,) = gc.get_referents(x)
        place = self.place_of(x)
        if self.place_of(shown) is not None:
            self.touch_all(shown)
        elif place is not None:
            self._ask(x, place, list)

    def _touch_container(self, x: Any) -> None:
        place = self.place_of(x)
        if place is not None and id(x) not in self._touched:
            self._touched.add(id(x))
            content = self.before.get(id(x), x)
            if length_of(content) > LARGEST:
                raise self._too_many(place, length_of(content))
            if not is_passed(place):
                slots = [(id(x), key) for key in keys_of(content)]
                if all(
                    slot not in self.carried_values and slot not in self.stored for slot in slots
                ):
                    self._add(("contents", id(x)), Contents(place, content, self._keep))
                else:
                    self._touch_items(x, content, place)
            for key, item in items_of(content):
                where = None if key is MISSING else Item(place, key, type(x))
                if where is not None and is_passed(where):
                    self._see_argument(item, where)
                else:
                    self.see(item, where)
                if key is not MISSING and (id(x), key) not in self.stored:
                    self.slots.setdefault((id(x), key), (Item(place, key, type(x)), item))
            if issubclass(type(x), dict):
                for key in elements_of(content):
                    if not (is_passed(place) and holds_tensor(key)):
                        self.see(key)

    def _too_many(self, place: Place, count: int) -> CaptureError:
        return self.refuse(
            f"{place} is looked at as a whole, and it holds {count} elements; every call would "
            f"have to compare them all",
            f"Up to {LARGEST} may be. Make it a tensor, or pass it as an argument.",
        )

    def _touch_items(self, x: Any, content: Any, place: Place) -> None:
        """The same where some items are inputs of the program, or the function has set them."""
        if issubclass(type(x), dict):
            self._add(("keys", id(x)), Names(place, content))
        else:
            self._add(("length", id(x)), Sized(place, content))
        for key, item in items_of(content):
            carried = self.carried_values.get((id(x), key))
            if type(carried) is Symbol and (id(x), key) not in self.stored:
                self.recorder.symbols.need(carried)  # C reads the number itself
            if carried is None and (id(x), key) not in self.stored:
                where = Item(place, key, type(x))
                self._add((id(x), key), self._expected(where, item))

    def _touch_array(self, x: np.ndarray) -> None:
        place = self.place_of(x)
        if place is None:
            return
        if x.size > LARGEST:
            raise self.refuse(
                f"{place}, a NumPy array of {x.size} elements, is computed with in NumPy; every "
                f"call would have to compare them all",
                "Make it a tensor first."
                if is_passed(place)
                else "Make it a tensor, or pass it as an argument.",
            )
        self._add(("elements", id(x)), Elements(place, x))
        for index in np.ndindex(x.shape) if x.dtype == object else ():
            self.see(x[index], Answer(place, operator.itemgetter(index)))

    def _refuse_write(self, x: np.ndarray) -> None:
        place = self.place_of(x)
        if place is not None:
            raise self.refuse(
                f"{place}, a NumPy array from outside, is written to, and a replay would not write "
                f"to it",
                "Make it a tensor.",
            )

    def becomes_tensor(self, x: np.ndarray) -> bool:
        """Whether an array is read at every call, since it becomes a tensor."""
        place = self.place_of(x)
        if place is None or id(x) in self.recorder.array_arguments:
            return True
        if not x.flags.c_contiguous:
            return False
        if not is_passed(place):
            self._ask(x, place, _layout)
            self.recorder.arrays[id(x)] = x
        return True

    def registry(self, x: Any) -> Any:
        """The module or optimizer from before that registers in a dict which is read; else None."""
        owner = getattr(x, "registered_in", None)
        if owner is None or not is_component(type(owner)) or self.recorder.made_here(owner):
            return None
        self.recorder.visit_module(owner)
        return owner

    def use_component(self, x: Any) -> None:
        """A module or an optimizer is used as a whole."""
        self.show(x)
        if not self.recorder.made_here(x):
            self.whole.add(id(x))
            self.see(x)
            for part in x.modules() if hasattr(x, "modules") else (x,):
                self.recorder.visit_module(part)

    def hand_over(self, x: Any, levels: int = ALL) -> None:
        """Something is given to the library or to C, which may read all of it.

        `levels` limits how deep nested objects are read.
        """
        pending, seen = deque([(x, levels)]), set()
        while pending:
            each, left = pending.popleft()
            if id(each) not in seen and not is_leaf(type(each)):
                seen.add(id(each))
                pending += self._handed_over(each, left)

    def _handed_over(self, x: Any, levels: int) -> list[tuple[Any, int]]:
        """Look at one of the things that are given; what is in it, and the levels left for that."""
        kind = type(x)
        if is_component(kind):
            self.use_component(x)
            return []
        self.touch(x)
        if issubclass(kind, CONTAINERS):
            return [(item, levels) for _, item in items_of(x)]
        self.show(x)
        if levels == ALL:
            self.show_methods(kind)
        if kind is types.BuiltinFunctionType and issubclass(type(x.__self__), CONTAINERS):
            self.touch_all(x.__self__)
        if not levels or id(x) not in self.known or issubclass(kind, (type, types.ModuleType)):
            return []
        if kind in (types.FunctionType, types.MethodType) or is_ours(kind) or id(x) in self._handed:
            return []
        if levels == ALL:
            self._handed.add(id(x))
        place, own = self.place_of(x), own_attributes(x, None)
        if place is None:
            return []
        values = []
        for base in kind.__mro__:
            for name, raw in list(base.__dict__.items()):
                if type(raw) is types.MemberDescriptorType and hasattr(x, name):
                    self._field(x, name, place)
                    values.append(getattr(x, name))
        if own is not None:
            if not (is_passed(place) and set(own) <= set(described_fields(x))):
                self._see_namespace(own, place)
                self.touch(own)
            values += own.values()
        return [(value, ALL if levels == ALL else levels - 1) for value in values]

    def operate(self, left: Any, right: Any, op: int) -> None:
        """An operator is about to be applied; C looks at all of a container."""
        for x in (left, right):
            kind = type(x)
            if is_leaf(kind):
                continue
            changed = IN_PLACE.get(op) if x is left else None
            if kind.__module__ == "decimal":
                context = sys.modules["decimal"].getcontext
                self._ask(context, Constant(context, "decimal.getcontext()"), _decimal_context)
            if changed is not None and issubclass(kind, np.ndarray):
                self._refuse_write(x)
            if issubclass(kind, np.ndarray) and id(x) in self.known:
                other = right if x is left else left
                if issubclass(type(other), Tensor) and self.becomes_tensor(x):
                    continue
            # One that its own class does not have is code of a user's class, or an error.
            if changed is not None and _changes_itself(kind, changed):
                if id(x) in self.known and not _fails(plain_type(kind), changed, right):
                    self.touch(right)
                    given = self._mutate(x, changed, (right,), {})
                    if is_iterator(right):  # it is done here, which leaves nothing to do
                        getattr(plain_type(kind), changed)(x, *given)
                continue
            self.touch_all(x)

    def identity(self, left: Any, right: Any) -> None:
        """Whether two are one was asked for."""
        if left is None or right is None or left is right:
            return
        given = {type(left), type(right)}
        if Symbol in given and given <= {Symbol, int, float}:
            self.recorder.symbols.need((left, right))  # equal numbers may be one object
        a, b = self.place_of(left), self.place_of(right)
        kinds = (list, dict, types.MethodType)
        if a is not None and b is not None and type(left) in kinds and type(right) in kinds:
            self._add(("apart", id(left), id(right)), Together(a, b, False))


def _item_at(key: Any) -> Callable[[Any], Any]:
    """Reads the item at a key, which is not kept alive: the container may hold it weakly too."""
    try:
        reference = weakref.ref(key)
    except TypeError:  # a text, a number, a tuple
        return operator.itemgetter(key)
    return lambda container: container[reference()]


def _kind_of_iterator(kind: type) -> str:
    return f"a {kind.__name__}" if kind.__name__ in ("generator", "zip", "map") else "an iterator"


def _changes_itself(kind: type, method: str) -> bool:
    return issubclass(kind, MUTABLE) and hasattr(plain_type(kind), method)


def _fails(kind: type, method: str, right: Any) -> bool:
    """Whether an operator in place is an error for a value of C's, whatever is on its left."""
    if in_python(type(right)) or is_iterator(right):
        return False  # its code runs once
    try:
        return getattr(kind, method)(kind(), right) is NotImplemented
    except (TypeError, ValueError):
        return True


def _layout(array: np.ndarray) -> tuple[Any, ...]:
    return array.shape, array.strides, array.dtype.str, array.flags.writeable


def _decimal_context(context: Any) -> tuple[Any, ...]:
    now = context()
    return now.prec, now.rounding, now.Emin, now.Emax, now.capitals, now.clamp


def _holds(item: Any, container: Any) -> bool:
    return item in container
