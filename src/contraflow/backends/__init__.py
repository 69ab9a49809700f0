"""PyTorch's switches for libraries. None has an effect here, and each is kept as it was set.

Programs write `torch.backends.cudnn.benchmark = True` before they begin.
"""

from contraflow.backends import cpu, cuda, cudnn, mkl, mkldnn, mps, openmp

__all__ = ["cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]
