from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.log_tail.tail import HEAD_BYTES, Position, decode, digest, encode


@given(st.builds(Position, *[st.integers(0, 2**60)] * 4, st.text(max_size=40), st.booleans()))
def test_a_position_is_read_as_it_was_written(position: Position) -> None:
    """And fits the slot it is kept in."""
    value = encode(position)

    assert decode(value) == position
    assert len(value) < 1_000


@pytest.mark.parametrize(
    "value", [None, b"", b"{", b"[]", b"null", b'{"offset": 1}', b'{"device":1,"inode":1,"more":1}']
)
def test_what_cannot_be_read_is_no_position(value: bytes | None) -> None:
    """The log is then new."""
    assert decode(value) is None


def test_a_file_is_known_by_what_was_read_of_it() -> None:
    """Not by bytes behind that; shorter than that is another one."""
    position = Position(1, 2).moved(10, False, b"0123456789abc")

    assert position.is_of(b"0123456789", 10)
    assert position.is_of(b"0123456789xyz", 13)
    assert not position.is_of(b"0123456789", 9)
    assert not position.is_of(b"012345678X", 10)
    assert not position.is_of(b"0123", 10)


def test_a_position_at_the_begin_is_any_file_s() -> None:
    """Nothing was read of it."""
    assert Position(1, 2).is_of(b"", 0)
    assert Position(1, 2).is_of(b"anything", 8)


def test_the_first_bytes_are_enough() -> None:
    """Of a long file."""
    head = b"x" * HEAD_BYTES
    position = Position(1, 2).moved(10_000, True, head + b"more")

    assert (position.head_length, position.skipping) == (HEAD_BYTES, True)
    assert position.is_of(head, 10_000)


def test_what_stands_before_the_place_tells_files_apart_that_begin_alike() -> None:
    """A position of an earlier version does not know it."""
    head = b"x" * HEAD_BYTES
    position = Position(1, 2).moved(10_000, False, head, b"before it" + b"y" * HEAD_BYTES)
    earlier = decode(b'{"device":1,"inode":2,"offset":10000,"head_length":256,"head":"%b"}' % digest(head).encode())

    assert position.last_length == HEAD_BYTES
    assert position.is_of(head, 10_000, b"y" * HEAD_BYTES)
    assert not position.is_of(head, 10_000, b"y" * (HEAD_BYTES - 1) + b"z")
    assert not position.is_of(head, 10_000, b"y" * (HEAD_BYTES - 1))
    assert earlier is not None
    assert earlier.is_of(head, 10_000, b"z" * HEAD_BYTES)
