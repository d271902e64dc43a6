"""The cases of the tool suite: what is asked, and which calls answer it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Call = tuple[str, dict[str, Any]]
"""A tool's name and the arguments it must get; a tuple of values means that any of them will do."""


def _tool(name: str, description: str, required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": schema},
    }


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _number(description: str, kind: str = "number") -> dict[str, Any]:
    return {"type": kind, "description": description}


WEATHER = _tool(
    "get_weather",
    "Get the current weather of a city.",
    ("city",),
    city=_text("Name of the city"),
    unit={"type": "string", "enum": ["celsius", "fahrenheit"], "description": "Unit of the temperature"},
)
CLOCK = _tool("get_time", "Get the current time in a city.", ("city",), city=_text("Name of the city"))
SUM = _tool(
    "add_numbers", "Add two numbers.", ("a", "b"), a=_number("First number"), b=_number("Second number")
)
MAIL = _tool(
    "send_email",
    "Send an email.",
    ("to", "subject"),
    to=_text("Address of the recipient"),
    subject=_text("Subject line"),
    body=_text("Text of the email"),
)
SEARCH = _tool(
    "search_web",
    "Search the web.",
    ("query",),
    query=_text("What to search for"),
    max_results=_number("How many results to return", "integer"),
)
TIMER = _tool("set_timer", "Set a timer.", ("minutes",), minutes=_number("Minutes to wait", "integer"))
TRANSLATE = _tool(
    "translate",
    "Translate a text.",
    ("text", "language"),
    text=_text("Text to translate"),
    language=_text("Language to translate into, in English"),
)
STOCK = _tool("get_stock_price", "Get the price of a stock.", ("symbol",), symbol=_text("Ticker symbol"))
BOOKING = _tool(
    "book_table",
    "Book a table in a restaurant.",
    ("restaurant", "guests", "time"),
    restaurant=_text("Name of the restaurant"),
    guests=_number("Number of guests", "integer"),
    time=_text("Time as HH:MM, 24 hours"),
)
LIGHTS = _tool(
    "set_lights",
    "Switch the lights of a room.",
    ("room", "on"),
    room=_text("Name of the room"),
    on={"type": "boolean", "description": "true switches them on"},
)
TAGS = _tool(
    "tag_note",
    "Attach tags to a note.",
    ("note_id", "tags"),
    note_id=_number("Id of the note", "integer"),
    tags={"type": "array", "items": {"type": "string"}, "description": "The tags"},
)
ALL = [WEATHER, CLOCK, SUM, MAIL, SEARCH, TIMER, TRANSLATE, STOCK]


@dataclass(frozen=True)
class Case:
    """One question.

    Args:
        kind: what it tests.
        question: what the user says.
        tools: the tools on offer.
        calls: the calls that answer it, in any order; empty when no tool is needed.
        before: messages after the question: calls and their results.
        says: words of which the answer must have one, when no tool is needed.
    """

    kind: str
    question: str
    tools: list[dict[str, Any]]
    calls: list[Call] = field(default_factory=list)
    before: list[dict[str, Any]] = field(default_factory=list)
    says: tuple[str, ...] = ()


def _after(name: str, arguments: str, result: str) -> list[dict[str, Any]]:
    call = {"id": "call_000001", "type": "function", "function": {"name": name, "arguments": arguments}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_000001", "content": result},
    ]


CASES = [
    Case("right tool", "What's the weather in Oslo?", ALL, [("get_weather", {"city": "Oslo"})]),
    Case("right tool", "What time is it in Tokyo right now?", ALL, [("get_time", {"city": "Tokyo"})]),
    Case(
        "right tool", "Use a tool to add 17 and 25.", ALL, [("add_numbers", {"a": (17, 25), "b": (25, 17)})]
    ),
    Case("right tool", "Set a timer for 12 minutes.", ALL, [("set_timer", {"minutes": 12})]),
    Case(
        "right tool",
        "Look up the current stock price of AAPL.",
        ALL,
        [("get_stock_price", {"symbol": "AAPL"})],
    ),
    Case("right tool", "Search the web for local honey producers.", ALL, [("search_web", {})]),
    Case(
        "right tool",
        "Email bob@example.com with the subject Lunch.",
        ALL,
        [("send_email", {"to": "bob@example.com"})],
    ),
    Case(
        "right tool",
        "Translate 'good morning' into French.",
        ALL,
        [("translate", {"language": ("French", "fr")})],
    ),
    Case(
        "right arguments",
        "How warm is it in Paris, in fahrenheit?",
        [WEATHER, CLOCK],
        [("get_weather", {"city": "Paris", "unit": "fahrenheit"})],
    ),
    Case(
        "right arguments",
        "Book a table at Luigi's for 4 people at 19:30.",
        [BOOKING, WEATHER],
        [("book_table", {"restaurant": "Luigi's", "guests": 4, "time": "19:30"})],
    ),
    Case(
        "right arguments",
        "Turn off the lights in the kitchen.",
        [LIGHTS, TIMER],
        [("set_lights", {"room": "kitchen", "on": False})],
    ),
    Case(
        "right arguments",
        "Tag note 42 with the tags work and urgent.",
        [TAGS, MAIL],
        [("tag_note", {"note_id": 42, "tags": (["work", "urgent"], ["urgent", "work"])})],
    ),
    Case(
        "right arguments",
        "Search the web for 'rust borrow checker' and give me 5 results.",
        [SEARCH, STOCK],
        [("search_web", {"query": "rust borrow checker", "max_results": 5})],
    ),
    Case(
        "right arguments",
        "Send an email to ann@example.org, subject 'Report', text 'It is done.'",
        [MAIL, TIMER],
        [
            (
                "send_email",
                {"to": "ann@example.org", "subject": "Report", "body": ("It is done.", "It is done")},
            )
        ],
    ),
    Case(
        "right arguments",
        "Add 2.5 and -4 with the tool.",
        [SUM, TIMER],
        [("add_numbers", {"a": (2.5, -4), "b": (-4, 2.5)})],
    ),
    Case(
        "right arguments",
        "What's the weather in São Paulo in celsius?",
        [WEATHER, CLOCK],
        [("get_weather", {"city": ("São Paulo", "Sao Paulo"), "unit": "celsius"})],
    ),
    Case("none needed", "Hello! How are you?", ALL),
    Case("none needed", "What is the capital of France? Answer from memory.", ALL, says=("Paris",)),
    Case("none needed", "Write one sentence about the sea.", ALL, says=("sea", "ocean", "wave")),
    Case("none needed", "How many letters has the word 'cat'?", [WEATHER, MAIL], says=("3", "three")),
    Case("none needed", "Thank you, that was all.", ALL),
    Case(
        "none needed", "Explain in a sentence what an email is.", [WEATHER, CLOCK], says=("mail", "message")
    ),
    Case(
        "parallel",
        "What's the weather in Oslo and in Rome?",
        [WEATHER, CLOCK],
        [("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Rome"})],
    ),
    Case(
        "parallel",
        "Get the stock prices of both AAPL and MSFT.",
        [STOCK, SEARCH],
        [("get_stock_price", {"symbol": "AAPL"}), ("get_stock_price", {"symbol": "MSFT"})],
    ),
    Case(
        "parallel",
        "Tell me both the weather and the current time in Berlin.",
        [WEATHER, CLOCK],
        [("get_weather", {"city": "Berlin"}), ("get_time", {"city": "Berlin"})],
    ),
    Case(
        "parallel",
        "Set two timers: one for 3 minutes and one for 10 minutes.",
        [TIMER, CLOCK],
        [("set_timer", {"minutes": 3}), ("set_timer", {"minutes": 10})],
    ),
    Case(
        "after results",
        "What's the weather in Oslo?",
        [WEATHER, CLOCK],
        before=_after("get_weather", '{"city": "Oslo"}', '{"temperature_c": -7, "sky": "snow"}'),
        says=("-7", "minus 7", "snow"),
    ),
    Case(
        "after results",
        "What is 1234 plus 4321?",
        [SUM],
        before=_after("add_numbers", '{"a": 1234, "b": 4321}', "5555"),
        says=("5555", "5,555"),
    ),
    Case(
        "after results",
        "What does ACME's stock (ACME) cost?",
        [STOCK, SEARCH],
        before=_after("get_stock_price", '{"symbol": "ACME"}', '{"price": 93.17, "currency": "USD"}'),
        says=("93.17",),
    ),
    Case(
        "after results",
        "Is the name Zibbertal taken? Search for it.",
        [SEARCH, MAIL],
        before=_after("search_web", '{"query": "Zibbertal"}', "No results."),
        says=("no ", "not ", "n't", "available"),
    ),
]
