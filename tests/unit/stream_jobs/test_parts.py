"""Parts of a snapshot: whole or refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import ContractError
from stream_jobs.parts import PART_BYTES_MAX, compress_all, cut, decompress, joined, pieces_of

ONE, OTHER = b"ONE1", b"TWO1"
LARGE = bytes(range(256)) * 6_000


@given(st.binary(max_size=30), st.lists(st.binary(max_size=30), max_size=4))
def test_any_text_comes_back(opening: bytes, pieces: list[bytes]) -> None:
    """Empty openings and pieces, and none at all, too."""
    found, data = joined(ONE, cut(ONE, opening, pieces))

    assert (found, pieces_of(data, map(len, pieces))) == (opening, pieces)


@given(st.lists(st.binary(max_size=30), max_size=4))
def test_pieces_are_compressed_as_one(pieces: list[bytes]) -> None:
    """Wherever they were cut, and of arrays too."""
    views = [memoryview(piece) for piece in pieces]

    assert decompress(compress_all(pieces)) == b"".join(pieces)
    assert compress_all(views) == compress_all(pieces)


def test_parts_are_full_but_for_the_last() -> None:
    """None is larger than may be; all of a text is in them."""
    parts = cut(ONE, b"head", [LARGE])

    assert [len(part) for part in parts[:-1]] == [PART_BYTES_MAX, PART_BYTES_MAX]
    assert sum(map(len, parts)) == 4 + 4 + len(LARGE) + 16 * len(parts)


def test_parts_that_do_not_belong_together_are_refused() -> None:
    """Though each is good by itself: of two texts, out of order, one missing, none, of another magic, cut short."""
    one, two = (cut(ONE, b"%d" % n, [LARGE]) for n in (1, 2))
    wrong: tuple[list[bytes], ...] = (
        [*one[:-1], two[-1]],
        one[::-1],
        one[1:],
        one[:-1],
        [],
        cut(OTHER, b"1", [LARGE]),
        [one[0][:9]],
    )

    for parts in wrong:
        with pytest.raises(ContractError, match="do not belong together"):
            joined(ONE, parts)
