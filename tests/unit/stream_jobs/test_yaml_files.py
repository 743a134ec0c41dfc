"""People's files: words with their lines, and what is wrong with a word."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from schemas.errors import ConfigError
from stream_jobs.yaml_files.nodes import Listing, Node, Scalar, Table, parse
from stream_jobs.yaml_files.problems import FileError, Problems, WrongError
from stream_jobs.yaml_files.scalars import (
    TEXT_MAX,
    choice,
    flag,
    known_keys,
    listing,
    name,
    sentence,
    table,
    whole,
    word,
)

AT = "f:1"


def a_word(text: str, *, plain: bool = True) -> Scalar:
    return Scalar(text, AT, plain)


LIST = Listing((a_word("a"), a_word("b")), AT)


def test_nodes_know_their_lines() -> None:
    """Keys and values, behind comments and folded texts."""
    node = parse(b"# first\na: 1\nb:\n  - x\n  - 'null'\n", "f")

    assert isinstance(node, Table)
    assert [(key.text, key.at, value.at) for key, value in node.pairs] == [("a", "f:2", "f:2"), ("b", "f:3", "f:4")]


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (lambda: word(a_word(" two words "), "w"), "two words"),
        (lambda: word(a_word("null", plain=False), "w"), "null"),
        (lambda: sentence(a_word("of\n  many   words"), "w"), "of many words"),
        (lambda: sentence(a_word("x" * TEXT_MAX), "w"), "x" * TEXT_MAX),
        (lambda: name(a_word("a_1")), "a_1"),
        (lambda: choice(a_word("b"), "w", ("a", "b")), "b"),
        (lambda: flag(a_word("True"), "w"), True),
        (lambda: flag(a_word("false"), "w"), False),
        (lambda: whole(a_word("7"), "w", 0, 7), 7),
        (lambda: listing(LIST, "w"), LIST.items),
        (lambda: listing(a_word("a"), "w"), (a_word("a"),)),
    ],
    ids=["trimmed", "quoted null", "on one line", "as long as may be", "name", "choice", "yes", "no", "whole", "list",
         "one word as a list"],
)  # fmt: skip
def test_what_is_well_is_read(read: Callable[[], Any], value: Any) -> None:
    """At the bounds too."""
    assert read() == value


@pytest.mark.parametrize(
    ("read", "what"),
    [
        (lambda: word(LIST, "w"), "w must be a word"),
        (lambda: word(a_word("~"), "w"), "w must be a word"),
        (lambda: word(a_word(" ", plain=False), "w"), "w must be a word"),
        (lambda: sentence(a_word("x" * (TEXT_MAX + 1)), "w"), f"w must be at most {TEXT_MAX} characters that can be"),
        (lambda: sentence(a_word("a\x07"), "w"), f"w must be at most {TEXT_MAX} characters that can be printed"),
        (lambda: name(a_word("1a")), "name '1a' must be small letters, digits and _, a letter first, at most 64"),
        (lambda: choice(a_word("modle"), "w", ("model", "host")), "w 'modle' is not known; did you mean model?"),
        (lambda: flag(a_word("true", plain=False), "w"), "w must be true or false"),
        (lambda: whole(a_word("8"), "w", 0, 7), "w = '8' must be a whole number from 0 to 7"),
        (lambda: whole(a_word("-1"), "w", 0, 7), "w = '-1' must be a whole number from 0 to 7"),
        (lambda: table(LIST, "w"), "w must be a mapping (key: value)"),
        (lambda: listing(a_word(""), "w"), "w must be a list"),
    ],
    ids=["a list", "nothing", "blank", "too long", "a control character", "no name", "no choice", "a quoted flag",
         "too large", "no digit", "no mapping", "no list"],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_line(read: Callable[[], Any], what: str) -> None:
    """And with what would be right."""
    with pytest.raises(WrongError) as caught:
        read()

    assert caught.value.at == AT
    assert caught.value.what.startswith(what)


def test_keys_that_nobody_reads_are_all_told() -> None:
    """Each with the nearest there is."""
    node: Node = Table(((a_word("modle"), LIST), (a_word("host"), LIST)), AT)
    assert isinstance(node, Table)

    assert [str(one) for one in known_keys(node, "a rule", ("model", "host"))] == [
        "a rule has no key 'modle'; did you mean model?"
    ]


def test_a_file_that_cannot_be_used_is_a_config_error() -> None:
    """All mistakes in it, in order, each once."""
    told = Problems()
    told.add("f:10", "late")
    told.add("f:9", "early")
    told.add("f:9", "early")

    error = FileError("f", told.in_order())

    assert isinstance(error, ConfigError)
    assert str(error) == "f:9: early\nf:10: late"
