"""Tokenizers, chat templates, incremental detokenizing, stop strings."""
