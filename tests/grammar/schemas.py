"""JSON Schemas of growing nastiness, by name; all can be compiled, and short texts match each."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]


def closed(required: bool = True, **properties: Any) -> Schema:
    """An object with these properties and no others."""
    names = list(properties) if required else []
    return {"type": "object", "properties": properties, "required": names, "additionalProperties": False}


def texts(longest: int, **more: Any) -> Schema:
    return {"type": "string", "maxLength": longest, **more}


def ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


INTEGER, NUMBER, BOOLEAN, NULL = ({"type": name} for name in ("integer", "number", "boolean", "null"))
QUOTES = ['say "hi"', "it's", "back\\slash", "tab\there", "line\nbreak", "a/b", "<&>", '"', "\\"]
UNICODE = [
    "naïve",
    "日本語",
    "🙂🙃",
    "مرحبا",
    "\u200bzero width",
    "é",
    "e\u0301",
    "\U0001f468\u200d\U0001f469",
]

SIMPLE: dict[str, Schema] = {
    "integer": INTEGER,
    "boolean": BOOLEAN,
    "null": NULL,
    "number": NUMBER,
    "string": texts(12),
    "constant": {"const": {"a": [1, 2.5, None, "x"]}},
    "two types": {"type": ["boolean", "null"]},
    "one integer": closed(a=INTEGER),
    "three fields": closed(name=texts(10), age={"type": "integer", "minimum": 0, "maximum": 130}, ok=BOOLEAN),
    "nothing required": closed(False, a=INTEGER, b=BOOLEAN, c=NULL),
    "empty object": closed(),
    "list of numbers": {"type": "array", "items": INTEGER, "maxItems": 4},
    "list of exactly three": {"type": "array", "items": BOOLEAN, "minItems": 3, "maxItems": 3},
    "empty list": {"type": "array", "maxItems": 0},
    "tuple": {"type": "array", "prefixItems": [INTEGER, BOOLEAN, texts(3)], "items": False, "minItems": 3},
    "object in object": closed(a=closed(b=closed(c=closed(d=BOOLEAN)))),
    "list of objects": {"type": "array", "items": closed(x=INTEGER, y=INTEGER), "minItems": 1, "maxItems": 2},
}

NUMBERS: dict[str, Schema] = {
    "digit": {"type": "integer", "minimum": 0, "maximum": 9},
    "negative": {"type": "integer", "minimum": -20, "maximum": -3},
    "around zero": {"type": "integer", "minimum": -7, "maximum": 105},
    "exclusive": {"type": "integer", "exclusiveMinimum": 5, "exclusiveMaximum": 8},
    "one number only": {"type": "integer", "minimum": 42, "maximum": 42},
    "large": {"type": "integer", "minimum": 999_999_999, "maximum": 1_000_000_001},
    "fraction": {"type": "number", "minimum": 0.25, "maximum": 0.75},
    "open fraction": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    "small fractions": {"type": "number", "minimum": -0.001, "maximum": 0.0015},
    "multiple": {"type": "integer", "multipleOf": 7, "minimum": 0, "maximum": 100},
    "even from below": {"type": "integer", "multipleOf": 2, "maximum": -1000},
    "mixed enum": {"enum": [1, -2.5, "1", True, None, [1], {"a": 1}]},
}

STRINGS: dict[str, Schema] = {
    "enum": {"enum": ["red", "green", "blue"]},
    "enum of prefixes": {"enum": ["a", "ab", "abc", "abcd", "b"]},
    "enum with quotes": {"enum": QUOTES},
    "enum in unicode": {"enum": UNICODE},
    "constant with quotes": {"const": QUOTES[0]},
    "names with quotes": closed(**dict.fromkeys(QUOTES[:5], BOOLEAN)),
    "names in unicode": closed(**dict.fromkeys(UNICODE[:5], BOOLEAN)),
    "length": {"type": "string", "minLength": 5, "maxLength": 5},
    "pattern": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3}$"},
    "pattern of a telephone": {"type": "string", "pattern": r"^(\([0-9]{3}\))?[0-9]{3}-[0-9]{4}$"},
    "pattern with quotes": {"type": "string", "pattern": '^"[a-c]{1,3}"$'},
    "pattern with backslashes": {"type": "string", "pattern": r"^[\\/]{1,4}$"},
    "pattern in unicode": {"type": "string", "pattern": "^[à-ü]{2,4}$"},
    "pattern of alternatives": {"type": "string", "pattern": "^(foo|ba[rz]|(qu+x){1,2})$"},
    "date": {"type": "string", "format": "date"},
    "uuid": {"type": "string", "format": "uuid"},
    "address": {"type": "string", "format": "ipv4"},
}

_TREE = closed(value={"type": "integer", "minimum": 0, "maximum": 9}, children=ref("trees"))
_EXPRESSION = {
    "anyOf": [
        {"type": "integer", "minimum": 0, "maximum": 99},
        closed(op={"enum": ["+", "-", "*"]}, left=ref("expression"), right=ref("expression")),
    ]
}

NASTY: dict[str, Schema] = {
    "reference": {"$ref": "#/$defs/a", "$defs": {"a": closed(b=ref("b")), "b": BOOLEAN}},
    "reference with odd name": {
        "$ref": "#/$defs/a~1b%20c",
        "$defs": {"a/b c": {"enum": [1, 2]}},
    },
    "reference to itself": closed(False, value=INTEGER, next={"$ref": "#"}),
    "list of itself": {
        **closed(v={"type": "integer", "minimum": 0, "maximum": 9}, next={"anyOf": [NULL, {"$ref": "#"}]}),
    },
    "tree": {
        "$ref": "#/$defs/tree",
        "$defs": {"tree": _TREE, "trees": {"type": "array", "items": ref("tree"), "maxItems": 1}},
    },
    "expression": {"$ref": "#/$defs/expression", "$defs": {"expression": _EXPRESSION}},
    "two that need each other": {
        "$ref": "#/$defs/even",
        "$defs": {
            "even": closed(False, odd=ref("odd"), end=BOOLEAN),
            "odd": closed(False, even=ref("even"), end=BOOLEAN),
        },
    },
    "any of objects": {"anyOf": [closed(a=INTEGER), closed(b=BOOLEAN), closed(a=INTEGER, b=NULL)]},
    "any of types": {"anyOf": [INTEGER, NULL, {"enum": ["x", "y"]}, {"type": "array", "maxItems": 0}]},
    "told apart by a constant": {
        "anyOf": [closed(kind={"const": name}, value=kind) for name, kind in (("i", INTEGER), ("b", BOOLEAN))]
    },
    "all of": {"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 11}]},
    "all of objects": {
        "type": "object",
        "allOf": [
            {"properties": {"a": BOOLEAN}, "required": ["a"]},
            {"properties": {"b": INTEGER}, "required": ["b"]},
            {"properties": {"a": True, "b": True}, "additionalProperties": False},
        ],
    },
    "more properties of a kind": {
        "type": "object",
        "properties": {"a": INTEGER},
        "required": ["a"],
        "additionalProperties": BOOLEAN,
    },
    "forty fields": closed(**{f"field_{i}": BOOLEAN for i in range(40)}),
    "forty that may be": closed(False, **{f"field_{i}": BOOLEAN for i in range(40)}),
    "deep": {"type": "array", "items": BOOLEAN, "maxItems": 1},
    "five thousand words": {"enum": [f"word {i * 7919 % 100_003} – {i}" for i in range(5000)]},
    "fields named like keywords": closed(**dict.fromkeys(("$ref", "type", "const", "enum", ""), BOOLEAN)),
}
for _ in range(20):
    NASTY["deep"] = {"type": "array", "items": NASTY["deep"], "minItems": 1, "maxItems": 1}

SCHEMAS = {**SIMPLE, **NUMBERS, **STRINGS, **NASTY}
