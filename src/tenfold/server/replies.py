"""Reply bodies, in OpenAI's shape."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tenfold import __version__

SYSTEM_FINGERPRINT = f"fp_tenfold_{__version__}"


class PromptTokensDetails(msgspec.Struct, frozen=True):
    """Where the prompt's tokens came from."""

    cached_tokens: int


class Usage(msgspec.Struct, frozen=True):
    """Tokens of a request."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails


class PromptLogprob(msgspec.Struct, frozen=True):
    """How likely a token was at one place of the prompt, in vLLM's shape."""

    logprob: float
    rank: int
    decoded_token: str


# Of each of the prompt's tokens, by id: itself and the likeliest; null for the first.
PromptLogprobs = list[dict[str, PromptLogprob] | None]


class TopLogprob(msgspec.Struct, frozen=True):
    """A likely token at one position."""

    token: str
    logprob: float
    bytes: list[int]


class ChatTokenLogprob(msgspec.Struct, frozen=True):
    """A sampled token and its rivals."""

    token: str
    logprob: float
    bytes: list[int]
    top_logprobs: list[TopLogprob]


class ChatLogprobs(msgspec.Struct, frozen=True):
    """Log probabilities of a chat's tokens."""

    content: list[ChatTokenLogprob]


class CalledFunction(msgspec.Struct, frozen=True):
    """What a tool call calls; the arguments are JSON text."""

    name: str
    arguments: str


class ToolCall(msgspec.Struct, frozen=True):
    """One tool call of a message."""

    id: str
    function: CalledFunction
    type: str = "function"


class ChatMessage(msgspec.Struct, frozen=True):
    """The reply's message; the reasoning goes by the two names that clients know."""

    role: str
    content: str | None
    refusal: None = None
    reasoning_content: str | msgspec.UnsetType = msgspec.UNSET
    reasoning: str | msgspec.UnsetType = msgspec.UNSET
    tool_calls: list[ToolCall] | msgspec.UnsetType = msgspec.UNSET


class ChatChoice(msgspec.Struct, frozen=True):
    """One completion of a chat."""

    index: int
    message: ChatMessage
    logprobs: ChatLogprobs | None
    finish_reason: str | None
    stop_reason: str | int | None
    token_ids: list[int] | msgspec.UnsetType = msgspec.UNSET


class ChatReply(msgspec.Struct, frozen=True, kw_only=True):
    """Body of a chat's reply."""

    id: str
    object: str = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage
    prompt_logprobs: PromptLogprobs | msgspec.UnsetType = msgspec.UNSET
    prompt_token_ids: tuple[int, ...] | msgspec.UnsetType = msgspec.UNSET
    system_fingerprint: str = SYSTEM_FINGERPRINT


class FunctionDelta(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a chunk adds to a call's function: the name at first, then pieces of the arguments."""

    name: str | None = None
    arguments: str | None = None


class ToolCallDelta(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a chunk adds to a tool call; id and type come with its first chunk."""

    index: int
    id: str | None = None
    type: str | None = None
    function: FunctionDelta | None = None


class Delta(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a chunk adds to a message; absent fields add nothing."""

    role: str | None = None
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[ToolCallDelta] | None = None


class ChatChunkChoice(msgspec.Struct, frozen=True):
    """What a chunk adds to one completion of a chat."""

    index: int
    delta: Delta
    logprobs: ChatLogprobs | None
    finish_reason: str | None
    stop_reason: str | int | msgspec.UnsetType | None = msgspec.UNSET
    token_ids: tuple[int, ...] | msgspec.UnsetType = msgspec.UNSET


class ChatChunk(msgspec.Struct, frozen=True):
    """One streamed piece of a chat's reply."""

    id: str
    object: str
    created: int
    model: str
    choices: list[ChatChunkChoice]
    usage: Usage | msgspec.UnsetType | None = msgspec.UNSET
    prompt_token_ids: tuple[int, ...] | msgspec.UnsetType = msgspec.UNSET
    system_fingerprint: str = SYSTEM_FINGERPRINT


class CompletionLogprobs(msgspec.Struct, frozen=True):
    """Log probabilities in the shape of the older API: arrays side by side."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class CompletionChoice(msgspec.Struct, frozen=True):
    """One completion, or what a chunk adds to one."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: str | None
    stop_reason: str | int | msgspec.UnsetType | None = msgspec.UNSET
    prompt_logprobs: PromptLogprobs | msgspec.UnsetType = msgspec.UNSET
    prompt_token_ids: tuple[int, ...] | msgspec.UnsetType = msgspec.UNSET
    token_ids: Sequence[int] | msgspec.UnsetType = msgspec.UNSET


class CompletionReply(msgspec.Struct, frozen=True):
    """Body of a completion's reply, and of its streamed pieces."""

    id: str
    object: str
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage | msgspec.UnsetType | None = msgspec.UNSET
    system_fingerprint: str = SYSTEM_FINGERPRINT


class ModelCard(msgspec.Struct, frozen=True, kw_only=True):
    """One served model."""

    id: str
    object: str = "model"
    created: int
    owned_by: str = "tenfold"
    root: str
    max_model_len: int


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    """Body of GET /v1/models."""

    object: str = "list"
    data: list[ModelCard]


class TokenizeReply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Body of /tokenize's reply."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None = None


class DetokenizeReply(msgspec.Struct, frozen=True):
    """Body of /detokenize's reply."""

    prompt: str


class TokenizerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Body of /tokenizer_info's reply, by transformers' names: what clients need to use the tokenizer from afar."""

    bos_token: str | None
    eos_token: str | None
    add_bos_token: bool
    model_max_length: int
