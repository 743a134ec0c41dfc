from __future__ import annotations

import logging
from pathlib import Path

import pytest

from producers.spool.frame import HEADER_BYTES, Spooled, encode_frame
from producers.spool.segment import NOTHING, SegmentReader, create_segment, read_segment, segment_paths
from producers.spool.segment_log import SegmentLog


def record(seq: int, size: int = 40) -> Spooled:
    return Spooled(1, seq, 1_000 + seq, "gpu.samples", 2, "gpu.samples/1", "x", b"host", 8, bytes([seq % 256]) * size)


def filled(folder: Path, count: int) -> Path:
    segment = create_segment(folder, 5, 1)
    for seq in range(count):
        segment.append(encode_frame(record(seq)))
    segment.close()
    return segment.path


def seqs(path: Path) -> list[int]:
    found = read_segment(path)
    return [] if found is None else [each.seq for each in found[1]]


def test_a_segment_cut_at_any_byte_keeps_every_whole_record(tmp_path: Path) -> None:
    """A kill in the middle of a write costs the frame being written and no other."""
    path = filled(tmp_path, 4)
    whole = path.read_bytes()
    frame_bytes = len(encode_frame(record(0)))

    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        assert seqs(path) == list(range(max(0, cut - HEADER_BYTES) // frame_bytes)), cut


def test_a_damaged_frame_costs_only_itself(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Reading goes on behind it, and the loss is logged as an error."""
    path = filled(tmp_path, 4)
    frame_bytes = len(encode_frame(record(0)))
    data = bytearray(path.read_bytes())
    data[HEADER_BYTES + frame_bytes + 30] ^= 1
    path.write_bytes(data)

    with caplog.at_level(logging.ERROR):
        assert seqs(path) == [0, 2, 3]

    assert "is lost" in caplog.text


@pytest.mark.parametrize(
    ("damage", "lost"),
    [pytest.param(0, [1, 2], id="a length in the middle"), pytest.param(-1, [2], id="the last value")],
)
def test_a_damaged_end_of_a_segment_is_an_error_unless_it_is_the_last_of_its_boot(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: int, lost: list[int]
) -> None:
    """What a kill leaves in the last one is none."""
    log = SegmentLog(tmp_path, segment_bytes=360)
    for seq in range(6):
        log.append(record(seq))
    log.finish()
    frame_bytes = len(encode_frame(record(0)))
    for path in segment_paths(tmp_path):
        data = bytearray(path.read_bytes())
        assert len(data) == HEADER_BYTES + 3 * frame_bytes
        data[damage if damage < 0 else HEADER_BYTES + frame_bytes + 1] ^= 255
        path.write_bytes(data)

    again = SegmentLog(tmp_path, segment_bytes=360)
    with caplog.at_level(logging.ERROR):
        kept = [each.seq for each in again.recover(0)]
        again.report_damage()

    assert kept == [seq for seq in range(6) if seq % 3 not in lost]
    assert [(each.message, each.path, each.bytes) for each in caplog.records] == [  # type: ignore[attr-defined]
        (
            "the rest of a spool segment is unreadable: its records are lost",
            str(segment_paths(tmp_path)[0]),
            frame_bytes * len(lost),
        )
    ]


def test_a_reader_follows_a_growing_segment(tmp_path: Path) -> None:
    """None means: nothing more yet."""
    segment = create_segment(tmp_path, 1, 1)
    reader = SegmentReader(segment)
    read = []
    for seq in range(3):
        assert reader.next() is None
        segment.append(encode_frame(record(seq, size=seq * 1_000_000)))
        read.append(reader.next())
    reader.close()
    segment.close()

    assert read == [record(seq, size=seq * 1_000_000) for seq in range(3)]


def test_a_failed_write_leaves_the_segment_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a frame on a full disk is taken back."""
    import os

    segment = create_segment(tmp_path, 1, 1)
    segment.append(encode_frame(record(0)))
    write = os.write
    monkeypatch.setattr("producers.spool.segment.os.write", lambda fd, data: write(fd, data[: len(data) // 2]))

    with pytest.raises(OSError, match="bytes were written"):
        segment.append(encode_frame(record(1)))

    monkeypatch.undo()
    segment.append(encode_frame(record(2)))
    segment.close()
    assert seqs(segment.path) == [0, 2]


def test_the_log_rolls_and_removes_from_the_front(tmp_path: Path) -> None:
    """A segment goes when it is closed and all its records lie below the mark."""
    log = SegmentLog(tmp_path, segment_bytes=300)
    for seq in range(6):
        log.append(record(seq))
    log.finish_sync(log.begin_sync(6))

    assert log.below((1, 1)) == ()
    done = log.below((1, 2))
    assert [segment.last_seq for segment in done] == [1]
    log.remove(done)
    log.abandon()
    again = SegmentLog(tmp_path, segment_bytes=300)
    assert [each.seq for each in again.recover(0)] == [2, 3, 4, 5]
    assert again.size_bytes == sum(path.stat().st_size for path in segment_paths(tmp_path))


def test_a_segment_without_a_whole_header_is_swept_away(tmp_path: Path) -> None:
    """The kill came while it was being made; its number is not used again."""
    (tmp_path / f"{7:012d}.seg").write_bytes(b"FPSP")

    log = SegmentLog(tmp_path, segment_bytes=300)
    assert list(log.recover(0)) == []
    log.append(record(0))
    log.finish()

    assert [path.name for path in segment_paths(tmp_path)] == [f"{8:012d}.seg"]


def test_an_empty_segment_has_no_last_record(tmp_path: Path) -> None:
    """It lies below every mark."""
    segment = create_segment(tmp_path, 1, 4)
    segment.close()

    assert segment.last == (4, NOTHING)
