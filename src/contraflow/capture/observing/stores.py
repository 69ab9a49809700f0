"""The observer's part for stores: changes of state, logged to be undone and repeated."""

from __future__ import annotations

import functools
import operator
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from contraflow.capture.observing.attributes import BOOKKEEPING, REGISTRIES
from contraflow.capture.observing.containers import Containers
from contraflow.capture.observing.objects import (
    MUTABLE,
    is_alias,
    is_iterator,
    is_passed,
    is_structured,
)
from contraflow.capture.observing.sight import SlotKey
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
    Registered,
    SlotStore,
    copied,
    refill,
    refills,
    registered,
)
from contraflow.errors import CaptureError
from contraflow.tensors.epoch import Every, names_attribute
from contraflow.tensors.tensor import Tensor
from contraflow.tensors.tree import plain_type

# Methods that change a container alike, whatever is in it.
_BLIND = names("append add extend update clear appendleft extendleft __setitem__ __ior__ __iadd__")
# Methods that take what they are given item by item, and keep the items alone.
_ITEMWISE = names(
    "extend extendleft update difference_update intersection_update symmetric_difference_update "
    "__iadd__ __ior__"
)
_VIEWS: Any = (type({}.keys()), type({}.values()), type({}.items()))


class Stores(Containers):
    """Notes what is written."""

    def _stored(self, holder: Any, key: SlotKey, place: NestedPlace, value: Any) -> None:
        """A slot of something from before was given a value."""
        self.stored[key] = None
        line = self.recorder.user_line()
        # The last store counts, unless a method has changed the container since. A deletion before
        # it is kept: a key that is deleted and put back comes last in a dict.
        latest = self._latest.setdefault(id(holder), {}).setdefault(key, [])
        if latest and latest[-1].value is not MISSING:
            if value is not MISSING:
                latest[-1].value, latest[-1].line = value, line
                return
            store = latest.pop()
            number = next(i for i in range(len(self.writes) - 1, -1, -1) if self.writes[i] is store)
            del self.writes[number]
            if isinstance(store.place, Registered) and store.place.created:
                return
        if not latest or value is not MISSING:
            latest.append(SlotStore(key, place, value, line))
            self.writes.append(latest[-1])

    def _remember(self, container: Any) -> None:
        """Keep what a container from before holds that is about to be changed."""
        if id(container) not in self.before:
            self.before[id(container)] = copied(container)

    def _change(
        self,
        holder: Any,
        key: SlotKey,
        place: NestedPlace,
        before: Any,
        value: Any,
        put: Callable[[Any], Any],
        remove: Callable[[], Any],
    ) -> None:
        """Give a slot a value, or take away what it holds, by functions of C: see `undo`."""
        if value is not MISSING and self._stays(key, before, value):
            return
        if issubclass(type(holder), MUTABLE):
            self._remember(holder)
        remove() if value is MISSING else put(value)  # or an error, before anything is noted
        if id(holder) not in self._restored:
            self._undo.append(remove if before is MISSING else functools.partial(put, before))
        self._stored(holder, key, place, value)

    def _stays(self, key: SlotKey, before: Any, value: Any) -> bool:
        """Whether a store changes nothing: the slot is known to hold this value already."""
        known = key in self.slots or key in self.stored
        return before is value and known and key not in self.carried

    def store_attribute(self, x: Any, value: Any, name: str) -> None:
        """Set an attribute."""
        kind = type(x)
        if is_structured(kind):
            self._store_structured(x, name, value)
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
        of_c = types.MemberDescriptorType, types.GetSetDescriptorType
        if data and type(raw) not in of_c:
            setattr(x, name, value)  # by code that is observed
            return
        self.put_attribute(x, name, value)

    def _replace_namespace(self, x: Any, values: dict[str, Any]) -> None:
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
            self._put_item(x.__dict__, name, value, Global(x.__dict__, name))
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
        self._put_item(own, name, value, Attribute(place, name))

    def _put_field(self, x: Any, name: str, value: Any, place: Place) -> None:
        """Set an attribute that C keeps, or take it away."""
        kind: Any = type(x)
        self._change(
            x, (id(x), name, "field"), Field(place, name), getattr(x, name, MISSING), value,
            functools.partial(kind.__setattr__, x, name),
            functools.partial(kind.__delattr__, x, name),
        )  # fmt: skip

    def _put_item(self, holder: dict[Any, Any], name: Any, value: Any, place: NestedPlace) -> None:
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
        self._change(
            kind, (id(kind), name, "class"), ClassAttribute(place, name),
            kind.__dict__.get(name, MISSING), value,
            functools.partial(type.__setattr__, kind, name),
            functools.partial(type.__delattr__, kind, name),
        )  # fmt: skip

    def _store_structured(self, x: Any, name: str, value: Any) -> None:
        """Set an attribute of a module or an optimizer, which registers it."""
        if value is MISSING:
            self.registering([x], functools.partial(delattr, x, name))
        else:
            self.registering([x], functools.partial(setattr, x, name, value))

    def registering(self, modules: Iterable[Any], change: Callable[[], Any]) -> Any:
        """Run library code that changes registries of modules, and note how to undo that."""
        compare = [self._registries(x) for x in modules]
        result = change()
        for each in compare:
            each()
        return result

    def _registries(self, x: Any) -> Callable[[], None]:
        """Keep what a module has registered; a function that notes what is different."""
        if id(x) not in self.known and self.recorder.made_here(x):
            return lambda: None
        self.see(x)
        self.recorder.visit_module(x)
        place = self.place_of(x)
        assert place is not None
        own = own_attributes(x)
        spaces = {name: own[name] for name in REGISTRIES if name in own}
        before = {"": dict(own), **{name: copied(held) for name, held in spaces.items()}}
        for name, held in (("", own), *spaces.items()):
            self._undo_all(held, before[name])

        def compare() -> None:
            for name, held in (("", own), *spaces.items()):
                if isinstance(held, dict):
                    where = Namespace(place) if not name else Attribute(place, name)
                    self.known.setdefault(id(held), (held, where))
                    self._note_registered(x, place, name, before[name], held)

        return compare

    def _note_registered(
        self, x: Any, place: Place, name: str, before: dict[str, Any], held: dict[str, Any]
    ) -> None:
        """Note what is different in one of the dicts of a module."""
        for key in [*before, *(k for k in held if k not in before)]:
            then, now = before.get(key, MISSING), held.get(key, MISSING)
            if then is now or key in BOOKKEEPING:
                continue
            slot = Item(Attribute(place, name), key, dict) if name else Attribute(place, key)
            if id(x) in self.whole and (id(held), key) not in self.stored:
                self.slots.setdefault((id(held), key), (slot, then))
            ours = is_library_class(type(x)) if name else names_attribute(type(x), key)
            where = registered(slot, place, key, then, ours)
            where.persistent = key not in own_attributes(x).get("_transient", ())
            self._stored(held, (id(held), key), where, now)

    def change_registry(self, x: Any, change: Callable[[], Any]) -> Any:
        """A registry of a module, or a group of an optimizer, is changed by hand."""
        owner = self.registry(x)
        if owner is None:
            return change()
        if any(x is held for held in hook_tables(owner)):
            return self.hooking(owner, change)
        if "_modules" in own_attributes(owner):
            return self.registering([owner], change)
        before = copied(x)
        result = change()
        for key in [*before, *x]:
            if dict.get(x, key, MISSING) is not before.get(key, MISSING):
                did = "changed" if key in x else "removed"
                self._undo_all(x, before)
                raise self.refuse(*_refused_entry(owner, key, did if key in before else "added"))
        return result

    def hooking(self, owner: Any, change: Callable[[], Any]) -> Any:
        """Hooks of a module or an optimizer are added or taken away: none may be left so."""
        if not isinstance(owner, Every) and self.recorder.made_here(owner):
            return change()
        for held in hook_tables(owner):
            if id(held) not in self._hooked:
                self._hooked[id(held)] = owner, held, copied(held)
                self._undo_all(held, copied(held))
        self._hooked_at = self.recorder.user_line()
        return self.registering([owner], change)

    def acquire(self, lock: Any, entered: bool, f: Callable[[], Any]) -> Any:
        """Acquire a lock from before; however the recording ends, it is released."""
        taken, count = f(), self.holds(lock, entered)
        if taken:
            self._undo.append(lock.release)
            self._locked[id(lock), entered] = count + 1, self.recorder.user_line()
        return taken

    def release(self, lock: Any, entered: bool, f: Callable[[], Any]) -> Any:
        """Release a lock from before, which the function must have acquired.

        A with-block tells of its end alone.
        """
        count = self.holds(lock, entered)
        if count:
            self._locked[id(lock), entered] = count - 1, self._locked[id(lock), entered][1]
            self._undo.remove(lock.release)
        elif not entered:
            raise self.refuse(
                "a lock from outside that the function has not acquired is released, and a replay "
                "would not release it",
                "Release it outside the compiled function.",
            )
        return f()

    def holds(self, lock: Any, entered: bool) -> int:
        """How often the function has acquired a lock, or entered it."""
        return self._locked.get((id(lock), entered), (0, None))[0]

    def check_locks(self) -> None:
        """Refuse a function that does not give back a lock that it has taken."""
        for count, line in self._locked.values():
            if count:
                raise CaptureError(
                    f"compile({self.recorder.name}): a lock that is acquired at {line} is still "
                    f"held when the function returns, and a replay would not acquire it. Release "
                    f"it, or acquire it outside."
                )

    def check_hooks(self) -> None:
        """Refuse a function that leaves other hooks than it found."""
        for owner, held, before in self._hooked.values():
            if fingerprint(held) != fingerprint(before):
                every = isinstance(owner, Every)
                whose = "every module or optimizer" if every else f"a {type(owner).__name__}"
                raise CaptureError(
                    f"compile({self.recorder.name}): hooks of {whose} are not the same after "
                    f"{self._hooked_at}, and a replay would not change them. Register and remove "
                    f"hooks outside."
                )

    def delete_attribute(self, x: Any, name: str) -> None:
        """Take an attribute away."""
        if is_structured(type(x)):
            self._store_structured(x, name, MISSING)
        elif id(x) in self.known or issubclass(type(x), type):
            remover = lookup(type(x), "__delattr__")
            if is_alias(remover, "__delattr__"):
                self.call(remover, (x, name), {})
                return
            getattr(x, name)  # the error
            own, place = own_attributes(x), self.place_of(x)
            if name in own and place is not None and (id(own), name) not in self.stored:
                there = Member(Namespace(place), name, own)  # it may not be in the next call
                self._add(("member", id(own), name), there)
            if type(remover) is types.FunctionType:
                delattr(x, name)
            else:
                self.put_attribute(x, name, MISSING)
        else:
            delattr(x, name)

    def store_item(self, container: Any, key: Any, value: Any) -> None:
        """Set an item."""
        kind, place = type(container), self.place_of(container)
        if place is None or issubclass(kind, Tensor) or is_ours(kind):
            if hasattr(kind, "registered_in"):
                self.change_registry(
                    container, functools.partial(operator.setitem, container, key, value)
                )
                return
            if is_structured(kind):
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
            self._put_item(container, key, value, Item(place, key, kind))
        elif not issubclass(kind, MUTABLE):
            self._refuse_change(container, key, value)
        elif type(key) is slice or value is MISSING or not issubclass(kind, (list, deque)):
            method = "__delitem__" if value is MISSING else "__setitem__"
            args = self._mutate(container, method, (key,) if value is MISSING else (key, value), {})
            getattr(plain_type(kind), method)(container, *args)
        else:
            own: Any = plain_type(kind)
            before, key = own.__getitem__(container, key), self.position(container, key)
            self._change(
                container, (id(container), key), Item(place, key, kind), before, value,
                functools.partial(own.__setitem__, container, key),
                functools.partial(own.__delitem__, container, key),
            )  # fmt: skip

    def _refuse_change(self, container: Any, key: Any, value: Any) -> None:
        if hasattr(type(container), "__setitem__"):  # an array.array, a memoryview
            raise self.refuse(
                f"something of type {type(container).__name__} from outside is changed, and a "
                f"replay would not change it",
                "Use a list, or a tensor.",
            )
        container[key] = value  # the error

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
            elif issubclass(type(x), _VIEWS):
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

    def _undo_all(self, container: Any, contents: Any) -> None:
        """Note how to restore the contents of a container."""
        self._undo += reversed(refills(container, contents))

    def _restore(self, container: Any) -> None:
        """The same, with what a container held before the call: once, as the last that is undone
        of all later changes."""
        if id(container) not in self._restored:
            self._restored.add(id(container))
            self._undo_all(container, self.before[id(container)])

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
        self._change(cell, (id(cell),), place, before, value, put, remove)

    def store_global(self, namespace: dict[str, Any], name: str, value: Any) -> None:
        """Set a global variable, or take it away."""
        self.see_globals(namespace)
        self._put_item(namespace, name, value, Global(namespace, name))


def _refused_entry(optimizer: Any, key: Any, did: str) -> tuple[str, str]:
    """Why an entry of a group of parameters cannot be changed, and the remedy."""
    where = f"of a group of parameters of {type(optimizer).__name__}"
    what = f"entry {key!r} {where} is {did}"
    if did == "added":
        return (
            f"{what}, and a replay would not add it",
            f"Add it before the first call, as optimizer.param_groups[0][{key!r}] = 0: a compiled "
            f"function may change numbers that are there.",
        )
    if did == "removed":
        return f"{what}, and a replay would not remove it", "Remove it outside."
    return (
        f"{what}, which a replay does with numbers alone",
        "Change it outside the compiled function, or keep it in a dict of your own.",
    )


def hook_tables(owner: Any) -> list[dict[Any, Any]]:
    """The dicts of hooks that a module or an optimizer keeps."""
    own = own_attributes(owner).items()
    found = [x for name, x in own if name.endswith("hooks") and issubclass(type(x), dict)]
    return found + [x for table in found for x in table.values() if type(x) is dict]
