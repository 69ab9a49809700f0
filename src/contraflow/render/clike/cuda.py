"""CUDA C++ of a kernel, for NVRTC: no header is included, for its wheel has none.

A kernel is `extern "C"` and called `kernel.name`. Its parameters are

    per operand     memory: a pointer; a scalar: a double or a long long; a position: nothing
    failure         a pointer to the words of a failure, if the kernel checks indices or is guarded
    the integers    in the order of `source.integer_names`

A `TextVariant` says what a text may take for granted about the calls that it serves. An operand
that is `indirect` is the address of its pointer or number: a graph reads there what is new.

The words of a failure (`FAILURE_WORDS` long longs): the tape line plus 1; the index; the address of
two more words, for the host to read, or 0; a word that keeps `guarded` kernels from doing anything
while it is not 0; and what that becomes when a failure is recorded.

`LIMITS` are those of fusion and planning, `OPTIONS` what NVRTC must be told. `pack` gives the
arguments of a call as words of 8 bytes, and cuLaunchKernel wants a pointer to each of them;
`launch` says how many blocks of how many threads run it. Integers are long longs. In a text of 32
index bits sizes and strides are ints and read the lower half of their words: faster, and right for
calls of which `index_bits` says 32.

bool is one byte, 0 or 1. float16 and bfloat16 are two bytes in memory and floats in registers,
rounded after every operation.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from contraflow.compiler.kernel import (
    Attention,
    Contraction,
    Kernel,
    KernelCall,
    Limits,
    Loops,
    Merge,
)
from contraflow.dtypes import HALVES, DType, bool_, float64, int64
from contraflow.expressions.expression import Number
from contraflow.render.clike import bodies, cuda_attention, fours, source
from contraflow.render.generator import SHARED, digest

# Sums are carried in float64 where the CPU does so: kernels that do it wait for memory anyway.
LIMITS = Limits(
    alignment=256,
    folds=source.FOLDS,
    windows=True,
    kernels=source.KERNELS,
    doubles=True,
    sorted_points=source.SORTED,
    many_threads=True,
)

# A value that is computed again must round as before: only `muladd` is a fused product and sum.
OPTIONS = ("--fmad=false",)

FAILURE_WORDS = 5

TILE = 8  # columns of a block that share its threads: as many floats as are read at once
TILE_THREADS = 512  # of such a block at most

# More blocks than this would only wait: the threads take another point instead.
MOST_BLOCKS = 1 << 16
WARP = 32

_TYPES = {
    "bool": "bool",
    "uint8": "unsigned char",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long long",
    "uint32": "unsigned int",
    "float16": "float",
    "bfloat16": "float",
    "float32": "float",
    "float64": "double",
}

# Reading bits as another type, through the unsigned integer of the same size.
_BITS_OF = {"float32": "__float_as_uint({})", "float64": "__double_as_longlong({})"}
_OF_BITS = {"float32": "__uint_as_float({})", "float64": "__longlong_as_double({})"}
for _half in ("float16", "bfloat16"):
    _BITS_OF[_half], _OF_BITS[_half] = f"to_{_half}({{}})", f"from_{_half}({{}})"

# Functions that a body may call, by the text of their calls.
_FUNCTIONS = {
    "fail(": """\
__device__ void fail(long long* failure, long long line, long long index) {
    const unsigned long long mark = line + 1;
    if (atomicCAS((unsigned long long*)failure, 0ULL, mark) != 0) return;
    failure[1] = index;
    failure[3] = failure[4];
    volatile long long* seen = (long long*)failure[2];
    if (!seen) return;
    seen[1] = index;
    __threadfence_system();
    seen[0] = mark;
}
""",
    # The conversion itself saturates, but makes of NaN what the pair of types decides.
    "truncated(": """\
__device__ long long truncated(float x) { return isnan(x) ? 0 : __float2ll_rz(x); }
__device__ long long truncated(double x) { return isnan(x) ? 0 : __double2ll_rz(x); }
""",
    "_float16(": """\
__device__ float from_float16(unsigned short bits) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
}
__device__ unsigned short to_float16(float x) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}
__device__ float round_float16(float x) { return from_float16(to_float16(x)); }
""",
    "Four<": """\
template <typename T> struct __align__(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) Four { T at[4]; };
""",
    # The upper half of a float, rounded to even; a NaN must not carry into infinity.
    "_bfloat16(": """\
__device__ float from_bfloat16(unsigned short bits) {
    return __uint_as_float((unsigned int)bits << 16);
}
__device__ unsigned short to_bfloat16(float x) {
    const unsigned int bits = __float_as_uint(x);
    if (isnan(x)) return bits >> 16 | 0x40u;
    return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}
__device__ float round_bfloat16(float x) { return from_bfloat16(to_bfloat16(x)); }
""",
}


class TextVariant(NamedTuple):
    """The assumptions of a text about the calls of the kernel that it serves."""

    index_bits: int = 64  # of coordinates
    guarded: bool = False  # it writes what must stay as it is where an index was wrong before
    indirect: frozenset[int] = frozenset()  # operands given by the address of their word
    apart: frozenset[int] = frozenset()  # operands in memory that nothing else writes meanwhile
    numbered: bool = False  # a number to add to the tape line lies at an address, `run`
    tiled: bool = False  # the threads of a block share columns
    grouped: bool = False  # one launch is several calls, whose arguments lie in a table
    warps: bool = False  # a warp does what a block does else
    threads: int = 0  # of a row, where the number is known; and how many elements each has, if so
    turns: int = 0
    fours: bool = False  # a thread takes four points of a map that lie side by side, where they do
    rows: int = 0  # of attention: the rows of a block, and the columns of its tiles; 0: of any size
    head: int = 0


PLAIN = TextVariant()


class Cuda:
    """The syntax of CUDA C++."""

    column = "cuda"
    unrolled = "#pragma unroll"
    shuffle = "__shfl_xor_sync(0xffffffffu, {0}, {1})"
    staged = 32  # each part waits once for memory; 42 KiB of float64

    def __init__(self, variant: TextVariant) -> None:
        self.index = "int" if variant.index_bits == 32 else "long long"
        self.tile = TILE if variant.tiled else 0
        self.turns = variant.turns
        self.barrier = "__syncwarp();" if variant.warps else "__syncthreads();"

    def type_of(self, dtype: DType) -> str:
        """The type of a variable."""
        return _TYPES[dtype.name]

    def literal(self, value: Number, dtype: DType) -> str:
        """A constant; what has no decimal form is written by its bits."""
        if dtype is bool_:
            return "true" if value else "false"
        if dtype.is_floating_point:
            return _float_literal(float(value), dtype)
        suffix = {"int64": "LL", "uint32": "u"}.get(dtype.name, "")
        whole = _wrap(int(value), dtype)
        if whole == -(1 << 63) or whole == -(1 << 31):  # the digits alone would be one too many
            return f"({whole + 1}{suffix} - 1)"
        return f"({whole}{suffix})" if whole < 0 else f"{whole}{suffix}"

    def apply(self, template: str, args: Sequence[str], dtype: DType) -> str:
        """Fill in a template, where {t} is the arguments' type and {u} the unsigned one."""
        unsigned = "unsigned long long" if dtype is int64 else "unsigned int"
        mask = dtype.itemsize * 8 - 1
        return template.format(*args, t=self.type_of(dtype), u=unsigned, mask=mask)

    def convert(self, text: str, source: DType, target: DType) -> str:
        """A value cast to another dtype."""
        if target is bool_:
            return f"{text} != 0"
        if target in HALVES:
            return f"round_{target}({text})"
        if self.type_of(source) == self.type_of(target):
            return text
        if source.is_floating_point and not target.is_floating_point:
            if target is int64:
                return f"truncated({text})"
            low, high = _range(target)
            return f"({self.type_of(target)})min(max(truncated({text}), {low}LL), {high}LL)"
        return f"({self.type_of(target)}){text}"

    def reinterpret(self, text: str, source: DType, target: DType) -> str:
        """The bits of a value read as another dtype."""
        text = _BITS_OF.get(source.name, "{}").format(text)
        return _OF_BITS.get(target.name, f"({self.type_of(target)}){{}}").format(text)

    def load(self, operand: int, dtype: DType, address: str) -> str:
        """An element of memory as a value."""
        return self.element_of(f"operand{operand}[{address}]", dtype)

    def store(self, operand: int, dtype: DType, address: str, value: str) -> str:
        """The statement that writes an element of memory."""
        return f"operand{operand}[{address}] = {self.as_element(value, dtype)};"

    def memory_type(self, dtype: DType) -> str:
        """The type of an element in memory."""
        return "unsigned short" if dtype in HALVES else _TYPES[dtype.name]

    def four(self, dtype: DType) -> str:
        """The type of four elements side by side in memory."""
        return f"Four<{self.memory_type(dtype)}>"

    def element_of(self, text: str, dtype: DType) -> str:
        """The value of what memory holds."""
        return f"from_{dtype}({text})" if dtype in HALVES else text

    def as_element(self, value: str, dtype: DType) -> str:
        """A value as it lies in memory."""
        return f"to_{dtype}({value})" if dtype in HALVES else value

    def constant(self, name: str, type_name: str, value: str) -> str:
        """The declaration of a name for a value."""
        return f"const {type_name} {name} = {value}"

    def variable(self, name: str, type_name: str, value: str) -> str:
        """The declaration of a variable that is assigned again."""
        return f"{type_name} {name} = {value}"

    def guarded(
        self, name: str, type_name: str, condition: str, value: str, otherwise: str
    ) -> list[str]:
        """The declaration of a name whose value is evaluated only under a condition."""
        return [self.constant(name, type_name, f"{condition} ? {value} : {otherwise};")]

    def fail(self, index: str) -> str:
        """The statement that records a failed index check."""
        return f"fail(failure, line, {index});"


def _float_literal(value: float, dtype: DType) -> str:
    wide = dtype is float64
    number = np.float64(value) if wide else np.float32(value)
    if not np.isfinite(number):
        bits = int(number.view(np.uint64 if wide else np.uint32))
        return f"__longlong_as_double({bits:#x}LL)" if wide else f"__uint_as_float({bits:#x}u)"
    text = str(number) if wide else f"{number!s}f"
    return f"({text})" if np.signbit(number) else text


def _range(dtype: DType) -> tuple[int, int]:
    bits = 8 * dtype.itemsize
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype.is_signed else (0, (1 << bits) - 1)


def _wrap(value: int, dtype: DType) -> int:
    low, high = _range(dtype)
    return (value - low) % (high - low + 1) + low


# The modules in which it is decided which text a kernel becomes.
GENERATOR = (
    *SHARED, "render.clike.attention", "render.clike.bodies", "render.clike.contraction",
    "render.clike.cuda", "render.clike.cuda_attention", "render.clike.fours",
    "render.clike.loops", "render.clike.ordered", "render.clike.sort", "render.clike.source",
    "render.clike.writer",
)  # fmt: skip


def text_identity(kernel: Kernel, variant: TextVariant) -> str:
    """The identity of the text that `render` would write, without writing it."""
    fields = (sorted(x) if isinstance(x, frozenset) else x for x in variant)
    return " ".join(map(str, (digest(GENERATOR), kernel.identity, *fields)))


def render(kernel: Kernel, variant: TextVariant = PLAIN) -> str:
    """The CUDA C++ of a kernel."""
    syntax = Cuda(variant)
    if variant.head:
        assert isinstance(kernel, Attention)
        body = cuda_attention.write(kernel, syntax, variant.rows, variant.head)
    elif variant.fours:
        assert isinstance(kernel, Loops)
        body = fours.write(kernel, syntax)
    else:
        body = bodies.write(kernel, syntax)
    entry = [_cast_scalar(kernel, i, syntax) for i in source.scalars(kernel)]
    lines = [
        f"    const {syntax.index} thread = threadIdx.x{f' % {WARP}' if variant.warps else ''};",
        f"    const {syntax.index} threads = {_threads(kernel, variant)};",
        *(
            f"    __shared__ {syntax.type_of(array.dtype)} {array.name}[{array.length}];"
            for array in body.shared
        ),
        *entry,
        *body.lines,
    ]
    guard = ["    if (failure[3]) return;"] if variant.guarded else []
    text = "\n".join(lines)
    functions = [code for mark, code in _FUNCTIONS.items() if mark in text]
    most = TILE_THREADS if variant.tiled else 8 * variant.rows or source.THREADS
    head = f'extern "C" __global__ void __launch_bounds__({most}) {kernel.name}('
    parameters = [_declared(group) for group in _parameters(kernel, syntax, variant)]
    place = _place(syntax, variant, "blockIdx.x", "gridDim.x")
    if not (variant.indirect or variant.numbered or variant.grouped):
        lines = [*functions, head, f"{_listed(parameters)}) {{", *guard, *place, text, "}", ""]
        return "\n".join(lines)
    # A function of its own: pointers that are apart are known to be so as parameters alone.
    parameters.append(f"{syntax.index} group, {syntax.index} groups")
    lines = [
        *functions, "static __device__ __forceinline__ void body(", f"{_listed(parameters)}) {{",
        text, "}", "", head,
    ]  # fmt: skip
    outer = [
        parameter
        for group in _parameters(kernel, syntax, variant, outside=True)
        for parameter in group
    ]
    if variant.grouped:
        lines += [
            "    const unsigned long long* table, const int4* places) {",
            "    const int4 place = places[blockIdx.x];  // the call, the block and their number",
            f"    const unsigned long long* given = table + place.x * {len(outer)}LL;",
            *(
                f"    {type_name} const {name} = ({type_name})given[{i}];"
                for i, (type_name, name) in enumerate(outer)
            ),
            *_place(syntax, variant, "place.y", "place.z"),
        ]
    else:
        lines += [f"{_listed([f'{kind} {name}' for kind, name in outer])}) {{", *place]
    return "\n".join(
        [*lines, *guard, f"    body({', '.join(_passed(kernel, syntax, variant))});", "}", ""]
    )


def _place(syntax: Cuda, variant: TextVariant, block: str, blocks: str) -> list[str]:
    """The declarations of a group and the number of groups."""
    if variant.warps:
        each = WARPS
        block, blocks = f"{block} * {each} + threadIdx.x / {WARP}", f"{blocks} * {each}"
    return [
        f"    const {syntax.index} group = {block};",
        f"    const {syntax.index} groups = {blocks};",
    ]


def _threads(kernel: Kernel, variant: TextVariant) -> str:
    """The number of threads of a block. Where it is always the same the compiler knows how often
    loops turn, and starts the loads of all turns before it needs the first."""
    if variant.threads:
        return str(variant.threads)
    known = isinstance(kernel, Contraction | Attention)
    return str(8 * variant.rows or source.THREADS) if known else "blockDim.x"


def _passed(kernel: Kernel, syntax: Cuda, variant: TextVariant) -> list[str]:
    """The arguments of the function that is the body of a kernel."""
    given = {f"{kind}{i}": f"*{kind}{i}" for i in variant.indirect for kind in ("operand", "given")}
    given["line"] = "line + *run" if variant.numbered else "line"
    names = [name for group in _parameters(kernel, syntax, variant) for _, name in group]
    return [*(given.get(name, name) for name in names), "group", "groups"]


def _cast_scalar(kernel: Kernel, number: int, syntax: Cuda) -> str:
    dtype = kernel.operands[number].dtype
    value = syntax.convert(f"given{number}", host_dtype(dtype), dtype)
    return f"    {syntax.constant(f'scalar{number}', syntax.type_of(dtype), value)};"


def _listed(parameters: Sequence[str]) -> str:
    return ",\n".join(f"    {text}" for text in parameters)


def _declared(group: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{type_name} {name}" for type_name, name in group)


def _parameters(
    kernel: Kernel, syntax: Cuda, variant: TextVariant, outside: bool = False
) -> list[list[tuple[str, str]]]:
    """The types and names of the parameters, in the lines of a list; `outside` those of the kernel
    itself, where operands may be indirect."""
    groups = []
    for i, operand in enumerate(kernel.operands):
        through = outside and i in variant.indirect
        if operand.mode == "scalar":
            number = _TYPES[host_dtype(operand.dtype).name]
            groups.append([(f"const {number}*" if through else number, f"given{i}")])
        elif operand.mode != "position":
            element = syntax.memory_type(operand.dtype)
            pointer = f"{'const ' if operand.mode == 'in' else ''}{element}*"
            if through:
                pointer += " const*"
            elif i in variant.apart:
                pointer += " __restrict__"
            groups.append([(pointer, f"operand{i}")])
    if takes_failure(kernel, variant.guarded):
        groups.append([("long long*", "failure")])
    if outside and variant.numbered:
        groups.append([("const long long*", "run")])
    # A line of sizes, one of offsets, and one of strides per operand.
    names = source.integer_names(kernel)
    for kind, group in groupby(names, key=lambda name: name.rstrip("0123456789")):
        # An address begins with its offset, and so is computed in 64 bits.
        type_name = "long long" if kind in ("offset", "line") else syntax.index
        groups.append([(type_name, name) for name in group])
    return groups


def takes_failure(kernel: Kernel, guarded: bool) -> bool:
    """Whether a kernel is given the words of a failure."""
    return guarded or source.checks_indices(kernel)


def host_dtype(dtype: DType) -> DType:
    """The dtype in which a host scalar arrives: float64 or int64."""
    return float64 if dtype.is_floating_point else int64


def pack(
    call: KernelCall,
    bound: Sequence[Number],
    offsets: Sequence[int],
    line: int = 0,
    failure: int = 0,
    variant: TextVariant = PLAIN,
    run: int = 0,
) -> bytes:
    """The arguments of a call, 8 bytes each, in the order of the kernel's parameters.

    `bound` has per operand a device pointer or a scalar's value, or where that lies if it is
    indirect; `offsets` its first element.
    """
    kernel = call.kernel
    words = []
    for i, (operand, value) in enumerate(zip(kernel.operands, bound, strict=True)):
        if operand.mode == "scalar" and i in variant.indirect:
            words.append(struct.pack("<Q", value))
        elif operand.mode == "scalar" and operand.dtype.is_floating_point:
            words.append(struct.pack("<d", value))
        elif operand.mode == "scalar":
            words.append(struct.pack("<q", int(value)))
        elif operand.mode != "position":
            words.append(struct.pack("<Q", value))
    if takes_failure(kernel, variant.guarded):
        words.append(struct.pack("<Q", failure))
    if variant.numbered:
        words.append(struct.pack("<Q", run))
    integers = source.integer_values(call, offsets, line)
    return b"".join([*words, struct.pack(f"<{len(integers)}q", *integers)])


def index_bits(call: KernelCall) -> int:
    """32 where no coordinate of the call nor its product with a stride needs more, else 64."""
    # A loop ends beyond its last point by up to the number of threads.
    most = (1 << 31) - MOST_BLOCKS * source.THREADS
    shapes: list[tuple[int, ...]]
    if isinstance(call.kernel, Contraction):
        *batch, m, n, k = source.product_sizes(call.kernel, call.sizes)
        shapes = [(*batch, m, k), (*batch, k, n), (*batch, m, n)]
        counts = [math.prod((*batch, m, n)), k]
        if call.kernel.digits:
            o, digits = call.sizes[3], call.sizes[4:]
            shapes[:2] = [(*batch, m, o, k // max(o, 1)), (*batch, o, *digits)]
            # A body adds up how far the digits of n move before it adds that to an offset.
            counts.append(sum(n * abs(stride) for n, stride in zip(digits, call.strides[1][3:])))
    elif isinstance(call.kernel, Attention):
        *batch, queries, keys, e, v = call.sizes
        # Whatever the operand, no coordinate of it is larger.
        shapes = [(*batch, max(queries, keys), max(e, v))] * len(call.strides)
        counts = [sum(map(math.prod, source.attention_extents(call.kernel, call.sizes)))]
    else:
        shapes = [call.sizes] * len(call.strides)
        counts = [math.prod(call.sizes[: call.kernel.outer])]
        counts.append(math.prod(call.sizes[call.kernel.outer :]))
        if source.visits_points_alone(call.kernel):
            counts.append(math.prod(call.sizes))
        if isinstance(call.kernel, Merge):  # a run may end beyond all points
            counts.append(4 * call.sizes[-1])
    for shape, strides in zip(shapes, call.strides):
        counts += [size * abs(stride) for size, stride in zip(shape, strides)]
    return 32 if max(counts) < most else 64


def variant_of(call: KernelCall) -> TextVariant:
    """The variant of a text that suits the sizes of a call."""
    rows, head = 0, 0
    if isinstance(call.kernel, Attention):
        rows, head = cuda_attention.tiles(call.kernel, call.sizes)
    warps, turns, threads = row_threads(call)
    return TextVariant(
        index_bits(call), tiled=is_tiled(call), warps=warps, turns=turns, threads=threads,
        fours=has_fours(call), rows=rows, head=head,
    )  # fmt: skip


class Launch(NamedTuple):
    """How many blocks of how many threads; none where a call has no work."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]


def is_tiled(call: KernelCall) -> bool:
    """Whether the threads of a block share columns: those are long, and too few for all threads."""
    kernel = call.kernel
    if not isinstance(kernel, Loops) or not kernel.inner or source.is_cooperative(kernel):
        return False
    columns = math.prod(call.sizes[: kernel.outer])
    return source.swept_points(call) >= WARP and columns < _MANY_COLUMNS


_MANY_COLUMNS = 1 << 18  # threads that keep a large GPU busy


def row_threads(call: KernelCall) -> tuple[bool, int, int]:
    """Of a row kernel, whether a warp does a row, and how many elements each of how many threads
    has: zeros where these may be any numbers."""
    kernel = call.kernel
    if not isinstance(kernel, Loops) or not source.is_cooperative(kernel) or kernel.cut is not None:
        return False, 0, 0
    elements = source.swept_points(call)
    warps = elements <= TURNS * WARP
    threads = WARP if warps else source.THREADS
    turns, rest = divmod(elements, threads)
    return warps, 0 if rest or turns > TURNS else turns, threads


WARPS = 4  # of a block, where each has its own row
TURNS = 8  # elements that a thread keeps: all sweeps of a row read them once


def has_fours(call: KernelCall) -> bool:
    """Whether threads of a map take four points each: there are enough, along a lane."""
    kernel = call.kernel
    if not isinstance(kernel, Loops) or not fours.may_have_fours(kernel):
        return False
    assert kernel.lane is not None
    return math.prod(call.sizes) >= _FOURS and call.sizes[kernel.lane] >= 4


_FOURS = 1 << 14  # with fewer, threads that do one each are faster


def launch(call: KernelCall, variant: TextVariant = PLAIN) -> Launch:
    """The geometry of a call. The same call always has the same, so its sums repeat bit for bit."""
    kernel = call.kernel
    groups = source.count_groups(call)
    threads = source.THREADS
    if variant.tiled:
        assert isinstance(kernel, Loops)
        shares = 1 << max(source.swept_points(call) - 1, 0).bit_length()
        threads = min(TILE_THREADS, max(WARP, TILE * shares))
        groups = -(-math.prod(call.sizes[: kernel.outer]) // TILE)
    elif variant.warps:
        groups, threads = -(-groups // WARPS), WARPS * WARP
    elif variant.fours:
        groups = -(-math.prod(call.sizes) // (4 * threads))
    elif variant.head:
        assert isinstance(kernel, Attention)
        extents = source.attention_extents(kernel, call.sizes)
        groups = sum(g * b * -(-rows // variant.rows) for g, b, rows, _ in extents)
        threads = 8 * variant.rows
    elif not isinstance(call.kernel, Contraction | Attention) and source.is_cooperative(
        call.kernel
    ):
        # A power of two, as the tree needs, and no more than there are elements to sweep.
        elements = source.swept_points(call)
        threads = max(WARP, min(threads, 1 << max(elements - 1, 0).bit_length()))
        threads = variant.threads or threads
    return Launch((min(groups, MOST_BLOCKS), 1, 1), (threads, 1, 1))
