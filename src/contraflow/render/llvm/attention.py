"""Attention as LLVM IR: weights of blocks of queries and keys, which stay in a cache.

The lanes of vectors are queries (`weights.py`). With queries and cotangents transposed in scratch
memory, keys and values are read where they lie, element by element, as a product reads A
(`panels.py`); a prime is a transpose:

    scores   S[s, l] = K[s, e] Q'[e, l]        averages   O'[v, l] += V'[v, s] W[s, l]
    pulls    E[s, l] = V[s, v] G'[v, l]        queries    Q'[e, l] += K'[e, s] D[s, l]
                                               keys       K[s, e]  += D[s, l] Q[l, e]
                                               values     V[s, v]  += W[s, l] G[l, v]

An average is scaled anew whenever a block has a larger score than those before it. A causal kernel
leaves out the keys behind the last query of a block, and of products whose rows are keys, STAIR by
STAIR of them, the queries before the first.

Every result is a sum over blocks in their order, whose edges are multiples of QUERIES and KEYS. So
its bits do not depend on how work is cut. A part of the gradients is some heads, if there are
enough of them: a block of weights then serves all three results. Otherwise a part is some RANGEs of
queries and of keys, one after the other: with a causal mask the first keys have as many queries
behind them as the last queries have keys before them, so that parts are even.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from contraflow.dtypes import float64
from contraflow.render.llvm.matrices import Matrix
from contraflow.render.llvm.text import (
    ARGUMENTS,
    CodeStretch,
    FunctionText,
    convert,
    literal,
    memory,
    register,
)
from contraflow.render.llvm.weights import KEYS, QUERIES, WeightRenderer

STAIR = 16  # keys of a causal block that leave out the same queries, which fill whole vectors
RANGE = 96  # queries or keys of the smallest part of gradients: whole blocks of both
KEPT_BYTES = 1 << 18  # of the gradients of the keys and values of a head, in scratch memory


class HeadOperands(NamedTuple):
    """The operands of one head, as names: matrices, and vectors as matrices of one column."""

    query: Matrix
    key: Matrix
    value: Matrix
    others: tuple[Matrix, ...]


class QueryBlock(NamedTuple):
    """Queries whose turn it is, as names."""

    start: str
    size: str
    groups: str  # vectors that hold them
    filled: str  # lanes of these


class AttentionRenderer(WeightRenderer):
    """Writes the functions of an attention kernel."""

    def text(self) -> str:
        """The functions, the entry last."""
        entry = self._average if self.kernel.part == "out" else self._differentiate
        return "\n".join([*self.matrix_functions(), *self.weight_functions(), entry()])

    # --- arguments -----------------------------------------------------------------------------

    def _arguments(self, code: CodeStretch) -> None:
        """Read the arguments."""
        operands = self.kernel.operands
        self.pointers = []
        for i, operand in enumerate(operands):
            index, offset = (code.word("%arguments", 2 * i + part) for part in range(2))
            base = code.let(f"load ptr, ptr {code.at('%bases', 'ptr', index)}")
            element = "i64" if operand.mode == "scalar" else memory(operand.dtype)
            self.pointers.append(code.at(base, element, offset))
        words = iter(range(2 * len(operands), 1 << 10))
        self.g, self.b, self.l, self.s, self.e, self.v = (
            code.word("%arguments", next(words), "size") for _ in range(6)
        )
        self.strides = [
            [code.word("%arguments", next(words), "stride") for _ in operand.strides]
            for operand in operands
        ]
        given = code.let(f"load double, ptr {self.pointers[-1]}")
        self.factor = convert(code, given, float64, self.sum, 1)
        self.heads = code.integer("mul", self.g, self.b)

    def _head(self, code: CodeStretch, number: str) -> HeadOperands:
        """The operands of a head, by its number in the batch."""
        outer = code.let(f"sdiv i64 {number}, {self.b}")
        inner = code.let(f"srem i64 {number}, {self.b}")
        found = []
        for operand, pointer, (far, near, *rest) in zip(
            self.kernel.operands[:-1], self.pointers, self.strides
        ):
            element = memory(operand.dtype)
            start = code.at(pointer, element, code.integer("mul", outer, far))
            start = code.at(start, element, code.integer("mul", inner, near))
            found.append(Matrix(start, *rest))
        query, key, value, *others = found
        return HeadOperands(query, key, value, tuple(others))

    def _reserve(self, code: CodeStretch, rows: str | int, columns: str | int) -> Matrix:
        """Scratch memory for a matrix."""
        count = code.let(f"mul i64 {rows}, {columns}")
        place = code.let(f"alloca {self.element}, i64 {count}, align 64", "scratch")
        return Matrix(place, str(columns))

    def _moved(
        self, code: CodeStretch, matrix: Matrix, row: str, *, scratch: bool = False
    ) -> Matrix:
        """A matrix from one of its rows on."""
        element = self.element if scratch else memory(self.dtype)
        start = code.at(matrix.start, element, code.integer("mul", row, matrix.row))
        return matrix._replace(start=start)

    def _share(self, code: CodeStretch, units: str) -> tuple[str, str]:
        """The units of work from part `first` up to `last`."""
        first, last = (
            code.let(f"sdiv i64 {code.let(f'mul i64 {units}, {edge}')}, %parts")
            for edge in ("%first", "%last")
        )
        return first, last

    def _queries(self, code: CodeStretch, start: str) -> QueryBlock:
        """The block of queries from `start` on."""
        count = self._least(code, code.let(f"sub i64 {self.l}, {start}"), QUERIES)
        filled = self._filled(code, count)
        return QueryBlock(start, count, code.let(f"sdiv i64 {filled}, {self.width}"), filled)

    def _limit(self, code: CodeStretch, block: QueryBlock, stop: str) -> str:
        """Where the keys end that some query of a block may see, of those up to `stop`."""
        if not self.kernel.causal:
            return stop
        return self._least(code, stop, code.let(f"add i64 {block.start}, {block.size}"))

    def _keys(self, code: CodeStretch, head: HeadOperands, start: str, count: str) -> list[Matrix]:
        """Keys and values from `start` on, converted if need be."""
        found = [self._moved(code, x, start) for x in (head.key, head.value)]
        if self.converts:
            sides = zip(found, self.converted, (self.e, self.v))
            for given, copy, columns in sides:
                self.read(code, given, copy, count, columns, columns)
            return list(self.converted)
        return found

    @contextmanager
    def _stairs(
        self, function: FunctionText, block: QueryBlock, start: str, count: str
    ) -> Iterator[tuple[str, str, str]]:
        """Write a loop over the keys of a block from `start` on: the first of some keys, how many
        they are, and how many queries of the block see none of them."""
        if not self.kernel.causal:
            yield "0", count, "0"
            return
        code = function.code()
        ahead = code.let(f"sub i64 {block.start}, {start}")
        straight = code.let(f"icmp sle i64 {count}, {ahead}")
        step = code.let(f"select i1 {straight}, i64 {count}, i64 {STAIR}")
        with function.loop("0", count, step) as row:
            code = function.code()
            rows = self._least(code, code.let(f"sub i64 {count}, {row.index}"), step)
            before = code.let(f"sub i64 {row.index}, {ahead}")
            hidden = code.let(f"call i64 @llvm.smax.i64(i64 {before}, i64 0)")
            yield row.index, rows, hidden

    def _score(
        self, function: FunctionText, keys: Matrix, queries: Matrix, target: Matrix, depth: str,
        block: QueryBlock, start: str, count: str,
    ) -> None:  # fmt: skip
        """Multiply keys and queries of a block."""
        with self._stairs(function, block, start, count) as (row, rows, hidden):
            code = function.code()
            left = self._moved(code, keys, row, scratch=self.converts)
            lanes = code.integer("sub", block.filled, hidden)
            right = queries._replace(start=code.at(queries.start, self.element, hidden))
            place = self._moved(code, target, row, scratch=True)
            place = place._replace(start=code.at(place.start, self.element, hidden))
            self.product(code, left, right, place, (rows, depth, lanes), "false")

    def _each(
        self, function: FunctionText, block: QueryBlock, *moves: tuple[Matrix, str, bool]
    ) -> None:
        """Copy numbers of each query between an operand and scratch memory; a last flag says that
        they are written to the operand. Lanes without a query are like the last one."""
        for vector, scratch, writes in moves:
            code = function.code()
            last = code.let(f"sub i64 {block.size}, 1")
            with function.loop("0", block.size if writes else block.filled, 1) as lane:
                code = function.code()
                number = code.let(f"add i64 {block.start}, {self._least(code, lane.index, last)}")
                place = code.at(vector.start, self.element, code.integer("mul", number, vector.row))
                beside = code.at(scratch, self.element, lane.index)
                source, target = (beside, place) if writes else (place, beside)
                value = self._load(code, source, self.sum, 1)
                code.do(f"store {register(self.sum)} {value}, ptr {target}, align {self.align}")

    def _fill(self, function: FunctionText, base: str, count: str, value: str) -> None:
        with function.loop("0", count, 1) as i:
            code = function.code()
            place = code.at(base, self.element, i.index)
            code.do(f"store {register(self.sum)} {value}, ptr {place}, align {self.align}")

    def _scaled(self, code: CodeStretch, matrix: Matrix, rows: str, groups: str, by: str) -> None:
        code.do(
            f"call void @{self.name}_scale(ptr {matrix.start}, i64 {rows}, i64 {groups}, ptr {by})"
        )

    # --- averages ------------------------------------------------------------------------------

    def _average(self) -> str:
        """The entry of a kernel of averages: blocks of queries, two by two of them, of which the
        later has as many more keys to see as the earlier has fewer."""
        function = FunctionText(f"define void @{self.name}{ARGUMENTS} #0")
        code = function.code()
        self._arguments(code)
        queries, averages = (self._reserve(code, x, QUERIES) for x in (self.e, self.v))
        scores = self._reserve(code, KEYS, QUERIES)
        factors, peaks, totals, changes = (self._reserve(code, 1, QUERIES).start for _ in range(4))
        if self.converts:
            self.converted = [self._reserve(code, KEYS, x) for x in (self.e, self.v)]
        self._fill(function, factors, str(QUERIES), self.factor)
        code = function.code()
        blocks = self._quotient(code, self.l, QUERIES)
        pairs = self._quotient(code, blocks, 2)
        with function.loop(*self._share(code, code.integer("mul", self.heads, pairs)), 1) as unit:
            code = function.code()
            head = self._head(code, code.let(f"sdiv i64 {unit.index}, {pairs}"))
            early = code.let(f"srem i64 {unit.index}, {pairs}")
            late = code.let(f"sub i64 {code.let(f'sub i64 {blocks}, 1')}, {early}")
            two = code.let(f"icmp sgt i64 {late}, {early}")
            turns = code.let(f"select i1 {two}, i64 2, i64 1")
            with function.loop("0", turns, 1) as turn:
                code = function.code()
                first = self._flag(code, f"{turn.index}, 0")
                number = code.let(f"select i1 {first}, i64 {early}, i64 {late}")
                block = self._queries(code, code.let(f"mul i64 {number}, {QUERIES}"))
                given = self._moved(code, head.query, block.start).turned
                self.read(code, given, queries, self.e, block.size, block.filled)
                self._scaled(code, queries, self.e, block.groups, factors)
                lowest = literal(float(np.finfo(self.sum.numpy).min), self.sum)
                self._fill(function, peaks, block.filled, lowest)
                self._fill(function, totals, block.filled, literal(0, self.sum))
                code = function.code()
                with function.loop("0", self._limit(code, block, self.s), KEYS) as place:
                    code = function.code()
                    limit = self._limit(code, block, self.s)
                    count = self._least(code, code.let(f"sub i64 {limit}, {place.index}"), KEYS)
                    key, value = self._keys(code, head, place.index, count)
                    self._score(function, key, queries, scores, self.e, block, place.index, count)
                    code = function.code()
                    ahead = code.let(f"sub i64 {block.start}, {place.index}")
                    code.do(
                        f"call void @{self.name}_soften(ptr {scores.start}, ptr {peaks}, "
                        f"ptr {totals}, ptr {changes}, i64 {count}, i64 {block.groups}, "
                        f"i64 {ahead})"
                    )
                    later = code.let(f"icmp sgt i64 {place.index}, 0")
                    rows = code.let(f"select i1 {later}, i64 {self.v}, i64 0")
                    self._scaled(code, averages, rows, block.groups, changes)
                    sizes = (self.v, count, block.filled)
                    self.product(code, value.turned, scores, averages, sizes, later)
                code = function.code()
                code.do(
                    f"call void @{self.name}_finish(ptr {peaks}, ptr {totals}, i64 {block.groups})"
                )
                self._scaled(code, averages, self.v, block.groups, totals)
                out, normalizers = head.others
                target = self._moved(code, out, block.start)
                self.write(code, averages.turned, target, block.size, self.v)
                self._each(function, block, (normalizers, peaks, True))
        return function.text()

    # --- gradients -----------------------------------------------------------------------------

    def _differentiate(self) -> str:
        """The entry of a kernel of gradients: heads, or ranges of queries and of keys."""
        function = FunctionText(f"define void @{self.name}{ARGUMENTS} #0")
        code = function.code()
        self._arguments(code)
        self._reserve_all(code)
        self._fill(function, self.factors, str(QUERIES), self.factor)
        code = function.code()
        whole, in_place = self._takes_heads(code)
        longest = code.let(f"call i64 @llvm.smax.i64(i64 {self.l}, i64 {self.s})")
        ranges = self._quotient(code, longest, RANGE)
        units = code.let(f"select i1 {whole}, i64 1, i64 {ranges}")
        with function.loop(*self._share(code, code.integer("mul", self.heads, units)), 1) as unit:
            code = function.code()
            head = self._head(code, code.let(f"sdiv i64 {unit.index}, {units}"))
            number = code.let(f"srem i64 {unit.index}, {units}")
            own = code.let(f"mul i64 {number}, {RANGE}")
            both = code.let(f"select i1 {whole}, i64 1, i64 2")
            turns = {"query": ("0", "1"), "key": ("1", "2"), "all": ("0", both)}
            with function.loop(*turns[self.kernel.part], 1) as turn:
                code = function.code()
                of_keys = self._flag(code, f"{turn.index}, 1")
                self._turn(function, head, own, of_keys, whole, in_place)
        return function.text()

    def _reserve_all(self, code: CodeStretch) -> None:
        """Reserve the scratch memory of gradients."""
        widths = self.e, self.v
        filled = [self._filled(code, x) for x in widths]
        self.columns_of = [self._reserve(code, x, QUERIES) for x in widths]  # queries, cotangents
        self.of_queries = self._reserve(code, self.e, QUERIES)  # gradients of queries
        self.scores, self.pulls = (self._reserve(code, KEYS, QUERIES) for _ in range(2))
        self.packed = [self._reserve(code, QUERIES, x) for x in filled]
        # Gradients of keys and values: those of a range, or of a head if it is not too long.
        room = KEPT_BYTES // self.sum.itemsize
        wanted = code.let(f"mul i64 {self.s}, {code.let(f'add i64 {filled[0]}, {filled[1]}')}")
        self.fits = code.let(f"icmp sle i64 {wanted}, {room}")
        most = code.let(f"call i64 @llvm.smax.i64(i64 {self.s}, i64 {RANGE})")
        rows = code.let(f"select i1 {self.fits}, i64 {most}, i64 {RANGE}")
        self.kept = [self._reserve(code, rows, x) for x in filled]
        self.factors, self.normalizers, self.products = (
            self._reserve(code, 1, QUERIES).start for _ in range(3)
        )
        if self.converts:
            self.converted = [self._reserve(code, KEYS, x) for x in widths]

    def _takes_heads(self, code: CodeStretch) -> tuple[str, str]:
        """Whether a unit of work is a head, and whether the gradients of its keys and values are
        summed up where they belong. There they must consist of vectors; elsewhere scratch memory
        must have room for them."""
        if self.kernel.part != "all":
            return "false", "false"
        enough = code.let(f"icmp sge i64 {self.heads}, %parts")
        if self.converts:
            return self._all(code, enough, self.fits), "false"
        there = self._all(code, *(self._holds_vectors(code, i, self.strides[i][3]) for i in (7, 8)))
        return self._all(code, enough, self._any(code, there, self.fits)), there

    def _holds_vectors(self, code: CodeStretch, operand: int, stride: str) -> str:
        """Whether the rows of an operand are whole vectors, side by side."""
        size = self.v if operand in (2, 3, 8) else self.e
        ragged = code.let(f"and i64 {size}, {self.width - 1}")
        return self._flag(code, f"{stride}, 1", f"{ragged}, 0")

    def _turn(
        self, function: FunctionText, head: HeadOperands, own: str, of_keys: str, whole: str,
        in_place: str,
    ) -> None:  # fmt: skip
        """The gradients of a range of queries, or of keys and values, or of a whole head."""
        code = function.code()
        behind = code.let(f"add i64 {own}, {RANGE}")
        # The own range of a head begins with its first query and its first key.
        all_queries = self._any(code, of_keys, whole)
        start = own
        if not self.kernel.causal:
            start = code.let(f"select i1 {of_keys}, i64 0, i64 {own}")
        stop = self._least(code, behind, self.l)
        stop = code.let(f"select i1 {all_queries}, i64 {self.l}, i64 {stop}")
        first = code.let(f"select i1 {of_keys}, i64 {own}, i64 0")
        last = self._least(code, behind, self.s)
        last = code.let(f"select i1 {of_keys}, i64 {last}, i64 {self.s}")
        gradients = head.others[3:]
        direct = self._all(code, whole, in_place)
        sums: list[Matrix] = []
        if self.kernel.part != "query":
            for kept, target in zip(self.kept, gradients[-2:]):
                at = code.let(f"select i1 {direct}, ptr {target.start}, ptr {kept.start}")
                sums.append(
                    Matrix(at, code.let(f"select i1 {direct}, i64 {target.row}, i64 {kept.row}"))
                )
            count = code.let(f"sub i64 {last}, {first}")
            cleared = code.let(f"select i1 {all_queries}, i64 {count}, i64 0")
            for matrix, kept in zip(sums, self.kept):
                self._clear(function, matrix, cleared, kept.row)
        with function.loop(start, stop, QUERIES) as place:
            code = function.code()
            block = self._queries(code, place.index)
            sides = self._sides(function, head, block)
            code = function.code()
            limit = self._limit(code, block, last)
            with function.loop(first, limit, KEYS) as place:
                code = function.code()
                count = self._least(code, code.let(f"sub i64 {limit}, {place.index}"), KEYS)
                key = self._weigh_block(function, head, block, place.index, count)
                code = function.code()
                if self.kernel.part != "key":
                    with function.when(code.let(f"xor i1 {of_keys}, true")):
                        code = function.code()
                        later = code.let(f"icmp sgt i64 {place.index}, 0")
                        sizes = (self.e, count, block.filled)
                        self.product(code, key.turned, self.pulls, self.of_queries, sizes, later)
                if sums:
                    with function.when(all_queries):
                        self._add_keys(function, sides, sums, block, place.index, first, count)
            if self.kernel.part != "key":
                code = function.code()
                with function.when(code.let(f"xor i1 {of_keys}, true")):
                    code = function.code()
                    target = self._moved(code, gradients[0], block.start)
                    self.write(code, self.of_queries.turned, target, block.size, self.e)
        if sums:
            code = function.code()
            elsewhere = self._all(code, all_queries, code.let(f"xor i1 {direct}, true"))
            with function.when(elsewhere):
                code = function.code()
                count = code.let(f"sub i64 {last}, {first}")
                for kept, target, size in zip(self.kept, gradients[-2:], (self.e, self.v)):
                    self.write(code, kept, self._moved(code, target, first), count, size)

    def _sides(self, function: FunctionText, head: HeadOperands, block: QueryBlock) -> list[Matrix]:
        """Copy the queries and cotangents of a block, transposed; give them as they are, with rows
        of vectors."""
        code, rows = function.code(), []
        given = (head.query, head.others[0])
        for i, copy, packed, size in zip((0, 1), self.columns_of, self.packed, (self.e, self.v)):
            matrix = self._moved(code, given[i], block.start)
            self.read(code, matrix.turned, copy, size, block.size, block.filled)
            if self.kernel.part != "query":
                fits = "false"
                if not self.converts:
                    fits = self._holds_vectors(code, (0, 3)[i], matrix.column)
                with function.when(code.let(f"xor i1 {fits}, true")):
                    self.read(function.code(), matrix, packed, block.size, size, packed.row)
                code = function.code()
                start = code.let(f"select i1 {fits}, ptr {matrix.start}, ptr {packed.start}")
                pitch = code.let(f"select i1 {fits}, i64 {matrix.row}, i64 {packed.row}")
                rows.append(Matrix(start, pitch))
        self._scaled(code, self.columns_of[0], self.e, block.groups, self.factors)
        self._each(
            function, block, (head.others[1], self.normalizers, False),
            (head.others[2], self.products, False),
        )  # fmt: skip
        return rows

    def _add_keys(
        self, function: FunctionText, sides: list[Matrix], sums: list[Matrix], block: QueryBlock,
        start: str, first: str, count: str,
    ) -> None:  # fmt: skip
        """Add what a block contributes to the gradients of its keys and values, of which those
        from `first` on are summed up."""
        with self._stairs(function, block, start, count) as (row, rows, hidden):
            code = function.code()
            place = code.integer("add", row, code.let(f"sub i64 {start}, {first}"))
            seen = code.integer("sub", block.size, hidden)
            for left, right, total, kept in zip((self.pulls, self.scores), sides, sums, self.kept):
                left = self._moved(code, left, row, scratch=True)
                left = left._replace(start=code.at(left.start, self.element, hidden))
                right = self._moved(code, right, hidden, scratch=True)
                target = self._moved(code, total, place, scratch=True)
                self.product(code, left, right, target, (rows, seen, kept.row), "true")

    def _weigh_block(
        self, function: FunctionText, head: HeadOperands, block: QueryBlock, start: str, count: str
    ) -> Matrix:
        """The weights of a block, and the gradients of its scores; give its keys."""
        code = function.code()
        found = self._keys(code, head, start, count)
        for rows, columns, target, depth in zip(
            found, self.columns_of, (self.scores, self.pulls), (self.e, self.v)
        ):
            self._score(function, rows, columns, target, depth, block, start, count)
        code = function.code()
        ahead = code.let(f"sub i64 {block.start}, {start}")
        code.do(
            f"call void @{self.name}_weigh(ptr {self.scores.start}, ptr {self.pulls.start}, "
            f"ptr {self.normalizers}, ptr {self.products}, i64 {count}, i64 {block.groups}, "
            f"i64 {ahead}, {register(self.sum)} {self.factor})"
        )
        return found[0]

    def _clear(self, function: FunctionText, matrix: Matrix, rows: str, columns: str) -> None:
        """Fill the rows of a matrix with zeros."""
        with function.loop("0", rows, 1) as row:
            start = self._row_apart(function.code(), matrix.start, row.index, matrix.row)
            with function.loop("0", columns, self.width) as column:
                code = function.code()
                self._write_row(
                    code, code.at(start, self.element, column.index), ["zeroinitializer"]
                )
