from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.log_tail.mapping import Cut, Line, cut


@pytest.mark.parametrize(
    ("data", "skipping", "expected"),
    [
        (b"", False, Cut((), 100, False, 0)),
        (b"ab", False, Cut((), 100, False, 0)),
        (b"ab\n", False, Cut((Line(100, b"ab"),), 103, False, 0)),
        (b"ab\r\n\n\r\ncd\ne", False, Cut((Line(100, b"ab"), Line(107, b"cd")), 110, False, 0)),
        (b"abcd\n", False, Cut((Line(100, b"abcd"),), 105, False, 0)),
        (b"abcde\nx\n", False, Cut((Line(106, b"x"),), 108, False, 1)),
        (b"abcd", False, Cut((), 100, False, 0)),
        (b"abcde", False, Cut((), 105, True, 1)),
        (b"abcde", True, Cut((), 105, True, 0)),
        (b"fg\nx\n", True, Cut((Line(103, b"x"),), 105, False, 0)),
    ],
)
def test_whole_lines_are_cut_off(data: bytes, skipping: bool, expected: Cut) -> None:
    """At most four bytes each here; a longer one is left out up to its newline."""
    assert cut(data, 100, skipping, 4) == expected


@given(
    st.lists(st.binary(max_size=9).map(lambda text: text.replace(b"\n", b"").replace(b"\r", b"")), max_size=12),
    st.integers(6, 20),
)
def test_lines_come_once_however_they_are_read(lines: list[bytes], chunk: int) -> None:
    """Reads of any size that is larger than a line may be; blank and long lines are left out, long ones counted."""
    data = b"".join(line + b"\n" for line in lines)
    offset, skipping, read, too_long = 0, False, list[Line](), 0
    while offset < len(data):
        found = cut(data[offset : offset + chunk], offset, skipping, 5)
        assert found.next_offset > offset
        offset, skipping, too_long = found.next_offset, found.skipping, too_long + found.too_long
        read += found.lines

    assert [line.text for line in read] == [line for line in lines if 0 < len(line) <= 5]
    assert all(data[line.offset : line.offset + len(line.text)] == line.text for line in read)
    assert too_long == sum(len(line) > 5 for line in lines)
