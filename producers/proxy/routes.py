"""Routes: which paths are LLM requests, by the label ``api`` of their events; all others only pass through."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from urllib.parse import unquote_to_bytes

_APIS: Mapping[bytes, str] = MappingProxyType(
    {
        b"/chat/completions": "chat",
        b"/completions": "completions",
        b"/embeddings": "embeddings",
        b"/responses": "responses",
    }
)


def api_of(method: bytes, path: bytes) -> str | None:
    """``chat``, ``completions``, ``embeddings`` or ``responses``, below whatever prefix ends in ``/v1`` or none; None
    for everything else: models, files, health. ``path`` is as the client wrote it, without its query."""
    if method != b"POST":
        return None
    plain = _as_read(path)
    head, _, tail = plain.rpartition(b"/v1")
    return _APIS.get(tail) if head or plain.startswith(b"/v1") else _APIS.get(plain)


def _as_read(path: bytes) -> bytes:
    """The path as the most lenient engine reads it: escapes read once, parameters (``;``) left out, dot segments
    followed, no empty segment. What a strict engine reads as a known path is the same path here."""
    kept: list[bytes] = []
    for segment in unquote_to_bytes(path).split(b"/"):
        name = segment.partition(b";")[0]
        if name == b"..":
            del kept[-1:]
        elif name not in (b"", b"."):
            kept.append(name)
    return b"/" + b"/".join(kept)
