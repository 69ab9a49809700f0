"""Function transforms: grad, vjp, jvp, Jacobians, Hessians and vmap.

Arguments and results may be nested containers of tensors. All of these nest with each other, with
`backward` and with `compile`; a function that uses tensors which require grad, beside those it is
differentiated by, gives results that can be differentiated by them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from contraflow.contexts.batch import RANDOMNESS, Batch
from contraflow.contexts.forward import Forward
from contraflow.errors import (
    GradientError,
    NotScalarError,
    describe,
)
from contraflow.graph import engine
from contraflow.operation.context import apply, changed, mixed, state
from contraflow.operation.public import public
from contraflow.ops.creation.create import eye, full, zeros_like
from contraflow.ops.elementwise.basic import clone
from contraflow.ops.shape.joining import cat
from contraflow.ops.shape.parts import narrow, split
from contraflow.ops.shape.view import movedim, reshape
from contraflow.tensors.node import Node, sequence_numbers
from contraflow.tensors.tensor import Tensor
from contraflow.tensors.tree import fill, leaves_of, map_leaves

Argnums = int | tuple[int, ...]


# --- what is differentiated by -----------------------------------------------------------------


def _check(caller: str, x: Any) -> Tensor:
    if not isinstance(x, Tensor) or not x.dtype.is_floating_point:
        raise TypeError(
            f"{caller}: can differentiate by floating-point tensors only, not by {describe(x)}."
        )
    return x


def _fresh(caller: str, x: Any) -> Tensor:
    """A tensor to differentiate by: the value, and the history, of `x`."""
    with changed(grad=True):
        made: Tensor = apply(clone, (_check(caller, x),))
    made._needs = True
    return made


def _chosen(caller: str, argnums: Argnums, args: Sequence[Any]) -> tuple[int, ...]:
    wanted = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for n in wanted:
        if not -len(args) <= n < len(args):
            raise ValueError(f"{caller}: argnums names {n}, but there are {len(args)} arguments.")
    return tuple(n % len(args) for n in wanted)


def _with(args: Sequence[Any], chosen: Sequence[int], values: Sequence[Any]) -> list[Any]:
    replaced = list(args)
    for n, value in zip(chosen, values):
        replaced[n] = value
    return replaced


def _split_aux(caller: str, result: Any, has_aux: bool) -> tuple[Any, Any]:
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise TypeError(
            f"{caller}: with has_aux the function must return (output, aux), not "
            f"{type(result).__name__}."
        )
    return result


class _Linearized:
    """A function run once, and what is needed to pull cotangents back through that run."""

    def __init__(
        self, caller: str, func: Callable[..., Any], args: Sequence[Any], chosen: Sequence[int],
        kwargs: Mapping[str, Any], has_aux: bool,
    ) -> None:  # fmt: skip
        self.caller, self.grad = caller, state().grad
        self.first = next(sequence_numbers)
        self.inputs = [map_leaves(functools.partial(_fresh, caller), args[n]) for n in chosen]
        self.leaves = [x for given in self.inputs for x in leaves_of(given)]
        with changed(grad=True):
            result = func(*_with(args, chosen, self.inputs), **kwargs)
        self.output, aux = _split_aux(caller, result, has_aux)
        self.outs: list[Tensor] = leaves_of(self.output)
        for out in self.outs:
            if not isinstance(out, Tensor):
                raise TypeError(f"{caller}: the function returned {describe(out)}, not tensors.")
        self.onward = self.grad and self._is_part_of_more()
        self.aux = map_leaves(self.released, aux)

    def _is_part_of_more(self) -> bool:
        """Whether the results depend on something else that requires grad."""
        own = {id(x) for x in self.leaves}
        stack = [out.edge[0] for out in self.outs if out.edge is not None]
        seen: set[int] = set()
        while stack:
            end = stack.pop()
            if id(end) in seen:
                continue
            seen.add(id(end))
            if not isinstance(end, Node):
                if id(end) not in own:
                    return True
            elif end.sequence_nr < self.first:
                return True
            else:
                stack.extend(e[0] for e in end.edges if e is not None)
        return False

    def released(self, x: Any) -> Any:
        """A result as the caller gets it: with a graph only where there is more to it than ours."""
        return x.alias() if isinstance(x, Tensor) and not self.onward else x

    def pull(self, cotangents: Sequence[Tensor | None], keep: bool) -> list[Tensor]:
        """The gradients of all leaves that are differentiated by."""
        pairs = [(o, c) for o, c in zip(self.outs, cotangents) if o.requires_grad]
        if not pairs:
            return [zeros_like(x.alias()) for x in self.leaves]
        roots, seeds = [o for o, _ in pairs], [c for _, c in pairs]
        found = engine.grad(roots, self.leaves, seeds, keep or self.onward, self.onward, True)
        return [zeros_like(x.alias()) if g is None else g for x, g in zip(self.leaves, found)]


def _restore(argnums: Argnums, values: Sequence[Any]) -> Any:
    return values[0] if isinstance(argnums, int) else tuple(values)


# --- reverse mode ------------------------------------------------------------------------------


@public
def value_and_grad(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives the value of a scalar function and its gradient.

    With `has_aux` the function returns (value, aux), and so the result is ((value, aux), gradient).

    >>> import contraflow as cf
    >>> cf.func.value_and_grad(lambda x: (x * x).sum())(cf.tensor([1.0, 2.0]))
    (tensor(5.), tensor([2., 4.]))
    """

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        chosen = _chosen("grad", argnums, args)
        run = _Linearized("grad", func, args, chosen, kwargs, has_aux)
        if not isinstance(run.output, Tensor) or run.output.numel() != 1:
            raise NotScalarError(
                f"grad: the function must return a scalar, not {describe(run.output)}. Use vjp or "
                f"jacrev.",
                op="grad",
                shape=getattr(run.output, "shape", None),
            )
        grads = fill(run.inputs, run.pull([None], False))
        value = run.released(run.output)
        return (value, run.aux) if has_aux else value, _restore(argnums, grads)

    return wrapped


@public
def grad(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives the gradient of a scalar function; with `has_aux` (gradient, aux).

    >>> import contraflow as cf
    >>> cf.func.grad(cf.sin)(cf.tensor(0.0))
    tensor(1.)
    >>> cf.func.grad(cf.func.grad(lambda x: x**3.0))(cf.tensor(2.0))
    tensor(12.)
    """
    both = value_and_grad(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        value, found = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return wrapped


@public
def grad_and_value(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives the gradient of a scalar function and its value, in this order.

    >>> import contraflow as cf
    >>> cf.func.grad_and_value(lambda x: (x * x).sum())(cf.tensor([1.0, 2.0]))
    (tensor([2., 4.]), tensor(5.))
    """
    both = value_and_grad(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        value, found = both(*args, **kwargs)
        return found, value

    return wrapped


@public
def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The value of a function, and its vector-Jacobian product as a function of a cotangent.

    That function takes cotangents structured like the output and returns a tuple with one entry
    per argument; it may be called several times. With `has_aux` aux comes third.

    >>> import contraflow as cf
    >>> value, pull = cf.func.vjp(lambda x: x * x, cf.tensor([1.0, 2.0]))
    >>> pull(cf.tensor([1.0, 10.0]))
    (tensor([ 2., 40.]),)
    """
    run = _Linearized("vjp", func, primals, range(len(primals)), {}, has_aux)

    def pull(cotangents: Any) -> tuple[Any, ...]:
        given = leaves_of(cotangents)
        if len(given) != len(run.outs):
            raise ValueError(
                f"vjp: {len(given)} cotangents for a function with {len(run.outs)} results."
            )
        return tuple(fill(run.inputs, run.pull(given, True)))

    value = map_leaves(run.released, run.output)
    return (value, pull, run.aux) if has_aux else (value, pull)


@public
def jacrev(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """A function that gives the Jacobian, by one backward pass for all elements of an output.

    Its shape is the output's followed by the argument's. `chunk_size` elements go at a time.

    >>> import contraflow as cf
    >>> cf.func.jacrev(lambda x: x * x)(cf.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        chosen = _chosen("jacrev", argnums, args)
        run = _Linearized("jacrev", func, args, chosen, kwargs, has_aux)
        jacobians = []
        for k, out in enumerate(run.outs):

            def rows(unit: Tensor, k: int = k) -> list[Tensor]:
                cotangents = [zeros_like(o.alias()) for o in run.outs]
                cotangents[k] = unit
                return run.pull(cotangents, True)

            with changed(grad=run.onward):  # the graph of the run itself is nobody else's
                blocks = _each_unit(rows, out, run.leaves, chunk_size)
            jacobians.append(_restore(argnums, fill(run.inputs, blocks)))
        found = fill(run.output, jacobians)
        return (found, run.aux) if has_aux else found

    return wrapped


def _each_unit(
    rows: Callable[[Tensor], list[Tensor]], out: Tensor, leaves: Sequence[Tensor],
    chunk_size: int | None,
) -> list[Tensor]:  # fmt: skip
    """The results of `rows` for the unit cotangents of an output, in the shape of a Jacobian."""
    count = out.numel()
    if not count:
        return [full((*out.shape, *x.shape), 0.0, x.dtype, x.device) for x in leaves]
    units = reshape(eye(count, dtype=out.dtype, device=out.device), (count, *out.shape))
    found = vmap(rows, randomness="same", chunk_size=chunk_size)(units)
    return [reshape(g, (*out.shape, *x.shape)) for g, x in zip(found, leaves)]


# --- forward mode ------------------------------------------------------------------------------


def _check_tangents(caller: str, given: Sequence[Any], along: Sequence[Any]) -> None:
    if len(given) != len(along):
        raise ValueError(f"{caller}: {len(along)} tangents for {len(given)} primals.")
    for x, t in zip(given, along):
        if _check(caller, x).shape != _check(caller, t).shape:
            raise ValueError(f"{caller}: the tangent {describe(t)} does not fit {describe(x)}.")
        if x.storage.device != t.storage.device:
            raise mixed(caller, {"primal": x, "tangent": t}, move="tangent")


@public
def jvp(
    func: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], *,
    strict: bool = False, has_aux: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    """The value of a function and its Jacobian-vector product, in one forward pass.

    `primals` and `tangents` are tuples of arguments. With `has_aux` aux comes third. With `strict`
    an output that does not depend on the arguments is an error, else its tangent is zero.

    >>> import contraflow as cf
    >>> cf.func.jvp(lambda x: x * x, (cf.tensor([1.0, 2.0]),), (cf.tensor([1.0, 10.0]),))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError("jvp: primals and tangents must be tuples, one entry per argument.")
    given, along = leaves_of(primals), leaves_of(tangents)
    _check_tangents("jvp", given, along)
    # A copy, so that what the function writes to its arguments stays in there, tangents included.
    duals = [apply(clone, (x,)) for x in given]
    context = Forward(state().context)
    with changed(context=context):
        for dual, t in zip(duals, along):
            context.set_tangent(dual, t if t.dtype is dual.dtype else t.to(dual.dtype))
        result = func(*fill(primals, duals))
    output, aux = _split_aux("jvp", result, has_aux)

    def tangent(out: Any) -> Any:
        if not isinstance(out, Tensor):
            raise TypeError(f"jvp: the function returned {describe(out)}, not tensors.")
        found = context.tangent(out)
        if strict and found is None:
            raise GradientError(
                f"jvp: the output {describe(out)} does not depend on the arguments."
            )
        return zeros_like(out.alias()) if found is None else found

    pushed = map_leaves(tangent, output)
    for x in leaves_of((output, aux)):
        if isinstance(x, Tensor):
            context.set_tangent(x, None)
    return (output, pushed, aux) if has_aux else (output, pushed)


@public
def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """The value of a function, and its Jacobian-vector product as a function of tangents.

    The function runs once. A product is a pass over the graph of that run, which is kept as long as
    the second result is. Tangents are structured like the arguments, products like the value.

    >>> import contraflow as cf
    >>> value, push = cf.func.linearize(lambda x: x * x, cf.tensor([1.0, 2.0]))
    >>> push(cf.tensor([1.0, 10.0]))
    tensor([ 2., 40.])
    """
    run = _Linearized("linearize", func, primals, range(len(primals)), {}, False)
    outs = [out for out in run.outs if out.requires_grad]
    # The pull is linear in its cotangents, so that its transpose, for any of them, is the push.
    cotangents = [_fresh("linearize", zeros_like(out.alias())) for out in outs]
    pulled: Sequence[Tensor | None] = [None] * len(run.leaves)
    if outs:
        pulled = engine.grad(outs, run.leaves, cotangents, True, True, True)

    def push(*tangents: Any) -> Any:
        along = leaves_of(tangents)
        _check_tangents("linearize", run.leaves, along)
        used = [
            (g, t if t.dtype is g.dtype else t.to(g.dtype))
            for g, t in zip(pulled, along)
            if g is not None and g.requires_grad
        ]
        found: Sequence[Tensor | None] = [None] * len(cotangents)
        if used:
            roots, seeds = [g for g, _ in used], [t for _, t in used]
            onward = state().grad and (run.onward or any(t.requires_grad for t in seeds))
            found = engine.grad(roots, cotangents, seeds, True, onward, True)
        products = {id(out): g for out, g in zip(outs, found)}

        def product(out: Tensor) -> Tensor:
            g = products.get(id(out))
            return zeros_like(out.alias()) if g is None else g

        return map_leaves(product, run.output)

    return map_leaves(run.released, run.output), push


@public
def jacfwd(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *,
    randomness: str = "error",
) -> Callable[..., Any]:  # fmt: skip
    """A function that gives the Jacobian, by one forward pass for all elements of the arguments.

    Its shape is the output's followed by the argument's. `randomness` is that of vmap.

    >>> import contraflow as cf
    >>> cf.func.jacfwd(lambda x: x * x)(cf.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    _check_randomness("jacfwd", randomness)

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        chosen = _chosen("jacfwd", argnums, args)
        primals = [args[n] for n in chosen]
        leaves = [_check("jacfwd", x) for x in leaves_of(primals)]

        def of_primals(*values: Any) -> Any:
            return func(*_with(args, chosen, values), **kwargs)

        basis = _standard_basis(leaves)
        batch = Batch(sum(x.numel() for x in leaves), randomness)
        with changed(context=batch):
            along = fill(primals, [batch.wrap(t) for t in basis])
            output, pushed, *rest = jvp(of_primals, primals, along, has_aux=has_aux)
        aux = map_leaves(lambda x: batch.read(x)[0], rest[0]) if has_aux else None
        jacobians = [
            _restore(argnums, fill(primals, _blocks(batch.full(t), leaves)))
            for t in leaves_of(pushed)
        ]
        found = fill(output, jacobians)
        return (found, aux) if has_aux else found

    return wrapped


def _standard_basis(leaves: Sequence[Tensor]) -> list[Tensor]:
    """Tangents of the leaves [elements, ...]: each is one for a single element of all of them."""
    counts = [x.numel() for x in leaves]
    basis = []
    for k, (x, count) in enumerate(zip(leaves, counts)):
        rows = [
            full((sum(counts[:k]), count), 0.0, x.dtype, x.device),
            eye(count, dtype=x.dtype, device=x.device),
            full((sum(counts[k + 1 :]), count), 0.0, x.dtype, x.device),
        ]
        basis.append(reshape(cat(rows), (sum(counts), *x.shape)))
    return basis


def _blocks(pushed: Tensor, leaves: Sequence[Tensor]) -> list[Tensor]:
    """A Jacobian's parts by leaf, of tangents [elements, ...]: the output's dims come first."""
    columns = movedim(pushed, 0, -1)
    parts = split(columns, [x.numel() for x in leaves], -1)
    shape = pushed.shape[1:]
    return [reshape(part, (*shape, *x.shape)) for part, x in zip(parts, leaves)]


@public
def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """A function that gives the matrix of second derivatives, forward over reverse.

    >>> import contraflow as cf
    >>> cf.func.hessian(lambda x: (x**3.0).sum())(cf.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)


@public
def hvp(func: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The Hessian-vector product of a scalar function, without forming the Hessian.

    >>> import contraflow as cf
    >>> cf.func.hvp(lambda x: (x**3.0).sum(), (cf.tensor([1.0, 2.0]),), (cf.tensor([1.0, 1.0]),))
    (tensor([ 6., 12.]),)
    """
    everything = tuple(range(len(primals)))
    return jvp(grad(func, everything), primals, tangents)[1]


# --- batches -----------------------------------------------------------------------------------


@public
def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Vectorize a function of one example over a batch dim of its arguments.

    `in_dims` and `out_dims` are a dim, None for what all examples share, or containers of these
    like the arguments and the results. `chunk_size` examples are done at a time.

    >>> import contraflow as cf
    >>> dots = cf.func.vmap(lambda a, b: (a * b).sum())
    >>> dots(cf.tensor([[1.0, 2.0], [3.0, 4.0]]), cf.tensor([[1.0, 1.0], [0.0, 1.0]]))
    tensor([3., 4.])
    """
    _check_randomness("vmap", randomness)
    if chunk_size is not None and (not isinstance(chunk_size, int) or chunk_size < 1):
        raise ValueError(f"vmap: chunk_size is {chunk_size!r}; it must be a positive whole number.")

    @functools.wraps(func)
    def batched(*args: Any, **kwargs: Any) -> Any:
        given = leaves_of((args, kwargs))
        dims = [*_dims("in_dims", in_dims, args), *[0 for _ in leaves_of(kwargs)]]
        full = [_to_front("in_dims", x, dim) for x, dim in zip(given, dims)]
        sizes = {x.shape[0] for x, dim in zip(full, dims) if dim is not None}
        if len(sizes) != 1:
            found = " and ".join(map(str, sorted(sizes))) or "none"
            raise ValueError(f"vmap: the arguments must have one batch size; they have {found}.")
        (size,) = sizes
        parts = []
        for start in range(0, max(size, 1), chunk_size or max(size, 1)):
            stop = min(size, start + (chunk_size or size))
            part = [
                x if dim is None else narrow(x, 0, start, stop - start)
                for x, dim in zip(full, dims)
            ]
            parts.append(_run_batch(func, (args, kwargs), part, dims, stop - start, randomness))
        outs = [leaves_of(result) for result in parts]
        joined = [xs[0] if len(xs) == 1 else cat(list(xs), 0) for xs in zip(*outs)]
        places = _dims("out_dims", out_dims, parts[0])
        return fill(parts[0], [_from_front(x, dim) for x, dim in zip(joined, places)])

    return batched


def _check_randomness(caller: str, randomness: str) -> None:
    if randomness not in RANDOMNESS:
        raise ValueError(f"{caller}: randomness is {randomness!r}; it must be one of {RANDOMNESS}.")


def _dims(name: str, dims: Any, tree: Any) -> list[int | None]:
    """A dim for each leaf of `tree`, from one for all, or from containers like it."""
    if dims is None or isinstance(dims, int):
        return [dims for _ in leaves_of(tree)]
    if isinstance(dims, (tuple, list)) and isinstance(tree, (tuple, list)):
        if len(dims) != len(tree):
            raise ValueError(f"vmap: {name} has {len(dims)} entries for {len(tree)} values.")
        return [dim for d, part in zip(dims, tree) for dim in _dims(name, d, part)]
    if isinstance(dims, dict) and isinstance(tree, dict) and dims.keys() == tree.keys():
        return [dim for key, part in tree.items() for dim in _dims(name, dims[key], part)]
    raise TypeError(f"vmap: {name} {dims!r} does not have the structure of its values.")


def _to_front(name: str, x: Any, dim: int | None) -> Any:
    if dim is None:
        return x
    if not isinstance(x, Tensor) or not -x.ndim <= dim < x.ndim:
        raise ValueError(f"vmap: {name} says dim {dim} of {describe(x)}, which has no such dim.")
    return movedim(x, dim, 0)


def _from_front(x: Tensor, dim: int | None) -> Tensor:
    if dim is None:
        raise ValueError("vmap: out_dims is None for a result; every result needs a batch dim.")
    moved: Tensor = movedim(x, 0, dim)
    return moved


def _run_batch(
    func: Callable[..., Any], call: Any, full: Sequence[Any], dims: Sequence[int | None],
    size: int, randomness: str,
) -> Any:  # fmt: skip
    """The results for some examples, the batch in front."""
    context = Batch(size, randomness)
    given = [x if dim is None else context.wrap(x) for x, dim in zip(full, dims)]
    args, kwargs = fill(call, given)
    with changed(context=context):
        result = func(*args, **kwargs)

    def unwrapped(x: Any) -> Tensor:
        if not isinstance(x, Tensor):
            raise TypeError(f"vmap: the function returned {describe(x)}, not tensors.")
        return context.full(x)

    return map_leaves(unwrapped, result)
