"""Code objects taken apart into instructions and put together again, for CPython 3.11 to 3.13.

`take_apart` gives the instructions of a code object; `put_together` makes a code object in which
other instructions stand in the place of each of them. Jumps, the exception table and the table of
locations follow: what stands in the place of an instruction has its line and columns, is protected
by the same handlers, and is where jumps to that instruction go.

Offsets are counted in code units of two bytes. The meaning of instructions is left to rewrite.py.
"""

from __future__ import annotations

import dis
import opcode
import re
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from types import CodeType
from typing import Any, NamedTuple

VERSION = sys.version_info[:2]
KNOWN = sys.implementation.name == "cpython" and (3, 11) <= VERSION <= (3, 13)


def number_of(name: str) -> int:
    """The number of an instruction, which came and went or was renamed; -1 if there is none."""
    return opcode.opmap.get(name, -1)


EXTENDED_ARG, _LOAD_GLOBAL = number_of("EXTENDED_ARG"), number_of("LOAD_GLOBAL")
JUMPS = frozenset(opcode.hasjrel)
_BACKWARD = {number for name, number in opcode.opmap.items() if "JUMP_BACKWARD" in name}


def _count_caches() -> list[int]:
    """How many code units of inline cache follow each instruction."""
    counts: Any = getattr(opcode, "_inline_cache_entries", ())
    if isinstance(counts, dict):  # by name, from 3.13 on
        counts = [counts.get(name, 0) for name in opcode.opname]
    return [*counts, *[0] * (256 - len(counts))]


CACHES = _count_caches()


class Instructions(NamedTuple):
    """The instructions of a code object, by number, with their prefixes and inline caches."""

    opcodes: list[int]
    arguments: list[int]  # of a jump, the number of the instruction that it goes to
    encoded: list[bytes]  # as they stand in the code; empty for jumps, which are written anew
    sizes: list[int]  # in code units


def take_apart(code: CodeType) -> Instructions:
    """The instructions of a code object."""
    raw = code.co_code
    caches, jumps, backward = CACHES, JUMPS, _BACKWARD
    opcodes: list[int] = []
    arguments: list[int] = []
    encoded: list[bytes] = []
    sizes: list[int] = []
    going: list[tuple[int, int]] = []  # numbers of jumps, and the offsets that they go to
    start = at = argument = 0
    while at < len(raw):
        number = raw[at]
        argument = argument << 8 | raw[at + 1]
        at += 2
        if number == EXTENDED_ARG:
            continue
        at += 2 * caches[number]
        if number in jumps:
            distance = -argument if number in backward else argument
            going.append((len(opcodes), (at >> 1) + distance))
            encoded.append(b"")
        else:
            encoded.append(raw[start:at])
        opcodes.append(number)
        arguments.append(argument)
        sizes.append((at - start) >> 1)
        start, argument = at, 0
    if going:
        numbers = _numbers(sizes)
        for jump, target in going:
            arguments[jump] = numbers[target]
    return Instructions(opcodes, arguments, encoded, sizes)


def _numbers(sizes: Sequence[int]) -> dict[int, int]:
    """The number of the instruction that begins at an offset."""
    return {offset: number for number, offset in enumerate(accumulate(sizes, initial=0))}


@lru_cache(maxsize=1024)
def globals_of(code: CodeType) -> frozenset[str]:
    """The global variables that code reads, also where its instructions are not known."""
    if not KNOWN:
        read = (i for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
        return frozenset(str(i.argval) for i in read)
    found, high = set(), 0
    for op, low in zip(code.co_code[::2], code.co_code[1::2]):
        argument = high | low
        high = argument << 8 if op == EXTENDED_ARG else 0
        if op == _LOAD_GLOBAL:
            found.add(code.co_names[argument >> 1])
    return frozenset(found)


def imports_of(code: CodeType) -> list[str]:
    """The names of the modules that code imports."""
    if dis.opmap["IMPORT_NAME"] not in code.co_code[::2]:
        return []
    found = (i for i in dis.get_instructions(code) if i.opname == "IMPORT_NAME")
    return [str(i.argval) for i in found]


class Protection(NamedTuple):
    """Instructions whose exceptions a handler takes."""

    first: int  # the number of the first of them
    handler: int  # the number of the first instruction of the handler
    depth: int  # of the stack as the handler finds it, with the exception


def protections(code: CodeType, instructions: Instructions) -> list[Protection]:
    """The exception table of a code object, as far as it says where handlers begin."""
    if not code.co_exceptiontable:
        return []
    numbers = _numbers(instructions.sizes)
    varints = _read_varints(code.co_exceptiontable)
    return [
        Protection(numbers[start], numbers[target], (depth >> 1) + (depth & 1) + 1)
        for start, _, target, depth in zip(varints, varints, varints, varints)
    ]


@lru_cache(maxsize=4096)
def encode(number: int, argument: int = 0) -> bytes:
    """An instruction as bytes, with the prefixes that its argument needs and empty caches."""
    prefixes = [
        byte
        for shift in (24, 16, 8)
        if argument >> shift
        for byte in (EXTENDED_ARG, argument >> shift & 0xFF)
    ]
    return bytes((*prefixes, number & 0xFF, argument & 0xFF)) + bytes(2 * CACHES[number])


def put_together(
    code: CodeType,
    instructions: Instructions,
    parts: Sequence[bytes],
    constants: tuple[Any, ...],
    stack: int,
) -> CodeType:
    """The code object with `parts[i]` in the place of its instruction i.

    Jumps stay: the part of a jump is inserted before it. `stack` is how much deeper the stack
    becomes.
    """
    opcodes, targets, _, _ = instructions
    whole = list(parts)
    sizes = [len(part) >> 1 for part in parts]
    # Jumps are as short as can be first. One that needs a prefix makes others longer, so sizes
    # grow until all of them fit.
    room = {i: 1 + CACHES[number] for i, number in enumerate(opcodes) if number in JUMPS}
    for i, size in room.items():
        sizes[i] += size
    while True:
        fits = True
        starts = list(accumulate(sizes, initial=0))
        for i, size in room.items():
            jump = encode(opcodes[i], abs(starts[targets[i]] - starts[i + 1]))
            longer = (len(jump) >> 1) - size
            if longer > 0:
                fits = False
                room[i] += longer
                sizes[i] += longer
            # A jump whose target came nearer may have more room than it needs.
            whole[i] = parts[i] + bytes((EXTENDED_ARG, 0)) * -longer + jump
        if fits:
            break
    moved = _follow(instructions.sizes, starts)
    return code.replace(
        co_code=b"".join(whole),
        co_consts=constants,
        co_stacksize=code.co_stacksize + stack,
        co_linetable=_stretch(code.co_linetable, moved),
        co_exceptiontable=_shift(code.co_exceptiontable, moved),
    )


def _follow(sizes: Sequence[int], starts: Sequence[int]) -> list[int]:
    """The new offset of each old one; within an instruction, where the next one begins."""
    moved: list[int] = []
    for size, start, after in zip(sizes, starts, starts[1:]):
        moved.append(start)
        if size > 1:
            moved += [after] * (size - 1)
    moved.append(starts[-1])
    return moved


# The table of locations (CPython's Objects/locations.md). An entry is a byte with its highest bit
# set, a kind in four bits and a length in three, and then what says line and columns.
_ENTRY = re.compile(rb"[\x80-\xff][\x00-\x7f]*")
_LONGEST = 8
_ONE_LINE, _NO_COLUMNS, _LONG = 10, 13, 14


def _stretch(table: bytes, moved: Sequence[int]) -> bytes:
    """A table of locations in which each entry covers what became of the units it covered."""
    out = bytearray()
    old = new = 0
    for entry in _ENTRY.findall(table):
        length = (entry[0] & 7) + 1
        old += length
        wanted = moved[old] - new
        new = moved[old]
        if wanted == length:
            out += entry
            continue
        # None are left where an instruction longer than an entry was replaced by a shorter one:
        # the entry that is dropped said the same as the one before it.
        while wanted > 0:
            length = min(wanted, _LONGEST)
            out.append(entry[0] & 0xF8 | length - 1)
            out += entry[1:]
            wanted -= length
            entry = _again(entry)
    return bytes(out)


def _again(entry: bytes) -> bytes:
    """The entry that repeats the location of this one: lines are relative to the entry before."""
    kind = entry[0] >> 3 & 15
    if kind in (_ONE_LINE + 1, _ONE_LINE + 2):
        return bytes((0x80 | _ONE_LINE << 3,)) + entry[1:]
    if kind in (_NO_COLUMNS, _LONG):  # the line comes first, a varint: 64 says that it goes on
        end = 1
        while entry[end] & 64:
            end += 1
        return entry[:1] + b"\0" + entry[end + 1 :]
    return entry


# The exception table: entries of four varints, six bits a byte, the highest ones first. 64 says
# that a varint goes on, 128 that an entry begins.


def _shift(table: bytes, moved: Sequence[int]) -> bytes:
    """An exception table that protects what became of the units that it protected."""
    out = bytearray()
    numbers = _read_varints(table)
    for start, length, target, depth in zip(numbers, numbers, numbers, numbers):
        first = len(out)
        _write_varint(out, moved[start])
        _write_varint(out, moved[start + length] - moved[start])
        _write_varint(out, moved[target])
        _write_varint(out, depth)
        out[first] |= 128
    return bytes(out)


def _read_varints(table: bytes) -> Iterator[int]:
    value = 0
    for byte in table:
        value = value << 6 | byte & 63
        if not byte & 64:
            yield value
            value = 0


def _write_varint(out: bytearray, value: int) -> None:
    for shift in (24, 18, 12, 6):
        if value >> shift:
            out.append(value >> shift & 63 | 64)
    out.append(value & 63)
