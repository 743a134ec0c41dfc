"""Files as models: words with their lines, fields that say what they allow, mistakes with ``file:line: key``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import Field

from schemas.errors import ConfigError
from stream_jobs.yaml_files.errors import PROBLEMS_MAX, SHOWN_MAX, FileError, WrongError, nearest
from stream_jobs.yaml_files.fields import Flag, Name, once, whole
from stream_jobs.yaml_files.sections import Section, read, validated
from stream_jobs.yaml_files.tree import parse


class Part(Section):
    name: Name
    size: Annotated[int, whole(1, 9)] = 1


class Whole(Section):
    parts: Annotated[tuple[Part, ...], once(lambda part, _: part.name, "join them")] = ()
    sizes: Mapping[Name, Part] = Field(default_factory=dict)
    flag: Flag = False


def problems(text: str) -> tuple[str, ...]:
    with pytest.raises(FileError) as caught:
        validated(Whole, parse(text.encode(), "f", "`parts`"), "f")
    return caught.value.problems


def test_all_mistakes_come_at_once_in_the_order_of_lines() -> None:
    """Each with the keys that lead to it, items of lists by their name; of an unknown key the nearest one."""
    text = """flga: 1
parts:
  - {name: a, size: 10}
  - name: B
    sise: 1
  - {}
sizes:
  b: {size: 0}
  c: 5
  Bad!: {name: d}
flag: 1
"""

    assert problems(text) == (
        "f:1: flga: unknown key; did you mean flag?",
        "f:3: parts.a.size: '10' must be a whole number from 1 to 9",
        "f:4: parts.B.name: 'B' must be small letters, digits and _, a letter first, at most 64",
        "f:5: parts.B.sise: unknown key; did you mean size?",
        "f:6: parts.name: is missing",
        "f:8: sizes.b.name: is missing",
        "f:8: sizes.b.size: '0' must be a whole number from 1 to 9",
        "f:9: sizes.c: must be a mapping (key: value)",
        "f:10: sizes.Bad!: 'Bad!' must be small letters, digits and _, a letter first, at most 64",
        "f:11: flag: must be true or false",
    )


def test_what_stands_twice_names_the_first() -> None:
    """Each later one at its own line."""
    assert problems("parts:\n- {name: a}\n- {name: b}\n- {name: a}\n- {name: a}\n") == (
        "f:4: parts: the same stands already at f:2; join them",
        "f:5: parts: the same stands already at f:2; join them",
    )


def test_text_of_a_file_cannot_command_a_terminal() -> None:
    """Control characters are shown, long words end early, in values and in keys."""
    found = problems(f'flag: 1\n"\\e[31m{"x" * 500}": 1\nparts: [{{name: "\\e[31m{"x" * 500}"}}]')

    assert len(found) == 3
    assert all(line.isprintable() and len(line) < 4 * SHOWN_MAX for line in found), found


def test_a_section_knows_its_line() -> None:
    """Of the file's tree."""
    found = validated(Whole, parse(b"\nparts:\n- name: a\n", "f", "`parts`"), "f")

    assert (found.place, found.parts[0].place) == ("f:2", "f:3")


def test_a_file_that_cannot_be_used_is_a_config_error() -> None:
    """All mistakes in it, in order, each once."""
    error = FileError("f", ("f:10", "late"), ("f:9", "early"), ("f:9", "early"))

    assert isinstance(error, ConfigError)
    assert str(error) == "f:9: early\nf:10: late"


def test_more_mistakes_than_people_read_are_counted() -> None:
    """The text ends with how many are left."""
    error = FileError("f", *((f"f:{line}", "wrong") for line in range(PROBLEMS_MAX + 5)))

    assert len(error.problems) == PROBLEMS_MAX + 5
    assert str(error).splitlines()[-1] == "f: and 5 more"


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    """No such file, a directory, a name that no system takes."""
    for path in (tmp_path / "none.yaml", tmp_path, Path("a\0b")):
        with pytest.raises(FileError, match=":1: cannot be read: "):
            read(path)


def test_of_a_file_one_byte_too_much_is_read(tmp_path: Path) -> None:
    """Enough to refuse it."""
    (tmp_path / "f").write_bytes(b"12345")

    assert read(tmp_path / "f", 3) == b"1234"


def test_the_nearest_name_or_all_of_few() -> None:
    """A misspelling gets one name, a foreign word the list."""
    assert nearest("modle", ["model", "host"]) == "did you mean model?"
    assert nearest("zzz", ["model", "host"]) == "valid: host, model"


def test_mistakes_elsewhere_are_value_errors() -> None:
    """So that pydantic collects them."""
    assert isinstance(WrongError(("f:1", "a"), ("f:2", "b")), ValueError)
    assert str(WrongError(("f:1", "a"), ("f:2", "b"))) == "a; b"
