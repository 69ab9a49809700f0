"""Special functions under PyTorch's names: `contraflow.special.expit` and its like.

Each is an op, declared in `ops/math.py` or beside its relatives; many have another name outside.
"""

from contraflow.ops.elementwise import erf
from contraflow.ops.elementwise import sigmoid as expit
from contraflow.ops.integers import round_ as round
from contraflow.ops.math import (
    digamma,
    entr,
    erfc,
    erfinv,
    exp2,
    expm1,
    log1p,
    logit,
    ndtr,
    polygamma,
    sinc,
    xlog1py,
    xlogy,
)
from contraflow.ops.math import digamma as psi
from contraflow.ops.math import lgamma as gammaln
from contraflow.ops.math import mvlgamma as multigammaln
from contraflow.ops.norm import log_softmax, softmax
from contraflow.ops.reduce import logsumexp

__all__ = [
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammaln",
    "log1p",
    "log_softmax",
    "logit",
    "logsumexp",
    "multigammaln",
    "ndtr",
    "polygamma",
    "psi",
    "round",
    "sinc",
    "softmax",
    "xlog1py",
    "xlogy",
]
