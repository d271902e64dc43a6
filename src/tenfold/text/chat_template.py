"""Chat messages to a prompt's text, by the template that comes with a model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import jinja2
from jinja2 import nodes

from tenfold.core.errors import InvalidRequestError, UnsupportedModelError
from tenfold.text.template_budget import Budget, TemplateLimitError, weigh_input
from tenfold.text.template_sandbox import SandboxEnvironment, TemplateRaisedError

MAX_SOURCE_CHARS = 1 << 18
MAX_OUTPUT_CHARS = 1 << 20
SECONDS = 5.0

Message = Mapping[str, Any]


class ChatTemplate:
    """A compiled chat template. Safe to use from several threads.

    A model without a template (a base model) gets no made-up one: render refuses, and says what to do
    instead.

    Args:
        source: Jinja source, as Hugging Face's chat templates are written; None for a model without one.
        special: named special tokens ("bos_token": "<s>", ...) that the template may use.

    Raises:
        UnsupportedModelError: the template has wrong syntax, or uses what the sandbox does not have.
    """

    def __init__(self, source: str | None, special: Mapping[str, str] | None = None) -> None:
        self.source = source
        self._special = dict(special or {})
        self._environment = SandboxEnvironment()
        self._content_kind: Literal["text", "either", "parts"] = "text"
        self._template = None if source is None else self._compile(source)

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        seconds: float = SECONDS,
        **kwargs: Any,
    ) -> str:
        """Return the prompt.

        Args:
            messages: mappings with "role" and "content"; a content is a string, or a list of parts
                ({"type": "text", "text": ...}), whose texts are joined for templates that want strings.
            tools: function descriptions in OpenAI's shape.
            add_generation_prompt: end with the opening of the assistant's turn.
            continue_final_message: end inside the last message, so that the model goes on with it.
            seconds: how long rendering may take.
            kwargs: more variables for the template.

        Raises:
            InvalidRequestError: the model has no template, the template refuses the messages or fails on
                them, or it takes more time, steps or text than the limits: 4 times the input and 1,048,576
                characters.
        """
        if self._template is None:
            raise InvalidRequestError(
                "this model has no chat template, so it takes plain prompts (completions), not chats; "
                "give a template with --chat-template FILE.",
                param="messages",
            )
        if continue_final_message and add_generation_prompt:
            raise InvalidRequestError(
                "continue_final_message goes on with the last message and add_generation_prompt begins a "
                "new one; set one of them.",
                param="continue_final_message",
            )
        plain = self.plain(messages)
        last = _text_of(plain[-1].get("content")) if plain else None
        if continue_final_message and last is None:
            raise InvalidRequestError(
                "continue_final_message needs a last message whose content is text.", param="messages"
            )
        variables = {
            **self._special,
            **kwargs,
            "messages": plain,
            "tools": None if tools is None else list(tools),
            "add_generation_prompt": add_generation_prompt,
        }
        text = self._run(self._template, variables, seconds)
        return text if last is None or not continue_final_message else _cut_after(text, last)

    def plain(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Return the messages as the template wants them: contents as text or parts, tool arguments as objects.

        A second time it changes nothing. InvalidRequestError: a content is no text.
        """
        return [self._plain(message, index) for index, message in enumerate(messages)]

    def _compile(self, source: str) -> jinja2.Template:
        if len(source) > MAX_SOURCE_CHARS:
            raise UnsupportedModelError(
                f"the chat template has {len(source)} characters; the limit is {MAX_SOURCE_CHARS}. "
                "Give another with --chat-template FILE."
            )
        try:
            self._content_kind = _content_kind(self._environment.parse(source))
            return self._environment.bounded(source)
        except (jinja2.TemplateError, TemplateLimitError, SyntaxError, ValueError) as error:
            problem = _sentence(error)
        except (RecursionError, MemoryError):
            problem = "the chat template is nested too deep"
        raise UnsupportedModelError(f"{problem.rstrip('.')}; give another with --chat-template FILE.")

    def _run(self, template: jinja2.Template, variables: dict[str, Any], seconds: float) -> str:
        try:
            size = 4 * weigh_input(variables) + MAX_OUTPUT_CHARS
            budget = Budget(size, seconds)
            self._environment.use(budget)
            parts: list[str] = []
            length = 0
            for part in template.generate(variables):
                parts.append(part)
                length += len(part)
                budget.step()
                if length > size:
                    raise TemplateLimitError(f"puts out more than {size} characters")
            return "".join(parts)
        except (jinja2.TemplateError, TemplateLimitError, TemplateRaisedError) as error:
            problem = _sentence(error)
        except (RecursionError, MemoryError):
            problem = "the chat template calls itself, or nests values, too deep"
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            problem = f"the chat template fails on these messages: {error}"
        finally:
            self._environment.use(None)
        raise InvalidRequestError(f"{problem.rstrip('.')}.", param="messages", code="chat_template_error")

    def _plain(self, message: Message, index: int) -> dict[str, Any]:
        """Return the message as the template wants it: parts of text joined, unless it reads parts itself."""
        plain = dict(message)
        if "tool_calls" in plain:
            plain["tool_calls"] = _parsed_calls(plain["tool_calls"])
        content = plain.get("content")
        if content is None:
            return plain
        if isinstance(content, str):
            if self._content_kind == "parts":
                plain["content"] = [{"type": "text", "text": content}]
            return plain
        if not isinstance(content, (list, tuple)):
            raise InvalidRequestError(
                "content must be a string or a list of parts.", param=f"messages[{index}].content"
            )
        texts = []
        for number, part in enumerate(content):
            text = part if isinstance(part, str) else part.get("text") if isinstance(part, Mapping) else None
            if not isinstance(text, str):
                raise InvalidRequestError(
                    "only parts of type text are taken: this model reads no other kind.",
                    param=f"messages[{index}].content[{number}]",
                )
            texts.append(text)
        if self._content_kind == "text":
            plain["content"] = "".join(texts)
        else:
            plain["content"] = [{"type": "text", "text": text} for text in texts]
        return plain


def _content_kind(tree: nodes.Template) -> Literal["text", "either", "parts"]:
    """Return what a template takes a message's content for.

    One that loops over a content reads parts; if it also tests what it has before it, it takes either.
    """
    loops = any(_names_content(loop.iter) for loop in tree.find_all(nodes.For))
    if not loops:
        return "text"
    tests = any(
        test.name in ("string", "iterable", "sequence", "mapping") for test in tree.find_all(nodes.Test)
    )
    return "either" if tests else "parts"


def _names_content(expression: nodes.Node) -> bool:
    if isinstance(expression, nodes.Getattr):
        return expression.attr == "content"
    if isinstance(expression, nodes.Getitem):
        return isinstance(expression.arg, nodes.Const) and expression.arg.value == "content"
    return isinstance(expression, nodes.Name) and expression.name == "content"


def _text_of(content: Any) -> str | None:
    """Return the text of a content whose end can be found in the prompt: a string, or the last part's."""
    if isinstance(content, list) and content:
        content = content[-1]["text"]
    return content if isinstance(content, str) else None


def _parsed_calls(calls: Any) -> Any:
    """Return tool calls with arguments as objects, as templates want them; OpenAI's clients send text."""
    if not isinstance(calls, (list, tuple)):
        return calls
    parsed = []
    for call in calls:
        function = call.get("function") if isinstance(call, Mapping) else None
        arguments = function.get("arguments") if isinstance(function, Mapping) else None
        if isinstance(function, Mapping) and isinstance(arguments, str):
            try:
                value = json.loads(arguments)
            except (ValueError, RecursionError):
                value = None
            if isinstance(value, dict):
                call = {**call, "function": {**function, "arguments": value}}
        parsed.append(call)
    return parsed


def _sentence(error: BaseException) -> str:
    if isinstance(error, TemplateRaisedError):
        return f"the chat template refuses these messages: {str(error).rstrip('.')}"
    if isinstance(error, TemplateLimitError):
        return f"the chat template {error}"
    if isinstance(error, jinja2.UndefinedError):
        return f"the chat template fails on these messages: {error}"
    line = getattr(error, "lineno", None)
    return f"the chat template is not usable{f', line {line}' if line else ''}: {error}"


def _cut_after(text: str, content: str) -> str:
    """Return the text up to the end of the last message's content, which the template may have trimmed."""
    for needle in (content, content.strip()):
        at = text.rfind(needle)
        if at >= 0:
            return text[: at + len(needle)]
    raise InvalidRequestError(
        "the chat template changes the last message's text, so it cannot be continued; "
        "send it without continue_final_message.",
        param="continue_final_message",
    )
