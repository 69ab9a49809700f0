"""Importing this module declares all ops: it imports every module of the families, except for those
that have functions alone.

The package does not do that itself. After an interrupted import Python may have a family and not
the package, and would then import the families while one of them is being imported.
"""

import os
from importlib import import_module
from types import ModuleType

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


def _import_all(package: ModuleType) -> None:
    """Import the modules of a package, and those of the packages in it."""
    for file in sorted({file.partition(".")[0] for file in os.listdir(package.__path__[0])}):
        name = f"{package.__name__}.{file}"
        if file.isidentifier() and not file.startswith("_") and name not in _WITHOUT_OPS:
            module = import_module(name)
            if hasattr(module, "__path__"):
                _import_all(module)


_import_all(ops)
collector.make_old()  # all of it stays
