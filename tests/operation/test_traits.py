"""What an op is, is said once: by traits of its declaration. Nothing else knows ops by their names.

Ops that are declared here, at run time, are treated as their traits say.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.compiler.test_add_rule import modules_naming

import contraflow as cf
from contraflow.capture.backward_tape import without
from contraflow.compiler import passes
from contraflow.compiler.fuse import stored_products
from contraflow.compiler.tape import Tape, Value, count_uses
from contraflow.contexts.batch import Batch
from contraflow.devices.cuda import matrices
from contraflow.operation.context import apply
from contraflow.operation.kinds import create, elementwise, index, view
from contraflow.operation.op import REGISTRY, Op
from contraflow.tensors.elements import Methods
from contraflow.testing import assert_close, make_inputs

SOURCE = Path(cf.__file__).parent


# --- what follows from a declaration -------------------------------------------------------------


@pytest.mark.parametrize("distinct", [True, False])
def test_a_view_moves_elements_if_its_declaration_says_that_they_are_distinct(
    distinct: bool,
) -> None:
    def same(x):  # type: ignore[no-untyped-def]
        """For this test."""
        return x

    try:
        op = view(vjp={"x": lambda g: g}, method=False, internal=True, distinct=distinct)(same)
        assert op(cf.ones(2, requires_grad=True))._node.form.moves is distinct
    finally:
        del REGISTRY["same"]


def asks_how(text: str) -> list[int]:
    """The lines on which the lowering, the name or the class of a kind decides something.

    An assertion about the class decides nothing: it tells the type checker what is known.
    """
    tree = ast.parse(text)
    asserted = {id(node.test) for node in ast.walk(tree) if isinstance(node, ast.Assert)}
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr="lowering"):
                found.append(node.lineno)
            case ast.Attribute(attr="name", value=owner) if _is_kind(owner):
                found.append(node.lineno)
            case ast.Call(func=ast.Name(id="isinstance"), args=[x, _]) if _is_kind(x):
                if id(node) not in asserted:
                    found.append(node.lineno)
    return found


def _is_kind(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "kind"


def test_only_operations_and_the_compiler_ask_how_an_op_is_lowered() -> None:
    """Elsewhere booleans of the op say what is meant: `op.is_view`."""
    assert asks_how('op.kind.lowering == "view" or line.op.kind.name == "create"') == [1, 1]
    assert asks_how("if isinstance(op.kind, Creating):\n    pass") == [1]
    assert asks_how("assert isinstance(op.kind, Contracting)") == []
    for path in SOURCE.rglob("*.py"):
        if path.relative_to(SOURCE).parts[0] not in ("operation", "compiler"):
            assert not asks_how(path.read_text(encoding="utf-8")), path


# --- no names ------------------------------------------------------------------------------------


def comparisons(text: str) -> Iterator[int]:
    """The lines on which the name of an op, or an op found by its name, is compared."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Match) and is_name_of_op(node.subject):
            yield node.lineno
        if not isinstance(node, ast.Compare):
            continue
        sides = [node.left, *node.comparators]
        if any(map(is_found_by_name, sides)):
            yield node.lineno
        if any(map(is_name_of_op, sides)) and any(map(is_literal, sides)):
            yield node.lineno
        if is_name_of_op(node.left) and isinstance(node.ops[0], ast.In | ast.NotIn):
            yield node.lineno


def is_name_of_op(node: ast.AST) -> bool:
    if not isinstance(node, ast.Attribute) or node.attr != "name":
        return False
    owner = node.value
    return (isinstance(owner, ast.Name) and owner.id == "op") or (
        isinstance(owner, ast.Attribute) and owner.attr == "op"
    )


def is_literal(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def is_found_by_name(node: ast.AST) -> bool:
    if not isinstance(node, ast.Subscript | ast.Attribute):
        return False
    known = "REGISTRY" if isinstance(node, ast.Subscript) else "core"
    return isinstance(node.value, ast.Name) and node.value.id == known


@pytest.mark.parametrize(
    "text",
    [
        'op.name == "add"',
        '"add" != line.op.name',
        'makers[v].op.name in ("add", "sub")',
        "op.name not in KNOWN",
        'line.op is REGISTRY["add"]',
        "line.op is core.add",
        'match op.name:\n    case "add":\n        pass',
    ],
)
def test_a_comparison_of_names_is_found(text: str) -> None:
    assert list(comparisons(text))


def test_no_module_outside_of_ops_knows_an_op_by_its_name() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path.relative_to(SOURCE).parts[0] != "ops" and path != SOURCE / "operation" / "core.py"
        for line in comparisons(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_libraries_of_devices_do_ops_by_name_and_nothing_else_does() -> None:
    """The one exception: devices lie below the ops, so their limits cannot have these."""
    assert modules_naming("has_call") == ["compiler/fuse.py", "compiler/kernel.py"]
    for name in matrices.OPS:
        assert REGISTRY[name].kind.lowering == "opaque"
        assert callable(getattr(matrices.MatrixSolver, f"_{name}"))


# --- declarations --------------------------------------------------------------------------------


def zeroed() -> list[Any]:
    return [
        pytest.param(op, sample, row, id=f"{op.name}-{number}-{row}")
        for op in REGISTRY.values()
        for row in op._vanishing
        for number, sample in enumerate(op.samples())
    ]


@pytest.mark.parametrize(("op", "sample", "row"), zeroed())
def test_results_are_zero_where_a_declaration_says_so(op: Op, sample: Any, row: Any) -> None:
    inputs = list(make_inputs(sample))
    for i in row or range(len(inputs)):
        inputs[i] = np.zeros_like(inputs[i]) if isinstance(inputs[i], np.ndarray) else 0
    given = tuple(cf.tensor(x) if isinstance(x, np.ndarray) else x for x in inputs)
    outs = apply(op, given, op.params | sample.params)
    for out in outs if isinstance(outs, tuple) else (outs,):
        assert not out.numpy().any()


def test_a_trait_of_an_input_that_is_not_there_is_refused() -> None:
    with pytest.raises(TypeError, match=r"draft: zero_if names 'z', which is not an input"):
        elementwise(ref=np.copy, zero_if=("z",))(lambda_named("draft"))
    assert "draft" not in REGISTRY


def lambda_named(name: str) -> Callable[..., Any]:
    def body(x: Any) -> Any:
        """For these tests."""
        return x

    body.__name__ = name
    return body


# --- ops that are new ----------------------------------------------------------------------------


@pytest.fixture
def declared() -> Iterator[Callable[..., Op]]:
    """Declares an op for one test."""
    before = set(REGISTRY)

    def declare(kind: Callable[..., Any], body: Callable[..., Any], **fields: Any) -> Op:
        op: Op = kind(method=False, internal=True, **fields)(body)
        return op

    yield declare
    for name in set(REGISTRY) - before:
        del REGISTRY[name]
        assert not hasattr(Methods, name)


def plus(a: Any, b: Any) -> Any:
    return a + b


def again(x: Any) -> Any:
    return x * 1.0


def constant(value: Any, *, shape: Any, dtype: Any) -> Any:
    return value


HALVES = """
tape t
  input %0 : float32[2, 3]  arg
  input %1 : float32[2, 3]  arg
  %2 = {fill}(0.0, shape=(4, 3), dtype=float32) : float32[4, 3]
  %3 = assign(%2, %0, shape=(2, 3), strides=(3, 1), offset=0) : float32[4, 3]
  %4 = {fill}(0.0, shape=(4, 3), dtype=float32) : float32[4, 3]
  %5 = assign(%4, %1, shape=(2, 3), strides=(3, 1), offset=6) : float32[4, 3]
  %6 = {sum}(%3, %5) : float32[4, 3]
  return %6
"""


@pytest.mark.parametrize("is_sum", [True, False])
@pytest.mark.parametrize("is_fill", [True, False])
def test_pieces_of_a_new_sum_in_a_new_fill_are_joined(declared, is_sum, is_fill) -> None:
    declared(elementwise, plus, ref=np.add, is_sum=is_sum)
    ref = lambda value, shape, dtype: np.full(shape, value, dtype.numpy)  # noqa: E731
    declared(create, constant, ref=ref, dtype="param", is_fill=is_fill)
    tape = Tape.parse(HALVES.format(sum="plus", fill="constant")).verify()
    joined = passes.join_pieces(tape)
    assert (sum(line.op.name == "plus" for line in joined.lines) == 0) == (is_sum and is_fill)


@pytest.mark.parametrize("is_copy", [True, False])
def test_a_product_is_stored_where_a_new_copy_wants_it(declared, is_copy) -> None:
    declared(elementwise, again, ref=np.copy, is_copy=is_copy)
    tape = Tape.parse(
        """
        tape t
          input %0 : float32[2, 3]  arg
          input %1 : float32[3, 4]  arg
          %2 = matmul(%0, %1) : float32[2, 4]
          %3 = strided(%2, shape=(4, 2), strides=(1, 4), offset=0) : float32[4, 2]
          %4 = again(%3) : float32[4, 2]
          return %4
        """
    ).verify()
    assert len(list(stored_products(tape, count_uses(tape)))) == is_copy


@pytest.mark.parametrize(
    ("zero_if", "absent", "kept"),
    [
        ((), {0}, True), (("a",), {0}, False), (("a",), {1}, True),
        (("a", "b"), {1}, False), (("a, b",), {1}, True), (("a, b",), {0, 1}, False),
    ],
)  # fmt: skip
def test_zeros_pass_through_a_new_op_as_it_declares(declared, zero_if, absent, kept) -> None:
    declared(elementwise, plus, ref=np.add, zero_if=zero_if)
    tape = Tape.parse(
        """
        tape t
          input %0 : float32[2]  arg
          input %1 : float32[2]  arg
          %2 = plus(%0, %1) : float32[2]
          return %2
        """
    ).verify()
    left, zeros = without(tape, {Value(v) for v in absent})
    assert any(line.op.name == "plus" for line in left.lines) == kept
    assert (Value(2) in zeros) != kept


@pytest.mark.parametrize("along_dim", [True, False])
def test_a_batch_goes_along_a_dim_of_a_new_op_at_once(declared, along_dim, monkeypatch) -> None:
    op = declared(
        index,
        reversed_along,
        ref=lambda x, dim: np.flip(x, dim).copy(),
        dtype="same",
        shape=lambda x, dim: x.shape,
        source=lambda at, x, dim: x[
            tuple(x.shape[d] - 1 - i if d == dim else i for d, i in enumerate(at))
        ],
        along_dim=along_dim,
    )
    singly = []
    one_by_one = Batch._one_by_one
    monkeypatch.setattr(Batch, "_one_by_one", lambda *args: singly.append(1) or one_by_one(*args))
    x = cf.arange(24.0).reshape(2, 3, 4)
    assert_close(cf.func.vmap(lambda x: op(x, dim=1))(x), x.flip(2))
    assert bool(singly) != along_dim


def reversed_along(x: Any, *, dim: Any) -> Any:
    """For these tests."""


# --- a wrong gradient that the list by hand gave --------------------------------------------------


class Halves(cf.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x[:2] * 2, x[2:] * 3

    @staticmethod
    def backward(ctx: Any, first: Any, second: Any) -> Any:
        return cf.cat([first * 2, second * 3])


@pytest.mark.parametrize("used", [0, 1])
def test_a_linear_op_is_zero_only_if_all_that_it_is_linear_in_is(used: int) -> None:
    f = cf.compile(lambda x: Halves.apply(x))
    expected = np.array([2.0, 2.0, 0.0, 0.0] if used == 0 else [0.0, 0.0, 3.0, 3.0])
    for _ in range(3):
        x = cf.ones(4, requires_grad=True)
        f(x)[used].sum().backward()
        assert_close(x.grad, expected)
