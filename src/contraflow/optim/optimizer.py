"""The base of all optimizers: parameter groups, state, and what goes around an update.

Hyper-parameters and step counters are host scalars (`host_scalar.py`): Python floats in eager mode,
0-d float64 tensors while a step is being recorded. So an update computes with them as both can
(`beta**step`, `x**0.5`, `choose`), never asks for their value, and a schedule changes the learning
rate of a compiled step without compiling anything. Decisions in Python go through `ParamGroup.uses`
and `ParamGroup.fixed`, which a recording guards on.

The parameters of a group that have always been updated together share their step counters, so that
what follows from a counter is computed once for all of them.
"""

from __future__ import annotations

import copy
import functools
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from contraflow.autograd.modes import enable_grad, no_grad
from contraflow.capture.compile import CompileOptions, compiled_function, runs_native
from contraflow.errors import describe
from contraflow.nn.module import clear_gradients
from contraflow.operation.context import changed, other_devices
from contraflow.operation.context import state as thread_state
from contraflow.ops.elementwise.basic import where
from contraflow.optim.groups import ParamGroup, ParamGroups
from contraflow.optim.hooks import (
    HookedOptimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from contraflow.optim.state import OptimizerState, ParameterState, States, as_counter
from contraflow.tensors.host_scalar import HostScalar, StepScalar
from contraflow.tensors.source_line import user_line
from contraflow.tensors.tensor import Tensor
from contraflow.tensors.tree import leaves_of, map_leaves

if TYPE_CHECKING:
    from contraflow.capture.compiled import Compiled

__all__ = [
    "Optimizer",
    "OptimizerState",
    "ParamGroup",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
]


class Implementation(TypedDict, total=False):
    """PyTorch's choices among implementations of an optimizer. There is one here, which is fused.

    A step can be differentiated, or captured by `contraflow.compile`, whatever they say.
    """

    foreach: bool | None
    fused: bool | None
    capturable: bool
    differentiable: bool


def check_implementation(name: str, given: Mapping[str, Any]) -> None:
    """Refuse a keyword that is not one of these choices."""
    unknown = given.keys() - Implementation.__annotations__.keys()
    if unknown:
        wrong = min(unknown)
        meant = " Did you mean lr?" if wrong in ("learning_rate", "eta", "alpha", "rate") else ""
        raise TypeError(f"{name}: argument {wrong!r} is unknown.{meant}")


class Updated(NamedTuple):
    """A parameter about to be updated, with its gradient and its state."""

    parameter: Tensor
    grad: Tensor
    state: OptimizerState


def together(updated: Sequence[Updated]) -> Iterator[tuple[OptimizerState, list[Updated]]]:
    """The parameters that share their step counters, which count one more step, with a state."""
    shared: dict[HostScalar, list[Updated]] = {}
    for u in updated:
        shared.setdefault(u.state["step"], []).append(u)
    for step, members in shared.items():
        step.set(step.get() + 1)
        yield members[0].state, members


def choose(condition: Any, a: Any, b: Any) -> Any:
    """`a` or `b`, by a condition on host scalars."""
    if isinstance(condition, Tensor):
        return where(condition, a, b)
    return a if condition else b


def directed(group: ParamGroup, p: Tensor, g: Tensor) -> Tensor:
    """The gradient to go against; weight decay adds to it, or shrinks the parameter at once."""
    if group["maximize"]:
        g = -g
    if group.uses("weight_decay"):
        if group.get("decoupled_weight_decay"):
            p.mul_(1 - group["lr"] * group["weight_decay"])
        else:
            g = g + p * group["weight_decay"]
    return g


# PyTorch's default of settings that must be given, which optimizers of packages import.
required = object()


class Optimizer(HookedOptimizer):
    """The base of optimizers. One writes `initial_state` and `update`.

    `params` is an iterable of tensors, or of dicts that each hold "params" and the
    hyper-parameters in which that group differs from `defaults`. Groups and state may be changed or
    replaced between steps; new ones are checked and completed at once.

    >>> import contraflow as cf
    >>> optimizer = cf.optim.SGD([cf.nn.Parameter(cf.ones(2))], lr=0.1)
    >>> isinstance(optimizer, cf.optim.Optimizer)
    True
    """

    state: States
    param_groups: ParamGroups
    _parted = False  # some counters may stand at the same numbers and not be shared

    def __init__(self, params: Iterable[Any], defaults: Mapping[str, Any]) -> None:
        name = type(self).__name__
        if isinstance(params, Tensor):
            raise TypeError(f"{name}: params is one tensor; pass a list: [tensor].")
        if not isinstance(params, Iterable):
            raise TypeError(
                f"{name}: params is {type(params).__name__}; pass tensors, or dicts with 'params'"
                f"{': model.parameters()' if hasattr(params, 'parameters') else ''}."
            )
        super().__init__()
        self.defaults = dict(defaults)
        self.state, self.param_groups = States({}, self), ParamGroups((), self)
        given = list(params)
        if not given:
            raise ValueError(
                f"{name}: the list of parameters is empty. A generator such as "
                f"model.parameters() can be used only once, and layers that a module keeps in a "
                f"plain list are not among its own: use ModuleList."
            )
        if not isinstance(given[0], dict):
            given = [{"params": given}]
        for group in given:
            self.add_param_group(group)

    # --- what an optimizer says of itself --------------------------------------------------

    def initial_state(self, parameter: Tensor, group: ParamGroup) -> OptimizerState:
        """The initial state of a parameter: tensors, and host scalars for step counters."""
        return {}

    def update(self, group: ParamGroup, updated: list[Updated]) -> None:
        """Write new values into the parameters and their state; runs under no_grad."""
        raise NotImplementedError(f"{type(self).__name__}: update is not implemented.")

    def check_group(self, group: Mapping[str, Any]) -> None:
        """Refuse hyper-parameters that make no sense."""

    # --- use ------------------------------------------------------------------------------

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Optimize further parameters, with hyper-parameters of their own."""
        self.param_groups += [param_group]  # type: ignore[list-item]  # it becomes one

    def adopt_groups(self, given: Sequence[Any]) -> list[ParamGroup]:
        """Parameter groups as this optimizer's, with `defaults` for what they do not say."""
        known: set[int] = set()
        return [self._adopted(number, group, known) for number, group in enumerate(given)]

    def _adopted(self, number: int, given: Any, known: set[int]) -> ParamGroup:
        name = type(self).__name__
        if not isinstance(given, Mapping) or "params" not in given:
            raise TypeError(
                f"{name}: a parameter group is a dict with 'params', not {given!r:.60}."
            )
        params = given["params"]
        params = [params] if isinstance(params, Tensor) else list(params)
        for i, p in enumerate(params):
            which = f"parameter {i} of group {number}"
            if not isinstance(p, Tensor):
                raise TypeError(f"{name}: {which} is {type(p).__name__}, not a tensor.")
            node = p.grad_fn
            if node is not None:
                raise ValueError(
                    f"{name}: {which}, {describe(p)}, was made by {node.name}; only leaves can be "
                    f"optimized. Pass the tensors it was computed from, or p.detach().clone()."
                )
            if id(p) in known:
                raise ValueError(
                    f"{name}: {which}, {describe(p)}, was given before; a parameter belongs in "
                    f"one group, once."
                )
            known.add(id(p))
        if isinstance(given, ParamGroup) and given.owner is not None and given.owner() is self:
            return given
        entries = {"params": params, **self.defaults}
        entries.update((key, value) for key, value in given.items() if key != "params")
        self.check_group(entries)
        group = ParamGroup(entries)
        group.owner = weakref.ref(self)
        return group

    def __setattr__(self, name: str, value: Any) -> None:
        """Take over groups and state that are put in the place of those that are there."""
        if name == "param_groups" and not (isinstance(value, ParamGroups) and value.is_of(self)):
            value = ParamGroups(value, self)
        elif name == "state" and not (isinstance(value, States) and value.is_of(self)):
            value = States(value, self)
        # A method of its own in the place of its class's, as in `optimizer.step = profiled`.
        hides = name[0] != "_" and name not in self.__dict__ and hasattr(type(self), name)
        super().__setattr__(name, value)
        if name == "state":
            for group in self.__dict__.get("param_groups", ()):
                self.complete_state(group)
        if name == "state" or hides:
            self._restructured()

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Take over the attributes of a copy."""
        context = thread_state().context
        if context.is_recording:
            raise context.refusal(
                f"{type(self).__name__} is copied, whose rates have no values while a function is "
                f"being recorded",
                "Copy it outside the compiled function, or make another one.",
            )
        own = ("param_groups", "state")
        self.__dict__.update({name: value for name, value in state.items() if name not in own})
        self.state, self.param_groups = state["state"], state["param_groups"]

    @property
    def _structure(self) -> int:
        """Rises with every change that a recording of `step` must notice."""
        return max([self._hooked_at, *(group.changed_at for group in self.param_groups)])

    def complete_state(self, group: ParamGroup) -> None:
        """Create the state that is missing: all of it at first, later what a change asks for.

        It happens at once and not in `step`, so that a recording only ever sees finished state.
        """
        for p in group["params"]:
            self._complete(p, group)
        self._share_counters(group)

    def _complete(self, p: Tensor, group: ParamGroup) -> None:
        initial, held = self.initial_state(p, group), self.state.get(p, {})
        entries = dict(initial)
        for name, value in held.items():
            if value is not None or name not in initial:
                entries[name] = as_counter(initial.get(name), value)
        if not isinstance(held, ParameterState):
            held = self.state[p] = ParameterState(self, p)
        held.become(entries, initial)

    def begin_anew(self, parameter: Tensor, name: str | None = None) -> None:
        """Reset the state of a parameter, or one entry of it."""
        for group in self.param_groups:
            if any(p is parameter for p in group["params"]):
                held: OptimizerState = self.state.get(parameter, {})
                dict.pop(held, name or "", None)
                self._complete(parameter, group)
                self._parted = True
                self._restructured()

    def part_counters(self, group: ParamGroup) -> None:
        """Give a group counters that it shares with no other one."""
        for p in group["params"]:
            state = self.state[p]
            dict.update(state, {name: StepScalar(c.value) for name, c in _counters(state).items()})
        self._share_counters(group)

    def _share_counters(self, group: ParamGroup) -> None:
        """Share step counters among parameters whose counters are equal."""
        known: dict[Any, dict[str, HostScalar]] = {}
        for p in group["params"]:
            counters = _counters(self.state[p])
            numbers = tuple((name, counter.value) for name, counter in counters.items())
            dict.update(self.state[p], known.setdefault(numbers, counters))

    def _part(self, group: ParamGroup, updated: Sequence[Updated]) -> None:
        """Give parameters that go on alone counters of their own."""
        if len(updated) == len(group["params"]):
            return
        going = {id(u.parameter) for u in updated}
        staying = {
            counter
            for p in group["params"]
            if id(p) not in going
            for counter in _counters(self.state[p]).values()
        }
        twins: dict[HostScalar, HostScalar] = {}
        for u in updated:
            for name, counter in _counters(u.state).items():
                if counter in staying:
                    if counter not in twins:
                        twins[counter] = StepScalar(counter.value)
                        twins[counter].set(counter.get())
                    dict.__setitem__(u.state, name, twins[counter])
        if twins:
            group.restructured()
            thread_state().context.use_once()  # what it has read of a counter is not its own

    def follow_parameters(self) -> None:
        """Move the state of parameters that were moved to another device since."""
        context = thread_state().context
        parameters = [p for group in self.param_groups for p in group["params"]]
        for p, entries in zip(parameters, map(self.state.__getitem__, parameters)):
            device = p.storage.device
            for name, value in entries.items():
                # Every step looks at every entry: the usual ones without a call.
                if isinstance(value, HostScalar):
                    continue
                if isinstance(value, Tensor) and value.storage.device == device:
                    continue
                away = [x for x in leaves_of(value) if isinstance(x, Tensor) and x.ndim]
                if all(x.storage.device == device for x in away):
                    continue
                if context.is_recording:
                    raise context.refusal(
                        f"{type(self).__name__} moves {name!r} of {describe(p)}, which was moved "
                        f"to {device} since its last step",
                        "Make one step outside of the compiled function, or move parameters before "
                        "the optimizer is made.",
                    )
                moved = map_leaves(lambda x: x.to(device) if isinstance(x, Tensor) else x, value)  # noqa: B023 (it is called at once)
                dict.__setitem__(entries, name, moved)
                self._restructured()

    @no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient; `closure` computes the loss first."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        thread_state().context.visit_module(self)
        if other_devices:
            self.follow_parameters()
        if self._parted:
            self._parted = False
            for group in self.param_groups:
                self._share_counters(group)
        for number, group in enumerate(self.param_groups):
            updated, chosen = [], []
            for i, p in enumerate(group["params"]):
                grad = p.grad
                if grad is None:
                    continue
                alike = grad.layout.shape == p.layout.shape and grad.dtype is p.dtype
                if not alike or grad.storage.device != p.storage.device:
                    raise ValueError(
                        f"{type(self).__name__}.step: parameter {i} of group {number} is "
                        f"{describe(p)}, but its grad is {describe(grad)}. Call zero_grad() after "
                        f"changing a parameter's shape, dtype or device."
                    )
                updated.append(Updated(p, grad, self.state[p]))
                chosen.append(i)
            self._part(group, updated)
            if self._runs_fused(updated):
                _fused(self, number)(tuple(chosen), [u.grad for u in updated])
            elif self._is_ours:
                with changed(line=thread_state().line or user_line()):
                    self.update(group, updated)
            else:
                self.update(group, updated)
        return loss

    @property
    def _is_ours(self) -> bool:
        """Whether `update` is the library's; what somebody else's does has lines of its own."""
        return type(self).__module__.startswith("contraflow.")

    def _runs_fused(self, updated: Sequence[Updated]) -> bool:
        """Whether an update is worth a program, one pass over each parameter.

        An optimizer of somebody else's may do more in `update` than tensors show.
        """
        return self._is_ours and runs_native([u.parameter for u in updated])

    def _update_some(self, number: int, chosen: Sequence[int], grads: Sequence[Tensor]) -> None:
        """Update the chosen parameters of a group."""
        thread_state().context.visit_module(self)
        group = self.param_groups[number]
        params = [group["params"][i] for i in chosen]
        self.update(group, [Updated(p, g, self.state[p]) for p, g in zip(params, grads)])

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the gradients of all parameters to None, or to zeros."""
        clear_gradients((p for group in self.param_groups for p in group["params"]), set_to_none)

    # --- state ----------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """State and hyper-parameters in PyTorch's layout, parameters numbered in their order."""
        for hook in list(self._state_dict_pre_hooks.values()):
            hook(self)
        numbers = {
            id(p): i
            for i, p in enumerate(p for group in self.param_groups for p in group["params"])
        }
        groups = [
            {
                **{name: value for name, value in group.items() if name != "params"},
                "params": [numbers[id(p)] for p in group["params"]],
            }
            for group in self.param_groups
        ]
        held = {
            numbers[id(p)]: {
                name: value.get() if isinstance(value, HostScalar) else value
                for name, value in entries.items()
            }
            for p, entries in self.state.items()
            if entries
        }
        found: dict[str, Any] = {"state": held, "param_groups": groups}
        for hook in list(self._state_dict_post_hooks.values()):
            replaced = hook(self, found)
            found = found if replaced is None else replaced
        return found

    @no_grad()
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave; tensors are written into those that are there."""
        name = type(self).__name__
        state_dict = dict(state_dict)  # which hooks may change
        for hook in list(self._load_state_dict_pre_hooks.values()):
            replaced = hook(self, state_dict)
            state_dict = state_dict if replaced is None else replaced
        groups = state_dict["param_groups"]
        sizes = [len(group["params"]) for group in groups]
        own = [len(group["params"]) for group in self.param_groups]
        if sizes != own:
            raise ValueError(
                f"{name}.load_state_dict: the state has groups of {sizes} parameters, the "
                f"optimizer of {own}."
            )
        for group, given in zip(self.param_groups, groups):
            for p, number in zip(group["params"], given["params"]):
                for key, value in state_dict["state"].get(number, {}).items():
                    kept = self.state[p].get(key)
                    if isinstance(kept, Tensor) and value is not None and value.shape != kept.shape:
                        raise ValueError(
                            f"{name}.load_state_dict: {key} of parameter {number} is "
                            f"{describe(value)} and should be {describe(kept)}."
                        )
        for group, given in zip(self.param_groups, groups):
            group.update({key: value for key, value in given.items() if key != "params"})
            loaded = [
                {**self.initial_state(p, group), **state_dict["state"].get(number, {})}
                for p, number in zip(group["params"], given["params"])
            ]
            self._load_counters(group, loaded)
            for p, entries in zip(group["params"], loaded):
                for key, value in entries.items():
                    if value is not None:
                        _load(self.state[p], key, value)
        for hook in list(self._load_state_dict_post_hooks.values()):
            hook(self)

    def _load_counters(self, group: ParamGroup, loaded: Sequence[OptimizerState]) -> None:
        """Part parameters whose counters will stand at different numbers from now on."""
        numbers: dict[HostScalar, Any] = {}
        for p, entries in zip(group["params"], loaded):
            for name, counter in _counters(self.state[p]).items():
                given = entries.get(name, counter)
                number = given.value if isinstance(given, HostScalar) else given
                if numbers.setdefault(counter, number) != number:
                    self.state[p][name] = StepScalar(counter.value)
                    group.restructured()

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for number, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {number}")
            lines += [
                f"    {key}: {value}" for key, value in sorted(group.items()) if key != "params"
            ]
        return "\n".join([*lines, ")"])


# By the id of an optimizer that is alive: a compiled update for each of its groups.
_programs: dict[int, tuple[weakref.ref[Optimizer], dict[int, Compiled]]] = {}


def _fused(optimizer: Optimizer, number: int) -> Compiled:
    """The compiled update of a group. It does not keep the optimizer alive."""
    key = id(optimizer)
    if key not in _programs:
        # A callback in C: an interrupt in one of Python's would be lost.
        _programs[key] = weakref.ref(optimizer, functools.partial(_programs.pop, key)), {}
    programs = _programs[key][1]
    if number not in programs:
        alive = weakref.ref(optimizer)

        def update(chosen: Sequence[int], grads: Sequence[Tensor]) -> None:
            found = alive()
            assert found is not None
            found._update_some(number, chosen, grads)

        options = CompileOptions(name=f"{type(optimizer).__name__}.step")
        programs[number] = compiled_function(update, options)
    return programs[number]


def _counters(state: OptimizerState) -> dict[str, HostScalar]:
    return {name: value for name, value in state.items() if isinstance(value, HostScalar)}


def _load(held: OptimizerState, key: str, value: Any) -> None:
    """Write a loaded value into the entry that is there, or make one of it."""
    kept = held.get(key)
    if isinstance(kept, Tensor):
        kept.copy_(value)
    elif isinstance(kept, HostScalar):
        number = value.value if isinstance(value, HostScalar) else value
        kept.set(type(kept.value)(number))
    else:
        held[key] = copy.deepcopy(value)


def check_not_negative(name: str, group: Mapping[str, Any], *keys: str) -> None:
    """Refuse negative hyper-parameters."""
    for key in keys:
        if not isinstance(group[key], (Real, Tensor)):
            raise TypeError(f"{name}: {key} is {group[key]!r}; it must be a number.")
        if not group[key] >= 0:
            raise ValueError(f"{name}: {key} is {group[key]}; it must not be negative.")


def check_betas(name: str, group: Mapping[str, Any]) -> None:
    """Refuse weights of running means that are not two fractions."""
    if len(group["betas"]) != 2 or not all(0 <= beta < 1 for beta in group["betas"]):
        raise ValueError(
            f"{name}: betas are {group['betas']}; they must be two numbers, at least 0 and below 1."
        )
