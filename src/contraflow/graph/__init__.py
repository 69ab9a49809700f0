"""The graph of applied ops, and the backward pass over it."""
