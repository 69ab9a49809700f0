"""OpenMP: threads are contraflow's own."""


def is_available() -> bool:
    """Whether OpenMP is used: no."""
    return False
