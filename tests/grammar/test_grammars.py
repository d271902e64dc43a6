"""Compiling: what is refused, what is kept, and that a bad grammar harms nobody else."""

from __future__ import annotations

import json
import random
import re
import threading
import time
from typing import Any

import jsonschema
import pytest

from tenfold.core.errors import InvalidRequestError
from tenfold.core.structured_output import StructuredOutput
from tenfold.grammar.grammars import Grammars
from tenfold.text.tokenizer import Tokenizer
from tests.grammar.schemas import SCHEMAS
from tests.grammar.walks import walk


def schema(value: Any) -> StructuredOutput:
    return StructuredOutput("json_schema", json.dumps(value))


@pytest.mark.parametrize("name", SCHEMAS)
def test_what_a_schema_allows_is_valid(grammars: Grammars, tokenizer: Tokenizer, name: str) -> None:
    grammar = grammars.get(schema(SCHEMAS[name]))
    check = jsonschema.Draft202012Validator(SCHEMAS[name])
    chooser = random.Random(name)
    whole = 0
    for _ in range(8):
        text = walk(grammar.matcher(), tokenizer, chooser)
        if text is not None:
            check.validate(json.loads(text))
            whole += 1
    assert whole >= 2


def test_any_object(grammars: Grammars, tokenizer: Tokenizer) -> None:
    chooser = random.Random(1)
    texts = [
        walk(grammars.get(StructuredOutput("json_object")).matcher(), tokenizer, chooser) for _ in range(20)
    ]
    objects = [json.loads(text) for text in texts if text is not None]
    assert len(objects) >= 5
    assert all(isinstance(value, dict) for value in objects)


@pytest.mark.parametrize(
    "pattern", [r"[a-c]{2,5}", r"(yes|no)(, (yes|no)){0,3}", r"[0-9]{1,4}(\.[0-9][0-9])? €", "(é|日本|🙂){3}"]
)
def test_regular_expressions_match_whole(grammars: Grammars, tokenizer: Tokenizer, pattern: str) -> None:
    chooser = random.Random(2)
    for _ in range(20):
        text = walk(grammars.get(StructuredOutput("regex", pattern)).matcher(), tokenizer, chooser)
        assert text is not None
        assert re.fullmatch(pattern, text.decode())


def test_choices(grammars: Grammars, tokenizer: Tokenizer) -> None:
    choices = ["yes", "no", "yes, but", 'say "no"', "naïve 🙂", "\\d+", "a|b", "line\nbreak", "{}"]
    spec = StructuredOutput("choice", json.dumps(choices))
    chooser = random.Random(3)
    seen = {walk(grammars.get(spec).matcher(), tokenizer, chooser) for _ in range(200)}
    assert seen == {choice.encode() for choice in choices}


@pytest.mark.parametrize(
    "text",
    [
        'start: pair\npair: "(" pair ")" | "x"',
        'root ::= pair\npair ::= "(" pair ")" | "x"',
    ],
    ids=["Lark", "GBNF"],
)
def test_grammars_count_brackets(grammars: Grammars, tokenizer: Tokenizer, text: str) -> None:
    chooser = random.Random(4)
    grammar = grammars.get(StructuredOutput("grammar", text))
    found = [walk(grammar.matcher(), tokenizer, chooser) for _ in range(10)]
    for match in (re.fullmatch(r"(\(*)x(\)*)", text.decode()) for text in found if text is not None):
        assert match is not None
        assert len(match[1]) == len(match[2])


def test_blanks_between_json_tokens_are_bounded(grammars: Grammars, tokenizer: Tokenizer) -> None:
    grammar = grammars.get(schema({"type": "array", "items": {"type": "integer"}}))

    def fits(text: str) -> bool:
        matcher = grammar.matcher()
        return all(
            not matcher.take(t) or matcher.error is None for t in tokenizer.encode(text, add_special=False)
        )

    assert fits("[1,2]")
    assert fits("[1, 2]")
    assert fits("[\n  1,\n  2\n]")
    assert not fits("[1,   2]")
    assert not fits("[\n\n1]")
    assert not fits("[\n" + " " * 49 + "1]")


REFUSED = [
    (schema({"type": "nonsense"}), "json_schema cannot be compiled: Invalid type"),
    (StructuredOutput("json_schema", "{"), "schema"),
    (StructuredOutput("json_schema", "[1]"), "schema cannot be read: Expecting object schema"),
    (StructuredOutput("json_schema", "nonsense"), "schema"),
    (StructuredOutput("json_schema", '{"enum": ["\\ud800"]}'), "schema"),
    (schema(False), "no text matches the schema false"),
    (schema({"anyOf": []}), "Unsatisfiable"),
    (schema({"type": "integer", "minimum": 3, "maximum": 2}), "json_schema"),
    (schema({"$ref": "#/nowhere"}), "does not exist"),
    (schema({"$ref": "http://example.com/schema"}), "json_schema cannot be compiled"),
    (schema({"type": "array", "uniqueItems": True}), "Unimplemented keys"),
    (schema({"type": "string", "pattern": "("}), "unclosed group"),
    (StructuredOutput("json_schema", '{"items":' * 1000 + "{}" + "}" * 1000), "recursion limit"),
    (
        StructuredOutput("json_schema", '{"items":' * 5000 + "{}" + "}" * 5000),
        "5001 objects and arrays; the limit is 4000",
    ),
    (StructuredOutput("regex", "("), "unclosed group"),
    (StructuredOutput("regex", "a(?=b)"), "look-around"),
    (StructuredOutput("regex", "[^\\x00-\\U0010FFFF]"), "no text matches it"),
    (StructuredOutput("regex", "a" * 20_000), "the limit is 16384"),
    (StructuredOutput("regex", "(" * 5000 + "a" + ")" * 5000), "regex cannot be compiled"),
    (StructuredOutput("choice", "[]"), "choice must name texts"),
    (StructuredOutput("choice", '["a", ""]'), "choice must name texts"),
    (StructuredOutput("choice", "yes"), "choice must be a list"),
    (StructuredOutput("grammar", "hello"), "grammar"),
    (StructuredOutput("grammar", 'start: "a" | unknown'), "grammar cannot be compiled"),
    (StructuredOutput("grammar", "root ::= " + "(" * 3000), "grammar"),
    (
        StructuredOutput("grammar", "start: a0\n" + "\n".join(f"a{i}: a{i + 1}" for i in range(2000))),
        "the limit is 1000",
    ),
]


@pytest.mark.parametrize(
    ("structured", "problem"), REFUSED, ids=lambda x: x[:30] if isinstance(x, str) else ""
)
def test_refused(grammars: Grammars, structured: StructuredOutput, problem: str) -> None:
    with pytest.raises(InvalidRequestError) as refusal:
        grammars.get(structured)
    assert problem in str(refusal.value)
    assert refusal.value.param == "structured"
    assert len(str(refusal.value)) < 500
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("refs", [500, 1900])
def test_long_chains_of_references_do_not_exhaust_the_stack(grammars: Grammars, refs: int) -> None:
    definitions = {f"d{i}": {"items": {"$ref": f"#/$defs/d{i + 1}"}} for i in range(refs)}
    grammars.get(
        schema({"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{refs}": {"type": "string"}}})
    ).matcher().mask()


def test_long_chains_of_rules_do_not_exhaust_the_stack(grammars: Grammars) -> None:
    for rule in ("r", "R"):
        rules = [f'{rule}{i}: "a" {rule}{i + 1} "b"' for i in range(900)]
        text = "\n".join([f"start: {rule}0", *rules, f'{rule}900: "x"'])
        grammars.get(StructuredOutput("grammar", text)).matcher().mask()


def test_known_ones_are_not_compiled_again(tokenizer: Tokenizer) -> None:
    grammars = Grammars(tokenizer, 300, kept=3)
    specs = [StructuredOutput("regex", f"a{{{i}}}") for i in range(1, 6)]
    first = [grammars.get(spec) for spec in specs[:3]]
    assert grammars.get(specs[0]) is first[0]
    grammars.get(specs[3])  # in place of the second, which was not used for longest
    assert grammars.get(specs[0]) is first[0]
    assert grammars.get(specs[2]) is first[2]
    assert grammars.get(specs[1]) is not first[1]


def test_what_takes_too_long_is_refused_and_others_go_on(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    grammars = Grammars(tokenizer, 300, compile_seconds=0.5)
    release = threading.Event()
    compile_one = grammars._compile

    def compile_slowly(structured: StructuredOutput, tokens: Any) -> Any:
        if structured.text == "slow":
            release.wait(20)
        return compile_one(structured, tokens)

    monkeypatch.setattr(grammars, "_compile", compile_slowly)
    start = time.monotonic()
    for _ in range(3):
        with pytest.raises(InvalidRequestError, match=r"longer than 0\.5 seconds"):
            grammars.get(StructuredOutput("regex", "slow"))
    grammars.get(StructuredOutput("regex", "other"))
    release.set()
    assert time.monotonic() - start < 10
    assert threading.stack_size() == 0, "other threads have common stacks"


def test_threads_may_ask_for_the_same(grammars: Grammars, tokenizer: Tokenizer) -> None:
    failures: list[BaseException] = []

    def ask(number: int) -> None:
        try:
            for i in range(30):
                grammar = grammars.get(StructuredOutput("regex", f"x{{1,{i % 7 + 1}}}"))
                text = walk(grammar.matcher(), tokenizer, random.Random(number))
                assert text is not None
                assert 1 <= len(text) <= i % 7 + 1
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
