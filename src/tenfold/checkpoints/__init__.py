"""Checkpoint files (GGUF, Hugging Face folders) as named tensors; the model catalog and pull."""
