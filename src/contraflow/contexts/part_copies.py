"""Copies of parts of tensors, at places that a recording does not know.

`x[n]` is a view in eager mode. Where `n` is an input of the program, a recorder copies the elements
instead. The copy is as good as the view until one of both is written to and the other is used. The
recorder asks here before each use: a recording in which that happens starts again with the number
as a constant, or is refused if the index is a tensor.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from contraflow.compiler.tape import Value
from contraflow.shapes import View
from contraflow.tensors.storage import Storage


@dataclass(eq=False, repr=False)
class PartCopy:
    """A copy that stands for a view: its storage, and that of the tensor it is a part of."""

    storage: Storage
    whole: Storage
    place: tuple[View, Any]  # the layout of the tensor that was indexed, and the index
    value: Value | None  # which the whole had when it was copied
    symbols: tuple[Any, ...]  # in the index; none where that is a tensor
    written: bool = False

    def is_of(self, whole: Storage, place: tuple[View, Any]) -> bool:
        """Whether it was taken from there, by the index itself."""
        layout, key = place
        return self.whole is whole and self.place[0] == layout and self.place[1] is key


class PartCopies:
    """The copies of one recording; `fail` is called with one that eager mode would tell from a
    view."""

    def __init__(
        self, values: Callable[[int], Value | None], fail: Callable[[PartCopy], None]
    ) -> None:
        self._values = values  # what a storage holds, by its id
        self._fail: Callable[[PartCopy], None] = fail
        self._copies: dict[int, PartCopy] = {}  # by id of the storage of the copy
        self._parts: dict[int, list[PartCopy]] = defaultdict(list)  # by that of the whole
        self._left: set[int] = set()  # storages of results, by id

    def add(self, part: PartCopy) -> None:
        """Note a copy."""
        self._copies[id(part.storage)] = part
        self._parts[id(part.whole)].append(part)

    def use(self, storage: Storage) -> None:
        """A storage is about to be read or written."""
        part = self._copies.get(id(storage))
        if part is not None and self._values(id(part.whole)) != part.value:
            self._fail(part)
        for part in self._parts.get(id(storage), ()):
            if part.written:
                self._fail(part)

    def write(self, storage: Storage) -> None:
        """A storage is about to be written."""
        self.use(storage)
        part = self._copies.get(id(storage))
        if part is not None:
            part.written = True

    @contextmanager
    def putting_back(
        self, storage: Storage, whole: Storage, place: tuple[View, Any]
    ) -> Iterator[None]:
        """A copy may be written to the place that it was taken from, as `x[n] += 1` ends."""
        part = self._copies.get(id(storage))
        if part is None or not part.is_of(whole, place) or part.value != self._values(id(whole)):
            yield
            return
        part.written = False
        yield
        part.value = self._values(id(whole))

    def leave(self, storage: Storage) -> None:
        """A storage is about to be that of a result, whose memory views would share."""
        self.use(storage)
        part = self._copies.get(id(storage))
        parts = [p for p in self._parts.get(id(storage), ()) if id(p.storage) in self._left]
        if part is not None and (not part.whole.is_recorded or id(part.whole) in self._left):
            parts.append(part)
        for part in parts:
            if part.symbols:
                self._fail(part)
        self._left.add(id(storage))

    def end(self) -> None:
        """The function has returned: what was written to a copy is not in a tensor from outside."""
        for part in self._copies.values():
            if part.written and not part.whole.is_recorded:
                self._fail(part)

    def clear(self) -> None:
        """Let go of the storages, and of the recorder, whose method `fail` may be."""
        self._copies, self._parts, self._fail = {}, defaultdict(list), _never


def _never(part: PartCopy) -> None:
    raise AssertionError("a recording that has ended has no copies")
