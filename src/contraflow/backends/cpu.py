"""The part of the processor that generated code uses."""

from contraflow import config


def get_cpu_capability() -> str:
    """The vectors of generated code, if they were set: "DEFAULT" asks the processor."""
    names = {16: "NO AVX", 32: "AVX2", 64: "AVX512"}
    return names.get(config.vector_bytes or 0, "DEFAULT")
