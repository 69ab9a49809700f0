"""Renderers: a kernel in, text out. Pure functions, no device needed."""
