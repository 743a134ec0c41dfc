"""Requests of every kind by the openai package, one JSON line for each: what the client sent, and what it got.

Runs in the clients' environment: BASE_URL. Standard library and openai alone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from openai import APIStatusError, OpenAI  # type: ignore[import-not-found]

MESSAGES = [{"role": "user", "content": "tide moon salt shore wave harbour pilot anchor " * 40}]
TOKENS = 12
EACH = 10
INVENTED = 8
KINDS: dict[str, dict[str, Any]] = {
    "chat": {},
    "chat_n3": {"n": 3, "seed": 1},
    "stream_usage": {"stream": True, "stream_options": {"include_usage": True}},
    "stream_plain": {"stream": True},
}


def main(base_url: str) -> None:
    client = OpenAI(base_url=f"{base_url}/v1", api_key="sk-mixed", max_retries=0)
    for number in range(EACH):
        for kind, options in KINDS.items():
            put(f"{kind}-{number}", kind, lambda fields, options=options: chat(client, "tiny", options | fields))
        put(f"completions-{number}", "completions", lambda fields: text(client, fields))
    for number in range(INVENTED):
        model = f"invented-{number}"
        put(model, "unknown_model", lambda fields, model=model: chat(client, model, fields))
    put("bad-0", "bad_request", lambda fields: chat(client, "tiny", fields | {"max_tokens": 0}))


def put(request_id: str, kind: str, call: Any) -> None:
    line: dict[str, Any] = {"request_id": request_id, "kind": kind, "status": 200}
    try:
        line |= call({"extra_headers": {"X-Request-ID": request_id}, "extra_body": {"ignore_eos": True}})
    except APIStatusError as error:
        line["status"] = error.status_code
    sys.stdout.write(json.dumps(line) + "\n")


def chat(client: OpenAI, model: str, options: dict[str, Any]) -> dict[str, Any]:
    answer = client.chat.completions.create(**{"model": model, "messages": MESSAGES, "max_tokens": TOKENS, **options})
    return streamed(answer) if options.get("stream") else used(answer.usage)


def text(client: OpenAI, options: dict[str, Any]) -> dict[str, Any]:
    answer = client.completions.create(model="tiny", prompt="tide moon salt", max_tokens=TOKENS, **options)
    return used(answer.usage)


def streamed(chunks: Iterator[Any]) -> dict[str, Any]:
    """Tokens where the stream reports them, and whether a chunk held anything that was not requested."""
    usage, without_choices = None, 0
    for chunk in chunks:
        usage = chunk.usage or usage
        without_choices += not chunk.choices
    return used(usage) | {"usage_chunks": without_choices}


def used(usage: Any) -> dict[str, Any]:
    return {} if usage is None else {"input_tokens": usage.prompt_tokens, "output_tokens": usage.completion_tokens}


if __name__ == "__main__":
    main(sys.argv[1])
