from __future__ import annotations

import struct
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.spool.frame import (
    HEADER_BYTES,
    ORDINAL_MAX,
    BadFrame,
    Spooled,
    decode_frame,
    decode_header,
    encode_frame,
    encode_header,
)

RECORDS = st.builds(
    Spooled,
    boot=st.just(7),
    seq=st.integers(0, ORDINAL_MAX),
    at_ms=st.integers(0, 2**53),
    topic=st.text(max_size=40),
    partition=st.integers(0, 2**32 - 1),
    schema=st.text(max_size=40),
    content_type=st.text(max_size=40),
    key=st.binary(max_size=200),
    events=st.integers(1, 2**32 - 1),
    value=st.binary(max_size=2_000),
)


@given(RECORDS, st.binary(max_size=30))
def test_a_frame_holds_the_whole_record(record: Spooled, before: bytes) -> None:
    """What is read from a frame is what was written, wherever the frame begins."""
    frame = encode_frame(record)

    assert decode_frame(before + frame + b"more", len(before), 7) == (record, len(before) + len(frame))


@given(RECORDS, st.data())
def test_a_frame_cut_anywhere_is_not_whole(record: Spooled, data: st.DataObject) -> None:
    """No proper beginning of a frame is taken for a record."""
    frame = encode_frame(record)
    cut = data.draw(st.integers(0, len(frame) - 1))

    assert decode_frame(frame[:cut], 0, 7) is None


@given(RECORDS, st.data())
def test_a_frame_with_a_flipped_bit_is_never_a_record(record: Spooled, data: st.DataObject) -> None:
    """Damage in length, checksum or body is noticed."""
    frame = bytearray(encode_frame(record))
    bit = data.draw(st.integers(0, len(frame) * 8 - 1))
    frame[bit // 8] ^= 1 << bit % 8

    try:
        found = decode_frame(bytes(frame), 0, 7)
    except BadFrame:
        return
    assert found is None


def test_a_segment_header_is_read_back() -> None:
    """The header holds boot and number; a cut or damaged one gives None."""
    header = encode_header(3, 41)

    assert len(header) == HEADER_BYTES
    assert decode_header(header + b"frames") == (3, 41)
    assert decode_header(header[:-1]) is None
    assert decode_header(b"X" + header[1:]) is None


def test_zeros_are_no_frame() -> None:
    """Space that a power cut left unwritten reads as zeros: nothing is there."""
    assert decode_frame(bytes(4_096), 0, 1) is None


def test_a_bad_frame_tells_where_the_next_begins() -> None:
    """Reading can go on behind a damaged body."""
    frame = encode_frame(Spooled(7, 1, 2, "t", 0, "t/1", "x", b"k", 1, b"value"))
    damaged = frame[:-1] + b"?"

    with pytest.raises(BadFrame) as caught:
        decode_frame(damaged + frame, 0, 7)

    assert caught.value.end == len(frame)


@pytest.mark.parametrize(
    "numbers",
    [
        pytest.param((ORDINAL_MAX + 1, 1, 1, 1, 1, 1), id="a number that no record reaches"),
        pytest.param((0, 0, 1, 1, 1, 1), id="no events"),
        pytest.param((0, 1, 1, 1, 1, 65_535), id="longer texts than the frame"),
        pytest.param((0, 1, 2, 1, 1, 1), id="a topic that is no text"),
    ],
)
def test_a_sound_checksum_over_nonsense_is_a_bad_frame(numbers: tuple[int, ...]) -> None:
    """It costs that frame alone: reading goes on behind it."""
    seq, events, *lengths = numbers
    body = struct.pack("<QqIIHHHH", seq, 5, 0, events, *lengths) + b"a\xff" + b"bck" + b"value"
    frame = struct.pack("<II", len(body), crc32(body)) + body

    with pytest.raises(BadFrame) as bad:
        decode_frame(frame, 0, 7)

    assert bad.value.end == len(frame)


@pytest.mark.parametrize(("boot", "number"), [(ORDINAL_MAX + 1, 3), (3, ORDINAL_MAX + 1)])
def test_a_header_with_an_ordinal_beyond_bounds_is_none(boot: int, number: int) -> None:
    """Its records could not be sent: no reader of their headers takes such a boot."""
    assert decode_header(encode_header(boot, number)) is None
