import inspect
import secrets
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any

import cramjam
import pytest
from aiokafka import codec
from aiokafka.consumer import fetcher
from aiokafka.record import default_records, memory_records
from aiokafka.structs import TopicPartition

from runtime import bounded_fetch
from runtime.bounded_fetch import UNREADABLE, BatchTooLargeError, StandIn, bound_fetches, decoders, stand_in_value
from schemas.contract.admission import admit
from schemas.contract.headers import decode_headers
from schemas.contract.record import Record
from schemas.errors import RejectedError
from schemas.events.event_types import EVENTS
from schemas.limits import Limits

MIB = 1024 * 1024
LIMITS = Limits(record_bytes_max=MIB, batch_bytes_max=4 * MIB)
CODECS = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
PACKED_ALIKE = [
    pytest.param(implementation, codec_id, id=f"{name}, {kind}")
    for kind, implementation in (
        ("compiled", default_records.DefaultRecordBatch),
        ("Python", default_records._DefaultRecordBatchPy),
    )
    for name, codec_id in CODECS.items()
]
AT = TopicPartition("t", 3)
BASE, STAMP = 1_000, 1_790_000_000_000


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    """aiokafka is one for the whole process: put back what was there."""
    module = sys.modules[default_records.DefaultRecordBatch.__module__]
    kept = {name: getattr(module, name) for name in bounded_fetch.DECODERS}
    records = fetcher.MemoryRecords
    yield
    for name, decode in kept.items():
        setattr(module, name, decode)
    fetcher.MemoryRecords = records


class Latin(str):
    """A header's name that a client of another language wrote."""

    def encode(self, encoding: str = "latin-1", errors: str = "strict") -> bytes:
        return super().encode("latin-1", errors)


def batch(
    values: list[bytes], codec_id: int, base: int = BASE, *, control: bool = False, names: Mapping[int, str] = {}
) -> bytes:
    """A batch as a broker hands it out: offsets from ``base``, with the append time of the batch. ``names`` of headers
    by number of the record."""
    builder = default_records._DefaultRecordBatchBuilderPy(2, codec_id, 0, -1, -1, -1, 1 << 40)
    for index, value in enumerate(values):
        assert builder.append(index, STAMP + index, b"k", value, [(Latin(names.get(index, "h")), b"v")]) is not None
    built = bytearray(builder.build())
    header = default_records.DefaultRecordBase.HEADER_STRUCT
    fields = list(header.unpack_from(built))
    fields[0], fields[5] = base, fields[5] | 0x08 | (0x20 if control else 0)
    header.pack_into(built, 0, *fields)
    fields[4] = default_records.calc_crc32c(bytes(built[default_records.DefaultRecordBase.ATTRIBUTES_OFFSET :]))
    header.pack_into(built, 0, *fields)
    return bytes(built)


def read(*batches: bytes, at: int = BASE) -> list[Any]:
    """What a consumer hands out, by aiokafka's own fetcher."""
    records = fetcher.MemoryRecords(b"".join(batches))
    return list(fetcher.PartitionRecords(AT, records, [], at, None, None, True, fetcher.READ_COMMITTED))


def use(monkeypatch: pytest.MonkeyPatch, implementation: Any) -> None:
    """Let aiokafka read with the given implementation of its batches."""
    monkeypatch.setattr(bounded_fetch, "DefaultRecordBatch", implementation)
    if implementation is default_records._DefaultRecordBatchPy:
        monkeypatch.setattr(memory_records, "DefaultRecordBatch", implementation)
        monkeypatch.setattr(bounded_fetch, "MemoryRecords", memory_records._MemoryRecordsPy)
        for name in bounded_fetch.DECODERS:  # put back in the end
            monkeypatch.setattr(default_records, name, getattr(default_records, name))


@pytest.mark.parametrize(("implementation", "codec_id"), PACKED_ALIKE)
def test_a_bomb_is_read_as_stand_ins_between_good_records(
    monkeypatch: pytest.MonkeyPatch, implementation: Any, codec_id: int
) -> None:
    """One stand-in for every offset of the batch, with its append time; what stands before and after is as it was."""
    use(monkeypatch, implementation)
    bound_fetches(LIMITS)
    bomb = batch([bytes(MIB)] * 5, codec_id, BASE + 2)

    got = read(batch([b"a", b"b"], codec_id), bomb, batch([b"c"], codec_id, BASE + 7))

    assert [record.offset for record in got] == list(range(BASE, BASE + 8))
    assert [record.value for record in (*got[:2], got[7])] == [b"a", b"b", b"c"]
    assert {record.value for record in got[2:7]} == {stand_in_value(LIMITS)}
    assert {record.timestamp for record in got[2:7]} == {STAMP + 4}
    assert {(record.key, record.headers) for record in got[2:7]} == {(None, bounded_fetch.HEADERS)}


@pytest.mark.parametrize(("implementation", "codec_id"), PACKED_ALIKE)
def test_batches_up_to_the_limit_are_read_as_ever(
    monkeypatch: pytest.MonkeyPatch, implementation: Any, codec_id: int
) -> None:
    """Small ones and ones larger than the scratch memory, byte by byte as aiokafka reads them alone."""
    batches = [
        batch([b"", b"x" * 1_000, secrets.token_bytes(5_000)], codec_id, BASE),
        batch([secrets.token_bytes(MIB), bytes(2 * MIB)], codec_id, BASE + 3),
    ]
    expected = read(*batches)
    use(monkeypatch, implementation)
    bound_fetches(LIMITS)

    assert read(*batches) == expected
    assert len(expected) == 5


def test_reading_may_begin_within_a_bomb() -> None:
    """After a restart the records before the position are not handed out again."""
    bound_fetches(LIMITS)

    got = read(batch([bytes(MIB)] * 5, CODECS["zstd"]), at=BASE + 3)

    assert [record.offset for record in got] == [BASE + 3, BASE + 4]


def test_control_batches_are_handed_on_untouched_and_plain_ones_whatever_their_size() -> None:
    """What comes out of a control batch is aiokafka's own object; a plain one is as large as the broker let it be."""
    bound_fetches(LIMITS)
    plain = batch([bytes(5 * MIB)], 0)

    for data in (batch([b"\0\0\0\1"], 0, control=True), batch([b""], CODECS["zstd"], control=True)):
        assert type(fetcher.MemoryRecords(data).next_batch()) is default_records.DefaultRecordBatch
    assert [record.value for record in read(plain)] == [bytes(5 * MIB)]


@pytest.mark.parametrize(
    "implementation",
    [default_records.DefaultRecordBatch, default_records._DefaultRecordBatchPy],
    ids=["compiled", "Py"],
)
@pytest.mark.parametrize("codec_id", [0, CODECS["zstd"]], ids=["plain", "packed"])
def test_a_header_whose_name_is_no_utf8_costs_its_batch(
    monkeypatch: pytest.MonkeyPatch, implementation: Any, codec_id: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Every record of it from there on is refused for its headers; those before and behind are read, as they are taken:
    a batch may be of millions."""
    use(monkeypatch, implementation)
    bound_fetches(LIMITS)
    names = {1: "caf\xe9"}
    bad = batch([b"1", b"2", b"3"], codec_id, BASE + 1, names=names)

    found = read(batch([b"0"], 0), bad, batch([b"4"], 0, BASE + 4))

    assert [(one.offset, one.value) for one in found] == [
        (BASE, b"0"), (BASE + 1, b"1"), (BASE + 2, UNREADABLE), (BASE + 3, UNREADABLE), (BASE + 4, b"4")
    ]  # fmt: skip
    first = next(iter(fetcher.MemoryRecords(bad).next_batch()))
    assert (first.offset, first.value) == (BASE + 1, b"1")
    for one in found[2:4]:
        with pytest.raises(RejectedError, match="schema is missing") as refused:
            decode_headers(one.headers)
        assert refused.value.reason == "headers"
    assert [one.getMessage() for one in caplog.records] == [
        "header names of a batch are no UTF-8; its records from there on are rejected"
    ]


def test_an_empty_fetch_and_half_a_batch_are_no_batch() -> None:
    """What the fetcher asks of a fetch is answered as aiokafka's own does."""
    bound_fetches(LIMITS)
    whole = batch([b"a"], 4)

    for data in (b"", whole[:-1], whole):
        ours, theirs = fetcher.MemoryRecords(data), memory_records.MemoryRecords(data)
        assert (ours.has_next(), ours.size_in_bytes()) == (theirs.has_next(), theirs.size_in_bytes())
    assert fetcher.MemoryRecords(whole[:-1]).next_batch() is None


ENCODERS = {
    "gzip_decode": codec.gzip_encode,
    "snappy_decode": codec.snappy_encode,
    "snappy_decode, one block": lambda data: bytes(codec.snappy_encode(data, xerial_compatible=False)),
    "lz4_decode": codec.lz4_encode,
    "zstd_decode": codec.zstd_encode,
}


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("size_max", [1, 1_000, MIB, MIB + 1, 3 * MIB])
def test_the_limit_is_the_last_size_that_is_unpacked(name: str, size_max: int) -> None:
    """At the limit the bytes come back, one byte more is too large."""
    decode = decoders(size_max)[name.split(",")[0]]

    assert bytes(decode(ENCODERS[name](b"z" * size_max))) == b"z" * size_max
    with pytest.raises(BatchTooLargeError):
        decode(ENCODERS[name](b"z" * (size_max + 1)))


@pytest.mark.parametrize("name", ["gzip_decode", "lz4_decode", "zstd_decode"])
def test_frames_behind_one_another_count_together(name: str) -> None:
    """The limit is for the batch, not for a frame of it."""
    two = ENCODERS[name](bytes(600)) * 2

    assert bytes(decoders(1_200)[name](two)) == bytes(1_200)
    with pytest.raises(BatchTooLargeError):
        decoders(1_199)[name](two)


@pytest.mark.parametrize("name", ENCODERS)
def test_a_broken_payload_is_no_large_one(name: str) -> None:
    """It fails as it does in aiokafka: by the codec's own error."""
    broken = ENCODERS[name](secrets.token_bytes(5_000))[:-100]

    with pytest.raises((cramjam.DecompressionError, EOFError)):
        decoders(MIB)[name.split(",")[0]](broken)


def test_a_snappy_block_of_no_bytes_ends_the_walk() -> None:
    """A size of 0 or less would go round for ever."""
    head = codec.snappy_encode(b"")

    for size in (0, -4):
        with pytest.raises(cramjam.DecompressionError):
            bounded_fetch.snappy_bytes(head + size.to_bytes(4, "big", signed=True) + b"more")


MEASURE = """
import resource, sys
from aiokafka import codec
from runtime.bounded_fetch import BatchTooLargeError, decoders
name = sys.argv[1]
piece = getattr(codec, name + "_encode")(bytes(8 << 20))
header = 16 if name == "snappy" else 0
packed = piece[:header] + piece[header:] * 100
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decoders(16 << 20)[name + "_decode"](packed)
except BatchTooLargeError:
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


@pytest.mark.parametrize("name", CODECS)
def test_a_bomb_of_800_mb_takes_no_more_memory_than_the_limit(name: str) -> None:
    """Resident memory of a process grows by less than four times a limit of 16 MiB."""
    done = subprocess.run([sys.executable, "-c", MEASURE, name], capture_output=True, check=True, timeout=60)

    assert int(done.stdout) < 64 * MIB


def test_stand_ins_share_one_value() -> None:
    """A batch of a hundred thousand records is not turned into as many large values."""
    bound_fetches(LIMITS)
    bomb = batch([bytes(100)] * 100_000, CODECS["zstd"])
    stand_in_value(LIMITS)

    tracemalloc.start()
    found = read(bomb)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert len(found) == 100_000
    assert len({id(record.value) for record in found}) == 1
    assert peak < 100 * MIB


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.topic)
def test_admission_refuses_a_stand_in_as_too_large(event: Any) -> None:
    """Its headers are read, it has no identity, and its kept bytes begin with what happened."""
    one = StandIn(5, STAMP, 1, stand_in_value(LIMITS))
    record = Record(event.topic, 0, one.offset, one.timestamp, one.key, one.value, one.headers)
    headers = decode_headers(record.headers)

    (reject,) = admit(event, [record], [headers], LIMITS).rejects

    assert (reject.row, reject.events, reject.reason) == (None, 1, "too_large")
    assert reject.kept.startswith(b"fleetpulse did not read this record")
    assert headers.identity is None


def test_aiokafka_is_the_one_this_was_written_for() -> None:
    """A new aiokafka asks for a new look: batches come from MemoryRecords and are iterated in one place."""
    unpack = inspect.getsource(fetcher.PartitionRecords._unpack_records)

    assert version("aiokafka") == "0.14.0"
    assert "records.next_batch()" in unpack
    assert unpack.count("for record in next_batch:") == 1
    assert "records = MemoryRecords(part_data[-1])" in inspect.getsource(fetcher.Fetcher._proc_fetch_request)
    assert set(CODECS.values()) == {
        default_records.DefaultRecordBatch.CODEC_GZIP,
        default_records.DefaultRecordBatch.CODEC_SNAPPY,
        default_records.DefaultRecordBatch.CODEC_LZ4,
        default_records.DefaultRecordBatch.CODEC_ZSTD,
    }


@pytest.mark.parametrize("missing", bounded_fetch.DECODERS)
def test_an_aiokafka_built_otherwise_is_refused(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    """Better no start than no limit."""
    monkeypatch.delattr(sys.modules[default_records.DefaultRecordBatch.__module__], missing)

    with pytest.raises(AssertionError, match="other decoders"):
        bound_fetches(LIMITS)
