"""Show a topic's events as JSON lines, whatever format they travel in.

A record that is one JSON object with its schema in it, such as an alert, is shown as it stands. One that nobody can
read, a state record or a tombstone is shown too: by its key, headers, size and first bytes. What stands beside the
events begins with an underscore.
"""

from __future__ import annotations

import asyncio
import base64
import sys
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import orjson
from aiokafka import ConsumerRecord, TopicPartition

from runtime.bounded_fetch import bound_fetches
from runtime.config import KafkaConfig
from runtime.kafka_clients import open_consumer
from runtime.process import on_stop_signal
from runtime.topic_prefix import on_wire, topics_known
from schemas.codec import wire
from schemas.codec.build import rows_of
from schemas.codec.json_text import object_of
from schemas.errors import ConfigError, RejectedError, UnavailableError, rejection
from schemas.events.event_types import BY_SCHEMA
from schemas.fields import Field
from schemas.limits import DEFAULT_LIMITS, Limits
from schemas.rows.spend import SPEND
from schemas.rows.tables import BY_TABLE_SCHEMA

_QUIET_MS = 1_500
_EMPTY_MAX, _SILENT_MAX = 3, 20
"""So many answers in a row without a record are the end; so many times without an answer a broker is away."""
_POLL_MS = 200
_BEGINS_BYTES = 96
_TEXT_BYTES_MAX = 4_096
_MARKERS = 8
"""Offsets beyond the requested records that are read at first: transactions and compaction leave holes."""

Span = tuple[int, int]
"""First offset and the one after the last."""


async def tail_topic(
    kafka: KafkaConfig, topic: str, records: int, *, follow: bool, limits: Limits = DEFAULT_LIMITS
) -> None:
    """Print the newest ``records`` records, oldest first; with ``follow`` also what comes, until SIGINT or SIGTERM."""
    bound_fetches(limits)
    async with open_consumer(kafka) as consumer:
        spans = await _assign(consumer, topic)
        _print(await _newest(consumer, spans, records))
        if follow:
            await _follow(consumer, spans, on_stop_signal(asyncio.get_running_loop()))


def name_error(topic: str, names: Sequence[str]) -> ConfigError:
    """What to say about a topic that does not exist: the names it may have meant."""
    if not names:
        return ConfigError("TOPIC", topic, "must be a topic of this cluster, which has none; run `fleetpulse migrate`")
    near = get_close_matches(topic, names, n=3, cutoff=0.5) or [name for name in names if topic and topic in name][:3]
    meant = f"did you mean {' or '.join(near)}" if near else f"there are {', '.join(names)}"
    return ConfigError("TOPIC", topic, f"must be a topic of this cluster: {meant}")


async def _assign(consumer: Any, topic: str) -> dict[TopicPartition, Span]:
    names = await consumer.topics()
    if topic not in names:
        raise name_error(topic, sorted(name for name in names if not name.startswith("__")))
    known, name = topics_known(consumer), on_wire(consumer, topic)
    await known.add_topic(name)
    numbers = sorted(known.cluster.partitions_for_topic(name) or {0})
    partitions = [TopicPartition(topic, number) for number in numbers]
    consumer.assign(partitions)
    begin, end = await consumer.beginning_offsets(partitions), await consumer.end_offsets(partitions)
    return {partition: (begin[partition], end[partition]) for partition in partitions}


async def _newest(consumer: Any, spans: Mapping[TopicPartition, Span], records: int) -> list[ConsumerRecord]:
    """The newest records over all partitions by append time; looks further back in those of which holes leave too
    few. Raises as ``_read_to_end``."""
    reach, found, short = records + _MARKERS, list[ConsumerRecord](), dict(spans)
    while short:
        for partition, (begin, end) in short.items():
            consumer.seek(partition, max(begin, end - reach))
        found = [record for record in found if TopicPartition(record.topic, record.partition) not in short]
        seen = await _read_to_end(consumer, short, found, records)
        short = {at: span for at, span in short.items() if span[1] - reach > span[0] and seen[at] < records}
        reach *= 4
    _keep_newest(found, records)
    return found


def _keep_newest(found: list[ConsumerRecord], records: int) -> None:
    """Sort by append time, and drop what is older than the newest ``records``."""
    found.sort(key=lambda record: (record.timestamp, record.partition, record.offset))
    del found[:-records]


async def _read_to_end(
    consumer: Any, spans: Mapping[TopicPartition, Span], found: list[ConsumerRecord], records: int
) -> dict[TopicPartition, int]:
    """Adds what is before the end of each partition to ``found``, which holds the newest of all, twice ``records`` at
    most: each may be large, and partitions are many. Returns how many each had. Markers are never given out: where
    brokers answer, and have nothing to give, none but those are left. Raises ``UnavailableError`` for one that stays
    silent."""
    seen = dict.fromkeys(spans, 0)
    left = {partition for partition, (begin, end) in spans.items() if end > begin}
    empty = silent = 0
    while left:
        answered_ms = {partition: consumer.last_poll_timestamp(partition) for partition in left}
        fetched = await consumer.getmany(*left, timeout_ms=_QUIET_MS)
        for partition, given in fetched.items():
            before_end = [record for record in given if record.offset < spans[partition][1]]
            seen[partition] += len(before_end)
            found += before_end
        if len(found) > 2 * records:
            _keep_newest(found, records)
        ahead = {partition: spans[partition][1] - await consumer.position(partition) for partition in left}
        done = {partition for partition in left if ahead[partition] <= 0}
        left -= done
        if fetched or done:
            empty = silent = 0
        elif away := sorted(at for at in left if consumer.last_poll_timestamp(at) == answered_ms[at]):
            silent += 1
            if silent == _SILENT_MAX:
                raise _unanswered(away)
        else:
            empty += 1
            if empty == _EMPTY_MAX or all(ahead[partition] == 1 for partition in left):
                break
    return seen


def _unanswered(away: Sequence[TopicPartition]) -> UnavailableError:
    numbers = ", ".join(str(at.partition) for at in away)
    said = f"partition {numbers} of {away[0].topic} is not answered for: its newest records cannot be read"
    return UnavailableError(f"{said}; run `fleetpulse doctor`")


async def _follow(consumer: Any, spans: Mapping[TopicPartition, Span], stop: asyncio.Event) -> None:
    """Print what comes behind the ends that were found; what has come meanwhile may have been fetched, and was not
    printed."""
    for partition, (_begin, end) in spans.items():
        consumer.seek(partition, end)
    while not stop.is_set():
        fetched = await consumer.getmany(timeout_ms=_POLL_MS)
        _print([record for found in fetched.values() for record in found])


def _print(records: Sequence[ConsumerRecord]) -> None:
    for record in records:
        for line in lines_of(record):
            sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def lines_of(record: ConsumerRecord) -> Iterator[bytes]:
    """The record as JSON lines: one for each event, or a single one that says what it is."""
    headers = {name: value for name, value in record.headers if value is not None}
    place = {"_partition": record.partition, "_offset": record.offset}
    for row in _rows(headers, record):
        yield orjson.dumps(place | row, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)


def _rows(headers: Mapping[str, bytes], record: ConsumerRecord) -> Iterator[dict[str, Any]]:
    fields = fields_of(headers.get("schema"))
    if fields is None and (whole := _object(record.value)) is not None:
        yield whole
        return
    if not record.value or (fields is None and "schema" not in headers):
        yield _described(record)
        return
    try:
        if fields is None:
            raise RejectedError("unknown_schema", f"{_text(headers['schema'])!r} is not in the contract")
        parsed = wire.parse(_text(headers.get("content-type", b"")), record.value, fields)
    except MemoryError:
        raise  # says nothing about the record
    except Exception as error:  # a defect of ours must not hide the records behind
        yield {"_unreadable": str(rejection(error))} | _described(record)
        return
    wrong: dict[int, str] = {}
    for problem in parsed.problems:
        wrong.setdefault(problem.row, f"{problem.reason}: {problem.detail}")
    if parsed.block.rows == 0:
        yield _described(record)
    for number, row in enumerate(rows_of(fields, parsed.block)):
        yield {"_unreadable": wrong[number], "_event": _begins(parsed.event_json(number))} if number in wrong else row


def _object(value: bytes | None) -> dict[str, Any] | None:
    """A JSON object that says its schema, nested as deep as can be written; None for anything else."""
    found = object_of(value or b"")
    return found if found is not None and "schema" in found else None


def _described(record: ConsumerRecord) -> dict[str, Any]:
    """A record without readable events: key, headers, size and how it begins. A tombstone has null for its bytes."""
    found: dict[str, Any] = {} if record.key is None else {"_key": _text(record.key)}
    found["_headers"] = {name: None if value is None else _text(value) for name, value in record.headers}
    found["_bytes"] = None if record.value is None else len(record.value)
    return found | ({"_begins": _begins(record.value)} if record.value else {})


def _begins(value: bytes) -> str:
    """The first bytes, as text where they are text, else base64 behind ``base64:``."""
    cut = value[:_BEGINS_BYTES]
    try:
        text = cut.decode()
    except UnicodeDecodeError as error:
        if error.start < len(cut) - 3:
            return f"base64:{base64.b64encode(cut).decode()}"
        text = cut[: error.start].decode()
    return text if text.isprintable() else f"base64:{base64.b64encode(cut).decode()}"


def _text(value: bytes) -> str:
    return value[:_TEXT_BYTES_MAX].decode("utf-8", "backslashreplace")


def fields_of(schema: bytes | None) -> tuple[Field, ...] | None:
    """The field table behind a schema header; None for one nobody knows."""
    name = "" if schema is None else schema.decode("ascii", "replace")
    known = BY_SCHEMA.get(name) or BY_TABLE_SCHEMA.get(name) or {SPEND.schema: SPEND}.get(name)
    return None if known is None else known.fields
