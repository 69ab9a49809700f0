"""The steps of a plan as launches on a stream, with arguments by value."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from contraflow import config, thresholds
from contraflow.compiler.kernel import Contraction, Loops
from contraflow.compiler.plan import SCALARS, Binding, HostStep, KernelStep, Plan, Slot
from contraflow.devices.cuda.compiler import RejectedKernel, text_of
from contraflow.devices.cuda.library_calls import LibraryCall
from contraflow.devices.cuda.products import (
    ALIGNED,
    WORKSPACE,
    ProductForm,
    form_of,
)
from contraflow.devices.run_words import WORD, RunWords
from contraflow.errors import DeviceError, OutOfMemoryError
from contraflow.operation import context
from contraflow.render.clike import cuda, source

if TYPE_CHECKING:
    from contraflow.compiler.kernel import Kernel
    from contraflow.devices.cuda.device import CudaDevice

PlanStep = KernelStep | HostStep


class ProductStep(NamedTuple):
    """A step that the library of products does."""

    step: KernelStep
    form: ProductForm
    bias: Binding | None = None
    is_late: bool = False  # nothing on the longest way needs it: it may come behind that

    @property
    def operands(self) -> tuple[Binding, Binding, Binding, Binding | None]:
        """Left, right, result and bias."""
        a, b, c = self.step.bindings
        return (b, a, c, self.bias) if self.form.swapped else (a, b, c, self.bias)

    @property
    def bindings(self) -> list[Binding]:
        """The bindings that the product has: a bias is optional."""
        return [x for x in self.operands if x is not None]

    def addresses(self, bases: Sequence[int]) -> list[int]:
        """The addresses of left, right, result and bias, where slots lie at `bases`."""
        size = self.form.dtype.itemsize
        return [0 if x is None else bases[x.slot] + x.offset * size for x in self.operands]

    def is_aligned(self, addresses: Sequence[int]) -> bool:
        """Whether these, and all matrices of a batch, are aligned as fast algorithms need it."""
        size = self.form.dtype.itemsize
        return not any(x % ALIGNED for x in addresses) and (
            self.form.batch == 1 or not any(x * size % ALIGNED for x in self.form.batch_strides)
        )


def with_products(
    device: CudaDevice, steps: Sequence[PlanStep], slots: Sequence[Slot], apart: bool = False
) -> list[ProductStep | PlanStep | None]:
    """The steps, with those that the library of products can do; None for a step whose work is
    done by the next.

    A product that writes state is not one of these: it would write it after a failure too. If
    temporaries lie `apart`, none takes the place of another one.
    """
    found: list[ProductStep | PlanStep | None] = []
    late = late_products(steps)
    readers = Counter(slot for step in steps for slot in step.reads)
    may_fail = any(step.may_fail for step in steps)
    for number, step in enumerate(steps):
        if isinstance(step, HostStep):
            found.append(step)
            continue
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


def late_products(steps: Sequence[PlanStep]) -> set[int]:
    """Products near the end of their way, while others go on for long: gradients of weights. They
    are done when the longest way has been gone, all at the same time."""
    needs: list[set[int]] = []
    writers: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    for i, step in enumerate(steps):
        read, written = set(step.reads), set(step.writes)
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
        if isinstance(step, KernelStep)
        and isinstance(step.call.kernel, Contraction)
        and height[i] <= thresholds.cuda_late_height
        and longest - depth[i] - height[i] >= thresholds.cuda_late_slack
    }
    return found if len(found) >= thresholds.cuda_late_products else set()


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
    bindings = (*product.step.bindings[:2], stored)
    joined = replace(product.step, bindings=bindings, does=(*product.step.does, *step.does))
    return product._replace(step=joined, form=form._replace(biased=True), bias=bias)


def _overlap(slots: Sequence[Slot], a: int, b: int, apart: bool) -> bool:
    """Whether two slots may have memory in common."""
    one, other = slots[a], slots[b]
    if a == b or apart or not one.kind == other.kind == "temp":
        return a == b
    return one.offset < other.offset + other.nbytes and other.offset < one.offset + one.nbytes


def last_risk(steps: Sequence[PlanStep]) -> int:
    """The number of the last step whose kernel may find a wrong index, -1 if none may. A step of a
    library is not one: its failure is known when the step is over."""
    risks = (i for i, x in enumerate(steps) if x.may_fail and isinstance(x, KernelStep))
    return max(risks, default=-1)


def variants(steps: Sequence[PlanStep], slots: Sequence[Slot]) -> list[cuda.TextVariant | None]:
    """The variant of the text of each step, None for that of a library.

    Steps behind the last that may fail are guarded where they write what others see: a failed call
    leaves state and gradients as they were.
    """
    last = last_risk(steps)
    found: list[cuda.TextVariant | None] = []
    for i, step in enumerate(steps):
        if isinstance(step, HostStep):
            found.append(None)
            continue
        written = set(step.writes)
        guarded = i > last and any(slots[slot].kind != "temp" for slot in written)
        operands = enumerate(zip(step.call.kernel.operands, step.bindings))
        apart = frozenset(i for i, (o, b) in operands if o.mode == "in" and b.slot not in written)
        found.append(cuda.variant_of(step.call)._replace(guarded=guarded, apart=apart))
    return found


class ArgumentBlock:
    """The arguments of launches: words of 8 bytes, and for the driver a pointer to each.

    Words that lie `elsewhere`, by their numbers, are read there: several launches have the address
    of a buffer in common.
    """

    def __init__(self, packed: Sequence[bytes], elsewhere: Mapping[int, int] = {}) -> None:
        words = bytearray(b"".join(packed))
        self.words = (ctypes.c_uint64 * (len(words) // 8)).from_buffer(words)
        at = ctypes.addressof(self.words)
        places = [elsewhere.get(i, at + 8 * i) for i in range(len(self.words))]
        self._table = (ctypes.c_void_p * len(places))(*places)
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


def load_functions(
    device: CudaDevice, kernels: Sequence[tuple[KernelStep, cuda.TextVariant]], plan: Plan
) -> list[Any]:
    """The functions of kernels, or the error that says of which op one is rejected."""
    texts = [text_of(step.call.kernel, variant) for step, variant in kernels]
    try:
        return device.kernels.functions(texts)
    except RejectedKernel as error:
        steps = (step for (step, _), text in zip(kernels, texts) if text.identity == error.identity)
        raise DeviceError(plan.blame(next(steps).line, str(error))) from error


class LaunchedStep(NamedTuple):
    """A step of a plan: functions of C, each of which gives a status, called one after the other;
    none where another step does its work, or there is none."""

    calls: Sequence[Callable[[], int]]
    step: PlanStep | None = None

    @property
    def name(self) -> str:
        """The name of the kernel, or of the op that a library does."""
        if isinstance(self.step, HostStep):
            return self.step.name
        return "" if self.step is None else self.step.call.kernel.name


class StreamLaunches:
    """The launches of a plan, one after the other.

    Every address has one word, which all launches read: those of the caller's buffers and the host
    scalars lie in the words of the run, those of temporaries here.
    """

    def __init__(
        self,
        device: CudaDevice,
        steps: Sequence[PlanStep],
        plan: Plan,
        words: RunWords,
    ) -> None:
        slots = plan.slots
        self._device, self._plan, self._slots, self._run_words = device, plan, slots, words
        # The address of the words for failures, behind it those of temporaries.
        self._own = (ctypes.c_uint64 * (1 + len(slots)))()
        self._of_line: list[tuple[int, int]] = []  # words of marks, and the tape line
        self.arena = 0  # where temporaries begin, as these words have it
        self.kind = -1  # of the words for failures
        self.last_risk = last_risk(steps)
        self._planned = with_products(device, steps, slots)
        self._kernels = self._build(variants(steps, slots))
        products = [x for x in self._planned if isinstance(x, ProductStep)]
        self._has_products = bool(products)
        # Whether some steps write results after a failure, too: libraries know of none.
        self.is_unguarded = bool(products) or any(isinstance(x, HostStep) for x in steps)
        self._factors = sorted({
            self._run_word(binding.slot)
            for product in products
            for binding in product.bindings
            if slots[binding.slot].kind != "temp"
        })  # fmt: skip
        self._known: dict[Any, tuple[list[LaunchedStep], list[Callable[[], int]]]] = {}
        # All calls, where addresses do not decide which these are.
        self.fixed = [] if products else self.ready()[1]

    def _build(self, chosen: Sequence[cuda.TextVariant | None]) -> list[LaunchedStep]:
        """The launches of kernels, in the order of the steps."""
        kernels = [
            (step, variant)
            for step, variant in zip(self._planned, chosen)
            if isinstance(step, KernelStep) and variant is not None
        ]
        functions = load_functions(self._device, kernels, self._plan)
        packed: list[bytes] = []
        shared: dict[int, int] = {}
        for step, variant in kernels:
            packed.append(self._packed(step, variant, sum(map(len, packed)) // 8, shared))
        self._arguments = ArgumentBlock(packed, shared)
        launches = []
        for i, ((step, variant), function) in enumerate(zip(kernels, functions)):
            geometry = cuda.launch(step.call, variant)
            call = self._arguments.launch(self._device, i, function, geometry)
            calls = [call] if geometry.grid[0] else []
            launches.append(LaunchedStep(calls, step))
        return launches

    def _packed(
        self, step: KernelStep, variant: cuda.TextVariant, first: int, shared: dict[int, int]
    ) -> bytes:
        """The words of a launch, which lie at `first`; `shared` gets those that lie elsewhere."""
        kernel = step.call.kernel
        places = operand_words(kernel)
        for operand, binding, place in zip(kernel.operands, step.bindings, places):
            if place is None:
                continue
            if operand.mode == "scalar":
                assert binding.slot == SCALARS
                word = self._run_words.first_scalar + binding.offset
                shared[first + place] = ctypes.addressof(self._run_words.block) + WORD * word
            else:
                block, word = self._word(binding.slot)
                shared[first + place] = ctypes.addressof(block) + WORD * word
        offsets = [binding.offset for binding in step.bindings]
        bound = [0] * len(step.bindings)
        words = cuda.pack(step.call, bound, offsets, step.line, 0, variant)
        if cuda.takes_failure(kernel, variant.guarded):
            place = sum(place is not None for place in places)
            shared[first + place] = ctypes.addressof(self._own)
        if source.checks_indices(kernel):
            self._of_line.append((first + len(words) // 8 - 1, step.line))
        return words

    def _run_word(self, slot: int) -> int:
        return self._run_words.first + self._run_words.slots.index(slot)

    def _word(self, slot: int) -> tuple[Any, int]:
        """The word with the address of a slot: its block, and the number in that."""
        if self._slots[slot].kind == "temp":
            return self._own, 1 + slot
        return self._run_words.block, self._run_word(slot)

    def _address(self, slot: int) -> int:
        """Where a slot lies in this run."""
        block, word = self._word(slot)
        address: int = block[word]
        return address

    def _multiply(self, product: ProductStep, aligned: bool) -> list[Callable[[], int]]:
        """The calls of the library that do a product; operands lie at the words of their slots."""
        device, size = self._device, product.form.dtype.itemsize
        aligned = aligned and product.is_aligned([x.offset * size for x in product.bindings])
        found = device.products.find(product.form, aligned)
        assert found is not None
        addresses: list[Any] = []
        calls: list[Callable[[], int]] = []
        for binding in product.operands:
            if binding is None:
                addresses.append(ctypes.c_void_p(0))
                continue
            block, word = self._word(binding.slot)
            address = ctypes.c_void_p.from_buffer(block, WORD * word)
            if binding.offset:
                base, address = address, ctypes.c_void_p(0)
                calls.append(partial(_shift, address, base, binding.offset * size))
            addresses.append(address)
        workspace = ctypes.c_void_p(device.workspace(WORKSPACE))
        return calls + found.calls(addresses, workspace, device.stream_handle)

    def ready(self) -> tuple[list[LaunchedStep], list[Callable[[], int]]]:
        """The steps, and all of their calls, for the addresses that are in the words."""
        key: Any = None
        if self._has_products:
            block, bits = self._run_words.block, 0
            for word in self._factors:
                bits |= block[word]
            key = bits % ALIGNED == 0, config.float32_matmul_precision
        found = self._known.get(key)
        if found is None:
            kernels = iter(self._kernels)
            launches = []
            for step in self._planned:
                if isinstance(step, ProductStep):
                    launches.append(LaunchedStep(self._multiply(step, key[0]), step.step))
                elif isinstance(step, HostStep):
                    called = LibraryCall(self._device, step, self._plan, self._address)
                    launches.append(LaunchedStep([called], step))
                else:
                    launches.append(LaunchedStep([]) if step is None else next(kernels))
            calls = [call for launch in launches for call in launch.calls]
            found = self._known[key] = launches, calls
        return found

    def place(self, arena: int, kind: int) -> None:
        """Write where temporaries begin, and where failures of a kind are recorded."""
        self._own[0] = self._device.outcomes.words(kind)
        for i, slot in enumerate(self._slots):
            if slot.kind == "temp":
                self._own[1 + i] = arena + slot.offset
        self.arena, self.kind = arena, kind

    def fail(self, call: Callable[[], int], status: int) -> NoReturn:
        """Raise the error of a call that gave a status, with the op and the user's line."""
        known = [launched for launches, _ in self._known.values() for launched in launches]
        launched = next(launched for launched in known if call in launched.calls)
        assert launched.step is not None
        try:
            self._device.driver.fail(launched.name, status)
        except OutOfMemoryError:
            raise
        except DeviceError as error:
            blamed = self._plan.blame(launched.step.line, str(error), context.user_line())
            raise DeviceError(blamed) from error

    def mark(self, number: int) -> None:
        """Write the marks by which failures of this run are known."""
        for at, line in self._of_line:
            self._arguments.words[at] = number | line


def _shift(address: Any, base: Any, offset: int) -> int:
    """Write the address of an operand that begins behind that of its slot."""
    address.value = (base.value or 0) + offset
    return 0
