from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from producers.spool import spool as spool_module
from producers.spool.ack_state import _CHECKPOINT_BYTES, _SHED_BYTES, AckState
from producers.spool.books import AMOUNT_MAX, Tally, book_rows, encode_rows
from producers.spool.frame import Spooled
from producers.spool.identity import lock_folder, next_identity
from producers.spool.segment_log import Backlog, SegmentLog
from producers.spool.slots import Slots
from producers.spool.spool import Spool, SpoolLimits
from schemas.codec.build import rows_of
from schemas.codec.native import decode
from schemas.errors import ConfigError, ContractError, RejectedError
from schemas.limits import Limits
from schemas.rows.tables import PRODUCER_BOOKS, SEQ_ALL

SMALL = SpoolLimits(bytes_max=20_000, record_bytes_max=5_000, segment_bytes=4_000)


def record(topic: str = "llm.requests", events: int = 10, size: int = 100) -> Spooled:
    return Spooled(0, 0, 5, topic, 1, f"{topic}/1", "application/x-ndjson", b"host", events, b"v" * size)


@contextmanager
def opened(folder: Path, limits: SpoolLimits = SMALL) -> Iterator[Spool]:
    """A spool whose process is killed at the end."""
    spool = Spool.open(folder, limits)
    try:
        yield spool
    finally:
        spool.abandon()


def test_what_older_boots_left_is_handed_out_first_as_it_was(tmp_path: Path) -> None:
    """A re-send keeps boot, seq, partition and bytes; new records follow under the new boot."""
    for _ in range(2):
        with opened(tmp_path) as spool:
            spool.append(record())
    with opened(tmp_path) as spool:
        spool.append(record("gpu.samples"))
        spool.sync()

        assert [(each.boot, each.seq, each.topic) for each in spool.take()] == [
            (1, 0, "llm.requests"),
            (2, 0, "llm.requests"),
            (3, 0, "gpu.samples"),
        ]
        assert spool.low == (1, 0)


def test_damage_that_a_spool_finds_is_an_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Of a segment in the middle; the others are handed out."""
    with opened(tmp_path) as spool:
        for _ in range(3):
            spool.append(record(size=3_000))
    second = sorted((tmp_path / "segments").iterdir())[1]
    second.write_bytes(second.read_bytes()[:-1])
    with opened(tmp_path) as spool:
        spool.sync()

        assert [each.seq for each in spool.take()] == [0, 2]
    assert [each.message for each in caplog.records if each.levelname == "ERROR"] == [
        "the rest of a spool segment is unreadable: its records are lost"
    ]


def test_nothing_is_handed_out_before_it_is_safe_on_disk(tmp_path: Path) -> None:
    """A power cut must not take a record that Kafka has."""
    with opened(tmp_path) as spool:
        spool.append(record())

        assert spool.take() == []
        spool.sync()
        assert len(spool.take()) == 1


def test_low_is_the_oldest_record_not_acknowledged(tmp_path: Path) -> None:
    """Acknowledgements out of order do not raise it; it may lie just above the last record."""
    with opened(tmp_path) as spool:
        for _ in range(3):
            spool.append(record())
        spool.sync()
        first, second, third = spool.take()

        assert spool.acknowledge([third, second]) == 2
        assert spool.low == (1, 0)
        assert spool.acknowledge([first, third]) == 1
        assert spool.low == (1, 3)


def test_a_full_spool_sheds_what_is_new_and_says_so(tmp_path: Path) -> None:
    """Shed events have no identity, are in the books at once, and only once after a kill and a save."""
    with opened(tmp_path) as spool:
        while spool.append(record(size=3_000)):
            pass
        spool.append(record("gpu.samples", events=7, size=3_000))
        kept = spool.unacknowledged_records
    for boot in (2, 3):
        with opened(tmp_path) as spool:
            assert spool.boot == boot
            assert spool.books[1, "llm.requests"] == Tally(kept, 10 * kept, 0, 10)
            assert spool.books[1, "gpu.samples"] == Tally(0, 0, 0, 7)
            assert spool.unacknowledged_records == kept
            spool.save()


def test_there_is_room_again_once_kafka_has_taken_all(tmp_path: Path) -> None:
    """Shedding ends by itself."""
    with opened(tmp_path) as spool:
        while spool.append(record(size=3_000)):
            pass
        spool.sync()
        spool.acknowledge(spool.take())
        spool.save()

        assert spool.append(record(size=3_000)) is not None
        assert spool.size_bytes < 8_000


def test_a_disk_that_takes_no_more_sheds_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is like a full spool: declared, and over when there is room."""
    with opened(tmp_path) as spool:
        spool.append(record())

        def full(_fd: int, _data: bytes) -> int:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("producers.spool.segment.os.write", full)
        assert spool.append(record(events=4)) is None
        monkeypatch.undo()
        spooled = spool.append(record())

        assert spooled is not None
        assert spooled.seq == 1
        assert spool.books[1, "llm.requests"] == Tally(2, 20, 0, 4)


def test_books_of_removed_segments_are_not_lost(tmp_path: Path) -> None:
    """Totals are exact whether a record's segment is still there or not."""
    with opened(tmp_path) as spool:
        for _ in range(20):
            spool.append(record(size=1_000))
            spool.sync()
            spool.acknowledge(spool.take())
            spool.save()
        assert spool.size_bytes < 10_000
    with opened(tmp_path) as spool:
        assert spool.books == {(1, "llm.requests"): Tally(20, 200, 200, 0)}
        assert spool.unacknowledged_records == 0


def test_finished_boots_are_forgotten_beyond_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash loop does not let the books grow for ever; what was not delivered stays."""
    monkeypatch.setattr("producers.spool.ack_state._FINISHED_BOOTS_MAX", 2)
    for _ in range(5):
        spool = Spool.open(tmp_path, SMALL)
        spool.append(record())
        spool.sync()
        spool.acknowledge(spool.take())
        spool.close()
    with opened(tmp_path) as spool:
        assert len(spool.books) == 5
        spool.books_delivered([(1, "llm.requests"), (2, "llm.requests"), (3, "llm.requests")])
        assert [boot for boot, _ in spool.books] == [2, 3, 4, 5]
        spool.save()
    with opened(tmp_path) as spool:
        assert [boot for boot, _ in spool.books] == [2, 3, 4, 5]


def test_a_spool_belongs_to_one_process(tmp_path: Path) -> None:
    """A second opener gets an error and changes nothing."""
    with opened(tmp_path) as spool:
        with pytest.raises(ConfigError, match="no other process"):
            Spool.open(tmp_path, SMALL)
        assert spool.boot == 1
    with opened(tmp_path) as spool:
        assert spool.boot == 2


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"{",
        b'{"source": "12", "boot": 1}',
        b"[]",
        b'{"source": "ABABABABABABABABABABABABABABABAB", "boot": 1}',
        b'{"source": "abababababababababababababababab", "boot": 1000000000000000000000}',
        b'{"source": "abababababababababababababababab", "boot": -1}',
    ],
)
def test_a_damaged_identity_is_refused(tmp_path: Path, content: bytes | None) -> None:
    """A new identity for records that may have been sent would let their re-sends in twice."""
    with opened(tmp_path) as spool:
        spool.append(record())
    path = tmp_path / "identity.json"
    path.unlink() if content is None else path.write_bytes(content)
    before = len([*Path("/proc/self/fd").iterdir()])

    with pytest.raises(ContractError, match="restore it, or move"):
        Spool.open(tmp_path, SMALL)
    assert len([*Path("/proc/self/fd").iterdir()]) == before  # an agent tries again for as long as it runs


def test_the_identity_is_made_once(tmp_path: Path) -> None:
    """Random at first, then kept, with a boot that counts."""
    (tmp_path / "spool").mkdir()
    lock = lock_folder(tmp_path / "spool")
    first = next_identity(tmp_path / "spool", fresh=True)
    second = next_identity(tmp_path / "spool", fresh=False)

    assert len(bytes.fromhex(first.source)) == 16
    assert (second.source, second.boot, second.earlier) == (first.source, 2, ())
    assert json.loads((tmp_path / "spool" / "identity.json").read_bytes())["boot"] == 2
    os.close(lock)


@pytest.mark.parametrize(
    ("given_record", "reason"),
    [(record(size=5_001), "too_large"), (record()._replace(key=b"k" * 1_025), "too_long")],
    ids=["a value above the limit", "a key above the limit"],
)
def test_what_can_never_be_sent_is_refused_at_once(tmp_path: Path, given_record: Spooled, reason: str) -> None:
    """It gets no identity and is not shed: the caller has to split it."""
    with opened(tmp_path) as spool:
        with pytest.raises(RejectedError) as caught:
            spool.append(given_record)

        assert caught.value.reason == reason
        assert spool.books == {}
        assert spool.unacknowledged_records == 0


def test_memory_is_bounded_while_kafka_is_away(tmp_path: Path) -> None:
    """Beyond the limit records are read from disk again, in order, and memory takes over once they are gone."""
    log = SegmentLog(tmp_path, segment_bytes=1_000)
    backlog = Backlog(log, (1, 0), 0, bytes_max=500)
    for seq in range(20):
        each = record()._replace(boot=1, seq=seq)
        log.append(each)
        backlog.push(each)
    assert not backlog._memory
    read = popped(backlog, (1, 20))
    each = record()._replace(boot=1, seq=20)
    log.append(each)
    backlog.push(each)

    assert [each.seq for each in read] == list(range(20))
    assert list(backlog._memory) == [each]
    assert popped(backlog, (1, 20)) == []
    assert popped(backlog, (1, 21)) == [each]


def popped(backlog: Backlog, end: tuple[int, int]) -> list[Spooled]:
    """All that wait below ``end``, three at a time."""
    out: list[Spooled] = []
    while found := backlog.read(end, 3, 1_000_000):
        backlog.handed_out(found)
        out += found
    return out


def test_the_ledger_forgets_nothing_between_two_writes(tmp_path: Path) -> None:
    """A save that was never run changes nothing."""
    acks = AckState(tmp_path)
    acks.shed(1, "gpu.samples", 3)
    assert acks.begin_save((1, 9), ()) is not None
    acks.close()

    again = AckState(tmp_path)
    again.close()
    assert again.low == (0, 0)
    assert again.books == {(1, "gpu.samples"): Tally(0, 0, 0, 3)}


def test_books_never_hold_more_than_can_be_told(tmp_path: Path) -> None:
    """Four declarations whose sum no column holds: the books stop at their bound, in this life and the next."""
    with opened(tmp_path) as spool:
        for _ in range(4):
            spool.shed("llm.requests", 2**62)
        assert spool.books[1, "llm.requests"].shed_events == AMOUNT_MAX
        spool.save()
    with opened(tmp_path) as spool:
        rows = book_rows(spool.books, spool.identity.source_of, "h", 7, spool.end_of)

        assert [row["shed_events"] for row in rows] == [AMOUNT_MAX]
        assert decode(encode_rows(rows), PRODUCER_BOOKS.fields).rows == 1


def test_amounts_on_disk_that_nothing_can_hold_do_not_end_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Both files, as written before amounts were bounded: they are capped, the log says which, the rest stays."""
    with opened(tmp_path) as spool:
        spool.append(record())
    books = [[1, "gpu.samples", 1, 10, 10, 2**64], [1, "host.samples", 1, 10, 10, 3]]
    written(tmp_path / "checkpoint", _CHECKPOINT_BYTES, {"low": [0, 0], "first_segment": 0, "books": books})
    written(tmp_path / "shed", _SHED_BYTES, [1, {"llm.requests": 2**80, "logs": 4}])

    with opened(tmp_path) as spool:
        shed = {topic: tally.shed_events for (_, topic), tally in spool.books.items()}
        encode_rows(book_rows(spool.books, spool.identity.source_of, "h", 7, spool.end_of))
        spool.save()

    assert shed == {"gpu.samples": AMOUNT_MAX, "host.samples": 3, "llm.requests": AMOUNT_MAX, "logs": 4}
    logged = [each.__dict__ for each in caplog.records if each.levelname == "ERROR"]
    assert [(each["boot"], each["topic"], each["amount"]) for each in logged] == [
        (1, "gpu.samples", 2**64),
        (1, "llm.requests", 2**80),
    ]


@pytest.mark.parametrize(
    ("name", "slot_bytes", "value"),
    [
        pytest.param("checkpoint", _CHECKPOINT_BYTES, {}, id="a checkpoint without fields"),
        pytest.param("checkpoint", _CHECKPOINT_BYTES, [], id="a checkpoint that is a list"),
        pytest.param(
            "checkpoint",
            _CHECKPOINT_BYTES,
            {"low": [2**64, 0], "first_segment": 0, "books": []},
            id="a boot beyond all bounds",
        ),
        pytest.param(
            "checkpoint",
            _CHECKPOINT_BYTES,
            {"low": [0, 0], "first_segment": "x", "books": []},
            id="a segment that is no number",
        ),
        pytest.param(
            "checkpoint",
            _CHECKPOINT_BYTES,
            {"low": [0, 0], "first_segment": 0, "books": [[1, "t", 1]]},
            id="books with amounts missing",
        ),
        pytest.param("shed", _SHED_BYTES, 5, id="declarations that are a number"),
        pytest.param("shed", _SHED_BYTES, [1, {"t": "x"}], id="an amount that is a text"),
    ],
)
def test_what_passes_its_checksum_and_is_no_books_names_the_file(
    tmp_path: Path, name: str, slot_bytes: int, value: object
) -> None:
    """One kind of error, which says what to restore; never one of Python's."""
    with opened(tmp_path):
        pass
    written(tmp_path / name, slot_bytes, value)

    with pytest.raises(ContractError, match=name):
        Spool.open(tmp_path, SMALL)


def test_a_file_beside_the_segments_is_left_alone(tmp_path: Path) -> None:
    """A name that is no number is none of ours."""
    with opened(tmp_path) as spool:
        spool.append(record())
    (tmp_path / "segments" / "copy of 0.seg").write_bytes(b"x")

    with opened(tmp_path) as spool:
        assert spool.unacknowledged_records == 1


def written(path: Path, slot_bytes: int, value: object) -> None:
    slots = Slots.open(path, slot_bytes)
    slots.write(json.dumps(value).encode())
    slots.close()


def test_limits_of_a_spool_follow_the_table() -> None:
    """A segment is at most a sixteenth of the spool, so that a full one gets room again."""
    limits = SpoolLimits.of(Limits(spool_bytes_max=32 * 1024 * 1024))

    assert limits.bytes_max == 32 * 1024 * 1024
    assert limits.segment_bytes == 2 * 1024 * 1024
    assert SpoolLimits.of(Limits()).segment_bytes == spool_module._SEGMENT_BYTES


def test_book_rows_tell_every_boot_and_topic() -> None:
    """One row each, readable by the table's own fields."""
    books = {(2, "b"): Tally(1, 2, 3, 4), (1, "b"): Tally(), (1, "a"): Tally()}
    sources, ends = {1: "e" * 32, 2: "f" * 32}, {1: SEQ_ALL, 2: 5}
    rows = book_rows(books, sources.__getitem__, "host-1", 99, ends.__getitem__)

    assert [(row["boot"], row["topic"]) for row in rows] == [(1, "a"), (1, "b"), (2, "b")]
    assert [row["seq_to"] for row in rows] == [SEQ_ALL, SEQ_ALL, 5]
    assert [row["source"][0] for row in rows] == ["e", "e", "f"]
    assert rows_of(PRODUCER_BOOKS.fields, decode(encode_rows(rows), PRODUCER_BOOKS.fields)) == rows
