"""Settings of PyTorch's that programs make before they begin, such as being deterministic.

Results here repeat bit for bit, whatever is set. The settings are kept, so that programs read what
they wrote.
"""

from __future__ import annotations

from typing import Any

from contraflow.dtypes import TENSOR_NAMES, DType, set_default_dtype

_deterministic, _warn_only = False, False


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask for results that repeat bit for bit. They always do.

    >>> import contraflow as cf
    >>> cf.use_deterministic_algorithms(True)
    >>> cf.are_deterministic_algorithms_enabled()
    True
    >>> cf.use_deterministic_algorithms(False)
    """
    global _deterministic, _warn_only
    _deterministic, _warn_only = bool(mode), bool(warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """The value that `use_deterministic_algorithms` was last given. Results repeat in any case.

    >>> import contraflow as cf
    >>> cf.are_deterministic_algorithms_enabled()
    False
    """
    return _deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether `use_deterministic_algorithms` was asked to warn only. Nothing here needs to.

    >>> import contraflow as cf
    >>> cf.is_deterministic_algorithms_warn_only_enabled()
    False
    """
    return _warn_only


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """`use_deterministic_algorithms` by a number or a name: "default", "warn", "error".

    >>> import contraflow as cf
    >>> cf.set_deterministic_debug_mode("warn")
    >>> cf.get_deterministic_debug_mode()
    1
    >>> cf.set_deterministic_debug_mode("default")
    """
    modes = {"default": 0, "warn": 1, "error": 2}
    mode = modes.get(debug_mode) if isinstance(debug_mode, str) else debug_mode
    if mode not in (0, 1, 2):
        raise ValueError(f"set_deterministic_debug_mode: {debug_mode!r} is not one of {modes}.")
    use_deterministic_algorithms(mode != 0, warn_only=mode == 1)


def get_deterministic_debug_mode() -> int:
    """0, 1 or 2: what `set_deterministic_debug_mode` was given.

    >>> import contraflow as cf
    >>> cf.get_deterministic_debug_mode()
    0
    """
    return 0 if not _deterministic else 1 if _warn_only else 2


def set_flush_denormal(mode: bool) -> bool:
    """Ask for small numbers to be flushed to zero: False says that this is not done.

    >>> import contraflow as cf
    >>> cf.set_flush_denormal(True)
    False
    """
    return False


_interop_threads = 1


def set_num_interop_threads(num_threads: int) -> None:
    """Say how many ops may run beside each other. It has no effect: see `set_num_threads`.

    >>> import contraflow as cf
    >>> cf.set_num_interop_threads(1)
    >>> cf.get_num_interop_threads()
    1
    """
    global _interop_threads
    if not isinstance(num_threads, int) or num_threads < 1:
        raise ValueError(f"set_num_interop_threads: {num_threads!r} is not a positive number.")
    _interop_threads = num_threads


def get_num_interop_threads() -> int:
    """The number that `set_num_interop_threads` was last given.

    >>> import contraflow as cf
    >>> cf.get_num_interop_threads() >= 1
    True
    """
    return _interop_threads


_warns_always = False


def set_warn_always(b: bool) -> None:
    """Ask for warnings each time. Python's `warnings.simplefilter` decides about that here.

    >>> import contraflow as cf
    >>> cf.set_warn_always(False)
    >>> cf.is_warn_always_enabled()
    False
    """
    global _warns_always
    _warns_always = bool(b)


def is_warn_always_enabled() -> bool:
    """The value that `set_warn_always` was last given.

    >>> import contraflow as cf
    >>> cf.is_warn_always_enabled()
    False
    """
    return _warns_always


def set_default_tensor_type(t: Any) -> None:
    """Set the default dtype by a type of tensors or its name. PyTorch deprecates it.

    >>> set_default_tensor_type("torch.FloatTensor")
    """
    named = TENSOR_NAMES.get(str(t).split(".")[-1].removesuffix("Tensor"))
    dtype = getattr(t, "dtype", None) if named is None else named
    if not isinstance(dtype, DType):
        raise TypeError(
            f"set_default_tensor_type: {t!r} is not a type of tensors. Use set_default_dtype."
        )
    set_default_dtype(dtype)
