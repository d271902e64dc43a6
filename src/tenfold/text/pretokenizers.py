"""How byte-level models split text before merging, by the names that GGUF files use (`tokenizer.ggml.pre`).

The patterns are facts of the models: a vocabulary gives the right ids only with the splitting it was trained
on.
"""

from __future__ import annotations

from dataclasses import dataclass

from tokenizers import Regex, normalizers
from tokenizers.normalizers import Normalizer
from tokenizers.pre_tokenizers import ByteLevel, Digits, PreTokenizer, Sequence, Split

from tenfold.core.errors import UnsupportedModelError

_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_SYMBOLS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_BLANKS = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

_LLAMA3 = f"{_CONTRACTION}|{_WORD}|\\p{{N}}{{1,3}}|{_SYMBOLS}|{_BLANKS}"
_QWEN2 = f"{_CONTRACTION}|{_WORD}|\\p{{N}}|{_SYMBOLS}|{_BLANKS}"
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*"
    rf"|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_BLANKS}"
)
_DEEPSEEK3 = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_BLANKS}"
)


@dataclass(frozen=True)
class SplitRule:
    """One way to split.

    Args:
        patterns: applied in order, each to the pieces the former left; matches become pieces of their own.
        digits: split every digit off first.
        nfc: compose Unicode to NFC first, as the model's own tokenizer does.
        whole_words: a piece that is in the vocabulary is taken as it is, without merging.
    """

    patterns: tuple[str, ...]
    digits: bool = False
    nfc: bool = False
    whole_words: bool = False

    def build(self) -> PreTokenizer:
        """Return the library's pre-tokenizer: the splits, then bytes as characters."""
        steps: list[PreTokenizer] = []
        if self.digits:
            steps.append(Digits(individual_digits=True))
        if self.patterns == (_GPT2,):
            steps.append(ByteLevel(add_prefix_space=False, use_regex=True))
        else:
            steps.extend(Split(Regex(pattern), behavior="isolated") for pattern in self.patterns)
            steps.append(ByteLevel(add_prefix_space=False, use_regex=False))
        return Sequence(steps)

    def normalizer(self) -> Normalizer | None:
        """Return the normalizer, None when text is taken as it is."""
        return normalizers.NFC() if self.nfc else None


_LLAMA3_RULE = SplitRule((_LLAMA3,), whole_words=True)
_GPT2_RULE = SplitRule((_GPT2,))
_QWEN2_RULE = SplitRule((_QWEN2,), nfc=True)
_DIGITS_RULE = SplitRule((_GPT2,), digits=True)

RULES: dict[str, SplitRule] = {
    "gpt-2": _GPT2_RULE,
    "olmo": _GPT2_RULE,
    "smollm": _DIGITS_RULE,
    "starcoder": _DIGITS_RULE,
    "refact": _DIGITS_RULE,
    "qwen2": _QWEN2_RULE,
    "deepseek-r1-qwen": _QWEN2_RULE,
    "llama-bpe": _LLAMA3_RULE,
    "llama3": _LLAMA3_RULE,
    "llama-v3": _LLAMA3_RULE,
    "falcon3": _LLAMA3_RULE,
    "dbrx": SplitRule((_LLAMA3,)),
    "smaug-bpe": SplitRule((_LLAMA3,)),
    "tekken": SplitRule((_TEKKEN,), whole_words=True),
    "deepseek-v3": SplitRule((r"\p{N}{1,3}", r"[一-龥぀-ゟ゠-ヿ]+", _DEEPSEEK3)),
    "default": SplitRule(
        (
            r"[\p{P}\$\+<=>\^~\|]+",
            r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)",
            r"\p{N}+",
            r"[0-9][0-9][0-9]",
        )
    ),
}


def split_rule(name: str) -> SplitRule:
    """Return the rule GGUF calls `name`; UnsupportedModelError names the supported ones."""
    rule = RULES.get(name)
    if rule is None:
        raise UnsupportedModelError(
            f"the model splits text by the pre-tokenizer {name!r} (tokenizer.ggml.pre), which is not built; "
            f"the built ones are {', '.join(sorted(RULES))}. "
            "Use a Hugging Face folder of the same model, whose tokenizer.json has the rule itself."
        )
    return rule
