"""Routes: which requests are passed on, and which of them are counted as what. Pure.

A path is read once, here, as an engine reads it: escapes are resolved. What two servers could read differently (dot
segments, empty segments, parameters, turned slashes; escapes of slashes, of ``%``, ``?``, ``#`` and ``;``, of control
characters, and broken ones) is ambiguous and never passed on, so that a path means the same here and at the engine, and
none leaves an upstream's prefix.

Of what is left, known routes pass, and those that ``proxy.paths`` lists. Every POST that passes is counted: by the name
of its API, or as ``other``. Sources: OpenAI API reference; vLLM ``entrypoints/openai/api_server.py``; Cohere and Jina
(rerank); Anthropic API reference (messages).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from producers.requests.request_meta import APIS, OTHER

_APIS: Mapping[str, str] = MappingProxyType(
    {**APIS, **dict.fromkeys(("/moderations", "/classify", "/pooling", "/messages/count_tokens"), OTHER)}
)
"""Posted to; below whatever prefix ends in ``/v1`` or ``/v2``, or none."""
_READ = re.compile(r"(?:.*/v[12])?/models(?:/.+)?|/(?:health|ping|version)")
_STORED = re.compile(r"(?:.*/v[12])?/responses/(?P<id>[^/]+)(?P<below>/cancel|/input_items)?")
_TAIL = re.compile(r"(?:.*/v[12])?(?P<tail>/.*)")
_AMBIGUOUS_ESCAPE = re.compile(rb"%(?:2[35fF]|3[fF]|(?![0-9A-Fa-f]{2}))")
_AMBIGUOUS = re.compile(rb"[\x00-\x1f\x7f\\;]|//")
_DOTS = (b".", b"..")


class Routed(NamedTuple):
    """``api``: what the request is counted as; None: it is passed on without an event."""

    api: str | None


def read_path(path: bytes) -> str | None:
    """The path as an engine reads it; None for an ambiguous one, or one that is no UTF-8."""
    plain = unquote_to_bytes(path)
    if _AMBIGUOUS_ESCAPE.search(path) or _AMBIGUOUS.search(plain) or any(part in _DOTS for part in plain.split(b"/")):
        return None
    try:
        return plain.decode()
    except UnicodeDecodeError:
        return None


def without_slash(target: bytes, path: str) -> bytes:
    """The target of a request to a known API whose ``path`` ends in a slash, without it: FastAPI answers that
    with a redirect to its own address, and the client would go round the proxy. Any other target as it is."""
    bare = path.rstrip("/")
    found = _TAIL.fullmatch(bare)
    if bare == path or found is None or found["tail"] not in _APIS:
        return target
    before, mark, query = target.partition(b"?")
    return before.rstrip(b"/") + mark + query


def response_read(method: bytes, path: str) -> str | None:
    """The id of the stored response that is the answer to such a request, as ``read_path`` has the path: it is read, or
    cancelled. None for any other."""
    stored = _STORED.fullmatch(path.rstrip("/"))
    if stored is None or (method, stored["below"]) not in ((b"GET", None), (b"POST", "/cancel")):
        return None
    return stored["id"]


class Routes:
    """``listed``: paths beside the known ones; ``/*`` at an end stands for whatever is below, ``*`` alone for all."""

    def __init__(self, listed: Sequence[str] = ()) -> None:
        self._exact = frozenset(path for path in listed if not path.endswith("*"))
        self._below = tuple(path[:-1] for path in listed if path.endswith("*"))

    def of(self, method: bytes, path: str) -> Routed | None:
        """What becomes of a request with this path, as ``read_path`` has it; None: it is not passed on."""
        bare = path.rstrip("/") or "/"
        if method == b"POST":
            found = _TAIL.fullmatch(bare)
            if found is not None and (api := _APIS.get(found["tail"])) is not None:
                return Routed(api)
            if response_read(method, bare) is not None:
                return Routed(None)
        elif self._is_known(method, bare):
            return Routed(None)
        if bare in self._exact or path in self._exact or path.startswith(self._below):
            return Routed(OTHER if method == b"POST" else None)
        return None

    def _is_known(self, method: bytes, bare: str) -> bool:
        if method == b"OPTIONS":
            return True  # what may be asked across origins: it runs nothing
        if method in (b"GET", b"HEAD") and _READ.fullmatch(bare) is not None:
            return True
        stored = _STORED.fullmatch(bare)
        return stored is not None and stored["below"] in _ON_STORED.get(method, ())


_ON_STORED: Mapping[bytes, tuple[str | None, ...]] = MappingProxyType(
    {b"GET": (None, "/input_items"), b"HEAD": (None, "/input_items"), b"DELETE": (None,)}
)
"""What is below a response, by method."""
