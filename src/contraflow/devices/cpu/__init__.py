"""The processor: kernels become machine code through LLVM and run on a pool of threads."""
