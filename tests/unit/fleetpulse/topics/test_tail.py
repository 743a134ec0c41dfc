"""Records as JSON lines: events, and what is shown of everything that is no event."""

from __future__ import annotations

import asyncio
import weakref
from collections import Counter
from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaConnectionError

from fleetpulse.topics import tail as module
from fleetpulse.topics.tail import lines_of, name_error, tail_topic
from runtime import kafka_clients
from runtime.config import KafkaConfig
from schemas.codec import wire
from schemas.codec.build import block_from_rows
from schemas.codec.values import DEPTH_MAX
from schemas.codec.wire import encode
from schemas.contract.headers import CONTENT_TYPES, NATIVE, NDJSON
from schemas.errors import UnavailableError
from schemas.events.event_types import BY_TOPIC
from schemas.limits import Limits

EVENT = BY_TOPIC["gpu.events"]
ROW = {"at_ms": 5, "host": "a", "gpu_uuid": "g", "kind": "xid", "severity": "info", "origin": "measured"}
NAMES = ["books", "gpu.events", "gpu.samples", "llm.requests", "window.partials"]


def record(value: bytes | None, headers: dict[str, bytes | None], key: bytes | None = None) -> ConsumerRecord:
    size = -1 if value is None else len(value)
    return ConsumerRecord("t", 3, 9, 0, 1, key, value, None, -1, size, tuple(headers.items()))


def shown(value: bytes | None, headers: dict[str, bytes | None], key: bytes | None = None) -> list[dict[str, Any]]:
    lines = [orjson.loads(line) for line in lines_of(record(value, headers, key))]
    assert all((line.pop("_partition"), line.pop("_offset")) == (3, 9) for line in lines)
    return lines


def labelled(content_type: str = NDJSON, schema: str = EVENT.schema) -> dict[str, bytes | None]:
    return {"schema": schema.encode(), "content-type": content_type.encode()}


@pytest.mark.parametrize("content_type", CONTENT_TYPES)
def test_events_are_a_line_each_in_every_format(content_type: str) -> None:
    """The same lines whatever they travelled in."""
    value = encode(content_type, EVENT.fields, block_from_rows(EVENT.fields, [ROW, {**ROW, "at_ms": 6}]))

    lines = shown(value, labelled(content_type))

    assert [line["at_ms"] for line in lines] == [5, 6]
    assert {name: lines[0][name] for name in ROW} == ROW


def test_a_bad_event_among_good_ones_costs_its_own_line() -> None:
    """It says why and shows what was sent."""
    lines = shown(orjson.dumps(ROW) + b"\n{oops\n" + orjson.dumps(ROW), labelled())

    assert [line.get("at_ms") for line in lines] == [5, None, 5]
    assert lines[1]["_unreadable"].startswith("syntax: not JSON")
    assert lines[1]["_event"] == "{oops"


@pytest.mark.parametrize(
    "headers",
    [{}, labelled("application/json", "alerts/1")],
    ids=["an alert that was given up, which has no headers", "an alert"],
)
def test_an_object_that_says_its_schema_is_shown_as_it_stands(headers: dict[str, bytes | None]) -> None:
    """Alerts, commands and what was not delivered are whole objects, no rows of a field table."""
    value = {"schema": "alerts/1", "target": "default", "reason": "too_old", "record": {"summary": "GPU lost"}}

    assert shown(orjson.dumps(value), headers, b"9f86d081884c7d65") == [value]


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        (labelled(schema="gpu.events/9"), "unknown_schema: 'gpu.events/9' is not in the contract"),
        (labelled("text/csv"), "unknown_format"),
        (labelled(NATIVE), "syntax"),
    ],
    ids=["a schema nobody knows", "a format nobody knows", "bytes that are not what the header says"],
)
def test_an_unreadable_record_is_one_line_that_says_why(headers: dict[str, bytes | None], why: str) -> None:
    """With its headers, its size and its first bytes."""
    (line,) = shown(b"hello", headers)

    assert line["_unreadable"].startswith(why)
    assert line["_headers"] == {name: (value or b"").decode() for name, value in headers.items()}
    assert (line["_bytes"], line["_begins"]) == (5, "hello")


def test_a_defect_of_ours_costs_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a reader fails in a way nobody thought of, the record is shown as one that cannot be read."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError("nobody thought of it")

    monkeypatch.setattr(wire, "parse", fail)

    (line,) = shown(b"hello", labelled(NATIVE))

    assert (line["_unreadable"], line["_begins"]) == ("internal: ZeroDivisionError: nobody thought of it", "hello")


def test_a_tombstone_has_null_for_its_size() -> None:
    """Its key says what was removed."""
    assert shown(None, {}, b"k") == [{"_key": "k", "_headers": {}, "_bytes": None}]


def test_a_state_record_shows_key_and_headers_and_how_it_begins() -> None:
    """Binary bytes as base64, no more than 96 of them."""
    (line,) = shown(bytes(1_000), {"position": b"14"}, b"local/0/0")

    assert (line["_key"], line["_headers"], line["_bytes"]) == ("local/0/0", {"position": "14"}, 1_000)
    assert line["_begins"] == "base64:" + "A" * 128


def test_hostile_headers_and_keys_are_shown_not_obeyed() -> None:
    """No UTF-8, no value, control characters: still one JSON line."""
    headers = {"a": b"\xff\x1b[31m", "b": None}

    (line,) = shown(b"\x1b[31mred", headers, b"\xfe")

    assert line["_headers"] == {"a": "\\xff\x1b[31m", "b": None}
    assert line["_key"] == "\\xfe"
    assert line["_begins"].startswith("base64:")


@pytest.mark.parametrize("depth", [300, DEPTH_MAX + 1])
def test_an_object_nested_too_deep_to_be_written_is_shown_by_how_it_begins(depth: int) -> None:
    """It can be read, to four times the depth; a watch goes on. The bound is that of every foreign object."""
    (line,) = shown(b'{"schema":"x","a":' + b"[" * depth + b"]" * depth + b"}", {})

    assert (line["_bytes"], line["_headers"]) == (19 + 2 * depth, {})
    assert line["_begins"].startswith('{"schema":"x","a":[[[')


def test_a_text_cut_inside_a_character_is_still_text() -> None:
    """The cut at 96 bytes falls into the last character."""
    (line,) = shown(b"x" * 95 + "é".encode(), {})

    assert line["_begins"] == "x" * 95


@pytest.mark.parametrize(
    ("topic", "says"),
    [
        ("llm.request", "did you mean llm.requests"),
        ("samples", "did you mean gpu.samples"),
        ("zzz", "there are books, gpu.events, "),
        ("", "there are books, gpu.events, "),
    ],
)
def test_a_wrong_topic_is_told_the_names_near_it(topic: str, says: str) -> None:
    """Or all of them, where none is near."""
    assert says in str(name_error(topic, NAMES))


def test_a_cluster_without_topics_says_how_to_make_them() -> None:
    """The one thing to do then."""
    assert "fleetpulse migrate" in str(name_error("books", []))


async def test_fetches_are_bounded_before_there_is_a_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that unpacks to any size must not fill the memory of who looks at it; a client that fails is stopped."""
    seen: list[object] = []

    class Away:
        def __init__(self, **_: object) -> None:
            seen.append("made")

        async def start(self) -> None:
            raise KafkaConnectionError("refused")

        async def stop(self) -> None:
            seen.append("stopped")

    monkeypatch.setattr(kafka_clients, "AIOKafkaConsumer", Away)
    monkeypatch.setattr(module, "bound_fetches", seen.append)
    limits = Limits()

    with pytest.raises(UnavailableError, match="does not answer"):
        await tail_topic(KafkaConfig(bootstrap="127.0.0.1:1"), "t", 1, follow=False, limits=limits)

    assert seen == [limits, "made", "stopped"]


async def test_what_came_while_the_newest_were_read_is_followed(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """It was fetched with them, behind the end that was found, and was not printed."""
    partition, stop = TopicPartition("t", 0), asyncio.Event()

    class Partition:
        """A log of a record at each offset from 0; the reader stands behind all of them."""

        at, end = 5, 5

        def seek(self, _partition: TopicPartition, offset: int) -> None:
            self.at = offset

        async def getmany(self, **_limits: int) -> dict[TopicPartition, list[ConsumerRecord[bytes, bytes]]]:
            stop.set()
            found = [
                ConsumerRecord("t", 0, offset, 0, 1, None, b"x", None, -1, 1, ()) for offset in range(self.at, self.end)
            ]
            return {partition: found}

    await module._follow(Partition(), {partition: (0, 3)}, stop)

    assert [orjson.loads(line)["_offset"] for line in capfdbinary.readouterr().out.splitlines()] == [3, 4]


class Consumer:
    """Reads logs of records (offset, time) by partition; other offsets are holes, which are never given out. ``away``:
    so many times a partition's broker answers nothing, although there are records."""

    def __init__(self, ends: list[int], *logs: list[tuple[int, int]], away: Sequence[int] = ()) -> None:
        self.spans = {TopicPartition("t", number): (0, end) for number, end in enumerate(ends)}
        self._logs, self._at = dict(zip(self.spans, logs, strict=True)), dict.fromkeys(self.spans, 0)
        self._away, self._answers = dict(zip(self.spans, [*away, *[0] * len(logs)], strict=False)), Counter[Any]()
        self.fetches = 0

    def seek(self, at: TopicPartition, offset: int) -> None:
        self._at[at] = offset

    def last_poll_timestamp(self, at: TopicPartition) -> int | None:
        return self._answers[at] or None

    async def position(self, at: TopicPartition) -> int:
        return self._at[at]

    async def getmany(self, *places: TopicPartition, timeout_ms: int) -> dict[TopicPartition, list[Any]]:
        self.fetches += 1
        found = {at: given for at in places if (given := self._given(at))}
        self._at |= {at: given[-1].offset + 1 for at, given in found.items()}
        return found

    def _given(self, at: TopicPartition) -> list[Any]:
        if self._away[at]:
            self._away[at] -= 1
            return []
        self._answers[at] += 1
        return [
            ConsumerRecord("t", at.partition, offset, time_ms, 1, None, b"x", None, -1, 1, ())
            for offset, time_ms in self._logs[at]
            if offset >= self._at[at]
        ]


async def newest(consumer: Consumer, records: int) -> list[tuple[int, int]]:
    """(partition, time) of what is shown."""
    found = await module._newest(consumer, consumer.spans, records)
    return [(record.partition, record.timestamp) for record in found]


@pytest.mark.parametrize("away", [(1,), (7,), (0, 7), (3, 7)])
async def test_a_silent_broker_is_waited_for(away: tuple[int, ...]) -> None:
    """Its records may be the newest; one that answers and has nothing more is at the end."""
    consumer = Consumer([2, 2], [(0, 10), (1, 30)], [(0, 20)], away=away)

    assert await newest(consumer, 2) == [(1, 20), (0, 30)]


async def test_a_broker_that_stays_silent_is_said() -> None:
    """What there is otherwise would pass for the newest."""
    consumer = Consumer([2, 2], [(0, 10), (1, 30)], [(0, 20)], away=(0, 10**9))

    with pytest.raises(UnavailableError, match="partition 1 of t is not answered for"):
        await newest(consumer, 2)
    assert consumer.fetches < 100


@pytest.mark.parametrize(("end", "fetches"), [(1, 1), (2, 2), (3, 4)], ids=["no marker", "one", "two"])
async def test_markers_at_the_end_are_recognised(end: int, fetches: int) -> None:
    """At once where nothing but one can be left."""
    consumer = Consumer([end], [(0, 10)])

    assert await newest(consumer, 5) == [(0, 10)]
    assert consumer.fetches == fetches


async def test_a_partition_with_holes_shows_its_newest_beside_a_busy_one() -> None:
    """The idle one has newer records than the busy one, before holes longer than what is looked at first."""
    busy = [(offset, offset) for offset in range(1_000)]
    consumer = Consumer([1_000, 500], busy, [(0, 1), (99, 5_000), (100, 5_001)])

    assert await newest(consumer, 3) == [(0, 999), (1, 5_000), (1, 5_001)]


async def test_what_is_held_does_not_grow_with_partitions() -> None:
    """A record may have megabytes, and a topic hundreds of partitions; those with the newest may come first."""
    held: list[weakref.ref[Any]] = []

    class OneByOne(Consumer):
        """Gives out a partition at a time, and counts what is still held of what it gave before."""

        peak = 0

        async def getmany(self, *places: TopicPartition, timeout_ms: int) -> dict[TopicPartition, list[Any]]:
            self.peak = max(self.peak, sum(one() is not None for one in held))
            found = await super().getmany(min(places), timeout_ms=timeout_ms)
            held.extend(weakref.ref(record) for records in found.values() for record in records)
            return found

    logs = [[(offset, 10 * offset - number) for offset in range(20)] for number in range(30)]
    consumer = OneByOne([20] * 30, *logs)
    wanted = sorted((time_ms, number) for number, log in enumerate(logs) for _, time_ms in log)[-10:]

    assert await newest(consumer, 10) == [(number, time_ms) for time_ms, number in wanted]
    assert consumer.peak <= 2 * 10 + 18  # with what one fetch gave
