"""Structured output: what a text must match, as masks of the tokens that may come next."""
