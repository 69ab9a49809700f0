"""The bodies of attention: tiles of scores become weights in memory that a group shares.

A group computes a tile of the result, `ATTENTION_ROWS` x `TILE`. It goes along the rows of the
other side, keys for averages and queries for gradients of keys, in blocks of `TILE`:

1. the scores of its rows with those of the block, products along e;
2. their weights, which go to shared memory;
3. the product of the weights with the rows of the block, which is added to the result.

An average is scaled anew whenever a block has a larger score than those before it, so that no
weight overflows. For gradients the logarithm of the sum of all weights is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from contraflow.compiler.kernel import Attention
from contraflow.dtypes import bool_
from contraflow.expressions import expression as s
from contraflow.expressions.expression import Expr
from contraflow.render.clike.source import ATTENTION_ROWS, TILE, GroupArray, Syntax
from contraflow.render.clike.writer import ExprText, Writer, simplified

SPREAD = 16  # threads along the rows of a tile, and along its columns
ROWS, COLUMNS = range(ATTENTION_ROWS // SPREAD), range(TILE // SPREAD)  # the cells of a thread
CELLS = [(i, j) for i in ROWS for j in COLUMNS]
# Threads that go down a column would meet in one bank of memory without the extra 1.
LEFT_PITCH, PITCH = ATTENTION_ROWS + 1, TILE + 1

QUERY, KEY, VALUE, COTANGENT, NORMALIZER, PRODUCT = range(6)  # operands that are read


class _AttentionSides(NamedTuple):
    """The operands whose rows are those of the tile and those of blocks."""

    scores: tuple[int, int]  # multiplied along e
    pulls: tuple[int, int]  # multiplied along v, for gradients
    rows: str  # how many rows each side has
    swept: str


_QUERIES = _AttentionSides((QUERY, KEY), (COTANGENT, VALUE), "size2", "size3")
_KEYS = _AttentionSides((KEY, QUERY), (VALUE, COTANGENT), "size3", "size2")


class AttentionWriter(Writer):
    """Writes the body of an attention kernel."""

    def __init__(self, kernel: Attention, syntax: Syntax) -> None:
        super().__init__(kernel, syntax)
        self.kernel, self.dtype = kernel, kernel.accumulate
        self.part, self.sides = kernel.part, _QUERIES
        self.staged = syntax.staged
        self.scale = f"scalar{len(kernel.operands) - 1}"
        self.shared = [
            GroupArray("left_tile", self.dtype, self.staged * LEFT_PITCH),
            GroupArray("right_tile", self.dtype, self.staged * PITCH),
            GroupArray("weights", self.dtype, ATTENTION_ROWS * PITCH),
        ]

    def write_points(self) -> None:
        """Write the loops over the tiles of each result: everything."""
        if self.kernel.part != "all":
            self.write_tiles("group")
            return
        # The tiles of keys follow those of queries, as if there were one list of them.
        self.line(self.syntax.variable("before", self.syntax.index, "0") + ";")
        for self.part in ("query", "key"):
            with self.block(""):
                self.write_tiles("(group + groups - before % groups) % groups")
                self.line("before = tiles;")

    def write_tiles(self, first: str) -> None:
        """Write the loop over the tiles of one result."""
        part = self.part
        self.sides = _KEYS if part == "key" else _QUERIES
        columns = {"out": "size5", "query": "size4", "key": "max(size4, size5)"}[part]
        for name, value in (
            ("row_tiles", f"({self.sides.rows} + {ATTENTION_ROWS - 1}) / {ATTENTION_ROWS}"),
            ("column_tiles", f"({columns} + {TILE - 1}) / {TILE}"),
            ("tiles", "size0 * size1 * row_tiles * column_tiles"),
            ("row", f"thread / {SPREAD}"),
            ("column", f"thread % {SPREAD}"),
        ):
            self.index(name, value)
        with self.loop("tile", first, "tiles", "groups"):
            self.index("batch", "tile / (row_tiles * column_tiles)")
            self.index("batch0", "batch / size1")
            self.index("batch1", "batch % size1")
            self.index("first_row", f"tile / column_tiles % row_tiles * {ATTENTION_ROWS}")
            self.index("first_column", f"tile % column_tiles * {TILE}")
            for i in ROWS:
                self.index(f"row{i}", f"first_row + row{_beyond(i)}")
            for j in COLUMNS:
                self.index(f"column{j}", f"first_column + column{_beyond(j)}")
            {"out": self.average, "query": self.of_queries, "key": self.of_keys}[part]()

    # --- the three parts ------------------------------------------------------------------

    def average(self) -> None:
        """Write the averages for a tile of queries, and the logarithms of their sums of weights."""
        lowest = float(np.finfo(self.dtype.numpy).min)
        self.begin("sum", CELLS)
        for i in ROWS:
            self.variable(f"peak{i}", self.literal(lowest))
            self.variable(f"total{i}", self.literal(0))
        with self.blocks():
            self.multiply(self.sides.scores, "size4", "score")
            scores = {}
            for i, j in CELLS:
                scores[i, j] = self.computed(
                    lambda seen, x, scale: s.select(seen, x * scale, lowest),
                    self.seen(i, j), f"score{i}_{j}", self.scale,
                )  # fmt: skip
            self.keep(scores)
            changes = []
            for i in ROWS:
                before = self.define(self.dtype, f"peak{i}")
                with self.loop("k", "0", str(TILE), "1"):
                    score = self.define(self.dtype, f"weights[{self.spot(i, 'k')}]")
                    self.line(f"if ({score} > peak{i}) {{ peak{i} = {score}; }}")
                changes.append(self.computed(lambda a, b: s.exp(a - b), before, f"peak{i}"))
            weights = {}
            for i, j in CELLS:
                weights[i, j] = self.computed(
                    lambda seen, x, peak: s.select(seen, s.exp(x - peak), 0),
                    self.seen(i, j), scores[i, j], f"peak{i}",
                )  # fmt: skip
            self.keep(weights)
            for i in ROWS:
                self.variable(f"added{i}", self.literal(0))
            self.take(VALUE, "size5", "taken", [f"added{i}" for i in ROWS])
            scaled: Callable[..., Expr] = lambda x, change, new: x * change + new  # noqa: E731
            for i, j in CELLS:
                sum_ = f"sum{i}_{j}"
                self.line(f"{sum_} = {self.computed(scaled, sum_, changes[i], f'taken{i}_{j}')};")
            for i in ROWS:
                total = self.computed(scaled, f"total{i}", changes[i], f"added{i}")
                self.line(f"total{i} = {total};")
        for i, j in CELLS:
            found = self.computed(lambda x, total: x / total, f"sum{i}_{j}", f"total{i}")
            self.store(3, i, j, "size5", found)
        with self.block("if (first_column == 0 && column == 0)"):
            for i in ROWS:
                found = self.computed(lambda a, b: a + s.log(b), f"peak{i}", f"total{i}")
                with self.block(f"if (row{i} < size2)"):
                    address = f"{self.matrix(4)} + row{i} * stride4_2"
                    self.line(self.syntax.store(4, self.dtype, address, found))

    def of_queries(self) -> None:
        """Write the gradients of a tile of queries."""
        known = [self.of_row(f"row{i}", "size2") for i in ROWS]
        self.begin("sum", CELLS)
        with self.blocks():
            _, changes = self.changes([known[i] for i, _ in CELLS])
            self.keep(changes)
            self.take(KEY, "size4", "taken")
            self.add("sum", "taken")
        for i, j in CELLS:
            self.store(6, i, j, "size4", f"sum{i}_{j}")

    def of_keys(self) -> None:
        """Write the gradients of a tile of keys and of their values."""
        self.begin("sum", CELLS)
        self.begin("mean", CELLS)
        with self.blocks():
            known = [self.of_row(f"swept{j}", "size2") for j in COLUMNS]
            weights, changes = self.changes([known[j] for _, j in CELLS])
            self.keep(weights)
            self.take(COTANGENT, "size5", "pulled")
            self.add("mean", "pulled")
            self.keep(changes)
            self.take(QUERY, "size4", "taken")
            self.add("sum", "taken")
        first = 7 if self.kernel.part == "all" else 6
        for i, j in CELLS:
            self.store(first, i, j, "size4", f"sum{i}_{j}")
            self.store(first + 1, i, j, "size5", f"mean{i}_{j}")

    # --- steps ----------------------------------------------------------------------------

    @contextmanager
    def blocks(self) -> Iterator[None]:
        """Write the loop over the blocks of the other side, without those of which no row is seen.

        A thread's columns of a block are called swept0, swept1, ...
        """
        first, last = "0", self.sides.swept
        if self.kernel.causal and self.part == "key":
            first = f"first_row / {TILE} * {TILE}"  # a key is seen by the queries from its own on
        elif self.kernel.causal:
            self.index("last", f"min({last}, first_row + {ATTENTION_ROWS})")
            last = "last"
        with self.loop("start", first, last, str(TILE)):
            for j in COLUMNS:
                self.index(f"swept{j}", f"start + column{_beyond(j)}")
            yield

    def multiply(self, sides: tuple[int, int], depth: str, name: str) -> None:
        """Write the products of a tile's rows with those of a block, along their columns."""
        left, right = sides
        self.begin(name, CELLS)
        with self.loop("deep_start", "0", depth, str(self.staged)):
            self.stage(left, "left_tile", LEFT_PITCH, ("first_row", self.sides.rows), depth)
            self.stage(right, "right_tile", PITCH, ("start", self.sides.swept), depth)
            self.line(self.syntax.barrier)
            with self.loop("k", "0", str(self.staged), "1"):
                a = [
                    self.shared_value(f"left_tile[k * {LEFT_PITCH} + row{_beyond(i)}]")
                    for i in ROWS
                ]
                b = [
                    self.shared_value(f"right_tile[k * {PITCH} + column{_beyond(j)}]")
                    for j in COLUMNS
                ]
                self.add_products(name, a, b)
            self.line(self.syntax.barrier)

    def stage(self, number: int, tile: str, pitch: int, rows: tuple[str, str], depth: str) -> None:
        """Write the copy of some columns of rows to shared memory, one column after the other."""
        first, count = rows
        with self.loop("at", "thread", str((pitch - 1) * self.staged), "threads"):
            self.index("free", f"at / {self.staged}")
            self.index("deep", f"at % {self.staged}")
            address = self.element_address(number, f"({first} + free)", "(deep_start + deep)")
            inside = [f"{first} + free < {count}", f"deep_start + deep < {depth}"]
            self.copy(number, f"{tile}[deep * {pitch} + free]", address, inside)

    def take(self, number: int, columns: str, name: str, totals: Sequence[str] = ()) -> None:
        """Write the products of the kept weights with a block's rows, in the columns of the tile;
        and the totals of the weights of each row."""
        self.begin(name, CELLS)
        with self.loop("deep_start", "0", str(TILE), str(self.staged)):
            with self.loop("at", "thread", str(TILE * self.staged), "threads"):
                self.index("free", f"at % {TILE}")
                self.index("deep", f"at / {TILE}")
                self.index("place", "start + deep_start + deep")
                address = self.element_address(number, "place", "(first_column + free)")
                inside = [f"place < {self.sides.swept}", f"first_column + free < {columns}"]
                self.copy(number, f"right_tile[deep * {PITCH} + free]", address, inside)
            self.line(self.syntax.barrier)
            with self.loop("k", "0", str(self.staged), "1"):
                a = [
                    self.shared_value(f"weights[{self.spot(i, '(deep_start + k)')}]") for i in ROWS
                ]
                b = [
                    self.shared_value(f"right_tile[k * {PITCH} + column{_beyond(j)}]")
                    for j in COLUMNS
                ]
                self.add_products(name, a, b)
                for total, weight in zip(totals, a):
                    added = self.computed(lambda x, y: x + y, total, weight)
                    self.line(f"{total} = {added};")
            self.line(self.syntax.barrier)

    def add_products(self, name: str, a: Sequence[str], b: Sequence[str]) -> None:
        """Write the products of one k for a thread's cells."""
        for i, j in CELLS:
            cell = f"{name}{i}_{j}"
            total = self.computed(lambda x, y, z: s.call("muladd", x, y, z), a[i], b[j], cell)
            self.line(f"{cell} = {total};")

    def changes(self, known: Sequence[tuple[str, str]]) -> tuple[dict[tuple[int, int], str], ...]:
        """Write a block's weights, and the gradients of its scores, of a thread's cells; `known`
        has for each cell the logarithm of its row's sum and the product that is subtracted."""
        self.multiply(self.sides.scores, "size4", "score")
        self.multiply(self.sides.pulls, "size5", "pull")
        weights, changes = {}, {}
        for (i, j), (normalizer, product) in zip(CELLS, known):
            weights[i, j] = self.computed(
                lambda seen, x, scale, y: s.select(seen, s.exp(x * scale - y), 0),
                self.seen(i, j), f"score{i}_{j}", self.scale, normalizer,
            )  # fmt: skip
            changes[i, j] = self.computed(
                lambda weight, pull, y, scale: weight * (pull - y) * scale,
                weights[i, j], f"pull{i}_{j}", product, self.scale,
            )  # fmt: skip
        return weights, changes

    def keep(self, values: dict[tuple[int, int], str]) -> None:
        """Write values of a thread's cells to shared memory, where others may still read."""
        self.line(self.syntax.barrier)
        for (i, j), value in values.items():
            self.line(f"weights[{self.spot(i, f'column{_beyond(j)}')}] = {value};")
        self.line(self.syntax.barrier)

    def add(self, name: str, part: str) -> None:
        """Add a block's products to the sums of a thread's cells."""
        for i, j in CELLS:
            found = self.computed(lambda x, y: x + y, f"{name}{i}_{j}", f"{part}{i}_{j}")
            self.line(f"{name}{i}_{j} = {found};")

    # --- words ----------------------------------------------------------------------------

    def computed(self, function: Callable[..., Expr], *texts: str) -> str:
        """Write the statements of an expression over values: those called `seen...` are bools."""
        leaves = [
            s.leaf("input", bool_ if text.startswith("seen") else self.dtype, i)
            for i, text in enumerate(texts)
        ]
        with self.scope():
            self.values.update(zip(leaves, map(ExprText, texts)))
            (found,) = self.compute(simplified([function(*leaves)], self.syntax.column))
            return found.text

    def seen(self, i: int, j: int) -> str:
        """Declare whether the score of a cell counts; a name for that, once per scope."""
        name = f"seen{i}_{j}"
        leaf = s.leaf("input", bool_, name)
        if leaf not in self.values:
            conditions = [f"row{i} < {self.sides.rows}", f"swept{j} < {self.sides.swept}"]
            if self.kernel.causal:
                key = self.part == "key"
                conditions.append(f"row{i} <= swept{j}" if key else f"swept{j} <= row{i}")
            text = " && ".join(conditions)
            self.line(self.syntax.constant(name, self.syntax.type_of(bool_), text) + ";")
            self.values[leaf] = ExprText(name)
        return name

    def begin(self, name: str, cells: Sequence[tuple[int, int]]) -> None:
        """Write variables for a thread's cells, zero at first."""
        for i, j in cells:
            self.variable(f"{name}{i}_{j}", self.literal(0))

    def variable(self, name: str, value: str) -> None:
        """Declare a variable of the dtype of sums."""
        self.line(self.syntax.variable(name, self.syntax.type_of(self.dtype), value) + ";")

    def literal(self, value: float) -> str:
        """A constant of the dtype of sums."""
        return self.syntax.literal(value, self.dtype)

    def shared_value(self, text: str) -> str:
        """A name for an element of shared memory."""
        return self.define(self.dtype, text)

    def spot(self, i: int, column: str) -> str:
        """Where the weight of a thread's row and a column of the block lies."""
        return f"(row{_beyond(i)}) * {PITCH} + {column}"

    def matrix(self, number: int) -> str:
        """Where the matrix of an operand begins that the tile belongs to."""
        return f"offset{number} + batch0 * stride{number}_0 + batch1 * stride{number}_1"

    def element_address(self, number: int, row: str, column: str) -> str:
        """The address of an element of a matrix."""
        return f"{self.matrix(number)} + {row} * stride{number}_2 + {column} * stride{number}_3"

    def copy(self, number: int, place: str, address: str, inside: Sequence[str]) -> None:
        """Write the copy of one element to shared memory; it is zero outside of its matrix."""
        value = self.element(number, address, inside)
        dtype = self.operands[number].dtype
        self.line(f"{place} = {self.syntax.convert(value, dtype, self.dtype)};")

    def of_row(self, row: str, count: str) -> tuple[str, str]:
        """The logarithm of the sum of weights of a query, and the product that is subtracted."""
        inside = [f"{row} < {count}"]
        normalizer, product = (
            self.element(number, f"{self.matrix(number)} + {row} * stride{number}_2", inside)
            for number in (NORMALIZER, PRODUCT)
        )
        return normalizer, product

    def store(self, number: int, i: int, j: int, columns: str, value: str) -> None:
        """Write the store of one cell, where it lies inside the result."""
        dtype = self.operands[number].dtype
        address = self.element_address(number, f"row{i}", f"column{j}")
        text = self.syntax.convert(value, self.dtype, dtype)
        with self.block(f"if (row{i} < {self.sides.rows} && column{j} < {columns})"):
            self.line(self.syntax.store(number, dtype, address, text))


def _beyond(i: int) -> str:
    """How far a thread's cell number `i` lies from its first one, as the end of a sum."""
    return f" + {i * SPREAD}" if i else ""
