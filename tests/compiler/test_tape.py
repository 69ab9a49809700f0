"""Tapes as text: what is printed is read back, what is wrong is named, what runs equals eager."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import contraflow as cf
from contraflow import dtypes
from contraflow.compiler.interpret import run_tape
from contraflow.compiler.tape import Tape, Value
from contraflow.operation.context import apply
from contraflow.operation.op import REGISTRY, Op
from contraflow.operation.reference import run_reference
from contraflow.operation.samples import Sample
from contraflow.runtime.executable import load
from contraflow.spec import Spec
from contraflow.testing import assert_close, make_inputs

EXAMPLE = """\
tape step
  input %0 : float32[2, 3]  arg
  input %1 : float32[4, 3]  state
  input %2 : float64[]  scalar
  %3 = strided(%1, shape=(3, 4), strides=(1, 3), offset=0) : float32[3, 4]
  %4 = matmul(%0, %3) : float32[2, 4]
  %5, %6 = max(%4, dim=(1,), keepdim=False) : float32[2], int64[2]
  %7 = mul(%1, %2) : float32[4, 3]
  %8 = sub(%7, 0.5) : float32[4, 3]  region 2
  write %1 = %8
  return %5, %6"""


def stands_on_tapes(op: Op) -> bool:
    if op.dynamic or op.kind.lowering == "composite" or op.own_kernel:
        return False
    return op.kind.lowering != "view" or op.name == "strided"


def one_line(op: Op, sample: Sample) -> tuple[Tape, list[Any]]:
    """A tape that applies an op to a sample, and the arrays of its inputs."""
    given, tape, arrays, operands = make_inputs(sample), Tape(op.name), [], []
    for x in given:
        if isinstance(x, np.ndarray):
            arrays.append(np.ascontiguousarray(x).reshape(x.shape))
            dtype = cf.tensor(x).dtype
            operands.append(tape.add_input(Spec(x.shape, dtype), "arg"))
        else:
            operands.append(x)
    params = dict(op.params) | dict(sample.params)
    tape.outputs = list(tape.add(op, tuple(operands), params))
    return tape, arrays


CASES = [
    pytest.param(op, sample, id=f"{op.name}-{i}")
    for op in REGISTRY.values()
    if stands_on_tapes(op)
    for i, sample in enumerate(op.samples())
]


def plain(x: Any) -> Any:
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    return tuple(map(plain, x)) if isinstance(x, tuple) and not isinstance(x, Value) else x


def equal(a: Tape, b: Tape) -> None:
    assert a.text() == b.text()
    assert (a.name, a.specs, a.inputs, a.writes, a.outputs) == (
        b.name, b.specs, b.inputs, b.writes, b.outputs,
    )  # fmt: skip
    for x, y in zip(a.lines, b.lines, strict=True):
        assert (x.outs, x.op, x.region) == (y.outs, y.op, y.region)
        assert list(x.params) == list(y.params)
        # As text, since NaN is not NaN; a named tuple may come back as a tuple.
        assert repr((x.inputs, plain(x.params))) == repr((y.inputs, plain(y.params)))
        assert [type(i) for i in x.inputs] == [type(i) for i in y.inputs]


@pytest.mark.parametrize(("op", "sample"), CASES)
def test_every_op_is_printed_and_read_back(op: Op, sample: Sample) -> None:
    tape, _ = one_line(op, sample)
    tape.verify()
    equal(Tape.parse(tape.text()).verify(), tape)


@pytest.mark.parametrize(("op", "sample"), CASES)
def test_every_op_runs_as_in_eager(op: Op, sample: Sample, mode: str) -> None:
    tape, arrays = one_line(op, sample)
    tape = Tape.parse(tape.text())
    given = iter(arrays)
    inputs = [cf.tensor(next(given)) if isinstance(x, Value) else x for x in tape.lines[0].inputs]
    expected = apply(op, tuple(inputs), tape.lines[0].params)
    outs = expected if isinstance(expected, tuple) else (expected,)
    copies = [a.copy() for a in arrays]
    results = load(tape).run([a.reshape(-1) for a in copies], [])
    for result, out in zip(results, outs, strict=True):
        assert result.dtype == out.array.dtype
        if mode == "interpret":
            np.testing.assert_array_equal(result, out.array)
        else:
            assert_close(result, out.array)
    for a, b in zip(copies, arrays):
        np.testing.assert_array_equal(a, b, "an input was written to")


def test_the_example_is_read_and_printed_letter_by_letter() -> None:
    tape = Tape.parse(EXAMPLE).verify()
    assert tape.text() == EXAMPLE
    assert str(tape) == EXAMPLE
    assert tape.lines[-1].region == 2
    assert tape.inputs[Value(2)] == "scalar"


def test_a_program_runs_with_writes_and_host_scalars(mode: str) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, 3)).astype(np.float32), rng.normal(size=(4, 3)).astype(np.float32)
    kept = w.copy()
    values, indices = load(Tape.parse(EXAMPLE)).run([x.reshape(-1), w.reshape(-1)], [0.25])
    product = x @ kept.T
    np.testing.assert_allclose(values, product.max(1), rtol=1e-6)
    np.testing.assert_array_equal(indices, product.argmax(1))
    np.testing.assert_allclose(w, kept * np.float32(0.25) - np.float32(0.5), rtol=1e-6)


def test_run_tape_gives_results_and_leaves_inputs_alone() -> None:
    tape = Tape.parse(EXAMPLE)
    x, w = np.ones((2, 3), np.float32), np.ones((4, 3), np.float32)
    found = run_tape(tape, {Value(0): x, Value(1): w, Value(2): 2.0})
    assert set(found) == {Value(5), Value(6), Value(8)}
    np.testing.assert_array_equal(w, 1)
    np.testing.assert_array_equal(found[Value(8)], 1.5)


LITERALS = [
    0, 1, -7, 1 << 62, True, False, 0.0, -0.0, 1.5, -2e-30, 1e300, 0.1, math.inf, -math.inf,
    math.nan,
]  # fmt: skip


@pytest.mark.parametrize("number", LITERALS, ids=repr)
def test_literals(number: Any) -> None:
    tape = Tape()
    x = tape.add_input(Spec((2,), cf.float64), "arg")
    tape.outputs = list(tape.add(REGISTRY["add"], (x, number), {}))
    read = Tape.parse(tape.text())
    found = read.lines[0].inputs[1]
    assert type(found) is type(number)
    assert repr(found) == repr(number)


@pytest.mark.parametrize(
    "value",
    [
        (), (1,), (1, 2), ((1, 2), (0, 1)), None, "mk,nk->mn", "it's", True, 2.5, -1, (1.5, None),
        math.inf, (math.nan,), cf.float32, cf.bfloat16, dtypes.bool_, (cf.int64, 3),
    ],
    ids=repr,
)  # fmt: skip
def test_parameters(value: Any) -> None:
    tape = Tape()
    x = tape.add_input(Spec((2, 2), cf.float32), "arg")
    (out,) = tape.add(REGISTRY["clone"], (x,), {})
    tape.lines[0] = type(tape.lines[0])((out,), REGISTRY["clone"], (x,), {"p": value, "q": 0})
    found = Tape.parse(tape.text()).lines[0].params
    assert repr(found) == repr({"p": value, "q": 0})
    assert type(found["p"]) is type(value)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 0, 3), (5, 1, 1, 2)])
@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_specs(shape: tuple[int, ...], dtype: Any) -> None:
    tape = Tape("t")
    x = tape.add_input(Spec(shape, dtype), "grad")
    tape.outputs = [x]
    assert Tape.parse(tape.text()).specs[x] == Spec(shape, dtype)


@pytest.mark.parametrize("role", ["arg", "state", "grad", "constant", "scalar"])
def test_roles(role: str) -> None:
    tape = Tape("t")
    tape.outputs = [tape.add_input(Spec((), cf.float64), role)]
    assert Tape.parse(tape.text()).inputs == tape.inputs


def test_an_empty_tape() -> None:
    assert Tape("nothing").text() == "tape nothing\n  return"
    equal(Tape.parse("tape nothing\n  return").verify(), Tape("nothing"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Tape.parse: the text does not begin with `tape NAME`."),
        ("step\n  return", "Tape.parse: the text does not begin with `tape NAME`."),
        ("tape t\n  hello", "cannot read 'hello': it is neither an input, an op, a write nor a"),
        ("tape t\n  input %0 : float33[2]  arg", "cannot read 'input %0 : float33[2]  arg'"),
        ("tape t\n  %0 = nonsense(1) : float32[2]", "cannot read '%0 = nonsense(1) : float32[2]'"),
        ("tape t\n  %0 = full(1, shape=(2,) : float32[2]", "cannot read '%0 = full("),
        ("tape t\n  %0 = full(1, shape=f(2)) : float32[2]", "is not a value"),
        ("tape t\n  %0, %1 = full(1, shape=(2,), dtype=float32) : float32[2]", "cannot read"),
        ("tape t\n  %0 = full(1, shape=(2,), dtype=float32) : nothing", "cannot read"),
        ("tape t\n  input %0 : float32[2]  nobody", "cannot read 'input %0 : float32[2]  nobody'"),
        ("tape t\n  input %0 : int8[2]  arg\n  input %0 : int8[3]  arg", "%0 is defined twice"),
    ],
)  # fmt: skip
def test_text_that_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"Tape\.parse") as raised:
        Tape.parse(text)
    assert message in str(raised.value)


HEAD = "tape t\n  input %0 : float32[2, 3]  arg\n"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("  %1 = exp(%2) : float32[2, 3]\n  return %1",
         "%1 = exp: %2 is used before it is defined."),
        ("  %1 = exp(%0) : float32[3, 2]\n  return %1", "%1 = exp: the op gives float32[2, 3]."),
        ("  %1 = exp(%0) : float64[2, 3]\n  return %1", "%1 = exp: the op gives float32[2, 3]."),
        ("  %1 = exp(%0) : float32[2, 3]\n  %1 = sin(%0) : float32[2, 3]\n  return %1",
         "%1 = sin: %1 is defined twice."),
        ("  %0 = exp(%0) : float32[2, 3]\n  return %0", "%0 = exp: %0 is defined twice."),
        ("  return %4", "%4 is a result but never defined."),
        ("  write %0 = %3\n  return", "%3 is a result but never defined."),
        ("  %1 = exp(%0) : float32[2, 3]\n  write %1 = %0\n  return",
         "write %1 = %0: %1 is not an input."),
        ("  %1 = sum(%0, dim=(1,), keepdim=False) : float32[2]\n  write %0 = %1\n  return",
         "write %0 = %1: float32[2] does not fit float32[2, 3]."),
        ("  %1 = softmax(%0, dim=1) : float32[2, 3]\n  return %1",
         "%1 = softmax: a composite cannot stand on a tape."),
        ("  %1 = permute(%0, dims=(1, 0)) : float32[3, 2]\n  return %1",
         "%1 = permute: views are written as strided lines."),
        ("  %1 = strided(%0, shape=(2, 2), strides=(3, 2), offset=2) : float32[2, 2]\n  return %1",
         "%1 = strided: reaches element 7 of 6."),
    ],
)  # fmt: skip
def test_verify_names_what_is_wrong(rows: str, message: str) -> None:
    with pytest.raises(ValueError, match=r".") as raised:
        Tape.parse(HEAD + rows).verify()
    assert str(raised.value) == message


def test_wrong_operands_are_the_op_s_own_error() -> None:
    text = HEAD + "  %1 = matmul(%0, %0) : float32[2, 3]\n  return %1"
    with pytest.raises(ValueError, match="matmul: cannot multiply"):
        Tape.parse(text).verify()


def test_samples_equal_references() -> None:
    op = REGISTRY["gather"]
    sample = next(iter(op.samples()))
    tape, arrays = one_line(op, sample)
    (out,) = run_reference(op, arrays, tape.given(tape.lines[0].inputs), tape.lines[0].params)
    (got,) = run_tape(tape, dict(zip(tape.inputs, arrays))).values()
    np.testing.assert_array_equal(got, out)


def test_equal_literals_of_other_types_give_other_dtypes() -> None:
    tape = Tape()
    x = tape.add_input(Spec((3,), dtypes.bool_), "arg")
    found = [tape.add(REGISTRY["mul"], (x, n), {})[0] for n in (True, 1, 1.0, 1)]
    assert [tape.specs[v].dtype for v in found] == [
        dtypes.bool_, dtypes.int64, dtypes.float32, dtypes.int64,
    ]  # fmt: skip
    dtypes.set_default_dtype(dtypes.float64)
    try:
        (wide,) = tape.add(REGISTRY["mul"], (x, 1.0), {})
    finally:
        dtypes.set_default_dtype(dtypes.float32)
    assert tape.specs[wide].dtype is dtypes.float64
