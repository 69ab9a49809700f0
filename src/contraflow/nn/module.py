"""Modules: trees of parameters, buffers and other modules with a `forward`.

A module knows what belongs to it because assigning an attribute registers it. Each module counts
the changes of its structure (`_structure`): a recording guards on the count of every module that
was called, so that a compiled function notices an exchanged parameter, a hook or `eval()`. Writing
new contents into a parameter or a buffer is not such a change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, Self, TypeVar

from contraflow import threads
from contraflow.autograd.modes import no_grad
from contraflow.dtypes import bfloat16, float16, float32, float64
from contraflow.errors import describe, hide_frames
from contraflow.nn.call import EVERY, ForwardHook, call_hooked, has_hooks, note_module
from contraflow.nn.load import EXTRA_STATE, IncompatibleKeys, load_state
from contraflow.nn.parameter import Buffer, Parameter, is_lazy
from contraflow.nn.registry import ModuleRegistry
from contraflow.nn.summary import summarize
from contraflow.operation.context import state
from contraflow.ops.creation.create import zeros, zeros_like
from contraflow.tensors.epoch import Structure, names_attribute
from contraflow.tensors.hooks import Hook, HookHandle
from contraflow.tensors.storage import serials
from contraflow.tensors.tensor import Tensor

T = TypeVar("T")

P = ParamSpec("P")
R = TypeVar("R")
Out_co = TypeVar("Out_co", covariant=True)

if TYPE_CHECKING:

    class Computes(Protocol[P, Out_co]):
        """A module, for type checkers: its `forward`."""

        def forward(self, *args: P.args, **kwargs: P.kwargs) -> Out_co: ...


class Module:
    """The base of all layers and models. Write `__init__`, which assigns the parts, and `forward`.

    >>> import contraflow as cf
    >>> class Double(cf.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = cf.nn.Parameter(cf.tensor(2.0))
    ...
    ...     def forward(self, x):
    ...         return self.factor * x
    >>> model = Double()
    >>> model(cf.ones(2))
    tensor([2., 2.], grad_fn=<mul>)
    >>> [name for name, _ in model.named_parameters()]
    ['factor']
    """

    training = True
    _structure = 0
    _other_mode: int | None = None  # the structure's number in the other mode, while it is the same
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]
    _transient: set[str]  # buffers that state_dict leaves out
    _forward_hooks: dict[int, ForwardHook]
    _forward_pre_hooks: dict[int, ForwardHook]
    _backward_hooks: dict[int, Hook]
    _backward_pre_hooks: dict[int, Hook]
    _state_dict_post_hooks: dict[int, Hook]
    _state_dict_pre_hooks: dict[int, Hook]
    _load_state_dict_post_hooks: dict[int, Hook]
    _load_state_dict_pre_hooks: dict[int, Hook]

    def __init__(self) -> None:
        self.__dict__.update(
            {name: ModuleRegistry(self) for name in _REGISTRIES},
            _transient=set(), _state_dict_post_hooks={}, _state_dict_pre_hooks={},
            _load_state_dict_post_hooks={}, _load_state_dict_pre_hooks={}, _born=next(serials),
        )  # fmt: skip

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Take over the attributes of a copy."""
        self.__dict__.update(state, _born=next(serials))
        for name in _REGISTRIES:
            held = self.__dict__.get(name)
            if type(held) is dict:
                self.__dict__[name] = ModuleRegistry(self, held)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The computation that a call of the module runs."""
        raise NotImplementedError(f"{type(self).__name__}: forward is not implemented.")

    if TYPE_CHECKING:  # a call has the parameters and the result of `forward`

        def __call__(self: Computes[P, R], *args: P.args, **kwargs: P.kwargs) -> R: ...

    else:

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            context = state().context
            context.visit_module(self)
            context.visit_module(EVERY)
            try:
                if has_hooks(self) or has_hooks(EVERY):
                    return call_hooked(self, args, kwargs)
                return self.forward(*args, **kwargs)
            except (ValueError, TypeError, IndexError) as error:
                note_module(error, self)
                hide_frames(error)
                raise

    def hook_tables(self) -> dict[str, dict[int, Any]]:
        """The hooks of each kind, by the method that registers them; see `registered_hooks`."""
        return {
            "register_forward_pre_hook": _functions(self._forward_pre_hooks),
            "register_forward_hook": _functions(self._forward_hooks),
            "register_full_backward_pre_hook": self._backward_pre_hooks,
            "register_full_backward_hook": self._backward_hooks,
            "register_state_dict_pre_hook": self._state_dict_pre_hooks,
            "register_state_dict_post_hook": self._state_dict_post_hooks,
            "register_load_state_dict_pre_hook": self._load_state_dict_pre_hooks,
            "register_load_state_dict_post_hook": self._load_state_dict_post_hooks,
        }

    def register_forward_pre_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False
    ) -> HookHandle:
        """Call `hook(module, args)` before `forward`; it may return other arguments.

        With keyword arguments it is `hook(module, args, kwargs)`, and returns both.
        """
        kept = ForwardHook(hook, with_kwargs)
        return HookHandle(self, self._forward_pre_hooks, kept, prepend)

    def register_forward_hook(
        self,
        hook: Hook,
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> HookHandle:
        """Call `hook(module, args, output)` after `forward`; it may return another output.

        With keyword arguments it is `hook(module, args, kwargs, output)`. With `always_call` it is
        called after an error too, with None for an output that there is none of.
        """
        kept = ForwardHook(hook, with_kwargs, always_call)
        return HookHandle(self, self._forward_hooks, kept, prepend)

    def register_full_backward_pre_hook(self, hook: Hook, prepend: bool = False) -> HookHandle:
        """Call `hook(module, grad_output)` before a call's backward; it may return another."""
        return HookHandle(self, self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(self, hook: Hook, prepend: bool = False) -> HookHandle:
        """Call `hook(module, grad_input, grad_output)` after the backward of a call.

        It may return other gradients of the arguments.
        """
        return HookHandle(self, self._backward_hooks, hook, prepend)

    # --- attributes -----------------------------------------------------------------------

    def _restructured(self) -> None:
        """Count a change that recordings of this module must notice."""
        highest = max(self._structure, self._other_mode or 0)
        self.__dict__.update(_structure=highest + 1, _other_mode=None)
        Structure.changed()

    def _switched(self) -> None:
        """Note a change of mode: going back to the old one brings its number back, and with it
        the recordings made in it."""
        other = self._structure + 1 if self._other_mode is None else self._other_mode
        self.__dict__.update(_structure=other, _other_mode=self._structure)
        Structure.changed()

    def _registry(self, name: str, value: Any) -> dict[str, Any] | None:
        """Where an attribute is kept: by what it is, else by what has its name; None for plain."""
        own = self.__dict__
        if isinstance(value, Parameter):
            kind = "_parameters"
        elif isinstance(value, Module):
            kind = "_modules"
        elif isinstance(value, Buffer):
            kind = "_buffers"
        else:
            kind = next((k for k in _EXPECTED if name in own.get(k, ())), "")
            if not kind:
                return None
            if value is not None and not (kind == "_buffers" and isinstance(value, Tensor)):
                raise TypeError(
                    f"{type(self).__name__}.{name}: is a {_EXPECTED[kind]}, so it cannot become "
                    f"{describe(value)}. Assign a {_EXPECTED[kind]} or None, or delete it first."
                )
        if kind not in own:
            raise TypeError(
                f"{type(self).__name__}.{name}: call super().__init__() before assigning "
                f"parameters and modules."
            )
        registry: dict[str, Any] = own[kind]
        return registry

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        registry = self._registry(name, value)
        target = own if registry is None else registry
        # `self.steps += 1` on a buffer writes in place and then assigns what is there already.
        if name in target and target[name] is value:
            return
        quiet = registry is None and self._is_users(name, value)
        if name == "training" and value is self.training:  # as the class has it
            quiet = True
        if registry is None:
            super().__setattr__(name, value)
        else:
            for kind in _EXPECTED:
                if own[kind] is registry:
                    value = EVERY.registered(kind, self, name, value)
                else:
                    own[kind].pop(name, None)
            own.pop(name, None)
            registry[name] = value
            if isinstance(value, Buffer):
                (self._transient.discard if value.persistent else self._transient.add)(name)
        if quiet:
            return
        if name == "training" and isinstance(value, bool):
            self._switched()
        else:
            self._restructured()

    def _is_users(self, name: str, value: Any) -> bool:
        """Whether a plain attribute is the user's alone: recordings that read it guard on it."""
        own = self.__dict__
        if not Structure.observed or name not in own or names_attribute(type(self), name):
            return False
        kinds = type(own[name]), type(value)  # objects of contraflow's have other guards
        return all(
            issubclass(kind, Tensor) or not kind.__module__.startswith("contraflow.")
            for kind in kinds
        )

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        for kind in _EXPECTED:
            registry = own.get(kind, {})
            if name in registry:
                return registry[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __delattr__(self, name: str) -> None:
        for kind in _EXPECTED:
            registry = self.__dict__.get(kind, {})
            if name in registry:
                del registry[name]
                self._transient.discard(name)
                break
        else:
            super().__delattr__(name)
        self._restructured()

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._parameters, *self._buffers, *self._modules})

    def _register(self, caller: str, kind: str, name: str, value: Any, expected: type) -> None:
        if kind not in self.__dict__:
            raise TypeError(f"{caller}: call super().__init__() before registering {name!r}.")
        if not isinstance(name, str) or not name or "." in name:
            raise ValueError(f"{caller}: {name!r} is not a name; it must be a string without dots.")
        if hasattr(self, name) and name not in self.__dict__[kind]:
            raise ValueError(f"{caller}: {type(self).__name__} has an attribute {name!r} already.")
        if value is not None and not isinstance(value, expected):
            raise TypeError(f"{caller}: {name!r} is {describe(value)}, not a {expected.__name__}.")
        self.__dict__[kind][name] = EVERY.registered(kind, self, name, value)
        self._restructured()

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter, or None for one that is absent."""
        self._register("register_parameter", "_parameters", name, param, Parameter)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child."""
        self._register("add_module", "_modules", name, module, Module)

    register_module = add_module

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state, not a parameter; `persistent` ones are in state_dict."""
        self._register("register_buffer", "_buffers", name, tensor, Tensor)
        if persistent:
            self._transient.discard(name)
        else:
            self._transient.add(name)

    # --- walking the tree -----------------------------------------------------------------

    def named_modules(
        self, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all below it, by dotted name."""
        return self._walk(prefix, set() if remove_duplicate else None)

    def _walk(self, prefix: str, seen: set[int] | None) -> Iterator[tuple[str, Module]]:
        if seen is not None:
            if id(self) in seen:
                return
            seen.add(id(self))
        yield prefix, self
        for name, child in self._modules.items():
            if child is not None:
                yield from child._walk(_join(prefix, name), seen)

    def modules(self) -> Iterator[Module]:
        """This module and all below it."""
        return (module for _, module in self.named_modules())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly below, each once."""
        return _once((name, m) for name, m in self._modules.items() if m is not None)

    def children(self) -> Iterator[Module]:
        """The modules directly below, each once."""
        return (child for _, child in self.named_children())

    def _members(
        self, kind: str, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        modules = self.named_modules(prefix, remove_duplicate) if recurse else [(prefix, self)]
        found = (
            (_join(path, name), value)
            for path, module in modules
            for name, value in module.__dict__[kind].items()
            if value is not None
        )
        return _once(found) if remove_duplicate else found

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """The parameters by dotted name."""
        return self._members("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters, each once."""
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """The buffers by dotted name."""
        return self._members("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers, each once."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str) -> Module:
        """The module of a dotted name; "" is this one."""
        found: Any = self
        for part in target.split(".") if target else ():
            below = found._modules.get(part)
            if below is None:
                raise AttributeError(
                    f"get_submodule: {type(self).__name__} has no module {target!r}: "
                    f"{type(found).__name__} has no {part!r}."
                )
            found = below
        module: Module = found
        return module

    def get_parameter(self, target: str) -> Parameter:
        """The parameter of a dotted name."""
        parameter: Parameter = self._member("get_parameter", "_parameters", target)
        return parameter

    def get_buffer(self, target: str) -> Tensor:
        """The buffer of a dotted name."""
        buffer: Tensor = self._member("get_buffer", "_buffers", target)
        return buffer

    def _member(self, caller: str, kind: str, target: str) -> Any:
        path, _, name = target.rpartition(".")
        found = self.get_submodule(path).__dict__[kind].get(name)
        if found is None:
            raise AttributeError(
                f"{caller}: {type(self).__name__} has no {_EXPECTED[kind].lower()} {target!r}."
            )
        return found

    def set_submodule(self, target: str, module: Module) -> None:
        """Put another module at a dotted name, where one is."""
        path, _, name = target.rpartition(".")
        self.get_submodule(target)
        self.get_submodule(path).add_module(name, module)

    # --- changing all at once -------------------------------------------------------------

    def apply(self, function: Callable[[Module], Any]) -> Self:
        """Call `function` with every module, children first."""
        for child in self.children():
            child.apply(function)
        function(self)
        return self

    def train(self, mode: bool = True) -> Self:
        """Switch this module and all below it to training behaviour, or away from it."""
        if not isinstance(mode, bool):
            raise TypeError(f"train: mode is {mode!r}; it must be True or False.")
        for module in self.modules():
            if module.training is not mode:
                module.training = mode
        return self

    def eval(self) -> Self:
        """Switch this module and all below it to evaluation behaviour."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Ask for gradients of all parameters, or stop asking."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the gradients of all parameters to None, or to zeros."""
        clear_gradients(self.parameters(), set_to_none)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Convert the floating-point parameters and buffers, in place, or move all to a device.

        `m.to(dtype)`, `m.to(device, dtype)` or `m.to(tensor)`, and by name `dtype=`, `device=`.
        """
        dtype = zeros(()).to(*args, **kwargs).dtype
        if not dtype.is_floating_point:
            raise TypeError(
                f"{type(self).__name__}.to: {dtype} is not a floating-point dtype; parameters "
                f"need one."
            )

        def converted(tensor: Tensor) -> Tensor:
            moved = tensor.to(*args, **kwargs)
            return moved if tensor.dtype.is_floating_point else tensor.to(moved.device)

        return self._convert(converted)

    def _convert(self, converted: Callable[[Tensor], Tensor]) -> Self:
        for module in self.modules():
            for tensor in (*module.parameters(recurse=False), *module.buffers(recurse=False)):
                data = converted(tensor.detach())
                if data.storage is tensor.storage:
                    continue
                grad = tensor.grad
                tensor.data = data
                tensor.grad = None if grad is None else converted(grad)
                module._restructured()
        return self

    def float(self) -> Self:
        """Convert to float32."""
        return self.to(float32)

    def double(self) -> Self:
        """Convert to float64."""
        return self.to(float64)

    def half(self) -> Self:
        """Convert to float16."""
        return self.to(float16)

    def bfloat16(self) -> Self:
        """Convert to bfloat16."""
        return self.to(bfloat16)

    def cpu(self) -> Self:
        """Move to the cpu."""
        return self.to("cpu")

    def cuda(self, device: Any = None) -> Self:
        """Move to a CUDA device."""
        if isinstance(device, int):
            device = f"cuda:{device}"
        return self.to("cuda" if device is None else device)

    def type(self, dst_type: Any) -> Self:
        """Convert the floating-point parameters and buffers to a dtype, given as one or by name."""
        return self.to(zeros(()).type(dst_type).dtype)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Move to a device without the elements: they become zeros."""
        return self._convert(lambda tensor: zeros_like(tensor, device=device))

    def share_memory(self) -> Self:
        """The module itself: processes do not share tensors."""
        return self

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile the calls of this module, in place; `contraflow.compile` gives another one.

        >>> import contraflow as cf
        >>> model = cf.nn.Linear(2, 1)
        >>> model.compile()
        >>> model(cf.ones(3, 2)).shape
        (3, 1)
        """
        threads.imported("contraflow.nn.compiled").compile_in_place(self, *args, **kwargs)

    # --- state ----------------------------------------------------------------------------

    def state_dict(
        self,
        *,
        destination: dict[str, Any] | None = None,
        prefix: str = "",
        keep_vars: bool = False,
    ) -> dict[str, Any]:
        """All parameters and persistent buffers by dotted name; they share memory.

        They are detached, unless `keep_vars` asks for the parameters themselves.
        """
        found = {} if destination is None else destination
        for hook in list(self._state_dict_pre_hooks.values()):
            hook(self, prefix, keep_vars)
        for name, tensor in self.own_state():
            found[prefix + name] = tensor if keep_vars or is_lazy(tensor) else tensor.detach()
        if self.has_extra_state:
            found[prefix + EXTRA_STATE] = self.get_extra_state()
        for name, child in self._modules.items():
            if child is not None:
                child.state_dict(destination=found, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in list(self._state_dict_post_hooks.values()):
            hook(self, found, prefix, {})
        return found

    def own_state(self) -> Iterator[tuple[str, Tensor]]:
        """The parameters and persistent buffers of this module alone, by name."""
        for name, tensor in (*self._parameters.items(), *self._buffers.items()):
            if tensor is not None and name not in self._transient:
                yield name, tensor

    @property
    def has_extra_state(self) -> bool:
        """Whether the class has state that is neither parameter nor buffer."""
        return type(self).get_extra_state is not Module.get_extra_state

    def get_extra_state(self) -> Any:
        """Further state for `state_dict`, under "_extra_state"; write `set_extra_state` too."""
        raise NotImplementedError(f"{type(self).__name__}: get_extra_state is not implemented.")

    def set_extra_state(self, state: Any) -> None:
        """Restore a state from `get_extra_state`."""
        raise NotImplementedError(f"{type(self).__name__}: set_extra_state is not implemented.")

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Write the values of a `state_dict` into this module's parameters and buffers.

        Nothing is written unless everything fits; `strict` also asks for the same names. With
        `assign` the given tensors themselves become parameters and buffers.
        """
        return load_state(self, state_dict, strict, assign)

    def register_state_dict_pre_hook(self, hook: Hook) -> HookHandle:
        """Call `hook(module, prefix, keep_vars)` before `state_dict` looks at this module."""
        return HookHandle(self, self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Hook) -> HookHandle:
        """Call `hook(module, state_dict, prefix, {})` afterwards; it may change the dict."""
        return HookHandle(self, self._state_dict_post_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Hook) -> HookHandle:
        """Call `hook` before anything of `load_state_dict` is compared.

        It gets (module, state_dict, prefix, {}, strict, missing_keys, unexpected_keys,
        error_msgs). The dict, a copy, is for it to change, and the lists are to be added to.
        """
        return HookHandle(self, self._load_state_dict_pre_hooks, hook)

    def _register_load_state_dict_pre_hook(
        self, hook: Hook, with_module: bool = False
    ) -> HookHandle:
        """The same by PyTorch's older name, which packages call: the hook gets no module."""
        given = hook if with_module else partial(_without_first, hook)
        return self.register_load_state_dict_pre_hook(given)

    def register_load_state_dict_post_hook(self, hook: Hook) -> HookHandle:
        """Call `hook(module, incompatible_keys)` when all is loaded.

        A key that it removes from the lists is not an error. With such a hook, missing and
        unexpected keys are an error only after everything else was written.
        """
        return HookHandle(self, self._load_state_dict_post_hooks, hook)

    # --- text -----------------------------------------------------------------------------

    def _get_name(self) -> str:
        """The name of the class, which packages ask for; not public in PyTorch either."""
        return type(self).__name__

    def extra_repr(self) -> str:
        """Text for the parentheses of the module's repr, before its children."""
        return ""

    def summary(self, *args: Any, **kwargs: Any) -> str:
        """A table of this module and all below: parameters and, given inputs, shapes of outputs.

        >>> import contraflow as cf
        >>> model = cf.nn.Sequential(cf.nn.Linear(4, 2), cf.nn.ReLU())
        >>> print(model.summary(cf.zeros(3, 4)))
        module         output         parameters
        Sequential     float32[3, 2]           0
          (0): Linear  float32[3, 2]          10
          (1): ReLU    float32[3, 2]           0
        10 parameters of 40 bytes, 10 of them trained
        """
        return summarize(self, args, kwargs)

    def __repr__(self) -> str:
        children = [f"({name}): {indented(repr(m))}" for name, m in self._modules.items()]
        return layout(type(self).__name__, self.extra_repr(), children)


# The registries, in the order in which a name is looked up, and what their entries are called.
_REGISTRIES = (
    "_parameters", "_buffers", "_modules",
    "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks",
)  # fmt: skip
_EXPECTED = {"_parameters": "Parameter", "_buffers": "buffer", "_modules": "Module"}


def clear_gradients(tensors: Iterator[Any], set_to_none: bool) -> None:
    """Forget gradients, or fill them with zeros in place."""
    with no_grad():
        for tensor in tensors:
            if set_to_none:
                tensor.grad = None
            elif (grad := tensor.grad) is not None:
                if grad.requires_grad:  # from create_graph: what it was computed from is let go
                    tensor.grad = grad = grad.detach()
                grad.zero_()


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def _once(pairs: Iterator[tuple[str, T]]) -> Iterator[tuple[str, T]]:
    """The pairs whose value has not come before. By identity: tensors compare by element."""
    seen = set()
    for name, value in pairs:
        if id(value) not in seen:
            seen.add(id(value))
            yield name, value


def indented(text: str) -> str:
    """The text of a child as it stands below its parent."""
    return text.replace("\n", "\n  ")


def layout(name: str, extra: str, children: list[str]) -> str:
    """A module's text: on one line without children, else one line for each."""
    if not children and "\n" not in extra:
        return f"{name}({extra})"
    lines = [*extra.split("\n"), *children] if extra else children
    return f"{name}(\n  " + "\n  ".join(lines) + "\n)"


def _functions(hooks: dict[int, ForwardHook]) -> dict[int, Any]:
    return {key: hook.function for key, hook in hooks.items()}


def _without_first(function: Callable[..., Any], _: Any, *given: Any) -> Any:
    return function(*given)
