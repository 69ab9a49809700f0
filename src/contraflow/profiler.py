"""The profiler: time per op, per line of user code and per kernel; and memory.

A profile is a context on the thread's stack that notes when each op begins and ends. Gradient rules
are noted under the op they belong to, with the line that applied it. A compiled function still
replays its program; its kernels then run one at a time, and each is noted.
"""

from __future__ import annotations

import json
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import Enum
from functools import partial
from operator import call
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from contraflow.errors import bytes_text
from contraflow.graph.op_node import called
from contraflow.names import getter
from contraflow.operation.context import Context, state
from contraflow.operation.modes import Mode
from contraflow.operation.op import Op
from contraflow.spec import Params
from contraflow.tensors.source_line import UserLine, at, user_line
from contraflow.tensors.storage import Storage
from contraflow.tensors.tensor import Tensor

if TYPE_CHECKING:
    from contraflow.compiler.plan import StepOrigin

__all__ = ["Averages", "Event", "ProfilerActivity", "profile", "record_function"]


class ProfilerActivity(Enum):
    """The kinds of events of PyTorch's profiler. Here each op is noted, on whichever device.

    >>> import contraflow as cf
    >>> with cf.profiler.profile(activities=[ProfilerActivity.CPU]) as prof:
    ...     y = cf.ones(2) + 1
    """

    CPU = 0
    XPU = 1
    CUDA = 3


class Event(NamedTuple):
    """Something that took time. Times are in seconds from the start of the profile.

    >>> import contraflow as cf
    >>> with cf.profiler.profile() as prof:
    ...     y = cf.ones(2).tanh()
    >>> [event.name for event in prof.events if event.name == "tanh"]
    ['tanh']
    """

    name: str
    kind: str  # op, backward, kernel, host (a part of a program that NumPy runs), or user
    line: UserLine | None
    start: float
    total: float
    own: float  # without the events inside
    made: int  # bytes of the results
    op: str = ""  # of a kernel: the op that it is for, as the user called it
    others: tuple[UserLine, ...] = ()  # of a kernel: further lines whose ops it does

    @property
    def title(self) -> str:
        """The name; for a kernel the op and the line."""
        if not self.op:
            return self.name
        more = f" +{len(self.others)}" if self.others else ""
        return f"{self.op}{at(self.line)}{more}"


class Row(NamedTuple):
    """All events of one name, or of one line."""

    name: str
    calls: int
    total: float
    own: float
    made: int


# PyTorch's names of what a table is sorted by.
PYTORCH_NAMES = {
    "count": "calls", "cpu_time_total": "total", "self_cpu_time_total": "own",
    "cuda_time_total": "total", "self_cuda_time_total": "own", "device_time_total": "total",
    "self_device_time_total": "own", "cpu_memory_usage": "made", "cuda_memory_usage": "made",
}  # fmt: skip


class Averages(list[Row]):
    """Rows of events, the costliest first.

    >>> import contraflow as cf
    >>> with cf.profiler.profile() as prof:
    ...     y = cf.ones(2).tanh()
    >>> any(row.name == "tanh" for row in prof.key_averages())
    True
    """

    def table(self, sort_by: str = "own", row_limit: int = 20) -> str:
        """The rows as text, sorted by `own` or `total` time, `calls` or `made` bytes.

        PyTorch's names of these, such as `cpu_time_total`, are taken too.
        """
        sort_by = PYTORCH_NAMES.get(sort_by, sort_by)
        if sort_by not in Row._fields[1:]:
            known = ", ".join(Row._fields[1:])
            raise ValueError(f"table: sort_by is {sort_by!r}; it must be one of {known}.")
        rows = sorted(self, key=lambda row: getattr(row, sort_by), reverse=True)
        everything = sum(row.own for row in self) or 1.0
        width = max([len(row.name) for row in rows[:row_limit]] + [4])
        titles = f"{'calls':>7}  {'own ms':>9}  {'own %':>6}  {'total ms':>9}  made"
        lines = [f"{'name':{width}}  {titles}"]
        lines += [
            f"{row.name:{width}}  {row.calls:7}  {row.own * 1e3:9.3f}  "
            f"{100 * row.own / everything:5.1f}%  {row.total * 1e3:9.3f}  {bytes_text(row.made)}"
            for row in rows[:row_limit]
        ]
        if len(rows) > row_limit:
            lines.append(f"... and {len(rows) - row_limit} more")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table()


EventList = Averages  # PyTorch's name, by which packages annotate


class _TimingContext(Context):
    """Notes what the contexts below do, and when."""

    def __init__(self, below: Context, timeline: profile) -> None:
        super().__init__(below)
        self.timeline: profile = timeline
        # Programs note their kernels on the timeline themselves.
        self.replays, self.hits = below.replays, below.hits

    def apply(self, op: Op, inputs: tuple[Any, ...], params: Params) -> Any:
        name, line = called(op)
        if self.timeline.is_part(op, name):
            return self.below.apply(op, inputs, params)
        with self.timeline.event(name, "op", line) as results:
            out = self.below.apply(op, inputs, params)
            results += out if isinstance(out, (tuple, list)) else (out,)
        return out

    def derive(self, node: Any, named: list[Any]) -> list[Any]:
        with self.timeline.event(node.label, "backward", node.line) as results:
            results += self.below.derive(node, named)
        return results


class _Followed(weakref.ref[Storage]):
    """A storage that was made, and its size. That it is gone is noted in C: an interrupt in a
    callback of Python's would be lost."""

    __slots__ = ("key", "nbytes")
    key: int
    nbytes: int


class profile(Mode):
    """Note what runs in a with-block.

    >>> import contraflow as cf
    >>> with cf.profiler.profile() as p:
    ...     y = cf.ones(8, 8) @ cf.ones(8, 8)
    >>> print(p.key_averages())
    name ...
    matmul ...

    PyTorch's options are taken. Every op is noted on its device, with its line and its bytes,
    whatever they are; `on_trace_ready(profile)` is called at the end of the block.
    """

    def __init__(
        self,
        activities: Iterable[ProfilerActivity] | None = None,
        *,
        schedule: None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
    ) -> None:
        if schedule is not None:
            raise NotImplementedError(
                "profile: schedule is not there. Run the first steps before the with-block, and "
                "those that are to be noted inside."
            )
        self._on_trace_ready = on_trace_ready
        self.events: list[Event] = []
        self._memory: list[tuple[float, int]] = []
        self._live = 0
        self._followed: dict[int, _Followed] = {}  # by the ids of storages
        self._gone: deque[_Followed] = deque()
        self._start = 0.0
        # Per event that is running: the time of those in it, its line and its name.
        self._inside: list[float] = [0.0]
        self._lines: list[UserLine | None] = [None]
        self._names = [""]
        self._entered = SimpleNamespace(end=None)  # one block, whichever thread it is in

    def changes(self) -> dict[str, Any]:
        return {"context": _TimingContext(state().context, self)}

    def __enter__(self) -> profile:
        if self._entered.end is not None:
            raise RuntimeError("profile: is running already; make another one.")
        self._start = time.perf_counter()
        super().__enter__()
        if self._on_trace_ready is not None:
            steps: tuple[Any, ...] = (self._entered.end, partial(self._on_trace_ready, self))
            self._entered.end = partial(deque, map(call, steps), 0)
        return self

    def step(self) -> None:
        """Nothing: every step of the block is noted. PyTorch's programs say here that one ended."""

    # --- noting ---------------------------------------------------------------------------

    @contextmanager
    def event(
        self,
        name: str,
        kind: str,
        line: UserLine | None,
        op: str = "",
        others: tuple[UserLine, ...] = (),
    ) -> Iterator[list[Any]]:
        """Note what a with-block does as an event; it puts its results into the list."""
        line = line or self._lines[-1]  # a kernel belongs to the op that runs it
        self._inside.append(0.0)
        self._lines.append(line)
        self._names.append(name if kind in ("op", "backward") else "")
        results: list[Any] = []
        start = time.perf_counter()
        try:
            yield results
        finally:
            total = time.perf_counter() - start
            inside = self._inside.pop()
            self._inside[-1] += total
            self._lines.pop()
            self._names.pop()
            made = sum(map(self._follow, results))
            begin, own = start - self._start, total - inside
            self.events.append(Event(name, kind, line, begin, total, own, made, op, others))

    def program_step(
        self, name: str, kind: str, origin: StepOrigin
    ) -> AbstractContextManager[list[Any]]:
        """Note a with-block as a kernel, or another step, of a program."""
        return self.event(name, kind, *self._belongs(origin))

    def note_step(
        self, name: str, kind: str, origin: StepOrigin, start: float, total: float
    ) -> None:
        """Note such a step that a device has run and timed; it began `start` by Python's clock."""
        self._inside[-1] += total
        line, op, others = self._belongs(origin)
        begin, line = start - self._start, line or self._lines[-1]
        self.events.append(Event(name, kind, line, begin, total, total, 0, op, others))

    def _belongs(self, origin: StepOrigin) -> tuple[UserLine | None, str, tuple[UserLine, ...]]:
        """The line, the op and the other lines of a step. One of an op that runs eagerly is for
        that op, whichever call the program was recorded for."""
        if self._names[-1]:
            return self._lines[-1], self._names[-1], ()
        return origin.line, origin.op, origin.others

    def is_part(self, op: Op, name: str) -> bool:
        """Whether an op is part of what is running and has no name that users know."""
        running = self._names[-1]
        return running == name or (op.internal and running != "")

    def _follow(self, x: Any) -> int:
        """The bytes of a result, whose storage is followed until it is gone."""
        if not isinstance(x, Tensor) or x.storage.is_recorded:
            return 0
        self._note_gone()
        key = id(x.storage)
        if key not in self._followed:
            followed = self._followed[key] = _Followed(x.storage, self._gone.append)
            followed.key, followed.nbytes = key, x.storage.data.nbytes
            self._change(followed.nbytes)
        return x.nbytes

    def _note_gone(self) -> None:
        """Count the storages that have gone since the last call."""
        while self._gone:
            followed = self._gone.popleft()
            del self._followed[followed.key]
            self._change(-followed.nbytes)

    def _change(self, count: int) -> None:
        self._live += count
        self._memory.append((time.perf_counter() - self._start, self._live))

    # --- reading --------------------------------------------------------------------------

    def key_averages(self, group_by: str = "name") -> Averages:
        """The events by name, or by the user's "line".

        A kernel is named by the op that it is for. Where kernels of a line do ops of other lines
        too, their time is in the row of that line, whose name ends in their number, such as `+3`.
        """
        if group_by not in ("name", "line"):
            raise ValueError(
                f"key_averages: group_by is {group_by!r}; it must be 'name' or 'line'."
            )
        groups: dict[str, list[Event]] = {}
        for event in self.events:
            key = _name_of(event) if group_by == "name" else str(event.line or "elsewhere")
            groups.setdefault(key, []).append(event)
        return Averages(
            Row(
                name if group_by == "name" else _with_others(name, events),
                len(events),
                sum(e.total for e in events),
                sum(e.own for e in events),
                sum(e.made for e in events),
            )
            for name, events in groups.items()
        )

    @property
    def memory(self) -> list[tuple[float, int]]:
        """Pairs (seconds since the start, bytes): the results that are alive, at each change."""
        self._note_gone()
        return self._memory

    @property
    def peak_memory(self) -> int:
        """The most bytes that were alive at once, of what was made in the block."""
        return max((live for _, live in self.memory), default=0)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write a file that chrome://tracing and ui.perfetto.dev show."""
        process, thread = os.getpid(), threading.get_ident()
        rows: list[dict[str, Any]] = [
            {
                "name": event.title, "cat": event.kind, "ph": "X", "pid": process, "tid": thread,
                "ts": event.start * 1e6, "dur": event.total * 1e6,
                "args": {
                    "line": str(event.line or ""), "bytes": event.made,
                    **({"kernel": event.name, "lines": list(map(str, event.others))}
                       if event.op else {}),
                },
            }
            for event in self.events
        ]  # fmt: skip
        rows += [
            {"name": "memory", "ph": "C", "pid": process, "ts": when * 1e6, "args": {"bytes": live}}
            for when, live in self.memory
        ]
        Path(path).write_text(json.dumps({"traceEvents": rows, "displayTimeUnit": "ms"}))


def _name_of(event: Event) -> str:
    """The row of an event in a table by names."""
    if event.kind in ("op", "user"):
        return event.name
    op = f"{event.op} " if event.op != event.name and event.op else ""
    return f"{op}{event.name} ({event.kind})"


def _with_others(line: str, events: Sequence[Event]) -> str:
    """A line, and the number of other lines whose ops its kernels do."""
    others = {str(other) for event in events for other in event.others} - {line}
    return f"{line} +{len(others)}" if others else line


@contextmanager
def record_function(name: str) -> Iterator[None]:
    """Give a part of your code a name in the profile that is running, if one is.

    >>> import contraflow as cf
    >>> with cf.profiler.profile() as prof:
    ...     with record_function("forward"):
    ...         y = cf.ones(2).tanh()
    >>> any(row.name == "forward" for row in prof.key_averages())
    True
    """
    timeline = state().context.timeline
    with nullcontext() if timeline is None else timeline.event(name, "user", user_line()):
        yield


globals()["__getattr__"] = getter(__name__)
