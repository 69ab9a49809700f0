"""Impure functions, which a recording refuses: random numbers, clocks, files, input."""

from __future__ import annotations

import io
import random
import types
from typing import Any

import numpy as np

from contraflow.capture.rewriting.library import names

_REMEDY = "Call it outside, and pass what it gives as an argument."
_OUTSIDE = "Call it outside the compiled function."
_RANDOM = "Use contraflow's random functions, or draw outside and pass it as an argument."


_GENERATORS = names("random _random numpy.random._generator numpy.random.mtrand")

# By module: names, or None for all that the module has.
_CLOCKS = {
    "time": names(
        "time time_ns perf_counter perf_counter_ns monotonic monotonic_ns process_time "
        "process_time_ns thread_time localtime gmtime ctime strftime"
    ),
    "datetime": names("now today utcnow"),
}
_RANDOMS = {
    "secrets": None,
    "uuid": names("uuid1 uuid4"),
    "posix": names("urandom getrandom"),
    "nt": names("urandom"),
}
_FILES = {
    "posix": names("open read listdir scandir stat lstat access getcwd remove unlink"),
    "os": names("walk listdir popen system"),
    "genericpath": names("exists isfile isdir getmtime getsize"),
    "posixpath": names("exists isfile isdir"),
    "pathlib": names(
        "open read_text read_bytes write_text write_bytes exists is_file is_dir iterdir glob rglob "
        "stat mkdir unlink touch rename"
    ),
    "numpy": names("fromfile load loadtxt genfromtxt memmap save savez savetxt"),
    **dict.fromkeys(
        ["io", "_io", "socket", "_socket", "subprocess", "tempfile", "shutil", "glob"], None
    ),
}
_THREADS = {
    "queue": names("get get_nowait put put_nowait join task_done"),
    "threading": names(
        "acquire release wait wait_for notify notify_all notifyAll set clear start join cancel "
        "reset abort"
    ),
    "_thread": names("start_new_thread start_new interrupt_main"),
    "_queue": names("get get_nowait"),
    "concurrent": None,
    "multiprocessing": None,
}
_COUNTS = {
    "sys": names("getrefcount getallocatedblocks"),
    "gc": names("get_count get_objects get_referrers get_stats"),
    "_weakref": names("getweakrefcount getweakrefs"),
    "posix": names("getloadavg times"),
    "resource": names("getrusage"),
    "tracemalloc": None,
}
# Functions whose answer is a setting of the process, or the thread that asks: it is guarded.
_ANSWERING = {
    "sys": names(
        "getrecursionlimit getswitchinterval get_int_max_str_digits getdefaultencoding "
        "is_finalizing"
    ),
    "threading": names("current_thread currentThread main_thread active_count activeCount"),
    "_thread": names("get_ident get_native_id"),
    "posix": names("getpid getppid getuid geteuid getgid cpu_count sched_getaffinity"),
    "os": names("cpu_count process_cpu_count"),
    "gc": names("get_threshold get_debug"),
    "pkgutil": names("resolve_name"),
    "locale": names("getlocale localeconv getpreferredencoding"),
    "numpy": names("geterr get_printoptions getbufsize"),
    "contraflow.tensors.printing": names("get_printoptions"),  # others are part of a key
}
_SETTINGS = {
    "sys": names("setrecursionlimit setswitchinterval settrace setprofile set_int_max_str_digits"),
    "gc": names("enable disable isenabled set_threshold set_debug freeze unfreeze"),
    "logging": names(
        "setLevel disable addHandler removeHandler addFilter removeFilter basicConfig "
        "captureWarnings setLoggerClass addLevelName"
    ),
    "locale": names("setlocale"),
    "signal": None,
    "atexit": None,
    "decimal": names("setcontext"),
    "numpy": names("seterr seterrcall set_printoptions setbufsize"),
    "contraflow.config": names("set_num_threads"),
    "contraflow.tensors.printing": names("set_printoptions"),
}
_GIVING_NOTHING = names(
    "put put_nowait task_done acquire wait wait_for release notify notify_all notifyAll set clear "
    "start join cancel reset abort start_new_thread start_new interrupt_main remove unlink mkdir "
    "touch rename write_text write_bytes save savez savetxt"
)
# The generators behind the functions of `random` and `numpy.random`.
_SHARED = (random.random.__self__, np.random.random.__self__)  # type: ignore[attr-defined]
_BUFFERS = (io.StringIO, io.BytesIO)
_QUIET = names("write flush isatty fileno")  # what print does happens once


def why_impure(
    f: Any, args: tuple[Any, ...], kwargs: dict[str, Any], own: list[Any]
) -> tuple[str, str] | None:
    """Why a call cannot be recorded, and the remedy; None if it can.

    `own` are what the function has made itself: generators with a seed, files in memory.
    """
    kind = type(f)
    name = getattr(f, "__name__", "") if kind is not types.ModuleType else ""
    owner: Any = getattr(f, "__self__", None)
    if issubclass(type(owner), types.ModuleType):
        module: Any = owner.__name__
    elif owner is not None and kind in (types.BuiltinFunctionType, types.MethodType):
        holder = owner if issubclass(type(owner), type) else type(owner)
        module = holder.__module__
    else:
        module = getattr(f, "__module__", None)
        holder = f
    if issubclass(type(owner), types.ModuleType) and module.startswith("numpy"):
        module = "numpy"
    if not isinstance(module, str) or any(owner is x for x in own):
        return None
    if kind is type and f in _BUFFERS:
        return None
    if module == "unittest.mock":
        return f"a {kind.__name__} counts its calls, which a replay would not", _OUTSIDE
    if module == "builtins":
        return _of_python(name)
    if module in _GENERATORS or module.startswith("numpy.random"):
        return _of_generator(f, name, owner, args, kwargs, own)
    if module in _CLOCKS and name in _CLOCKS[module]:
        if (name in ("localtime", "gmtime", "ctime") and args) or (name == "strftime" and args[1:]):
            return None
        return f"{module}.{name} reads a clock, which a replay would not", _REMEDY
    for table, what, remedy in (
        (_RANDOMS, "draws a random number, and a replay would give the same again", _RANDOM),
        (
            _SETTINGS,
            "is a setting outside of the function, which no replay sets",
            _OUTSIDE,
        ),
        (_COUNTS, "counts what the process has, and a replay would give the same again", _REMEDY),
        (_FILES, "uses a file or the system, which a replay would not", _REMEDY),
        (
            _THREADS,
            "waits for other threads or tells them something, which a replay would not",
            _REMEDY,
        ),
    ):
        package = module if module in table else module.partition(".")[0]
        if package in table:
            known = table[package]
            if (known is None or name in known) and name not in _QUIET:
                known_as = "os" if package in ("posix", "nt") else package.lstrip("_")
                if name in _GIVING_NOTHING:
                    remedy = _OUTSIDE
                return f"{known_as}.{_name_of(f, owner)} {what}", remedy
    return None


def is_answering(f: Any) -> bool:
    """Whether a function tells a setting of the process, or the thread that asks."""
    owner: Any = getattr(f, "__self__", None)
    of_module = issubclass(type(owner), types.ModuleType)
    module = owner.__name__ if of_module else getattr(f, "__module__", None)
    if not isinstance(module, str):
        return False
    known = _ANSWERING.get("numpy" if module.startswith("numpy") else module, ())
    return getattr(f, "__name__", None) in known


def _of_python(name: str) -> tuple[str, str] | None:
    if name == "open":
        return "open uses a file, which a replay would not", _REMEDY
    if name == "input":
        return "input waits for a person, which a replay would not", _REMEDY
    return None


def _of_generator(
    f: Any, name: str, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any], own: list[Any]
) -> tuple[str, str] | None:
    making = isinstance(f, type) or name == "default_rng"
    if making:
        seeded = bool(args or kwargs) and None not in (*args, *kwargs.values())
        if seeded:
            return None
        return f"{name}() is seeded by chance, and a replay would repeat it", _RANDOM
    if owner is None and name == "seed":  # a function of NumPy's
        return "numpy.random.seed sets the random state, which a replay would not", _RANDOM
    if issubclass(type(owner), types.ModuleType) or owner is None:
        return None
    if name in ("__init__", "__new__", "spawn", "bit_generator"):
        return None
    place = "numpy.random" if type(owner).__module__.startswith("numpy") else "random"
    known_as = name if owner in _SHARED else _name_of(f, owner)
    return (
        f"{place}.{known_as} draws a random number, and a replay would give the same again",
        _RANDOM,
    )


def _name_of(f: Any, owner: Any) -> str:
    """The name of a function, and of the class of a method's object before it."""
    if owner is None or issubclass(type(owner), (type, types.ModuleType)):
        return str(f.__name__)
    return f"{type(owner).__name__}.{f.__name__}"


def keeps_to_itself(x: Any) -> bool:
    """Whether all that comes of something follows from what the function that made it has done:
    a generator of random numbers with a seed, a file in memory."""
    return type(x).__module__ in _GENERATORS or type(x) in _BUFFERS
