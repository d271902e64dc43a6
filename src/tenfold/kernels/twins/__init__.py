"""Numpy twins of the native kernels: same signatures, slow and plain, for comparison."""
