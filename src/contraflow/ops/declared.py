"""Importing this module declares all ops: it imports every module of the families.

The package does not do that itself. After an interrupted import Python may have a family and not
the package, and would then import the families while one of them is being imported.
"""

from importlib import import_module
from pkgutil import walk_packages

from contraflow import ops
from contraflow.tensors.source_line import OWNERS

# Functions that are not ops and whose parts users do not know.
_DRAWING = (
    "rand", "randn", "rand_like", "randn_like", "randint", "randint_like", "randperm", "normal",
    "bernoulli", "binomial", "multinomial", "poisson", "uniform_", "normal_", "exponential_",
    "bernoulli_", "random_",
)  # fmt: skip
OWNERS.update({name: name for name in _DRAWING})

for _found in walk_packages(ops.__path__, f"{ops.__name__}."):
    if _found.name != __name__:
        import_module(_found.name)
