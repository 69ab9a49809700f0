"""Programs of a WebGPU device: a plan as a list of dispatches, for each set of addresses."""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from contraflow import thresholds
from contraflow.compiler.kernel import WRITES
from contraflow.compiler.plan import KernelStep, Plan
from contraflow.devices.failures import IndexOutOfRange, LateFailure, StepRefused
from contraflow.devices.narrow_values import packed_scalars
from contraflow.devices.run_words import addresses_of
from contraflow.devices.segments import kernel_steps, step_event
from contraflow.devices.webgpu import windows
from contraflow.devices.webgpu.buffers import SPAN, WORD, GpuMemory
from contraflow.devices.webgpu.calls import UNIFORM, BufferCopy, Dispatch, QueueItem
from contraflow.devices.webgpu.epilogues import with_epilogues
from contraflow.devices.webgpu.runs import FAILURE
from contraflow.devices.webgpu.windows import ALIGNED
from contraflow.errors import DeviceError
from contraflow.operation.context import state
from contraflow.render.clike import source, wgsl
from contraflow.render.clike.wgsl import element_bytes

if TYPE_CHECKING:
    from contraflow.devices.webgpu.device import WebgpuDevice

SCALAR_BYTES = 1 << 20  # host scalars of kernels that wait


class _SlotPlace(NamedTuple):
    """Where a slot lies: in which memory, from which element on."""

    memory: GpuMemory
    first: int


class _Window(NamedTuple):
    """The part of a piece of memory that an operand is bound to, in bytes."""

    memory: GpuMemory
    start: int
    nbytes: int


class _Bound(NamedTuple):
    """The dispatches of a program at certain addresses, and what they refer to."""

    before: list[QueueItem]  # up to the last one that may find a wrong index
    after: list[QueueItem]
    kept: list[Any]


class WebgpuProgram:
    """A plan that was loaded."""

    notes: Sequence[str] = ()

    def __init__(self, device: WebgpuDevice, plan: Plan) -> None:
        self.device, self.plan = device, plan
        for slot in plan.slots:  # before its kernels are divided: into very many, of a large one
            device.pool.check_size(slot.nbytes)
        self._external = [i for i, slot in enumerate(plan.slots) if slot.kind != "temp"]
        self._addresses = [0] * len(self._external)
        steps = kernel_steps(plan)
        assert len(steps) == len(plan.steps), "there are no host steps here"
        steps = [step for step in steps if source.count_groups(step.call)]
        if windows.fit(plan.slots, device.binding):  # parts of products are simpler alone
            steps = with_epilogues(steps, plan.slots)
        self._steps = windows.divided(steps, plan.slots, device.binding)
        self._last_risk = max((i for i, s in enumerate(self._steps) if s.may_fail), default=-1)
        self._work = sum(wgsl.work(step.call) for step in self._steps)
        for step in self._steps:
            problem = wgsl.too_large(step.call)
            if problem is not None:
                raise StepRefused(problem, step.line)
        self._lay_out_scalars()
        self._load()

    def _load(self) -> None:
        self._generation = self.device.generation
        # Of ops of eager mode, and of compiled calls.
        self._pipelines: dict[bool, list[tuple[Any, Any]]] = {}
        self._bound: OrderedDict[tuple[int, ...], _Bound] = OrderedDict()
        self._arguments: dict[tuple[int, ...], Any] = {}

    def _find_pipelines(self, is_call: bool) -> list[tuple[Any, Any]]:
        found = self._pipelines.get(is_call)
        if found is None:
            found = self.device.pipelines([
                (step.call, is_call and self._is_guarded(step), step.adds) for step in self._steps
            ])  # fmt: skip
            self._pipelines[is_call] = found
        return found

    def unbind(self) -> None:
        """Let go of the memory of the last runs."""
        self._bound.clear()

    def _is_guarded(self, step: KernelStep) -> bool:
        """Whether a kernel of a compiled call writes memory of the caller."""
        return any(self.plan.slots[slot].kind != "temp" for slot in step.writes)

    # --- host scalars ---------------------------------------------------------------------

    def _lay_out_scalars(self) -> None:
        """Kernels that take the same host scalars share them."""
        self._scalars_at: list[int] = []  # per step, -1 for none
        self._words: list[int] = []  # the numbers of the host scalars, in the order of the block
        places: dict[tuple[tuple[int, str], ...], int] = {}  # by words and how they are packed
        code, end = "<", 0
        for step in self._steps:
            kernel = step.call.kernel
            words = tuple((step.bindings[i].offset, c) for i, c in wgsl.scalar_codes(kernel))
            if words and words not in places:
                places[words] = end
                own = "".join(c for _, c in words)
                size = struct.calcsize(f"<{own}")
                padding = -size % ALIGNED
                code += f"{own}{padding}x"
                end += size + padding
                self._words += [number for number, _ in words]
            self._scalars_at.append(places[words] if words else -1)
        if end > SCALAR_BYTES:
            raise DeviceError(
                f"webgpu: a program has {len(places):,} sets of numbers of the host, which take "
                f"{end:,} bytes; {SCALAR_BYTES:,} are the most. Compile a part of it, or keep some "
                "of the numbers in a tensor."
            )
        self._scalars_bytes = end
        self._format = struct.Struct(code)

    def _put_scalars(self, scalars: Sequence[float | int]) -> int:
        """Give the kernels of the next run their host scalars."""
        device = self.device
        at = device.place_scalars(self._scalars_bytes)
        values = [scalars[i] for i in self._words]
        try:
            content = self._format.pack(*values)
        except (struct.error, OverflowError):
            content = self._pack_any(scalars)
        device.put_scalars(at, content)
        return at

    def _pack_any(self, scalars: Sequence[float | int]) -> bytes:
        """The same for numbers that are too large, or are not of the expected type."""
        content = bytearray(self._scalars_bytes)
        for step, at in zip(self._steps, self._scalars_at):
            if at >= 0:
                words = packed_scalars(step, scalars, wgsl.pack_scalars)
                content[at : at + len(words)] = words
        return bytes(content)

    # --- running --------------------------------------------------------------------------

    def put(self, number: int, address: int) -> None:
        """Set the address of one of the buffers."""
        self._addresses[number] = address

    def replay(self, buffers: Sequence[Any], scalars: Sequence[float | int]) -> None:
        """Run all steps over buffers."""
        self.run(addresses_of(self.device.address, buffers), tuple(scalars))

    def run(
        self,
        addresses: Sequence[int],
        scalars: tuple[float | int, ...],
        late: LateFailure | None = None,
    ) -> None:
        """Run all steps over buffers at these addresses."""
        with self.device.undisturbed:
            self._addresses[:] = addresses
            self.rerun(scalars, late)

    def rerun(self, scalars: tuple[float | int, ...], late: LateFailure | None = None) -> None:
        """Run all steps, with buffers at the addresses of the last run."""
        device = self.device
        with device.undisturbed:
            device.check()
            if self._generation != device.generation:
                self._load()
            is_call = late is not None and late.undo is not None
            key = (is_call, *self._addresses)
            bound = self._bound.get(key)
            if bound is None:
                bound = self._bind(key)
            if is_call and len(device.outcomes.pending) >= device.outcomes.MOST:
                device.synchronize()
            base = self._put_scalars(scalars) if self._words else 0  # which may be refused
            number = 0
            if late is not None and is_call:
                number = device.outcomes.begin(late, bool(bound.before))
            timeline = state().context.timeline
            if timeline is not None:
                self._run_noted(bound, base, number if is_call else None, timeline)
            elif not bound.before:
                device.enqueue(bound.after, base, self._work)
            elif is_call:
                device.enqueue(bound.before, base)
                device.enqueue(device.outcomes.ending(number))
                device.enqueue(bound.after, base, self._work)
            else:
                self._run_checked(bound.before, bound.after, base)

    def _run_checked(
        self, before: Sequence[QueueItem], after: Sequence[QueueItem], base: int
    ) -> None:
        """Run an op of eager mode that may find a wrong index, and wait for what it finds."""
        failed = self.device.run_checked(before, after, base)
        if failed is not None:
            line, index = failed
            raise IndexOutOfRange(index, line)

    def _run_noted(self, bound: _Bound, base: int, number: int | None, timeline: Any) -> None:
        """Run kernels one at a time, and note for each the time until the host knows that it is
        done; `number` is that of a compiled call."""
        device, steps = self.device, iter(self._steps)
        idle = False
        for item in bound.before:
            idle = self._run_item(item, base, steps, timeline, idle)
        if bound.before and number is None:
            self._run_checked([], [], base)
        elif bound.before and number is not None:
            device.enqueue(device.outcomes.ending(number))
            idle = False
        for item in bound.after:
            idle = self._run_item(item, base, steps, timeline, idle)

    def _run_item(
        self, item: QueueItem, base: int, steps: Iterator[KernelStep], timeline: Any, idle: bool
    ) -> bool:
        """Run a kernel, and note it as the next of the steps; or queue a copy. Whether the device
        is idle behind that, as it is or is not before."""
        device = self.device
        if not isinstance(item, Dispatch):
            device.enqueue([item], base)
            return False
        if not idle:
            device.wait()
        with timeline.program_step(*step_event(self.plan, next(steps))):
            device.enqueue([item], base)
            device.wait()
        return True

    # --- binding --------------------------------------------------------------------------

    def _bind(self, key: tuple[int, ...]) -> _Bound:
        """The dispatches at some addresses, of a compiled call if the first of the key is true."""
        is_call, *addresses = key
        pipelines = self._find_pipelines(bool(is_call))
        device, located = self.device, self._located(addresses)
        kept: list[Any] = [[place.memory for place in located.values()]]
        around: list[tuple[list[QueueItem], list[QueueItem]]] = [([], []) for _ in self._steps]
        bound_to = [
            self._windows(step, located, self._apart(step, located, copies, kept))
            for step, copies in zip(self._steps, around)
        ]
        blocks, offsets = self._argument_blocks(located, bound_to)
        items: list[list[QueueItem]] = [[], []]
        may_have_failed = False  # since the guard was set
        for i, step in enumerate(self._steps):
            there = items[i > self._last_risk]
            if is_call and may_have_failed and i <= self._last_risk and self._is_guarded(step):
                there.append(device.outcomes.set_guard)
                may_have_failed = False
            may_have_failed = may_have_failed or step.may_fail
            pipeline, layout = pipelines[i]
            entries = self._entries(step, blocks, offsets[i], bound_to[i].values(), bool(is_call))
            group = device.calls.bind_group(layout, entries)
            kept.append(group)
            x, y, _ = wgsl.launch(step.call)
            before, after = around[i]
            there += before
            there.append(Dispatch(pipeline, group, x, y, self._scalars_at[i]))
            there += after
        bound = self._bound[key] = _Bound(items[0], items[1], kept)
        if len(self._bound) > thresholds.webgpu_bindings:
            self._bound.popitem(last=False)
        return bound

    def _located(self, addresses: Sequence[int]) -> dict[int, _SlotPlace]:
        """Where each slot lies."""
        device, slots = self.device, self.plan.slots
        located = {i: _SlotPlace(device.nothing, 0) for i in range(len(slots))}  # if it is empty
        for i, address in zip(self._external, addresses):
            if slots[i].numel:
                number, start = divmod(address, SPAN)
                first = start // slots[i].dtype.itemsize
                pool, is_output = device.pool, slots[i].kind == "output"
                memory = pool.find_to_write(number) if is_output else pool.find(number)
                located[i] = _SlotPlace(memory, first)
        arenas = [device.scratch(n, nbytes) for n, nbytes in enumerate(self.plan.arenas)]
        for i, slot in enumerate(slots):
            if slot.kind == "temp" and slot.numel:
                located[i] = _SlotPlace(arenas[slot.arena], 0)
        return located

    def _windows(
        self, step: KernelStep, located: dict[int, _SlotPlace], memories: Sequence[GpuMemory]
    ) -> dict[int, _Window]:
        """The window of each operand in memory: all of that where it may be bound."""
        found = {}
        for i, memory in zip(source.in_memory(step.call.kernel), memories):
            limit, start, nbytes = self.device.binding, 0, memory.nbytes
            if nbytes > limit:
                slot, offset = step.bindings[i]
                first = located[slot].first + offset
                first += windows.extent(step, self.plan.slots, i).first
                start = first * element_bytes(self.plan.slots[slot].dtype)
                start -= start % ALIGNED
                nbytes = min(memory.nbytes - start, limit)
            found[i] = _Window(memory, start, nbytes)
        return found

    def _argument_blocks(
        self, located: dict[int, _SlotPlace], bound_to: Sequence[dict[int, _Window]]
    ) -> tuple[Any, list[tuple[int, int]]]:
        """A buffer with the arguments of all kernels, and where those of each lie."""
        starts = (window.start for found in bound_to for window in found.values())
        firsts = (*(place.first for place in located.values()), *starts)
        content, places = bytearray(), []
        for step, found in zip(self._steps, bound_to):
            offsets = []
            for i, (operand, binding) in enumerate(zip(step.call.kernel.operands, step.bindings)):
                first = 0
                if i in found:
                    first = located[binding.slot].first
                    first -= found[i].start // element_bytes(operand.dtype)
                offsets.append(first + binding.offset)
            packed = wgsl.pack_arguments(step.call, offsets, step.line)
            places.append((len(content), len(packed)))
            content += packed + bytes(-len(packed) % ALIGNED)
        block = self._arguments.get(firsts)
        if block is None:
            if len(self._arguments) > 4 * thresholds.webgpu_bindings:
                self._arguments.clear()
            block = self.device.calls.buffer(max(len(content), ALIGNED), UNIFORM)
            if content:
                self.device.calls.write(block, 0, bytes(content))
            self._arguments[firsts] = block
        return block, places

    def _apart(
        self,
        step: KernelStep,
        located: dict[int, _SlotPlace],
        around: tuple[list[QueueItem], list[QueueItem]],
        kept: list[Any],
    ) -> list[GpuMemory]:
        """The memory of each operand. Different operands that were given parts of one buffer, which
        one of them writes, get copies: items that go before and after the kernel."""
        kernel = step.call.kernel
        places: list[GpuMemory] = []
        numbers = source.in_memory(kernel)
        memories = [located[step.bindings[i].slot].memory for i in numbers]
        written = {m.number for i, m in zip(numbers, memories) if kernel.operands[i].mode in WRITES}
        taken: set[int] = set()
        for i, memory in sorted(
            zip(numbers, memories), key=lambda pair: kernel.operands[pair[0]].mode not in WRITES
        ):
            if memory.number in written and memory.number in taken:
                memory = self._copied(step, i, memory, len(taken), located, around)
                kept.append(memory)
            taken.add(memory.number)
            places.append(memory)
        ordered = sorted(numbers, key=lambda i: kernel.operands[i].mode not in WRITES)
        return [places[ordered.index(i)] for i in numbers]

    def _copied(
        self,
        step: KernelStep,
        operand: int,
        memory: GpuMemory,
        number: int,
        located: dict[int, _SlotPlace],
        around: tuple[list[QueueItem], list[QueueItem]],
    ) -> GpuMemory:
        """A copy of the memory of an operand, which is copied back if it is written."""
        copy = self.device.scratch(len(self.plan.arenas) + number, memory.nbytes)
        around[0].append(BufferCopy(memory.buffer, 0, copy.buffer, 0, memory.nbytes))
        if step.call.kernel.operands[operand].mode in WRITES:
            number = step.bindings[operand].slot
            slot, start = self.plan.slots[number], located[number].first
            first = start * element_bytes(slot.dtype)
            end = first + slot.numel * element_bytes(slot.dtype)
            if first % WORD or end % WORD:
                raise DeviceError(
                    "webgpu: a kernel writes two parts of one float16 tensor, and one of them "
                    "begins or ends at an odd element. Write to a copy of that part: x.clone()."
                )
            around[1].append(BufferCopy(copy.buffer, first, memory.buffer, first, end - first))
        return copy

    def _entries(
        self,
        step: KernelStep,
        block: Any,
        place: tuple[int, int],
        bound_to: Collection[_Window],
        is_call: bool,
    ) -> list[tuple[int, Any, int, int]]:
        """The entries of the bind group of a step."""
        device, kernel = self.device, step.call.kernel
        entries: list[tuple[int, Any, int, int]] = [(0, block, *place)]
        codes = "".join(code for _, code in wgsl.scalar_codes(kernel))
        if codes:
            entries.append((1, device.scalars, 0, struct.calcsize(f"<{codes}")))
        for binding, window in enumerate(bound_to, start=2):
            entries.append((binding, window.memory.buffer, window.start, window.nbytes))
        after = 2 + len(bound_to)
        if kernel.checks_indices:
            failure = device.outcomes.failure if is_call else device.failure
            entries.append((after, failure, 0, FAILURE))
            after += 1
        if is_call and self._is_guarded(step):
            entries.append((after, device.outcomes.guard, 0, 16))
        return entries
