"""Contractions of any number of operands: einsum, tensordot and inner.

All go through `contract_all`, which sums, multiplies and contracts pairs until one is left. The
primitive, `contract`, wants every label of an operand in the other one or in the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from contraflow.errors import MismatchError, describe
from contraflow.operation.context import apply
from contraflow.operation.kinds import composite
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.ops.linalg.products import contract
from contraflow.ops.reduction.reduce import sum_
from contraflow.ops.shape.parts import diagonal
from contraflow.ops.shape.view import contiguous, permute, reshape, select
from contraflow.shapes import LETTERS, normalize_dim, numel
from contraflow.tensors.tensor import Tensor


def _aligned(x: Tensor, labels: str, wanted: str) -> Tensor:
    """Dims in the order of `wanted`, of size one where x lacks a label."""
    x = permute(x, tuple(labels.index(c) for c in wanted if c in labels))
    sizes = iter(x.shape)
    return reshape(x, tuple(next(sizes) if c in labels else 1 for c in wanted))


def _reduced(x: Tensor, labels: str, keep: set[str]) -> tuple[Tensor, str]:
    """Sum over the labels that nobody else needs."""
    lost = tuple(d for d, c in enumerate(labels) if c not in keep)
    return (sum_(x, dim=lost) if lost else x), "".join(c for c in labels if c in keep)


def _product(a: tuple[Tensor, str], b: tuple[Tensor, str], out: str) -> tuple[Tensor, str]:
    (x, left), (y, right) = a, b
    if set(left + right) == set(out):  # nothing is summed, so it need not be a contraction
        return _aligned(x, left, out) * _aligned(y, right, out), out
    return contract(x, y, spec=f"{left},{right}->{out}"), out


def contract_all(operands: Sequence[Tensor], labels: Sequence[str], out: str) -> Tensor:
    """The sum, over all labels that `out` lacks, of the product of the operands.

    Pairs are taken greedily: fewest multiplications first, then the smallest product.
    """
    sizes = {c: n for x, names in zip(operands, labels) for c, n in zip(names, x.shape)}
    terms = list(zip(operands, labels))

    def needed(*without: int) -> set[str]:
        rest = [names for i, (_, names) in enumerate(terms) if i not in without]
        return set(out).union(*rest)

    def cost(i: int, j: int) -> tuple[int, int]:
        both = set(terms[i][1] + terms[j][1])
        return numel(sizes[c] for c in both), numel(sizes[c] for c in both & needed(i, j))

    terms = [_reduced(x, names, needed(i)) for i, (x, names) in enumerate(terms)]
    while len(terms) > 1:
        pairs = [(i, j) for j in range(len(terms)) for i in range(j)]
        i, j = min(pairs, key=lambda pair: cost(*pair))
        keep = needed(i, j)
        names = terms[i][1] + terms[j][1]
        kept = out if len(terms) == 2 else "".join(c for c in dict.fromkeys(names) if c in keep)
        product = _product(terms[i], terms[j], kept)
        terms = [t for k, t in enumerate(terms) if k not in (i, j)] + [product]
    ((x, names),) = terms
    return x if names == out else permute(x, tuple(names.index(c) for c in out))


def _einsum_labels(equation: str, operands: Sequence[Tensor]) -> tuple[list[str], str]:
    """One letter per dim of each operand and of the result: no dots, nothing implicit."""
    equation = equation.replace(" ", "")
    left, arrow, out = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise ValueError(f"einsum: {equation!r} names {len(terms)} operands, not {len(operands)}.")
    letters = {c for c in left + out if c not in ",."}
    if not letters <= set(LETTERS):
        wrong = sorted(letters - set(LETTERS))
        raise ValueError(f"einsum: {equation!r} holds {wrong[0]!r}; labels are letters.")
    ranks = []
    for term, x in zip(terms, operands):
        named = len(term.replace("...", "", 1))
        fits = named <= x.ndim if "..." in term else named == x.ndim
        if not fits or "." in term.replace("...", "", 1):
            raise MismatchError(f"einsum: {term!r} does not label the dims of {describe(x)}.")
        ranks.append(x.ndim - named if "..." in term else 0)
    spare = "".join(c for c in LETTERS if c not in letters)
    dots = spare[: max(ranks)]
    labels = [t.replace("...", dots[len(dots) - rank :]) for t, rank in zip(terms, ranks)]
    if not arrow:
        out = "..." + "".join(sorted(c for c in letters if left.count(c) == 1))
    out = out.replace("...", dots, 1)
    known = set("".join(labels))
    if len(set(out)) != len(out) or not set(out) <= known:
        raise ValueError(
            f"einsum: the result {out!r} repeats a label, or has one that no operand has."
        )
    return labels, out


def _without_repeats(x: Tensor, labels: str) -> tuple[Tensor, str]:
    """Diagonals where a label stands twice."""
    for c in dict.fromkeys(labels):
        while labels.count(c) > 1:
            i = labels.index(c)
            j = labels.index(c, i + 1)
            if x.shape[i] != x.shape[j]:
                raise MismatchError(
                    f"einsum: label {c!r} has sizes {x.shape[i]} and {x.shape[j]} in one operand."
                )
            x = diagonal(x, 0, i, j)
            labels = labels[:i] + labels[i + 1 : j] + labels[j + 1 :] + c
    return x, labels


def _without_ones(x: Tensor, labels: str, sizes: dict[str, int]) -> tuple[Tensor, str]:
    """Dims of size one dropped where another operand has more of them: they broadcast."""
    for d in reversed(range(x.ndim)):
        if x.shape[d] == 1 and sizes[labels[d]] != 1:
            x, labels = select(x, d, 0), labels[:d] + labels[d + 1 :]
        elif x.shape[d] != sizes[labels[d]]:
            raise MismatchError(
                f"einsum: dim {d} of {describe(x)} has size {x.shape[d]}, but elsewhere its "
                f"label has size {sizes[labels[d]]}."
            )
    return x, labels


@composite(
    ref=lambda *operands, equation: np.einsum(equation, *operands),
    samples=lambda: (
        Sample((Array((3, 4)), Array((4, 2))), {"equation": "ij,jk"}),
        Sample((Array((2, 3, 3)),), {"equation": "...ii->...i"}),
        Sample((Array((2, 3)), Array((3, 4)), Array((4, 2))), {"equation": "ab,bc,cd->da"}),
        Sample((Array((5, 2, 3)), Array((3,)), Array((2,))), {"equation": "...ij,j,i->..."}),
        Sample((Array((3, 4)), Array((1, 4))), {"equation": "ij,ij->i"}),
    ),
    failures=lambda: (
        Failure((Array((2, 3)),), {"equation": "ij,jk"}, ValueError, "names 2 operands, not 1"),
        Failure((Array((2, 3)),), {"equation": "ijk->i"}, ValueError, "'ijk' does not label the"),
        Failure((Array((2, 3)),), {"equation": "ij->k"}, ValueError, "one that no operand has"),
        Failure((Array((2, 3)),), {"equation": "ii"}, ValueError, "'i' has sizes 2 and 3 in"),
        Failure(
            (Array((2, 3)), Array((4, 2))), {"equation": "ij,jk"}, ValueError,
            "einsum: dim 0 of float64[4, 2] has size 4, but elsewhere its label has size 3.",
        ),
    ),
    method=False,
    autocast="low",
)  # fmt: skip
def einsum(*operands, equation):
    """Products of operands summed over labels: einsum("ij,jk->ik", a, b) is a @ b."""
    labels, out = _einsum_labels(equation, operands)
    plain = [_without_repeats(x, names) for x, names in zip(operands, labels)]
    sizes: dict[str, int] = {}
    for x, names in plain:
        for c, n in zip(names, x.shape):
            sizes[c] = n if sizes.get(c, 1) == 1 else sizes[c]
    plain = [_without_ones(x, names, sizes) for x, names in plain]
    result = contract_all([x for x, _ in plain], [names for _, names in plain], out)
    moves_only = len(operands) == 1 and len(set(labels[0])) == len(out)
    return result if moves_only else contiguous(result)


@einsum.signature
def _einsum(*args: Any, equation: str | None = None) -> Tensor:
    if equation is None and args and isinstance(args[0], Tensor):
        return _einsum_by_numbers(args)
    operands = args if equation is not None else args[1:]
    equation = args[0] if equation is None else equation
    if len(operands) == 1 and isinstance(operands[0], (tuple, list)):
        operands = tuple(operands[0])
    if not operands:
        raise ValueError("einsum: there are no operands.")
    return apply(einsum, operands, {"equation": equation})


def _einsum_by_numbers(args: tuple[Any, ...]) -> Tensor:
    """PyTorch's other form: einsum(a, [0, 1], b, [1, 2], [0, 2])."""
    operands, lists = args[0 : len(args) // 2 * 2 : 2], args[1::2]
    out = args[-1] if len(args) % 2 else None

    def term(numbers: Any) -> str:
        return "".join("..." if n is Ellipsis else LETTERS[n] for n in numbers)

    equation = ",".join(map(term, lists)) + ("" if out is None else "->" + term(out))
    return apply(einsum, tuple(operands), {"equation": equation})


def _tensordot_dims(a: Tensor, b: Tensor, dims: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if isinstance(dims, int):
        if not 0 <= dims <= min(a.ndim, b.ndim):
            raise ValueError(
                f"tensordot: cannot sum over {dims} dims of {describe(a)} and {describe(b)}."
            )
        return tuple(range(a.ndim - dims, a.ndim)), tuple(range(dims))
    left, right = ((d,) if isinstance(d, int) else tuple(d) for d in dims)
    if len(left) != len(right):
        raise ValueError(f"tensordot: dims {left} and {right} differ in number.")
    return (
        tuple(normalize_dim("tensordot", d, a.ndim) for d in left),
        tuple(normalize_dim("tensordot", d, b.ndim) for d in right),
    )


def _np_tensordot(a: np.ndarray, b: np.ndarray, dims: Any) -> np.ndarray:
    if dims == 1 and a.shape[-1] == 1:
        a = np.broadcast_to(a, (*a.shape[:-1], b.shape[0]))
    return np.tensordot(a, b, dims)


@composite(
    ref=_np_tensordot,
    samples=lambda: (
        Sample((Array((2, 3, 4)), Array((3, 4, 5))), {"dims": 2}),
        Sample((Array((2, 3, 4)), Array((4, 5, 2))), {"dims": ((0, 2), (2, 0))}),
        Sample((Array((2,)), Array((3,))), {"dims": 0}),
        Sample((Array((2, 1)), Array((3, 2))), {"dims": 1}),
    ),
    failures=lambda: (
        Failure((Array((2, 3)), Array((4, 3))), {"dims": 1}, ValueError, "sizes 3 and 4 differ"),
        Failure((Array((2,)), Array((2,))), {"dims": ((0,), ())}, ValueError, "differ in number"),
        Failure((Array((2,)), Array((2,))), {"dims": 2}, ValueError, "cannot sum over 2 dims"),
    ),
    method=False,
    autocast="low",
)
def tensordot(a, b, *, dims=2):
    """Sum over the last `dims` dims of a and the first of b, or over two lists of dims."""
    left, right = _tensordot_dims(a, b, dims)
    for i, j in zip(left, right):
        # As in broadcasting, one element meets each of many.
        if a.shape[i] == 1 < b.shape[j]:
            b = sum_(b, j, True, dtype=b.dtype)
        elif b.shape[j] == 1 < a.shape[i]:
            a = sum_(a, i, True, dtype=a.dtype)
        if a.shape[i] != b.shape[j]:
            raise MismatchError(
                f"tensordot: cannot contract dim {i} of {describe(a)} with dim {j} of "
                f"{describe(b)}: sizes {a.shape[i]} and {b.shape[j]} differ."
            )
    letters = LETTERS
    first = letters[: a.ndim]
    second = list(letters[a.ndim : a.ndim + b.ndim])
    for i, j in zip(left, right):
        second[j] = first[i]
    out = [c for d, c in enumerate(first) if d not in left]
    out += [c for d, c in enumerate(second) if d not in right]
    return contract_all((a, b), (first, "".join(second)), "".join(out))


@composite(
    ref=np.inner,
    samples=lambda: (
        Sample((Array((2, 3)), Array((4, 3)))),
        Sample((Array((3,)), Array((3,)))),
        Sample((Array(()), Array((3,)))),
    ),
    failures=lambda: (
        Failure((Array((2,)), Array((3,))), {}, ValueError, "inner: the last sizes of float64[2]"),
    ),
)
def inner(x, other):
    """Products summed over the last dim of both; a 0-d tensor multiplies the other."""
    if not x.ndim or not other.ndim:
        return x * other
    if x.shape[-1] != other.shape[-1]:
        raise MismatchError(f"inner: the last sizes of {describe(x)} and {describe(other)} differ.")
    return tensordot(x, other, dims=((-1,), (-1,)))
