"""RequestMeta: what is known of a request on arrival, read from its path and body. No prompt text is kept.

Source: OpenAI API reference; engines serve the same paths below prefixes of their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import orjson

APIS: Mapping[str, str] = MappingProxyType(
    {  # how the path ends: longest first, chat/completions before completions
        "/chat/completions": "chat",
        "/completions": "completions",
        "/embeddings": "embeddings",
        "/responses": "responses",
        "/messages": "messages",
        "/rerank": "rerank",
        "/score": "score",
        "/audio/transcriptions": "audio",
        "/audio/translations": "audio",
        "/audio/speech": "audio",
        "/images/generations": "images",
        "/images/edits": "images",
        "/images/variations": "images",
    }
)
OTHER = "other"
LABEL_BYTES_MAX = 256
"""Of a model's name, in UTF-8; an event with a longer one would be rejected."""
_CHOICES_MAX = 65_536
ITEMS_MAX = 500_000
"""Lists, objects and commas of a body, those in texts too. 32 MiB of ``[]`` took 1.8 s and a gigabyte to read; an
honest body of that size is a few long texts. The engine's answer still names model and tokens of one that is not read.
"""
_MODEL_OF_FORM = re.compile(rb'name="?model"?\r\n(?:[^\r\n]{1,256}\r\n){0,4}\r\n([^\r\n]{1,256})\r\n')
"""The field of a form (``multipart/form-data``), in which audio and images are sent."""
FORM_END_BYTES = 64 * 1024
"""Of a form, looked at from either end: clients send fields before files (httpx), or where they were written (curl).
32 MiB of ``name=model`` took seconds."""


class ClientFields(NamedTuple):
    """Fields of the request body that the event needs; None where the client sent none."""

    model: str | None = None
    streamed: bool = False
    choices: int | None = None
    """Expected answers: ``n``, for each prompt of a list."""
    usage: bool = False
    """Whether the client requested usage at the end of the stream (``stream_options.include_usage``)."""
    readable: bool = True
    user: str | None = None
    """Whom the client names, as it wrote it: it goes into no event."""
    prompts: int = 1
    """Each has as many choices as another."""


@dataclass(frozen=True, slots=True)
class RequestMeta:
    """What is known of a request when it arrives.

    ``labels`` are further columns of the event (cluster, engine_id, ...); ``host`` and ``origin`` must be among them.
    ``choices`` is the ``n`` of the request, for each of its ``prompts``; ``api`` one of ``event_types.APIS``.
    """

    request_id: str
    api: str = "chat"
    model: str | None = None
    streamed: bool = False
    trace_id: str | None = None
    tenant: str | None = None
    slo_class: str | None = None
    choices: int | None = None
    prompts: int = 1
    labels: Mapping[str, str | None] = field(default_factory=dict)


def is_label(name: str) -> bool:
    """Whether an event can have this name of a model, whoever names it."""
    return name.isprintable() and len(name.encode()) <= LABEL_BYTES_MAX


def client_fields(api: str, body: bytes) -> ClientFields:
    """The fields of a body of this api; not ``readable`` when it is no JSON object, nor a form that names a model,
    or has more than ``ITEMS_MAX`` items."""
    if body.startswith(b"--"):
        last = max(0, len(body) - FORM_END_BYTES)
        found = _MODEL_OF_FORM.search(body, 0, FORM_END_BYTES) or _MODEL_OF_FORM.search(body, last)
        return ClientFields(model=found[1].decode("utf-8", "replace")) if found else ClientFields(readable=False)
    if sum(map(body.count, (b"[", b"{", b","))) > ITEMS_MAX:
        return ClientFields(readable=False)
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return ClientFields(readable=False)
    if not isinstance(document, dict):
        return ClientFields(readable=False)
    model, options = document.get("model"), document.get("stream_options")
    return ClientFields(
        model=model if isinstance(model, str) and model else None,
        streamed=document.get("stream") is True,
        choices=_choices(api, document),
        usage=isinstance(options, dict) and options.get("include_usage") is True,
        user=user_in(document),
        prompts=_prompts(api, document),
    )


def user_in(body: Mapping[str, Any]) -> str | None:
    """The user that a request's body names: ``safety_identifier`` or ``user`` (OpenAI), ``metadata.user_id``
    (Anthropic)."""
    metadata = body.get("metadata")
    inside = metadata.get("user_id") if isinstance(metadata, dict) else None
    found = (body.get("safety_identifier"), body.get("user"), inside)
    return next((each for each in found if isinstance(each, str) and each), None)


def _choices(api: str, document: Mapping[str, Any]) -> int | None:
    if api in ("responses", "messages"):
        return 1
    if api not in ("chat", "completions"):
        return None
    number = document.get("n")
    each = number if type(number) is int and 0 < number < _CHOICES_MAX else 1
    return each * _prompts(api, document)


def _prompts(api: str, document: Mapping[str, Any]) -> int:
    prompts = document.get("prompt")
    # A list of numbers is one prompt, given as tokens.
    several = isinstance(prompts, list) and len(prompts) > 0 and not isinstance(prompts[0], int)
    return len(prompts) if api == "completions" and several and isinstance(prompts, list) else 1
