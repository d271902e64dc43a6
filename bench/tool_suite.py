"""Thirty questions with tools for any OpenAI server: does the model pick the right tool with the right arguments?

python bench/tool_suite.py --url http://127.0.0.1:8000/v1 [--model NAME] [--stream] [--json]

Every case is asked once, greedily. The score says as much about the model as about the server; compare servers with the
same model. With --stream the replies are put together from chunks, as clients do.
"""

from __future__ import annotations

import argparse
import json
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # so that `python bench/tool_suite.py` finds its neighbour
    sys.path.insert(0, str(ROOT))

from bench.tool_cases import CASES, Call, Case  # noqa: E402


def main(arguments: list[str] | None = None) -> int:
    """Ask all cases and print the score; exit code 1 when the server refuses one."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--url", default="http://127.0.0.1:8000/v1")
    parser.add_argument("--model", help="left out: the first that the server has")
    parser.add_argument("--api-key", default="none")
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    parser.add_argument("--max-tokens", type=int, default=512)
    options = parser.parse_args(arguments)
    client = Client(options.url, options.api_key)
    model = options.model or client.first_model()
    results = []
    for number, case in enumerate(CASES, start=1):
        body = {
            "model": model,
            "messages": [{"role": "user", "content": case.question}, *case.before],
            "tools": case.tools,
            "temperature": 0,
            "max_tokens": options.max_tokens,
        }
        message = client.streamed(body) if options.stream else client.whole(body)
        problem = judge(case, message)
        results.append((case, problem))
        if not options.json:
            mark = "ok  " if problem is None else "FAIL"
            print(f"{mark} {number:2} {case.kind:15} {case.question}", flush=True)
            if problem is not None:
                print(f"        {problem}")
    report(model, results, as_json=options.json)
    return 0


class Client:
    """The little of OpenAI's API that the suite needs.

    Args:
        url: the API's base, with /v1.
        key: API key.
    """

    def __init__(self, url: str, key: str) -> None:
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def first_model(self) -> str:
        """The name of the server's first model."""
        with self._open("/models") as reply:
            name: str = json.load(reply)["data"][0]["id"]
        return name

    def whole(self, body: dict[str, Any]) -> dict[str, Any]:
        """The reply's message."""
        with self._open("/chat/completions", body) as reply:
            message: dict[str, Any] = json.load(reply)["choices"][0]["message"]
        return message

    def streamed(self, body: dict[str, Any]) -> dict[str, Any]:
        """The reply's message, put together from its chunks."""
        content = ""
        calls: list[dict[str, Any]] = []
        for chunk in self._chunks({**body, "stream": True}):
            for choice in chunk["choices"]:
                content += choice["delta"].get("content") or ""
                for piece in choice["delta"].get("tool_calls") or ():
                    while len(calls) <= piece["index"]:
                        calls.append({"function": {"name": "", "arguments": ""}})
                    for name, text in (piece.get("function") or {}).items():
                        calls[piece["index"]]["function"][name] += text or ""
        return {"content": content, "tool_calls": calls}

    def _chunks(self, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        with self._open("/chat/completions", body) as reply:
            for line in reply:
                data = line.decode().removeprefix("data: ").strip()
                if data and data != "[DONE]":
                    yield json.loads(data)

    def _open(self, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        return urllib.request.urlopen(
            urllib.request.Request(self._url + path, data, self._headers), timeout=600
        )


def judge(case: Case, message: dict[str, Any]) -> str | None:
    """What is wrong with an answer; None when it is right."""
    made = []
    for call in message.get("tool_calls") or ():
        function = call["function"]
        try:
            arguments = json.loads(function["arguments"] or "{}")
        except ValueError:
            return f"the arguments of {function['name']} are not JSON: {function['arguments'][:100]!r}"
        made.append((function["name"], arguments))
    content = message.get("content") or ""
    if not case.calls:
        if made:
            return f"called {made} where no tool was needed"
        if case.says and not any(word.lower() in content.lower() for word in case.says):
            return f"says none of {case.says}: {content[:100]!r}"
        return None if content.strip() else "the answer is empty"
    if not made:
        return f"called nothing and said {content[:150]!r}"
    left = list(made)
    for wanted in case.calls:
        match = next((call for call in left if _fits(wanted, call)), None)
        if match is None:
            return f"no call {wanted} in {made}"
        left.remove(match)
    return f"more calls than asked for: {left}" if left else None


def _fits(wanted: Call, made: tuple[str, Any]) -> bool:
    name, arguments = made
    if name != wanted[0] or not isinstance(arguments, dict):
        return False
    return all(
        any(_same(one, arguments.get(key)) for one in (value if isinstance(value, tuple) else (value,)))
        for key, value in wanted[1].items()
    )


def _same(wanted: Any, given: Any) -> bool:
    if isinstance(wanted, str) and isinstance(given, str):
        return wanted.casefold() == given.strip().casefold()
    # A number in quotes has the wrong type.
    return type(wanted) in (type(given), int) and not isinstance(given, str) and wanted == given


def report(model: str, results: list[tuple[Case, str | None]], *, as_json: bool) -> None:
    """Print the score, by kind and in all."""
    kinds: dict[str, list[bool]] = {}
    for case, problem in results:
        kinds.setdefault(case.kind, []).append(problem is None)
    score = sum(problem is None for _, problem in results)
    if as_json:
        by_kind = {kind: [sum(right), len(right)] for kind, right in kinds.items()}
        print(json.dumps({"model": model, "score": score, "cases": len(results), "kinds": by_kind}))
        return
    print(f"\n{model}: {score} of {len(results)}")
    for kind, right in kinds.items():
        print(f"  {kind:15} {sum(right)} of {len(right)}")


if __name__ == "__main__":
    sys.exit(main())
