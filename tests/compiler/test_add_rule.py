"""How many places a new pass, a new fusion rule and a new trait touch; each is added at run time.

`test_add_op.py` does so for an op, which touches one place: its declaration.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import contraflow as cf
from contraflow.compiler import fuse, passes
from contraflow.compiler.kernel import Limits
from contraflow.compiler.lower import Group, Visit
from contraflow.compiler.tape import Tape, Value
from contraflow.operation.kinds import elementwise
from contraflow.operation.op import REGISTRY, Op, Traits
from contraflow.testing import assert_close

SOURCE = Path(cf.__file__).parent
MODULES = {p: ast.parse(p.read_text(encoding="utf-8")) for p in sorted(SOURCE.rglob("*.py"))}

CHAIN = """
tape t
  input %0 : float32[8]  arg
  %1 = sin(%0) : float32[8]
  %2 = exp(%1) : float32[8]
  %3 = cos(%2) : float32[8]
  return %3
"""


def kernels(text: str = CHAIN) -> int:
    """Into how many kernels a tape is fused."""
    return len(fuse.fuse(passes.optimize(Tape.parse(text).verify()), set(), Limits()))


def modules_naming(name: str) -> list[str]:
    """The modules in which a name is defined, imported or read."""

    def names(node: ast.AST) -> Iterator[str]:
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.keyword):
            yield node.arg or ""
        elif isinstance(node, ast.alias):
            yield node.name.split(".")[-1]

    return [
        str(path.relative_to(SOURCE))
        for path, module in MODULES.items()
        if any(found == name for node in ast.walk(module) for found in names(node))
    ]


# --- a fusion rule: a function, and its place in RULES ------------------------------------------


def begins_with_exp(limits: Limits, group: Group, visit: Visit) -> bool:
    return visit.line.op is not REGISTRY["exp"]


def test_a_new_fusion_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kernels() == 1
    monkeypatch.setattr(fuse, "RULES", (*fuse.RULES, begins_with_exp))
    assert kernels() == 2
    x = np.linspace(-1, 1, 8, dtype=np.float32)
    found = cf.compile(lambda x: x.sin().exp().cos())(cf.tensor(x))
    assert_close(found, np.cos(np.exp(np.sin(x))))


MERGED = """
tape t
  input %0 : float32[8]  arg
  %1 = sin(%0) : float32[8]
  %2 = cos(%0) : float32[8]
  %3 = add(%1, %2) : float32[8]
  return %3
"""


def test_a_new_fusion_rule_holds_where_groups_merge(monkeypatch: pytest.MonkeyPatch) -> None:
    """`add` joins the group of `cos`; the group of `sin` may not follow it there."""
    tape = Tape.parse(MERGED)
    sin, cos = (tape.lines[i].outs[0] for i in (0, 1))

    def keeps_cos_from_sin(limits: Limits, group: Group, visit: Visit) -> bool:
        return not (cos in visit.line.outs and sin in group.made)

    assert kernels(MERGED) == 1
    monkeypatch.setattr(fuse, "RULES", (*fuse.RULES, keeps_cos_from_sin))
    assert kernels(MERGED) == 2


OTHER_POINTS = """
tape t
  input %0 : float32[4, 5]  arg
  input %1 : float32[4, 1]  arg
  %2 = sum(%0, dim=(1,), keepdim=True) : float32[4, 1]
  %3 = exp(%1) : float32[4, 1]
  %4 = sin(%0) : float32[4, 5]
  %5 = mul(%4, %2) : float32[4, 5]
  %6 = sum(%5, dim=(1,), keepdim=True) : float32[4, 1]
  %7 = mul(%6, %3) : float32[4, 1]
  return %7
"""


def test_groups_merge_only_if_they_visit_the_same_points() -> None:
    """`exp` would fit among the results of the sums, but its group visits those only."""
    assert kernels(OTHER_POINTS) == 2


@pytest.mark.parametrize("rule", fuse.RULES, ids=lambda rule: rule.__name__)
def test_a_fusion_rule_touches_one_module(rule: Callable[..., bool]) -> None:
    assert modules_naming(rule.__name__) == ["compiler/fuse.py"]


# --- a pass: a function, and its place in PASSES -------------------------------------------------


def drop_repeated(tape: Tape) -> Tape:
    """An op that has the trait `idempotent`, of its own result, is that result."""
    makers: dict[Any, Op] = {v: line.op for line in tape.lines for v in line.outs}
    same: dict[Value, Value] = {}
    kept = []
    for line in tape.lines:
        (x,) = line.inputs
        if getattr(line.op, "idempotent", False) and makers.get(x) is line.op:
            same[line.outs[0]] = same.get(x, x)  # type: ignore[arg-type, call-overload]
        else:
            kept.append(line)
    return tape.replaced(kept, same)


@pytest.mark.parametrize("step", passes.PASSES, ids=lambda step: step.__name__)
def test_a_pass_touches_its_own_module_and_the_list(step: Callable[..., Tape]) -> None:
    own = step.__module__.removeprefix("contraflow.").replace(".", "/") + ".py"
    compilers = {m for m in modules_naming(step.__name__) if m.startswith("compiler/")}
    assert compilers == {own, "compiler/passes.py"}


# --- a trait: a line of Traits, the declarations that have it, the pass that asks for it ---------


@pytest.fixture
def clipped(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Op]]:
    """Declares an op with the new trait `idempotent`."""
    monkeypatch.setitem(Traits.__annotations__, "idempotent", bool)
    monkeypatch.setattr(Traits, "idempotent", False, raising=False)

    def declare(**traits: Any) -> Op:
        def clipped(x):  # type: ignore[no-untyped-def]
            """For this test."""
            return x

        op: Op = elementwise(ref=np.copy, method=False, internal=True, **traits)(clipped)
        return op

    yield declare
    del REGISTRY["clipped"]


TWICE = """
tape t
  input %0 : float32[8]  arg
  %1 = clipped(%0) : float32[8]
  %2 = clipped(%1) : float32[8]
  return %2
"""


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_new_trait_and_a_new_pass(
    clipped: Callable[..., Op], idempotent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clipped(idempotent=idempotent)
    assert len(passes.optimize(Tape.parse(TWICE)).lines) == 2
    monkeypatch.setattr(passes, "PASSES", (drop_repeated, *passes.PASSES))
    assert len(passes.optimize(Tape.parse(TWICE)).lines) == 2 - idempotent


def test_a_declaration_without_the_trait_has_its_default(clipped: Callable[..., Op]) -> None:
    assert clipped().idempotent is False  # type: ignore[attr-defined]
    assert REGISTRY["tanh"].linear is False


@pytest.mark.parametrize("name", Traits.__annotations__)
def test_every_trait_is_declared_by_some_op_and_asked_for(name: str) -> None:
    asked = modules_naming("vanishes" if name == "zero_if" else name)
    assert [m for m in asked if not m.startswith(("ops/", "operation/op.py"))]
    assert [m for m in modules_naming(name) if m.startswith("ops/")]
