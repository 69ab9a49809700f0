"""The compiler: from tapes of ops to plans of kernels, for any device."""
