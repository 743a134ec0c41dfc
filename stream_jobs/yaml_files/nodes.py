"""YAML as nodes that know their line, within limits. Pure.

Made of the parser's events without recursion. Refused: aliases (they multiply), tags, a second document, keys that
are no text or come twice, and more of anything than a file can need.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import yaml

from stream_jobs.yaml_files.problems import FileError, WrongError, quoted

BYTES_MAX = 1024 * 1024
DEPTH_MAX = 16
NODES_MAX = 50_000
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Scalar:
    """A word. ``plain``: written without quotes, so that it may stand for a number, true, false or null."""

    text: str
    at: str
    plain: bool = True

    @property
    def null(self) -> bool:
        """True for ``null``, ``~`` and nothing."""
        return self.plain and self.text in ("", "~", "null", "Null", "NULL")


@dataclass(frozen=True, slots=True)
class Listing:
    """A list."""

    items: tuple[Node, ...]
    at: str


@dataclass(frozen=True, slots=True)
class Table:
    """A mapping in its order; keys are distinct."""

    pairs: tuple[tuple[Scalar, Node], ...]
    at: str

    def get(self, name: str) -> Node | None:
        """What stands under a key; None where there is none."""
        return next((node for key, node in self.pairs if key.text == name), None)

    def key(self, name: str) -> Scalar:
        """The key itself, for its line; asked only where it is there."""
        return next(key for key, _ in self.pairs if key.text == name)


Node = Scalar | Listing | Table


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not come."""

    mapping: bool
    at: str
    items: list[Node] = field(default_factory=list)


def parse(data: bytes, path: str) -> Node | None:
    """The root node; None for an empty file. Raises ``FileError`` and nothing else; ``path`` is for its text."""
    if len(data) > BYTES_MAX:
        raise FileError(
            path, (f"{path}:1: the file is larger than {BYTES_MAX} bytes; split it or drop what is unused",)
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise FileError(path, (f"{path}:{line}: byte {error.start} is no UTF-8; save the file as UTF-8",)) from None
    try:
        return _composed(text, path)
    except WrongError as error:
        raise FileError(path, (f"{error.at}: {error.what}",)) from None
    except yaml.YAMLError as error:
        raise FileError(path, (_syntax(error, path),)) from None


def _syntax(error: yaml.YAMLError, path: str) -> str:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    said = getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be read"
    return f"{path}:{mark.line + 1 if mark else 1}: this is no YAML: {said}"


def _composed(text: str, path: str) -> Node | None:
    roots: list[Node] = []
    stack: list[_Open] = []
    nodes = 0
    for event in yaml.parse(text, Loader=_LOADER):
        at = f"{path}:{event.start_mark.line + 1 if event.start_mark else 1}"
        _refuse(event, at, len(roots))
        node: Node | None = None
        if isinstance(event, yaml.ScalarEvent):
            node = Scalar(event.value, at, event.style is None or event.style == "")
        elif isinstance(event, yaml.CollectionStartEvent):
            stack.append(_Open(isinstance(event, yaml.MappingStartEvent), at))
        elif isinstance(event, yaml.CollectionEndEvent):
            node = _closed(stack.pop())
        nodes += node is not None
        if nodes > NODES_MAX or len(stack) > DEPTH_MAX:
            raise WrongError(at, f"more than {NODES_MAX} values or {DEPTH_MAX} levels; no file needs so many")
        if node is not None:
            (stack[-1].items if stack else roots).append(node)
    return roots[0] if roots else None


def _refuse(event: Any, at: str, documents: int) -> None:
    if isinstance(event, yaml.AliasEvent):
        raise WrongError(at, "aliases (*name) are not allowed; write the value again")
    if isinstance(event, yaml.NodeEvent) and getattr(event, "tag", None) not in (None, "!"):
        raise WrongError(at, f"tags are not allowed: {quoted(str(getattr(event, 'tag', '')))}")
    if isinstance(event, yaml.DocumentStartEvent) and documents:
        raise WrongError(at, "a second document (---) is not allowed; write a file of its own")


def _closed(opened: _Open) -> Node:
    if not opened.mapping:
        return Listing(tuple(opened.items), opened.at)
    keys, values = opened.items[::2], opened.items[1::2]
    pairs: dict[str, tuple[Scalar, Node]] = {}
    for key, value in zip(keys, values, strict=True):
        if not isinstance(key, Scalar):
            raise WrongError(key.at, "a key must be a word")
        if key.text in pairs:
            raise WrongError(key.at, f"key {quoted(key.text)} stands twice; it was at {pairs[key.text][0].at}")
        pairs[key.text] = (key, value)
    return Table(tuple(pairs.values()), opened.at)
