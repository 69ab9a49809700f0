"""Scalar expressions: the language of the bodies of ops, and its table of functions."""
