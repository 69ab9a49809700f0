"""Contractions as LLVM IR."""
from contraflow.kernel import Contraction


def render_contraction(kernel: Contraction, name: str, vector_bytes: int) -> str:
    raise NotImplementedError
