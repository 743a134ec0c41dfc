"""Single values of a file, each with a sentence for what is wrong with it. Pure; raises ``WrongError``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from stream_jobs.yaml_files.nodes import Listing, Node, Scalar, Table
from stream_jobs.yaml_files.problems import WrongError, nearest, quoted

TEXT_MAX = 1_000
NAME = re.compile(r"[a-z][a-z0-9_]{0,63}", re.ASCII)


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
