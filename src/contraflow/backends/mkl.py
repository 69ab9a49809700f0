"""Intel's MKL: it is not used."""


def is_available() -> bool:
    """Whether MKL is used: no."""
    return False
