"""Ops that view, join, cut and rearrange."""
