"""What is wrong with a file: every mistake with its line and what would be right."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from schemas.errors import ConfigError

LISTED_MAX = 12
SHOWN_MAX = 60
PROBLEMS_MAX = 100
"""More are counted, not listed."""
RENAMED = {"given": "load_adjusted", "mutes": "silences", "told": "reported"}
"""Names that files had before, with those that they have now."""


class FileError(ConfigError):
    """A file cannot be used. ``problems`` are lines in the file's order: ``file:line: key: what is wrong; what is
    right``."""

    def __init__(self, path: str, *wrong: tuple[str, str]) -> None:
        """``wrong``: pairs of ``file:line`` and text; a pair that comes twice counts once."""
        super().__init__("file", path, "must be readable and valid")
        self.problems = tuple(f"{at}: {what}" for at, what in sorted(dict.fromkeys(wrong), key=_line))
        more = len(self.problems) - PROBLEMS_MAX
        self.args = ("\n".join([*self.problems[:PROBLEMS_MAX], *([f"{path}: and {more} more"] if more > 0 else [])]),)


class WrongError(ValueError):
    """Raised by a validator for mistakes at lines of their own. ``pairs``: ``file:line`` (empty: the value's), text."""

    def __init__(self, *pairs: tuple[str, str]) -> None:
        super().__init__("; ".join(what for _, what in pairs))
        self.pairs = pairs


def decoded(data: bytes, path: str, bytes_max: int) -> str:
    """The text of a file. Raises ``FileError`` for what is too large or no UTF-8."""
    if len(data) > bytes_max:
        what = f"the file is larger than {bytes_max} bytes; split it or drop what is unused"
        raise FileError(path, (f"{path}:1", what))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        what = f"this is no UTF-8 at byte {error.start}; save the file as UTF-8"
        raise FileError(path, (f"{path}:{line}", what)) from None


def _line(pair: tuple[str, str]) -> tuple[str, int]:
    path, _, line = pair[0].rpartition(":")
    return path, int(line)


def quoted(text: str) -> str:
    """A person's text in quotes, cut and without control characters."""
    return repr(str(text) if len(text) <= SHOWN_MAX else text[: SHOWN_MAX - 1] + "…")


def nearest(word: str, names: Iterable[str]) -> str:
    """The end of a sentence: the name that ``word`` has now, the closest valid one, or all where they are few."""
    listed = sorted(set(names))
    if RENAMED.get(word) in listed:
        return f"its name is {RENAMED[word]} now"
    close = get_close_matches(word[:SHOWN_MAX], listed, n=1, cutoff=0.55)
    if close:
        return f"did you mean {close[0]}?"
    more = ", ..." if len(listed) > LISTED_MAX else ""
    return f"valid: {', '.join(listed[:LISTED_MAX])}{more}"
