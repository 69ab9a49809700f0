"""The ops. Importing this package declares them all; `REGISTRY` lists them."""

from contraflow.op import REGISTRY
from contraflow.ops import (
    create,
    elementwise,
    index,
    linalg,
    nn,
    order,
    random,
    reduce,
    view,
    window,
)

__all__ = [
    "REGISTRY",
    "create",
    "elementwise",
    "index",
    "linalg",
    "nn",
    "order",
    "random",
    "reduce",
    "view",
    "window",
]
