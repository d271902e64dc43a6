"""POST /tokenize and /detokenize, GET /tokenizer_info."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tenfold.core.errors import InvalidRequestError
from tenfold.server.decoding import decode
from tenfold.server.protocol import DetokenizeRequest, TokenizeRequest
from tenfold.server.replies import DetokenizeReply, TokenizeReply, TokenizerInfo
from tenfold.server.service import Service, json_response

_tokenize_decoder = msgspec.json.Decoder(TokenizeRequest)
_detokenize_decoder = msgspec.json.Decoder(DetokenizeRequest)


def routes(service: Service) -> list[Route]:
    """The three routes; they need no place in the engine."""

    async def tokenize(http: Request) -> Response:
        return json_response(
            await service.prepare(lambda body: _tokenize(service, body), http, template=True, unlimited=True)
        )

    async def detokenize(http: Request) -> Response:
        return json_response(
            await service.prepare(lambda body: _detokenize(service, body), http, unlimited=True)
        )

    async def info(http: Request) -> Response:
        return json_response(_info(service))

    return [
        Route("/tokenizer_info", service.endpoint(info), methods=["GET"]),
        Route("/tokenize", service.endpoint(tokenize), methods=["POST"]),
        Route("/detokenize", service.endpoint(detokenize), methods=["POST"]),
    ]


def _tokenize(service: Service, body: bytes) -> TokenizeReply:
    request = decode(_tokenize_decoder, body)
    service.check_model(request.model)
    tokenizer = service.engine.tokenizer
    if (request.prompt is None) == (request.messages is None):
        raise InvalidRequestError("Give either prompt or messages.", param="prompt")
    if request.prompt is not None:
        tokens = tokenizer.encode(request.prompt, add_special=request.add_special_tokens is not False)
    else:
        assert request.messages is not None
        ids = service.prompts.from_messages(
            request.messages,
            tools=request.tools,
            add_generation_prompt=request.add_generation_prompt is not False,
            continue_final_message=bool(request.continue_final_message),
            template_kwargs=request.chat_template_kwargs,
            unlimited=True,
        )
        tokens = list(ids)
    texts = [tokenizer.token_text(token) for token in tokens] if request.return_token_strs else None
    return TokenizeReply(
        count=len(tokens), max_model_len=service.engine.max_model_len, tokens=tokens, token_strs=texts
    )


def _detokenize(service: Service, body: bytes) -> DetokenizeReply:
    request = decode(_detokenize_decoder, body)
    service.check_model(request.model)
    service.prompts.check_ids(request.tokens, "tokens")
    return DetokenizeReply(service.engine.tokenizer.decode(request.tokens, skip_special=False))


def _info(service: Service) -> TokenizerInfo:
    tokenizer = service.engine.tokenizer
    ends = tokenizer.eos_ids
    return TokenizerInfo(
        bos_token=None if tokenizer.bos_id is None else tokenizer.token_text(tokenizer.bos_id),
        eos_token=tokenizer.token_text(ends[0]) if ends else None,
        add_bos_token=tokenizer.add_bos,
        model_max_length=service.engine.max_model_len,
    )
