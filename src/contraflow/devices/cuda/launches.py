"""The steps of a plan as launches on a stream, with arguments by value."""

from __future__ import annotations

import ctypes
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from contraflow import config
from contraflow.compiler.kernel import READS, Contraction, Loops
from contraflow.compiler.plan import SCALARS, Binding, KernelStep, Slot
from contraflow.devices.cuda.compiler import text_of
from contraflow.devices.cuda.products import (
    ALIGNED,
    WORKSPACE,
    BlasProduct,
    ProductForm,
    form_of,
)
from contraflow.devices.run_words import RunWords
from contraflow.render.clike import cuda, source

if TYPE_CHECKING:
    from contraflow.compiler.kernel import Kernel
    from contraflow.devices.cuda.device import CudaDevice


class ProductStep(NamedTuple):
    """A step that the library of products does."""

    step: KernelStep
    form: ProductForm
    bias: Binding | None = None
    is_late: bool = False  # nothing on the longest way needs it: it may come behind that

    def addresses(self, bases: Sequence[int]) -> tuple[int, int, int, int]:
        """Those of left, right, result and bias, where slots lie at `bases`."""
        size = self.form.dtype.itemsize
        a, b, c = (bases[x.slot] + x.offset * size for x in self.step.bindings)
        bias = bases[self.bias.slot] + self.bias.offset * size if self.bias else 0
        return (b, a, c, bias) if self.form.swapped else (a, b, c, bias)

    def is_aligned(self, addresses: Sequence[int]) -> bool:
        """Whether these, and all matrices of a batch, begin at multiples that the library likes."""
        size = self.form.dtype.itemsize
        return not any(x % ALIGNED for x in addresses) and (
            self.form.batch == 1 or not any(x * size % ALIGNED for x in self.form.batch_strides)
        )


def with_products(
    device: CudaDevice, steps: Sequence[KernelStep], slots: Sequence[Slot], apart: bool = False
) -> list[ProductStep | KernelStep | None]:
    """The steps, with those that the library of products can do; None for a step whose work is
    done by the next.

    A product that writes state is not one of these: it would write it after a failure too. If
    temporaries lie `apart`, none takes the place of another one.
    """
    found: list[ProductStep | KernelStep | None] = []
    late = late_products(steps)
    readers = Counter(b.slot for step in steps for b in reads_of(step))
    may_fail = any(step.may_fail for step in steps)
    for number, step in enumerate(steps):
        form = form_of(step.call)
        before = found[-1] if found else None
        kinds = {slots[slot].kind for slot in step.writes}
        product = None
        if form is not None and "input" not in kinds:
            is_late = number in late
            product = ProductStep(step, form._replace(beside=is_late), is_late=is_late)
        elif (
            isinstance(before, ProductStep)
            and "input" not in kinds
            and (kinds == {"temp"} or not may_fail)
            and readers[before.step.bindings[2].slot] == 1
        ):
            product = with_bias(before, step, slots, apart)
        if product is None or not all(device.products.find(product.form, x) for x in (True, False)):
            found.append(step)
            continue
        if product.bias is not None:
            found[-1] = None
        found.append(product)
    return found


def late_products(steps: Sequence[KernelStep]) -> set[int]:
    """Products near the end of their way, while others go on for long: gradients of weights. They
    are done when the longest way has been gone, all at the same time."""
    needs: list[set[int]] = []
    writers: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    for i, step in enumerate(steps):
        read, written = {b.slot for b in reads_of(step)}, set(step.writes)
        waits = {writers[slot] for slot in read | written if slot in writers}
        needs.append(waits.union(*(readers.pop(slot, ()) for slot in written)))
        writers.update(dict.fromkeys(written, i))
        for slot in read:
            readers.setdefault(slot, []).append(i)
    depth, height = [1] * len(steps), [1] * len(steps)
    for i, waits in enumerate(needs):
        depth[i] += max((depth[j] for j in waits), default=0)
    for i in reversed(range(len(steps))):
        for j in needs[i]:
            height[j] = max(height[j], height[i] + 1)
    longest = max(depth, default=0)
    found = {
        i
        for i, step in enumerate(steps)
        if isinstance(step.call.kernel, Contraction)
        and height[i] <= LATE_HEIGHT
        and longest - depth[i] - height[i] >= LATE_SLACK
    }
    return found if len(found) >= LATE_PRODUCTS else set()


LATE_HEIGHT, LATE_SLACK = 3, 6  # steps to the end of a late product's way, and by which it is short
LATE_PRODUCTS = 3  # fewer are not worth it


def reads_of(step: KernelStep) -> list[Binding]:
    """The memory that a step reads."""
    operands = zip(step.call.kernel.operands, step.bindings)
    return [binding for operand, binding in operands if operand.mode in READS]


def with_bias(
    product: ProductStep, step: KernelStep, slots: Sequence[Slot], apart: bool
) -> ProductStep | None:
    """A product and the step behind it as one, if that adds a bias to each row of the result and
    does nothing else. The library rounds no more than the two of them: not where the result has
    another dtype than the sums."""
    kernel, call, form = step.call.kernel, step.call, product.form
    result = product.step.bindings[2]
    if not isinstance(kernel, Loops) or kernel.inner or len(kernel.stores) != 1:
        return None
    value, (target,) = kernel.stores[0].value, kernel.stores
    if value.fn != "add" or any(x.fn != "load" or x.args for x in value.args):
        return None
    if slots[result.slot].kind != "temp" or form.biased or not form.swapped or form.batch != 1:
        return None
    contraction = product.step.call
    if contraction.kernel.accumulate is not form.dtype or value.dtype is not form.dtype:  # type: ignore[union-attr]
        return None
    numbers = [x.data for x in value.args]
    places = {step.bindings[i].slot: i for i in numbers}
    if len(places) != 2 or result.slot not in places:
        return None
    of_result = places.pop(result.slot)
    (of_bias,) = places.values()
    shape, strides = contraction.sizes[2:4], contraction.strides[2][2:]
    bias, stored = step.bindings[of_bias], step.bindings[target.operand]
    dtypes = {kernel.operands[i].dtype for i in (of_result, of_bias, target.operand)}
    same = call.strides[of_result] == call.strides[target.operand] == strides
    if dtypes != {form.dtype} or call.sizes != shape or not same or strides[1] != 1:
        return None
    if call.strides[of_bias] != (0, 1) or step.bindings[of_result] != result:
        return None
    # The factors are read while the result is written, which would have come after them.
    given = (*product.step.bindings[:2], bias)
    if any(_overlap(slots, x.slot, stored.slot, apart) for x in given):
        return None
    joined = replace(product.step, bindings=(*product.step.bindings[:2], stored))
    return product._replace(step=joined, form=form._replace(biased=True), bias=bias)


def _overlap(slots: Sequence[Slot], a: int, b: int, apart: bool) -> bool:
    """Whether two slots may have memory in common."""
    one, other = slots[a], slots[b]
    if a == b or apart or not one.kind == other.kind == "temp":
        return a == b
    return one.offset < other.offset + other.nbytes and other.offset < one.offset + one.nbytes


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
        found.append(cuda.variant_of(step.call)._replace(guarded=guarded, apart=apart))
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
        self._unknown: list[int] = [-1] * len(words.block)
        self._find_short_way(steps)

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
            if planned is None:
                launches.append(("", _nothing))
                continue
            if isinstance(planned, ProductStep):
                name = planned.step.call.kernel.name
                launches.append((name, partial(self._multiply, planned, {})))
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

    def _multiply(self, product: ProductStep, found: dict[Any, BlasProduct]) -> int:
        """Have the library do a product; `found` has those that were looked for before."""
        device = self._device
        addresses = product.addresses(self._bases)
        key = product.is_aligned(addresses), config.float32_matmul_precision
        known = found.get(key)
        if known is None:
            known = device.products.find(product.form, key[0])
            assert known is not None
            found[key] = known
        return known(*addresses, device.workspace(WORKSPACE), device.stream_handle)

    def _find_short_way(self, steps: Sequence[KernelStep]) -> None:
        """Of a plan of one kernel that cannot fail: how its arguments are written at once."""
        self._set: Callable[..., None] | None = None
        if len(steps) != 1 or self._of_line or isinstance(self._planned[0], ProductStep):
            return
        if any(slot.kind == "temp" for slot in self._slots):
            return
        words, kinds, order = self._run_words, "", []
        kernel = steps[0].call.kernel
        for operand, binding in zip(kernel.operands, steps[0].bindings):
            if operand.mode == "scalar":
                kinds += "d" if operand.dtype.is_floating_point else "q"
                order.append(len(words.slots) + binding.offset)
            elif operand.mode != "position":
                kinds += "Q"
                order.append(words.slots.index(binding.slot))
        if len(order) < 2:  # of one, `itemgetter` gives no tuple
            return
        self._set = partial(struct.Struct(f"={kinds}").pack_into, self._arguments.words, 0)
        self._order = itemgetter(*order)
        self._launch = self.launches[0][1]

    def run_short(
        self, addresses: Sequence[int], scalars: tuple[float | int, ...], failure: int
    ) -> int | None:
        """Launch a plan of one kernel, and give the status; None where there is no short way."""
        if self._set is None:
            return None
        self._set(*self._order((*addresses, *scalars)))
        if failure != self._failure:
            self._place_failure(failure)
        self._known = self._unknown
        return self._launch()

    def _place_failure(self, failure: int) -> None:
        """Write where failures are recorded."""
        for at in self._of_failure:
            self._arguments.words[at] = failure
        self._failure = failure

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
            self._place_failure(failure)
        for at, line in self._of_line:
            words[at] = number | line


def _nothing() -> int:
    """Stands for a launch that has no work."""
    return 0
