"""Every flag of the library. No other module reads an environment variable."""

from __future__ import annotations

import os
import sys


def _choice(name: str, default: str, allowed: tuple[str, ...]) -> str:
    value = os.environ.get(name, default)
    if value not in allowed:
        raise ValueError(f"{name}={value!r} is not one of {', '.join(allowed)}.")
    return value


def _positive(name: str) -> int | None:
    value = os.environ.get(name)
    if value is None:
        return None
    if not value.isdecimal() or int(value) < 1:
        raise ValueError(f"{name}={value!r} is not a positive whole number.")
    return int(value)


def _cache_folder() -> str:
    given = os.environ.get("CONTRAFLOW_CACHE_DIR")
    if given:
        return given
    if sys.platform == "darwin":
        return os.path.expanduser("~/Library/Caches/contraflow")
    base = os.environ.get("XDG_CACHE_HOME")
    return os.path.join(base or os.path.expanduser("~/.cache"), "contraflow")


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# How compiled functions run: "native" code, the tape "interpret"er, or "off" (plain eager).
compile_mode: str = _choice("CONTRAFLOW_COMPILE", "native", ("native", "interpret", "off"))
# Whether large eager ops run as generated code too, or everything eager runs over NumPy.
eager_kernels: bool = _choice("CONTRAFLOW_EAGER", "native", ("native", "numpy")) == "native"
# Bytes of one vector register in generated cpu code; None asks the processor.
vector_bytes: int | None = _positive("CONTRAFLOW_VECTOR_WIDTH")
cache_folder: str | os.PathLike[str] = _cache_folder()
# A part of the name of the adapter that the webgpu device uses, where there are several.
webgpu_adapter: str = os.environ.get("CONTRAFLOW_WEBGPU_ADAPTER", "")
num_threads: int = _positive("CONTRAFLOW_THREADS") or _usable_cores()


def set_num_threads(n: int) -> None:
    """Set how many threads share compiled cpu work; results do not depend on it.

    >>> import contraflow as cf
    >>> before = cf.get_num_threads()
    >>> cf.set_num_threads(1)
    >>> cf.get_num_threads()
    1
    >>> cf.set_num_threads(before)
    """
    global num_threads
    if not isinstance(n, int) or n < 1:
        raise ValueError(f"set_num_threads: {n!r} is not a positive whole number.")
    num_threads = n


def get_num_threads() -> int:
    """The number of threads that share compiled cpu work.

    >>> import contraflow as cf
    >>> cf.get_num_threads() >= 1
    True
    """
    return num_threads


# How products of float32 are computed where a device has more than one way: "highest" is float32
# throughout; "high" and "medium" allow factors of 10 bits (TF32).
float32_matmul_precision: str = "highest"
PRECISIONS = ("highest", "high", "medium")


def set_float32_matmul_precision(precision: str) -> None:
    """Set how exact products of float32 are on GPUs: "highest", or "high" and "medium" for TF32.

    >>> import contraflow as cf
    >>> cf.set_float32_matmul_precision("highest")
    >>> cf.get_float32_matmul_precision()
    'highest'
    """
    global float32_matmul_precision
    if precision not in PRECISIONS:
        raise ValueError(
            f"set_float32_matmul_precision: {precision!r} is not one of {', '.join(PRECISIONS)}."
        )
    float32_matmul_precision = precision


def get_float32_matmul_precision() -> str:
    """How exact products of float32 are on GPUs.

    >>> import contraflow as cf
    >>> cf.get_float32_matmul_precision()
    'highest'
    """
    return float32_matmul_precision


# Compiled functions depend on the environment variables that they read.
environment, read_environment = os.environ, os.getenv
