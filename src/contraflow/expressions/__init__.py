"""Expressions of scalars: the language in which ops say what they compute, and its functions."""
