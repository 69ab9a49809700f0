"""The ops, in families. Importing this package declares them all; `REGISTRY` lists them."""

from importlib import import_module
from pkgutil import walk_packages

from contraflow.operation.op import REGISTRY
from contraflow.tensors.storage import OWNERS

# Functions that are not ops and whose parts users do not know.
_DRAWING = (
    "rand", "randn", "rand_like", "randn_like", "randint", "randint_like", "randperm", "normal",
    "bernoulli", "multinomial", "uniform_", "normal_", "exponential_", "bernoulli_", "random_",
)  # fmt: skip
OWNERS.update({name: name for name in _DRAWING})

for _found in walk_packages(__path__, f"{__name__}."):
    import_module(_found.name)

__all__ = ["REGISTRY"]
