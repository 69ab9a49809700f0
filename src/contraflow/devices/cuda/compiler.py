"""Texts of kernels to machine code by NVRTC: kept on disk (`cache.py`), and loaded once.

A text is written only where no machine code is found. NVRTC works without Python's lock, so
several threads compile several texts.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from contraflow import threads
from contraflow.compiler.kernel import Kernel
from contraflow.devices import cache
from contraflow.devices.cuda.driver import INSTALL, Driver, bindings
from contraflow.errors import DeviceError, OutOfMemoryError
from contraflow.render.clike import cuda

FORMAT = "contraflow-cuda-1"  # changes when the options of code generation do
THREADS = min(16, os.cpu_count() or 1)


class RejectedKernel(DeviceError):
    """NVRTC, or the driver, does not take a kernel."""

    def __init__(self, text: str, identity: str) -> None:
        super().__init__(text)
        self.identity = identity


class KernelText(NamedTuple):
    """A function to compile: its name, an identity that decides the text, and its writer."""

    name: str
    identity: str
    write: Callable[[], str]


def text_of(kernel: Kernel, variant: cuda.TextVariant) -> KernelText:
    """The text of a kernel."""
    identity = cuda.text_identity(kernel, variant)
    return KernelText(kernel.name, identity, lambda: cuda.render(kernel, variant))


def compile_text(text: str, name: str, architecture: str) -> bytes:
    """Machine code. A text that the compiler rejects is an error of this library."""
    nvrtc = bindings("nvrtc")
    _, program = nvrtc.nvrtcCreateProgram(text.encode(), name.encode(), 0, [], [])
    try:
        options = [x.encode() for x in (f"--gpu-architecture={architecture}", *cuda.OPTIONS)]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        if int(status):
            log = bytes(nvrtc.nvrtcGetProgramLogSize(program)[1])
            nvrtc.nvrtcGetProgramLog(program, log)
            raise DeviceError(f"cuda: NVRTC rejects {name}:\n{log.decode(errors='replace')}")
        code = bytes(nvrtc.nvrtcGetCUBINSize(program)[1])
        nvrtc.nvrtcGetCUBIN(program, code)
        return code
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _version() -> str:
    """The version of the compiler, which the names of cached files depend on."""
    try:
        _, major, minor = bindings("nvrtc").nvrtcVersion()
    except RuntimeError as error:
        raise DeviceError(f"cuda: NVRTC is not installed ({error}). Run {INSTALL}.") from error
    return f"{major}.{minor}"


class Kernels:
    """The functions that are loaded on one GPU."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._architecture = driver.architecture
        self._functions: dict[str, Any] = {}  # by identity
        self._compiler = ""

    def functions(self, texts: Sequence[KernelText]) -> list[Any]:
        """Functions, compiled and loaded where they are new."""
        if not self._functions.keys() >= {text.identity for text in texts}:
            threads.run(self._add, texts)
        return [self._functions[text.identity] for text in texts]

    def _add(self, texts: Sequence[KernelText]) -> None:
        new = {text.identity: text for text in texts if text.identity not in self._functions}
        codes = self._codes(list(new.values()))
        for identity, text in new.items():
            try:
                module = self._driver("cuModuleLoadData", codes[identity])
                function = self._driver("cuModuleGetFunction", module, text.name.encode())
            except OutOfMemoryError:
                raise
            except DeviceError as error:
                raise RejectedKernel(f"{text.name}: {error}", identity) from error
            self._functions[identity] = function

    def _codes(self, texts: Sequence[KernelText]) -> dict[str, bytes]:
        """Machine code by identity, read or made."""
        self._compiler = self._compiler or _version()
        names = {text.identity: self._cache_name(text.identity) for text in texts}
        kept = zip(names, cache.read_all("cuda", list(names.values())))
        codes = {identity: code for identity, code in kept if code is not None}
        missing = [text for text in texts if text.identity not in codes]
        made = threads.together([partial(self._compiled, text) for text in missing], THREADS)
        for text, code in zip(missing, made):
            codes[text.identity] = code
            cache.write("cuda", names[text.identity], code)
        return codes

    def _compiled(self, text: KernelText) -> bytes:
        try:
            return compile_text(text.write(), text.name, self._architecture)
        except DeviceError as error:
            raise RejectedKernel(str(error), text.identity) from error

    def _cache_name(self, identity: str) -> str:
        parts = (FORMAT, self._compiler, self._architecture, *cuda.OPTIONS, identity)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest() + ".cubin"
