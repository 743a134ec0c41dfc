"""CSV as the server writes it, for spreadsheets: text that they would take for a formula is text there.

Tenants and models are named by whoever sends requests. As OWASP advises, an apostrophe goes before a text that begins
with an equals sign, plus, minus, at, tab or carriage return. The server writes text in quotes and numbers without:
numbers stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_TEXT = re.compile(rb'"((?:[^"]|"")*+)"')
"""A text, whole, whatever stands between it and the next: inside of it the server writes two quotes for one."""
_FORMULA = (b"=", b"+", b"-", b"@", b"\t", b"\r")


def as_text(lines: bytes) -> bytes:
    """Whole lines, with an apostrophe before what is no formula."""
    return _TEXT.sub(lambda text: b"\"'" + text[0][1:] if text[1].startswith(_FORMULA) else text[0], lines)


def each_as_text(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same of pieces as they come: up to a line end that is not inside of a text."""
    rest = b""
    for piece in pieces:
        lines, end, rest = (rest + piece).rpartition(b"\n")
        if end and lines.count(b'"') % 2 == 0:
            yield as_text(lines + end)
        else:
            rest = lines + end + rest
    yield as_text(rest)
