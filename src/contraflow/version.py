"""PyTorch's questions about versions: there is no CUDA toolkit or ROCm that this was built with."""

cuda: str | None = None
hip: str | None = None
xpu: str | None = None
git_version = "Unknown"
debug = False

__all__ = ["cuda", "debug", "git_version", "hip", "xpu"]
