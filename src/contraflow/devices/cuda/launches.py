"""The steps of a plan as launches on a stream, with arguments by value."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from contraflow.compiler.plan import SCALARS, KernelStep, Slot
from contraflow.devices.cuda.compiler import text_of
from contraflow.devices.cuda.products import ALIGNED, WORKSPACE, ProductForm, form_of
from contraflow.devices.run_words import RunWords
from contraflow.render.clike import cuda, source

if TYPE_CHECKING:
    from contraflow.compiler.kernel import Kernel
    from contraflow.devices.cuda.device import CudaDevice


class ProductStep(NamedTuple):
    """A step that the library of products does."""

    step: KernelStep
    form: ProductForm

    def addresses(self, bases: Sequence[int]) -> tuple[int, int, int]:
        """Those of left, right and result, where slots lie at `bases`."""
        size = self.form.dtype.itemsize
        a, b, c = (bases[x.slot] + x.offset * size for x in self.step.bindings)
        return (b, a, c) if self.form.swapped else (a, b, c)

    def is_aligned(self, addresses: Sequence[int]) -> bool:
        """Whether these, and all matrices of a batch, begin at multiples that the library likes."""
        size = self.form.dtype.itemsize
        return not any(x % ALIGNED for x in addresses) and (
            self.form.batch == 1 or not any(x * size % ALIGNED for x in self.form.batch_strides)
        )


def with_products(
    device: CudaDevice, steps: Sequence[KernelStep], slots: Sequence[Slot]
) -> list[ProductStep | KernelStep]:
    """The steps, with those that the library of products can do.

    A product that writes state is not one of these: it would write it after a failure too.
    """
    found: list[ProductStep | KernelStep] = []
    for step in steps:
        form = form_of(step.call)
        if any(slots[slot].kind == "input" for slot in step.writes) or form is None:
            found.append(step)
        else:
            done = all(device.products.find(form, aligned) for aligned in (True, False))
            found.append(ProductStep(step, form) if done else step)
    return found


def variants(steps: Sequence[KernelStep], slots: Sequence[Slot]) -> list[cuda.TextVariant]:
    """The variant of the text of each step.

    Steps behind the last that may fail are guarded where they write what others see: a failed call
    leaves state and gradients as they were.
    """
    last_risk = max((i for i, step in enumerate(steps) if step.may_fail), default=-1)
    found = []
    for i, step in enumerate(steps):
        written = set(step.writes)
        guarded = i > last_risk and any(slots[slot].kind != "temp" for slot in written)
        operands = enumerate(zip(step.call.kernel.operands, step.bindings))
        apart = frozenset(i for i, (o, b) in operands if o.mode == "in" and b.slot not in written)
        bits, tiled = cuda.index_bits(step.call), cuda.is_tiled(step.call)
        found.append(cuda.TextVariant(bits, guarded, apart=apart, tiled=tiled))
    return found


class ArgumentBlock:
    """The arguments of launches: words of 8 bytes, and for the driver a pointer to each."""

    def __init__(self, packed: Sequence[bytes]) -> None:
        words = bytearray(b"".join(packed))
        self.words = (ctypes.c_uint64 * (len(words) // 8)).from_buffer(words)
        at = ctypes.addressof(self.words)
        self._table = (ctypes.c_void_p * len(self.words))(*range(at, at + len(words), 8))
        table, self._tables = ctypes.addressof(self._table), []
        for arguments in packed:
            self._tables.append(ctypes.c_void_p(table))
            table += len(arguments)

    def launch(
        self, device: CudaDevice, number: int, function: Any, geometry: cuda.Launch
    ) -> Callable[[], int]:
        """The launch with the arguments of a number: a function of C that gives its status."""
        extents = [ctypes.c_uint(n) for n in (*geometry.grid, *geometry.block, 0)]
        handle, nothing = ctypes.c_void_p(int(function)), ctypes.c_void_p(0)
        call = device.driver.quick("cuLaunchKernel")
        return partial(call, handle, *extents, device.stream_handle, self._tables[number], nothing)


def operand_words(kernel: Kernel) -> list[int | None]:
    """Which word among the arguments each operand of a kernel is; a position is none."""
    found: list[int | None] = []
    count = 0
    for operand in kernel.operands:
        found.append(None if operand.mode == "position" else count)
        count += operand.mode != "position"
    return found


class StreamLaunches:
    """The launches of a plan, one after the other."""

    def __init__(
        self,
        device: CudaDevice,
        steps: Sequence[KernelStep],
        slots: Sequence[Slot],
        words: RunWords,
    ) -> None:
        self._device, self._slots = device, slots
        self._bases = [0] * len(slots)
        self._run_words = words
        self._known: list[int] = [0] * len(words.block)  # what the arguments hold
        # Per word of a run, where it lies among the arguments; per temporary too.
        self._places: list[list[int]] = [[] for _ in words.block]
        self._of_slot: dict[int, list[int]] = {i: [] for i in range(len(slots))}
        self._of_failure: list[int] = []
        self._of_line: list[tuple[int, int]] = []  # and the tape line
        self._arena = self._failure = 0
        self.last_risk = max((i for i, step in enumerate(steps) if step.may_fail), default=-1)
        self.launches = self._build(steps)  # a name for each, and what is called
        for word, slot in enumerate(words.slots, words.first):
            self._places[word] += self._of_slot[slot]
        self.has_products = any(isinstance(x, ProductStep) for x in self._planned)

    def _build(self, steps: Sequence[KernelStep]) -> list[tuple[str, Callable[[], int]]]:
        self._planned = with_products(self._device, steps, self._slots)
        chosen = variants(steps, self._slots)
        kernels = [
            (step, variant)
            for step, variant in zip(self._planned, chosen)
            if isinstance(step, KernelStep)
        ]
        functions = self._device.kernels.functions([text_of(s.call.kernel, v) for s, v in kernels])
        packed: list[bytes] = []
        for step, variant in kernels:
            packed.append(self._packed(step, variant, sum(map(len, packed)) // 8))
        self._arguments = ArgumentBlock(packed)
        numbered = iter(zip(range(len(kernels)), functions, (variant for _, variant in kernels)))
        launches: list[tuple[str, Callable[[], int]]] = []
        for planned in self._planned:
            if isinstance(planned, ProductStep):
                name = planned.step.call.kernel.name
                launches.append((name, partial(self._multiply, planned)))
                continue
            number, function, variant = next(numbered)
            geometry = cuda.launch(planned.call, variant)
            if geometry.grid[0]:
                launch = self._arguments.launch(self._device, number, function, geometry)
                launches.append((planned.call.kernel.name, launch))
            else:
                launches.append((planned.call.kernel.name, _nothing))
        return launches

    def _packed(self, step: KernelStep, variant: cuda.TextVariant, first: int) -> bytes:
        """The words of a launch, which lie at `first`; those that are not fixed are noted."""
        kernel = step.call.kernel
        places = operand_words(kernel)
        for operand, binding, place in zip(kernel.operands, step.bindings, places):
            if place is None:
                continue
            if operand.mode == "scalar":
                assert binding.slot == SCALARS
                word = self._run_words.first_scalar + binding.offset
                self._places[word].append(first + place)
            else:
                self._of_slot[binding.slot].append(first + place)
        offsets = [binding.offset for binding in step.bindings]
        bound = [0] * len(step.bindings)
        words = cuda.pack(step.call, bound, offsets, step.line, 0, variant)
        if cuda.takes_failure(kernel, variant.guarded):
            self._of_failure.append(first + sum(place is not None for place in places))
        if source.checks_indices(kernel):
            self._of_line.append((first + len(words) // 8 - 1, step.line))
        return words

    def _multiply(self, product: ProductStep) -> int:
        """Have the library do a product."""
        device = self._device
        addresses = product.addresses(self._bases)
        found = device.products.find(product.form, product.is_aligned(addresses))
        assert found is not None
        return found(*addresses, device.workspace(WORKSPACE), device.stream_handle)

    def place(self, arena: int, failure: int, number: int) -> None:
        """Write the arguments that are new."""
        words, run = self._arguments.words, self._run_words.block[:]
        if run != self._known:
            for places, word, before in zip(self._places, run, self._known):
                if word != before:
                    for at in places:
                        words[at] = word
            first = self._run_words.first
            for i, given in enumerate(self._run_words.slots, first):
                self._bases[given] = run[i]
            self._known = run
        if arena != self._arena:
            for i, slot in enumerate(self._slots):
                if slot.kind == "temp":
                    self._bases[i] = arena + slot.offset
                    for at in self._of_slot[i]:
                        words[at] = arena + slot.offset
            self._arena = arena
        if failure != self._failure:
            for at in self._of_failure:
                words[at] = failure
            self._failure = failure
        for at, line in self._of_line:
            words[at] = number | line


def _nothing() -> int:
    """Stands for a launch that has no work."""
    return 0
