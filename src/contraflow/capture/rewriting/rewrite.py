"""Code objects in which every read, store and call of Python state goes through hooks.

`observed(code)` is a code object that does what `code` does, at the same lines and columns, and
asks the hooks that were installed wherever `code` looks at something that outlives a call: globals,
closure cells, attributes, items, whole containers, truth values, operators, imports and calls.
The meaning of the hooks is left to the observer, taking code apart to bytecode.py.

Two forms carry everything. `[hook, a, b] CALL 1` is `hook(a, b)` in every version of CPython: the
hook lies where a method would, its first argument where `self` would. So a hook is pushed, swapped
to below its operands, and called. And the callable of a call is brought to the top of the stack
right before the call, goes through its hook and is put back: no frame comes between caller and
callee, so that `super()`, `locals()`, tracebacks and the depth of recursions stay as they are.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from opcode import opmap, stack_effect
from types import CodeType
from typing import Any, NamedTuple

from contraflow import thresholds
from contraflow.capture.rewriting.bytecode import (
    JUMPS,
    KNOWN,
    VERSION,
    Instructions,
    Protection,
    encode,
    number_of,
    protections,
    put_together,
    take_apart,
)

__all__ = ["KNOWN", "ObserverHooks", "Rewriter", "install", "is_observed", "observed", "original"]


class ObserverHooks(NamedTuple):
    """The hooks that observed code calls, always with positional arguments.

    A hook that is given a value and returns one stands between the instruction that made the value
    and the one that uses it. The frame of the observed code is `sys._getframe(1)`.
    """

    # Reads of variables: (value, where it was), after the read. Only free variables have a cell
    # that outlives the call; `load_name` is for class bodies and the code of exec and eval.
    load_global: Callable[[Any, str], Any]
    load_name: Callable[[Any, str], Any]
    load_cell: Callable[[Any, Any], Any]
    # Reads of parts, in the place of the read: the hooks do it. `load_method` is a load_attribute
    # whose result is called; `load_super(super, class, object, name, is_method)` is the attribute
    # of `super()`, from 3.12 on, and `load_slice(container, start, stop)` too.
    load_attribute: Callable[[Any, str], Any]
    load_method: Callable[[Any, str], Any]
    load_super: Callable[[Any, Any, Any, str, bool], Any]
    load_item: Callable[[Any, Any], Any]
    load_slice: Callable[[Any, Any, Any], Any]
    # A value that is about to be taken apart by iteration (loops, unpacking, `*x`, `await`), to be
    # looked into otherwise (`**x`, formatting, patterns, unary operators, `with`), to be measured
    # by a pattern, or to be asked for its truth.
    iterate: Callable[[Any], Any]
    look: Callable[[Any], Any]
    length: Callable[[Any], Any]
    truth: Callable[[Any], Any]
    match_class: Callable[[Any], Any]  # a class whose `__match_args__` a pattern is about to read
    classes: Callable[[Any], Any]  # a class or a tuple of them, that `except` is about to compare
    # The operands of an operator, before it runs: (left, right, number of a BINARY_OP or -1 for a
    # comparison), (item, container) and (left, right).
    operate: Callable[[Any, Any, int], None]
    contain: Callable[[Any, Any], None]
    compare_identity: Callable[[Any, Any], None]
    # Stores and deletions, in the place of the instruction: the hooks do them.
    store_attribute: Callable[[Any, Any, str], None]  # object, value, name
    delete_attribute: Callable[[Any, str], None]
    store_item: Callable[[Any, Any, Any], None]  # container, key, value
    store_slice: Callable[[Any, Any, Any, Any], None]  # container, start, stop, value
    delete_item: Callable[[Any, Any], None]
    store_global: Callable[[Any, str], None]  # value, name
    delete_global: Callable[[str], None]
    store_cell: Callable[[Any, Any], None]  # value, cell
    delete_cell: Callable[[Any], None]
    # A function that is called without being named begins: the code that it was made from.
    entered: Callable[[CodeType], None]
    # Gets the callable of a call, once the arguments are there; its result is called.
    callee: Callable[[Any], Any]
    # A function that was made, with its defaults and cells; a module that was imported; a module
    # whose attribute `from module import name` is about to read.
    made: Callable[[Any], Any]
    imported: Callable[[Any, str], Any]
    import_from: Callable[[Any, str], Any]


class _Origin(NamedTuple):
    """The last constant of an observed code object: the code that it was made from."""

    code: CodeType


def is_observed(code: CodeType) -> bool:
    """Whether a code object goes through hooks."""
    constants = code.co_consts
    return bool(constants) and type(constants[-1]) is _Origin


def original(code: CodeType) -> CodeType:
    """The code object that an observed one was made from; any other is its own."""
    return code.co_consts[-1].code if is_observed(code) else code


class Rewriter:
    """Makes observed code objects that call the given hooks."""

    def __init__(self, hooks: ObserverHooks) -> None:
        self._hooks = hooks
        # By identity: code objects with equal contents are equal. The code is kept beside its
        # observed form, so that its id stays its own.
        self._made: dict[tuple[int, bool], tuple[CodeType, CodeType]] = {}
        self._lock = threading.RLock()

    def observed(self, code: CodeType, tells: bool = False) -> CodeType:
        """The observed form of a code object, the same one every time; it may tell that it runs."""
        found = self._made.get((id(code), tells))
        if found is not None:
            return found[1]
        if is_observed(code):
            return code
        with self._lock:
            found = self._made.get((id(code), tells))
            if found is None:
                found = code, _Rewriting(code, self._hooks, self.observed, tells).result()
                while len(self._made) >= thresholds.kept_rewrites:
                    del self._made[next(iter(self._made))]
                self._made[id(code), tells] = found
        return found[1]


_rewriter: Rewriter | None = None


def install(hooks: ObserverHooks) -> None:
    """Hand over the hooks that `observed` puts into code, once."""
    global _rewriter
    _rewriter = Rewriter(hooks)


def observed(code: CodeType, tells: bool = False) -> CodeType:
    """The observed form of a code object, with the installed hooks; an observed one is its own."""
    assert _rewriter is not None, "install comes first"
    return _rewriter.observed(code, tells)


_LOAD_CONST, _CALL, _KW_NAMES = number_of("LOAD_CONST"), number_of("CALL"), number_of("KW_NAMES")
_SET_FUNCTION_ATTRIBUTE = number_of("SET_FUNCTION_ATTRIBUTE")
_LOAD_GLOBAL, _LOAD_METHOD = number_of("LOAD_GLOBAL"), number_of("LOAD_METHOD")
_LOAD_ATTR, _LOAD_SUPER_ATTR = number_of("LOAD_ATTR"), number_of("LOAD_SUPER_ATTR")
_COMPARE_OP, _RESUME = number_of("COMPARE_OP"), number_of("RESUME")
_NULL_FIRST = VERSION < (3, 13)  # [NULL, callable, arguments], later [callable, NULL, arguments]
# Where a call of n arguments begins on the stack is asked before its first instruction.
_FIRST_OF_CALL = number_of("PRECALL") if VERSION == (3, 11) else _CALL


def _swap(position: int) -> bytes:
    return encode(number_of("SWAP"), position)


def _copy(position: int) -> bytes:
    return encode(number_of("COPY"), position)


def _call(operands: int) -> bytes:
    """`[hook, operands…]` to what the hook returns; there is one operand at least."""
    before = encode(number_of("PRECALL"), operands - 1) if VERSION == (3, 11) else b""
    return before + encode(_CALL, operands - 1)


_BELOW = _swap(2)  # a hook on the top of the stack to below its operand
_PASS = _BELOW + _call(1)
_CALL_TWO = _call(2)
_POP = encode(number_of("POP_TOP"))
_NULL = encode(number_of("PUSH_NULL"))
# A callable on the top of the stack to a callable without a `self`.
_UNBOUND = _NULL + _swap(2) if _NULL_FIRST else _NULL
_TO_BOOL = encode(number_of("TO_BOOL")) if "TO_BOOL" in opmap else b""
_LOAD_CELL = number_of("LOAD_CLOSURE") if VERSION < (3, 13) else number_of("LOAD_FAST")

_DEEPER = 6  # a hook and five operands: load_super has the most


class _Replacement(NamedTuple):
    """A hook in the place of an instruction."""

    hook: str
    operands: int  # on the stack
    swaps: tuple[int, ...]  # that bring the hook from above its operands to below them
    is_named: bool  # the name of the instruction is one more argument
    has_result: bool


_REPLACED = {
    "BINARY_SUBSCR": _Replacement("load_item", 2, (3, 2), False, True),
    "BINARY_SLICE": _Replacement("load_slice", 3, (4, 3, 2), False, True),
    # The value lies below the object: the first argument comes last.
    "STORE_ATTR": _Replacement("store_attribute", 2, (3,), True, False),
    "STORE_SUBSCR": _Replacement("store_item", 3, (4,), False, False),
    "STORE_SLICE": _Replacement("store_slice", 4, (5,), False, False),
    "STORE_GLOBAL": _Replacement("store_global", 1, (2,), True, False),
    "DELETE_ATTR": _Replacement("delete_attribute", 1, (2,), True, False),
    "DELETE_SUBSCR": _Replacement("delete_item", 2, (3, 2), False, False),
    "DELETE_GLOBAL": _Replacement("delete_global", 0, (), True, False),
}

# Instructions before which one operand goes through a hook, and where it lies.
_PASSED = {
    "GET_ITER": ("iterate", 1),
    "GET_AITER": ("iterate", 1),
    "GET_YIELD_FROM_ITER": ("iterate", 1),
    "GET_AWAITABLE": ("iterate", 1),
    "UNPACK_SEQUENCE": ("iterate", 1),
    "UNPACK_EX": ("iterate", 1),
    "LIST_EXTEND": ("iterate", 1),
    "SET_UPDATE": ("iterate", 1),
    "DICT_UPDATE": ("look", 1),
    "DICT_MERGE": ("look", 1),
    "FORMAT_SIMPLE": ("look", 1),
    "FORMAT_WITH_SPEC": ("look", 2),
    "CONVERT_VALUE": ("look", 1),
    "MATCH_MAPPING": ("look", 1),
    "MATCH_SEQUENCE": ("look", 1),
    "MATCH_KEYS": ("look", 2),
    "UNARY_NEGATIVE": ("look", 1),
    "UNARY_INVERT": ("look", 1),
    "UNARY_POSITIVE": ("look", 1),
    "BEFORE_WITH": ("look", 1),
    "BEFORE_ASYNC_WITH": ("look", 1),
    "PRINT_EXPR": ("look", 1),
    "IMPORT_STAR": ("look", 1),
    "GET_LEN": ("length", 1),
    "CHECK_EXC_MATCH": ("classes", 1),
    "CHECK_EG_MATCH": ("classes", 1),
}
# 3.13 turns what it tests into a bool first, with an instruction of its own.
_TESTS = (
    ("TO_BOOL",)
    if "TO_BOOL" in opmap
    else (
        "UNARY_NOT",
        "POP_JUMP_IF_TRUE",
        "POP_JUMP_IF_FALSE",
        "POP_JUMP_FORWARD_IF_TRUE",
        "POP_JUMP_FORWARD_IF_FALSE",
        "POP_JUMP_BACKWARD_IF_TRUE",
        "POP_JUMP_BACKWARD_IF_FALSE",
        "JUMP_IF_TRUE_OR_POP",
        "JUMP_IF_FALSE_OR_POP",
    )
)
_PASSED |= dict.fromkeys(_TESTS, ("truth", 1))

# Intrinsic functions that look into what the program made: print, import *, unary plus.
_LOOKING_INTRINSICS = (1, 2, 5)

# Instructions whose result has no state of the program's: constants and bools.
_STATELESS = {
    number_of(name)
    for name in (
        "LOAD_CONST",
        "IS_OP",
        "CONTAINS_OP",
        "UNARY_NOT",
        "MATCH_MAPPING",
        "MATCH_SEQUENCE",
        "CHECK_EXC_MATCH",
    )
}

# Functions that the program cannot see: they are called where they are made.
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
_GETTING_ITERATORS = (number_of("GET_ITER"), number_of("GET_AITER"))


class _Rewriting:
    """One code object on its way to its observed form."""

    def __init__(
        self, code: CodeType, hooks: ObserverHooks, nested: Callable[[CodeType], CodeType],
        tells: bool,
    ) -> None:  # fmt: skip
        self.code, self.tells = code, tells
        self.hooks = hooks
        self.instructions = take_apart(code)
        opcodes, arguments, _, _ = self.instructions
        self.targets = {to for number, to in zip(opcodes, arguments) if number in JUMPS}
        self.bound_calls = _bound_calls(code, self.instructions) if _NULL_FIRST else frozenset()
        self.constants: list[Any] = [
            nested(constant) if isinstance(constant, CodeType) else constant
            for constant in code.co_consts
        ]
        self.loads: dict[int, bytes] = {}  # of constants that were added, by their id
        self.variables = (
            *code.co_varnames,
            *(name for name in code.co_cellvars if name not in code.co_varnames),
            *code.co_freevars,
        )
        self.first_free = len(self.variables) - len(code.co_freevars)

    def result(self) -> CodeType:
        """The observed form."""
        opcodes, arguments, encoded, _ = self.instructions
        parts = encoded.copy()
        for i, number in enumerate(opcodes):
            handler = _HANDLERS.get(number)
            if handler is not None:
                parts[i] = handler(self, i, arguments[i], encoded[i])
        if self.tells:
            # With the first statement, at its line. A generator goes on at other ones.
            first = opcodes.index(_RESUME) + 1
            hook = self.load(self.hooks.entered) + self.load(self.code) + _call(1) + _POP
            parts[first] = hook + parts[first]
        constants = (*self.constants, _Origin(self.code))
        return put_together(self.code, self.instructions, parts, constants, _DEEPER)

    # Pieces.

    def load(self, constant: Any) -> bytes:
        """LOAD_CONST of something that the code did not have."""
        found = self.loads.get(id(constant))
        if found is None:
            found = self.loads[id(constant)] = encode(_LOAD_CONST, len(self.constants))
            self.constants.append(constant)
        return found

    def name(self, index: int) -> bytes:
        """LOAD_CONST of one of the names of the code."""
        return self.load(self.code.co_names[index])

    def through(self, hook: Any, position: int = 1) -> bytes:
        """The value at a position from the top of the stack on goes through a hook."""
        passed = self.load(hook) + _PASS
        return passed if position == 1 else _swap(position) + passed + _swap(position)

    def through_with(self, hook: Any, argument: bytes) -> bytes:
        """The top of the stack goes through a hook that takes one argument more."""
        return self.load(hook) + _BELOW + argument + _CALL_TWO

    def previous(self, i: int) -> int:
        """The opcode of what always runs right before instruction i; -1 if that may be several."""
        return self.instructions.opcodes[i - 1] if i and i not in self.targets else -1

    # Handlers: what stands in the place of an instruction, or is inserted before a jump.

    def replace(self, i: int, argument: int, kept: bytes) -> bytes:
        hook, swaps, name, after = _REPLACEMENTS[self.instructions.opcodes[i]]
        named = self.name(argument) if name else b""
        return self.load(self.hooks[hook]) + swaps + named + after

    def pass_through(self, i: int, argument: int, kept: bytes) -> bytes:
        hook, position = _PASSING[self.instructions.opcodes[i]]
        if position == 1 and self.previous(i) in _STATELESS:
            return kept
        return self.through(self.hooks[hook], position) + kept

    def match_class(self, i: int, argument: int, kept: bytes) -> bytes:
        look = self.through(self.hooks.look, 3)
        return look + self.through(self.hooks.match_class, 2) + kept

    def format_value(self, i: int, argument: int, kept: bytes) -> bytes:
        has_specification = argument & 4
        return self.through(self.hooks.look, 2 if has_specification else 1) + kept

    def call_intrinsic(self, i: int, argument: int, kept: bytes) -> bytes:
        if argument not in _LOOKING_INTRINSICS:
            return kept
        return self.through(self.hooks.look) + kept

    def load_global(self, i: int, argument: int, kept: bytes) -> bytes:
        hook = self.through_with(self.hooks.load_global, self.name(argument >> 1))
        if _NULL_FIRST or not argument & 1:
            return kept + hook
        return encode(_LOAD_GLOBAL, argument & ~1) + hook + _NULL

    def load_name(self, i: int, argument: int, kept: bytes) -> bytes:
        name = self.name(argument)
        return kept + self.through_with(self.hooks.load_name, name)

    def load_class_cell(self, i: int, argument: int, kept: bytes) -> bytes:
        # A name of the class itself comes first; else it is the variable's.
        return kept + self.through_with(self.hooks.load_cell, encode(_LOAD_CELL, argument))

    def load_cell(self, i: int, argument: int, kept: bytes) -> bytes:
        if argument < self.first_free:
            return kept
        cell = encode(_LOAD_CELL, argument)
        return kept + self.through_with(self.hooks.load_cell, cell)

    def store_cell(self, i: int, argument: int, kept: bytes) -> bytes:
        if argument < self.first_free:
            return kept
        cell = encode(_LOAD_CELL, argument)
        return self.through_with(self.hooks.store_cell, cell) + _POP

    def delete_cell(self, i: int, argument: int, kept: bytes) -> bytes:
        if argument < self.first_free:
            return kept
        # Python raises its own error where there is nothing to delete.
        read = encode(number_of("LOAD_DEREF"), argument) + _POP
        cell = encode(_LOAD_CELL, argument)
        return read + self.load(self.hooks.delete_cell) + cell + _call(1) + _POP

    def load_attribute(self, i: int, argument: int, kept: bytes) -> bytes:
        is_method = self.instructions.opcodes[i] == _LOAD_METHOD
        if VERSION >= (3, 12):
            argument, is_method = argument >> 1, bool(argument & 1)
        name = self.name(argument)
        if is_method:
            return self.through_with(self.hooks.load_method, name) + _UNBOUND
        return self.through_with(self.hooks.load_attribute, name)

    def load_super(self, i: int, argument: int, kept: bytes) -> bytes:
        is_method = bool(argument & 1)
        arguments = self.name(argument >> 2) + self.load(is_method)
        hook = self.load(self.hooks.load_super) + _swap(4) + _swap(3) + _swap(2)
        return hook + arguments + _call(5) + (_UNBOUND if is_method else b"")

    def both(self, hook: Any, *arguments: bytes) -> bytes:
        """A hook looks at the two values on the top of the stack."""
        given = _copy(3) * 2 + b"".join(arguments)
        return self.load(hook) + given + _call(2 + len(arguments)) + _POP

    def operate(self, i: int, argument: int, kept: bytes) -> bytes:
        operator = self.load(argument)
        return self.both(self.hooks.operate, operator) + kept

    def compare(self, i: int, argument: int, kept: bytes) -> bytes:
        hook = self.both(self.hooks.operate, self.load(-1))
        if _TO_BOOL and argument & 16:  # it asks for the truth of its result itself
            compared = encode(_COMPARE_OP, argument & ~16)
            return hook + compared + self.through(self.hooks.truth) + _TO_BOOL
        return hook + kept

    def contain(self, i: int, argument: int, kept: bytes) -> bytes:
        return self.both(self.hooks.contain) + kept

    def compare_identity(self, i: int, argument: int, kept: bytes) -> bytes:
        return self.both(self.hooks.compare_identity) + kept

    def make_function(self, i: int, argument: int, kept: bytes) -> bytes:
        if self.instructions.opcodes[i + 1] == _SET_FUNCTION_ATTRIBUTE:
            return kept  # it has no cells or defaults yet
        while self.instructions.opcodes[i] != _LOAD_CONST:
            i -= 1
        if self.constants[self.instructions.arguments[i]].co_name in _COMPREHENSIONS:
            return kept
        return kept + self.through(self.hooks.made)

    def import_name(self, i: int, argument: int, kept: bytes) -> bytes:
        name = self.name(argument)
        return kept + self.through_with(self.hooks.imported, name)

    def import_from(self, i: int, argument: int, kept: bytes) -> bytes:
        # The module stays below what is found in it.
        return self.load(self.hooks.import_from) + _copy(2) + self.name(argument) + _call(2)

    def call(self, i: int, argument: int, kept: bytes) -> bytes:
        previous, number = self.instructions.opcodes[i - 1 : i + 1]
        is_named = number not in (_FIRST_OF_CALL, _KW_NAMES)
        if number == _KW_NAMES:  # nothing may come between it and its call
            argument = self.instructions.arguments[i + 1]
        elif previous == _KW_NAMES or previous in _GETTING_ITERATORS:
            return kept  # the latter calls a comprehension, with its iterator
        # One of the two below the arguments is the callable, and names lie above the arguments.
        position = argument + is_named + 2
        if _NULL_FIRST and i not in self.bound_calls:
            position -= 1
        return self.through(self.hooks.callee, position) + kept

    def call_unpacked(self, i: int, argument: int, kept: bytes) -> bytes:
        has_keywords = argument & 1
        unpacked = self.through(self.hooks.iterate, 1 + has_keywords)
        position = 2 + has_keywords if _NULL_FIRST else 3 + has_keywords
        return unpacked + self.through(self.hooks.callee, position) + kept


_HAVE_ARGUMENT = 90  # up to 3.12
_IS_GENERATOR = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_PUSH_NULL = number_of("PUSH_NULL")
# Loads that, once rewritten, can put NULL below what they load.
_LOADING_NULL = {_LOAD_GLOBAL, _LOAD_SUPER_ATTR, _LOAD_METHOD} | (
    {_LOAD_ATTR} if VERSION > (3, 11) else set()
)
_CALLING = (_CALL, number_of("CALL_FUNCTION_EX"))


def _bound_calls(code: CodeType, instructions: Instructions) -> frozenset[int]:
    """Up to 3.12: the calls that have no NULL below their callable.

    They are calls of decorators, comprehensions, `__exit__` and AssertionError. The depth of the
    stack is followed from each instruction to the next, along jumps forward and to handlers, and
    with it where the NULLs are. Code that none of these reach is a statement of its own (a handler
    before what it protects): there are no NULLs, and depths are relative.
    """
    opcodes, arguments, _, _ = instructions
    found: set[int] = set()
    # The depth and the depths of the NULLs, before instructions that something jumps to.
    states: dict[int, tuple[int, tuple[int, ...]]] = {}
    handlers: dict[int, list[Protection]] = {}
    for protection in protections(code, instructions):
        handlers.setdefault(protection.first, []).append(protection)
    depth = 1 if code.co_flags & _IS_GENERATOR else 0  # a generator is sent something first
    nulls: tuple[int, ...] = ()
    for i, (number, argument) in enumerate(zip(opcodes, arguments)):
        if i in states:
            depth, nulls = states[i]
        for _, handler, at in handlers.get(i, ()):
            states.setdefault(handler, (at, tuple(null for null in nulls if null < at - 1)))
        if number in JUMPS:
            states.setdefault(argument, (depth + stack_effect(number, 0, jump=True), nulls))
            effect = stack_effect(number, 0, jump=False)
        else:
            effect = stack_effect(number, argument if number >= _HAVE_ARGUMENT else None)
        if number in (_KW_NAMES, _FIRST_OF_CALL):
            count = arguments[i + 1] if number == _KW_NAMES else argument
            if depth - count - 2 not in nulls:
                found.add(i)
        depth += effect
        top = depth - 1 if number in _CALLING else depth  # their result lies where NULL was
        while nulls and nulls[-1] >= top:
            nulls = nulls[:-1]
        if number == _PUSH_NULL:
            nulls = (*nulls, depth - 1)
        elif number in _LOADING_NULL and (argument & 1 or number == _LOAD_METHOD):
            nulls = (*nulls, depth - 2)
    return frozenset(found)


# The tables above, by number.
_REPLACEMENTS = {
    opmap[name]: (
        ObserverHooks._fields.index(entry.hook),
        b"".join(map(_swap, entry.swaps)),
        entry.is_named,
        _call(entry.operands + entry.is_named) + (b"" if entry.has_result else _POP),
    )
    for name, entry in _REPLACED.items()
    if name in opmap
}
_PASSING = {
    opmap[name]: (ObserverHooks._fields.index(hook), position)
    for name, (hook, position) in _PASSED.items()
    if name in opmap
}
_HANDLED: dict[str, Callable[[_Rewriting, int, int, bytes], bytes]] = {
    **dict.fromkeys(_REPLACED, _Rewriting.replace),
    **dict.fromkeys(_PASSED, _Rewriting.pass_through),
    "MATCH_CLASS": _Rewriting.match_class,
    "FORMAT_VALUE": _Rewriting.format_value,
    "CALL_INTRINSIC_1": _Rewriting.call_intrinsic,
    "LOAD_GLOBAL": _Rewriting.load_global,
    "LOAD_NAME": _Rewriting.load_name,
    "LOAD_FROM_DICT_OR_GLOBALS": _Rewriting.load_name,
    "LOAD_CLASSDEREF": _Rewriting.load_class_cell,
    "LOAD_FROM_DICT_OR_DEREF": _Rewriting.load_class_cell,
    "LOAD_DEREF": _Rewriting.load_cell,
    "STORE_DEREF": _Rewriting.store_cell,
    "DELETE_DEREF": _Rewriting.delete_cell,
    "LOAD_ATTR": _Rewriting.load_attribute,
    "LOAD_METHOD": _Rewriting.load_attribute,
    "LOAD_SUPER_ATTR": _Rewriting.load_super,
    "BINARY_OP": _Rewriting.operate,
    "COMPARE_OP": _Rewriting.compare,
    "CONTAINS_OP": _Rewriting.contain,
    "IS_OP": _Rewriting.compare_identity,
    "MAKE_FUNCTION": _Rewriting.make_function,
    "SET_FUNCTION_ATTRIBUTE": _Rewriting.make_function,
    "IMPORT_NAME": _Rewriting.import_name,
    "IMPORT_FROM": _Rewriting.import_from,
    "KW_NAMES": _Rewriting.call,
    "PRECALL" if VERSION == (3, 11) else "CALL": _Rewriting.call,
    "CALL_KW": _Rewriting.call,
    "CALL_FUNCTION_EX": _Rewriting.call_unpacked,
}
_HANDLERS = {opmap[name]: handler for name, handler in _HANDLED.items() if name in opmap}
