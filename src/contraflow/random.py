"""Random generators and their state under PyTorch's names: `contraflow.random.manual_seed`."""

from contraflow.tensors.generator import (
    Generator,
    default_generator,
    get_rng_state,
    manual_seed,
    set_rng_state,
)

__all__ = ["Generator", "default_generator", "get_rng_state", "manual_seed", "set_rng_state"]
