"""Importing this module declares all ops: it imports every module of the families, except for those
that have functions alone.

The package does not do that itself. After an interrupted import Python may have a family and not
the package, and would then import the families while one of them is being imported.
"""

from importlib import import_module
from pkgutil import walk_packages

from contraflow import collector, ops
from contraflow.tensors.source_line import OWNERS

# Functions that are not ops and whose parts users do not know.
_DRAWING = (
    "rand", "randn", "rand_like", "randn_like", "randint", "randint_like", "randperm", "normal",
    "bernoulli", "binomial", "multinomial", "poisson", "uniform_", "normal_", "exponential_",
    "bernoulli_", "random_",
)  # fmt: skip
OWNERS.update({name: name for name in _DRAWING})

_WITHOUT_OPS = {f"{ops.__name__}.{name}" for name in ("declared", "creation.arrays")}

for _found in walk_packages(ops.__path__, f"{ops.__name__}."):
    if _found.name not in _WITHOUT_OPS:
        import_module(_found.name)
collector.make_old()  # all of it stays
