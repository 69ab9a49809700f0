"""Ops that reduce, scan and sort."""
