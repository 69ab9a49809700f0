"""Ops that index, gather and scatter."""
