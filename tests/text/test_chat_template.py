from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenfold.core.errors import InvalidRequestError, TenfoldError, UnsupportedModelError
from tenfold.text.chat_template import ChatTemplate

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
HI = [{"role": "user", "content": "hi there"}]


def render(source: str, **options: object) -> str:
    return ChatTemplate(source).render(HI, **options)  # type: ignore[arg-type]


def test_chatml() -> None:
    assert render(CHATML) == "<|im_start|>user\nhi there<|im_end|>\n<|im_start|>assistant\n"
    assert render(CHATML, add_generation_prompt=False) == "<|im_start|>user\nhi there<|im_end|>\n"


def test_blocks_take_their_line_as_chat_templates_expect() -> None:
    source = (
        "{% for m in messages %}\n    {%- if true %}\n    {% set x = 1 %}\n"
        "{{ m.content }}\n{% endif %}\n{% endfor %}\n"
    )
    assert render(source) == "hi there\n"


def test_the_last_message_can_be_continued() -> None:
    chat = [*HI, {"role": "assistant", "content": "I am "}]
    text = ChatTemplate(CHATML).render(chat, add_generation_prompt=False, continue_final_message=True)
    assert text.endswith("<|im_start|>assistant\nI am ")
    trimmed = CHATML.replace("message['content']", "message['content'] | trim")
    text = ChatTemplate(trimmed).render(chat, add_generation_prompt=False, continue_final_message=True)
    assert text.endswith("<|im_start|>assistant\nI am")


def test_continuing_needs_a_text_and_no_new_turn() -> None:
    template = ChatTemplate(CHATML)
    with pytest.raises(InvalidRequestError, match="set one of them"):
        template.render(HI, continue_final_message=True)
    for chat in ([], [{"role": "assistant", "content": None}]):
        with pytest.raises(InvalidRequestError, match="whose content is text"):
            template.render(chat, add_generation_prompt=False, continue_final_message=True)
    with pytest.raises(InvalidRequestError, match="cannot be continued"):
        ChatTemplate("{{ messages[0].content | upper }}").render(
            HI, add_generation_prompt=False, continue_final_message=True
        )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ messages[0].content }}", "ab"),
        ("{% for p in messages[0].content %}[{{ p.text }}]{% endfor %}", "[a][b]"),
        (
            "{% if messages[0]['content'] is string %}{{ messages[0]['content'] }}{% else %}"
            "{% for p in messages[0]['content'] %}({{ p['text'] }}){% endfor %}{% endif %}",
            "(a)(b)",
        ),
    ],
)
def test_parts_of_text(source: str, expected: str) -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert ChatTemplate(source).render([{"role": "user", "content": parts}]) == expected


def test_a_string_becomes_a_part_for_templates_that_know_only_parts() -> None:
    source = "{% for p in messages[0].content %}[{{ p.text }}]{% endfor %}"
    assert render(source) == "[hi there]"


@pytest.mark.parametrize(
    "content", [{"a": 1}, 7, [{"type": "image_url", "image_url": {}}], [3], [{"text": 5}]]
)
def test_other_contents_are_refused_by_field(content: object) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        ChatTemplate(CHATML).render([*HI, {"role": "user", "content": content}])
    assert caught.value.param is not None
    assert caught.value.param.startswith("messages[1].content")


def test_tools_and_calls() -> None:
    source = (
        "{{ tools | tojson }}{% for c in messages[0].tool_calls %}{{ c.function.arguments.city }}{% endfor %}"
    )
    call = {"type": "function", "function": {"name": "f", "arguments": '{"city": "Žilina"}'}}
    text = ChatTemplate(source).render([{"role": "assistant", "tool_calls": [call]}], tools=[{"name": "<é>"}])
    assert text == '[{"name": "<é>"}]Žilina'


def test_variables_and_special_tokens() -> None:
    template = ChatTemplate("{{ bos_token }}{{ thinking }}{{ missing }}", {"bos_token": "<s>"})
    assert template.render(HI, thinking="yes") == "<s>yes"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}x{% endfor %}.", "."),
        ("{% generation %}ok{% endgeneration %}", "ok"),
        ("{% for i in range(3) %}{{ loop.cycle('a', 'b') }}{{ loop.index }}{% endfor %}", "a1b2a3"),
        ("{% macro f(x, y=2) %}{{ x }}-{{ y }}{% endmacro %}{{ f(1) }} {{ f(3, y=4) }}", "1-2 3-4"),
        (
            "{% set q = namespace(n=0) %}{% for i in [1, 5] %}{% set q.n = q.n + i %}{% endfor %}{{ q.n }}",
            "6",
        ),
        ("{% for k, v in {'x': 1}.items() %}{{ k ~ v }}{% endfor %}", "x1"),
        ("{{ messages[0].content.split(' ')[-1].strip() | upper }}", "THERE"),
        ("{{ messages | selectattr('role', 'equalto', 'user') | list | length }}", "1"),
        ("{{ messages | map(attribute='role') | join(', ') }}", "user"),
        ("{{ '%05.2f|%s' % (3.14159, 'a') }} {{ '{:>4}'.format(7) }}", "03.14|a    7"),
        ("{{ ', '.join(messages | map(attribute='role')) }}", "user"),
        ("{{ {'b': [1, none]} | tojson(indent=2) }}", '{\n  "b": [\n    1,\n    null\n  ]\n}'),
        ("{{ 'a\nb' | indent(2) }}{{ 'x' | replace('x', 'y') }}{{ [3, 1] | sort | first }}", "a\n  by1"),
        ("{{ strftime_now('%Y') | length }}", "4"),
        ("{% set a, b = 1, 2 %}{{ a + b }}{{ ('x', 'y')[1] }}{{ [1, 2][-1] }}", "3y2"),
        ("{% for x in [1, 2, 3] if x > 1 %}{{ x }}{% else %}none{% endfor %}", "23"),
        ("{% set t %}a{{ 1 }}b{% endset %}{{ t * 2 }}", "a1ba1b"),
        ("{{ messages[::-1][0].role }}{{ 'q' in 'qr' }}{{ 7 // 2 ** 1 }}", "userTrue3"),
    ],
)
def test_what_chat_templates_use_works(source: str, expected: str) -> None:
    assert render(source) == expected


DOUBLING = (
    "{{% set n = namespace(s={start}) %}}{{% for i in range(60) %}}"
    "{{% set n.s = {step} %}}{{% endfor %}}{{{{ {end} }}}}"
)
EXPLOSIONS = [
    "{{ 'a' * 10**9 }}",
    "{{ 10**9 * 'a' }}",
    "{{ [1] * 10**9 }}",
    "{{ 9 ** 99999999 }}",
    "{{ (9 ** 999) ** 999 }}",
    "{% for i in range(10**9) %}x{% endfor %}",
    "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "{% for x in range(99999) if range(99999) | list | length < 0 %}{% endfor %}",
    "{% for i in range(99999) %}" + "y" * 99999 + "{% endfor %}",
    "{% set x %}{% for i in range(99999) %}" + "y" * 99999 + "{% endfor %}{% endset %}",
    "{% set x %}{% for i in range(99999) %}{{ 'a' * 9999 }}{% endfor %}{% endset %}",
    DOUBLING.format(start="'ab'", step="n.s ~ n.s", end="n.s | length"),
    DOUBLING.format(start="'ab'", step="n.s + n.s", end="n.s | length"),
    DOUBLING.format(start="'ab'", step="'%s%s' % (n.s, n.s)", end="n.s | length"),
    DOUBLING.format(start="'ab'", step="'{0}{0}'.format(n.s)", end="n.s | length"),
    DOUBLING.format(start="'ab'", step="n.s.replace('a', 'aa')", end="n.s | length"),
    DOUBLING.format(start="'ab'", step="n.s | replace('a', 'aa')", end="n.s | length"),
    DOUBLING.format(start="[1]", step="n.s + n.s", end="n.s | length"),
    DOUBLING.format(start="[1]", step="[n.s, n.s]", end="1"),
    DOUBLING.format(start="[1]", step="(n.s, n.s)", end="1"),
    DOUBLING.format(start="[1]", step="{'a': n.s, 'b': n.s}", end="1"),
    DOUBLING.format(start="[1]", step="dict(a=n.s, b=n.s)", end="1"),
    DOUBLING.format(start="2", step="n.s * n.s", end="n.s"),
    "{% set n = namespace(l=[1]) %}{% macro m() %}{% set n.l = varargs %}{% endmacro %}"
    "{% for i in range(60) %}{{ m(n.l, n.l) }}{% endfor %}",
    "{% macro a(n) %}{% if n %}{{ a(n - 1) }}{{ a(n - 1) }}{% endif %}{% endmacro %}{{ a(60) }}",
    "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}",
    "{% block a %}{{ self.a() }}{% endblock %}",
    "{% for x in [[1]] recursive %}{{ loop([x]) }}{% endfor %}",
    "{{ 'a'.center(10**9) }}",
    "{{ 'a'.zfill(10**9) }}",
    "{{ '%999999999d' % 1 }}",
    "{{ '%.999999999f' % 1 }}",
    "{{ '%*d' % (999999999, 1) }}",
    "{{ '%(a)999999999d' % {'a': 1} }}",
    "{{ '%999999999d' | format(1) }}",
    "{{ '{:>999999999}'.format(1) }}",
    "{{ '{:{w}}'.format(1, w=10**9) }}",
    "{{ '{a:>999999999}'.format_map({'a': 1}) }}",
    "{{ ('a' * 999999).replace('a', 'b' * 999999) }}",
    "{{ ('a' * 999999) | replace('', 'b' * 999999) }}",
    "{{ 'x' | indent(10**9, true) }}",
    "{{ ('b' * 99999).join(range(99999) | map('string')) }}",
    "{{ range(99999) | join('b' * 99999) }}",
    "{{ range(99999) | list | tojson(indent=10**9) }}",
    "{{ ('9' * 99999) | int }}",
    "{{ strftime_now('%999999999d') }}",
]


@pytest.mark.parametrize("source", EXPLOSIONS, ids=range(len(EXPLOSIONS)))
def test_explosions_are_stopped(source: str) -> None:
    start = time.process_time()
    with pytest.raises(InvalidRequestError, match="the chat template") as caught:
        render(source, seconds=2.0)
    assert time.process_time() - start < 4
    assert len(str(caught.value)) < 300


ESCAPES = [
    "{% include 'x' %}",
    "{% import 'x' as y %}",
    "{% from 'x' import y %}",
    "{% extends 'x' %}",
    "{{ ''.__class__.__mro__ }}",
    "{{ ''.__class__.__base__.__subclasses__() }}",
    "{{ range.__init__.__globals__ }}",
    "{{ raise_exception.__globals__.x }}",
    "{{ namespace.__init__.__globals__ }}",
    "{{ (messages | attr('__class__')).x }}",
    "{{ messages | map(attribute='__class__.__mro__') | list }}",
    "{{ '{0.__class__.__mro__}'.format(1) }}",
    "{{ (''.format_map).__self__.__class__.__mro__ }}",
    "{{ messages.append(1) }}",
    "{{ messages[0].update({}) }}",
    "{{ messages[0].pop('role') }}",
    "{{ 'x'.encode() }}",
    "{{ (1).to_bytes(10**9, 'big') }}",
    "{{ dict.fromkeys(range(10)) }}",
    "{{ lipsum(10**6) }}",
    "{{ cycler('a').next() }}",
    "{{ environment.tick(1) }}",
    "{{ 'a' | center(10**9) }}",
    "{{ [1] | map('center', 10**9) | list }}",
    "{{ [1] | batch(10**9, 1) | list }}",
]


@pytest.mark.parametrize("source", ESCAPES)
def test_ways_out_of_the_sandbox_are_closed(source: str) -> None:
    with pytest.raises(TenfoldError, match="the chat template"):
        render(source)


@pytest.mark.parametrize(
    "source",
    [
        "{% for %}",
        "{{",
        "{% if %}",
        "{{ a | nofilter }}",
        "{% nosuch %}",
        "{{ " + "(" * 9999,
        "{{ " + "[" * 500 + "]" * 500 + " }}",
    ],
)
def test_wrong_syntax_is_named_at_once(source: str) -> None:
    with pytest.raises(UnsupportedModelError, match=r"the chat template .*--chat-template FILE"):
        ChatTemplate(source)


def test_a_great_source_is_refused() -> None:
    with pytest.raises(UnsupportedModelError, match="262144"):
        ChatTemplate("x" * 300_000)


def test_the_templates_own_refusal_reaches_the_user() -> None:
    with pytest.raises(InvalidRequestError, match="refuses these messages: roles must alternate") as caught:
        render("{{ raise_exception('roles must alternate') }}")
    assert caught.value.param == "messages"


@pytest.mark.parametrize(
    "source", ["{{ messages.foo.bar }}", "{{ 1 / 0 }}", "{{ 'a' + 1 }}", "{{ nothing() }}", "{{ -messages }}"]
)
def test_failures_are_sentences(source: str) -> None:
    with pytest.raises(InvalidRequestError, match="the chat template fails on these messages"):
        render(source)


def test_a_model_without_a_template_says_what_to_do() -> None:
    with pytest.raises(InvalidRequestError, match=r"no chat template.*completions.*--chat-template FILE"):
        ChatTemplate(None).render(HI)


def test_the_time_is_bounded() -> None:
    source = "{% for i in range(99999) %}{% for j in range(9) %}{% endfor %}{% endfor %}"
    with pytest.raises(InvalidRequestError, match=r"more than 0\.01 seconds"):
        render(source, seconds=0.01)


def test_long_and_many_messages_are_rendered() -> None:
    chat = [{"role": "user", "content": "x" * 10_000}] * 500
    assert len(ChatTemplate(CHATML).render(chat)) > 5_000_000
    deep: object = "leaf"
    for _ in range(100):
        deep = [deep]
    with pytest.raises(InvalidRequestError, match="nests values"):
        ChatTemplate(CHATML).render(HI, tools=[{"deep": deep}])


def test_threads_do_not_share_budgets() -> None:
    template = ChatTemplate("{% for i in range(n) %}x{% endfor %}")
    results: dict[int, str] = {}

    def run(n: int) -> None:
        results[n] = template.render(HI, n=n)

    threads = [threading.Thread(target=run, args=(n,)) for n in (1000, 2000, 3000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {n: len(text) for n, text in results.items()} == {1000: 1000, 2000: 2000, 3000: 3000}


@given(
    st.lists(
        st.fixed_dictionaries(
            {"role": st.sampled_from(["user", "assistant"]), "content": st.text(max_size=20)}
        )
    )
)
def test_chatml_keeps_every_content(messages: list[dict[str, str]]) -> None:
    expected = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)
    assert ChatTemplate(CHATML).render(messages, add_generation_prompt=False) == expected
