"""What is wrong with a file: every mistake with its line, all told at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

from schemas.errors import ConfigError

LISTED_MAX = 12
SHOWN_MAX = 60
_PLACE = re.compile(r"(.*?):(\d+): ", re.DOTALL)
PROBLEMS_MAX = 100
"""More are counted, not listed."""


class FileError(ConfigError):
    """A file cannot be used. ``problems`` are lines: ``file:line: what is wrong; what would be right``. Each kind of
    file has its own error, whose ``holds`` says what is in it."""

    holds = "file"

    def __init__(self, path: str, problems: tuple[str, ...]) -> None:
        super().__init__(self.holds, path, "must be readable and valid")
        self.problems = problems
        left = len(problems) - PROBLEMS_MAX
        self.args = ("\n".join([*problems[:PROBLEMS_MAX], *([f"{path}: and {left} more"] if left > 0 else [])]),)


class WrongError(Exception):
    """One mistake at one place; caught where the next key can still be read."""

    def __init__(self, at: str, what: str) -> None:
        super().__init__(what)
        self.at = at
        self.what = what


class Problems:
    """Collects mistakes."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def in_order(self) -> tuple[str, ...]:
        """Sorted by file and line."""
        return tuple(sorted(self.lines, key=_place))

    def add(self, at: str, what: str, rule: str = "") -> None:
        """One more; the same line is told once."""
        line = f"{at}: rule {rule}: {what}" if rule else f"{at}: {what}"
        if line not in self.lines:
            self.lines.append(line)

    @contextmanager
    def collected(self, rule: str = "") -> Iterator[None]:
        """Take a ``WrongError`` of the block and go on behind it."""
        try:
            yield
        except WrongError as error:
            self.add(error.at, error.what, rule)


def _place(line: str) -> tuple[str, int]:
    found = _PLACE.match(line)
    return (found[1], int(found[2])) if found else (line, 0)


def quoted(text: str) -> str:
    """Somebody's text in quotes, cut and without control characters."""
    return repr(text if len(text) <= SHOWN_MAX else text[: SHOWN_MAX - 1] + "…")


def nearest(word: str, names: Iterable[str]) -> str:
    """The end of a sentence: the closest valid name, or all of them when they are few."""
    listed = sorted(set(names))
    close = get_close_matches(word[:SHOWN_MAX], listed, n=1, cutoff=0.55)
    if close:
        return f"did you mean {close[0]}?"
    more = ", ..." if len(listed) > LISTED_MAX else ""
    return f"valid: {', '.join(listed[:LISTED_MAX])}{more}"
