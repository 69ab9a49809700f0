"""LLVM IR text to machine code, once per machine: object code is kept on disk (`cache.py`).

A text is written only where no object code is found.
"""

from __future__ import annotations

import functools
import hashlib
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

import llvmlite
import llvmlite.binding as llvm

from contraflow import config
from contraflow.devices.cpu import cache

FORMAT = "contraflow-cpu-2"  # changes when the options of code generation do

_lock = threading.RLock()
_addresses: dict[tuple[str, str], int] = {}  # by name and identity
_engines: list[llvm.ExecutionEngine] = []  # they own the machine code, so they are never dropped


@functools.cache
def features() -> str:
    """The processor's features, as LLVM spells them."""
    found: str = llvm.get_host_cpu_features().flatten()
    if "+avx512f" in found.split(","):
        # Without this LLVM halves 512-bit vectors on processors that once ran slower with them.
        found += ",-prefer-256-bit"
    return found


@functools.cache
def vector_bytes() -> int:
    """The size of a vector register."""
    if config.vector_bytes:
        return config.vector_bytes
    present = llvm.get_host_cpu_features()
    if present.get("avx512f") and present.get("avx512bw") and present.get("avx512vl"):
        return 64
    return 32 if present.get("avx2") else 16


def describe_processor() -> str:
    """The processor's name, its vectors and those of its features that code here uses."""
    present = llvm.get_host_cpu_features()
    wanted = ("avx2", "fma", "f16c", "avx512f", "avx512bf16", "neon", "sve")
    found = " ".join(name for name in wanted if present.get(name))
    return f"{llvm.get_host_cpu_name()}, vectors of {vector_bytes()} bytes; {found or 'baseline'}"


@functools.cache
def _target() -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=features(),
        opt=3,
        reloc="default",
        codemodel="jitdefault",
        jit=True,
    )


class Source(NamedTuple):
    """A function to compile: its name, what decides about its text, and who writes the text."""

    name: str
    identity: str
    text: Callable[[], str]


def function(name: str, text: str) -> int:
    """The address of the function `name` that `text` defines."""
    return functions([Source(name, text, lambda: text)])[0]


def functions(sources: Sequence[Source]) -> list[int]:
    """The addresses of functions. Those that are new are linked together, which costs as much as
    linking one, so no two may have a name in common."""
    keys = [(source.name, source.identity) for source in sources]
    with _lock:
        new = {key: s for key, s in zip(keys, sources) if key not in _addresses}
        if new:
            names = [name for name, _ in new]
            found = _link(names, [_object_code(source) for source in new.values()])
            _addresses.update(zip(new, found))
        return [_addresses[key] for key in keys]


def _link(names: Sequence[str], codes: Sequence[bytes]) -> list[int]:
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target())
    for code in codes:
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    addresses = [int(engine.get_function_address(name)) for name in names]
    assert all(addresses), f"a text does not define its function: {names}"
    return addresses


def _object_code(source: Source) -> bytes:
    name = _cache_name(source.identity)
    kept = cache.read(name)
    if kept is not None:
        return kept
    code = _emit(source.text())
    cache.write(name, code)
    return code


def _emit(text: str) -> bytes:
    module = llvm.parse_assembly(text)
    module.triple = _target().triple
    module.data_layout = str(_target().target_data)
    # No optimiser passes: the text is already vectorised and hoisted. Strength reduction of loops
    # takes a third of the time that is left and gains nothing; others in this process may need it.
    llvm.set_option("", "-disable-lsr=true")
    try:
        return bytes(_target().emit_object(module))
    finally:
        llvm.set_option("", "-disable-lsr=false")


def _cache_name(identity: str) -> str:
    parts = (FORMAT, llvmlite.__version__, llvm.get_host_cpu_name(), features(), identity)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest() + ".o"
