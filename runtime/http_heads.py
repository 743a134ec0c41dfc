"""Heads of HTTP/1.1 requests, whoever serves them: how many headers they may have, and how they read without an offer.
Pure.

Some clients, such as Java's, offer another protocol with every request: HTTP/2 in the clear. A server may ignore that
(RFC 9110, 7.8), but the parser takes what follows for the other protocol: the head is read once more, without it.
"""

from __future__ import annotations

from collections.abc import Iterable

HEADERS_MAX = 128
"""Of a request, trailers among them: tiny ones take far more memory than their bytes."""
_OFFER = frozenset({b"upgrade", b"http2-settings"})


def without_offer(request_line: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The head as its client would write it without the offer. ``request_line`` ends with its CR LF; what
    ``Connection`` names beside the offer stands in one header, the last."""
    lines, kept = [request_line], list[bytes]()
    for name, value in headers:
        lower = name.lower()
        if lower == b"connection":
            kept += [each for each in map(bytes.strip, value.split(b",")) if each and each.lower() not in _OFFER]
        elif lower not in _OFFER:
            lines.append(b"%b: %b\r\n" % (name, value))
    if kept:
        lines.append(b"Connection: %b\r\n" % b", ".join(kept))
    return b"".join(lines) + b"\r\n"
