"""PyTorch's older path to `contraflow.hub.load_state_dict_from_url`."""

from contraflow.hub import load_state_dict_from_url as load_url

__all__ = ["load_url"]
