"""NVIDIA GPUs as devices, by CUDA."""
