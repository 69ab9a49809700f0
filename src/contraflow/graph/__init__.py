"""The autograd graph: nodes of applied ops, saved values, and the backward pass."""
