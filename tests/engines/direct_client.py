"""Requests straight to an engine by the openai package: BASE_URL, ``tracked`` or ``plain``. A JSON line for each.

``texts``: whether a stream brought any text, which begins its output. A tenth of the streams of an engine with random
weights bring tokens that stand for none.

Runs in the clients' environment; the SDK comes by PYTHONPATH.
"""

from __future__ import annotations

import json
import secrets
import sys
from typing import Any

from openai import OpenAI  # type: ignore[import-not-found]

import fleetpulse_track as track

REQUESTS = 6
MESSAGES = [{"role": "user", "content": "tide moon salt shore"}]


def main(base_url: str, way: str) -> None:
    client = OpenAI(base_url=f"{base_url}/v1", api_key="sk-direct", max_retries=0)
    if way == "tracked":
        client = track.openai(client, tenant="tracked")
    run = secrets.token_hex(4)
    for number in range(REQUESTS):
        options: dict[str, Any] = {"model": "tiny", "max_tokens": 5, "extra_body": {"ignore_eos": True}}
        headers = {"X-Request-ID": f"direct-{way}-{run}-{number}"}
        answer = client.chat.completions.create(
            messages=MESSAGES, stream=number % 2 == 1, extra_headers=headers, **options
        )
        chunks = list(answer) if number % 2 == 1 else []
        texts = any(choice.delta.content for chunk in chunks for choice in chunk.choices)
        sys.stdout.write(json.dumps({"id": (chunks or [answer])[-1].id, "texts": texts}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
