"""All parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from contraflow.autograd.modes import no_grad
from contraflow.errors import describe
from contraflow.operation.public import public
from contraflow.ops.shape.joining import cat
from contraflow.ops.shape.view import reshape
from contraflow.tensors.tensor import Tensor


@public
def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """The elements of all parameters in one vector.

    >>> import contraflow as cf
    >>> parameters_to_vector(cf.nn.Linear(3, 2).parameters()).shape
    (8,)
    """
    out: Tensor = cat([reshape(p, (p.numel(),)) for p in parameters])
    return out


@public
@no_grad()
def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Write the elements of a vector into the parameters, in their order.

    >>> import contraflow as cf
    >>> layer = cf.nn.Linear(2, 1)
    >>> vector_to_parameters(cf.tensor([1.0, 2.0, 3.0]), layer.parameters())
    >>> layer.weight.tolist(), layer.bias.tolist()
    ([[1.0, 2.0]], [3.0])
    """
    listed = list(parameters)
    count = sum(p.numel() for p in listed)
    if vec.shape != (count,):
        raise ValueError(
            f"vector_to_parameters: {describe(vec)} does not fit the {count} elements of the "
            f"parameters."
        )
    start = 0
    for p in listed:
        stop = start + p.numel()
        p.copy_(reshape(vec[start:stop], p.shape))
        start = stop
