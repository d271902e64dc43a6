"""The native library: loading, instruction-set choice, lowering a Program, numpy twins of kernels."""
