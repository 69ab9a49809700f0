"""The eager tests of the engine again, compiled wherever that makes sense.

The scenarios of `scenarios_*.py` run eagerly, with the tape interpreted (which must give the same
bits) and natively. `NOT_COMPILED` lists the eager tests that make no sense compiled, and why; every
test of the eager files is in one of the two.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import pytest
from tests.helpers import (
    scenarios_autograd,
    scenarios_functions,
    scenarios_inplace,
    scenarios_modules,
    scenarios_optimizers,
    scenarios_parallel,
    scenarios_saved,
    scenarios_tensors,
)
from tests.helpers.scenario import CALLS, MODES, SCENARIOS, Notes, compare, declared_tests, observe

import contraflow as cf
from contraflow import config

DECLARED_BY = (
    scenarios_autograd, scenarios_functions, scenarios_inplace, scenarios_modules,
    scenarios_optimizers, scenarios_parallel, scenarios_saved, scenarios_tensors,
)  # fmt: skip
FILES = (
    "test_autograd", "test_inplace", "test_saved", "test_function", "test_modes", "test_func",
    "test_indexing", "test_shape", "test_tensor", "test_parallel", "test_nn", "test_optim",
    "test_seed_flow", "test_seed_graph", "test_seed_rules",
)  # fmt: skip
MORE_FILES = {
    "test_autograd": ("test_autograd_hooks", "test_autograd_rules"),
    "test_nn": ("test_nn_layers", "test_nn_init", "test_nn_utils"),
    "test_optim": ("test_optim_steps", "test_optim_groups"),
}  # beside the one with the name of the subject


CALL_NAMES = [f"call {number}" for number in range(CALLS)]

REASONS: dict[str, tuple[str, ...]] = {
    "asserts what is freed, and when, which in a program is the plan's": (
        "test_autograd.test_a_chain_that_saves_values_is_freed_without_recursion",
        "test_saved.test_intermediates_nobody_saved_are_freed_at_once",
        "test_function.test_what_a_function_keeps_is_freed_by_reference_counts",
        "test_seed_graph.test_line_09_checkpoints_drop_activations",
    ),
    "asserts which Python objects a node holds: a program has no nodes": (
        "test_inplace.test_a_view_of_many_views_keeps_few_moves",
        "test_saved.test_a_composite_keeps_no_input_that_its_gradient_does_not_read",
        "test_autograd.test_seed_17_the_graph_can_be_walked_and_printed",
        "test_autograd.test_seed_17_one_line_for_all_ops_of_a_call",
        "test_saved.test_each_op_saves_what_its_bound_rules_name",
        "test_saved.test_a_first_linear_layer_keeps_its_input_only",
        "test_seed_graph.test_line_17_the_graph_is_data",
        "test_shape.test_many_parts_are_one_node",
        "test_shape.test_looking_at_one_of_many_parts",
    ),
    "is about threads, which a recording does not follow (see test_threads.py)": (
        "test_autograd.test_modes_are_per_thread",
        "test_autograd.test_backwards_in_several_threads_share_leaves",
        "test_autograd.test_seed_17_a_graph_may_be_used_by_two_threads",
        "test_modes.test_threads_may_share_a_mode",
        "test_modes.test_anomaly_mode_is_per_thread_and_restored",
    ),
    "compiles what it tests itself": (
        "test_modes.test_compiled_functions_run_op_by_op_in_anomaly_mode",
        "test_parallel.test_small_graphs_and_recordings_stay_sequential",
        "test_optim.test_large_parameters_are_updated_by_one_program",
        "test_optim.test_the_prologue_of_a_compiled_step_does_not_grow_with_the_parameters",
        "test_optim.test_numbers_of_a_group_are_recorded_once",
        "test_seed_graph.test_line_19_a_tape_can_be_read",
        "test_nn.test_tracking_may_be_turned_off_and_on",
        "test_nn.test_plain_means_of_all_batches_have_the_digits_of_the_averages",
        "test_optim.test_what_users_put_in_place_of_groups_and_state",
        "test_optim.test_compiled_step_notices_what_is_put_into_the_list",
        "test_nn.test_clipping_many_large_gradients_is_one_program",
        "test_shape.test_gradients_of_many_parts",
        "test_optim.test_averages_are_taken_inside_a_compiled_step",
        "test_shape.test_cat_of_vectors_of_nothing_alone_takes_every_dim",
        "test_shape.test_cat_beside_vectors_of_nothing_has_gradients",
        "test_optim.test_counters_are_numbers_to_those_who_read_them",
        "test_optim.test_a_compiled_function_computes_with_a_counter",
    ),
    "tries an op at a time, which test_compiled_ops.py does compiled": (
        "test_shape.test_stacking_and_joining_many",
        "test_shape.test_shapes_are_given_one_by_one_as_a_sequence_or_by_name",
        "test_func.test_forward_mode_is_the_transpose_of_backward",
    ),
    "reads values to compare them, which a recording refuses": (
        "test_func.test_gradcheck",
    ),
    "shares memory with NumPy, whose writes no program sees": (
        "test_tensor.test_from_numpy_shares_memory",
        "test_shape.test_a_view_of_another_dtype_has_the_same_bytes",
    ),
    "is about an op's declaration": (
        "test_autograd.test_a_misspelt_name_fails_at_the_declaration",
    ),
    "is about the Python side of modules: names, registration, copies, texts": (
        "test_nn.test_parameter_errors",
        "test_nn.test_a_deep_copy_of_a_parameter_has_no_gradient",
        "test_nn.test_a_copy_loses_its_parametrization_alone",
        "test_nn.test_attributes_register_themselves",
        "test_nn.test_assigning_moves_an_attribute_between_kinds",
        "test_nn.test_registration_errors",
        "test_nn.test_the_padding_of_a_convolution_is_checked_when_it_is_made",
        "test_nn.test_call_shows_the_module_to_the_context",
        "test_nn.test_state_dict_leaves_out_transient_buffers",
        "test_nn.test_load_state_dict_names_every_problem_and_writes_nothing",
        "test_nn.test_repr",
        "test_nn.test_repr_of_a_tree",
        "test_nn.test_init_errors",
        "test_nn.test_deepcopy_keeps_hooks_apart",
        "test_nn.test_to_in_all_its_forms",
        "test_nn.test_load_after_to_and_shared_parameters",
        "test_nn.test_load_by_assignment",
        "test_nn.test_dotted_names",
        "test_nn.test_buffers_by_assignment",
        "test_nn.test_summary",
        "test_nn.test_recurrent_errors",
        "test_nn.test_parametrized_weights_can_be_assigned",
        "test_nn.test_initial_distributions_of_layers",
        "test_nn.test_spectral_norm_iterates_as_pytorchs",
    ),
    "is about the Python side of optimizers: groups, saved state, copies, texts": (
        "test_optim.test_lbfgs_refuses",
        "test_optim.test_gradient_on_another_device",
        "test_optim.test_all_state_exists_before_the_first_step",
        "test_optim.test_group_behaves_like_a_dict_of_numbers",
        "test_optim.test_none_is_an_entry_too",
        "test_optim.test_a_fixed_number_is_structure",
        "test_optim.test_symbolic_group",
        "test_optim.test_copies_of_a_group_have_their_own_numbers",
        "test_optim.test_errors",
        "test_optim.test_state_dict_layout",
        "test_optim.test_load_state_dict_errors",
        "test_optim.test_deepcopy_with_its_model",
        "test_optim.test_a_counter_that_begins_anew",
        "test_optim.test_momentum_that_is_none_begins_with_the_next_gradient",
        "test_optim.test_groups_are_checked_before_they_are_taken_over",
    ),
    "compares eager mode with PyTorch": (
        "test_nn.test_layers_agree_with_pytorch",
        "test_optim.test_trajectory_agrees_with_pytorch",
        "test_optim.test_state_has_the_layout_of_pytorch",
        "test_optim.test_muon_agrees_with_pytorch",
        "test_optim.test_adafactor_of_any_shape_agrees_with_pytorch",
        "test_optim.test_lbfgs_agrees_with_pytorch",
    ),
    "waits for the GPU devices": (
        "test_seed_graph.test_line_20_nothing_of_a_backward_goes_through_the_host",
    ),
}  # fmt: skip
NOT_COMPILED = {name: reason for reason, names in REASONS.items() for name in names}


@functools.cache
def eagerly(name: str) -> Notes:
    return observe(name, "eager")


def cases() -> Iterator[Any]:
    for name in SCENARIOS:
        for mode in MODES:
            yield pytest.param(name, mode, id=f"{name}, {mode}")


@pytest.mark.parametrize(("name", "mode"), list(cases()))
def test_scenario(name: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile_mode", mode)
    # The interpreter computes with NumPy, and so does eager mode then, however large a call is.
    monkeypatch.setattr(config, "eager_kernels", False)
    scenario = SCENARIOS[name]
    expected, actual = eagerly(name), observe(name, mode)
    raised = [value[0] for place, value in expected if place in CALL_NAMES]
    assert len(raised) == (CALLS if scenario.raises else 0), expected
    assert all(issubclass(kind, scenario.raises or ()) for kind in raised), expected
    if scenario.words is not None:
        assert [value[0] for _, value in actual] == raised
        assert all(scenario.words in value[1] for _, value in (*actual, *expected)), actual
    elif scenario.refuses is None:
        compare(actual, expected, mode == "interpret", scenario.through)
    else:
        assert [value[0] for _, value in actual] == [cf.CaptureError] * CALLS
        assert all(scenario.refuses in value[1] for _, value in actual), actual


def test_every_eager_test_is_compiled_or_says_why_not() -> None:
    known = {
        name: itself
        for subject in FILES
        for name, itself in declared_tests(subject, (subject, *MORE_FILES.get(subject, ())))
    }
    covered = {name for scenario in SCENARIOS.values() for name in scenario.covers}
    assert not (covered | NOT_COMPILED.keys()) - known.keys(), "there is no such test"
    assert not covered & NOT_COMPILED.keys(), "compiled after all"
    missing = [
        n for n, itself in known.items() if not itself and n not in covered | NOT_COMPILED.keys()
    ]
    assert not missing, f"neither a scenario nor a line of NOT_COMPILED: {missing}"
