"""What a request asks for: the part of its path and body that its event needs. No text of a prompt is kept.

Source: OpenAI API reference; engines that speak it hang the same paths below prefixes of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import orjson

APIS: Mapping[str, str] = MappingProxyType(
    {  # how the path ends: longest first, chat/completions before completions
        "/chat/completions": "chat",
        "/completions": "completions",
        "/embeddings": "embeddings",
        "/responses": "responses",
    }
)
OTHER = "other"
_CHOICES_MAX = 65_536


class Wanted(NamedTuple):
    """What the body asks for; None where it does not say."""

    model: str | None = None
    streamed: bool = False
    choices: int | None = None
    """Answers that are to come: ``n``, for each prompt of a list."""
    usage: bool = False
    """Whether the client asked for usage at the end of the stream."""
    readable: bool = True


def api_of(path: str) -> str:
    """The value of the label ``api`` for a request's path, which may have a query and a final slash."""
    bare = path.partition("?")[0].rstrip("/")
    return next((api for end, api in APIS.items() if bare.endswith(end)), OTHER)


def wanted_of(api: str, body: bytes) -> Wanted:
    """What a body of this api asks for; not ``readable`` when it is no JSON object."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return Wanted(readable=False)
    if not isinstance(document, dict):
        return Wanted(readable=False)
    model, options = document.get("model"), document.get("stream_options")
    return Wanted(
        model=model if isinstance(model, str) and model else None,
        streamed=document.get("stream") is True,
        choices=_choices(api, document),
        usage=isinstance(options, dict) and options.get("include_usage") is True,
    )


def _choices(api: str, document: Mapping[str, Any]) -> int | None:
    if api == "responses":
        return 1
    if api not in ("chat", "completions"):
        return None
    told = document.get("n")
    each = told if type(told) is int and 0 < told < _CHOICES_MAX else 1
    prompts = document.get("prompt")
    # A list of numbers is one prompt, given as tokens.
    several = isinstance(prompts, list) and len(prompts) > 0 and not isinstance(prompts[0], int)
    return each * len(prompts) if api == "completions" and several and isinstance(prompts, list) else each
