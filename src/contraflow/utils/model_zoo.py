"""PyTorch's older path to `contraflow.hub.load_state_dict_from_url`, and to tqdm's bars."""

from importlib import import_module
from typing import Any

from contraflow.hub import load_state_dict_from_url as load_url

__all__ = ["load_url"]


def __getattr__(name: str) -> Any:
    """The bars of tqdm, which is imported when they are asked for."""
    if name == "tqdm":
        return import_module("tqdm").tqdm
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
