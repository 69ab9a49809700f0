"""Training utilities: gradient clipping, flat parameters, parametrizations, packed sequences."""

from contraflow.nn.utils import parametrizations, parametrize, rnn
from contraflow.nn.utils.clip_grad import (
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)
from contraflow.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters
from contraflow.nn.utils.weight_norm import remove_weight_norm, weight_norm

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
    "parameters_to_vector",
    "parametrizations",
    "parametrize",
    "remove_weight_norm",
    "rnn",
    "vector_to_parameters",
    "weight_norm",
]
