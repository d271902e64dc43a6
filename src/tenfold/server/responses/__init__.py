"""OpenAI's Responses API: /v1/responses. Items instead of messages, replies that are kept and can be gone on from."""
