"""The observer's part for changes: noted to be undone and repeated, those of the library too."""

from __future__ import annotations

import functools
import operator
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from contraflow.capture.observing.attributes import BOOKKEEPING, REGISTRIES
from contraflow.capture.observing.chain import SlotKey
from contraflow.capture.observing.containers import Containers
from contraflow.capture.observing.objects import MUTABLE, described_fields, is_passed
from contraflow.capture.rewriting.library import is_library_class, is_ours
from contraflow.capture.state.places import (
    MISSING,
    Argument,
    Attribute,
    Described,
    Field,
    Global,
    Item,
    Namespace,
    NestedPlace,
    Object,
    Place,
    own_attributes,
)
from contraflow.capture.state.reads import Apart, Names, fingerprint
from contraflow.capture.state.writes import (
    Mutation,
    Registered,
    SlotStore,
    Write,
    copied,
    do_if,
    do_noted,
    refills,
    registered,
)
from contraflow.tensors.epoch import Every, names_attribute


class Changes(Containers):
    """Notes what changes, and how to undo it."""

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
            at = next(i for i in range(len(self.writes) - 1, -1, -1) if self.writes[i] is store)
            del self.writes[at]
            if isinstance(store.place, Registered) and store.place.created:
                return
        if not latest or value is not MISSING:
            latest.append(SlotStore(key, place, value, line))
            self.writes.append(latest[-1])

    def _remember(self, container: Any) -> None:
        """Keep what a container from before holds that is about to be changed."""
        if id(container) not in self.before:
            self.before[id(container)] = copied(container)

    def _restore(self, container: Any) -> None:
        """The same, with what a container held before the call: once, as the last that is undone
        of all later changes."""
        if id(container) not in self._restored:
            self._restored.add(id(container))
            self._undo_all(container, self.before[id(container)])

    def _undo_all(self, container: Any, contents: Any) -> None:
        """Note how to restore the contents of a container."""
        self._undo += reversed(refills(container, contents))

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
        change = remove if value is MISSING else functools.partial(put, value)
        if id(holder) in self._restored:
            change()
        else:
            undo = remove if before is MISSING else functools.partial(put, before)
            do_noted(change, undo, self._undo)
        self._stored(holder, key, place, value)

    def _stays(self, key: SlotKey, before: Any, value: Any) -> bool:
        """Whether a store changes nothing: the slot is known to hold this value already."""
        known = key in self.slots or key in self.stored
        return before is value and known and key not in self.carried_values

    def _store_in_component(self, x: Any, name: str, value: Any) -> None:
        """Set an attribute of a module or an optimizer, which registers it."""
        if value is MISSING:
            self.registering([x], functools.partial(delattr, x, name))
        else:
            self.registering([x], functools.partial(setattr, x, name, value))

    def registered_names(self, x: Any) -> None:
        """The names under which a module has registered something are read."""
        place = self.place_of(x)
        if place is None:
            return
        for name in ("_parameters", "_modules"):
            held = own_attributes(x)[name]
            where = Attribute(place, name)
            self.known.setdefault(id(held), (held, where))
            theirs = [key for key in held if (id(held), key) not in self.stored]
            self._add(("keys", id(held)), Names(where, theirs))

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

    def check_hooks(self) -> None:
        """Refuse a function that leaves other hooks than it found."""
        for owner, held, before in self._hooked.values():
            if fingerprint(held) != fingerprint(before):
                every = isinstance(owner, Every)
                whose = "every module or optimizer" if every else f"a {type(owner).__name__}"
                raise self.recorder.refusal(
                    f"hooks of {whose} are others when the function returns, and a replay would "
                    f"not change them",
                    "Register and remove hooks outside.",
                    self._hooked_at,
                )

    def acquire(self, lock: Any, entered: bool, f: Callable[[], Any]) -> Any:
        """Acquire a lock from before; however the recording ends, it is released."""
        taken, count = do_if(f, lock.release, self._undo), self.holds(lock, entered)
        if taken:
            self._locked[id(lock), entered] = count + 1, self.recorder.user_line()
        return taken

    def release(self, lock: Any, entered: bool, f: Callable[[], Any]) -> Any:
        """Release a lock from before, which the function must have acquired.

        A with-block tells of its end alone.
        """
        count = self.holds(lock, entered)
        if count:
            self._locked[id(lock), entered] = count - 1, self._locked[id(lock), entered][1]
            both: list[Any] = [f, functools.partial(self._undo.remove, lock.release)]
            result, _ = map(operator.call, both)  # no interrupt comes in between
            return result
        if not entered:
            raise self.refuse(
                "a lock from outside that the function has not acquired is released, and a replay "
                "would not release it",
                "Release it outside the compiled function.",
            )
        return f()

    def holds(self, lock: Any, entered: bool) -> int:
        """How often the function has acquired a lock, or entered it."""
        return self._locked.get((id(lock), entered), (0, None))[0]

    def note_apart(self) -> None:
        """Containers at two places must stay two where the function changes one of them.

        Those at places of arguments are told apart by the key of a call.
        """
        records = any(
            described_fields(x) and is_passed(place)
            for x, place in self.known.values()
            if place is not None
        )
        if not any(_changes_container(write, records) for write in self.writes):
            return
        keys = [*self.reads, *self.slots, *self.stored]
        used = {part for key in keys for part in key[:2] if type(part) is int}
        used |= self._mutated | self._touched
        stands = self.described | self.stand_ins
        places = [
            place
            for address, (x, place) in self.known.items()
            if not used.isdisjoint((address, id(own_attributes(x, None))))
            and address not in stands
            and isinstance(place, (Argument, NestedPlace, Object, Described))
            and (issubclass(type(x), (list, dict, deque)) or described_fields(x))
            and not is_ours(type(x))
        ]
        if len(places) > 1 and not all(map(is_passed, places)):
            self._add(("apart", 0), Apart(places))

    def check_locks(self) -> None:
        """Refuse a function that does not give back a lock that it has taken."""
        for count, line in self._locked.values():
            if count:
                raise self.recorder.refusal(
                    "a lock from outside that is acquired is still held when the function returns, "
                    "and a replay would not acquire it",
                    "Release it, or acquire it outside.",
                    line,
                )


def _changes_container(write: Write, records: bool) -> bool:
    """Whether a write changes a container, or else, with `records`, an object that may be one."""
    if isinstance(write, Mutation):
        return True
    place = write.place if isinstance(write, SlotStore) else write.target
    if isinstance(place, Item):
        return not isinstance(place, Global)
    return records and isinstance(place, (Attribute, Field))


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
