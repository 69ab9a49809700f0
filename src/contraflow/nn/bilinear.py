"""A bilinear form of two tensors, as a function."""

from __future__ import annotations

from contraflow.errors import describe
from contraflow.operation.public import public
from contraflow.ops.linalg.products import contract
from contraflow.ops.shape.view import reshape
from contraflow.shapes import numel
from contraflow.tensors.tensor import Tensor


@public
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input1 @ weight[o] @ input2 for every output o: [..., i], [..., j] and [o, i, j].

    >>> import contraflow as cf
    >>> cf.nn.functional.bilinear(cf.ones(2, 3), cf.ones(2, 4), cf.ones(5, 3, 4)).shape
    (2, 5)
    """
    fit = weight.ndim == 3 and input1.shape[:-1] == input2.shape[:-1]
    if not fit or weight.shape[1:] != (input1.shape[-1], input2.shape[-1]):
        raise ValueError(
            f"bilinear: {describe(input1)} and {describe(input2)} do not fit the weight "
            f"{describe(weight)}: they must be [..., i], [..., j] and [o, i, j]."
        )
    lead = input1.shape[:-1]
    rows, columns = (reshape(x, (numel(lead), x.shape[-1])) for x in (input1, input2))
    half = contract(rows, weight, spec="ni,oij->noj")
    out: Tensor = reshape(contract(half, columns, spec="noj,nj->no"), (*lead, weight.shape[0]))
    return out if bias is None else out + bias
