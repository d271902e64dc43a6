"""Architectures: each file builds a Program from a checkpoint."""
