"""A long text is compiled in parts, which together are the same machine code."""

import re

import numpy as np
import pytest
from tests.helpers.native import WIDTHS, run_native

from contraflow import config, thresholds
from contraflow.compiler.kernel import KernelCall, contraction
from contraflow.devices.cpu import jit, parts
from contraflow.dtypes import bfloat16, float32
from contraflow.render.llvm.identity import entry_name
from contraflow.render.llvm.kernels import render

WIDTH = WIDTHS[-1]


def product_text() -> tuple[str, str]:
    kernel = contraction(float32, float32)
    return entry_name(kernel, vector_bytes=WIDTH), render(kernel, vector_bytes=WIDTH)


def test_a_short_text_stays_whole():
    assert parts.divided("f", "define void @f() {\n  ret void\n}\n") == [
        "define void @f() {\n  ret void\n}\n"
    ]


def test_each_function_of_a_long_text_is_defined_once():
    name, text = product_text()
    found = parts.divided(name, text)
    assert len(found) > 1
    defined = [re.findall(r"^define .*@(\w+)\(", part, re.MULTILINE) for part in found]
    names = [one for part in defined for one in part]
    assert sorted(names) == sorted(re.findall(r"^define .*@(\w+)\(", text, re.MULTILINE))
    assert len(names) == len(set(names))
    # What a part lacks and mentions it declares, and nothing else.
    for part, own in zip(found, defined):
        declared = set(re.findall(r"^declare .*@(\w+)\(", part, re.MULTILINE))
        mentioned = set(re.findall(rf"@({name}\w*)", part)) & set(names)
        assert declared == mentioned - set(own)
        assert max(map(len, found)) < 1.5 * thresholds.cpu_long_text


def test_functions_that_other_texts_may_have_are_copied(monkeypatch):
    """The functions `apart` have the same names in every kernel that uses them."""
    monkeypatch.setattr(thresholds, "cpu_long_text", 60)
    shared = "define internal void @apart.f() cold #0 {\n  call void @apart.g()\n  ret void\n}\n"
    inner = "define internal void @apart.g() cold #0 {\n  ret void\n}\n"
    users = "".join(
        f"define internal void @k_{n}() #0 {{\n  call void @apart.f()\n  ret void\n}}\n"
        for n in range(2)
    )
    entry = "define void @k() #0 {\n  call void @k_0()\n  call void @k_1()\n  ret void\n}\n"
    text = f"{shared}{inner}{users}{entry}attributes #0 = {{ }}\n"
    first, second, last = parts.divided("k", text)
    for part in (first, second):
        assert part.count("define internal void @apart.") == 2
    assert "apart" not in last
    assert last.count("declare void @k_") == 2
    assert all(part.endswith("attributes #0 = { }\n") for part in (first, second, last))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_parts_are_kept_in_one_entry_and_linked(tmp_path, monkeypatch, threads):
    monkeypatch.setattr(config, "cache_folder", tmp_path)
    monkeypatch.setattr(config, "num_threads", threads)
    name, text = product_text()
    source = jit.FunctionSource([name], text, lambda: text)
    made = jit._object_codes([source])
    assert len(made) == len(parts.divided(name, text))
    assert len(list((tmp_path / "cpu").iterdir())) == 1
    monkeypatch.setattr(jit, "_emit", None)  # from here on it is read
    assert jit._object_codes([source]) == made
    assert jit._link([name], made)[0]


@pytest.mark.parametrize("dtype", [float32, bfloat16], ids=str)
def test_a_product_in_parts_has_the_bits_of_one_text(tmp_path, monkeypatch, dtype):
    monkeypatch.setattr(config, "cache_folder", tmp_path)
    random = np.random.default_rng(0)
    m, n, k = 37, 53, 300
    a, b = (random.standard_normal(size, np.float32).astype(dtype.numpy) for size in (m * k, k * n))
    kernel = contraction(dtype, float32)
    strides = ((0, 0, k, 1), (0, 0, n, 1), (0, 0, n, 1))
    call = KernelCall(kernel, (1, 1, m, n, k), strides)
    results = []
    for length in (thresholds.cpu_long_text // 4, 1 << 30):
        monkeypatch.setattr(thresholds, "cpu_long_text", length)
        for entry in (tmp_path / "cpu").glob("*"):
            entry.unlink()
        jit._addresses.clear()
        c = np.zeros(m * n, dtype.numpy)
        run_native(call, [(a, 0), (b, 0), (c, 0)], width=WIDTH)
        results.append(c.tobytes())
    assert results[0] == results[1]
    exact = a.reshape(m, k).astype(np.float64) @ b.reshape(k, n).astype(np.float64)
    assert np.abs(c.reshape(m, n).astype(np.float64) - exact).max() < (1e-4, 0.3)[dtype is bfloat16]
