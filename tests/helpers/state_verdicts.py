"""What becomes of a random program of state: it agrees with eager, is refused rightly, or fails.

A program that fails is shrunk, line by line, to one that fails alike.
"""

from __future__ import annotations

import contextvars
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.helpers.state_programs import Program, formed, program
from tests.helpers.state_worlds import Compile, Notes, World, argument, difference

import contraflow as cf
from contraflow import config

CALLS = 3  # of a round; one more of the first, which learns what is carried from call to call


class Failure(AssertionError):
    """A compiled program that is not what eager is."""


def calls(
    made: Program, compiler: Compile | None, library: Any = cf
) -> Iterator[tuple[str, Notes, Any]]:
    """The name of each call, what it left, and what was called."""
    world = World(made.form, compiler, library)
    try:
        for part in range(len(made.form.parts)):
            if part:
                world.change(part)
            count = CALLS if part else CALLS + 1
            for k in range(count):
                x = argument(k, library)
                result = world.call(x)
                name = f"call {k + 1} of round {part + 1}{', the last' if k + 1 == count else ''}"
                yield name, world.seen(argument=x, result=result), world.call
    finally:
        world.leave()


def check(seed: int) -> str:
    """Fail unless the program of a seed is the same eagerly and compiled; say how it ended."""
    made = program(seed)
    with warnings.catch_warnings(), in_float64():
        warnings.simplefilter("ignore")  # about the eighth recording
        try:
            return contextvars.copy_context().run(refusal if made.refused else agreement, made)
        except Exception as error:
            if isinstance(error, cf.CaptureError) and made.may_be_refused:
                return "refused"
            small = shrunk(made, type(error))
            error.add_note(f"seed {seed}, of which this is enough:\n{numbered(small.source)}")
            raise


@contextmanager
def in_float64() -> Iterator[None]:
    """What programs do again and again (sines of sums) magnifies a last bit, here by nothing that
    matters beside a stale value."""
    before = cf.get_default_dtype()
    cf.set_default_dtype(cf.float64)
    try:
        yield
    finally:
        cf.set_default_dtype(before)


def agreement(made: Program) -> str:
    with eagerly():
        expected = list(calls(made, None))
    recorded, last = [0], ""
    for (name, seen, call), (_, eager, _) in zip(calls(made, cf.compile), expected):
        found = difference(seen, eager)
        if found:
            raise Failure(f"program {made.seed}, {name}: {found}")
        recorded.append(call.captures)
        if made.steady and name.endswith("the last") and recorded[-1] > recorded[-2]:
            last = last or name
    if last:
        raise Failure(f"program {made.seed}, {last} was recorded: {recorded[1:]} recordings")
    return "agrees"


def refusal(made: Program) -> str:
    world = World(made.form, cf.compile)
    before = world.seen()
    for _ in range(2):
        try:
            world.call(argument(0))
        except cf.CaptureError:
            found = difference(world.seen(), before)
            if found:
                raise Failure(f"program {made.seed} was refused, and {found}") from None
        else:
            raise Failure(f"program {made.seed} was not refused")
    world.leave()
    return "refused"


def shrunk(made: Program, kind: type[Exception]) -> Program:
    """A program of fewer lines that fails alike."""

    def fails(candidate: Program) -> bool:
        try:
            with eagerly():
                contextvars.copy_context().run(lambda: list(calls(candidate, None)))
        except Exception:  # what is missing now was needed
            return False
        try:
            judged = refusal if made.refused else agreement
            contextvars.copy_context().run(judged, candidate)
        except kind:
            return True
        except Exception:  # another failure
            return False
        return False

    texts = [text for _, text in made.form.parts]
    for part in [*range(len(texts)), 0]:  # the changes that are left need less of the first part
        size = len(texts[part].splitlines())
        while size:
            lines, at = texts[part].splitlines(keepends=True), 0
            while at < len(lines):
                fewer = "".join(lines[:at] + lines[at + size :])
                trial = [*texts[:part], fewer, *texts[part + 1 :]]
                form, source = formed(f"state_program_{made.seed}_shrunk.py", trial)
                if fails(made._replace(form=form, source=source)):
                    texts, made = trial, made._replace(form=form, source=source)
                    lines = fewer.splitlines(keepends=True)
                else:
                    at += size
            size //= 2
    return made


@contextmanager
def eagerly() -> Iterator[None]:
    """Nothing is compiled, whatever the program itself compiles."""
    before, config.compile_mode = config.compile_mode, "off"
    try:
        yield
    finally:
        config.compile_mode = before


def numbered(source: str) -> str:
    """The lines of a program with their numbers, as messages name them."""
    return "\n".join(f"{number:4} {line}" for number, line in enumerate(source.splitlines(), 1))
