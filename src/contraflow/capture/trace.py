"""Tracing: one call runs under a recorder, and becomes a program with inputs and effects."""

from __future__ import annotations

import gc
import warnings
from collections import Counter
from time import perf_counter
from typing import Any

from contraflow import collector, thresholds
from contraflow.capture.call import FunctionCall, Owner
from contraflow.capture.findings import Findings
from contraflow.capture.observing.ahead import read_ahead, warn_once
from contraflow.capture.observing.alarm import alarmed, describe_code
from contraflow.capture.observing.observe import hide_observer, observing
from contraflow.capture.observing.observer import Observer
from contraflow.capture.observing.settings import unchanged_settings
from contraflow.capture.replay import CapturedProgram
from contraflow.capture.restart import Attempt, CellsToFix, NumbersToFix, PlacesToGuard
from contraflow.capture.rewriting import rewrite
from contraflow.capture.state.trees import ARRAY, flatten, holds_shared, markers, rebuild
from contraflow.contexts.record import Recorder
from contraflow.errors import CaptureError
from contraflow.operation.context import changed
from contraflow.tensors.epoch import Structure
from contraflow.tensors.symbol import ValueNeeded
from contraflow.tensors.tensor import Tensor


def record_call(owner: Owner, call: FunctionCall, attempt: Attempt) -> CapturedProgram:
    """Record one call and load its program. Nothing real is changed by it.

    Unless it is `settled` which places are carried, PlacesToCarry says that more of them should be.
    Numbers among the leaves become host scalars, unless they are `fixed`. NumbersToFix says that
    more of them must be, and CellsToFix that host scalars of optimizers must be.
    """
    loose = {i for i, x in enumerate(call.leaves) if not isinstance(x, Tensor)} - attempt.fixed
    recorder = Recorder(owner.name, list(call.arguments), len(call.leaves), attempt.fixed_cells)
    collecting = gc.isenabled()
    try:
        gc.disable()  # what a capture makes it also keeps: the collector would only walk over it
        gc.collect(0)  # from here on, what is in the youngest generation is the function's
        program = _record_and_load(owner, recorder, call, loose, attempt)
        if collecting:
            collector.keep_young()
        return program
    except ValueNeeded:
        if recorder.cells_needed:
            raise CellsToFix(recorder.cells_needed) from None
        raise NumbersToFix(recorder.symbols.needed) from None
    except (CaptureError, TypeError):
        if not loose:
            raise
        # It may be fine with the numbers themselves, which some functions of C insist on.
        raise NumbersToFix(loose) from None
    finally:
        if collecting:
            gc.enable()


def _record_and_load(
    owner: Owner, recorder: Recorder, call: FunctionCall, loose: set[int], attempt: Attempt
) -> CapturedProgram:
    """Run the function observed, describe what it did as a program, put all back, and load it."""
    args, kwargs, contents = _shown_arguments(recorder, call, loose)
    observer = Observer(recorder)
    recorder.show = observer.show
    observer.again, observer.fills_caches = attempt.again, attempt.fills_caches
    observer.carry(attempt.carried_places, contents, call.given)
    findings, started = Findings(owner, recorder, call, observer, attempt.settled), perf_counter()
    try:
        # Hooks on saved values from around the call are not part of what is recorded.
        with (
            changed(context=recorder, saved_hooks=(), region=0, line=None),
            observing(observer),
            alarmed() as unobserved,
        ):
            Structure.observed = rewrite.KNOWN
            observer.stand_for(call.given, args, kwargs)
            observer.begin(owner.function, owner.instance, args, kwargs)
            if not rewrite.KNOWN:
                read_ahead(observer, owner.function)
            with unchanged_settings(observer):
                result = owner.eager(*args, **kwargs)
            program = findings.as_program(result)
            del result
            if recorder.symbols.needed or recorder.cells_needed:  # somebody has caught it
                raise ValueNeeded
            if observer.found_by_c:
                raise PlacesToGuard(observer.found_by_c)
            if observer.refused is not None:
                raise observer.refused
    except BaseException as error:
        observer.copies.put_back()
        hide_observer(error)
        raise
    finally:
        del args, kwargs, contents
        observer.forget()
        try:
            recorder.restore()
        except KeyboardInterrupt:  # it must be done all the same
            recorder.restore()
            raise
    program.carried_places = tuple(attempt.carried_places)
    program.record_ms = (perf_counter() - started) * 1e3
    _warn_if_long(owner, program)
    if not rewrite.KNOWN:
        warn_once()
    _warn_if_unobserved(owner, [describe_code(code) for code in unobserved])
    _load(program, findings)
    return program


def _load(program: CapturedProgram, findings: Findings) -> None:
    """Guard on the tensors that are known, and make the program ready to run."""
    program.guards.watch(findings.known, findings.call.arguments)  # as they were before the call
    findings.known = []
    try:
        findings.describe_escapes()
        program.load()
    except BaseException:
        findings.observer.copies.put_back()
        raise


def _warn_if_long(owner: Owner, program: CapturedProgram) -> None:
    """Say of a very long tape, once, which line of the user's makes it so."""
    lines = [*program.tape.lines, *(program.pullback.tape.lines if program.pullback else ())]
    if len(lines) <= thresholds.long_tape or owner.warned:
        return
    owner.warned = True
    found = Counter(line.line for line in lines)
    texts: Counter[str] = Counter()
    for line, times in found.items():
        texts[str(line)] += times
    where, count = texts.most_common(1)[0]
    warnings.warn(
        f"compile({owner.name}): {len(lines)} ops were recorded, {count} of them at {where}. A "
        f"loop in Python is recorded step by step. Compile what it repeats, or use ops over whole "
        f"tensors.",
        stacklevel=8,
    )


def _warn_if_unobserved(owner: Owner, found: list[str]) -> None:
    """Say of functions that ran unobserved, once, that what they read may go unnoticed."""
    if found and not owner.unobserved:
        warnings.warn(
            f"compile({owner.name}): {found[0]} ran while recording and was not observed, so that "
            f"nobody notices when what it reads changes. Call it from Python code of yours, or "
            f"compare the first n calls with eager: cf.compile(f, verify=n).",
            stacklevel=8,
        )
    owner.unobserved += [text for text in found if text not in owner.unobserved]


def _shown_arguments(recorder: Recorder, call: FunctionCall, loose: set[int]) -> Any:
    """The values that the function is given: symbols for loose numbers, and the user's own.

    These are the positional and the named arguments, and the contents of carried slots. The
    recorder gets the tensors that stand for NumPy arrays.
    """
    leaves = list(call.leaves)
    for i in loose:
        leaves[i] = recorder.symbol(leaves[i], i)
    tensors = recorder.array_arguments
    args, kwargs = call.given
    _, (positional, named, carried) = call.structure
    end = 0  # of the leaves that were taken
    is_shared, stand_ins = holds_shared(call.structure), dict[int, Any]()

    def shown(structure: Any, own: Any) -> Any:
        nonlocal end
        start, found = end, markers(structure)
        end += len(found)
        own_leaves = leaves[start:end]
        if ARRAY in found:
            originals: list[Any] = []
            flatten(own, originals, weak=True)
            for i in (i for i, marker in enumerate(found) if marker == ARRAY):
                tensors[id(originals[i])] = own_leaves[i]
                own_leaves[i] = originals[i]
        # The stand-in of a container is found wherever the container is.
        if loose.isdisjoint(range(start, end) if not is_shared else range(len(leaves))):
            return own
        made = rebuild(structure, iter(own_leaves), stand_ins)
        for name, value in getattr(own, "__dict__", {}).items():
            made.__dict__.setdefault(name, value)  # beside the fields of a dataclass
        return made

    return (
        [shown(part, x) for part, x in zip(positional[1], args)],
        {name: shown(part, kwargs[name]) for name, part in named[1]},
        [shown(part, x) for part, x in zip(carried[1], call.carried_values)],
    )
