"""Modules as functions of their parameters: functional_call, and ensembles of modules."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from contraflow.operation.public import public
from contraflow.ops.shape.joining import cat
from contraflow.tensors.tensor import Tensor


@public
def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]],
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other tensors in place of its parameters and buffers, by dotted name.

    The module is as before when the call ends. A tensor that the module has under several names is
    exchanged under all of them, unless `tie_weights` is False. `strict` asks for all names.

    >>> import contraflow as cf
    >>> layer = cf.nn.Linear(1, 1, bias=False)
    >>> cf.func.functional_call(layer, {"weight": cf.tensor([[3.0]])}, cf.tensor([2.0]))
    tensor([6.])
    """
    dicts = parameter_and_buffer_dicts
    given: dict[str, Tensor] = {}
    for part in (dicts,) if isinstance(dicts, Mapping) else dicts:
        given.update(part)
    owners = {
        f"{path}.{name}" if path else name: (registry, name)
        for path, owner in module.named_modules()
        for registry in (owner._parameters, owner._buffers)
        for name, value in registry.items()
        if value is not None
    }
    unknown = [name for name in given if name not in owners]
    tied = {id(registry[name]): n for n, (registry, name) in owners.items() if n in given}
    values = {
        n: given.get(n, given.get(tied.get(id(registry[name]), "") if tie_weights else ""))
        for n, (registry, name) in owners.items()
    }
    missing = [n for n, value in values.items() if value is None] if strict else []
    if unknown or missing:
        what = [f"{n} is unknown" for n in unknown] + [f"{n} is missing" for n in missing]
        raise KeyError(f"functional_call: {', '.join(what)} in {type(module).__name__}")
    before = [(registry, name, registry[name]) for registry, name in owners.values()]
    # By C alone, which no interrupt ends halfway, and without telling the module: it is as before.
    put_back = map(dict.__setitem__, *zip(*before)) if before else ()
    try:
        for (registry, name), value in zip(owners.values(), values.values()):
            if value is not None:
                dict.__setitem__(registry, name, value)
        inputs = () if args is None else args if isinstance(args, tuple) else (args,)
        return module(*inputs, **(kwargs or {}))
    finally:
        deque(put_back, maxlen=0)  # in one call, which an interrupt does not end halfway


@public
def stack_module_state(
    models: Sequence[Any],
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters of modules of one class stacked by name, and their buffers.

    With `vmap` and `functional_call` the modules are called as one ensemble.

    >>> import contraflow as cf
    >>> models = [cf.nn.Linear(2, 1) for _ in range(3)]
    >>> parameters, buffers = cf.func.stack_module_state(models)
    >>> parameters["weight"].shape, buffers
    ((3, 1, 2), {})
    """
    if not models:
        raise ValueError("stack_module_state: there are no modules.")
    kinds = {type(model) for model in models}
    if len(kinds) > 1 or len({model.training for model in models}) > 1:
        raise ValueError("stack_module_state: the modules must be of one class and in one mode.")

    def stacked(rows: Sequence[Mapping[str, Tensor]], grad: bool) -> dict[str, Tensor]:
        found = {}
        for name in rows[0]:
            members = [row[name].detach() for row in rows]
            made = cat([x.unsqueeze(0) for x in members], 0)
            found[name] = made.requires_grad_(rows[0][name].requires_grad) if grad else made
        return found

    parameters = [dict(model.named_parameters()) for model in models]
    buffers = [dict(model.named_buffers()) for model in models]
    return stacked(parameters, True), stacked(buffers, False)


@public
def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Let batch norms keep no running statistics, in place, so that `vmap` can run a module."""
    for module in root.modules():
        if hasattr(module, "track_running_stats") and hasattr(module, "running_mean"):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
