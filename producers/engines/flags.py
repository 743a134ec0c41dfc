"""Flags of a running vLLM that would fill fields of ours and are not set.

Its pages do not show them, its answers do: one request for one token. A person asks for that (``agent --probe``); the
service never sends an engine work.
"""

from __future__ import annotations

import http.client
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import orjson

from producers.engines.fetch import Fetch, FetchError, FetchLimits, fetch

Post = Callable[[str, str, bytes, str | None], bytes]
"""POST a body of JSON to a path of the server at an address, with a bearer token; the answer's body. May raise OSError
and ``http.client.HTTPException``."""

FLAGS: Mapping[str, tuple[str, ...]] = {
    "--enable-per-request-metrics": ("metrics",),
    "--enable-prompt-tokens-details": ("usage", "prompt_tokens_details"),
}
"""Where an answer has something once the flag is set (vLLM 0.32)."""
PROMPT = "The quick brown fox jumps over the lazy dog."
"""Of several tokens: as its first request, one of a single token ended a vLLM 0.32 on a processor with AMX."""
MODELS_LIMITS = FetchLimits(time_ms=2_000, bytes_max=1024 * 1024)
ANSWER_WITHIN_S = 30.0
ANSWER_BYTES_MAX = 1024 * 1024


def missing_flags(answer: Any) -> tuple[str, ...]:
    """The flags that this answer to a completion shows nothing of."""
    return tuple(flag for flag, path in FLAGS.items() if _at(answer, path) is None)


def model_of_vllm(models: Any) -> str | None:
    """The model that ``/v1/models`` names first, where the server is a vLLM."""
    data = models.get("data") if isinstance(models, dict) else None
    first = data[0] if isinstance(data, list) and data else None
    if not isinstance(first, dict) or first.get("owned_by") != "vllm":
        return None
    name = first.get("id")
    return name if isinstance(name, str) else None


def flags_missing_at(
    url: str, api_key: str | None = None, *, get: Fetch = fetch, post: Post | None = None
) -> tuple[str, ...]:
    """Flags that the vLLM at this address lacks; none where something else answers, or nothing does."""
    try:
        model = model_of_vllm(orjson.loads(get(f"{url}/v1/models", MODELS_LIMITS, api_key)))
        if model is None:
            return ()
        body = orjson.dumps({"model": model, "prompt": PROMPT, "max_tokens": 1})
        return missing_flags(orjson.loads((post or _post)(url, "/v1/completions", body, api_key)))
    except (FetchError, OSError, http.client.HTTPException, ValueError):
        return ()


def _post(url: str, path: str, body: bytes, api_key: str | None) -> bytes:
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=ANSWER_WITHIN_S)
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {api_key}"} if api_key else {})
    try:
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
        answer = response.read(ANSWER_BYTES_MAX)
    finally:
        connection.close()
    if response.status != http.client.OK:
        raise http.client.HTTPException(f"answered {response.status}")
    return answer


def _at(answer: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        answer = answer.get(name) if isinstance(answer, dict) else None
    return answer
