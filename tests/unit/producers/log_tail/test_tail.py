from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from producers.log_tail.tail import LogTailSettings, Position, Tail

ROTATED_MS = 3_000


class Reader:
    """A log in a folder and who reads it; time goes on by hand."""

    def __init__(self, folder: Path, *, from_start: bool = False, line_bytes_max: int = 40) -> None:
        self.path = folder / "requests.log"
        self.settings = LogTailSettings(
            self.path,
            folder / "position",
            {},
            {},
            from_start=from_start,
            rotated_ms=ROTATED_MS,
            chunk_bytes=64,
            line_bytes_max=line_bytes_max,
        )
        self.left_out = Counter[str]()
        self.now_ms = 0
        self.tail = Tail(self.settings, None)

    def write(self, text: str, path: Path | None = None) -> None:
        with (path or self.path).open("a") as file:
            file.write(text)

    def read(self, passed_ms: int = 100) -> list[str]:
        """All that is there now."""
        self.now_ms += passed_ms
        lines: list[str] = []
        while (chunk := self.tail.read(self.now_ms)) is not None:
            self.tail.accept(chunk)
            self.left_out.update(chunk.left_out)
            lines += [line.text.decode() for line in chunk.lines]
        return lines

    def read_on(self) -> list[str]:
        """Over a rotation."""
        return self.read() + self.read(ROTATED_MS) + self.read(ROTATED_MS) + self.read()

    def again(self) -> None:
        """The process ended and restarts from the position it saved."""
        self.tail.close()
        self.tail = Tail(self.settings, self.tail.position)


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return Reader(tmp_path)


def test_a_log_that_appears_later_is_read_from_its_begin(reader: Reader) -> None:
    """Line by line, as they become whole."""
    assert reader.read() == []
    reader.write("one\ntw")
    assert reader.read() == ["one"]
    assert reader.read() == []
    reader.write("o\n")
    assert reader.read() == ["two"]


def test_of_a_log_that_is_there_only_what_is_added_is_read(reader: Reader) -> None:
    """From the line on that is being written."""
    reader.write("old\nhal")
    assert reader.read() == []
    reader.write("f\nnew\n")
    assert reader.read() == ["half", "new"]


def test_the_rest_of_a_long_line_of_the_past_is_passed_over(reader: Reader) -> None:
    """It is no line."""
    reader.write("x" * 100)
    assert reader.read() == []
    reader.write("rest\nnew\n")
    assert reader.read() == ["new"]


def test_from_start_all_of_it_is_read(tmp_path: Path) -> None:
    """Chunk by chunk."""
    reader = Reader(tmp_path, from_start=True)
    lines = [f"line {number:04}" for number in range(50)]
    reader.write("\n".join(lines) + "\n")

    assert reader.read() == lines


def test_long_lines_are_left_out_and_counted(reader: Reader) -> None:
    """Those longer than a chunk, too."""
    reader.read()
    reader.write(f"a\n{'x' * 41}\nb\n{'y' * 500}\nc\n")

    assert reader.read() == ["a", "b", "c"]
    assert reader.left_out == {"too long": 2}


def test_a_chunk_that_was_not_accepted_is_read_again(reader: Reader) -> None:
    """At the same place."""
    reader.read()
    reader.write("one\n")

    assert reader.tail.read(0) == reader.tail.read(0) != None  # noqa: E711
    assert reader.read() == ["one"]


@pytest.mark.parametrize("while_down", [True, False])
def test_a_log_that_was_written_anew_and_begins_alike_is_read_from_its_begin(reader: Reader, while_down: bool) -> None:
    """The same file, longer than what was read of it: what stands before the place tells them apart."""
    begin = [f"a header that every run writes {number:02}" for number in range(10)]
    reader.read()
    reader.write("\n".join([*begin, "first run"]) + "\n")
    first = reader.read()
    anew = [*begin, "second run", "of more steps"]
    reader.path.write_text("\n".join(anew) + "\n")
    if while_down:
        reader.again()

    assert (first, reader.read()) == ([*begin, "first run"], anew)
    assert reader.left_out == {"place lost": 1}


def test_reading_goes_on_after_a_restart(reader: Reader) -> None:
    """Where it was, with what came in between."""
    reader.read()
    reader.write("one\n")
    assert reader.read() == ["one"]
    reader.write("two\n")
    reader.again()
    assert reader.read() == ["two"]


def test_a_renamed_log_is_read_to_its_end_and_then_the_new_one(reader: Reader) -> None:
    """Writers that still hold it have ``rotated_ms``; the last line needs no newline."""
    reader.read()
    reader.write("one\n")
    assert reader.read() == ["one"]
    old = reader.path.rename(reader.path.with_name("requests.log.1"))
    assert reader.read() == []
    reader.write("three\n")
    assert reader.read() == []
    reader.write("two\nla", old)
    assert reader.read() == ["two"]
    assert reader.read(ROTATED_MS - 1) == []
    reader.write("st", old)
    assert reader.read(1) == []
    assert reader.read(ROTATED_MS) == ["last"]
    assert reader.read(ROTATED_MS - 1) == []
    assert reader.read(1) == []
    assert reader.read() == ["three"]


@pytest.mark.parametrize("began", [True, False], ids=["read in part", "not begun"])
def test_a_log_renamed_while_nobody_read_is_found_by_its_inode(reader: Reader, began: bool) -> None:
    """Under its new name, beside the new file."""
    reader.read()
    reader.write("zero\n")
    if began:
        assert reader.read() == ["zero"]
    else:
        reader.tail.position = Position(reader.path.stat().st_dev, reader.path.stat().st_ino)
    reader.write("one\n")
    reader.tail.close()
    reader.path.rename(reader.path.with_name("requests.log-20261121"))
    reader.write("two\n")
    reader.again()

    assert reader.read_on() == (["one", "two"] if began else ["zero", "one", "two"])
    assert reader.left_out == {}


def test_after_several_rotations_all_files_are_read_in_order(reader: Reader) -> None:
    """By their last change; those before, and those of others, are not."""
    reader.read()
    reader.write("one\n")
    reader.read()
    reader.write("two\n")
    changes = {"3": ("before\n", 50), "2": ("three\n", 200), "1.json": ("other\n", 250), "1": ("four\n", 300)}
    reader.path.rename(reader.path.with_name("requests.log.9"))
    os.utime(reader.path.with_name("requests.log.9"), (100, 100))
    for name, (text, changed_s) in changes.items():
        beside = reader.path.with_name(f"requests.log.{name}")
        reader.write(text, beside)
        os.utime(beside, (changed_s, changed_s))
    reader.write("five\n")

    assert [line for _ in range(3) for line in reader.read_on()] == ["two", "three", "four", "five"]
    assert reader.left_out == {}


@pytest.mark.parametrize("restart", [True, False])
def test_a_copied_and_cut_log_is_read_from_its_copy_first(reader: Reader, restart: bool) -> None:
    """copytruncate; known by its first bytes."""
    reader.read()
    reader.write("one\n")
    assert reader.read() == ["one"]
    reader.write("two\n")
    shutil.copy(reader.path, reader.path.with_name("requests.log.1"))
    os.truncate(reader.path, 0)
    reader.write("three\n")
    if restart:
        reader.again()

    assert reader.read_on() == ["two", "three"]
    assert reader.left_out == {}


@pytest.mark.parametrize("after", ["x\n", "something longer than before\n"], ids=["shorter", "longer"])
def test_a_cut_log_without_a_copy_is_read_from_its_begin(reader: Reader, after: str) -> None:
    """And counted: what was not read of it is lost."""
    reader.read()
    reader.write("one\ntwo\n")
    reader.read()
    os.truncate(reader.path, 0)
    reader.write(after)

    assert reader.read() == [after.strip()]
    assert reader.left_out == {"place lost": 1}


def test_a_removed_log_is_read_on_when_it_comes_back(reader: Reader) -> None:
    """From its begin."""
    reader.read()
    reader.write("one\n")
    reader.read()
    reader.path.unlink()
    assert reader.read() == []
    reader.write("two\n")
    assert reader.read_on() == ["two"]


def test_a_log_whose_folder_comes_later_is_read_from_its_begin(tmp_path: Path) -> None:
    """Before an application's first start there is neither."""
    reader = Reader(tmp_path / "later")
    assert reader.read() == []
    reader.again()
    assert reader.read() == []
    reader.path.parent.mkdir()
    reader.write("one\n")
    assert reader.read() == ["one"]


@pytest.mark.parametrize("restart", [False, True])
def test_a_named_pipe_beside_the_log_is_passed_over(reader: Reader, restart: bool) -> None:
    """Who opens one waits for its writer. It is none of the rotated files either, whatever its name."""
    reader.write("one\n")
    reader.again()
    reader.read()
    reader.write("two\n")
    later_ns = reader.path.stat().st_mtime_ns + 1
    for pipe in (reader.path.with_name(f"requests.log.{end}") for end in ("1", "control")):
        os.mkfifo(pipe)
        os.utime(pipe, ns=(later_ns, later_ns))
    if restart:
        reader.again()
    assert reader.read() == ["two"]

    reader.path.rename(reader.path.with_name("requests.log.2"))
    reader.write("three\n")
    if restart:
        reader.again()
    assert reader.read_on() == ["three"]


def test_a_log_that_is_a_named_pipe_is_an_error(reader: Reader) -> None:
    """At once, also where it was looked for before."""
    reader.read()
    reader.again()
    os.mkfifo(reader.path)

    with pytest.raises(OSError, match="is no file"):
        reader.read()


def test_what_is_no_file_is_an_error_and_tried_again(reader: Reader) -> None:
    """A folder today, a log tomorrow."""
    reader.path.mkdir()
    with pytest.raises(OSError, match="no file"):
        reader.read()
    reader.path.rmdir()
    reader.write("one\n")
    assert reader.read() == ["one"]


STEPS = st.lists(st.sampled_from(["write", "part", "rename", "copytruncate", "read", "restart"]), max_size=25)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(STEPS)
def test_every_line_comes_once_through_any_order_of_rotations(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    """As long as one rotation is read to its end before the next; in order."""
    folder = tmp_path_factory.mktemp("log")
    reader = Reader(folder)
    reader.read()
    written: list[str] = []
    read: list[str] = []
    part = ""

    def line(end: str) -> str:
        written.append(f"line {len(written):05}")
        return written[-1] + end

    for number, step in enumerate(steps):
        if step == "read":
            read += reader.read()
        elif step == "restart":
            reader.again()
        elif step == "write":
            reader.write(part + line("\n"))
            part = ""
        elif step == "part" and not part:
            reader.write(line(""))
            part = "\n"
        elif step in ("rename", "copytruncate") and reader.path.exists() and not part:
            read += reader.read_on()  # the rotation before
            reader.write(line("\n"))
            if step == "copytruncate":  # a file of which nothing was read is not known again
                read += reader.read()
                reader.write(line("\n"))
            beside = folder / f"requests.log.{number}"
            if step == "rename":
                reader.path.rename(beside)
            else:
                shutil.copy(reader.path, beside)
                os.truncate(reader.path, 0)
    reader.write(part + line("\n"))
    read += reader.read_on()
    reader.tail.close()

    assert read == written
    assert reader.left_out == {}
