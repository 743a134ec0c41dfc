"""YAML as plain values that know their line, within limits. Pure.

Built from the parser's events without recursion. Refused: aliases (they multiply), tags, a second document, keys that
are no text or come twice, and more of anything than a file can need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from stream_jobs.yaml_files.errors import FileError, WrongError, decoded, quoted

BYTES_MAX = 1024 * 1024
DEPTH_MAX = 16
NODES_MAX = 50_000
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NULLS = ("", "~", "null", "Null", "NULL")


class Word(str):
    """A scalar as written (of a value that is null: ``None``). ``at``: ``file:line``. ``plain``: without quotes."""

    __slots__ = ("at", "plain")
    at: str
    plain: bool

    def __new__(cls, text: str, at: str, plain: bool = True) -> Word:
        made = super().__new__(cls, text)
        made.at, made.plain = at, plain
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy keeps its place."""
        return Word, (str(self), self.at, self.plain)


class Items(list[Any]):
    """A list, and where it begins."""

    def __init__(self, items: Sequence[Any], at: str) -> None:
        super().__init__(items)
        self.at = at


class Table(dict[Any, Any]):
    """A mapping of words in its order, and where it begins. ``names``: keys that it may have, once it is validated."""

    def __init__(self, pairs: Mapping[Word, Any], at: str) -> None:
        super().__init__(pairs)
        self.at = at
        self.names: tuple[str, ...] = ()

    def key_at(self, name: str) -> str:
        """Where a key stands; of a missing one, where the table begins."""
        return next((key.at for key in self if key == name), self.at)

    def at_of(self, name: str) -> str:
        """Where the value of a key begins; of null and of a missing one as ``key_at``."""
        return getattr(self.get(name), "at", self.key_at(name))


def parse(data: bytes, path: str, needs: str) -> Table:
    """The root mapping. Raises ``FileError`` and nothing else. ``needs``: what an empty file lacks, for its text."""
    try:
        root = _composed(decoded(data, path, BYTES_MAX), path)
    except WrongError as error:
        raise FileError(path, *error.pairs) from None
    except yaml.YAMLError as error:
        raise FileError(path, _syntax(error, path)) from None
    if root is None:
        raise FileError(path, (f"{path}:1", f"the file is empty; it needs {needs}"))
    if not isinstance(root, Table):
        raise FileError(path, (root.at, "the file must be a mapping (key: value)"))
    return root


def _syntax(error: yaml.YAMLError, path: str) -> tuple[str, str]:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    why = getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be read"
    return f"{path}:{mark.line + 1 if mark else 1}", f"this is no YAML: {why}"


def _composed(text: str, path: str) -> Any:
    roots: list[Any] = []
    stack: list[tuple[bool, str, list[Any]]] = []  # open lists and mappings: is a mapping, where it begins, what it has
    nodes = 0
    for event in yaml.parse(text, Loader=_LOADER):
        at = f"{path}:{event.start_mark.line + 1 if event.start_mark else 1}"
        _refuse(event, at, len(roots))
        if isinstance(event, yaml.CollectionStartEvent):
            stack.append((isinstance(event, yaml.MappingStartEvent), at, []))
        elif isinstance(event, yaml.ScalarEvent | yaml.CollectionEndEvent):
            is_key = bool(stack) and stack[-1][0] and len(stack[-1][2]) % 2 == 0
            node = _closed(*stack.pop()) if isinstance(event, yaml.CollectionEndEvent) else _scalar(event, at, is_key)
            nodes += 1
            (stack[-1][2] if stack else roots).append(node)
        if nodes > NODES_MAX or len(stack) > DEPTH_MAX:
            raise WrongError((at, f"more than {NODES_MAX} values or {DEPTH_MAX} levels; no file needs so many"))
    return roots[0] if roots else None


def _refuse(event: Any, at: str, documents: int) -> None:
    if isinstance(event, yaml.AliasEvent):
        raise WrongError((at, "aliases (*name) are not allowed; write the value again"))
    if isinstance(event, yaml.NodeEvent) and getattr(event, "tag", None) not in (None, "!"):
        raise WrongError((at, f"tags are not allowed: {quoted(str(getattr(event, 'tag', '')))}"))
    if isinstance(event, yaml.DocumentStartEvent) and documents:
        raise WrongError((at, "a second document (---) is not allowed; write a file of its own"))


def _scalar(event: yaml.ScalarEvent, at: str, is_key: bool) -> Word | None:
    plain = not event.style
    return None if plain and not is_key and event.value in _NULLS else Word(event.value, at, plain)


def _closed(mapping: bool, at: str, items: list[Any]) -> Items | Table:
    if not mapping:
        return Items(items, at)
    found = Table({}, at)
    for key, value in zip(items[::2], items[1::2], strict=True):
        if not isinstance(key, Word):
            raise WrongError((key.at, "a key must be a word"))
        if key in found:
            raise WrongError((key.at, f"key {quoted(key)} stands twice; it was at {found.key_at(key)}"))
        found[key] = value
    return found
