"""The words that a graph reads: host scalars, the number of the run, and addresses that vary.

They lie in the GPU's memory and are brought up to date before each launch of the graph, in the
order of the stream, by a kernel that is given them by value. It also copies buffers that vary to
fixed places, where the graph wants them there.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from contraflow.devices.cuda.compiler import KernelText
from contraflow.devices.cuda.runs import LINE_BITS
from contraflow.devices.run_words import WORD, RunWords

if TYPE_CHECKING:
    from contraflow.devices.cuda.device import CudaDevice

# Words that one launch brings up to date, and buffers that it copies: arguments of 4 KiB at most,
# and fewer where these do, since the driver copies them at every launch.
WORDS, COPIES = 384, 32
FEW_WORDS, FEW_COPIES = 64, 4
THREADS = 256


def set_words_text(words: int, copies: int) -> str:
    """The text of the kernel for so many words and copies at most."""
    return f"""
typedef unsigned long long Word;
struct Given {{ Word count, value[{words}]; }};
struct Copies {{ Word from[{copies}], to[{copies}], bytes[{copies}]; }};
extern "C" __global__ void __launch_bounds__({THREADS}) set_words(
    Word* words, const __grid_constant__ Given given, const __grid_constant__ Copies copies) {{
    const long long at = blockIdx.x * {THREADS}LL + threadIdx.x, step = gridDim.x * {THREADS}LL;
    if (blockIdx.y == 0)
        for (long long i = at; i < given.count; i += step) words[i] = given.value[i];
    const Word from = copies.from[blockIdx.y], to = copies.to[blockIdx.y];
    const long long bytes = copies.bytes[blockIdx.y];
    const long long whole = (from | to) % 16 ? 0 : bytes / 16;
    for (long long i = at; i < whole; i += step) ((int4*)to)[i] = ((const int4*)from)[i];
    for (long long i = 16 * whole + at; i < bytes; i += step)
        ((char*)to)[i] = ((const char*)from)[i];
}}
"""


class StagedInput(NamedTuple):
    """A buffer that is copied to a fixed place before each run."""

    word: int  # the number of the word with its address, among those of the run
    place: int
    size: int  # in bytes


class _WordsPart:
    """One launch: some of the words, and some of the copies."""

    def __init__(
        self, device: CudaDevice, target: int, given: memoryview, before: int,
        copies: Sequence[StagedInput],
    ) -> None:  # fmt: skip
        """`given` are words of the run, `before` a number of others that come before them."""
        self.given, self.sent, self.copies = given, b"", list(enumerate(x.word for x in copies))
        count = before + len(given) // WORD
        few = count <= FEW_WORDS and len(copies) <= FEW_COPIES
        most_words, most_copies = (FEW_WORDS, FEW_COPIES) if few else (WORDS, COPIES)
        words = (ctypes.c_uint64 * (1 + most_words))(count)
        self.number = ctypes.c_uint64.from_buffer(words, WORD)
        start = WORD * (1 + before)
        self.values = memoryview(words).cast("B")[start : start + len(given)]
        self.sources = (ctypes.c_uint64 * (3 * most_copies))()  # behind them targets, then sizes
        for k, staged in enumerate(copies):
            self.sources[most_copies + k] = staged.place
            self.sources[2 * most_copies + k] = staged.size
        text = set_words_text(most_words, most_copies)
        (function,) = device.kernels.functions([KernelText("set_words", text, lambda: text)])
        arguments = (ctypes.c_uint64(target), words, self.sources)
        table = (ctypes.c_void_p * 3)(*map(ctypes.addressof, arguments))
        self._kept = arguments, table
        most = max((x.size for x in copies), default=1)
        grid = min(64, -(-most // (16 * THREADS))), max(1, len(copies)), 1
        extents = [ctypes.c_uint(n) for n in (*grid, THREADS, 1, 1, 0)]
        call, nothing = device.driver.quick("cuLaunchKernel"), ctypes.c_void_p(0)
        handle, place = ctypes.c_void_p(int(function)), ctypes.c_void_p(ctypes.addressof(table))
        self.launch: Callable[[], int] = partial(
            call, handle, *extents, device.stream_handle, place, nothing
        )


class GraphWords:
    """The words of one graph: the number of the run, behind it those of the program's runs."""

    def __init__(
        self, device: CudaDevice, words: RunWords, place: int, staged: Sequence[StagedInput]
    ) -> None:
        self._run = words.block
        given = memoryview(words.block).cast("B")
        launches = max(-(-(1 + len(words.block)) // WORDS), -(-len(staged) // COPIES))
        self._parts = []
        for i in range(launches):
            first, stop = max(WORDS * i - 1, 0), WORDS * (i + 1) - 1
            part = given[WORD * first : WORD * stop]
            copies = staged[COPIES * i : COPIES * (i + 1)]
            target = place + WORD * WORDS * i
            self._parts.append(_WordsPart(device, target, part, int(i == 0), copies))

    @staticmethod
    def size(words: RunWords) -> int:
        """The bytes of memory that they need."""
        return WORD * (1 + len(words.block))

    @staticmethod
    def word(number: int) -> int:
        """How far into that memory a word of the run lies; the number of the run is the first."""
        return WORD * (1 + number)

    def update(self, number: int) -> int:
        """Bring them up to date with the words of the run; the status."""
        run, is_needed = self._run, number != 0
        self._parts[0].number.value = number << LINE_BITS
        for part in self._parts:
            words = bytes(part.given)
            if is_needed or part.copies or words != part.sent:
                for k, word in part.copies:
                    part.sources[k] = run[word]
                part.values[:] = part.sent = words
                status = part.launch()
                if status:
                    return status
            is_needed = False
        return 0
