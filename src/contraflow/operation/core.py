"""The ops that layers below `ops/` apply: `core.full(shape, 0.0)`.

Those layers cannot import the modules that declare ops. Each name here becomes the op when it is
declared, so that applying one costs no lookup in the registry.
"""

import sys

from contraflow.operation.op import REGISTRY, Op

add: Op
arange: Op
as_strided: Op
assign: Op
cat: Op
clone: Op
contiguous: Op
contract: Op
eq: Op
expand: Op
full: Op
isclose: Op
isnan: Op
movedim: Op
mul: Op
permute: Op
reshape: Op
select: Op
stack: Op
strided: Op
sum: Op
to_device: Op
to_dtype: Op
transpose: Op
unsqueeze: Op
view: Op
where: Op

NAMES = frozenset(sys.modules[__name__].__annotations__)


def _set(op: Op) -> None:
    if op.name in NAMES:
        globals()[op.name] = op


REGISTRY.subscribe(_set)
