"""A compiled function: recorded once per key, then replayed as a program.

Which of the programs of a key (`key.py`) serves a call is up to their guards (`guards.py`).
"""

from __future__ import annotations

import copy
import functools
import operator
import os
import sys
import types
import warnings
import weakref
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from contraflow import config, threads, thresholds
from contraflow.capture.call import FunctionCall, Hit, ReplayInputs, call_of
from contraflow.capture.compile import CompileOptions, compiled_function
from contraflow.capture.explain import (
    ProgramMemory,
    change_of,
    explain,
    memory_of,
    parameter_names,
)
from contraflow.capture.findings import return_line
from contraflow.capture.hit import MISS, misses, write_hit
from contraflow.capture.key import CallKey, key_of
from contraflow.capture.observing.carried import can_be_carried, identity
from contraflow.capture.parts import CutCall, cut_out
from contraflow.capture.replay import CapturedProgram
from contraflow.capture.restart import (
    Attempt,
    CachesFilled,
    CellsToFix,
    NumbersToFix,
    PartsSeen,
    PlacesToCarry,
    PlacesToGuard,
)
from contraflow.capture.rewriting import rewrite
from contraflow.capture.state.places import MISSING, NOTHING_THERE, GivenArguments, Place
from contraflow.capture.state.trees import NoStructure, flatten
from contraflow.capture.trace import record_call
from contraflow.capture.verify import replay_verified
from contraflow.compiler.tape import Tape
from contraflow.contexts.record import refusal
from contraflow.errors import CaptureError, counted
from contraflow.graph.saved import SavedHooks
from contraflow.operation.context import ThreadState, state
from contraflow.tensors.host_scalar import HostScalar
from contraflow.tensors.tree import exact

REASONS_KEPT = 8  # the last refusals, and the last changes, that `explain` lists


def _itself(x: Any) -> Any:
    return x


class Compiled:
    """A function that is recorded once per key and replayed."""

    def __init__(self, function: Callable[..., Any], options: CompileOptions) -> None:
        functools.update_wrapper(self, function, updated=())
        self.enabled, self.cache_size, name, self.verify, self._warns = options
        self.name: str = name or str(getattr(function, "__name__", type(function).__name__))
        self.function = function
        self._instance: Callable[[], Any] | None = None
        if isinstance(function, types.MethodType):
            # The object may hold this method, so the method does not keep the object alive.
            self.function = self.__wrapped__ = function.__func__
            try:
                self._instance = weakref.ref(function.__self__)
            except TypeError:  # the class has `__slots__` without `__weakref__`
                self._instance = functools.partial(_itself, function.__self__)
        self.captures = 0
        self.refusals: list[str] = []  # why calls could not be captured, the last few
        self.changes: list[str] = []  # why calls were recorded again, the last few
        self.escape_lines: set[str] = set()
        self.warned = False
        self.unobserved: list[str] = []  # functions that ran unobserved while recording
        # Several to a key: which fits depends on `.grad` slots and aliasing with state.
        self._programs: OrderedDict[CallKey, list[CapturedProgram]] = OrderedDict()
        # The key and the programs of the last call: comparing keys takes less than hashing one.
        self._last_key: CallKey | None = None
        self._last_programs: list[CapturedProgram] = []
        self._hit: Hit = misses  # the hit of the program that was used last
        # Per structure of arguments, the positions of numbers whose values the function needs.
        self._fixed: dict[Any, frozenset[int]] = {}
        # Numbers of optimizers whose values the function asks for.
        self._fixed_cells: list[weakref.ref[HostScalar]] = []
        self._carried_places: list[Place] = []  # the values there are inputs beside the arguments
        self._guarded_places: list[Place] = []  # those that cannot be inputs
        self._changed: Counter[str] = Counter()  # how often guards found another number or tensor
        self._cuts = rewrite.KNOWN  # whether arguments that are parts are memory of their own
        self._lock = threads.recursive_lock()

    @property
    def eager(self) -> Callable[..., Any]:
        """The function itself. A compiled method does not keep its object alive."""
        instance = self.instance
        return self.function if instance is None else types.MethodType(self.function, instance)

    @property
    def instance(self) -> Any:
        """The object whose method is compiled."""
        if self._instance is None:
            return None
        instance = self._instance()
        if instance is None:
            raise ReferenceError(
                f"compile({self.name}): the object this method belongs to no longer exists; keep a "
                f"reference to it."
            )
        return instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not kwargs and self.enabled and not self.verify:
            with self._lock:
                result = self._hit(args)
            if result is not MISS:
                return result
        return self._call(args, kwargs)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Find or record the program for a call, and run it."""
        current = state()
        # Anomaly mode, which looks for values that are not finite op by op, runs eagerly, and so do
        # hooks of the user's on each value that an op saves.
        hooks = current.saved_hooks
        packed = bool(hooks) and type(hooks[-1]) is SavedHooks
        replays = current.context.replays and not current.anomaly and not packed
        if not replays or not self.enabled or config.compile_mode == "off":
            return self.eager(*args, **kwargs)
        given = args, kwargs
        with self._lock:
            cut = cut_out(given) if self._cuts and current.context.hits else None
            if cut is not None:
                result = self._hit_parts(cut)
                if result is MISS:
                    result = self._serve(cut.given, current, cut)
                if result is not MISS:
                    return result
                self._cuts = False
            return self._serve(given, current, None, again=cut is not None)

    def _hit_parts(self, cut: CutCall) -> Any:
        """Try the program that was found last for a call with parts cut out."""
        args, kwargs = cut.given
        known = self._last_programs[:1]
        if kwargs or self.verify or not known or known[0].hit is not self._hit:
            return MISS
        return self._hit(tuple(args)) if cut.serves(known[0]) else MISS

    def _serve(
        self, given: GivenArguments, current: ThreadState, cut: CutCall | None, again: bool = False
    ) -> Any:
        """Find or record the program for a call, and run it; a miss if it must not be cut."""
        call = self._call_of(given)
        key = self._key(call, current)
        if key != self._last_key:
            self._turn_to(key)
        for position, program in enumerate(self._last_programs):
            if program.guards.hold(call.arguments, call.given) and (not cut or cut.serves(program)):
                inputs = program.find_inputs(call)
                if inputs is not None:
                    if position:  # the program used last is tried first, and forgotten last
                        self._last_programs.insert(0, self._last_programs.pop(position))
                    result = self._run(program, call, inputs)
                    if program.hit is None:
                        program.hit = write_hit(program, call, key)
                    self._hit = program.hit
                    return result
        self._hit, changes = misses, self.changes
        self._note_change(key, call)
        if self._learn_changes(given):
            call = self._call_of(given)
            key = self._key(call, current)
        try:
            program, key, call = self._record_until_settled(call, key, again)
        except PartsSeen:
            self.changes = changes
            return MISS
        if cut is not None and cut.is_seen(program):
            self.changes = changes
            return MISS
        if program.recording.looks_around:
            self._cuts = False
        inputs = program.find_inputs(call)
        if inputs is None:
            raise refusal(
                self.name,
                "a result can be differentiated by a leaf that the function makes around a tensor "
                "from outside, and that is gone when it ends, so that no replay would find it",
                "Make the leaf outside, or of a copy, or return the result detached.",
                return_line(self.function),
            )
        program.guards.forget_gone()
        self.captures += 1
        if self.captures == thresholds.many_captures and self._warns:
            self._warn()
        if not program.escapes and not program.recording.once:
            self._keep(key, program)
        return self._run(program, call, inputs)

    def _call_of(self, given: GivenArguments) -> FunctionCall:
        carried = [_contents(place, given) for place in self._carried_places]
        try:
            return call_of(given, carried)
        except (NoStructure, RecursionError):
            raise next(self._refused(given)) from None

    def _refused(self, given: GivenArguments) -> Iterator[CaptureError]:
        """Errors for arguments that cannot be part of a key."""
        names = parameter_names(self.function, self.instance, len(given[0]))
        for name, x in (*zip(names, given[0]), *given[1].items()):
            try:
                flatten(x, [], weak=True)
            except NoStructure as error:
                yield refusal(self.name, f"{name} is or holds {error}", error.remedy)
            except RecursionError:
                problem = f"{name} is or holds a container that contains itself"
                yield refusal(self.name, problem, "Pass what is needed of it.")

    def _turn_to(self, key: CallKey) -> None:
        """Look up the programs of a key."""
        self._last_key, self._last_programs = key, self._programs.get(key, [])
        if self._last_programs:
            self._programs.move_to_end(key)

    def _record_until_settled(
        self, call: FunctionCall, key: CallKey, again: bool
    ) -> tuple[CapturedProgram, CallKey, FunctionCall]:
        """Record a call until all its inputs are known: the program, its key, and the call."""
        settled = False  # all that can be carried is
        learned = 0  # how often it turned out that more has to be carried
        filled = 0  # how often caches were
        before = dict(self._fixed)
        while True:
            fixed = self._fixed.get(call.structure, frozenset())
            try:
                attempt = Attempt(
                    fixed, self._carried_places, settled, again, filled < thresholds.filled_caches,
                    [cell for ref in self._fixed_cells if (cell := ref()) is not None],
                )  # fmt: skip
                return record_call(self, call, attempt), key, call
            except PlacesToCarry as found:
                placed = *self._carried_places, *self._guarded_places
                known = {identity(place, call.given) for place in placed}
                new = [p for p in found.places if identity(p, call.given) not in known]
                learned += 1
                if learned > thresholds.learned_recordings:
                    raise self._refusal(new) from None
                self._carried_places += new
                settled = not new
                call = self._call_of(call.given)
                key = self._key(call, state())
            except PlacesToGuard as found:
                known = {identity(place, call.given) for place in self._guarded_places}
                if all(identity(place, call.given) in known for place in found.places):
                    raise self._refusal(found.places) from None
                self._guarded_places += found.places
                self._carried_places = [p for p in self._carried_places if p not in found.places]
                call = self._call_of(call.given)
                key = self._key(call, state())
            except CachesFilled:
                filled += 1
            except CellsToFix as found:
                self._fixed_cells += map(weakref.ref, found.cells)
            except NumbersToFix as found:
                assert not found.leaves <= fixed
                if len(self._fixed) > thresholds.kept_structures:
                    self._fixed.clear()
                self._fixed[call.structure] = fixed | found.leaves
                key = self._key(call, state())
            except BaseException as error:
                self._fixed = before  # a way that ends in an error says nothing about others
                if isinstance(error, CaptureError):
                    self._note_refusal(error)
                raise
            again = True

    def _refusal(self, places: Sequence[Place]) -> CaptureError:
        """The error for places that turn out to be inputs of the program again and again."""
        self._carried_places = []
        error = refusal(
            self.name,
            f"after {thresholds.learned_recordings} recordings it is not settled what the function "
            f"reads and changes beside its arguments: {', '.join(map(str, places[:4]))}",
            "Pass that as an argument, and return what becomes of it.",
        )
        self._note_refusal(error)
        return error

    def _note_refusal(self, error: CaptureError) -> None:
        self.refusals = [*self.refusals[-REASONS_KEPT + 1 :], str(error)]

    def _run(self, program: CapturedProgram, call: FunctionCall, inputs: ReplayInputs) -> Any:
        # Values that a call leaves for later ones do not exist yet for an eager run before it.
        if not self.verify or program.escapes:
            return program.replay(call, inputs)
        self.verify -= 1
        return replay_verified(program, call, inputs)

    def _keep(self, key: CallKey, program: CapturedProgram) -> None:
        """Put a program before the others of its key, and forget those used longest ago."""
        # Those that do not fit now may again: a module may go back from eval to training.
        self._programs[key] = [program, *self._programs.pop(key, [])]
        self._turn_to(key)
        while sum(map(len, self._programs.values())) > self.cache_size:
            oldest = next(iter(self._programs))
            self._programs[oldest].pop()
            if not self._programs[oldest]:
                del self._programs[oldest]

    def _key(self, call: FunctionCall, current: ThreadState) -> CallKey:
        """All that a program may depend on beside values: tensors, modes, surroundings."""
        numbers: tuple[Any, ...] = ()
        if self._fixed and len(call.leaves) > len(call.arguments):
            fixed = self._fixed.get(call.structure, ())
            numbers = tuple([exact(call.leaves[i]) for i in sorted(fixed)])
        return key_of(call, numbers, current, self.name)

    def _learn_changes(self, given: GivenArguments) -> bool:
        """Make numbers and tensors that have changed again inputs; whether there are new ones."""
        if not rewrite.KNOWN:
            return False
        changed = [program.guards.changed_value(given) for program in self._last_programs]
        places = {identity(place, given): place for place in changed if place is not None}
        self._changed.update(map(str, places.values()))
        for known in (*self._carried_places, *self._guarded_places):
            places.pop(identity(known, given), None)
        new = [
            place
            for place in places.values()
            if self._changed[str(place)] >= thresholds.seen_changes
        ]
        self._carried_places += new
        return bool(new)

    def _note_change(self, key: CallKey, call: FunctionCall) -> None:
        """Say why a call has to be recorded though others were."""
        before = next(reversed(self._programs), None)
        if before is None:
            return
        names = parameter_names(self.function, self.instance, len(call.given[0]))
        parts = [*names, *call.given[1], *map(str, self._carried_places)]
        fixed = sorted(self._fixed.get(call.structure, ()))
        change = change_of(self._programs[before][0], before, key, call, parts, fixed)
        self.changes = [*self.changes[-REASONS_KEPT + 1 :], change]

    def _warn(self) -> None:
        change = self.changes[-1] if self.changes else "no program could be kept"
        warnings.warn(
            f"compile({self.name}): recorded {self.captures} times, the last time because "
            f"{change}. Each change records again.",
            stacklevel=5,
        )

    @property
    def programs(self) -> list[CapturedProgram]:
        """The programs in the cache, oldest first."""
        return [p for known in self._programs.values() for p in reversed(known)]

    @property
    def tape(self) -> Tape:
        """The tape of the program recorded or used last."""
        return self._last().tape

    def _last(self) -> CapturedProgram:
        if not self._programs:
            why = (
                "the last one serves one call only."
                if self.captures
                else "no call has been recorded. Call it first."
            )
            raise CaptureError(f"compile({self.name}): no program is kept, since {why}")
        return self.programs[-1]

    def clear(self) -> None:
        """Forget all programs."""
        with self._lock:
            self._programs.clear()
            self._last_key, self._last_programs, self._hit = None, [], misses
            self.captures = 0
            self.refusals.clear()
            self.changes.clear()
            self.escape_lines.clear()
            self.unobserved.clear()
            self._fixed.clear()
            self._carried_places.clear()
            self._guarded_places.clear()
            self._changed.clear()

    @property
    def kernels(self) -> list[str]:
        """The names of the kernels of the program recorded or used last, in order."""
        return self._last().executable.kernels

    @property
    def memory(self) -> ProgramMemory:
        """The bytes that the program recorded or used last needs beside its inputs."""
        return memory_of(self._last())

    def explain(self) -> str:
        """A report of what was captured, guarded and refused, what runs, and times of stages."""
        return explain(
            self.name, self.programs, self.captures, self.changes, self.refusals, self.unobserved
        )

    def export_web(self, folder: str | os.PathLike[str], *others: Any) -> None:
        """Write the program recorded or used last, which runs on webgpu, for browsers.

        The folder gets a plan, the texts of the kernels, the state (parameters, what optimizers
        keep, random state) and `contraflow.js`, a module that runs all that by the browser's own
        WebGPU. Others are compiled functions that run there on the same state: `step` trains a
        model and `predict` uses it.

            step(x, y)
            step.export_web("site/model", predict)
        """
        functions = [self, *map(_compiled, others)]
        web = threads.imported("contraflow.capture.web.bundle")
        web.export(folder, [web.ExportedFunction(f, *f._last_with_key()) for f in functions])

    def _last_with_key(self) -> tuple[CapturedProgram, CallKey]:
        with self._lock:
            return self._last(), next(reversed(self._programs))

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else CompiledMethod(self, instance)

    def __repr__(self) -> str:
        name = getattr(self, "__qualname__", self.name)
        return f"<compiled function {name} with {counted(len(self.programs), 'program')}>"

    # As functions are copied and pickled: by reference, and a method with its object.

    def __copy__(self) -> Compiled:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Compiled:
        if self._instance is None:
            return self
        return Compiled(copy.deepcopy(self.eager, memo), self.options)

    def __reduce__(self) -> Any:
        name = getattr(self, "__qualname__", "")
        try:
            found = operator.attrgetter(name)(sys.modules[self.__module__])
        except (AttributeError, KeyError):
            found = None
        return name if found is self else (compiled_function, (self.eager, self.options))

    @property
    def options(self) -> CompileOptions:
        """How the function is compiled."""
        return CompileOptions(self.enabled, self.cache_size, self.name, self.verify, self._warns)


class CompiledMethod(functools.partial[Any]):
    """A compiled function as the method of an object; it answers all that the function does."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.func, name)

    @property
    def eager(self) -> Callable[..., Any]:
        """The method itself."""
        function: Any = self.func
        return types.MethodType(function.eager, self.args[0])

    __wrapped__ = eager  # whose signature it has

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledMethod:
        return CompiledMethod(self.func, copy.deepcopy(self.args[0], memo))

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        return self.func.__doc__

    def __eq__(self, other: object) -> bool:
        if type(other) is not CompiledMethod:
            return NotImplemented
        return self.func is other.func and self.args[0] is other.args[0]

    def __hash__(self) -> int:
        return hash((self.func, id(self.args[0])))

    def __repr__(self) -> str:
        return f"<compiled method {self.func.__qualname__} of {self.args[0]!r}>"


def _compiled(x: Any) -> Compiled:
    """The compiled function that a compiled function, method or module is."""
    found = getattr(getattr(x, "export_web", None), "__self__", None)
    if not isinstance(found, Compiled):
        raise TypeError(
            f"export_web: {type(x).__name__} is not a compiled function. Compile it, and call it "
            "once: contraflow.compile(f)."
        )
    return found


def _contents(place: Place, given: GivenArguments) -> Any:
    """The value carried at a place; only its type if it cannot be an input."""
    try:
        value = place.get(given)
    except NOTHING_THERE:
        return MISSING
    return value if can_be_carried(value) else type(value)
