"""Function transforms: grad, vjp, jvp, Jacobians, Hessians, vmap and functional_call."""

from contraflow.func.modules import (
    functional_call,
    replace_all_batch_norm_modules_,
    stack_module_state,
)
from contraflow.func.transforms import (
    grad,
    grad_and_value,
    hessian,
    hvp,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    value_and_grad,
    vjp,
    vmap,
)
from contraflow.names import getter

__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "hvp",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "value_and_grad",
    "vjp",
    "vmap",
]

globals()["__getattr__"] = getter(__name__)
