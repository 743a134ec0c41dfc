"""Cuts bytes of a growing file into whole lines. Pure.

A line is whole when its newline is there. A longer one than the limit is skipped up to its newline, however many
reads that takes; all others are returned with their offsets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Line(NamedTuple):
    """``text`` without its newline (and carriage return), from ``offset`` of the file."""

    offset: int
    text: bytes


@dataclass(frozen=True, slots=True)
class Cut:
    """``next_offset``: where to read on. ``skipping``: inside a line that is too long. ``too_long`` began here."""

    lines: tuple[Line, ...]
    next_offset: int
    skipping: bool
    too_long: int


def cut(data: bytes, offset: int, skipping: bool, line_bytes_max: int) -> Cut:
    """The whole lines of ``data``, which begins at ``offset``; blank ones are passed over."""
    lines: list[Line] = []
    at, too_long = 0, 0
    while (end := data.find(b"\n", at)) >= 0:
        text = data[at:end]
        if skipping:
            skipping = False
        elif len(text) > line_bytes_max:
            too_long += 1
        elif text := text.removesuffix(b"\r"):
            lines.append(Line(offset + at, text))
        at = end + 1
    rest = len(data) - at
    if not skipping and rest > line_bytes_max:
        skipping, too_long = True, too_long + 1
    return Cut(tuple(lines), offset + (len(data) if skipping else at), skipping, too_long)
