"""Sizes that decide how something is run are in one module, and a test can set them."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import contraflow as cf
from contraflow import thresholds
from contraflow.testing import assert_close

SOURCE = Path(cf.__file__).parent


def kernels(n: int) -> int:
    """How many kernels a compiled sum of `n` elements has. It is compared with NumPy's."""
    total = cf.compile(lambda x: x.sum())
    x = np.arange(float(n))
    assert_close(total(cf.tensor(x)), x.sum())
    return sum(name.startswith(("row_", "column_")) for name in total.kernels)


def test_a_fold_is_cut_where_the_threshold_says_and_only_there() -> None:
    whole = kernels(1000)
    with thresholds.using(long_fold=64, fold_part=64):
        assert kernels(1000) > whole
    assert kernels(1000) == whole


def test_a_form_that_a_node_has_had_is_decided_anew() -> None:
    x = cf.ones(2, requires_grad=True)

    def has_shortcut() -> bool:
        y = x * x
        y.sum().backward()
        found: bool = y._node.form.shortcut
        return found

    assert has_shortcut()
    with thresholds.using(bare_arrays=0):
        assert not has_shortcut()
    assert has_shortcut()


def test_an_eager_call_that_has_been_prepared_is_decided_anew() -> None:
    """Values that meet in one element are carried in float64 where they are more than that."""
    values = cf.tensor([2.0**24, *[1.0] * 8])

    def total() -> float:
        return cf.zeros(1).index_add(0, cf.zeros(9, dtype=cf.int64), values).item()

    assert total() == 2.0**24
    with thresholds.using(meeting_values=0):
        assert total() == 2.0**24 + 8
    assert total() == 2.0**24


def test_thresholds_are_restored_after_an_error() -> None:
    before = thresholds.eager_kernel

    @thresholds.using(eager_kernel=1)
    def fail() -> None:
        raise ZeroDivisionError(thresholds.eager_kernel)

    with pytest.raises(ZeroDivisionError, match=r"^1$"):
        fail()
    assert thresholds.eager_kernel == before


def test_blocks_are_nested_and_decorate() -> None:
    @thresholds.using(eager_kernel=1)
    def inside() -> tuple[int, int]:
        with thresholds.using(eager_kernel=2, eager_join=3):
            return thresholds.eager_kernel, thresholds.eager_join

    assert inside() == inside() == (2, 3)
    assert thresholds.eager_kernel > 3


def test_an_unknown_name_is_refused_and_nothing_is_set() -> None:
    before = thresholds.eager_kernel
    with (
        pytest.raises(ValueError, match=r"thresholds: there is no 'eager_kernels'\. Known: bare_"),
        thresholds.using(eager_kernel=1, eager_kernels=1),
    ):
        pass
    assert thresholds.eager_kernel == before


def reads(text: str) -> set[str]:
    """The thresholds that a module reads."""
    return {
        node.attr
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "thresholds"
    }


def test_every_threshold_is_read_at_the_time_it_is_needed() -> None:
    """Each by some module, and none by `from contraflow.thresholds import`, which would keep it."""
    texts = [p.read_text(encoding="utf-8") for p in SOURCE.rglob("*.py")]
    assert not [text for text in texts if "from contraflow.thresholds" in text]
    found = set().union(*map(reads, texts)) - {"using", "on_change"}
    assert found == thresholds._NAMES


# Constants that sizes are compared with and that are not thresholds, and why.
LIMITS = {
    "capture/compiled.py REASONS_KEPT": "the lines of a listing",
    "capture/rewriting/bytecode.py _LONGEST": "the format of CPython's line tables",
    "capture/rewriting/rewrite.py _HAVE_ARGUMENT": "the opcodes of CPython 3.11 and 3.12",
    "capture/web/bundle.py _SMALLEST": "bytes that a buffer of WebGPU has at least",
    "capture/web/program.py WORD": "bytes of an element",
    "capture/web/names.py _DEPTH": "names deeper than this would not be read by anybody",
    "collector.py FROZEN_BY_PYTHON": "more objects than Python freezes itself",
    "compiler/attention_layout.py _MOST_DIMS": "the axes that the kernel has",
    "devices/cache.py MOST_BYTES": "of the disk",
    "devices/cache.py _DIGEST_BYTES": "of the format",
    "devices/cpu/caches.py SMALLEST": "of caches for which there are texts of products",
    "devices/cpu/caches.py LARGEST": "the same, and of the stack of a thread",
    "devices/cpu/jit.py _LENGTH_BYTES": "of the format",
    "devices/cache.py _LOOKS": "a part of that",
    "devices/cpu/memory.py LEAST": "of memory that is kept: the system has less at hand",
    "devices/cpu/memory.py ALIGNMENT": "bytes of a cache line",
    "devices/cpu/memory.py LIMIT": "of memory that is kept",
    "devices/cpu/memory.py GRAIN": "of the sizes of memory",
    "devices/cpu/program.py HUGE_PAGE": "of the system's memory",
    "devices/cpu/program.py _ROW_WORDS": "of a table that kernels read",
    "compiler/narrow_integers.py _LEAST": "the numbers that 32 bits hold",
    "compiler/narrow_integers.py _MOST": "the numbers that 32 bits hold",
    "devices/cuda/device.py ARENA_GRAIN": "of the sizes of memory",
    "devices/cuda/graph.py ALIGNMENT": "bytes at which values in the arena begin",
    "devices/cuda/memory.py GRAIN": "of the sizes of memory",
    "devices/cuda/memory.py PART": "of memory that is kept",
    "devices/cuda/memory.py PARTS": "of memory that is kept",
    "devices/cuda/products.py CANDIDATES": "of the answer of a library, from which one is taken",
    "devices/cuda/shown.py MOST": "of memory that is kept: the same for all programs of a GPU",
    "devices/cuda/timing.py CYCLES": "for profiles: the host launches a step meanwhile",
    "devices/run_words.py WORD": "bytes",
    "devices/cuda/exchange.py _NO_STREAM": "a number of DLPack's",
    "devices/cuda/graph_words.py COPIES": "of the text of a kernel",
    "devices/cuda/graph_words.py FEW_COPIES": "of the text of a kernel",
    "devices/cuda/graph_words.py FEW_WORDS": "of the text of a kernel",
    "devices/cuda/graph_words.py WORDS": "of the text of a kernel",
    "devices/cuda/graph_words.py THREADS": "of the text of a kernel",
    "devices/cuda/matrices.py _THREADS": "of the text of a kernel",
    "devices/cuda/memory.py SMALL": "of memory that is kept",
    "devices/cuda/memory.py MOST_KEPT": "of memory that is kept",
    "devices/webgpu/buffers.py _STEP": "of the sizes of memory",
    "devices/webgpu/buffers.py WORD": "bytes",
    "devices/webgpu/runs.py FAILURE": "bytes of an outcome",
    "devices/webgpu/runs.py MOST": "of a buffer: it has an outcome for each call",
    "devices/webgpu/device.py _STAGED": "of memory that is kept",
    "devices/webgpu/device.py _LEAST_STAGED": "of memory that is kept",
    "devices/webgpu/program.py SCALAR_BYTES": "of a buffer",
    "devices/webgpu/windows.py POINTS": "the numbers of elements that 32 bits hold",
    "expressions/elementary.py UNIT_BITS": "of numbers that are written into kernels",
    "expressions/philox.py KEY_STEPS": "of the generator",
    "expressions/philox.py MASK": "of 32 bits",
    "expressions/philox.py MULTIPLIERS": "of the generator",
    "expressions/special_functions.py BERNOULLI": "of a series",
    "expressions/philox.py GROUP": "the draws of one group are one table",
    "expressions/special_functions.py _ENOUGH": "where a series is as exact as the numbers are",
    "operation/reference.py BLOCK": "what sums are, as BLOCK of compiler/kernel.py",
    "ops/creation/create.py _FEW_DIMS": "dims that every device takes",
    "ops/shape/parts.py _MOST_SECTIONS": "of an argument",
    "runtime/eager.py _INT64": "the numbers that int64 holds",
    "serialize/header.py ALIGNMENT": "of the format",
    "serialize/header.py HEADER_LIMIT": "of the format",
    "serialize/structure.py DEPTH_LIMIT": "of the format",
    "tensors/symbol.py LONGEST": "characters of a message",
}  # fmt: skip
# These decide the text of kernels, as the docstring of thresholds.py says.
OF_TEXTS = ("render/", "compiler/kernel.py")
LITERALS = (
    ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Tuple, ast.expr_context,
)  # fmt: skip


def constants(body: list[ast.stmt]) -> set[str]:
    """The whole numbers that statements give names in capitals."""
    found: set[str] = set()
    for line in body:
        if not isinstance(line, ast.Assign | ast.AnnAssign) or line.value is None:
            continue
        targets = line.targets if isinstance(line, ast.Assign) else [line.target]
        names = [x.id for t in targets for x in ast.walk(t) if isinstance(x, ast.Name)]
        whole = all(isinstance(x, LITERALS) for x in ast.walk(line.value))
        number = any(type(getattr(x, "value", None)) is int for x in ast.walk(line.value))
        if whole and number:
            found |= set(filter(str.isupper, names))
    return found


def decides(node: ast.AST) -> bool:
    """Whether a node compares by order, limits, cuts off, or scales."""
    if isinstance(node, ast.Compare):
        # `len(x) == MANY` is the moment at which something becomes many.
        counted = any(
            isinstance(x, ast.Call) and isinstance(x.func, ast.Name) and x.func.id == "len"
            for x in (node.left, *node.comparators)
        )
        return counted or any(isinstance(x, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for x in node.ops)
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in ("min", "max")
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Mult | ast.FloorDiv | ast.Div | ast.Mod)
    return isinstance(node, ast.Slice)


def compared_constants(text: str) -> set[str]:
    """The numbers of a module and of its classes by which sizes are compared, limited or scaled."""
    tree = ast.parse(text)
    numbers = constants(tree.body)
    of_classes = set()
    for node in ast.walk(tree):
        # The members of an enumeration are names, not sizes.
        if isinstance(node, ast.ClassDef) and not any(
            isinstance(base, ast.Name) and base.id.endswith("Enum") for base in node.bases
        ):
            of_classes |= constants(node.body)
    found: set[str] = set()
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.Lambda):
            continue  # a constant that is made of others decides nothing itself
        for node in ast.walk(function):
            if decides(node):
                for x in ast.walk(node):
                    if isinstance(x, ast.Name) and x.id in numbers:
                        found.add(x.id)
                    elif isinstance(x, ast.Attribute) and x.attr in of_classes:
                        found.add(x.attr)
    return found


def test_sizes_that_decide_are_thresholds_and_nowhere_else() -> None:
    found = {
        f"{path.relative_to(SOURCE).as_posix()} {name}"
        for path in SOURCE.rglob("*.py")
        if not path.relative_to(SOURCE).as_posix().startswith(OF_TEXTS)
        for name in compared_constants(path.read_text(encoding="utf-8"))
    }
    assert found == LIMITS.keys(), "move it to thresholds.py, or say why it is not a threshold"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FEW = 8\ndef f(n): return n < FEW", {"FEW"}),
        ("FEW: int = 1 << 3\ndef f(n): return min(n, 2 * FEW)", {"FEW"}),
        ("_FEW, _MANY = 12, 96\ndef f(n): return n >= _MANY", {"_MANY"}),
        ("MOST = 64\ndef f(x): return len(x) == MOST", {"MOST"}),
        ("class A:\n    MOST = 64\n    def f(self, n): return n >= self.MOST", {"MOST"}),
        ("STEPS = 8\ndef f(n): return 1 + n // STEPS", {"STEPS"}),
        ("WAIT = 3\ndef f(n): return n * (WAIT + 1)", {"WAIT"}),
        ("LAST = 32\ndef f(x): return x[-LAST:]", {"LAST"}),
        ("KIND = 2\nBYTES = 4 * KIND\ndef f(x): return x + BYTES", set()),
        ("SMALL = 0.5\ndef f(x): return abs(x) <= SMALL", set()),
        ("KIND = 2\ndef f(x): return x == KIND", set()),
        ("NAMES = ('a', 'b')\ndef f(x): return len(x) > len(NAMES)", set()),
        ("few = 8\ndef f(n): return n < few", set()),
    ],
)
def test_a_size_that_something_is_compared_with_is_found(text: str, expected: set[str]) -> None:
    assert compared_constants(text) == expected
