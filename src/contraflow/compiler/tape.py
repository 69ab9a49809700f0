"""Tapes: a flat list of applied ops in SSA form. A tape prints, parses and verifies itself.

    tape step
      input %0 : float32[32, 128]  arg
      input %1 : float32[10, 128]  state
      %2 = strided(%1, shape=(128, 10), strides=(1, 128), offset=0) : float32[128, 10]
      %3 = matmul(%0, %2) : float32[32, 10]
      write %1 = %7
      return %3

The first line also names the device, if it is not the cpu: `tape step on NAME`.

A view of a value is a `strided` line: views fold into reads when the tape is lowered, so no other
view op appears. A `write` says that an input's memory holds another value when the program ends.
Composites never appear, only their parts.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from contraflow import dtypes
from contraflow.dtypes import DType
from contraflow.operation.op import REGISTRY, Op
from contraflow.shapes import View, numel
from contraflow.spec import Given, Params, Spec

ROLES = ("arg", "state", "grad", "constant", "scalar")


class Value(NamedTuple):
    """A value of a tape, by its number."""

    number: int

    def __repr__(self) -> str:
        return f"%{self.number}"


_new = tuple.__new__  # of a named tuple, as its class does it, which takes twice as long

TapeOperand = Value | bool | int | float


_NAMED = re.compile(r"^\w+: ")  # the name of a part of the op


def unnamed(problem: str) -> str:
    """A problem without the name of the op that has found it, and without its full stop."""
    return _NAMED.sub("", problem).rstrip(".")


class TapeLine(NamedTuple):
    """`outs = op(inputs, params)`, the user's line that caused it, and its checkpoint region."""

    outs: tuple[Value, ...]
    op: Op
    inputs: tuple[TapeOperand, ...]
    params: Params
    line: Any = None
    region: int = 0

    def blame(self, problem: str) -> str:
        """A problem that an op has found, as one of the op that the user called at a line."""
        return f"{self.params.get('subject') or self.called}: {unnamed(problem)}, at {self.line}."

    @property
    def called(self) -> str:
        """The name of the op that the user called at the line, or else of that which is applied."""
        return getattr(self.line, "op", None) or self.op.name


@dataclass(eq=False, repr=False)
class Tape:
    """Inputs with their roles, lines, writes to inputs, and results."""

    name: str = "tape"
    specs: dict[Value, Spec] = field(default_factory=dict)
    inputs: dict[Value, str] = field(default_factory=dict)
    lines: list[TapeLine] = field(default_factory=list)
    writes: dict[Value, Value] = field(default_factory=dict)
    outputs: list[Value] = field(default_factory=list)
    device: str = "cpu"  # that all values lie on

    # --- making ---------------------------------------------------------------------------

    def new(self, spec: Spec) -> Value:
        """A fresh value."""
        value = _new(Value, (len(self.specs),))
        self.specs[value] = spec
        return value

    def add_input(self, spec: Spec, role: str) -> Value:
        """A fresh input."""
        assert role in ROLES, role
        value = self.new(spec)
        self.inputs[value] = role
        return value

    def add(
        self,
        op: Op,
        inputs: tuple[TapeOperand, ...],
        params: Params,
        line: Any = None,
        region: int = 0,
    ) -> tuple[Value, ...]:
        """Append an applied op; shapes and dtypes are inferred."""
        made = []
        for spec in _infer(op, self.given(inputs), params):
            made.append(self.new(spec))
        outs = tuple(made)
        self.lines.append(_new(TapeLine, (outs, op, inputs, params, line, region)))
        return outs

    def given(self, inputs: Sequence[TapeOperand]) -> list[Given]:
        """The arguments of `Op.infer`: specs and numbers."""
        specs = self.specs
        return [specs[x] if isinstance(x, Value) else x for x in inputs]

    def replaced(self, lines: Iterable[TapeLine], substitute: Mapping[Value, Value] = {}) -> Tape:
        """The same program with other lines, and values renamed in writes and outputs."""
        return Tape(
            self.name,
            self.specs,
            self.inputs,
            list(lines),
            {k: substitute.get(v, v) for k, v in self.writes.items()},
            [substitute.get(v, v) for v in self.outputs],
            self.device,
        )

    @property
    def roots(self) -> list[Value]:
        """The values that the program must produce; what has effects is applied for those."""
        effects = [v for line in self.lines if line.op.effects for v in line.outs]
        return [*self.writes.values(), *self.outputs, *effects]

    # --- text -----------------------------------------------------------------------------

    def text(self) -> str:
        """The tape as text; `Tape.parse` reads it back."""
        rows = [
            f"tape {self.name}" if self.device == "cpu" else f"tape {self.name} on {self.device}"
        ]
        rows += [f"  input {v} : {self.specs[v]}  {role}" for v, role in self.inputs.items()]
        for line in self.lines:
            given = [_format(x) for x in line.inputs]
            given += [f"{name}={_format(x)}" for name, x in line.params.items()]
            outs = ", ".join(map(repr, line.outs))
            specs = ", ".join(str(self.specs[v]) for v in line.outs)
            region = f"  region {line.region}" if line.region else ""
            rows.append(f"  {outs} = {line.op.name}({', '.join(given)}) : {specs}{region}")
        rows += [f"  write {k} = {v}" for k, v in self.writes.items()]
        rows.append(f"  return {', '.join(map(repr, self.outputs))}".rstrip())
        return "\n".join(rows)

    __str__ = text

    @staticmethod
    def parse(text: str) -> Tape:
        """Read a tape from its text; ValueError names the line that is wrong."""
        rows = [row for row in text.splitlines() if row.strip()]
        header = re.fullmatch(r"tape (\S+)(?: on (\S+))?", rows[0].strip()) if rows else None
        if header is None:
            raise ValueError("Tape.parse: the text does not begin with `tape NAME`.")
        tape = Tape(header[1], device=header[2] or "cpu")
        for row in rows[1:]:
            try:
                tape._parse_row(row.strip())
            except (KeyError, SyntaxError, AttributeError, TypeError, ValueError) as error:
                raise ValueError(f"Tape.parse: cannot read {row.strip()!r}: {error}") from error
        return tape

    def _parse_row(self, row: str) -> None:
        if match := re.fullmatch(r"input %(\d+) : (\S.*?)  (\w+)", row):
            value = Value(int(match[1]))
            if value in self.specs:
                raise ValueError(f"{value} is defined twice")
            if match[3] not in ROLES:
                raise ValueError(f"{match[3]} is not one of {', '.join(ROLES)}")
            self.specs[value], self.inputs[value] = _parse_spec(match[2]), match[3]
        elif match := re.fullmatch(r"write %(\d+) = %(\d+)", row):
            self.writes[Value(int(match[1]))] = Value(int(match[2]))
        elif match := re.fullmatch(r"return(.*)", row):
            self.outputs = [Value(int(n)) for n in re.findall(r"%(\d+)", match[1])]
        else:
            match = re.fullmatch(r"((?:%\d+(?:, )?)+) = (.+\)) : (.+?)(?:  region (\d+))?", row)
            if match is None:
                raise ValueError("it is neither an input, an op, a write nor a return")
            outs = tuple(Value(int(n)) for n in re.findall(r"%(\d+)", match[1]))
            call = ast.parse(re.sub(r"%(\d+)", r"_v\1", match[2]), mode="eval").body
            assert isinstance(call, ast.Call)
            assert isinstance(call.func, ast.Name)
            specs = [_parse_spec(part) for part in re.findall(r"\w+\[[^\]]*\]", match[3])]
            self.specs.update(zip(outs, specs, strict=True))
            inputs = tuple(_parse_value(a) for a in call.args)
            params = {k.arg: _parse_value(k.value) for k in call.keywords if k.arg}
            op = REGISTRY[call.func.id]
            self.lines.append(TapeLine(outs, op, inputs, params, None, int(match[4] or 0)))

    # --- checking -------------------------------------------------------------------------

    def verify(self) -> Tape:
        """Check that every value is defined once, before its use, with the spec its op gives."""
        known = set(self.inputs)
        for line in self.lines:
            for x in line.inputs:
                if isinstance(x, Value) and x not in known:
                    raise ValueError(f"{self._row(line)}: {x} is used before it is defined.")
            if line.op.kind.lowering == "composite":
                raise ValueError(f"{self._row(line)}: a composite cannot stand on a tape.")
            if line.op.is_view and not line.op.gives_view:
                raise ValueError(f"{self._row(line)}: views are written as strided lines.")
            if line.op.gives_view:
                start, stop = View(**line.params).extent()
                count = numel(self.specs[line.inputs[0]].shape)  # type: ignore[index]
                if stop > max(start, count):  # an empty view may start anywhere
                    raise ValueError(f"{self._row(line)}: reaches element {stop - 1} of {count}.")
            inferred = _infer(line.op, self.given(line.inputs), line.params)
            given = tuple(self.specs[v] for v in line.outs)
            if inferred != given:
                expected = ", ".join(map(str, inferred))
                raise ValueError(f"{self._row(line)}: the op gives {expected}.")
            for v in line.outs:
                if v in known:
                    raise ValueError(f"{self._row(line)}: {v} is defined twice.")
                known.add(v)
        for target, value in self.writes.items():
            if target not in self.inputs:
                raise ValueError(f"write {target} = {value}: {target} is not an input.")
            if value in known and self.specs[target] != self.specs[value]:
                raise ValueError(
                    f"write {target} = {value}: {self.specs[value]} does not fit "
                    f"{self.specs[target]}."
                )
        for v in self.roots:
            if v not in known:
                raise ValueError(f"{v} is a result but never defined.")
        return self

    def _row(self, line: TapeLine) -> str:
        return f"{', '.join(map(repr, line.outs))} = {line.op.name}"


Uses = Counter[TapeOperand]  # how often each is read


def count_uses(tape: Tape) -> Uses:
    """How often each value is read, or is a result; numbers are counted too."""
    uses: Uses = Counter(chain.from_iterable([line.inputs for line in tape.lines]))
    uses.update(tape.roots)
    return uses


def renamed(line: TapeLine, names: Mapping[Value, Value]) -> TapeLine:
    """A line with other names for some of the values it reads."""
    if names.keys().isdisjoint(line.inputs):
        return line
    inputs = [names.get(x, x) if isinstance(x, Value) else x for x in line.inputs]
    return line._replace(inputs=tuple(inputs))


def _infer(op: Op, given: Sequence[Given], params: Params) -> tuple[Spec, ...]:
    """The specs of an op's results, cached for lines that have the same inputs."""
    return _inferred(op, tuple(params.items()), dtypes.get_default_dtype(), *given)


@lru_cache(maxsize=8192, typed=True)  # typed: 1, 1.0 and True are equal
def _inferred(
    op: Op, params: tuple[tuple[str, Any], ...], default_dtype: DType, *given: Given
) -> tuple[Spec, ...]:
    return op.infer(given, dict(params))


def _format(x: Any) -> str:
    if isinstance(x, DType):
        return x.name
    if isinstance(x, tuple) and not isinstance(x, Value):
        inner = ", ".join(map(_format, x))
        return f"({inner},)" if len(x) == 1 else f"({inner})"
    return repr(x)


def _parse_spec(text: str) -> Spec:
    match = re.fullmatch(r"(\w+)\[([^\]]*)\]", text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a dtype and a shape")
    return Spec(tuple(int(n) for n in match[2].split(",") if n.strip()), dtypes.by_name(match[1]))


def _parse_value(node: ast.AST) -> Any:
    if isinstance(node, ast.Name):
        if node.id.startswith("_v"):
            return Value(int(node.id[2:]))
        return float(node.id) if node.id in ("inf", "nan") else dtypes.by_name(node.id)
    if isinstance(node, ast.Tuple):
        return tuple(_parse_value(item) for item in node.elts)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_parse_value(node.operand)
    if isinstance(node, ast.Constant):
        return node.value
    raise ValueError(f"{ast.dump(node)} is not a value")
