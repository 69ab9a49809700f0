"""The steps of a plan as one CUDA graph, in which each waits for those that it needs alone.

A graph keeps the arguments with which it was recorded. Those that change are read from words in the
GPU's memory (`graph_words.py`): host scalars, the number of the run, and the addresses of buffers
that *vary*. Others are fixed; where one of these turns out to vary, the program records another
graph.

The library of products wants fixed addresses. A buffer that varies and is a factor is copied to a
fixed place before each run; a result that varies, or that must stay as it is if the run fails, is
made in a fixed place and copied at the end, unless an index was wrong.
"""

from __future__ import annotations

import ctypes
import heapq
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from contraflow import config, thresholds
from contraflow.compiler.kernel import READS, WRITES
from contraflow.compiler.plan import SCALARS, KernelStep, Plan
from contraflow.devices.cuda.compiler import KernelText
from contraflow.devices.cuda.graph_words import GraphWords, StagedInput
from contraflow.devices.cuda.launches import (
    ArgumentBlock,
    ProductStep,
    load_functions,
    variants,
    with_products,
)
from contraflow.devices.cuda.memory import CudaBuffer
from contraflow.devices.cuda.runs import CALLS
from contraflow.devices.cuda.shown import SHOW_NUMBER
from contraflow.devices.run_words import WORD, RunWords
from contraflow.dtypes import uint8
from contraflow.errors import DeviceError
from contraflow.render.clike import cuda, source

if TYPE_CHECKING:
    from contraflow.devices.cuda.device import CudaDevice

ALIGNMENT = 256

# Copies of whole buffers, unless an index was wrong. A row: from, to, bytes, and whether the second
# is given by the address of its word.
COPY_BUFFERS = """
extern "C" __global__ void __launch_bounds__(256) copy_buffers(
    const unsigned long long* rows, const long long* failure) {
    if (failure[3]) return;
    rows += 4 * blockIdx.y;
    unsigned long long from = rows[0], to = rows[1];
    if (rows[3]) to = *(const unsigned long long*)to;
    const long long bytes = rows[2], step = (long long)gridDim.x * 256;
    const long long first = blockIdx.x * 256LL + threadIdx.x;
    if ((from | to) % 16 == 0) {
        for (long long i = first; i < bytes / 16; i += step)
            ((int4*)to)[i] = ((const int4*)from)[i];
        for (long long i = bytes / 16 * 16 + first; i < bytes; i += step)
            ((char*)to)[i] = ((const char*)from)[i];
    } else {
        for (long long i = first; i < bytes; i += step) ((char*)to)[i] = ((const char*)from)[i];
    }
}
"""


class Region(NamedTuple):
    """Memory that a node touches: a range of addresses, or a slot that varies."""

    start: int
    stop: int
    slot: int = -1

    def meets(self, other: Region) -> bool:
        """Whether two have memory in common."""
        if self.slot >= 0 or other.slot >= 0:
            return self.slot == other.slot
        return self.start < other.stop and other.start < self.stop


class KernelNode(NamedTuple):
    """A call of a kernel: nodes of the same text can become one launch."""

    step: KernelStep
    variant: cuda.TextVariant

    @property
    def geometry(self) -> cuda.Launch:
        """Blocks and threads."""
        return cuda.launch(self.step.call, self.variant)

    def is_like(self, other: KernelNode | Callable[[], int]) -> bool:
        """Whether both can be in one launch."""
        return (
            isinstance(other, KernelNode)
            and other.variant == self.variant
            and other.step.call.kernel.identity == self.step.call.kernel.identity
            and other.geometry.block == self.geometry.block
        )


class GraphNode(NamedTuple):
    """A call of a kernel or another launch, with the memory that it reads and writes."""

    work: KernelNode | Callable[[], int]
    reads: list[Region]
    writes: list[Region]
    behind: frozenset[int] = frozenset()  # other nodes that it waits for
    is_urgent: bool = False  # the host waits for it
    is_late: bool = False  # it may wait until the longest way has been gone


class PlanGraph:
    """A plan recorded as a graph, for fixed addresses of some buffers."""

    def __init__(
        self, device: CudaDevice, plan: Plan, steps: Sequence[KernelStep], words: RunWords,
        varying: frozenset[int], arena: int,
    ) -> None:  # fmt: skip
        self._device, self._plan, self._words = device, plan, words
        self.varying = varying  # slots
        self.precision = config.float32_matmul_precision
        self._held: list[CudaBuffer] = []  # memory of its own
        run = words.block[:]
        # Numbers of words with addresses that are the same at every run.
        self._fixed = [i for i, slot in enumerate(words.slots, words.first) if slot not in varying]
        self.fixed_words = [run[i] for i in self._fixed]
        self._block = self._take(GraphWords.size(words))
        given = {slot: run[i] for i, slot in enumerate(words.slots, words.first)}
        self._bases = [given.get(i, 0) for i in range(len(plan.slots))]
        self.arena = self._place_temporaries(arena)
        self._keep: list[Any] = []
        self._shown: list[tuple[int, int]] = []  # words of outputs that are shown, and the places
        self._pointers: list[int] = []  # what these words were at the last run
        self._addresses = memoryview(words.block).cast("B")[
            WORD * words.first : WORD * words.first_scalar
        ]
        self._fitting: set[bytes] = set()  # addresses of buffers that were found to fit
        self._launch = device.driver.quick("cuGraphLaunch")
        self._staged: list[StagedInput] = []
        self._executable = self._instantiate(self._nodes(steps))
        self._given = GraphWords(device, words, self._block, self._staged)

    def _take(self, size: int) -> int:
        with self._device.arena_in_use():
            self._held.append(self._device.allocate((size,), uint8))
        return self._held[-1].pointer

    def _place_temporaries(self, arena: int) -> int | None:
        """Give temporaries their places: apart, so that steps wait for no others than those whose
        results they read; in the arena, which is given back then, where that would be too much."""
        temporary = [i for i, slot in enumerate(self._plan.slots) if slot.kind == "temp"]
        sizes = [-(-self._plan.slots[i].nbytes // ALIGNMENT) * ALIGNMENT for i in temporary]
        if sum(sizes) > thresholds.cuda_bytes_apart:
            for i in temporary:
                self._bases[i] = arena + self._plan.slots[i].offset
            return arena
        at = self._take(sum(sizes)) if temporary else 0
        for i, size in zip(temporary, sizes):
            self._bases[i] = at
            at += size
        return None

    # --- launches -------------------------------------------------------------------------

    def _to_stage(self, planned: Sequence[Any], may_fail: bool) -> tuple[list[int], list[int]]:
        """The slots that are copied to a fixed place before the steps, and from one behind them."""
        slots = self._plan.slots
        written = {slot for p in planned if p is not None for slot in _step_of(p).writes}
        inputs: dict[int, None] = {}
        outputs: dict[int, None] = {}
        for product in planned:
            if not isinstance(product, ProductStep):
                continue
            modes = [operand.mode for operand in product.step.call.kernel.operands]
            bound = [*product.step.bindings, *([product.bias] if product.bias else [])]
            for mode, binding in zip((*modes, "in"), bound):
                slot = binding.slot
                if slots[slot].kind == "temp":
                    continue
                if mode in WRITES and (slot in self.varying or may_fail):
                    outputs[slot] = None
                elif slot in self.varying and slot not in written:
                    inputs[slot] = None
                elif slot in self.varying and slots[slot].kind == "output":
                    outputs[slot] = None
                elif slot in self.varying:
                    raise CannotRecord("a factor of a product varies, and is written in place")
        return list(inputs), list(outputs)

    def _nodes(self, steps: Sequence[KernelStep]) -> list[GraphNode]:
        device, slots = self._device, self._plan.slots
        may_fail = any(step.may_fail for step in steps)
        planned = with_products(device, steps, slots, apart=self.arena is None)
        inputs, outputs = self._to_stage(planned, may_fail)
        places = {slot: self._take(slots[slot].nbytes) for slot in (*inputs, *outputs)}
        outside = {slot: self._bases[slot] for slot in places}
        for slot, place in places.items():
            self._bases[slot] = place
        moving = self.varying.difference(places)
        self._staged = [
            StagedInput(self._number_of(slot), places[slot], slots[slot].nbytes) for slot in inputs
        ]
        nodes = self._step_nodes(steps, planned, moving)
        if outputs:
            rows = []
            for slot in outputs:
                varies = slot in self.varying
                target = self._word_of(slot) if varies else outside[slot]
                rows.append([places[slot], target, slots[slot].nbytes, int(varies)])
            written = [
                Region(0, 0, slot)
                if slot in self.varying
                else Region(outside[slot], outside[slot] + slots[slot].nbytes)
                for slot in outputs
            ]
            made = [self._region(slot, frozenset()) for slot in outputs]
            nodes.append(GraphNode(self._copies(rows), made, written, risks_of(nodes)))
        return nodes + self._shown_numbers(nodes, moving)

    def _shown_numbers(self, nodes: Sequence[GraphNode], moving: frozenset[int]) -> list[GraphNode]:
        """Nodes that show the host outputs of one element, when nothing before them can fail."""
        device, slots = self._device, self._plan.slots
        risks = risks_of(nodes)
        found = []
        numbers = [i for i, x in enumerate(slots) if x.kind == "output" and x.numel == 1]
        for slot in numbers[: thresholds.cuda_shown_numbers]:
            place = device.shown.take(device.stream)
            if place is None:
                break
            device.keep_shown(self, place)
            (function,) = device.kernels.functions(
                [KernelText("show_number", SHOW_NUMBER, lambda: SHOW_NUMBER)]
            )
            self._shown.append((self._number_of(slot), place))
            through = slot in moving
            source = self._word_of(slot) if through else self._bases[slot]
            block = ArgumentBlock(
                [device.shown.arguments(place, source, through, slots[slot].nbytes)]
            )
            self._keep.append(block)
            launch = block.launch(device, 0, function, cuda.Launch((1, 1, 1), (1, 1, 1)))
            found.append(GraphNode(launch, [self._region(slot, moving)], [], risks, is_urgent=True))
        return found

    def _number_of(self, slot: int) -> int:
        """The number of the word with the address of a buffer."""
        return self._words.first + self._words.slots.index(slot)

    def _word_of(self, slot: int) -> int:
        """Where the address of a buffer lies."""
        return self._block + GraphWords.word(self._number_of(slot))

    def _copies(self, rows: list[list[int]]) -> Callable[[], int]:
        """The launch that copies buffers from their fixed places."""
        device = self._device
        (function,) = device.kernels.functions(
            [KernelText("copy_buffers", COPY_BUFFERS, lambda: COPY_BUFFERS)]
        )
        place, failure = self._uploaded(np.array(rows, np.uint64)), device.outcomes.words(CALLS)
        block = ArgumentBlock([place.to_bytes(8, "little") + failure.to_bytes(8, "little")])
        self._keep.append(block)
        most = max(row[2] for row in rows)
        geometry = cuda.Launch((min(64, -(-most // 4096)), len(rows), 1), (256, 1, 1))
        return block.launch(device, 0, function, geometry)

    def _step_nodes(
        self, steps: Sequence[KernelStep], planned: Sequence[Any], moving: frozenset[int]
    ) -> list[GraphNode]:
        nodes: list[GraphNode] = []
        risks: frozenset[int] = frozenset()  # all come before what is guarded
        for step, variant, found in zip(steps, variants(steps, self._plan.slots), planned):
            if found is None:
                continue
            assert variant is not None
            if isinstance(found, ProductStep):
                step = found.step
            operands = list(zip(step.call.kernel.operands, step.bindings))
            reads = [self._region(b.slot, moving) for o, b in operands if o.mode in READS]
            writes = [self._region(b.slot, moving) for o, b in operands if o.mode in WRITES]
            if isinstance(found, ProductStep):
                if found.bias is not None:
                    reads.append(self._region(found.bias.slot, moving))
                made = self._product(found)
                nodes.append(GraphNode(made, reads, writes, is_late=found.is_late))
                continue
            node = KernelNode(step, self._variant(step, variant, moving))
            if node.geometry.grid[0]:
                if step.may_fail:
                    risks |= {len(nodes)}
                behind = risks if node.variant.guarded else frozenset()
                nodes.append(GraphNode(node, reads, writes, behind))
        return nodes

    def _uploaded(self, array: np.ndarray) -> int:
        """Memory with a copy of a table."""
        device, place = self._device, self._take(array.nbytes)
        at = array.__array_interface__["data"][0]
        device.driver("cuMemcpyHtoDAsync", place, at, array.nbytes, device.stream)
        device.driver("cuStreamSynchronize", device.stream)
        return place

    def _launches(self, groups: Sequence[Sequence[KernelNode | Callable[[], int]]]) -> list[Any]:
        """A launch for each group of nodes."""
        kernels = [group for group in groups if isinstance(group[0], KernelNode)]
        loaded, packed, geometries = [], [], []
        for group in kernels:
            calls = [node for node in group if isinstance(node, KernelNode)]
            variant = calls[0].variant._replace(grouped=len(calls) > 1)
            loaded.append((calls[0].step, variant))
            if len(calls) == 1:
                packed.append(self._packed(*calls[0]))
                geometries.append(calls[0].geometry)
                continue
            table = np.frombuffer(b"".join(self._packed(*call) for call in calls), np.uint64)
            blocks = [min(call.geometry.grid[0], thresholds.cuda_grouped_blocks) for call in calls]
            places = [(i, b, n, 0) for i, n in enumerate(blocks) for b in range(n)]
            addresses = [self._uploaded(table), self._uploaded(np.array(places, np.int32))]
            packed.append(b"".join(at.to_bytes(8, "little") for at in addresses))
            geometries.append(cuda.Launch((len(places), 1, 1), calls[0].geometry.block))
        functions = iter(load_functions(self._device, loaded, self._plan))
        block = ArgumentBlock(packed)
        self._keep.append(block)
        numbered = iter(range(len(packed)))
        launches: list[Any] = []
        for group in groups:
            if isinstance(group[0], KernelNode):
                i = next(numbered)
                launches.append(block.launch(self._device, i, next(functions), geometries[i]))
            else:
                launches.append(group[0])
        return launches

    def _variant(
        self, step: KernelStep, variant: cuda.TextVariant, moving: frozenset[int]
    ) -> cuda.TextVariant:
        indirect = frozenset(
            i
            for i, (operand, binding) in enumerate(zip(step.call.kernel.operands, step.bindings))
            if operand.mode == "scalar" or (operand.mode != "position" and binding.slot in moving)
        )
        return variant._replace(indirect=indirect, numbered=source.checks_indices(step.call.kernel))

    def _packed(self, step: KernelStep, variant: cuda.TextVariant) -> bytes:
        bound = []
        for i, (operand, binding) in enumerate(zip(step.call.kernel.operands, step.bindings)):
            if operand.mode == "position":
                bound.append(0)
            elif binding.slot == SCALARS:
                word = self._words.first_scalar + binding.offset
                bound.append(self._block + GraphWords.word(word))
            elif i in variant.indirect:
                bound.append(self._word_of(binding.slot))
            else:
                bound.append(self._bases[binding.slot])
        offsets = [binding.offset for binding in step.bindings]
        failure = self._device.outcomes.words(CALLS)
        return cuda.pack(step.call, bound, offsets, step.line, failure, variant, self._block)

    def _product(self, found: ProductStep) -> Callable[[], int]:
        """A product with a workspace of its own: several may run at the same time."""
        device = self._device
        addresses = found.addresses(self._bases)
        product = device.products.find(found.form, found.is_aligned(addresses))
        assert product is not None
        workspace = self._take(product.workspace) if product.workspace else 0

        def at(left: int, right: int, result: int, bias: int) -> Callable[[], int]:
            given = [ctypes.c_void_p(address) for address in (left, right, result, bias)]
            calls = product.calls(given, ctypes.c_void_p(workspace), device.stream_handle)
            return lambda: next((status for status in (call() for call in calls) if status), 0)

        # The kernel is loaded now, not while a stream is recorded. It writes elsewhere: an output
        # of the caller may hold what is needed if this call is taken back.
        left, right, result, bias = addresses
        slot = found.operands[2].slot
        if self._plan.slots[slot].kind == "temp":
            status = at(left, right, result, bias)()
        else:
            with device.arena_in_use():
                elsewhere = device.allocate((self._plan.slots[slot].nbytes,), uint8)
            status = at(left, right, elsewhere.pointer + result - self._bases[slot], bias)()
        if status:
            raise DeviceError(f"cuda: cublasLtMatmul failed with status {status}.")
        return at(*addresses)

    def _region(self, slot: int, moving: frozenset[int]) -> Region:
        if slot in moving:
            return Region(0, 0, slot)
        at = self._bases[slot]
        return Region(at, at + self._plan.slots[slot].nbytes)

    # --- the graph ------------------------------------------------------------------------

    def _instantiate(self, nodes: Sequence[GraphNode]) -> Any:
        driver = self._device.driver
        graph = driver("cuGraphCreate", 0)
        try:
            self._fill(graph, nodes)
            executable = driver("cuGraphInstantiate", graph, 0)
        finally:
            driver("cuGraphDestroy", graph)
        self._device.keep_executable(self, executable)
        return ctypes.c_void_p(int(executable))

    def _fill(self, graph: Any, nodes: Sequence[GraphNode]) -> None:
        """Add nodes to a graph, in the order of a schedule."""
        needs = dependencies(nodes)
        if self.arena is None:  # nothing waits for memory that others leave
            nodes, needs = postponed(nodes, needs)
        groups = schedule(nodes, needs)
        self.count = len(groups)
        group_of = {i: n for n, group in enumerate(groups) for i in group}
        made: list[Any] = []
        behind: list[int] = []  # all that a group waits for, as bits
        for n, launch in enumerate(self._launches([[nodes[i].work for i in g] for g in groups])):
            waits, found = 0, []
            for m in sorted({group_of[j] for i in groups[n] for j in needs[i]}, reverse=True):
                if not waits >> m & 1:
                    found.append(made[m])
                    waits |= behind[m] | 1 << m
            behind.append(waits)
            made.append(self._add(graph, launch, found))

    def _add(self, graph: Any, launch: Callable[[], int], needs: list[Any]) -> Any:
        """Add what a launch does, behind other nodes: a kernel, or a graph of several."""
        driver, stream = self._device.driver, self._device.stream
        library = driver.library
        mode = library.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        driver("cuStreamBeginCapture", stream, mode)
        try:
            status = launch()
        finally:
            part = driver("cuStreamEndCapture", stream)
        try:
            if status:
                driver.fail("cuLaunchKernel", status)
            return self._copy_of(part, graph, needs)
        finally:
            driver("cuGraphDestroy", part)

    def _copy_of(self, part: Any, graph: Any, needs: list[Any]) -> Any:
        """A node of a graph that does what another graph does."""
        driver = self._device.driver
        library = driver.library
        nodes, count = driver("cuGraphGetNodes", part, 16)
        kernel = library.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL
        if count != 1 or driver("cuGraphNodeGetType", nodes[0]) != kernel:
            return driver("cuGraphAddChildGraphNode", graph, needs, len(needs), part)
        parameters = driver("cuGraphKernelNodeGetParams", nodes[0])
        node = driver("cuGraphAddKernelNode", graph, needs, len(needs), parameters)
        # The parameters lack the size of clusters, without which some kernels cannot run.
        driver("cuGraphKernelNodeCopyAttributes", node, nodes[0])
        return node

    # --- runs -----------------------------------------------------------------------------

    def fits(self, words: Sequence[int]) -> bool:
        """Whether the buffers that are fixed are where they were, by the words of the program."""
        addresses = bytes(self._addresses)
        if addresses in self._fitting:
            return True
        if [words[i] for i in self._fixed] != self.fixed_words:
            return False
        if len(self._fitting) == thresholds.cuda_fitting_addresses:
            self._fitting.clear()
        self._fitting.add(addresses)
        return True

    def moved(self, words: Sequence[int]) -> set[int]:
        """The slots of fixed buffers that lie elsewhere."""
        pairs = zip(self._fixed, self.fixed_words)
        return {self._words.slots[i - self._words.first] for i, was in pairs if words[i] != was}

    def run(self, words: Sequence[int], number: int) -> int:
        """Launch it with the words of a run; the status."""
        status = self._given.update(number)
        if status:
            self._device.driver.fail("set_words", status)
        self._pointers = [words[i] for i, _ in self._shown]
        for _, place in self._shown:
            self._device.shown.launched(place)
        return self._launch(self._executable, self._device.stream_handle)

    def shows(self, pointer: int) -> int | None:
        """The place where the last run shows what lies at an address; None if it does not."""
        for shown, (_, place) in zip(self._pointers, self._shown):
            if shown == pointer:
                return place
        return None


class CannotRecord(Exception):
    """A program that no graph can be made of; its text says why."""


def _step_of(planned: ProductStep | KernelStep) -> KernelStep:
    return planned.step if isinstance(planned, ProductStep) else planned


def risks_of(nodes: Sequence[GraphNode]) -> frozenset[int]:
    """The nodes that may find a wrong index: those that write what others see are behind them."""
    return frozenset(
        i
        for i, node in enumerate(nodes)
        if isinstance(node.work, KernelNode) and node.work.step.may_fail
    )


def dependencies(nodes: Sequence[GraphNode]) -> list[list[int]]:
    """Per node the earlier ones that it waits for, without those that they wait for themselves."""
    if len(nodes) > thresholds.cuda_branches:
        return [[i - 1] if i else [] for i in range(len(nodes))]
    result: list[list[int]] = []
    behind: list[int] = []  # all that a node waits for, as bits
    for i, node in enumerate(nodes):
        waits, found = 0, []
        for j in reversed(range(i)):
            if not waits >> j & 1 and (j in node.behind or _clash(node, nodes[j])):
                found.append(j)
                waits |= behind[j] | 1 << j
        behind.append(waits)
        result.append(found)
    return result


def postponed(
    nodes: Sequence[GraphNode], needs: Sequence[Sequence[int]]
) -> tuple[list[GraphNode], list[list[int]]]:
    """Nodes, and what they wait for, in an order in which late ones come behind the longest way
    that needs none of them, and wait for its end: beside it they would take the GPU from the steps
    that all others wait for."""
    follows: set[int] = set()  # what needs a late one
    depth = [1] * len(nodes)
    for i, waited in enumerate(needs):
        depth[i] += max((depth[j] for j in waited), default=0)
        if any(j in follows or nodes[j].is_late for j in waited):
            follows.add(i)
    late = [i for i, node in enumerate(nodes) if node.is_late and i not in follows]
    first = [i for i, node in enumerate(nodes) if not node.is_late and i not in follows]
    if not late or not first:
        return list(nodes), [list(waited) for waited in needs]
    order = [*first, *late, *sorted(follows)]
    place = {old: new for new, old in enumerate(order)}
    end = place[max(first, key=lambda i: depth[i])]
    found = [[place[j] for j in needs[i]] for i in order]
    for i in late:
        found[place[i]].append(end)
    return [nodes[i] for i in order], found


def schedule(nodes: Sequence[GraphNode], needs: Sequence[Sequence[int]]) -> list[list[int]]:
    """Nodes in groups that are launched together. The one from which the way to the end is longest
    comes first, with all that are like it and need not wait any more: so updates of parameters and
    gradients of biases wait for each other."""
    followers: list[list[int]] = [[] for _ in nodes]
    for i, waited in enumerate(needs):
        for j in waited:
            followers[j].append(i)
    height = [0] * len(nodes)
    for i in reversed(range(len(nodes))):
        height[i] = 1 + max((height[j] for j in followers[i]), default=0)
        if nodes[i].is_urgent:
            height[i] += len(nodes)
    waiting = [len(waited) for waited in needs]
    ready = [(-height[i], i) for i, count in enumerate(waiting) if not count]
    heapq.heapify(ready)
    groups = []
    while ready:
        _, first = heapq.heappop(ready)
        work = nodes[first].work
        group = [first]
        if isinstance(work, KernelNode):
            group += [i for _, i in ready if work.is_like(nodes[i].work)]
            ready = [found for found in ready if found[1] not in set(group)]
            heapq.heapify(ready)
        groups.append(sorted(group))
        for j in (j for i in group for j in followers[i]):
            waiting[j] -= 1
            if not waiting[j]:
                heapq.heappush(ready, (-height[j], j))
    return groups


def _clash(later: GraphNode, earlier: GraphNode) -> bool:
    """Whether one writes what the other touches."""
    for region in earlier.writes:
        if any(region.meets(x) for x in (*later.reads, *later.writes)):
            return True
    return any(region.meets(x) for region in earlier.reads for x in later.writes)
