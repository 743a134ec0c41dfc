"""Fields of files: what single values allow, and what is said of the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter

from stream_jobs.yaml_files.errors import FileError
from stream_jobs.yaml_files.fields import (
    TEXT_MAX,
    Flag,
    Name,
    OneOrMore,
    Sentence,
    Text,
    choice,
    flag,
    parsed,
    sentence,
    some,
    up_to,
    whole,
    word,
)
from stream_jobs.yaml_files.sections import Section, validated
from stream_jobs.yaml_files.tree import Items, Table, Word

AT = "f:1"
LIST = Items([Word("a", AT), Word("b", AT)], AT)


def a_word(text: str, *, plain: bool = True) -> Word:
    return Word(text, AT, plain)


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        (word, a_word(" two words "), "two words"),
        (word, a_word("null", plain=False), "null"),
        (sentence, a_word("of\n  many   words"), "of many words"),
        (sentence, a_word("x" * TEXT_MAX), "x" * TEXT_MAX),
        (flag, a_word("True"), True),
        (flag, a_word("false"), False),
    ],
    ids=["trimmed", "quoted null", "on one line", "as long as may be", "yes", "no"],
)
def test_what_is_right_is_read(field: Callable[[Any], Any], value: Any, expected: Any) -> None:
    """At the bounds too."""
    assert field(value) == expected


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (Annotated[str, choice(("a", "b"))], a_word("b"), "b"),
        (Annotated[int, whole(0, 7)], a_word("7"), 7),
        (Name, a_word("a_1"), "a_1"),
        (Annotated[int, parsed(int, "must be digits")], a_word("12"), 12),
        (OneOrMore[Text], LIST, ("a", "b")),
        (OneOrMore[Text], a_word("a"), ("a",)),
        (Annotated[tuple[Text, ...], up_to(2)], LIST, ("a", "b")),
        (Annotated[tuple[Text, ...], up_to(2)], None, ()),
        (Annotated[tuple[Text, ...], some("x")], LIST, ("a", "b")),
    ],
    ids=[
        "choice",
        "whole",
        "name",
        "parsed",
        "list",
        "one word as a list",
        "as many as may be",
        "null as no list",
        "some",
    ],
)
def test_types_read_what_is_right(kind: Any, value: Any, expected: Any) -> None:
    """At the bounds too."""
    assert TypeAdapter(kind).validate_python(value) == expected


@pytest.mark.parametrize(
    ("kind", "value", "wrong"),
    [
        (Text, LIST, "must be a word"),
        (Text, None, "must be a word"),
        (Text, a_word(" ", plain=False), "must be a word"),
        (Sentence, a_word("x" * (TEXT_MAX + 1)), f"must be at most {TEXT_MAX} characters that can be printed"),
        (Sentence, a_word("a\x07"), f"must be at most {TEXT_MAX} characters that can be printed"),
        (Name, a_word("1a"), "'1a' must be small letters, digits and _, a letter first, at most 64"),
        (Annotated[str, choice(("model", "host"))], a_word("modle"), "'modle' is not known; did you mean model?"),
        (Flag, a_word("true", plain=False), "must be true or false"),
        (Annotated[int, whole(0, 7)], a_word("8"), "'8' must be a whole number from 0 to 7"),
        (Annotated[int, whole(0, 7)], a_word("-1"), "'-1' must be a whole number from 0 to 7"),
        (Annotated[int, parsed(int, "must be digits")], a_word("x"), "'x' must be digits"),
        (Annotated[int, parsed(lambda text: None, "must not be")], a_word("x"), "'x' must not be"),
        (OneOrMore[Text], None, "must be a list"),
        (Annotated[tuple[Text, ...], up_to(1)], LIST, "has more than 1 entries; split the file"),
        (Annotated[tuple[Text, ...], some("{a: b}")], Items([], AT), "must be a list of `{a: b}`, one or more"),
        (Section, LIST, "must be a mapping (key: value)"),
    ],
    ids=["a list", "nothing", "blank", "too long", "a control character", "no name", "no choice", "a quoted flag",
         "too large", "no digit", "not parsed", "parsed as nothing", "no list", "too many", "none", "no mapping"],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_key_and_line(kind: Any, value: Any, wrong: str) -> None:
    """And with what would be right."""

    class File(Section):
        w: kind

    with pytest.raises(FileError) as caught:
        validated(File, Table({Word("w", AT): value}, AT), "f")

    assert caught.value.problems == (f"f:1: w: {wrong}",)
