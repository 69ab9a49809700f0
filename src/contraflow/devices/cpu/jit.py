"""LLVM IR text to machine code, once per machine: object code is kept on disk (`cache.py`).

A text is written only where no object code is found. Several, or the parts of a long one
(`parts.py`), are compiled on several cores.
All of LLVM's work is done by threads that no interrupt reaches (`threads.py`): one that came
between a call of LLVM and the note of its result's owner would leave a lock taken, or free memory
twice.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import llvmlite
import llvmlite.binding as llvm
from llvmlite.binding import ffi

from contraflow import config, threads
from contraflow.devices import cache
from contraflow.devices.cpu.parts import divided

FORMAT = "contraflow-cpu-7"  # changes when the options of code generation do

# Levels of code generation for short texts and for those that are divided: loops of a short text
# are up to 6 % faster with level 2, products are not, and take an eighth longer to compile.
_SHORT, _LONG = 2, 1
_LENGTH_BYTES = 8  # of the length of an object code in an entry of the cache

_addresses: dict[tuple[str, str], int] = {}  # by name and identity


@functools.cache
def processor() -> str:
    """The processor's name, as LLVM spells it."""
    return str(threads.run(llvm.get_host_cpu_name))


@functools.cache
def _features() -> llvm.targets.FeatureMap:
    """The features that the processor has, and those that it lacks."""
    return threads.run(llvm.get_host_cpu_features)


def has_feature(name: str) -> bool:
    """Whether the processor has a feature, as LLVM spells it."""
    return bool(_features().get(name))


@functools.cache
def features() -> str:
    """The processor's features, as LLVM spells them."""
    found: str = _features().flatten()
    if "+avx512f" in found.split(","):
        # Without this LLVM halves 512-bit vectors on processors that once ran slower with them.
        found += ",-prefer-256-bit"
    return found


@functools.cache
def vector_bytes() -> int:
    """The size of a vector register."""
    if config.vector_bytes:
        return config.vector_bytes
    present = _features()
    if present.get("avx512f") and present.get("avx512bw") and present.get("avx512vl"):
        return 64
    return 32 if present.get("avx2") else 16


def describe_processor() -> str:
    """The processor's name, its vectors and those of its features that code here uses."""
    present = _features()
    wanted = ("avx2", "fma", "f16c", "avx512f", "avx512bf16", "neon", "sve")
    found = " ".join(name for name in wanted if present.get(name))
    return f"{processor()}, vectors of {vector_bytes()} bytes; {found or 'baseline'}"


@functools.cache
def _target() -> llvm.TargetMachine:
    """The target that machine code is generated for."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return _new_target(_SHORT)


def _new_target(level: int) -> llvm.TargetMachine:
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=processor(),
        features=features(),
        opt=level,
        reloc="default",
        codemodel="jitdefault",
        jit=True,
    )


class FunctionSource(NamedTuple):
    """Functions to compile: their names, an identity that decides the text, and its writer; and
    what is to be done with them once they are there, in the same thread."""

    names: Sequence[str]
    identity: str
    text: Callable[[], str]
    then: Callable[[], None] | None = None

    @property
    def keys(self) -> list[tuple[str, str]]:
        """The functions among all that there are."""
        return [(name, self.identity) for name in self.names]


def function(name: str, text: str) -> int:
    """The address of the function `name` that `text` defines."""
    return functions([FunctionSource([name], text, lambda: text)])[0]


def functions(sources: Sequence[FunctionSource]) -> list[int]:
    """The addresses of functions. Those that are new are linked together, which costs as much as
    linking one, so no two may have a name in common."""
    keys = [key for source in sources for key in source.keys]
    if not _addresses.keys() >= set(keys):
        threads.run(_add, sources)
    return [_addresses[key] for key in keys]


def _add(sources: Sequence[FunctionSource]) -> None:
    """Note the addresses of those functions that are new."""
    new = {s.identity: s for s in sources if not _addresses.keys() >= set(s.keys)}
    keys = [key for source in new.values() for key in source.keys]
    if keys:
        found = _link([name for name, _ in keys], _object_codes(list(new.values())))
        _addresses.update(zip(keys, found))
        for source in new.values():
            if source.then is not None:
                source.then()


def _link(names: Sequence[str], codes: Sequence[bytes]) -> list[int]:
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target())
    for code in codes:
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    addresses = [int(engine.get_function_address(name)) for name in names]
    assert all(addresses), f"a text does not define its function: {names}"
    # It owns the machine code, so it stays as long as the process. An engine that is disposed of at
    # the interpreter's end, which llvmlite prevents only if it was imported before that, crashes.
    engine.detach()
    return addresses


def _object_codes(sources: Sequence[FunctionSource]) -> list[bytes]:
    """The object code of functions, read or made."""
    names = {source.identity: _cache_name(source.identity) for source in sources}
    kept = dict(zip(names, cache.read_all("cpu", list(names.values()))))
    codes = {key: _unjoined(code) for key, code in kept.items() if code is not None}
    missing = [source for source in sources if source.identity not in codes]
    if missing:
        codes |= _compiled(missing)
        for source in missing:
            cache.write("cpu", names[source.identity], _joined(codes[source.identity]))
    return [code for source in sources for code in codes[source.identity]]


def _joined(codes: Sequence[bytes]) -> bytes:
    """Object codes as one entry of the cache, each behind its length."""
    return b"".join(len(code).to_bytes(_LENGTH_BYTES, "little") + code for code in codes)


def _unjoined(entry: bytes) -> list[bytes]:
    codes, start = [], 0
    while start < len(entry):
        start += _LENGTH_BYTES
        end = start + int.from_bytes(entry[start - _LENGTH_BYTES : start], "little")
        codes.append(entry[start:end])
        start = end
    return codes


def _compiled(sources: Sequence[FunctionSource]) -> dict[str, list[bytes]]:
    """The object codes of sources by their identities, made by several threads at once."""
    codes: dict[str, dict[int, bytes]] = {source.identity: {} for source in sources}
    # A free thread takes the next source, or the next part of one that another has written.
    waiting: deque[tuple[FunctionSource, int, str | None]] = deque((s, 0, None) for s in sources)
    # Products come first and have long texts, whose writing keeps other threads from theirs: so one
    # thread has something to compile before.
    waiting.rotate(1)
    long: set[str] = set()  # the identities of texts that are divided

    def compile_some(short: llvm.TargetMachine) -> None:
        targets = {False: short}
        while True:
            try:
                source, part, text = waiting.popleft()
            except IndexError:
                return
            if text is None:
                text, *others = divided(source.names[0], source.text())
                if others:
                    long.add(source.identity)
                waiting.extendleft((source, i, other) for i, other in enumerate(others, 1))
            is_long = source.identity in long
            if is_long not in targets:
                targets[is_long] = _new_target(_LONG)
            codes[source.identity][part] = _emit(text, targets[is_long])

    targets = [_target()]
    targets += [_new_target(_SHORT) for _ in range(min(config.num_threads, len(sources)) - 1)]
    with _without_idle_passes():
        threads.finish([threads.start(compile_some, target) for target in targets])
    return {key: [found[part] for part in sorted(found)] for key, found in codes.items()}


# Strength reduction of loops takes a third of the time and gains nothing for texts that are hoisted
# already. Moving addresses into loops (cgp) takes a tenth and gains
# nothing either. The others find nothing to do in texts like ours.
_DISABLED = (
    "lsr", "cgp", "constant-hoisting", "tail-duplicate", "early-taildup", "postra-machine-licm",
    "early-ifcvt",
)  # fmt: skip


@contextmanager
def _without_idle_passes() -> Iterator[None]:
    """LLVM leaves out passes that our texts do not need; others in this process may need them."""
    for name in _DISABLED:
        llvm.set_option("", f"-disable-{name}=true")
    try:
        yield
    finally:
        for name in _DISABLED:
            llvm.set_option("", f"-disable-{name}=false")


# llvmlite lets one thread at a time into LLVM. A thread with a context and a target of its own need
# not wait, so the one call that takes long is made through another handle of the same library.
_emit_to_memory = ctypes.CDLL(ffi.lib._name).LLVMPY_TargetMachineEmitToMemory
_emit_to_memory.argtypes = ffi.lib.LLVMPY_TargetMachineEmitToMemory.argtypes
_emit_to_memory.restype = ffi.lib.LLVMPY_TargetMachineEmitToMemory.restype


def _emit(text: str, target: llvm.TargetMachine) -> bytes:
    """Object code. Hardly any optimiser passes: the text is already vectorised and hoisted."""
    module = _parsed(text, target)
    with ffi.OutputString() as problem:
        buffer = _emit_to_memory(target, module, 1, problem)
        if not buffer:
            raise RuntimeError(str(problem))
    try:
        size = ffi.lib.LLVMPY_GetBufferSize(buffer)
        return ctypes.string_at(ffi.lib.LLVMPY_GetBufferStart(buffer), size)
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


def _parsed(text: str, target: llvm.TargetMachine) -> llvm.ModuleRef:
    """The module of a text."""
    module = llvm.parse_assembly(text, llvm.create_context())
    module.triple = target.triple
    module.data_layout = str(target.target_data)
    return module


def _cache_name(identity: str) -> str:
    parts = (FORMAT, llvmlite.__version__, processor(), features(), identity)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest() + ".o"
