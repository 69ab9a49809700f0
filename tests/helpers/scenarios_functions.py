"""Scenarios of functions of functions, and of indexing."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.autograd import test_func
from tests.helpers.scenario import EagerFile, among, leaf, parameters, plain, truth, whole
from tests.ops import test_indexing

import contraflow as cf
from contraflow import func
from contraflow.autograd import functional

Tensor = cf.Tensor
F = cf.nn.functional


# --- func --------------------------------------------------------------------------------------


functions = EagerFile("test_func")


@functions("grad_and_value", plain(3))
def value_and_gradient(x: Tensor) -> Any:
    squares = func.grad(lambda v: ((v * v).sum(), {"seen": v * 2.0}), has_aux=True)
    return func.value_and_grad(lambda v: (v**3.0).sum())(x), squares(x)


@functions("argnums_and_containers", plain(3), plain(3), plain(3))
def gradients_by_containers(w: Tensor, b: Tensor, x: Tensor) -> Any:
    def loss(model: dict[str, Any], x: Tensor, scale: float) -> Tensor:
        return ((model["w"] * x + model["rest"][0]) * scale).sum()

    model = {"w": w, "rest": [b]}
    gradients = [func.grad(loss, argnums=n)(model, x, 2.0) for n in (0, (0, 1), 1)]
    return gradients, func.grad(loss, argnums=-1)(model, x, scale=2.0)


@functions("argnums_and_containers", plain(3), raises=cf.GradientError)
def gradient_of_no_scalar(x: Tensor) -> Any:
    return func.grad(lambda v: v * 2.0)(x)


@functions("grad_nests_and_works_under_no_grad", plain(), plain(3))
def nested_gradients(x: Tensor, y: Tensor) -> Any:
    with cf.no_grad():
        quiet = func.grad(lambda v: (v * v).sum())(y)
    return func.grad(func.grad(func.grad(lambda v: v**4.0)))(x), quiet


@functions("results_stay_in_the_graph_of_what_requires_grad", leaf(3), leaf(3))
def gradients_of_gradients(w: Tensor, x: Tensor) -> None:
    func.grad(lambda v: (v * v * w).sum())(x.detach()).sum().backward()
    func.grad(lambda v: (v**3.0).sum())(x).sum().backward()
    value, t = func.jvp(lambda v: v**3.0, (x,), (cf.ones(3, dtype=cf.float64),))
    (value + t).sum().backward()


@functions("vjp", plain(3), plain(3), plain(3))
def pulled_back(a: Tensor, b: Tensor, c: Tensor) -> Any:
    value, pull, aux = func.vjp(lambda a, b: ((a * b, {"sum": a + b}), "aux"), a, b, has_aux=True)
    return value, aux, [pull((c, {"sum": c * 2.0})) for _ in range(2)]


@functions("vjp", plain(3), raises=ValueError)
def pulled_back_too_little(x: Tensor) -> Any:
    return func.vjp(lambda v: (v, v * 2.0), x)[1](x)


@functions("jvp", plain(3), plain(3))
def pushed_forward(x: Tensor, t: Tensor) -> Any:
    return func.jvp(lambda v: {"y": v.sin(), "c": cf.ones(2)}, (x,), (t,))


@functions("linearize_runs_the_function_once", plain(3), plain(3), plain(3))
def linearized(a: Tensor, b: Tensor, t: Tensor) -> Any:
    value, push = func.linearize(lambda a, b: {"y": (a * b).sin(), "c": cf.ones(2)}, a, b)
    return value, push(t, b), push(b, t)


@functions("linearize_of_what_does_not_depend_on_its_arguments", plain(3))
def pushed_to_nothing(x: Tensor) -> Any:
    value, push = func.linearize(lambda x: cf.ones(2), x)
    return value, push(x)


@functions("products_of_linearize_can_be_differentiated", leaf(3), leaf(3))
def pushed_and_differentiated(x: Tensor, t: Tensor) -> Any:
    func.linearize(lambda x: x**3.0, x)[1](t).sum().backward()
    return func.jacrev(lambda x: func.linearize(lambda y: y**3.0, x)[1](cf.ones_like(x)))(t)


for (function,) in parameters(test_func.test_every_nesting_agrees):

    def nestings(x: Tensor, v: Tensor, function: Any = function) -> Any:
        once = func.grad(function)(x), func.jacfwd(function)(x)
        return once, func.hvp(function, (x,), (v,))

    functions.named(
        f"nestings of {function.__name__}", "every_nesting_agrees", "under_capture",
        plain(3), plain(3),
    )(nestings)  # fmt: skip


@functions("every_nesting_agrees", plain(2))
def every_nesting(x: Tensor) -> Any:
    both = (func.jacrev, func.jacfwd)
    return [outer(inner(lambda v: (v * v).sin()))(x) for outer in both for inner in both]


@functions("jacobians_have_a_graph_only_where_there_is_more_to_it", plain(2), leaf(2))
def gradient_of_jacobians(x: Tensor, w: Tensor) -> Any:
    for transform in (func.jacrev, func.jacfwd, func.hessian):
        (transform(lambda x: (x**3.0 * w).sum())(x) ** 2.0).sum().backward()
    return w.grad


@functions("jacobians_of_structures", plain(2), plain(3))
def jacobians_of_structures(a: Tensor, b: Tensor) -> Any:
    def function(a: Tensor, b: Tensor) -> dict[str, Tensor]:
        return {"outer": cf.outer(a, b), "sum": (a * 2.0).sum()}

    return [
        (make(function, argnums=(0, 1))(a, b), make(lambda v: (v * v, "aux"), has_aux=True)(b))
        for make in (func.jacrev, func.jacfwd)
    ]


@functions("detach_stops_tangents", plain(3), plain(3))
def detached_tangents(x: Tensor, t: Tensor) -> Any:
    return func.jvp(lambda v: v * v.detach(), (x,), (t,))


@functions("backward_inside_forward_mode", plain(3), plain(3))
def backward_inside_forward(x: Tensor, t: Tensor) -> Any:
    def gradient(v: Tensor) -> Tensor:
        made = (v * 1.0).requires_grad_()
        (made**3.0).sum().backward()
        return made.grad

    return func.jvp(gradient, (x,), (t,))


@functions("a_compiled_function_inside_forward_mode", plain(3), plain(3))
def compiled_inside_forward_mode(x: Tensor, t: Tensor) -> Any:
    return func.jvp(cf.compile(lambda v: v * v), (x,), (t,))


@functions("functional_call", plain(2, 3, dtype=cf.float32), state=True)
def functional_call() -> Any:
    model = cf.nn.Sequential(cf.nn.Linear(3, 4), cf.nn.Tanh(), cf.nn.Linear(4, 1))

    def step(x: Tensor) -> Any:
        given = {name: p.detach() * 2.0 for name, p in model.named_parameters()}
        gradients = func.grad(lambda p: func.functional_call(model, p, x).sum())(given)
        model(x).sum().backward()
        return func.functional_call(model, (given,), (x,), strict=True), gradients

    return step, [model]


@functions("functional_call_of_tied_weights", plain(1, 1, dtype=cf.float32), state=True)
def functional_call_of_tied_weights() -> Any:
    model = cf.nn.Sequential(*(cf.nn.Linear(1, 1, bias=False) for _ in range(2)))
    model[1].weight = model[0].weight
    three = {"1.weight": cf.tensor([[3.0]])}

    def step(x: Tensor) -> Any:
        tied = func.functional_call(model, three, x, strict=True)
        return tied, func.functional_call(model, three, x, tie_weights=False).detach()

    return step, [model]


@functions("functional", plain(3), plain(3))
def older_names(x: Tensor, v: Tensor) -> Any:
    return (
        functional.vjp(lambda u: u * u, x, v),
        functional.vjp(lambda a, b: (a * b * b).sum(), (x, v)),
        functional.jvp(lambda a, b: a * b, (x, x), (v, v)),
        functional.jacobian(lambda u: u * u, x),
        functional.jacobian(lambda u: u * u, x, strategy="forward-mode"),
        functional.jacobian(lambda a, b: (a * b, a), (x, v)),
        functional.hessian(lambda u: (u**3.0).sum(), x),
        functional.hvp(lambda u: (u**3.0).sum(), x, v),
        functional.vhp(lambda u: (u**3.0).sum(), x, v),
    )


# --- indexing ----------------------------------------------------------------------------------


indexing = EagerFile("test_indexing")


def has_mask(key: Any) -> bool:
    """Whether reading by a key has a shape that depends on values."""
    parts = key if isinstance(key, tuple) else (key,)
    return any(isinstance(k, np.ndarray) and k.dtype == bool for k in parts)


BY_VALUES = "nothing is computed while a function is being recorded"
for number, (key,) in enumerate(parameters(test_indexing.test_reads_and_writes_as_numpy_does)):

    def read_and_write(x: Tensor, value: Tensor, key: Any = key) -> Any:
        part = x[key]
        y = x * 1.0
        y[key] = value * 2.0
        ((part * part).sum() + (y * y).sum()).backward()
        return part.detach(), y.detach()

    indexing.named(
        f"key {number}", "reads_and_writes_as_numpy_does",
        leaf(2, 3, 4), leaf(), refuses=BY_VALUES if has_mask(key) else None,
    )(read_and_write)  # fmt: skip

    def write_only(x: Tensor, value: Tensor, key: Any = key) -> Any:
        y = x * 1.0
        y[key] = value * 2.0
        (y * y).sum().backward()
        return y.detach()

    if has_mask(key):
        indexing.named(
            f"key {number}, written", "reads_and_writes_as_numpy_does", leaf(2, 3, 4), leaf()
        )(write_only)

for (key,) in parameters(test_indexing.test_basic_indices_give_views):
    indexing.named(f"a view x[{key}]", "basic_indices_give_views", plain(2, 3, 4))(
        lambda x, key=key: x[key].fill_(7.0).sum()
    )


@indexing("integers_beside_tensors_are_selected_first", leaf(2, 3, 4))
def integers_beside_tensors(x: Tensor) -> Any:
    read = x[0, :, [0, 1]], x[[0, 1], :, 0]
    (read[0].exp().sum() * read[1].sum()).backward()
    return [t.detach() for t in read]


@indexing("a_number_in_a_tensor_selects_a_view", plain(2, 3, 4), state=True)
def numbers_in_tensors_from_outside() -> Any:
    one, last = cf.tensor(1), cf.tensor(-1)
    return lambda x: (x[one] * 1.0, x[last, one] * 1.0), []


@indexing("the_last_of_several_writes_stays", plain(4), plain(2))
def several_writes_to_a_point(values: Tensor, more: Tensor) -> Any:
    x = cf.zeros(3, dtype=cf.float64)
    x[[1, 1, 0, 1]] = values
    first = x.clone()
    x.index_put_((cf.tensor([1, 1]),), more, accumulate=True)
    return first, x


@indexing("an_ellipsis_for_no_dims_does_not_part_arrays", leaf(2, 3, 4))
def an_ellipsis_between_arrays(x: Tensor) -> Any:
    read = x[:, [0, 1], ..., [0, 1]]
    read.exp().sum().backward()
    return read.detach()


@indexing("an_empty_mask_fits_empty_dims_only", leaf(0, 3, 2), raises=IndexError)
def an_empty_mask(x: Tensor) -> Any:
    return x[..., cf.zeros(0, 3, dtype=cf.bool)]


@indexing("gradients_of_what_is_read_twice_add_up", leaf(3), plain(4))
def read_twice(x: Tensor, weights: Tensor) -> None:
    (x[[0, 2, 2, 2]] * weights).sum().backward()


def by_rows(x: Tensor, v: Tensor) -> Tensor:
    y = x * x
    y[1, [0, 2]] = v
    return y * y


def by_mask(x: Tensor, v: Tensor) -> Tensor:
    y = x * x
    y[:, cf.tensor(test_indexing.MASK)] = v.sum()
    return y * y


def in_a_view(x: Tensor, v: Tensor) -> Tensor:
    y = x * x
    z = y.transpose(0, 2)
    z[[3, 0], 1:] = v[0, :2]
    return y * z.sum()


for function in (by_rows, by_mask, in_a_view):
    indexing.pure(f"write {function.__name__}", "gradients_of_writes", leaf(2, 3, 4), leaf(2, 4))(
        function
    )


@indexing("a_write_touches_only_its_points", plain(4), plain(2))
def points_only(x: Tensor, value: Tensor) -> None:
    x[[0, 1]] = value
    x[[1, 2]] = x[:2]


@indexing("values_broadcast_and_are_cast", plain(1, 1, 3), truth(2, 3))
def broadcast_and_cast(value: Tensor, mask: Tensor) -> Tensor:
    x = cf.zeros(2, 3, dtype=cf.int64)
    x[[1]] = value * 10.0
    x[0] = np.array([4, 5, 6])
    x[mask] = 7
    return x


@indexing("iteration_length_and_membership", plain(2, 2))
def rows(x: Tensor) -> Any:
    return [row * 2.0 for row in x], len(x)


@indexing("iteration_length_and_membership", plain(2, 2), refuses=BY_VALUES)
def membership(x: Tensor) -> bool:
    return 3.0 in x


OUT_OF_RANGE = "is out of range"  # a program names another op, and the line


@indexing("wrong_writes", plain(3, 2), raises=ValueError)
def write_that_does_not_fit(x: Tensor) -> None:
    x.mul_(2.0)
    x[0:2] = cf.ones(3, 2)


@indexing("wrong_writes", plain(3, 2), raises=IndexError, words=OUT_OF_RANGE)
def write_out_of_range(x: Tensor) -> None:
    x[[0, 3]] = 1.0


@indexing("compiled_reads_and_writes", leaf(3, 4), whole(3, 3), truth(3, 4), leaf(3, 1))
def indices_and_masks(x: Tensor, i: Tensor, mask: Tensor, v: Tensor) -> Any:
    y = x * 2.0
    y[mask] = -1.0
    y[i, 1:] = v
    (y * y * x[:, i].sum()).sum().backward()
    return y.detach(), x[i[0]].detach()


for name, (test, function) in {
    "a mask": ("compiled_reading_by_a_mask_is_refused", lambda x: x[x > 1]),
    "where": ("where_with_one_argument_gives_coordinates", cf.where),
    "nonzero": ("where_with_one_argument_gives_coordinates", cf.nonzero),
    "unique": ("unique_returns_what_is_asked_for", cf.unique),
    "repeat_interleave": ("repeat_interleave_takes_a_tensor", cf.repeat_interleave),
    "one_hot": ("one_hot_finds_the_number_of_classes", F.one_hot),
}.items():
    indexing.named(f"{name} of values", test, whole(4, 5), refuses=BY_VALUES)(function)


@indexing("compiled_index_out_of_range", plain(2), raises=IndexError, words=OUT_OF_RANGE)
def read_out_of_range(x: Tensor) -> Tensor:
    return x[cf.tensor([2])] * 2.0


@indexing("scatter_takes_a_value_and_a_larger_source", plain(2, 4))
def scattered(source: Tensor) -> Any:
    index, zeros = cf.tensor([[0, 2]]), cf.zeros(1, 3, dtype=cf.float64)
    return (
        zeros.scatter(1, index, 5.0), zeros.scatter(1, index, source),
        zeros.clone().scatter_(1, index, 2.0, reduce="add"),
        zeros.clone().scatter_add_(1, index, source),
    )  # fmt: skip


@indexing("the_padding_row_of_an_embedding_gets_no_gradient", leaf(3, 2), whole(3, 4))
def padded_embedding(weight: Tensor, index: Tensor) -> None:
    F.embedding(index, weight, padding_idx=-1).exp().sum().backward()


@indexing("one_hot_finds_the_number_of_classes", whole(4, 3))
def one_hot(x: Tensor) -> Tensor:
    return F.one_hot(x, 4)


@indexing(
    "searchsorted_treats_nan_and_infinity_as_pytorch_does",
    among(-np.inf, 0.0, 0.5, np.inf, np.nan), state=True,
)  # fmt: skip
def sorted_places() -> Any:
    edges = cf.tensor([-np.inf, 0.0, np.inf], dtype=cf.float64)

    def step(values: Tensor) -> Any:
        found = [cf.searchsorted(edges, values.detach(), right=r) for r in (False, True)]
        return found, cf.bucketize(values.detach(), edges, out_int32=True)

    return step, []


@indexing("isin_takes_numbers", whole(4, 5))
def is_in(x: Tensor) -> Any:
    return cf.isin(x, 2), cf.isin(2, x)


@indexing("a_value_must_fit_what_an_index_of_nothing_chooses", plain(2, 3))
def value_for_nothing(x: Tensor) -> Any:
    x[0:0] = cf.ones(3, dtype=x.dtype)
    x[False] = cf.ones(3, dtype=x.dtype)
    return x * 2
