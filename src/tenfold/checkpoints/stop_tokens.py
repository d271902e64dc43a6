"""Which tokens end a turn or a text.

Files name one end-of-sequence token, often the one that ends a text while the chat template ends turns with
another. The rule: the ids that the file names (eos, end of turn, end of message), and every token that the
file marks as a control (special) token and whose text is one of END_OF_TURN.
"""

from __future__ import annotations

END_OF_TURN = frozenset(
    {
        "<|im_end|>",
        "<|eot_id|>",
        "<|eom_id|>",
        "<end_of_turn>",
        "<|endoftext|>",
        "<|end_of_text|>",
        "<|end|>",
    }
)
"""Texts of tokens that end a turn or a text in the models of the supported architectures."""
