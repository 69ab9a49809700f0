"""Attention in CUDA C++ for heads of up to 64 columns, in float32: whole rows lie in shared memory.

The generic body (`attention.py`) serves every size and dtype. Where a row of each operand fits,
a block does better. It has `rows` rows of the result and eight threads for each of them. It goes
along the other side in blocks of `swept` rows, and stages both operands of these at once:

1. sixteen threads, half a warp, compute the scores of two rows with a block, along e;
2. they fold maxima and sums by shuffles, and exchange the weights of their two rows in shared
   memory, which no other warp reads;
3. they add the products of the weights with the block to their part of the result.

Shared memory is read by 16 bytes; four numbers behind each row keep threads in different banks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from contraflow.compiler.kernel import Attention
from contraflow.dtypes import float32
from contraflow.render.clike.source import Body, Syntax

HEADS = (32, 64)  # columns for which there are tiles
LEAST_BLOCKS = 128  # with fewer blocks of many rows, there are more blocks of few
FEW, MANY = 16, 32  # rows of a block

QUERY, KEY, VALUE, COTANGENT, NORMALIZER, PRODUCT = range(6)  # operands that are read

# The start of all kernels. `near` has the rows of the tile, `far` those of a block.
_FUNCTIONS = """\
    const int across = thread % 16, down = thread / 16 * 2;
    auto multiply = [&](const float* near, const float* far, float (&cell)[2][{each}]) {{
        #pragma unroll
        for (int j = 0; j < {each}; ++j) cell[0][j] = cell[1][j] = 0.0f;
        #pragma unroll
        for (int k = 0; k < {head}; k += 4) {{
            const float4 a = *(const float4*)(near + down * {pitch} + k);
            const float4 b = *(const float4*)(near + (down + 1) * {pitch} + k);
            #pragma unroll
            for (int j = 0; j < {each}; ++j) {{
                const float4 c = *(const float4*)(far + (across + 16 * j) * {pitch} + k);
                cell[0][j] = fmaf(a.x, c.x, cell[0][j]);
                cell[0][j] = fmaf(a.y, c.y, cell[0][j]);
                cell[0][j] = fmaf(a.z, c.z, cell[0][j]);
                cell[0][j] = fmaf(a.w, c.w, cell[0][j]);
                cell[1][j] = fmaf(b.x, c.x, cell[1][j]);
                cell[1][j] = fmaf(b.y, c.y, cell[1][j]);
                cell[1][j] = fmaf(b.z, c.z, cell[1][j]);
                cell[1][j] = fmaf(b.w, c.w, cell[1][j]);
            }}
        }}
    }};
    auto take = [&](const float* weights, const float* far, float (&sum)[2][{wide}]) {{
        #pragma unroll
        for (int k = 0; k < {swept}; k += 4) {{
            const float4 a = *(const float4*)(weights + down * {weights_pitch} + k);
            const float4 b = *(const float4*)(weights + (down + 1) * {weights_pitch} + k);
            const float first[4] = {{a.x, a.y, a.z, a.w}}, second[4] = {{b.x, b.y, b.z, b.w}};
            #pragma unroll
            for (int i = 0; i < 4; ++i) {{
                const {vector} c = *(const {vector}*)(far + (k + i) * {pitch} + across * {wide});
                const float* row = (const float*)&c;
                #pragma unroll
                for (int j = 0; j < {wide}; ++j) {{
                    sum[0][j] = fmaf(first[i], row[j], sum[0][j]);
                    sum[1][j] = fmaf(second[i], row[j], sum[1][j]);
                }}
            }}
        }}
    }};
"""

_OUT = """\
        float sum[2][{wide}] = {{}}, total[2] = {{}}, peak[2] = {{LOWEST, LOWEST}};
        {stage_query}
        for ({index} start = 0; start < {last}; start += {swept}) {{
            __syncthreads();
            {stage_key}
            {stage_value}
            __syncthreads();
            float score[2][{each}];
            multiply(near, far, score);
            #pragma unroll
            for (int i = 0; i < 2; ++i) {{
                float top = peak[i], added = 0.0f;
                #pragma unroll
                for (int j = 0; j < {each}; ++j) {{
                    const {index} row = first_row + down + i, other = start + across + 16 * j;
                    score[i][j] = {seen} ? score[i][j] * scale : LOWEST;
                    top = fmaxf(top, score[i][j]);
                }}
                #pragma unroll
                for (int reach = 8; reach; reach /= 2)
                    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, reach));
                const float change = exp(peak[i] - top);
                peak[i] = top;
                #pragma unroll
                for (int j = 0; j < {each}; ++j) {{
                    const {index} row = first_row + down + i, other = start + across + 16 * j;
                    const float weight = {seen} ? exp(score[i][j] - top) : 0.0f;
                    weights[(down + i) * {weights_pitch} + across + 16 * j] = weight;
                    added += weight;
                }}
                #pragma unroll
                for (int reach = 8; reach; reach /= 2)
                    added += __shfl_xor_sync(0xffffffffu, added, reach);
                total[i] = total[i] * change + added;
                #pragma unroll
                for (int j = 0; j < {wide}; ++j) sum[i][j] *= change;
            }}
            __syncwarp();
            take(weights, far_too, sum);
        }}
        #pragma unroll
        for (int i = 0; i < 2; ++i) {{
            const {index} row = first_row + down + i;
            if (row >= size2) continue;
            #pragma unroll
            for (int j = 0; j < {wide}; ++j) {{
                const int column = across * {wide} + j;
                if (column < size5) {{
                    {store_out}
                }}
            }}
            if (across == 0)
                operand4[{of_normalizer}] = peak[i] + log(total[i]);
        }}
"""

_QUERY = """\
        float sum[2][{wide}] = {{}}, normalizer[2] = {{}}, product[2] = {{}};
        {stage_query}
        {stage_cotangent}
        for (int i = 0; i < 2; ++i) {{
            const {index} row = first_row + down + i;
            if (row < size2) {{
                normalizer[i] = operand4[{of_normalizer}];
                product[i] = operand5[{of_product}];
            }}
        }}
        for ({index} start = 0; start < {last}; start += {swept}) {{
            __syncthreads();
            {stage_key}
            {stage_value}
            __syncthreads();
            float score[2][{each}], pull[2][{each}];
            multiply(near, far, score);
            multiply(near_too, far_too, pull);
            #pragma unroll
            for (int i = 0; i < 2; ++i) {{
                #pragma unroll
                for (int j = 0; j < {each}; ++j) {{
                    const {index} row = first_row + down + i, other = start + across + 16 * j;
                    const float weight = {seen} ? exp(score[i][j] * scale - normalizer[i]) : 0.0f;
                    weights[(down + i) * {weights_pitch} + across + 16 * j] =
                        weight * (pull[i][j] - product[i]) * scale;
                }}
            }}
            __syncwarp();
            take(weights, far, sum);
        }}
        #pragma unroll
        for (int i = 0; i < 2; ++i) {{
            const {index} row = first_row + down + i;
            if (row >= size2) continue;
            #pragma unroll
            for (int j = 0; j < {wide}; ++j) {{
                const int column = across * {wide} + j;
                if (column < size4) {{
                    {store_query}
                }}
            }}
        }}
"""

_KEY = """\
        float sum[2][{wide}] = {{}}, mean[2][{wide}] = {{}};
        {stage_key}
        {stage_value}
        for ({index} start = {first}; start < size2; start += {swept}) {{
            __syncthreads();
            {stage_query}
            {stage_cotangent}
            if (thread < {swept}) {{
                const {index} row = start + thread;
                normalizers[thread] = row < size2 ? operand4[{of_normalizer}] : 0.0f;
                products[thread] = row < size2 ? operand5[{of_product}] : 0.0f;
            }}
            __syncthreads();
            float score[2][{each}], pull[2][{each}];
            multiply(near, far, score);
            multiply(near_too, far_too, pull);
            #pragma unroll
            for (int i = 0; i < 2; ++i) {{
                #pragma unroll
                for (int j = 0; j < {each}; ++j) {{
                    const int at = across + 16 * j;
                    const {index} row = first_row + down + i, other = start + at;
                    const float weight = {seen} ? exp(score[i][j] * scale - normalizers[at]) : 0.0f;
                    weights[(down + i) * {weights_pitch} + at] = weight;
                    changes[(down + i) * {weights_pitch} + at] =
                        weight * (pull[i][j] - products[at]) * scale;
                }}
            }}
            __syncwarp();
            take(weights, far_too, mean);
            take(changes, far, sum);
        }}
        #pragma unroll
        for (int i = 0; i < 2; ++i) {{
            const {index} row = first_row + down + i;
            if (row >= size3) continue;
            #pragma unroll
            for (int j = 0; j < {wide}; ++j) {{
                const int column = across * {wide} + j;
                if (column < size4) {{
                    {store_key}
                }}
                if (column < size5) {{
                    {store_value}
                }}
            }}
        }}
"""


def tiles(kernel: Attention, sizes: Sequence[int]) -> tuple[int, int]:
    """The rows of a block and the columns of its tiles for a call; zeros where there are none."""
    g, b, queries, keys, e, v = sizes
    head = next((n for n in HEADS if max(e, v) <= n), 0)
    if kernel.accumulate is not float32 or not head:
        return 0, 0
    rows = keys if kernel.part == "key" else queries
    return (MANY if g * b * -(-rows // MANY) >= LEAST_BLOCKS else FEW), head


def write(kernel: Attention, syntax: Syntax, rows: int, head: int) -> Body:
    """The body for blocks of so many rows, of which each has up to `head` columns."""
    writer = _CudaAttention(kernel, syntax, rows, head)
    return Body(writer.lines(), [])


class _CudaAttention:
    """The text of one kernel."""

    def __init__(self, kernel: Attention, syntax: Syntax, rows: int, head: int) -> None:
        self._kernel, self._syntax = kernel, syntax
        self._part = kernel.part  # of `all` the one that is written
        self._rows, self._head = rows, head
        self._threads = 8 * rows
        self._swept = 64 if head == 32 else 32
        self._pitch = head + 4

    def lines(self) -> list[str]:
        """All of it."""
        index = self._syntax.index
        text = [
            *self._shared(),
            f"    const float scale = scalar{len(self._kernel.operands) - 1};",
            _FUNCTIONS.format(**self._sizes()),
        ]
        if self._kernel.part != "all":
            text += self._tiles("group")
        else:  # the tiles of keys follow those of queries, as if there were one list of them
            text.append(f"    {index} before = 0;")
            for self._part in ("query", "key"):
                first = "(group + groups - before % groups) % groups"
                text += ["    {", *self._tiles(first), "    before = tiles;", "    }"]
        return [line for block in text for line in block.split("\n") if line.strip()]

    def _sizes(self) -> dict[str, Any]:
        head, swept = self._head, self._swept
        return {
            "index": self._syntax.index, "head": head, "swept": swept, "pitch": self._pitch,
            "weights_pitch": swept + 4, "each": swept // 16, "wide": head // 16,
            "vector": f"float{head // 16}",
        }  # fmt: skip

    def _tiles(self, first: str) -> list[str]:
        """The loop over the tiles of one result."""
        part, index = self._part, self._syntax.index
        near_rows = "size3" if part == "key" else "size2"
        body = {"out": _OUT, "query": _QUERY, "key": _KEY}[part]
        of_key = 7 if self._kernel.part == "all" else 6
        values = self._sizes() | {
            "seen": self._seen(), "last": self._last(), "first": self._first(),
            "stage_query": self._stage(QUERY, "size4"), "stage_key": self._stage(KEY, "size4"),
            "stage_value": self._stage(VALUE, "size5"),
            "stage_cotangent": self._stage(COTANGENT, "size5"),
            "of_normalizer": self._address(NORMALIZER, "row"),
            "of_product": self._address(PRODUCT, "row"),
            "store_out": self._store(3, "sum"), "store_query": self._store(6, "sum"),
            "store_key": self._store(of_key, "sum"),
            "store_value": self._store(of_key + 1, "mean"),
        }  # fmt: skip
        return [
            "    const float LOWEST = __uint_as_float(0xff7fffffu);" if part == "out" else "",
            f"    const {index} row_tiles = ({near_rows} + {self._rows - 1}) / {self._rows};",
            f"    const {index} tiles = size0 * size1 * row_tiles;",
            f"    for ({index} tile = {first}; tile < tiles; tile += groups) {{",
            f"        const {index} batch = tile / row_tiles;",
            f"        const {index} batch0 = batch / size1, batch1 = batch % size1;",
            f"        const {index} first_row = tile % row_tiles * {self._rows};",
            "        __syncthreads();",
            body.format(**values),
            "    }",
        ]

    def _shared(self) -> list[str]:
        """The arrays that the threads of a block share; the second operands are of gradients."""
        part, weights = self._kernel.part, self._rows * (self._swept + 4)
        sizes = {"near": self._rows * self._pitch, "far": self._swept * self._pitch}
        sizes |= {"far_too": sizes["far"], "weights": weights}
        if part != "out":
            sizes["near_too"] = sizes["near"]
        if part in ("key", "all"):
            sizes |= {"changes": weights, "normalizers": self._swept, "products": self._swept}
        return [
            f"    __shared__ __align__(16) float {name}[{size}];" for name, size in sizes.items()
        ]

    def _seen(self) -> str:
        """Whether the score of `row`, of the tile, and `other`, of a block, counts."""
        key = self._part == "key"
        rows, others = ("size3", "size2") if key else ("size2", "size3")
        conditions = [f"row < {rows}", f"other < {others}"]
        if self._kernel.causal:
            conditions.append("row <= other" if key else "other <= row")
        return f"({' && '.join(conditions)})"

    def _last(self) -> str:
        """Where the blocks of keys end that queries of a tile see."""
        return f"min(size3, first_row + {self._rows})" if self._kernel.causal else "size3"

    def _first(self) -> str:
        """Where the blocks of queries begin that see keys of a tile."""
        return f"first_row / {self._swept} * {self._swept}" if self._kernel.causal else "0"

    def _stage(self, number: int, width: str) -> str:
        """The copy of rows of an operand to shared memory, zero where there are none."""
        if number == COTANGENT and self._kernel.part == "out":
            return ""
        of_keys = number in (KEY, VALUE)
        is_near = of_keys == (self._part == "key")
        second = number in (VALUE, COTANGENT)
        tile = ("near" if is_near else "far") + ("_too" if second else "")
        first, count = ("first_row", self._rows) if is_near else ("start", self._swept)
        limit = "size3" if of_keys else "size2"
        dtype = self._kernel.dtype
        index, head, pitch = self._syntax.index, self._head, self._pitch
        base = f"offset{number} + batch0 * stride{number}_0 + batch1 * stride{number}_1"
        element = self._syntax.load(
            number, dtype, f"base + ({first} + r) * stride{number}_2 + c * stride{number}_3"
        )
        one_by_one = f"""\
#pragma unroll 4
                for (int at = thread; at < {count * head}; at += {self._threads}) {{
                    const int r = at / {head}, c = at % {head};
                    const bool inside = {first} + r < {limit} && c < {width};
                    {tile}[r * {pitch} + c] = inside ? {element} : 0.0f;
                }}"""
        if dtype is not float32:
            return (
                f"{{\n                const long long base = {base};\n{one_by_one}\n            }}"
            )
        row = f"operand{number} + base + ({first} + r) * stride{number}_2 + c"
        return f"""\
{{
                const long long base = {base};
                const bool whole = {width} == {head} && stride{number}_3 == 1 &&
                    (((long long)(operand{number} + base) | stride{number}_2 * 4LL) & 15) == 0;
                if (whole) {{
                    #pragma unroll
                    for (int at = thread; at < {count * head // 4}; at += {self._threads}) {{
                        const int r = at / {head // 4}, c = at % {head // 4} * 4;
                        const {index} row = {first} + r;
                        float4 found = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                        if (row < {limit}) found = *(const float4*)({row});
                        *(float4*)({tile} + r * {pitch} + c) = found;
                    }}
                }} else {{
                {one_by_one}
                }}
            }}"""

    def _address(self, number: int, row: str) -> str:
        """Where the number that a vector has for a row lies."""
        if number >= len(self._kernel.operands) - 1:
            return ""
        strides = f"batch0 * stride{number}_0 + batch1 * stride{number}_1"
        return f"offset{number} + {strides} + {row} * stride{number}_2"

    def _store(self, number: int, name: str) -> str:
        """The store of one element of a result."""
        base = f"offset{number} + batch0 * stride{number}_0 + batch1 * stride{number}_1"
        address = f"{base} + row * stride{number}_2 + column * stride{number}_3"
        value = f"{name}[i][j] / total[i]" if self._part == "out" else f"{name}[i][j]"
        return self._syntax.store(number, self._kernel.dtype, address, value)
