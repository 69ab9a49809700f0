"""The tiles of AMX: whether the processor has them, and the system lets this process use them.

Linux gives a process the tiles' state, 8 KiB for each thread that uses them, only when it asks: the
frame of a signal grows by as much, and an alternative stack that a thread has for signals may be
too small for it. The permission is that of all threads, and of forked children.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import sys

from contraflow.devices.cpu import jit

_ARCH_PRCTL = 158  # the number of the system call on x86-64
_REQUEST_PERMISSION = 0x1023  # ARCH_REQ_XCOMP_PERM
_TILE_DATA = 18  # the number of that part of a thread's state


@functools.cache
def permitted() -> bool:
    """Whether this process may multiply tiles of bfloat16; asks the system once."""
    if not (jit.has_feature("amx-tile") and jit.has_feature("amx-bf16")):
        return False
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    system_call = ctypes.CDLL(None).syscall
    return bool(system_call(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA) == 0)
