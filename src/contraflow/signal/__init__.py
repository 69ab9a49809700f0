"""Signals: window functions, under PyTorch's path."""

from contraflow.signal import windows

__all__ = ["windows"]
