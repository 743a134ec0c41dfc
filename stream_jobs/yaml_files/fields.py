"""Fields of files: what single values allow. Pure.

Validators take what the tree holds (``Word``, ``Items``, ``Table``, None) and raise ``ValueError`` with what is wrong
and what would be right; the key and its line come with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, PlainValidator, ValidationInfo

from stream_jobs.yaml_files.errors import WrongError, nearest, quoted
from stream_jobs.yaml_files.tree import Items, Table, Word

TEXT_MAX = 1_000
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}", re.ASCII)


def word(value: Any) -> Word:
    """A single word or sentence, not empty."""
    if not isinstance(value, Word) or not value.strip():
        raise ValueError("must be a word")
    return Word(value.strip(), value.at, value.plain)


def sentence(value: Any) -> str:
    """Text for people: on one line, bounded, without control characters."""
    text = " ".join(word(value).split())
    if len(text) > TEXT_MAX or not text.isprintable():
        raise ValueError(f"must be at most {TEXT_MAX} characters that can be printed")
    return text


def flag(value: Any) -> bool:
    """``true`` or ``false``."""
    if isinstance(value, Word) and value.plain and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise ValueError("must be true or false")


def parsed(read: Callable[[Word], Any], must: str) -> PlainValidator:
    """Validates a word by what ``read`` makes of it; None and errors of value or range mean that it is wrong."""

    def made(value: Any) -> Any:
        text, found = word(value), None
        with suppress(ValueError, OverflowError, KeyError, OSError):
            found = read(text)
        if found is None:
            raise ValueError(f"{quoted(text)} {must}")
        return found

    return PlainValidator(made)


def chosen(value: Any, names: Collection[str]) -> str:
    """One of a closed set."""
    text = word(value)
    if text not in names:
        raise ValueError(f"{quoted(text)} is not known; {nearest(text, names)}")
    return str(text)


def choice(names: Collection[str]) -> PlainValidator:
    """Validates one of a closed set."""
    return PlainValidator(lambda value: chosen(value, names))


def number(value: Any, low: float, high: float) -> int:
    """A whole number within bounds."""
    text = word(value)
    if not (text.isascii() and text.isdigit() and len(text) <= 12 and low <= int(text) <= high):
        raise ValueError(f"{quoted(text)} must be a whole number from {low:g} to {high:g}")
    return int(text)


def whole(low: float, high: float) -> PlainValidator:
    """Validates a whole number within bounds."""
    return PlainValidator(lambda value: number(value, low, high))


def _name(text: Word) -> Word | None:
    return text if _NAME.fullmatch(text) else None


T = TypeVar("T")
Text = Annotated[Word, PlainValidator(word)]
Sentence = Annotated[str, PlainValidator(sentence)]
Name = Annotated[Word, parsed(_name, "must be small letters, digits and _, a letter first, at most 64")]
Flag = Annotated[bool, PlainValidator(flag)]
OneOrMore = Annotated[tuple[T, ...], BeforeValidator(lambda value: (value,) if isinstance(value, Word) else value)]
"""A list; one word alone is a list of one."""


def up_to(limit: int, empty: Any = ()) -> BeforeValidator:
    """Validates that a list or mapping is no longer; null is ``empty``."""

    def short(value: Any) -> Any:
        if isinstance(value, Items | Table) and len(value) > limit:
            raise ValueError(f"has more than {limit} entries; split the file")
        return empty if value is None else value

    return BeforeValidator(short)


def some(example: str) -> BeforeValidator:
    """Validates a list that is not empty; ``example`` is how an item is written."""

    def not_empty(value: Any) -> Any:
        if not isinstance(value, Items) or not value:
            raise ValueError(f"must be a list of `{example}`, one or more")
        return value

    return BeforeValidator(not_empty)


def once(key: Callable[[Any, ValidationInfo], Any], advice: str) -> AfterValidator:
    """Validates that no two sections of a list have one key."""

    def distinct(parts: tuple[Any, ...], info: ValidationInfo) -> tuple[Any, ...]:
        first: dict[Any, Any] = {}
        pairs = [(one, first.setdefault(key(one, info), one)) for one in parts]
        twice = [(one.place, before.place) for one, before in pairs if one is not before]
        return none_wrong(parts, [(at, f"the same stands already at {before}; {advice}") for at, before in twice])

    return AfterValidator(distinct)


def none_wrong(checked: T, wrong: Sequence[tuple[str, str]]) -> T:
    """What was checked. Raises ``WrongError`` where something is wrong with it."""
    if wrong:
        raise WrongError(*wrong)
    return checked
