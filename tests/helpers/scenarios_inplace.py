"""Scenarios of writing to tensors in place."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.helpers.scenario import EagerFile, leaf, parameters, plain
from tests.tensors import test_inplace

import contraflow as cf

Tensor = cf.Tensor

inplace = EagerFile("test_inplace")


@inplace("in_place_on_a_tensor_that_is_no_leaf", leaf(2))
def writes_to_a_result(x: Tensor) -> Tensor:
    y = x * 2.0
    y += 1.0
    y.mul_(3.0)
    y.sum().backward()
    return y.detach()


@inplace("in_place_makes_a_plain_tensor_part_of_the_graph", leaf(2))
def writes_to_a_plain_tensor(x: Tensor) -> bool:
    y = cf.zeros(2, dtype=cf.float64)
    y.add_(x * 3.0)
    y.sum().backward()
    return y.is_leaf


for (function,) in parameters(test_inplace.test_writes_through_views_have_right_gradients):
    inplace.pure(
        function.__name__, "writes_through_views_have_right_gradients", leaf(3, 3), leaf(3)
    )(function)


for (function,) in parameters(test_inplace.test_a_view_of_many_views):
    inplace.pure(function.__name__, "a_view_of_many_views", leaf(3, 2), leaf(2, 2))(function)


@inplace("rows_written_one_by_one_copy_nothing_else", leaf(2))
def writes_row_by_row(w: Tensor) -> None:
    rows = cf.zeros(5, 2, dtype=cf.float64)
    for i in range(5):
        rows[i] = w * float(i)
    rows[3] = 0.0
    (rows * rows).sum().backward()


@inplace("gradients_of_a_written_row_are_not_shared", leaf(2), leaf(1))
def gradients_of_a_written_row(x: Tensor, z: Tensor) -> Any:
    y = x * 1.0
    y[:1] = z
    seen = []
    y.register_hook(lambda g: seen.append(g * 1.0))
    y.backward(cf.ones(2, dtype=cf.float64), retain_graph=True)
    y.backward(cf.ones(2, dtype=cf.float64))
    return seen


@inplace("a_write_under_no_grad_changes_data_only", leaf(2))
def writes_under_no_grad(x: Tensor) -> Tensor:
    y = x * 3.0
    with cf.no_grad():
        y[0] = 100.0
        x.mul_(2.0)
    y.sum().backward()
    return y.detach()


@inplace("a_write_through_detach_changes_data_and_version", leaf(2))
def writes_through_detach(x: Tensor) -> None:
    x.detach().mul_(2.0)


@inplace("the_value_of_a_write_may_overlap_its_target", plain(4), leaf(3))
def overlapping_writes(x: Tensor, z: Tensor) -> Tensor:
    x[1:] = x[:-1]
    y = z * 1.0
    y[:2] = y[1:]
    (y * y).sum().backward()
    return y.detach()


for write, name in parameters(test_inplace.test_refused_a_leaf_that_requires_grad):
    inplace.named(f"{name} of a leaf", "refused_a_leaf_that_requires_grad", leaf(2))(
        cf.no_grad()(lambda x, write=write: [write(x), None][1])
    )
    inplace.named(
        f"refused, {name} of a leaf", "refused_a_leaf_that_requires_grad", leaf(2),
        raises=cf.GradientError,
    )(write)  # fmt: skip


@inplace("refused_a_view_of_a_leaf_that_requires_grad", leaf(2))
def a_view_of_a_leaf(x: Tensor) -> None:
    with cf.no_grad():
        x[0] = 5.0


@inplace("refused_a_view_made_under_no_grad", leaf(2))
def a_view_made_under_no_grad(x: Tensor) -> Any:
    y = x * 2.0
    with cf.no_grad():
        part = y[:1]
        part.add_(1.0)
    return y.detach(), part.detach()


def part_made_under_no_grad(y: Tensor) -> Tensor:
    with cf.no_grad():
        return y[:1]


for name, function in {
    "refused_a_view_that_is_itself_a_leaf": lambda x: cf.ones(4)[:2].requires_grad_().add_(1.0),
    "refused_a_view_of_a_leaf_that_requires_grad": lambda x: x[0].add_(1.0),
    "refused_a_view_made_under_no_grad": lambda x: part_made_under_no_grad(x * 2.0).add_(1.0),
    "refused_one_of_several_views_made_together": lambda x: (x * 2.0).chunk(2)[0].add_(1.0),
    "refused_a_destination_that_overlaps_itself": lambda x: cf.ones(2).expand(3, 2).fill_(1.0),
}.items():
    inplace.named(name.replace("_", " "), name, leaf(2), raises=cf.GradientError)(function)


@inplace("an_in_place_result_must_fit", plain(3), raises=ValueError)
def a_result_that_does_not_fit(x: Tensor) -> None:
    x.mul_(2.0)  # a compiled call that raises has done nothing
    x.add_(cf.ones(2, 3))


for name, write in {
    "the tensor": lambda y: y.add_(1.0),
    "a part": lambda y: y[:1].mul_(2.0),
    "detached": lambda y: y.detach().zero_(),
    "by index": lambda y: y.__setitem__(0, 1.0),
    "data": lambda y: y.data.copy_(cf.ones(2)),
}.items():

    def overwrite_what_was_saved(x: Tensor, write: Any = write) -> None:
        y = x * 2.0
        z = y.exp().sum() + (y * y).sum()
        write(y)
        z.backward()

    inplace.named(
        f"refused, overwriting {name}", "seed_15_every_way_of_writing_counts",
        "seed_15_a_saved_value_that_was_overwritten_names_both_lines", leaf(2),
        raises=cf.GradientError,
    )(overwrite_what_was_saved)  # fmt: skip


@inplace(
    "a_strided_base_whose_view_is_irregular", leaf(2),
    lambda rng: cf.from_numpy(np.asfortranarray(rng.standard_normal((2, 3)))),
    raises=cf.GradientError,
)  # fmt: skip
def write_to_an_irregular_part(x: Tensor, base: Tensor) -> None:
    base.T.reshape(6)[:2] = x


@inplace(
    "a_saved_leaf_whose_data_was_replaced", leaf(2),
    refuses="and a replay would not give it other memory. Write x.copy_(value)",
)  # fmt: skip
def replaced_data(x: Tensor) -> None:
    x.data = x.detach() * 2.0


@inplace("seed_15_an_output_that_was_overwritten", leaf(1), raises=cf.GradientError)
def overwrite_an_output(x: Tensor) -> None:
    x.exp().mul_(2.0).backward()


@inplace("seed_15_what_saved_nothing_does_not_complain", leaf(2))
def overwrite_what_nobody_saved(x: Tensor) -> None:
    y = x * 2.0
    z = y + 1.0
    y.mul_(5.0)
    z.sum().backward()
