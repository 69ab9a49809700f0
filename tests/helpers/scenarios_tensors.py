"""Scenarios of shapes, and of tensors by themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.helpers.scenario import EagerFile, leaf, parameters, plain, whole
from tests.ops import test_shape
from tests.tensors import test_tensor

import contraflow as cf

Tensor = cf.Tensor
pad = cf.nn.functional.pad


# --- shapes ------------------------------------------------------------------------------------


shape = EagerFile("test_shape")


def views_of(x: Tensor) -> list[Tensor]:
    return [
        x.view(4, 3), x.view(2, -1), x.t(), x.movedim(0, 1), x.narrow(0, 1, 2), x.diagonal(1),
        x.unflatten(1, (2, 2)), x.unfold(1, 2, 1), x.as_strided((2, 2), (1, 4), 3), x.ravel(),
        x.swapaxes(0, 1), x.broadcast_to((2, 3, 4)), *x.split(2), *x.chunk(2, 1), *x.unbind(1),
        *x.tensor_split(2), *x.hsplit(2), x.squeeze((0, 1)), x[None].squeeze((0, 2)),
    ]  # fmt: skip


@shape("views_share_memory", plain(3, 4))
def views_see_writes(x: Tensor) -> Any:
    views = views_of(x)
    x.narrow(1, -1, 1).fill_(-1.0)
    return [v * 1.0 for v in views]


@shape("views_share_memory", leaf(3, 4))
def gradients_of_views(x: Tensor) -> None:
    sum((v * float(i + 1)).sin().sum() for i, v in enumerate(views_of(x))).backward()


@shape("cat_with_a_vector_of_nothing_that_requires_grad", leaf(0), leaf(2, 3))
def cat_with_nothing(nothing: Tensor, x: Tensor) -> None:
    (cf.cat([nothing, x], 1) * x).sum().backward()


@shape("more_dims_than_there_can_be", plain(1), raises=ValueError)
def too_many_dims(x: Tensor) -> Any:
    return x.reshape([1] * 65)


@shape("views_share_memory", plain(3, 4))
def views_as_results(x: Tensor) -> Any:
    return views_of(x)


@shape("view_never_copies", plain(3, 4), raises=ValueError)
def view_that_would_copy(x: Tensor) -> Any:
    return x.t().view(12)


for (cut,) in parameters(test_shape.test_pieces_made_together_are_not_written_to_under_grad):

    def first_piece(x: Tensor, cut: str = cut) -> Any:
        y = x * 1.0
        return y, getattr(y, cut)(2 if cut != "unbind" else 0)[0]

    def write_without_grad(x: Tensor, first_piece: Any = first_piece) -> Tensor:
        whole, piece = first_piece(x)
        with cf.no_grad():
            piece.add_(1.0)
        return whole.detach()

    covered = "pieces_made_together_are_not_written_to_under_grad"
    shape.named(f"a piece of {cut}", covered, leaf(3, 4))(write_without_grad)
    shape.named(f"refused, a piece of {cut}", covered, leaf(3, 4), raises=cf.GradientError)(
        lambda x, first_piece=first_piece: first_piece(x)[1].add_(1.0)
    )


@shape("cat_promotes_and_skips_vectors_without_elements", whole(5, 2), leaf(1), leaf(2, 3))
def joined(i: Tensor, x: Tensor, y: Tensor) -> Any:
    both = cf.cat([i, x])
    ((both * both).sum() + cf.cat([cf.zeros(0), y], 1).sin().sum()).backward()
    return both.detach(), cf.concatenate([y, y * 2.0], axis=-1).detach()


@shape("only_inputs_that_need_a_gradient_get_one", leaf(2), plain(3))
def joined_with_a_constant(a: Tensor, b: Tensor) -> None:
    (cf.cat([a, b]) * cf.arange(5)).sum().backward()


@shape("pad_takes_pytorchs_order", leaf(3, 4))
def padded(x: Tensor) -> Any:
    found = [pad(x, (1, 0, 0, 2)), pad(x, [0, -1]), pad(x, (1, 0), value=float("-inf"))]
    found += [pad(x, (1, 2), mode=mode) for mode in ("reflect", "replicate", "circular")]
    sum((out.exp() * float(i + 1)).sum() for i, out in enumerate(found)).backward()
    return [out.detach() for out in found]


@shape("roll_without_dims_rolls_the_flat_tensor", leaf(3, 4))
def rolled(x: Tensor) -> Any:
    (x.roll(5) * x.roll((1, -1, 2), (0, 1, 0))).sum().backward()
    return x.roll(5).detach()


@shape("repeat_and_tile_take_numbers_one_by_one", leaf(2))
def repeated(x: Tensor) -> Any:
    (x.repeat(2, 2).exp() * x.tile(2, 2) + x.flip(0).repeat(2)).sum().backward()
    return x.repeat(1).detach(), x.flip((0,)).detach()


@shape("meshgrid_and_its_kin", whole(9, 3), whole(9, 2))
def grids(a: Tensor, b: Tensor) -> Any:
    return (
        cf.meshgrid(a, b, indexing="xy"), cf.cartesian_prod(a, b), cf.combinations(a),
        cf.tril_indices(2, 2), cf.block_diag(cf.ones(1, 2), cf.ones(1)),
    )  # fmt: skip


@shape("as_strided_stays_within_the_tensor", plain(3, 4), raises=ValueError)
def strided_beyond_the_end(x: Tensor) -> Any:
    return x.as_strided((3,), (4,), 4)


@shape("as_strided_stays_within_the_tensor", plain(3, 4), raises=cf.GradientError)
def write_to_overlapping_elements(x: Tensor) -> Any:
    return x.as_strided((2, 3), (1, 1)).add_(1.0)


@shape("in_place_twins", plain(3, 4), plain(2, 4))
def in_place_twins(x: Tensor, y: Tensor) -> None:
    x.tril_().fill_diagonal_(9.0)
    x.masked_fill_(x == 9.0, 0).index_fill_(1, cf.tensor([-1]), 1.0)
    x.index_add_(0, cf.tensor([0, 0]), y, alpha=2)
    x.put_(cf.tensor([0, -1]), y[0, :2])
    x.index_copy_(0, cf.tensor([1]), y[1:])


def turned_in_place(x: Tensor, name: str) -> Tensor:
    y = x * 1.0
    getattr(y, name)(*test_shape.IN_PLACE[name])
    return y


for name in test_shape.IN_PLACE:
    shape.named(f"in place, {name}", "a_tensor_becomes_its_own_view", plain(3, 1))(
        lambda x, name=name: turned_in_place(x, name)
    )


@shape("what_backward_keeps_stays_as_it_was_when_a_shape_changes_in_place", leaf(2, 2), plain(2, 2))
def turned_after_it_was_saved(w: Tensor, x: Tensor) -> Any:
    y = x * 1.0
    product = (w * y).sum()
    y.t_()
    product.backward()
    return y


@shape(
    "a_view_of_a_tensor_whose_shape_changed_is_refused_once_that_is_written",
    leaf(2, 2), plain(2, 2), raises=cf.GradientError,
)  # fmt: skip
def turned_under_a_view(w: Tensor, x: Tensor) -> Any:
    y = x * 1.0
    row = y[0]
    y.t_()
    y.add_(w)
    return row * 2


@shape("a_shape_that_a_graph_knows_cannot_be_changed_in_place", leaf(2, 1), raises=cf.GradientError)
def turned_in_the_graph(x: Tensor) -> Any:
    return (x * 2).squeeze_()


@shape("compiled_pieces_without_elements", leaf(3, 1))
def pieces_without_elements(x: Tensor) -> Any:
    y = x * 1.0
    y[:, 1:] = x[:, 1:]
    joined = cf.cat([y * 2.0, x[3:] * 2.0])
    joined.sum().backward()
    return joined.detach(), (x[:, 1:] * 2.0).detach()


@shape("compiled_split_and_cat", "compiled_cat_of_many", leaf(3, 4))
def split_and_joined(x: Tensor) -> Any:
    a, b = x.chunk(2, -1)
    many = cf.cat([x + float(i) for i in range(40)], 1)
    (cf.cat([-b, a], -1) * x.detach() + (many * many).sum()).sum().backward()
    return many.detach()


# --- tensors -----------------------------------------------------------------------------------


tensor = EagerFile("test_tensor")
F16, F32, F64, I8, I64 = cf.float16, cf.float32, cf.float64, cf.int8, cf.int64

for dtype in test_tensor.ORDER:

    def promoted(x: Tensor, dtype: Any = dtype) -> Any:
        others = [cf.ones(2, dtype=other) for other in test_tensor.ORDER]
        return [x.to(dtype) + y for y in others]

    tensor.named(f"promotion of {dtype}", "promotion_of_two_tensors", whole(9, 2))(promoted)

for name in ("promotion_with_a_0d_tensor", "promotion_with_a_number"):

    def promoted_alone(x: Tensor, name: str = name) -> Any:
        found = []
        for dtype, other, _ in parameters(getattr(test_tensor, f"test_{name}")):
            y = cf.ones((), dtype=other) if isinstance(other, cf.dtype) else other
            a = x.to(dtype)
            found += [a + y, y * a, cf.where(a > 0, a, y)]
        return found

    tensor.named(name.replace("_", " "), name, whole(9, 2))(promoted_alone)


@tensor("promotion_follows_the_default_dtype", whole(9, 2))
def another_default_dtype(x: Tensor) -> Any:
    before = cf.get_default_dtype()
    cf.set_default_dtype(F64)
    found = x * 2.0, x.exp(), cf.tensor([1.5]), x.float() * 2.0
    cf.set_default_dtype(before)
    return found, x * 2.0


@tensor("dtype_rules_of_other_ops", whole(9, 4, dtype=cf.int32))
def dtype_rules(x: Tensor) -> Any:
    sums = x.sum(), (x > 3).sum(), x.to(F16).sum()
    return x / (x + 1), x.exp(), sums, x == x, x.amax(), x.argsort(stable=True), x < 3.5


@tensor("gradients_cross_dtypes", leaf(2, dtype=F16), leaf(), through=F16)
def gradients_across_dtypes(x: Tensor, y: Tensor) -> None:
    (x * y * cf.ones(2, dtype=F32)).sum().backward()


@tensor("half_precision_overflows_without_a_warning", plain(2, dtype=F16))
def overflow(x: Tensor) -> Any:
    large = x.sign() * 60000.0
    return large * 2.0, (large.float() * 100.0).to(F16), cf.ones(3000, dtype=F16).mean()


@tensor("the_users_error_state_is_not_touched", plain(2))
def no_warnings(x: Tensor) -> Any:
    before = np.geterr()
    found = (x * 0.0 / (x * 0.0)).log(), (-x.abs()).sqrt(), x / 0.0
    assert np.geterr() == before
    return found


@tensor("promotion_with_a_number", plain(2))
def infinite_numbers(x: Tensor) -> Any:
    infinity = cf.full((), 2.0, dtype=F64) * float("inf")
    return x * infinity, cf.where(x > 0.0, -infinity, float("nan"))


@tensor("numpy_on_either_side_of_an_operator", leaf(2))
def arrays_beside_tensors(x: Tensor) -> Any:
    array = np.array([3.0, 4.0])
    sum((y * y).sum() for y in (x * array, array * x, x * np.float64(3.0))).backward()
    return (array - x).detach(), (x @ array).detach(), (np.eye(2) @ x).detach()


@tensor("matmul_by_operator_takes_vectors_as_the_function_does", leaf(2, 3), leaf(3))
def products_with_vectors(a: Tensor, v: Tensor) -> None:
    ((a @ v).sum() * (v @ a.T).exp().sum() + v @ v).backward()


@tensor("matmul_of_many_batch_dims", leaf(*(2, 1) * 5, 2, 3), leaf(*(1, 2) * 5, 3, 2))
def product_of_many_dims(a: Tensor, b: Tensor) -> Tensor:
    out = a @ b
    (out * out).sum().backward()
    return out.detach()


@tensor("lists_and_arrays_select_along_the_first_dim", plain(2, 2))
def selected_by_lists(x: Tensor) -> Any:
    return x[[1, 0]], x[np.array([1])], cf.arange(200)[cf.tensor([-1], dtype=I8)]


@tensor("wrong_arguments_are_refused_by_name", plain(2, 3), raises=TypeError)
def product_with_a_number(x: Tensor) -> Any:
    return x @ 2.0


@tensor("empty_views_beyond_the_end", plain(3, 2))
def empty_views(x: Tensor) -> Any:
    return x[3:], x[3:, 1:].sum(), x[:0, 1:].T.clone()


for number, (draw, _) in enumerate(
    parameters(test_tensor.test_draws_repeat_after_manual_seed_and_advance)
):
    tensor.named(f"draw {number}", "draws_repeat_after_manual_seed_and_advance")(
        lambda draw=draw: [draw(), draw()]
    )


@tensor("draws_repeat_after_manual_seed_and_advance", plain(2))
def seeded_inside(x: Tensor) -> Any:
    first = cf.rand(3)
    cf.manual_seed(5)
    second = cf.rand(3)
    saved = cf.get_rng_state()
    third = cf.randn(3)
    cf.set_rng_state(saved)
    return first, second, third, cf.randn(3)


@tensor("generators_are_independent", state=True)
def a_generator_from_outside() -> Any:
    mine = cf.Generator(5)
    return lambda: (cf.rand(4, generator=mine), cf.rand(4)), []


for (dtype,) in parameters(test_tensor.test_uniform_numbers_stay_below_one):
    tensor.named(f"uniform {dtype}", "uniform_numbers_stay_below_one")(
        lambda dtype=dtype: cf.rand(1000, dtype=dtype)
    )


@tensor("dropout_scales_what_survives_and_its_gradient", leaf(100))
def dropout(x: Tensor) -> Tensor:
    y = cf.dropout(x, 0.25)
    y.sum().backward()
    return y.detach()


@tensor("lists_and_arrays_select_along_the_first_dim", plain(), raises=IndexError)
def too_many_indices(x: Tensor) -> Any:
    return x[cf.tensor(0)]


@shape("norm_except_dim_of_a_vector_is_the_absolute_value", leaf(4))
def norm_of_a_vector(x: Tensor) -> None:
    cf.norm_except_dim(x).sum().backward()
