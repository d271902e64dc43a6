"""Metrics: every name in one place."""
