"""`functional_call` under PyTorch's older path; see `contraflow.func.functional_call`."""

from contraflow.func import functional_call

__all__ = ["functional_call"]
