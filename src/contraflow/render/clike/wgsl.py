"""WGSL of a kernel, within what every WebGPU device guarantees.

The entry point is called `kernel.name`. The bind group, number 0, holds (`bindings` lists it):

    0   uniform   `arguments`: words of 4 bytes: zero, then the integers of `source.integer_names`
    1   uniform   `scalars`: a word per scalar operand, two of one that is `halved`; absent where
                  the kernel has none
    2.. storage   the operands in memory, in order; read-only for mode `in`, else read and write
    next, storage `failure`: two words, if the kernel checks indices
    last, uniform `guard`: the same words of calls before this one, if the text is guarded

`pack_arguments` and `pack_scalars` give the contents of the two uniforms, and `launch` the number
of workgroups. Scalars lie apart because they change with every replay and the integers do not.

WGSL has 32-bit types: int64 is stored and computed as i32, bool is stored as u32, float64
exists as a host scalar only and arrives as f32. float16 is stored as f16, which not every device
has, and computed as f32 whose values f16 has too. Compilers of WGSL may assume that there are no
NaN and no infinities: those constants are made with a zero that is known at run time only, NaN is
found by its bits, and the built-in max, min and exponentials are not used.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from contraflow.compiler.kernel import Attention, Contraction, Kernel, KernelCall, Limits, Loops
from contraflow.dtypes import ALL, DType, bool_, float16, float32, int32, int64, uint32
from contraflow.errors import DeviceError
from contraflow.expressions import expression as s
from contraflow.expressions.evaluate import narrow_constant
from contraflow.expressions.expression import Number
from contraflow.expressions.intrinsics import INTRINSICS
from contraflow.render.clike import bodies, source, wide
from contraflow.render.clike.cancelled import Sums
from contraflow.render.clike.fused import FusedProduct, FusedProductWriter
from contraflow.render.clike.loops import prepare
from contraflow.render.clike.wgsl_functions import FUNCTIONS
from contraflow.render.clike.writer import Writer

# Limits that every WebGPU device guarantees.
STORAGE_BUFFERS = 8
SHARED_BYTES = 16384
GROUPS_PER_AXIS = 65535

# Groups that keep a GPU busy: a product has the largest tiles of which there are as many.
BUSY_GROUPS = 128
# Groups of a map from which on a thread has several points at a time.
WIDE_MAP_GROUPS = 1024
# Points of a column from which on threads share it, and columns so many that they do not.
SHARED_POINTS = 16
MANY_COLUMNS = 1 << 18
COLUMNS = 8  # that the threads of a group share: neighbours, of one sector of memory
# Rows that a group has at a time, at most: they share its barriers. A thread has at most so many
# points of its row then, and there are so many groups at least.
ROWS = 16
ROW_POINTS = 16
ROW_GROUPS = 1024

_STORED = {
    "bool": "u32",
    "int32": "i32",
    "int64": "i32",
    "uint32": "u32",
    "float16": "f16",
    "float32": "f32",
}


def element_bytes(dtype: DType) -> int:
    """The bytes that an element takes in memory."""
    return 2 if dtype is float16 else 4


# Those of fusion and planning, on a device that has float16.
LIMITS = Limits(
    bindings=STORAGE_BUFFERS,
    alignment=256,
    aliasing=False,
    arena=False,
    element_bytes=element_bytes,
    int64_bits=32,
    lacks=frozenset(dtype.name for dtype in ALL) - _STORED.keys(),
    folds=source.FOLDS,
    windows=True,
    kernels=source.KERNELS,
    sorted_points=source.SORTED,
    many_threads=True,
    exact=False,  # compilers of WGSL may contract a product and a sum
)
WITHOUT_FLOAT16 = LIMITS._replace(lacks=LIMITS.lacks | {"float16"})

_TYPES = {
    "bool": "bool",
    "int32": "i32",
    "int64": "i32",
    "uint32": "u32",
    "float16": "f32",
    "float32": "f32",
    "float64": "f32",
}
_REMEDIES = {"float64": "float32", "bfloat16": "float32"}
_SHIFT = INTRINSICS["shr"].wgsl["int"]  # type: ignore[index]
_DIFFERENCE = INTRINSICS["sub"].wgsl["float"]  # type: ignore[index]
_INT32 = np.iinfo(np.int32)
_LARGEST = float(np.finfo(np.float32).max)


class Wgsl:
    """The syntax of WGSL."""

    column = "wgsl"
    shuffle = ""
    staged = 16  # 15 KiB with the weights, of the 16 that WebGPU guarantees
    turns = 0
    unrolled = ""
    index = "i32"
    barrier = "workgroupBarrier();"

    def __init__(
        self, kernel_name: str, halved: frozenset[int] = frozenset(), tile: int = 0
    ) -> None:
        self.kernel_name, self.tile = kernel_name, tile
        self._high = {f"scalar{i}": f"scalars.scalar{i}_high" for i in halved}
        self._sums = Sums()

    def type_of(self, dtype: DType) -> str:
        """The type of a variable."""
        if dtype.name not in _TYPES:
            remedy = _REMEDIES.get(dtype.name, "int32")
            raise DeviceError(
                f"{self.kernel_name}: webgpu cannot compute in {dtype}. "
                f"Convert first: x.to(contraflow.{remedy}), or move it: x.to('cpu')."
            )
        return _TYPES[dtype.name]

    def literal(self, value: Number, dtype: DType) -> str:
        """A constant; NaN and infinities by their bits, which must not be constant to WGSL."""
        type_name = self.type_of(dtype)
        if type_name == "bool":
            return "true" if value else "false"
        if type_name == "f32":
            number = np.float32(value)
            if not np.isfinite(number):
                return f"bitcast<f32>({int(number.view(np.uint32)):#x}u | arguments.zero)"
            # The shortest digits of the largest numbers are more than float32 has, and refused.
            rounds_up = abs(float(str(number))) > _LARGEST
            text = f"{float(number)!r}f" if rounds_up else f"{number!s}f"
            return f"({text})" if np.signbit(number) else text
        if type_name == "u32":
            return f"{int(value) % (1 << 32)}u"
        whole = self._narrow(int(value))
        if whole == _INT32.min:  # the digits alone would be one too many
            return f"i32({whole})"
        return f"({whole}i)" if whole < 0 else f"{whole}i"

    def _narrow(self, value: int) -> int:
        return _check_range(self.kernel_name, narrow_constant(value))

    def apply(self, template: str, args: Sequence[str], dtype: DType) -> str:
        """Fill in a template. The upper half of a number comes with it where it is wanted.

        Compilers take x - x for 0, which it is not of NaN and infinities. Where other terms cancel,
        an argument is hidden from them.
        """
        if template == _DIFFERENCE and args[0] == args[1] and dtype.is_floating_point:
            return f"difference_from_itself({args[0]})"
        if dtype.is_floating_point:
            args = self._sums.hide(template, args) or args
        if args[0] in self._high and template == _SHIFT:
            return self._high[args[0]]
        return template.format(*args)

    def convert(self, text: str, source: DType, target: DType) -> str:
        """A value cast to another dtype."""
        have, want = self.type_of(source), self.type_of(target)
        if target is float16 and source not in (float16, bool_):
            text = text if have == want else f"{want}({text})"
            return f"round_float16({text})"
        if have == want:
            return text
        if want == "bool" and have == "f32":  # by its bits, for NaN is true
            return f"(bitcast<u32>({text}) & 0x7fffffffu) != 0u"
        if want == "bool":
            return f"{text} != {self.literal(0, source)}"
        if have == "f32":
            return f"truncated_{want}({text})"
        return f"{want}({text})"

    def reinterpret(self, text: str, source: DType, target: DType) -> str:
        """The bits of a value read as another dtype."""
        if max(source.itemsize, target.itemsize) != 4:
            raise DeviceError(
                f"{self.kernel_name}: webgpu has no 64-bit words, so the bits of {source} "
                f"cannot be read as {target}. Convert first: x.to(contraflow.float32)."
            )
        return f"bitcast<{self.type_of(target)}>({text})"

    def load(self, operand: int, dtype: DType, address: str) -> str:
        """An element of memory as a value."""
        text = f"operand{operand}[{address}]"
        if dtype is float16:
            return f"f32({text})"
        return f"{text} != 0u" if dtype is bool_ else text

    def store(self, operand: int, dtype: DType, address: str, value: str) -> str:
        """The statement that writes an element of memory."""
        if dtype is bool_ or dtype is float16:
            value = f"{_STORED[dtype.name]}({value})"
        return f"operand{operand}[{address}] = {value};"

    def constant(self, name: str, type_name: str, value: str) -> str:
        """The declaration of a name for a value."""
        self._sums.name(name, value)
        return f"let {name}: {type_name} = {value}"

    def variable(self, name: str, type_name: str, value: str) -> str:
        """The declaration of a variable that is assigned again."""
        return f"var {name}: {type_name} = {value}"

    def guarded(
        self, name: str, type_name: str, condition: str, value: str, otherwise: str
    ) -> list[str]:
        """A variable that is set under a condition: select() would evaluate both sides."""
        declaration = self.variable(name, type_name, otherwise)
        return [f"{declaration};", f"if ({condition}) {{ {name} = {value}; }}"]

    def fail(self, index: str) -> str:
        """The statement that records a failed index check."""
        return f"fail(line, {index});"


def bindings(kernel: Kernel, guarded: bool = False) -> dict[int, str]:
    """The bind group's layout: per binding `uniform`, `read-only-storage` or `storage`."""
    layout = {0: "uniform"}
    if source.scalars(kernel):
        layout[1] = "uniform"
    modes = [kernel.operands[i].mode for i in source.in_memory(kernel)]
    storage = ["read-only-storage" if mode == "in" else "storage" for mode in modes]
    if source.checks_indices(kernel):
        storage.append("storage")
    layout.update(enumerate(storage, start=2))
    if guarded:
        layout[2 + len(storage)] = "uniform"
    return layout


class WgslVariant(NamedTuple):
    """The assumptions of a WGSL text about the calls of the kernel that it serves."""

    tiling: wide.Tiling | None = None  # how a product is shared out
    columns: int = 0  # that the threads of a group share; 0: a thread has one for itself
    rows: int = 0  # that a group has at a time; 0: one
    wide: bool = False  # each thread has several points of a map or a sweep at a time
    guarded: bool = False  # it writes what must stay as it is where an index was wrong before
    adds: bool = False  # a product is added to what its result holds

    @property
    def tile(self) -> int:
        """The columns, or rows, that the threads of a group share; 0: one row, or no column."""
        return self.columns or self.rows


PLAIN = WgslVariant()


def variant_of(call: KernelCall) -> WgslVariant:
    """The variant of a kernel's text that is fastest for a call."""
    kernel = call.kernel
    if isinstance(kernel, Contraction):
        floats = kernel.dtype.is_floating_point and kernel.accumulate is float32
        return WgslVariant(_tiling(call)) if floats and not kernel.digits else PLAIN
    if not isinstance(kernel, Loops):
        return PLAIN
    points = math.prod(call.sizes[: kernel.outer])
    if not kernel.inner:
        groups = -(-points // (source.THREADS * wide.POINTS))
        return WgslVariant(wide=not kernel.checks_indices and groups >= WIDE_MAP_GROUPS)
    swept, columns, rows = source.swept_points(call), 0, 0
    if source.is_cooperative(kernel):
        rows = _rows_at_a_time(kernel, points, swept)
    elif swept < SHARED_POINTS or points >= MANY_COLUMNS:
        return PLAIN
    else:
        columns = COLUMNS
    share = swept // (source.THREADS // max(columns, rows, 1))
    several = not kernel.checks_indices and share >= wide.POINTS
    return WgslVariant(None, columns, rows, several)


def _rows_at_a_time(kernel: Loops, points: int, swept: int) -> int:
    """How many rows a group has at a time, 0 for one. Of a kernel that is cut, rows have different
    lengths."""
    rows = 1
    while (
        kernel.cut is None
        and rows < ROWS
        and 2 * rows * swept <= source.THREADS * ROW_POINTS
        and points // (2 * rows) >= ROW_GROUPS
    ):
        rows *= 2
    return rows if rows > 1 else 0


def _tiling(call: KernelCall) -> wide.Tiling:
    """The largest tiles that keep a GPU busy, and are inside of the result for the most part."""
    g, b, m, n, _ = call.sizes
    for tiling in wide.TILINGS:
        tiles = _count_tiles(call, tiling.tile)
        if tiles >= BUSY_GROUPS and tiles * tiling.tile**2 <= 2 * g * b * m * n:
            return tiling
    return wide.TILINGS[-1]


def _count_tiles(call: KernelCall, tile: int) -> int:
    g, b, m, n, _ = call.sizes
    return g * b * -(-m // tile) * -(-n // tile)


def _count_groups(call: KernelCall) -> int:
    """How many groups a call has work for."""
    variant = variant_of(call)
    if variant.tiling is not None:
        return _count_tiles(call, variant.tiling.tile)
    if variant.tile:
        assert isinstance(call.kernel, Loops)
        return -(-math.prod(call.sizes[: call.kernel.outer]) // variant.tile)
    if variant.wide and not source.is_cooperative(call.kernel):
        return -(-math.prod(call.sizes) // (source.THREADS * wide.POINTS))
    return source.count_groups(call)


def render(kernel: Kernel, variant: WgslVariant = PLAIN) -> str:
    """The WGSL of a kernel, or a DeviceError where WebGPU cannot run it."""
    _check_storage(kernel)
    syntax = Wgsl(kernel.name, halved(kernel), variant.tile)
    body = _body(kernel, syntax, variant)
    _check_shared(kernel, body.shared)
    integers = source.integer_names(kernel)
    scalars = source.scalars(kernel)
    lines = [
        f"    let thread: i32 = {_thread(variant.rows)};",
        f"    let threads: i32 = {source.THREADS};",
        "    let group: i32 = i32(place.x + place.y * extent.x);",
        "    let groups: i32 = i32(extent.x * extent.y);",
        *(f"    let {name}: i32 = arguments.{name};" for name in integers),
        *(_cast_scalar(kernel, i, syntax) for i in scalars),
        *body.lines,
    ]
    text = "\n".join(lines)
    declarations = [
        _struct("Arguments", ["zero: u32", *(f"{name}: i32" for name in integers)]),
        "@group(0) @binding(0) var<uniform> arguments: Arguments;",
    ]
    if scalars:
        members = []
        for i in scalars:
            members.append(f"scalar{i}: {_TYPES[host_dtype(kernel, i).name]}")
            if i in halved(kernel):
                members.append(f"scalar{i}_high: i32")
        declarations.append(_struct("Scalars", members))
        declarations.append("@group(0) @binding(1) var<uniform> scalars: Scalars;")
    declarations += _storage(kernel)
    if variant.guarded:
        place = max(bindings(kernel, guarded=True))
        declarations.append(f"@group(0) @binding({place}) var<uniform> guard: vec2<i32>;")
        text = f"    if (guard.x != 0) {{ return; }}\n{text}"
    declarations += [
        f"var<workgroup> {array.name}: "
        f"array<{array.vector or syntax.type_of(array.dtype)}, {array.length}>;"
        for array in body.shared
    ]
    functions = [code for mark, code in FUNCTIONS.items() if mark in text]
    entry = (
        f"@compute @workgroup_size({source.THREADS})\n"
        f"fn {kernel.name}(\n"
        "    @builtin(local_invocation_index) local: u32,\n"
        "    @builtin(workgroup_id) place: vec3<u32>,\n"
        "    @builtin(num_workgroups) extent: vec3<u32>) {"
    )
    features = ["enable f16;"] if uses_float16(kernel) else []
    return "\n".join([*features, *declarations, "", *functions, entry, text, "}", ""])


def _thread(rows: int) -> str:
    """The number of a thread. Of several rows those with the same remainder have one of them, as of
    columns, and neighbours have neighbours along it."""
    if not rows:
        return "i32(local)"
    each = source.THREADS // rows
    return f"i32(local) % {each} * {rows} + i32(local) / {each}"


def uses_float16(kernel: Kernel) -> bool:
    """Whether the text needs a device that has f16."""
    return any(kernel.operands[i].dtype is float16 for i in source.in_memory(kernel))


def _body(kernel: Kernel, syntax: Wgsl, variant: WgslVariant) -> source.Body:
    if variant.tiling is not None:
        assert isinstance(kernel, Contraction)
        writer: Writer = wide.ProductWriter(kernel, syntax, variant.tiling, variant.adds)
        if isinstance(kernel, FusedProduct):
            writer = FusedProductWriter(kernel, syntax, variant.tiling)
    elif variant.wide:
        assert isinstance(kernel, Loops)
        writer = wide.WideWriter(prepare(kernel, syntax.column), syntax)
    else:
        return bodies.write(kernel, syntax)
    writer.write_points()
    return source.Body(writer.lines, writer.shared)


def _struct(name: str, members: Sequence[str]) -> str:
    return f"struct {name} {{ " + ", ".join(members) + " }"


def _storage(kernel: Kernel) -> list[str]:
    """The declarations of the buffers."""
    lines = []
    for binding, i in enumerate(source.in_memory(kernel), start=2):
        operand = kernel.operands[i]
        access = "read" if operand.mode == "in" else "read_write"
        element = _STORED[operand.dtype.name]
        where = f"@group(0) @binding({binding}) var<storage, {access}>"
        lines.append(f"{where} operand{i}: array<{element}>;")
    if source.checks_indices(kernel):
        where = f"@group(0) @binding({len(lines) + 2}) var<storage, read_write>"
        members = ["mark: atomic<i32>", "index: i32"]
        lines += [_struct("Failure", members), f"{where} failure: Failure;"]
    return lines


def _cast_scalar(kernel: Kernel, number: int, syntax: Wgsl) -> str:
    dtype = kernel.operands[number].dtype
    value = syntax.convert(f"scalars.scalar{number}", host_dtype(kernel, number), dtype)
    return f"    {syntax.constant(f'scalar{number}', syntax.type_of(dtype), value)};"


def host_dtype(kernel: Kernel, number: int) -> DType:
    """The dtype in which a host scalar arrives: float32 or int32."""
    return float32 if kernel.operands[number].dtype.is_floating_point else int32


def halved(kernel: Kernel) -> frozenset[int]:
    """The scalar operands of which a kernel takes halves of 32 bits and nothing else, so that all
    64 bits of a seed arrive."""
    if isinstance(kernel, FusedProduct):
        return frozenset(kernel.numbers[i] for i in halved(kernel.map))
    if isinstance(kernel, (Contraction, Attention)):
        return frozenset()
    wide = {i for i in source.scalars(kernel) if kernel.operands[i].dtype is int64}
    taken: set[int] = set()
    for e in s.walk(kernel.roots) if wide else ():
        for a in e.args:
            if a.fn == "load" and a.data in wide:
                upper = e.fn == "shr" and e.args[1].fn == "const" and e.args[1].data == 32
                lower = e.fn == "cast" and e.dtype is uint32
                taken.add(a.data)
                if not (upper or lower):
                    wide.discard(a.data)
    stored = {e.data for e in kernel.roots if e.fn == "load"}
    return frozenset(taken & wide - stored)


def scalar_codes(kernel: Kernel) -> list[tuple[int, str]]:
    """The scalar operands and how each is packed, as `struct` names it."""
    halves = halved(kernel)
    return [
        (i, "q" if i in halves else "f" if host_dtype(kernel, i) is float32 else "i")
        for i in source.scalars(kernel)
    ]


def _check_storage(kernel: Kernel) -> None:
    for i in source.in_memory(kernel):
        dtype = kernel.operands[i].dtype
        if dtype.name not in _STORED:
            remedy = _REMEDIES.get(dtype.name, "int32")
            raise DeviceError(
                f"{kernel.name}: operand {i} is {dtype}, which webgpu cannot store. "
                f"Convert it first: x.to(contraflow.{remedy}), or move it: x.to('cpu')."
            )
    count = len(source.in_memory(kernel)) + source.checks_indices(kernel)
    if count > STORAGE_BUFFERS:
        raise DeviceError(
            f"{kernel.name}: the kernel binds {count} storage buffers, but webgpu guarantees only "
            f"{STORAGE_BUFFERS}. Split it: fuse with Limits(bindings={STORAGE_BUFFERS})."
        )


def _check_shared(kernel: Kernel, shared: Sequence[source.GroupArray]) -> None:
    size = 4 * sum(array.length * (4 if array.vector else 1) for array in shared)
    if size > SHARED_BYTES:
        raise DeviceError(
            f"{kernel.name}: the kernel shares {size} bytes within a workgroup, but webgpu "
            f"guarantees only {SHARED_BYTES}. Split it: reduce fewer values in one kernel."
        )


def _check_range(name: str, value: int) -> int:
    if not _INT32.min <= value <= _INT32.max:
        raise DeviceError(
            f"{name}: webgpu holds int64 in 32 bits, and {value} does not fit. "
            "Run on cpu: x.to('cpu')."
        )
    return value


def too_large(call: KernelCall) -> str | None:
    """Why a kernel cannot index its operands by numbers of 32 bits, None if it can."""
    kernel = call.kernel
    values = source.integer_values(call, [0] * len(kernel.operands))
    sizes = call.sizes[: kernel.outer] if isinstance(kernel, Loops) else ()
    most = max([math.prod(sizes), *map(abs, values)])
    if most <= _INT32.max:
        return None
    return (
        f"webgpu counts elements in 32 bits, and this op has {most:,}. "
        "Work on parts of it, or on the cpu: x.to('cpu')."
    )


def work(call: KernelCall) -> int:
    """About how many operations a call does: by it a device decides when others must wait."""
    if isinstance(call.kernel, Contraction):
        return math.prod(call.sizes)
    return math.prod(call.sizes) * max(len(call.kernel.operands), 1)


def pack_arguments(call: KernelCall, offsets: Sequence[int], line: int = 0) -> bytes:
    """The contents of `arguments`; `offsets` has the first element of each operand."""
    integers = source.integer_values(call, offsets, line)
    narrow = [_check_range(call.kernel.name, value) for value in integers]
    return struct.pack(f"<I{len(narrow)}i", 0, *narrow)


def pack_scalars(kernel: Kernel, values: Sequence[Number]) -> bytes:
    """The contents of `scalars`; `values` has an entry per operand, others' are ignored."""
    words = []
    for i, code in scalar_codes(kernel):
        if code == "f":
            with np.errstate(over="ignore"):  # too large for float32 is infinite
                words.append(np.float32(values[i]).tobytes())
        elif code == "q":
            words.append(struct.pack("<q", int(values[i])))
        else:
            words.append(struct.pack("<i", _check_range(kernel.name, int(values[i]))))
    return b"".join(words)


def launch(call: KernelCall) -> tuple[int, int, int]:
    """The number of workgroups: in two dimensions past what one may have."""
    groups = _count_groups(call)
    rows = -(-groups // GROUPS_PER_AXIS)
    return (-(-groups // rows), rows, 1) if rows else (0, 1, 1)
