"""Storages that compiled programs write to: a program counts its replays once for all of them.

A replay touches no storage one by one. A storage adds up the counts of the programs that write to
it when somebody asks for its version.
"""

from __future__ import annotations

import itertools
import weakref
from itertools import compress
from operator import not_
from typing import Any, NamedTuple

from contraflow import threads
from contraflow.tensors.source_line import UserLine
from contraflow.tensors.storage import Storage

moments = itertools.count(1)


class Writes:
    """The writes of a program, counted once per replay for all storages that it writes to."""

    __slots__ = ("count", "last", "owner")

    def __init__(self, owner: weakref.ref[Any]) -> None:
        self.count = self.last = 0  # how often, and when
        self.owner = owner

    def wrote(self, op: str, line: UserLine | None) -> None:
        """Count a write to all of them."""
        self.count += 1
        self.last = next(moments)


class _Log(NamedTuple):
    """The writes to a storage that programs write to.

    Never changed, only replaced as a whole: other threads read it meanwhile.
    """

    own: int  # writes that were not replays
    own_writer: tuple[str, UserLine | None] | None
    moment: int  # of the last of them
    replays: tuple[tuple[Writes, tuple[str, UserLine | None]], ...]

    @property
    def version(self) -> int:
        """The number of writes."""
        return self.own + sum(writes.count for writes, _ in self.replays)

    def last(self) -> tuple[int, tuple[str, UserLine | None] | None]:
        """The moment of the last write, and its writer."""
        when, writer = self.moment, self.own_writer
        for writes, other in self.replays:
            if writes.last > when:
                when, writer = writes.last, other
        return when, writer

    def folded(self) -> _Log:
        """The same log, with the counts of programs that no longer exist as its own writes."""
        alive = [entry[0].owner() is not None for entry in self.replays]
        if all(alive):
            return self
        gone = self._replace(replays=tuple(compress(self.replays, map(not_, alive))))
        return _Log(
            gone.version, gone.last()[1], gone.last()[0], tuple(compress(self.replays, alive))
        )


_counting = threads.recursive_lock()  # held while a log is replaced


class _Replayed(Storage):
    """A storage that programs write to; their counts are added up when its version is asked for."""

    log: _Log

    def wrote(self, op: str, line: UserLine | None) -> None:
        with _counting:
            log = self.log
            self.log = _Log(log.own + 1, (op, line), next(moments), log.replays)

    def written(self) -> Any:
        return self.log

    def forget_since(self, written: Any) -> None:
        if not isinstance(written, _Log):  # no program wrote to it then
            super().forget_since(written)
            return
        own, writer, moment, _ = written
        with _counting:  # programs that were made meanwhile count on
            self.log = _Log(own, writer, moment, self.log.replays)

    @property
    def version(self) -> int:
        """The number of writes."""
        return self.log.version

    @version.setter
    def version(self, number: int) -> None:
        with _counting:
            log = self.log
            self.log = log._replace(own=log.own + number - log.version)

    @property
    def writer(self) -> tuple[str, UserLine | None] | None:
        """The op that wrote last, and its line."""
        return self.log.last()[1]

    @writer.setter
    def writer(self, writer: tuple[str, UserLine | None] | None) -> None:
        with _counting:
            self.log = self.log._replace(own_writer=writer, moment=next(moments))


def count_replays(storage: Storage, writes: Writes, writer: tuple[str, UserLine | None]) -> None:
    """Count the writes of a program's replays to a storage from now on."""
    with _counting:
        if type(storage) is Storage:
            storage.log = _Log(storage.version, storage.writer, 0, ())  # type: ignore[attr-defined]
            storage.__class__ = _Replayed  # whose methods other threads may call at once
        assert isinstance(storage, _Replayed)
        log = storage.log.folded()
        storage.log = log._replace(replays=(*log.replays, (writes, writer)))
