"""Executables: a tape made ready to run, by the interpreter or as a program of a device.

Host scalars never reach a device as tensors: lines that depend on nothing else run before each
replay, in Python and float64, and kernels get their results as arguments.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import cached_property
from sys import getrefcount
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from contraflow import config, devices
from contraflow.compiler.fuse import fuse
from contraflow.compiler.host_numbers import host_values, wide_numbers
from contraflow.compiler.interpret import range_problem, run_tape
from contraflow.compiler.kernel import Kernel
from contraflow.compiler.lower import Fused
from contraflow.compiler.narrow_integers import OVERFLOW
from contraflow.compiler.passes import optimize
from contraflow.compiler.plan import HostStep, make_plan
from contraflow.compiler.tape import Tape, TapeLine, Value, unnamed
from contraflow.devices.failures import LateFailure, StepRefused, overflow
from contraflow.devices.run_words import addresses_of
from contraflow.devices.segments import kernel_steps
from contraflow.errors import DeviceError, OutOfRange
from contraflow.render import python
from contraflow.runtime.outputs import BlockPair, Standing, number_of, take, take_lines
from contraflow.tensors.grad_slot import Block
from contraflow.tensors.source_line import UserLine, at
from contraflow.tensors.storage import Storage
from contraflow.tensors.tensor import Tensor


class Executable(Protocol):
    """A tape that can run."""

    temporary_bytes: int
    scalar_outputs: frozenset[int]  # positions of the outputs that are host scalars
    # Inputs from this index on never change storage, so their addresses are looked up once.
    fixed_from: int
    times: dict[str, float]  # milliseconds that each stage of its making took

    def run(self, arrays: Sequence[Any], scalars: Sequence[int | float]) -> list[Any]:
        """Compute the outputs, as arrays; inputs that the tape writes to are overwritten.

        `arrays` holds the flat data of the inputs that are not host scalars, in tape order.
        """

    def replay(
        self,
        storages: Sequence[Storage],
        scalars: Sequence[int | float],
        late: LateFailure | None = None,
    ) -> list[Any]:
        """The same with inputs that lie in storages; outputs are blocks, host scalars numbers.

        `late` is given where it `is_asynchronous`.
        """

    @property
    def is_asynchronous(self) -> bool:
        """Whether replays return before they have run, so that wrong indices are found later."""

    @property
    def kernels(self) -> list[str]:
        """The names of the generated kernels that run, in order."""

    def explain(self) -> list[str]:
        """The steps that run, one per line."""


def load(tape: Tape) -> Executable:
    """Make a tape ready to run, as the configuration says."""
    if config.compile_mode == "interpret" and tape.device == "cpu":
        return Interpreted(tape)
    return Native(tape)


class _Clock:
    """Notes how long the stages of something took, one after the other."""

    def __init__(self, times: dict[str, float]) -> None:
        self._times, self._last = times, perf_counter()

    def note(self, stage: str) -> None:
        """A stage is over."""
        now = perf_counter()
        self._times[stage] = (now - self._last) * 1e3
        self._last = now


class _TapeInputs:
    """The inputs of a tape, host scalars apart."""

    def __init__(self, tape: Tape) -> None:
        self.scalars = [v for v, role in tape.inputs.items() if role == "scalar"]
        self.arrays = [v for v, role in tape.inputs.items() if role != "scalar"]


class Interpreted:
    """A tape run line by line over NumPy."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.inputs = _TapeInputs(tape)
        # Numbers are computed as Python does it, whose powers need not be NumPy's to the last bit.
        numbers = wide_numbers(tape)
        self._numbers = [v for line in numbers for v in line.outs]
        self._prologue = python.prologue(tape, numbers, self._numbers)
        self._lines = [line for line in tape.lines if line.outs[0] not in self._numbers]
        self.temporary_bytes = 0
        self.scalar_outputs: frozenset[int] = frozenset()
        self.fixed_from = len(self.inputs.arrays)
        self.times: dict[str, float] = {}

    def run(self, arrays: Sequence[Any], scalars: Sequence[int | float]) -> list[Any]:
        """Compute everything, then write."""
        given: dict[Value, Any] = dict(zip(self.inputs.scalars, scalars))
        given.update(zip(self._numbers, self._prologue(scalars)))
        for value, flat in zip(self.inputs.arrays, arrays):
            given[value] = flat.reshape(self.tape.specs[value].shape)
        results = run_tape(self.tape, given, self._lines)
        shapes = [self.tape.specs[v].shape for v in self.tape.outputs]
        outputs = [
            np.array(results[v], order="C").reshape(shape)
            for v, shape in zip(self.tape.outputs, shapes)
        ]
        written = {k: np.array(results[v]) for k, v in self.tape.writes.items()}
        for value, array in written.items():
            np.copyto(given[value], array)
        return outputs

    is_asynchronous = False

    def replay(
        self,
        storages: Sequence[Storage],
        scalars: Sequence[int | float],
        late: LateFailure | None = None,
    ) -> list[Any]:
        """Compute everything, then write."""
        return [Block(array) for array in self.run([s.data for s in storages], scalars)]

    @property
    def kernels(self) -> list[str]:
        """None: nothing is generated."""
        return []

    def explain(self) -> list[str]:
        """One row."""
        return [f"interpreted: {len(self.tape.lines)} lines over NumPy"]


class Native:
    """A tape as a program of generated kernels, with its host prologue."""

    def __init__(self, tape: Tape, device: devices.DeviceInterface | None = None) -> None:
        """By the device of the tape, or by another one over the same memory."""
        self.device = device or devices.lookup(tape.device)
        self.times: dict[str, float] = {}
        clock = _Clock(self.times)
        self.tape = optimize(tape)
        host = host_values(self.tape)
        self._check_dtypes(host)
        self.inputs = _TapeInputs(self.tape)
        clock.note("passes")
        self.fused: Fused = fuse(self.tape, host, self.device.limits)
        clock.note("fuse")
        self.plan, self.words = make_plan(self.tape, self.fused, host, self.device.limits)
        clock.note("plan")
        try:
            self.program = self.device.load(self.plan)
        except StepRefused as error:
            raise DeviceError(self.tape.lines[error.line].blame(str(error))) from None
        clock.note("compile")
        self.temporary_bytes = self.plan.arena_bytes
        self.fixed_from = len(self.inputs.arrays)
        self.addresses: list[int] | None = None  # the addresses of those
        specs, outputs = self.tape.specs, self.tape.outputs
        self.pairs = [BlockPair(specs[v], self.device) for v in outputs if v not in host]
        # The results of the prologue: host values that are outputs, then the words of the kernels.
        self.host_outputs = [(i, specs[v].dtype.numpy) for i, v in enumerate(outputs) if v in host]
        self.scalar_outputs = frozenset(i for i, _ in self.host_outputs)
        wanted = [*(outputs[i] for i, _ in self.host_outputs), *self.words]
        lines = [x for x in self.tape.lines if host.issuperset(x.outs)]
        self.prologue = python.prologue(self.tape, lines, wanted)
        # Both, where there are no host scalars that they could depend on.
        self.constant_prologue = None if self.inputs.scalars else self.prepare(())

    def _check_dtypes(self, host: set[Value]) -> None:
        """Refuse values of dtypes that the device does not have; numbers are the host's."""
        lacks = self.device.limits.lacks
        for line in self.tape.lines if lacks else ():
            for v in line.outs:
                dtype = self.tape.specs[v].dtype
                if dtype.name in lacks and v not in host:
                    other = "float32" if dtype.is_floating_point else "int32"
                    raise DeviceError(line.blame(
                        f"{dtype} is not a dtype of {self.device.name}; compute it in {other}, or "
                        "on the cpu: x.to('cpu')"
                    ))  # fmt: skip

    @cached_property
    def late(self) -> frozenset[int]:
        """The outputs that are written when nothing can fail any more."""
        steps, slots = self.plan.steps, self.plan.slots
        risks = [i for i, step in enumerate(steps) if step.may_fail]
        early = {slot for step in steps[: risks[-1] + 1 if risks else 0] for slot in step.writes}
        made = [i for i in range(len(self.tape.outputs)) if i not in self.scalar_outputs]
        found = [i for i, slot in enumerate(slots) if slot.kind == "output"]
        return frozenset(i for i, slot in zip(made, found, strict=True) if slot not in early)

    def prepare(self, scalars: Sequence[int | float]) -> tuple[Any, tuple[int | float, ...]]:
        """The values computed from host scalars: outputs, and words for kernels."""
        known = self.prologue(scalars)
        return known, known[len(self.host_outputs) :]

    def run(self, arrays: Sequence[Any], scalars: Sequence[int | float]) -> list[Any]:
        """Prologue, then one replay."""
        known, words = self.constant_prologue or self.prepare(scalars)
        buffers = list(arrays)
        blocks = take(self.pairs, buffers)
        try:
            if self.device.holds_arrays:
                self.program.replay(buffers, words)
            else:
                addresses = addresses_of(self.device.address, buffers)
                late = LateFailure(self.with_line) if self.is_asynchronous else None
                self.program.run(addresses, words, late)
        except IndexError as error:
            raise self.with_line(error) from None
        outputs = [block.array for block in blocks]
        for (i, dtype), number in zip(self.host_outputs, known):
            output = np.array(number, dtype)
            outputs.insert(i, output if self.device.holds_arrays else self.device.upload(output))
        return outputs

    @property
    def is_asynchronous(self) -> bool:
        """Whether replays return before they have run, so that wrong indices are found later."""
        return self.device.asynchronous

    @cached_property
    def may_fail(self) -> bool:
        """Whether a kernel of it may find a wrong index."""
        return any(step.may_fail for step in kernel_steps(self.plan))

    def replay(
        self,
        storages: Sequence[Storage],
        scalars: Sequence[int | float],
        late: LateFailure | None = None,
    ) -> list[Any]:
        """Prologue, then one replay."""
        addresses: list[int] = []
        for storage in storages[: self.fixed_from]:
            addresses.append(storage.address or self.locate(storage))
        if self.addresses is None:
            self.addresses = [self.locate(storage) for storage in storages[self.fixed_from :]]
        addresses += self.addresses
        known, words = self.constant_prologue or self.prepare(scalars)
        blocks: list[Any] = take(self.pairs, addresses)
        try:
            self.program.run(addresses, words, late)
        except IndexError as error:
            raise self.with_line(error) from None
        if self.host_outputs:
            for (i, _), number in zip(self.host_outputs, known):
                blocks.insert(i, number)
        return blocks

    def replay_lines(
        self,
        name: Callable[[Any], str],
        storages: Sequence[str],
        standing: Standing | None,
        counting: Sequence[str],
        waits: bool,
    ) -> list[str]:
        """A replay as lines of a function, which uses `scope`: see `capture/hit.py`.

        `name` names an object, `storages` are the variables of the inputs before `fixed_from`, and
        `cells` is a variable with the host scalars. Where it `is_asynchronous`, `late` is one with
        the `LateFailure`; if it `waits`, it is known to be well when the lines have run. Lines that
        count the writes stand where they happen. Outputs are called `block(position)` and
        `number(position)` from there on.
        """
        known = (
            "prologue(cells)" if self.constant_prologue is None else name(self.constant_prologue[0])
        )
        lines = [f"known = {known}"]
        lines += [f"put({i}, {s}.address or locate({s}))" for i, s in enumerate(storages)]
        taken = set(self.new_blocks(standing))
        for i, pair in enumerate(self.pairs):
            if f"b{i}" in taken:
                lines += take_lines(name(pair), f"b{i}", len(self.inputs.arrays) + i)
        stays = None if standing is None else name(standing)
        if stays is not None:
            lines.append(f"if {stays}.notice.given: {stays}.take()")
        numbers = len(self.host_outputs)
        words = f"known[{numbers}:]" if numbers else "known"
        if self.is_asynchronous:
            words += ", late"
        lines += [
            f"try: rerun({words}){'; synchronize()' if waits else ''}",
            "except IndexError as error: raise with_line(error) from None",
        ]
        if counting:  # an interrupt may have come after the writes
            lines += ["except KeyboardInterrupt:", *(f"  {line}" for line in (*counting, "raise"))]
        lines += counting
        if stays is not None:
            lines.append(f"if {stays}.notice.given: {stays}.give()")
        return lines

    @property
    def scope(self) -> dict[str, Any]:
        """The names that these lines use."""
        return {
            "count": getrefcount, "locate": self.locate, "with_line": self.with_line,
            "number_of": number_of, "prologue": self.prologue, "put": self.program.put,
            "rerun": self.program.rerun, "synchronize": self.device.synchronize,
        }  # fmt: skip

    def standing(self, owners: Sequence[tuple[weakref.ref[Tensor], int]]) -> Standing:
        """Gradients that are to stay where they are, by the tensors they belong to and their
        positions among the outputs."""
        indices = [self._pair(position) for _, position in owners]
        buffers = [len(self.inputs.arrays) + i for i in indices]
        pairs = [self.pairs[i] for i in indices]
        return Standing(self.program, buffers, pairs, [ref for ref, _ in owners])

    def new_blocks(self, standing: Standing | None) -> list[str]:
        """The variables, in these lines, that hold the blocks of outputs, those that stay where
        they are apart."""
        stays = () if standing is None else standing.pairs
        return [f"b{i}" for i, pair in enumerate(self.pairs) if pair not in stays]

    def block(self, position: int) -> str:
        """The variable, in these lines, that holds the block of an output."""
        return f"b{self._pair(position)}"

    def number(self, position: int) -> str:
        """The number that an output is, or that its block holds, in these lines."""
        if position not in self.scalar_outputs:
            block = self.block(position)
            return f"{block}.array" if self.device.holds_arrays else f"number_of({block})"
        return f"known[{[i for i, _ in self.host_outputs].index(position)}]"

    def _pair(self, position: int) -> int:
        """The index of the pair of an output."""
        return position - sum(scalar < position for scalar in self.scalar_outputs)

    def locate(self, storage: Storage) -> int:
        """The address of a storage's memory, which the storage keeps from then on."""
        storage.address = self.device.address(storage.data)
        return storage.address

    def with_line(self, error: IndexError, called: UserLine | None = None) -> Exception:
        """The error of a kernel as the error of the op at the user's line: the recorded one, or the
        one at which an op of eager mode was `called`."""
        line, kind, text = self._failed(error)
        if line is None:  # of another program, which failed late
            return error
        if called is not None:
            line = line._replace(line=called)
        found: Exception = kind(line.blame(text))
        return found

    def problem(self, error: IndexError, called: UserLine | None) -> Exception:
        """The same as eager mode raises it on the spot: the user's line is the one that runs."""
        line, kind, text = self._failed(error)
        if line is None:
            return error
        if kind is OverflowError:  # which is not reworded on its way to the user
            return self.with_line(error, called)
        if (
            line.op.fails is None and kind is IndexError
        ):  # the op that the user called will be named
            return OutOfRange(f"{unnamed(text)}.")
        found: Exception = kind(f"{line.params.get('subject', line.op.name)}: {text}.")
        return found

    def _failed(self, error: IndexError) -> tuple[TapeLine | None, Any, str]:
        """The line that an error of a kernel belongs to, the error of its op and the text of it."""
        number, index = getattr(error, "line", None), getattr(error, "value", 0)
        if number is None:
            return None, IndexError, ""
        line = self.tape.lines[number]
        if index == OVERFLOW and self.device.limits.int64_bits < 64:
            problem = overflow(self.device.name, self.device.limits.int64_bits)
            return line, OverflowError, problem
        # A kernel tells of its first line that may fail. Checks of a text have a code of their own.
        for later in self.tape.lines[number:] if index > 1 else ():
            if later.params.get("code") == index:
                line = later
                break
        if line.op.fails is None:
            return line, IndexError, range_problem(self.tape, line, index)
        kind, text = line.op.fails
        return line, kind, text.format(**line.params)

    @property
    def has_host_steps(self) -> bool:
        """Whether some of it runs on the host, and neither as a kernel nor by a library."""
        return self.device.limits.host and any(
            isinstance(step, HostStep) for step in self.plan.steps
        )

    @property
    def kernels(self) -> list[str]:
        """The names of the kernels, in order."""
        steps = self.plan.steps
        return [step.call.kernel.name for step in steps if not isinstance(step, HostStep)]

    def explain(self) -> list[str]:
        """Kernels, host segments and calls of a library, in order, and how they are run."""
        rows = [f"run as  {note}" for note in self.program.notes]
        makers = {value: line for line in self.tape.lines for value in line.outs}
        for step in self.plan.steps:
            if isinstance(step, HostStep):
                where = "host   " if self.device.limits.host else "library"
                rows.append(f"{where} {step.name}{at(self.tape.lines[step.line].line)}")
            else:
                made = [makers[value] for value in sorted(step.makes) if value in makers]
                row = f"kernel  {_shown(step.call.kernel)} over {list(step.call.sizes)}"
                rows.append(f"{row}{_origins(made)}")
        return rows


def _shown(kernel: Kernel) -> str:
    """The name of a kernel without its digest, which tells a reader nothing."""
    return kernel.name.removesuffix(f"_{kernel.identity[:12]}")


def _origins(made: Sequence[TapeLine]) -> str:
    """The ops that made the results of a kernel, at the user's lines, for `explain`."""
    named = (f"{getattr(line.line, 'op', None) or line.op.name}{at(line.line)}" for line in made)
    return "".join(f"{', ' if i else ': '}{each}" for i, each in enumerate(dict.fromkeys(named)))
