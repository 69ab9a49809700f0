"""Examples of the ops, made from their samples: `make examples` writes them to a file.

An op's docstring is its sentence, its parameters and an example. The sentence stands in the op's
declaration; the example is made here: the smallest sample that the public signature takes, with
numbers of one decimal, and what the op then gives. `tests/house/test_docstrings.py` runs each.

python -m tests.helpers.op_examples
"""

from __future__ import annotations

import ast
import contextlib
import io
from pathlib import Path
from typing import Any

import numpy as np
from tests.helpers.op_checks import accepts, samples_of

import contraflow as cf
from contraflow import dtypes
from contraflow.nn import functional
from contraflow.operation.op import EXAMPLES, REGISTRY, Op
from contraflow.operation.samples import Array, Sample
from contraflow.tensors.tensor import Tensor
from contraflow.testing import make_inputs

WRITTEN_OUT = 12  # elements of a random input that are written out; more are a ramp
SHOWN = 16  # elements of a result that are shown; of more the shape is

# Where the public signature takes its arguments in another way than the samples.
X = "x = cf.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])"
AT = "i = cf.tensor([0, 2])"
BY_HAND = {
    "add": [X, "cf.add(x, 10.0, alpha=0.5)"],
    "addcdiv": [X, "cf.addcdiv(cf.zeros(3), x[0], x[1], value=2.0)"],
    "addcmul": [X, "cf.addcmul(cf.ones(3), x[0], x[1], value=0.5)"],
    "arange": ["cf.arange(1.0, 3.0, 0.5)"],
    "as_strided": [X, "cf.as_strided(x, (2, 2), (1, 2))"],
    "binary_cross_entropy_with_logits": [
        "cf.nn.functional.binary_cross_entropy_with_logits("
        "cf.tensor([2.0, -1.0]), cf.tensor([1.0, 0.0]))",
    ],
    "cat": [X, "cf.cat([x, x[:1]], dim=0)"],
    "column_stack": ["cf.column_stack([cf.tensor([1.0, 2.0]), cf.tensor([3.0, 4.0])])"],
    "cov": [X, "cf.cov(x)"],
    "cumsum": [X, "cf.cumsum(x, dim=1)"],
    "diff": [X, "cf.diff(x, dim=1)"],
    "dstack": ["cf.dstack([cf.tensor([1.0, 2.0]), cf.tensor([3.0, 4.0])]).shape"],
    "full": ["cf.full((2, 2), 7.0)"],
    "gather": [X, "cf.gather(x, 1, cf.tensor([[2], [0]]))"],
    "group_norm": ["cf.nn.functional.group_norm(cf.ones(2, 4, 3), num_groups=2).shape"],
    "hstack": [X, "cf.hstack([x, x])"],
    "index_add": [X, AT, "cf.index_add(x, 1, i, cf.ones(2, 2))"],
    "index_copy": [X, AT, "cf.index_copy(x, 1, i, cf.zeros(2, 2))"],
    "index_fill": [X, AT, "cf.index_fill(x, 1, i, -1.0)"],
    "index_put": [X, AT, "cf.index_put(x, (cf.tensor([0, 1]), i), cf.tensor([7.0, 8.0]))"],
    "index_reduce": [X, AT, "cf.index_reduce(x, 1, i, cf.full((2, 2), 5.0), 'amax')"],
    "index_select": [X, AT, "cf.index_select(x, 1, i)"],
    "layer_norm": [X, "cf.nn.functional.layer_norm(x, (3,))"],
    "multi_margin_loss": [X, "cf.nn.functional.multi_margin_loss(x, cf.tensor([2, 0]))"],
    "rms_norm": [X, "cf.nn.functional.rms_norm(x, (3,))"],
    "scatter": [X, "cf.scatter(x, 1, cf.tensor([[2], [0]]), 0.0)"],
    "scatter_add": [X, "cf.scatter_add(x, 1, cf.tensor([[2], [0]]), cf.ones(2, 1))"],
    "scatter_reduce": [
        X, "cf.scatter_reduce(x, 1, cf.tensor([[2], [0]]), cf.full((2, 1), 9.0), 'amax')"
    ],
    "stack": ["cf.stack([cf.tensor([1.0, 2.0]), cf.tensor([3.0, 4.0])])"],
    "vstack": ["cf.vstack([cf.tensor([1.0, 2.0]), cf.tensor([3.0, 4.0])])"],
}  # fmt: skip


def public_name(op: Op) -> str | None:
    """How a user reaches an op."""
    if not op.internal and getattr(cf, op.name, None) is op:
        return f"cf.{op.name}"
    for place, names in (
        ("nn.functional", functional.__all__), ("linalg", cf.linalg.__all__),
        ("special", cf.special.__all__),
    ):  # fmt: skip
        for name in names:
            if _reach(f"{place}.{name}") is op:
                return f"cf.{place}.{name}"
    return None


def _reach(path: str) -> Any:
    found: Any = cf
    for part in path.split("."):
        found = getattr(found, part)
    return found


def _dtype(dtype: Any) -> str:
    return f"cf.{dtype.name if hasattr(dtype, 'name') else dtype}"


def _value(x: Any) -> str:
    return _dtype(x) if isinstance(x, dtypes.DType) else repr(x)


def _rounded(x: Any) -> Any:
    if isinstance(x, np.ndarray) and x.dtype.kind == "f":
        return np.asarray(np.round(x, 1) + 0.0, np.float64 if x.dtype == np.float64 else x.dtype)
    return x


def _written(x: np.ndarray, given: Any) -> str:
    """An array as a user would write it."""
    dtype = dtypes.from_numpy(x.dtype)
    kind = "" if dtype in (cf.float32, cf.int64, cf.bool) else f", dtype={_dtype(dtype)}"
    if x.size > WRITTEN_OUT and isinstance(given, Array) and dtype is cf.float32:
        low, high = round(given.low + 0.1, 1), round(given.high - 0.1, 1)
        return f"cf.linspace({low}, {high}, {x.size}).reshape{x.shape}"
    short = x.astype(np.float64).round(1) if dtype is cf.float32 else x
    return f"cf.tensor({short.tolist()}{kind})"


def _statement(op: Op, name: str, sample: Sample) -> tuple[list[str], str]:
    """The lines that make the inputs, and the call."""
    lines, parts = [], []
    names = list(op.inputs) or [f"x{i}" for i in range(len(sample.inputs))]
    for own, x, given in zip(names, map(_rounded, make_inputs(sample)), sample.inputs):
        if not isinstance(x, np.ndarray):
            parts.append(_value(x))
            continue
        if x.dtype == np.float64:
            x = x.astype(np.float32)
        if op.is_elementwise and x.ndim > 1:
            x = x.reshape(-1, x.shape[-1])[0]
        lines.append(f"{own} = {_written(x, given)}")
        parts.append(own)
    first = f"[{', '.join(parts)}]" if op.variadic else ", ".join(parts)
    rest = [f"{key}={_value(value)}" for key, value in sample.params.items()]
    return lines, f"{name}({', '.join([first, *rest] if first else rest)})"


def _count(sample: Sample) -> int:
    return sum(x.size for x in make_inputs(sample) if isinstance(x, np.ndarray))


def _shown(result: Any, only_shapes: bool) -> str:
    """What follows the call in the last line: nothing, or what is shown of it."""
    parts = result if isinstance(result, (tuple, list)) else [result]
    tensors = [part for part in parts if isinstance(part, Tensor)]
    if only_shapes or sum(t.numel() for t in tensors) > SHOWN or any(t.ndim > 2 for t in tensors):
        return ".shape" if isinstance(result, Tensor) else "shapes"
    return ""


def _transcript(lines: list[str], call: str, only_shapes: bool) -> str:
    """The lines with what Python prints after the last."""
    space: dict[str, Any] = {"cf": cf}
    for line in lines:
        exec(line, space)
    result = eval(call, space)
    shown = _shown(result, only_shapes)
    last = f"[tuple(part.shape) for part in {call}]" if shown == "shapes" else call + shown
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(last, "<example>", "single"), space)
    said = [*(f">>> {line}" for line in [*lines, last]), printed.getvalue().rstrip()]
    return "\n".join([_shapes(call, result, space), *said])


def _shapes(call: str, result: Any, space: dict[str, Any]) -> str:
    """The shapes that the tensors of the example have: those it is given, and those it gives."""
    tree: Any = ast.parse(call, mode="eval").body
    if isinstance(tree, ast.Attribute):  # of a call that is shown by its shape
        result, tree = eval(call.rpartition(".")[0], space), tree.value
    given = [*tree.args, *(keyword.value for keyword in tree.keywords)]
    values = [(node, eval(ast.unparse(node), space)) for node in given]
    named = [
        f"{node.id} {list(x.shape)}" if isinstance(node, ast.Name) else str(list(x.shape))
        for node, value in values
        for x in (value if isinstance(value, (tuple, list)) else [value])
        if isinstance(x, Tensor)
    ]
    parts = result if isinstance(result, (tuple, list)) else [result]
    made = [str(list(x.shape)) for x in parts if isinstance(x, Tensor)] or [type(result).__name__]
    return f"Shapes: {', '.join(named) or 'no tensor'} to {', '.join(made)}."


def example(op: Op) -> str | None:
    """The example of an op; None for one that users cannot reach."""
    name = public_name(op)
    if name is None:
        return None
    if op.name in BY_HAND:
        *lines, call = BY_HAND[op.name]
        return _transcript(lines, call, False)
    # Random numbers, and matrices whose factors have signs of LAPACK's choice.
    only_shapes = op.kind.name == "random" or op.effects or op.is_opaque or op.kind.name == "host"
    found = sorted((s for s in samples_of(op) if accepts(op, s.params)), key=_count)
    full = [s for s in found if _count(s) > 1]
    for sample in [*full, *found]:
        try:
            return _transcript(*_statement(op, name, sample), only_shapes)
        except Exception:
            continue
    return None


def text() -> str:
    """All examples."""
    rows = []
    for name, op in sorted(REGISTRY.items()):
        made = example(op)
        if made is not None:
            rows.append(f"===== {name}\n{made}\n")
    return "".join(rows)


def main() -> None:
    """Write the file."""
    Path(EXAMPLES).write_text(text())


if __name__ == "__main__":
    main()
