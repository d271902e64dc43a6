from __future__ import annotations

import pytest

from tenfold.core.errors import InvalidRequestError
from tenfold.server.batches import validation
from tenfold.server.batches.validation import body_of, read_lines
from tests.server.batches.inputs import CHAT, TEXT, jsonl, line


def read(tmp_path, lines, *, limit=1000):
    path = tmp_path / "in.jsonl"
    path.write_bytes(lines if isinstance(lines, bytes) else jsonl(lines))

    def check(body: bytes) -> None:
        if b"never" in body:
            raise InvalidRequestError("prompt is wrong.", param="prompt")

    return read_lines(path, TEXT, check, max_line_bytes=limit)


def test_good_lines_are_found_again(tmp_path):
    texts = [line("a", prompt="één"), b"", line("b"), b"  ", line("c", prompt="x" * 500)]
    data = jsonl(texts).rstrip(b"\n")  # the last line need not end
    lines, problems = read(tmp_path, data)
    assert problems == []
    assert [(one.number, one.custom_id) for one in lines] == [(1, "a"), (3, "b"), (5, "c")]
    bodies = [body_of(data[one.offset : one.offset + one.size]) for one in lines]
    assert bodies[0] == '{"prompt": "één"}'.encode()


@pytest.mark.parametrize(
    ("wrong", "code", "param", "words"),
    [
        (b"{", "invalid_json_line", None, "not valid JSON"),
        (b"\xff", "invalid_json_line", None, "not UTF-8"),
        (b"[]", "invalid_request", None, "must be object"),
        (b"{}", "invalid_request", "custom_id", "custom_id is missing"),
        ({**line("x"), "custom_id": 5}, "invalid_request", "custom_id", "must be str"),
        (line(""), "invalid_custom_id", "custom_id", "0 characters"),
        (line("good"), "duplicate_custom_id", "custom_id", "line 1"),
        ({**line("x"), "method": "GET"}, "invalid_method", "method", "must be POST"),
        (line("x", CHAT), "invalid_url", "url", TEXT),
        ({"custom_id": "x", "method": "POST", "url": TEXT}, "invalid_request", "body", "body is missing"),
        (line("x", prompt="never"), "invalid_request", "body.prompt", "prompt is wrong"),
        (line("x", prompt="y" * 2000), "line_too_long", None, "1000 bytes"),
    ],
)
def test_wrong_lines_are_told_by_number(tmp_path, wrong, code, param, words):
    _, problems = read(tmp_path, [line("good"), wrong])
    (problem,) = problems
    assert (problem.code, problem.line, problem.param) == (code, 2, param)
    assert words in problem.message


def test_an_empty_file_is_refused(tmp_path):
    assert read(tmp_path, b"\n \n")[1][0].code == "empty_file"


def test_only_so_many_problems_are_told(tmp_path):
    _, problems = read(tmp_path, [b"{"] * 500)
    assert len(problems) == 100
    assert problems[-1].line == 100


def test_the_number_of_requests_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(validation, "MAX_REQUESTS", 3)
    assert len(read(tmp_path, [line(str(i)) for i in range(3)])[0]) == 3
    lines, problems = read(tmp_path, [line(str(i)) for i in range(4)])
    assert (lines, problems[0].code) == ([], "too_many_requests")
