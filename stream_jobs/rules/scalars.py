"""Single values of a rule file that no other file has: durations and counts of windows. Pure; raises ``WrongError``."""

from __future__ import annotations

import re

from schemas.limits import HOUR_MS, WINDOW_MS
from stream_jobs.rules.units import seconds
from stream_jobs.yaml_files.nodes import Node
from stream_jobs.yaml_files.problems import WrongError, quoted
from stream_jobs.yaml_files.scalars import word

_OF = re.compile(r"(\d{1,4})\s+of\s+(\d{1,4})", re.ASCII)
WINDOWS_MAX = 64


def duration_ms(node: Node, what: str, low_ms: int, high_ms: int) -> int:
    """Milliseconds of ``30s``, ``5m``, ``2h``, ``1d``; the unit must be written."""
    text = word(node, what)
    found = seconds(text)
    if found is None or text[-1:].isdigit() or not low_ms <= found * 1_000 <= high_ms or found != int(found):
        raise WrongError(
            node.at,
            f"{what} = {quoted(text)} must be whole seconds with a unit (30s, 5m, 2h, 1d) from "
            f"{low_ms // 1_000}s to {high_ms // 1_000}s",
        )
    return int(found) * 1_000


def window_ms(node: Node) -> int:
    """Length of a rule's window: a multiple of the grain, at most an hour."""
    found = duration_ms(node, "window", WINDOW_MS, HOUR_MS)
    if found % WINDOW_MS:
        raise WrongError(node.at, f"window = {found // 1_000}s must be a multiple of {WINDOW_MS // 1_000}s")
    return found


def m_of_n(node: Node) -> tuple[int, int]:
    """``3 of 5``; ``2`` is 2 of 2."""
    text = word(node, "for")
    found = _OF.fullmatch(text)
    m, n = (int(found[1]), int(found[2])) if found else (0, 0)
    if text.isascii() and text.isdigit() and len(text) < 5:
        m = n = int(text)
    if not 1 <= m <= n <= WINDOWS_MAX:
        raise WrongError(node.at, f"for = {quoted(text)} must be like `2` or `3 of 5` windows, at most {WINDOWS_MAX}")
    return m, n
