"""The sizes of blocks that suit the caches of this processor.

They decide how many rows and columns are taken together, never how many steps of k: results do not
depend on them. They are read from the system once, not measured.
"""

from __future__ import annotations

import functools
from pathlib import Path

from contraflow.render.llvm.identity import STANDARD_SIZES, BlockSizes

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")  # Linux; other systems have the standard sizes
# Of second-level caches; a strip is on the stack of a thread.
SMALLEST, LARGEST = 1 << 18, 1 << 21
_UNITS = {"K": 1 << 10, "M": 1 << 20}
_LIKELY = (2, 1, 3, 0, 4, 5)  # the numbers of caches, by where the second level is found


@functools.cache
def block_sizes() -> BlockSizes:
    """The sizes of blocks on this machine."""
    return sizes_for(second_level(CACHES))


def second_level(caches: Path) -> int | None:
    """The bytes of the second-level cache of a core, None where the system does not say."""
    for index in _LIKELY:
        try:
            level, kind, size = (
                _line(f"{caches}/index{index}/{name}") for name in ("level", "type", "size")
            )
            if level == "2" and kind in ("Unified", "Data"):
                unit = _UNITS.get(size[-1:], 1)
                return int(size[:-1] if unit > 1 else size) * unit
        except (OSError, ValueError):
            continue
    return None


def _line(file: str) -> str:
    with open(file, "rb", buffering=0) as opened:  # every first call of a process reads these
        return opened.read().decode().strip()


def sizes_for(second: int | None) -> BlockSizes:
    """The sizes for a second-level cache: a power of two, so that few texts are written.

    >>> sizes_for(1 << 20) == STANDARD_SIZES, sizes_for(2 << 20).high_strip
    (True, 1048576)
    """
    if not second or second < 0:
        return STANDARD_SIZES
    size = 1 << min(max(second, SMALLEST), LARGEST).bit_length() - 1
    return BlockSizes(size // 4, size // 2, size // 2)
