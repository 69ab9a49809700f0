"""Products as machine code: registers that stay registers, and vectors that suit the processor."""

import re

import llvmlite.binding as llvm
import numpy as np
import pytest
from tests.helpers.native import WIDTHS, run_native

from contraflow import config
from contraflow.compiler.kernel import KernelCall, attention, contraction, loops
from contraflow.devices.cpu import jit, tiles, vectors
from contraflow.dtypes import bfloat16, float16, float32, float64, int32
from contraflow.render.llvm import contraction as products
from contraflow.render.llvm.contraction import ContractionRenderer
from contraflow.render.llvm.kernels import render

TARGETS = {16: ("x86-64", "+sse4.1"), 32: ("x86-64-v3", ""), 64: ("x86-64-v4", "-prefer-256-bit")}


def blocks(text, vector_bytes):
    """The assembly of each block, by its name, rows and vectors, whatever this machine is."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    cpu, features = TARGETS[vector_bytes]
    triple = llvm.Target.from_triple("x86_64-unknown-linux-gnu")
    target = triple.create_target_machine(cpu=cpu, features=features, opt=3, jit=True)
    with jit._without_idle_passes():
        assembly = target.emit_assembly(jit._parsed(text, target))
    found = re.finditer(r"(?ms)^\w+_(rows|packs)(\d+)x(\d+):(.*?)\.Lfunc_end", assembly)
    return {(match[1], int(match[2]), int(match[3])): match[4].splitlines() for match in found}


def loop_spills(lines):
    """The lines within loops that read or write a vector on the stack."""
    labels, found = {}, []
    for i, line in enumerate(lines):
        if match := re.match(r"(\.L\w+):", line):
            labels[match[1]] = i
        elif (match := re.match(r"\s+j\w+\s+(\.L\w+)", line)) and match[1] in labels:
            found.append(lines[labels[match[1]] : i])
    assert found, "a block has a loop"
    on_stack = re.compile(r"\(%rsp[,)].*[xyz]mm|[xyz]mm.*\(%rsp[,)]")
    return [line for body in found for line in body if on_stack.search(line)]


# Half precision takes calls where the processor does not convert it, and int64 where it does not
# multiply: there vectors go to the stack whatever the block.
@pytest.mark.parametrize("vector_bytes", TARGETS)
@pytest.mark.parametrize("dtype", [float32, float64, bfloat16, float16, int32], ids=str)
def test_blocks_of_products_keep_their_sums_in_registers(dtype, vector_bytes):
    if dtype is float16 and vector_bytes == 16:
        pytest.skip("conversions of float16 are calls")
    kernel = contraction(dtype, dtype.compute)
    found = blocks(render(kernel, vector_bytes=vector_bytes), vector_bytes)
    renderer = ContractionRenderer(kernel, "", vector_bytes)
    assert set(found) == {
        ("packs" if packs else "rows", *shape) for *shape, packs in renderer._shapes()
    }
    assert {shape: spills for shape, body in found.items() if (spills := loop_spills(body))} == {}


@pytest.mark.parametrize("vector_bytes", [32, 64])
def test_blocks_of_pairs_keep_their_sums_in_registers(monkeypatch, vector_bytes):
    monkeypatch.setitem(TARGETS, vector_bytes, ("x86-64-v4", "-prefer-256-bit,+avx512bf16"))
    text = render(contraction(bfloat16, float32), vector_bytes=vector_bytes, factors="pairs")
    found = blocks(text, vector_bytes)
    assert any("vdpbf16ps" in line for line in found["rows", 4, 3])
    assert not any(map(loop_spills, found.values()))


def test_blocks_of_tiles_add_them_in_registers(monkeypatch):
    monkeypatch.setitem(TARGETS, 64, ("sapphirerapids", "-prefer-256-bit"))
    text = render(contraction(bfloat16, float32), vector_bytes=64, factors="tiles")
    found = blocks(text, 64)
    assert set(found) == {("rows", rows, columns) for rows in (16, 32) for columns in (1, 2)}
    for (_, rows, columns), body in found.items():
        products = [line.split("%")[-1] for line in body if "tdpbf16ps" in line]
        assert len(products) == len(set(products)) == rows // 16 * columns
        assert sum("tileloadd" in line for line in body) == len(products) + rows // 16 + columns


def test_windows_share_the_blocks_of_products():
    text = render(contraction(float32, float32, (2, 2)), vector_bytes=64)
    assert not any(map(loop_spills, blocks(text, 64).values()))


@pytest.mark.parametrize("vector_bytes", TARGETS)
@pytest.mark.parametrize("dtype", [float32, float64, bfloat16], ids=str)
@pytest.mark.parametrize("part", ["out", "all"])
def test_blocks_of_attention_keep_their_sums_in_registers(part, dtype, vector_bytes):
    text = render(attention(dtype, dtype.compute, part, True), vector_bytes=vector_bytes)
    found = blocks(text, vector_bytes)
    heights = enumerate(products.BLOCKS[vector_bytes], 1)
    assert set(found) == {("rows", rows, vectors) for vectors, rows in heights}
    assert {shape: spills for shape, body in found.items() if (spills := loop_spills(body))} == {}


def test_blocks_of_more_sums_than_there_are_registers_spill(monkeypatch):
    """Which shows that the tests above would notice."""
    monkeypatch.setitem(products.BLOCKS, 64, (16, 16, 16))
    found = blocks(render(contraction(float32, float32), vector_bytes=64), 64)
    assert len(loop_spills(found["rows", 16, 3])) > 8


@pytest.mark.parametrize(
    ("processor", "widest", "windows"),
    [
        ("znver4", 64, 32),
        ("znver4", 16, 16),
        ("znver3", 32, 32),
        ("znver5", 64, 64),
        ("sapphirerapids", 64, 64),
        ("haswell", 32, 32),
        ("x86-64", 16, 16),
        ("apple-m1", 16, 16),
    ],
)
def test_vectors_suit_the_processor_and_the_kernel(monkeypatch, processor, widest, windows):
    monkeypatch.setattr(jit, "processor", lambda: processor)
    monkeypatch.setattr(jit, "vector_bytes", lambda: widest)
    monkeypatch.setattr(config, "vector_bytes", None)
    for dtype in (float32, float64):
        assert vectors.bytes_for(contraction(dtype, dtype, (2, 2))) == windows
    half = contraction(bfloat16, float32, (2, 2))
    for kernel in (contraction(float32, float32), half, loops(1, 0, 0, (), (), ())):
        assert vectors.bytes_for(kernel) == widest


@pytest.mark.parametrize(
    ("processor", "feature", "permitted", "wanted"),
    [
        ("znver4", True, False, {64: "pairs", 32: "pairs", 16: "elements"}),
        ("znver4", False, False, {64: "elements"}),
        ("sapphirerapids", True, False, {64: "elements"}),
        ("sapphirerapids", True, True, {64: "tiles", 32: "elements"}),
    ],
)
def test_factors_are_those_that_are_fast(monkeypatch, processor, feature, permitted, wanted):
    monkeypatch.setattr(jit, "processor", lambda: processor)
    monkeypatch.setattr(jit, "has_feature", lambda name: feature and name == "avx512bf16")
    monkeypatch.setattr(tiles, "permitted", lambda: permitted)
    for vector_bytes, factors in wanted.items():
        monkeypatch.setattr(config, "vector_bytes", vector_bytes)
        assert vectors.factors_of(contraction(bfloat16, float32)) == factors
        for other in (contraction(float16, float32), contraction(bfloat16, float32, (2, 2))):
            assert vectors.factors_of(other) == "elements"


def test_the_vector_width_of_the_user_decides(monkeypatch):
    monkeypatch.setattr(jit, "processor", lambda: "znver4")
    for width in (16, 64):
        monkeypatch.setattr(config, "vector_bytes", width)
        assert vectors.bytes_for(contraction(float32, float32, (1, 2))) == width


def product(sizes, transposed=(False, False)):
    """A product of matrices in some order, as a call and its two operands."""
    m, n, k = sizes
    rng = np.random.default_rng(3)
    shapes = zip(transposed, ((m, k), (k, n)))
    (am, ak), (bk, bn) = ((1, rows) if swap else (columns, 1) for swap, (rows, columns) in shapes)
    strides = ((0, 0, am, ak), (0, 0, bk, bn), (0, 0, n, 1))
    call = KernelCall(contraction(float32, float32), (1, 1, m, n, k), strides)
    return call, *(rng.random(size, np.float32) for size in (m * k, k * n))


def results(sizes, widths, transposed=(False, False)):
    """All results of a product that differ in their bits, over widths and numbers of threads."""
    call, a, b = product(sizes, transposed)
    found = set()
    for width in widths:
        for parts in (1, 2, 3, 7):
            c = np.empty(sizes[0] * sizes[1], np.float32)
            run_native(call, [(a, 0), (b, 0), (c, 0)], width=width, edges=range(parts + 1))
            found.add(c.tobytes())
    return found


@pytest.mark.parametrize("k", [1, 255, 256, 257, 1500])
def test_products_have_the_same_bits_for_any_width_and_cut(k):
    assert len(results((37, 50, k), WIDTHS)) == 1


@pytest.mark.parametrize("k", [1, 15, 260, 9000])
@pytest.mark.parametrize("transposed", [(False, False), (False, True)])
def test_products_of_one_row_have_the_same_bits_for_any_width_and_cut(k, transposed):
    assert len(results((1, 50, k), WIDTHS, transposed)) == 1


@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True)])
def test_packed_products_have_the_same_bits_for_any_cut(transposed):
    """More rows than a strip has, and rows that clash, so that all that can be packed is."""
    assert len(results((301, 250, 512), (32,), transposed)) == 1


def test_every_panel_of_k_starts_from_zero():
    """What is added to a large sum is the sum of a panel, not one product after the other."""
    k, m, n = 3 * 256, 6, 64
    a = np.ones((m, k), np.float32)
    a[:, 0] = 2**25  # beside which a single one is lost
    b, c = np.ones((k, n), np.float32), np.empty((m, n), np.float32)
    call = KernelCall(
        contraction(float32, float32),
        (1, 1, m, n, k),
        ((0, 0, k, 1), (0, 0, n, 1), (0, 0, n, 1)),
    )
    run_native(call, [(a.reshape(-1), 0), (b.reshape(-1), 0), (c.reshape(-1), 0)])
    np.testing.assert_array_equal(c, np.float32(2**25 + 512))
