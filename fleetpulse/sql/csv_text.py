"""CSV as the server writes it, for spreadsheets: text that they would take for a formula is text there.

Tenants and models are named by whoever sends requests. As OWASP advises, an apostrophe goes before a text that begins
with an equals sign, plus, minus, at, tab or carriage return. The server writes text in quotes and numbers without:
numbers stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_FORMULA = re.compile(rb'(?:\A|(?<=[^"]))"(?=[=+\-@\t]|\r(?!\n))')
"""The quote that begins such a text. Inside of text the server writes two for one, so that a single one begins a cell
or ends it, and behind its end comes a comma or the end of the line."""


def as_text(lines: bytes) -> bytes:
    """Whole lines, with an apostrophe before what is no formula."""
    return _FORMULA.sub(b"\"'", lines)


def each_as_text(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same of pieces as they come."""
    rest = b""
    for piece in pieces:
        lines, end, rest = (rest + piece).rpartition(b"\n")
        if end:
            yield as_text(lines + end)
    yield as_text(rest)
