"""Which paths are requests to a language model, by the label ``api`` of their events; all others only pass through."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

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
    for everything else: models, files, health."""
    if method != b"POST":
        return None
    trimmed = path.rstrip(b"/")
    head, _, tail = trimmed.rpartition(b"/v1")
    return _APIS.get(tail) if head or trimmed.startswith(b"/v1") else _APIS.get(trimmed)
