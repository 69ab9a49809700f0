"""Kernels as LLVM IR."""
