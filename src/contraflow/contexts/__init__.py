"""Contexts: how an op is applied when it is recorded, in forward mode, or batched."""
