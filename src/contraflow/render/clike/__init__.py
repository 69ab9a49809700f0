"""Kernels as text of C-like languages: CUDA and WGSL."""
