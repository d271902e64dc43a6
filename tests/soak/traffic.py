"""The requests of scripts/soak, good and bad, and what of a reply must stay the same."""

from __future__ import annotations

import json
import random
from typing import Any

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"

PREFIXES = [
    "You are the keeper of a lighthouse and answer in short, plain sentences. " * count
    for count in (1, 3, 6, 12)
]
WORDS = [
    "sea",
    "boat",
    "wind",
    "lamp",
    "north",
    "letter",
    "seven",
    "quiet",
    "海",
    "é",
    "🙂",
    "\n\t",
    "{",
    "<|im_end|>",
    "42",
]
# Each in a fifth of the random requests.
FIELDS: dict[str, Any] = {
    "n": 3,
    "top_p": 0.8,
    "top_k": 20,
    "min_p": 0.05,
    "typical_p": 0.9,
    "repetition_penalty": 1.2,
    "presence_penalty": 0.5,
    "frequency_penalty": -0.5,
    "logit_bias": {"50": 5, "60": -100},
    "stop": ["the", "\n\n"],
    "include_stop_str_in_output": True,
    "stop_token_ids": [40, 41],
    "ignore_eos": True,
    "min_tokens": 1,
    "priority": 1,
    "cache_salt": "another tenant",
}

CANARIES: list[tuple[str, dict[str, Any]]] = [
    (TEXT, {"prompt": "The sea was calm when the boats", "max_tokens": 24, "temperature": 0}),
    (TEXT, {"prompt": PREFIXES[2] + "Who are you?", "max_tokens": 16, "temperature": 0, "logprobs": 3}),
    (
        TEXT,
        {"prompt": ["One", "Two and"], "max_tokens": 12, "temperature": 1, "seed": 7, "n": 2, "top_p": 0.9},
    ),
    (CHAT, {"messages": [{"role": "user", "content": "Name a colour."}], "max_tokens": 16, "temperature": 0}),
    (
        CHAT,
        {
            "messages": [{"role": "user", "content": PREFIXES[1]}],
            "max_tokens": 20,
            "temperature": 1.3,
            "seed": 11,
            "top_k": 50,
            "min_p": 0.02,
            "repetition_penalty": 1.1,
            "frequency_penalty": 0.3,
            "stop": [". ", "zz"],
        },
    ),
]

BAD_BODIES = [
    *(b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"prompt": "\\ud800"}', b'{"prompt": "\xff"}'),
    *(b'{"prompt": []}', b'{"prompt": [-1]}', b'{"prompt": [99999999]}', b'{"prompt": "a", "n": 1e400}'),
    *(b'{"prompt": "a", "temperature": -1}', b'{"prompt": "a", "seed": 1' + b"0" * 400 + b"}"),
    *(b'{"prompt": "a", "model": "no such"}', b'{"prompt": "a", "max_tokens": 999999999}'),
    json.dumps({"prompt": "word " * 200_000}).encode(),
    json.dumps({"prompt": [5] * 100_000}).encode(),
]


def random_body(pick: random.Random, **fields: Any) -> tuple[str, dict[str, Any]]:
    """A random request that may be served: its path and body; `fields` are set in any case."""
    prompt = pick.choice(PREFIXES) + " ".join(pick.choices(WORDS, k=pick.choice((1, 5, 40))))
    often = {"temperature": pick.choice((0, 0.3, 1, 2)), "seed": pick.randrange(1 << 40), **FIELDS}
    body: dict[str, Any] = {"max_tokens": pick.choice((1, 4, 16, 48))}
    body |= {name: value for name, value in often.items() if pick.random() < 0.2}
    body |= fields
    if pick.random() < 0.5:
        if pick.random() < 0.2:
            body["logprobs"] = 5
        return TEXT, {**body, "prompt": prompt}
    if pick.random() < 0.2:
        body |= {"logprobs": True, "top_logprobs": 3}
    return CHAT, {**body, "messages": [{"role": "user", "content": prompt}]}


def whole_choices(reply: dict[str, Any]) -> str:
    """What must not change in a whole reply."""
    choices = sorted(reply["choices"], key=lambda choice: choice["index"])
    texts = [
        [c["index"], c.get("text", c.get("message", {}).get("content")), c["finish_reason"]] for c in choices
    ]
    logprobs = [choice["logprobs"] for choice in choices if choice.get("logprobs")]
    return json.dumps([texts, logprobs])


def streamed_choices(text: str) -> str:
    """The same of a stream."""
    texts: dict[int, list[Any]] = {}
    for line in text.splitlines():
        if line.startswith("data: {"):
            for choice in json.loads(line[6:])["choices"]:
                own = texts.setdefault(choice["index"], [choice["index"], "", None])
                own[1] += choice.get("text", choice.get("delta", {}).get("content")) or ""
                own[2] = choice["finish_reason"] or own[2]
    return json.dumps([[texts[index] for index in sorted(texts)], []])
