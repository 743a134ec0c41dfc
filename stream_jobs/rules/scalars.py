"""Single values of a rule file, each with a sentence for what is wrong with it. Pure; raises ``WrongError``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from schemas.limits import HOUR_MS, WINDOW_MS
from stream_jobs.rules.nodes import Listing, Node, Scalar, Table
from stream_jobs.rules.problems import WrongError, nearest, quoted
from stream_jobs.rules.units import seconds

TEXT_MAX = 1_000
NAME = re.compile(r"[a-z][a-z0-9_]{0,63}", re.ASCII)
_OF = re.compile(r"(\d{1,4})\s+of\s+(\d{1,4})", re.ASCII)
WINDOWS_MAX = 64


def word(node: Node, what: str) -> str:
    """A single word or sentence, not empty."""
    if not isinstance(node, Scalar) or node.null or not node.text.strip():
        raise WrongError(node.at, f"{what} must be a word")
    return node.text.strip()


def sentence(node: Node, what: str) -> str:
    """Text for people: bounded, without control characters."""
    text = " ".join(word(node, what).split())
    if len(text) > TEXT_MAX or not text.isprintable():
        raise WrongError(node.at, f"{what} must be at most {TEXT_MAX} characters that can be printed")
    return text


def name(node: Node, what: str = "name") -> str:
    """A name: small letters, digits and underscores."""
    text = word(node, what)
    if not NAME.fullmatch(text):
        raise WrongError(
            node.at, f"{what} {quoted(text)} must be small letters, digits and _, a letter first, at most 64"
        )
    return text


def choice(node: Node, what: str, names: Sequence[str]) -> str:
    """One of a closed set."""
    text = word(node, what)
    if text not in names:
        raise WrongError(node.at, f"{what} {quoted(text)} is not known; {nearest(text, names)}")
    return text


def flag(node: Node, what: str) -> bool:
    """``true`` or ``false``."""
    if isinstance(node, Scalar) and node.plain and node.text.lower() in ("true", "false"):
        return node.text.lower() == "true"
    raise WrongError(node.at, f"{what} must be true or false")


def whole(node: Node, what: str, low: float, high: float) -> int:
    """A whole number within bounds."""
    text = word(node, what)
    if not (text.isascii() and text.isdigit() and len(text) <= 12 and low <= int(text) <= high):
        raise WrongError(node.at, f"{what} = {quoted(text)} must be a whole number from {low:g} to {high:g}")
    return int(text)


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


def table(node: Node, what: str) -> Table:
    """A mapping."""
    if not isinstance(node, Table):
        raise WrongError(node.at, f"{what} must be a mapping (key: value)")
    return node


def listing(node: Node, what: str) -> tuple[Node, ...]:
    """A list; one word alone is a list of one."""
    if isinstance(node, Listing):
        return node.items
    if isinstance(node, Scalar) and not node.null:
        return (node,)
    raise WrongError(node.at, f"{what} must be a list")


def known_keys(node: Table, what: str, keys: Sequence[str]) -> list[WrongError]:
    """One error for every key that nobody reads."""
    return [
        WrongError(key.at, f"{what} has no key {quoted(key.text)}; {nearest(key.text, keys)}")
        for key, _ in node.pairs
        if key.text not in keys
    ]
