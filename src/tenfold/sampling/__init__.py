"""Sampling parameters as arrays for the native sampler, and its numpy twin."""
