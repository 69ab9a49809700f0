"""The CPU: kernels compiled to machine code by LLVM, run on a pool of threads."""
