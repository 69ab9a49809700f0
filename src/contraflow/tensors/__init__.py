"""Tensors: handles, the storages behind them, and nodes of the graph."""
