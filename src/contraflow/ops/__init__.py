"""The ops, in families; `REGISTRY` lists them, once `ops.declared` is imported."""

from contraflow.operation.op import REGISTRY

__all__ = ["REGISTRY"]
