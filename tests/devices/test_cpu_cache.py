"""The cache of machine code."""

from __future__ import annotations

import ast
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.plans import map_kernel

from contraflow import config
from contraflow.compiler.kernel import KernelCall, contraction
from contraflow.devices import cache
from contraflow.devices.cpu import jit, program
from contraflow.devices.cpu.pool import pool
from contraflow.dtypes import bfloat16, float32
from contraflow.render.clike import cuda
from contraflow.render.llvm import kernels as renderers
from contraflow.render.llvm.identity import GENERATOR, entry_name, text_identity
from contraflow.render.llvm.kernels import render


def unique_kernel(number: float) -> tuple[str, str]:
    kernel = map_kernel(lambda x: x * number)
    return entry_name(kernel, vector_bytes=16), render(kernel, vector_bytes=16)


def test_object_code_is_kept_and_damage_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "cache_folder", tmp_path)
    name, text = unique_kernel(1234.5)
    compiled = []
    emit = jit._emit
    monkeypatch.setattr(jit, "_emit", lambda text, on: compiled.append(text) or emit(text, on))

    def forget_and_load() -> int:
        jit._addresses.clear()
        jit.function(name, text)
        return len(compiled)

    assert forget_and_load() == 1
    (entry,) = (tmp_path / "cpu").iterdir()
    assert stat.S_IMODE(entry.parent.stat().st_mode) == 0o700
    assert forget_and_load() == 1
    content = entry.read_bytes()
    for damaged in (content[:-1], content[:40] + b"x" + content[41:], b"", b"short"):
        entry.write_bytes(damaged)
        before = len(compiled)
        assert forget_and_load() == before + 1
        assert entry.read_bytes() == content
    assert [path.name for path in entry.parent.iterdir()] == [entry.name]


def test_threads_compile_what_one_does(tmp_path, monkeypatch):
    """Several kernels at once give the same object code, and an error reaches who asked."""
    monkeypatch.setattr(config, "cache_folder", tmp_path)
    kernels = [unique_kernel(41.5 + n) for n in range(6)]
    sources = [jit.FunctionSource([name], text, lambda text=text: text) for name, text in kernels]
    found = []
    for threads in (1, 2, 3):
        monkeypatch.setattr(config, "num_threads", threads)
        found.append(jit._object_codes(sources))
        for entry in (tmp_path / "cpu").iterdir():
            entry.unlink()
    assert len(found[0]) == 6
    assert found[0] == found[1] == found[2]
    broken = [
        jit.FunctionSource([f"wrong{n}"], f"wrong {n}", lambda: "this is no text") for n in range(4)
    ]
    with pytest.raises(RuntimeError, match="expected top-level entity"):
        jit.functions([*sources, *broken])


def test_no_text_is_written_for_machine_code_that_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "cache_folder", tmp_path)
    calls = [KernelCall(map_kernel(lambda x, n=n: x * n), (4,), ()) for n in (31.5, 32.5)]
    texts = []
    monkeypatch.setattr(renderers, "render", lambda k, **w: texts.append(k) or render(k, **w))

    def forget_and_compile() -> int:
        jit._addresses.clear()
        program._entries.clear()
        assert len(set(program._compile([*calls, *calls], pool.source(1)))) == 2
        return len(texts)

    assert forget_and_compile() == 2
    assert forget_and_compile() == 2
    for entry in (tmp_path / "cpu").iterdir():
        entry.write_bytes(b"damaged")
    assert forget_and_compile() == 4


def test_code_for_single_rows_is_compiled_where_there_are_any(monkeypatch):
    """It takes a fifth of the time, and does for matrices of several rows as well."""
    monkeypatch.setattr(program, "_entries", {})
    matrices, texts = contraction(float32, float32), []

    def code(sources: list[jit.FunctionSource]) -> list[int]:
        texts.append([source.names[0].endswith("_several") for source in sources[:-1]])
        return list(range(len(sources)))

    monkeypatch.setattr(jit, "functions", code)

    def compiled(*sizes: tuple[int, ...], kernel: Any = matrices) -> Any:
        calls = [KernelCall(kernel, (1, 1, *size), ()) for size in sizes]
        found = program._compile(calls, pool.source(1))
        assert len(found) == len(sizes)
        return texts.pop()

    assert compiled((2, 3, 4), (5, 6, 7)) == [True]
    assert compiled((2, 3, 4)) == []
    assert compiled((2, 3, 4), (2, 1, 4)) == [False]  # a column
    assert compiled((1, 5, 4), (9, 9, 9)) == []
    windows = contraction(float32, float32, (2, 2))
    assert compiled((1, 1, 3, 3, 8, 8), (4, 1, 3, 3, 8, 8), kernel=windows) == [False]
    # Elements that are converted have no code of their own for single rows.
    assert compiled((2, 3, 4), (1, 3, 4), kernel=contraction(bfloat16, float32)) == [False]


def test_renderers_are_imported_for_a_text_that_is_new(tmp_path):
    program = (
        "import sys, contraflow as cf; cf.compile(lambda x: (x @ x).tanh())(cf.ones(4, 4)); "
        "print('contraflow.render.llvm.kernels' in sys.modules)"
    )
    for expected in ("True", "False"):
        found = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "CONTRAFLOW_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert found.stdout.strip() == expected


def test_a_text_s_identity_is_that_of_everything_that_decides_about_it():
    """Kernel, width, and the modules that write it: all that the renderer imports."""
    first, second = (map_kernel(lambda x, n=n: x * n) for n in (1.5, 2.5))
    identities = {text_identity(k, vector_bytes=w) for k in (first, second) for w in (16, 32)}
    assert len(identities) == 4
    assert text_identity(map_kernel(lambda x: x * 1.5), vector_bytes=16) in identities
    assert deciding("render.llvm.kernels") == set(GENERATOR)


def test_so_is_that_of_a_text_for_cuda():
    kernel = map_kernel(lambda x: x * 1.5)
    variants = [cuda.TextVariant(bits, guarded) for bits in (32, 64) for guarded in (False, True)]
    assert len({cuda.text_identity(kernel, variant) for variant in variants}) == 4
    assert deciding("render.clike.cuda") == set(cuda.GENERATOR)


def deciding(first: str) -> set[str]:
    """A module, and all that it imports, except for those that no text depends on."""
    found: set[str] = set()
    waiting = [first]
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting += imported_from_the_package(module)
    # Thresholds decide which kernels there are, and how texts are compiled.
    writers = [module for module in found if module.startswith(("render.", "expressions."))]
    assert not any("thresholds" in imported_from_the_package(module) for module in writers)
    return found - {"collector", "errors", "printing", "thresholds", "threads"}


def imported_from_the_package(module: str) -> list[str]:
    """The modules of contraflow that a module names in its imports."""
    tree = ast.parse(Path(sys.modules[f"contraflow.{module}"].__file__).read_text())
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("contraflow"):
            parent = node.module.removeprefix("contraflow").removeprefix(".")
            inner = [f"{parent}.{alias.name}".lstrip(".") for alias in node.names]
            modules = [name for name in inner if f"contraflow.{name}" in sys.modules]
            names += modules or [parent]
    return names


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(config, "cache_folder", tmp_path / "file" / "below")
    assert jit.function(*unique_kernel(77.25))


def test_the_cache_is_bounded_and_keeps_what_was_used_last(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "cache_folder", tmp_path)
    monkeypatch.setattr(cache, "MOST_BYTES", 8 * 1032)
    for i in range(7):
        cache.write("cpu", f"{i}.o", bytes([i]) * 1000)
        os.utime(tmp_path / "cpu" / f"{i}.o", (i, i))
    assert cache.read("cpu", "0.o") == bytes(1000)  # used just now
    for i in range(7, 20):
        cache.write("cpu", f"{i}.o", bytes(1000))
        entries = list((tmp_path / "cpu").iterdir())
        assert sum(entry.stat().st_size for entry in entries) <= cache.MOST_BYTES
        if i == 8:
            assert cache.read("cpu", "0.o") is not None
            assert cache.read("cpu", "1.o") is None
    assert cache.read("cpu", "19.o") is not None


@pytest.mark.parametrize("place", ["cpu", "."])
def test_a_cache_that_others_can_write_to_is_refused(tmp_path, monkeypatch, place):
    monkeypatch.setattr(config, "cache_folder", tmp_path)
    cache.write("cpu", "a.o", b"code")
    assert cache.read("cpu", "a.o") == b"code"
    (tmp_path / place).chmod(0o777)
    with pytest.warns(RuntimeWarning, match=f"others can write to {tmp_path}/cpu, so no machine"):
        assert cache.read("cpu", "a.o") is None
    cache.write("cpu", "b.o", b"code")  # which has been said
    (tmp_path / place).chmod(0o700)
    assert cache.read("cpu", "b.o") is None
    assert cache.read("cpu", "a.o") == b"code"


def test_a_cache_in_a_sticky_folder_is_used(tmp_path, monkeypatch):
    tmp_path.chmod(0o1777)
    monkeypatch.setattr(config, "cache_folder", tmp_path)
    cache.write("cpu", "a.o", b"code")
    assert cache.read("cpu", "a.o") == b"code"


def test_a_cache_of_somebody_else_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "cache_folder", tmp_path)
    cache.write("cpu", "a.o", b"code")
    monkeypatch.setattr(os, "getuid", lambda: (tmp_path / "cpu").stat().st_uid + 1)
    with pytest.warns(RuntimeWarning, match="others can write"):
        assert cache.read("cpu", "a.o") is None


def test_a_kernel_is_compiled_once_however_many_threads_ask(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "cache_folder", tmp_path)
    name, text = unique_kernel(4321.5)
    compiled = []
    emit = jit._emit
    monkeypatch.setattr(jit, "_emit", lambda text, on: compiled.append(text) or emit(text, on))
    found: list[int] = []
    asking = [
        threading.Thread(target=lambda: found.append(jit.function(name, text))) for _ in range(8)
    ]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert len(compiled) == 1
    assert len(set(found)) == 1
    assert len(found) == 8
