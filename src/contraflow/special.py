"""Special functions under PyTorch's names, such as `contraflow.special.expit`.

Each is an op, most of them declared in `ops/elementwise`; many have another name outside.
"""

from contraflow.names import getter
from contraflow.ops.elementwise.basic import erf
from contraflow.ops.elementwise.basic import sigmoid as expit
from contraflow.ops.elementwise.bessel import i0, i0e, i1, i1e
from contraflow.ops.elementwise.incomplete import igamma as gammainc
from contraflow.ops.elementwise.incomplete import igammac as gammaincc
from contraflow.ops.elementwise.integers import round_ as round
from contraflow.ops.elementwise.mathematics import (
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
from contraflow.ops.elementwise.mathematics import digamma as psi
from contraflow.ops.elementwise.mathematics import lgamma as gammaln
from contraflow.ops.elementwise.mathematics import mvlgamma as multigammaln
from contraflow.ops.nn.norm import log_softmax, softmax
from contraflow.ops.reduction.reduce import logsumexp

__all__ = [
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammainc",
    "gammaincc",
    "gammaln",
    "i0",
    "i0e",
    "i1",
    "i1e",
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

globals()["__getattr__"] = getter(__name__)
