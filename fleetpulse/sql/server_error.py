"""The server's error as it stands in what it wrote: alone, or behind the rows that it had written by then. Pure."""

from __future__ import annotations

import re

SAID_BYTES_MAX = 16 * 1024
"""So much of the end of an answer holds an error."""
_SAID = re.compile(rb"^Code: \d+\. DB::Exception: .*?(?=\n\d+ \w+\r\n__exception__|\Z)", re.MULTILINE | re.DOTALL)
_VERSION = re.compile(r" \(version [^()]*\)\s*$")
_ERROR_CHARS_MAX = 4_000


def said(end: bytes | bytearray) -> str:
    """The error at the end of an answer; empty where there is none."""
    found = _SAID.search(end)
    return found[0].decode("utf-8", "replace") if found else ""


def error_text(said: str) -> str:
    """The server's error without what only its makers need."""
    line = _VERSION.sub("", said.strip())
    return line if len(line) <= _ERROR_CHARS_MAX else f"{line[:_ERROR_CHARS_MAX]}…"


def broken_off(end: bytes | bytearray, error: BaseException) -> str:
    """What is said of an answer that ended like this before it was whole."""
    return error_text(said(end)) or f"ClickHouse stopped in the middle of its answer ({error}); ask for less"
