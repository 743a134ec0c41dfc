"""Snapshots on their way out and back, and the pointer to them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.contract.record import Output, Record
from schemas.errors import ContractError, PartitionError
from stream_jobs.runner import snapshot
from stream_jobs.runner.job import Names
from stream_jobs.runner.snapshot import PIECE_BYTES_MAX, Assembly, Pointer, Round, Snapshot

NAMES = Names("here", "windows")
STATE_TOPIC = "state.windows.llm.requests"


def written(pieces: list[Output], offset: int = 7, gap: int = 1) -> list[Record]:
    """The pieces as they come back from the state topic."""
    return [
        Record(p.topic, p.partition, offset + number * gap, 0, p.key, p.value, p.headers)
        for number, p in enumerate(pieces)
    ]


def begun(parts: list[bytes], position: int = 42, slot: int = 1) -> Round:
    return snapshot.begin(NAMES, "llm.requests", 3, position, slot, 9, parts)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, None) for name in ("position", "piece", "ends", "number")),
        *(("position", b"x"), ("piece", b"0/x"), ("piece", b"0"), ("number", b"\xff")),
        *(("kept", b"["), ("kept", b"[1]"), ("kept", b'{"1": []}')),
    ],
)
def test_a_piece_without_sound_headers_is_no_crash(name: str, value: bytes | None) -> None:
    """Something else wrote it under a key of ours."""
    (record,) = written(begun([b"a"]).pieces)
    headers = {**dict(record.headers), name: value}
    damaged = record._replace(headers=tuple((name, value) for name, value in headers.items() if value is not None))

    with pytest.raises(PartitionError, match="the snapshot at offset 7 cannot be read") as raised:
        Assembly(NAMES, 7, "llm.requests/3").add(damaged)

    assert raised.value.cause == "snapshot_lost"


@given(st.lists(st.binary(max_size=20), max_size=5), st.integers(1, 5))
def test_any_parts_come_back_as_they_were(parts: list[bytes], gap: int) -> None:
    """Empty parts, no parts, many parts; offsets may have holes, as transactions leave them."""
    records = written(begun(parts).pieces, gap=gap)
    assembly = Assembly(NAMES, 7, "llm.requests/3")

    found = [assembly.add(record) for record in records]

    assert found == [None] * (len(records) - 1) + [Snapshot(42, 7, 1, 9)]
    assert assembly.parts == parts


def test_a_part_above_the_limit_is_cut_and_put_together_again() -> None:
    """No record is larger than 512 KiB, whatever a step returns."""
    part = bytes(range(256)) * 4096 * 2
    pieces = begun([part, b"x"]).pieces
    assembly = Assembly(NAMES, 7, "llm.requests/3")

    for record in written(pieces):
        assembly.add(record)

    assert [len(piece.value) for piece in pieces] == [PIECE_BYTES_MAX] * 4 + [1]
    assert assembly.parts == [part, b"x"]


def test_pieces_go_to_the_state_topic_of_the_source_and_its_own_partition() -> None:
    """Another partition's open transaction would hide them otherwise."""
    pieces = begun([b"a", b"b"]).pieces

    assert [(p.topic, p.partition, p.key) for p in pieces] == [
        (STATE_TOPIC, 3, b"here/1/0"),
        (STATE_TOPIC, 3, b"here/1/1"),
    ]


def test_a_round_hands_out_some_pieces_at_a_time_and_is_complete_after_the_last() -> None:
    """The pointer can move only then; it names the first piece."""
    round_ = begun([b"a", b"b", b"c"])

    steps = []
    for first_offset in (10, 20):
        pieces = round_.next_pieces(2)
        round_.wrote(range(first_offset, first_offset + len(pieces)))
        steps.append((len(pieces), round_.complete()))

    assert steps == [(2, None), (1, Snapshot(42, 10, 1, 9))]


def test_records_of_another_deployment_are_passed_over() -> None:
    """Two installations may share a cluster."""
    theirs = written(snapshot.begin(Names("there", "windows"), "llm.requests", 3, 5, 0, 9, [b"?"]).pieces, offset=8)
    first, last = written(begun([b"a", b"b"]).pieces, gap=2)
    assembly = Assembly(NAMES, 7, "llm.requests/3")

    found = [assembly.add(record) for record in (first, *theirs, last)]

    assert found[-1] == Snapshot(42, 7, 1, 9)
    assert assembly.parts == [b"a", b"b"]


@pytest.mark.parametrize(
    ("kept", "offset"),
    [([1, 2], 7), ([0, 2], 7), ([0, 1, 2], 6)],
    ids=["the first piece is gone", "a piece in the middle is gone", "the pointer names another record"],
)
def test_a_broken_snapshot_is_refused(kept: list[int], offset: int) -> None:
    """Half a state would give wrong numbers; the error says what must have happened."""
    records = written(begun([b"a", b"b", b"c"]).pieces)
    assembly = Assembly(NAMES, offset, "llm.requests/3")

    with pytest.raises(ContractError, match="must be compacted, never deleted from"):
        assert [assembly.add(records[number]) for number in kept]


PARTS = st.lists(st.sampled_from([b"", b"a", b"b", b"c", b"d"]), max_size=6)


def read(log: list[Record], offset: int) -> tuple[Snapshot | None, list[bytes]]:
    """What stands at the pointer, and then what it refers to."""
    assembly, found = Assembly(NAMES, offset, "llm.requests/3"), None
    for record in (one for one in log if one.offset >= offset):
        found = assembly.add(record)
        if found or (assembly.kept and not assembly.follows):
            break
    for record in log:
        found = found or assembly.add_kept(record)
    return found, assembly.parts


def compacted(log: list[Record]) -> list[Record]:
    """The last record of each key."""
    newest = {record.key: record.offset for record in log}
    return [record for record in log if newest[record.key] == record.offset]


@given(st.lists(st.tuples(PARTS, st.integers(0, 6)), min_size=1, max_size=12))
def test_only_what_changed_is_written_and_the_snapshot_pointed_to_is_always_whole(
    states: list[tuple[list[bytes], int]],
) -> None:
    """Whatever changes, however far rounds get before they are given up, and though all is compacted each time."""
    log, last = list[Record](), None
    for position, (parts, stop) in enumerate(states):
        stored = () if last is None else last[0].stored
        round_ = snapshot.begin(NAMES, "llm.requests", 3, position, 0, 9, parts, stored)
        begin = log[-1].offset + 1 if log else 0
        pieces = round_.next_pieces(len(parts) if stop > len(round_.pieces) or position == 0 else stop)
        records = written(pieces, begin)
        round_.wrote([record.offset for record in records])
        log = compacted([*log, *records])
        known = {one.digest for one in stored}
        assert sum(one.digest not in known for one in round_.stored[1:]) + 1 == len(round_.pieces)
        if (found := round_.complete()) is not None:
            last = (found, parts)
        if last is not None:
            assert read(log, last[0].offset) == last


def test_a_snapshot_that_refers_to_what_is_gone_is_refused() -> None:
    """Half a state would give wrong numbers."""
    first = snapshot.begin(NAMES, "llm.requests", 3, 1, 0, 9, [b"a", b"b"], ())
    log = written(first.pieces, 0)
    first.wrote([0, 1])
    last = first.complete()
    assert last is not None
    second = snapshot.begin(NAMES, "llm.requests", 3, 2, 0, 9, [b"c", b"b"], last.stored)
    log += written(second.pieces, 2)
    assembly = Assembly(NAMES, 2, "llm.requests/3")

    found = [assembly.add(record) for record in log[2:]]

    assert found == [None]
    assert (assembly.kept, assembly.follows) == ({1: 1}, False)
    assert "1 pieces that it refers to are gone" in str(assembly.lacks())


@given(st.integers(0, 1 << 60), st.integers(0, 1 << 60))
def test_a_pointer_comes_back_from_its_text(number: int, offset: int) -> None:
    """It travels as metadata of the committed offset."""
    pointer = Pointer(number, offset)

    assert Pointer.decode(pointer.encode(), "here") == pointer


@pytest.mark.parametrize("metadata", ["", "v2 number=1 snapshot=2", "v1 number=1", "v1 number=-1 snapshot=2", "hello"])
def test_an_offset_committed_by_something_else_is_refused(metadata: str) -> None:
    """A reset by some tool has no snapshot to go with it."""
    with pytest.raises(ContractError, match=r"llm\.requests/3: the committed offset was not written by this job"):
        Pointer.decode(metadata, "llm.requests/3")
