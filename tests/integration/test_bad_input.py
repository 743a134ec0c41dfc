"""Whatever is sent to a source topic ends in the books with its reason, and what stands beside it still counts.

One stack, one windows job and one sink as processes; a producer that keeps no contract sends every case to the same
partition, with a good record after each. Then the cases are looked at one by one, as a person would: by
``fleetpulse rejected show --json``.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import secrets
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest
from aiokafka import AIOKafkaProducer

import schemas
from fleetpulse import stack as local
from fleetpulse.migrate.bring_up import bring_up
from fleetpulse.reconcile.compare import Report, reconcile
from fleetpulse.services.processes import Command, Processes
from fleetpulse.sql.database import Database
from producers.spool.books import Books, book_rows, encode_rows, tally_of
from runtime.config import Config
from schemas.codec.build import block_from_rows
from schemas.codec.native import encode
from schemas.contract.headers import JSON_COLUMNS, NATIVE, NDJSON, Identity, encode_headers
from schemas.contract.record import Headers
from schemas.contract.topics import BOOKS_TOPIC
from schemas.events.event_types import BY_TOPIC, EVENTS
from schemas.limits import DAY_MS, DEFAULT_LIMITS
from schemas.rows.tables import PRODUCER_BOOKS

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

TOPIC = "llm.requests"
EVENT = BY_TOPIC[TOPIC]
PARTITION = 0
MIB = 1024 * 1024
HUGE_BYTES = 50 * MIB
BOMB_RECORDS = 12
"""In one zstd batch: 629 MB of zeros, which the broker sees as 60 kB."""
WAIT_S = 120.0
BYTES_MAX = 768 * MIB
SOURCE = secrets.token_hex(16)
"""Who the sender claims to be; its books are written at the end."""
YEARS_MS = 3_652 * DAY_MS
DOCUMENTS = {
    e.topic: json.loads((Path(schemas.__file__).parent / "examples" / f"{e.topic}.json").read_text()) for e in EVENTS
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What must become of a record: events by verdict, and (row, events, reason) of what is refused."""

    refused: tuple[tuple[int | None, int, str], ...] = ()
    accepted: int = 0
    late: int = 0
    future: int = 0


def whole(reason: str, events: int = 1) -> Outcome:
    return Outcome(((None, events, reason),))


@dataclass(frozen=True, slots=True)
class Case:
    """A record to send. ``count`` None leaves the identity out; ``headers`` given replace all of them."""

    name: str
    outcome: Outcome
    value: bytes | None
    content_type: str = NDJSON
    schema: str = EVENT.schema
    count: int | None = 1
    headers: Headers | None = None
    topic: str = TOPIC
    compressed: bool = False


def event(now_ms: int, **change: Any) -> dict[str, Any]:
    return {**DOCUMENTS[TOPIC]["accepted"][0]["event"], "at_ms": now_ms, **change}


def lines(*rows: Mapping[str, Any]) -> bytes:
    return b"\n".join(json.dumps(row).encode() for row in rows)


def columns(*rows: Mapping[str, Any]) -> dict[str, list[Any]]:
    return {name: [row.get(name) for row in rows] for name in rows[0]}


def block(*rows: Mapping[str, Any]) -> bytes:
    return encode(EVENT.fields, block_from_rows(EVENT.fields, rows))


def varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


def text(value: str) -> bytes:
    return varint(len(value)) + value.encode()


def unreadable(now_ms: int) -> list[Case]:
    """Records of which nothing can be used."""
    good = event(now_ms)
    native = block(good)
    return [
        Case("broken JSON", Outcome(((0, 1, "syntax"),)), lines(good)[:-20]),
        Case(
            "broken JSON among good lines",
            Outcome(((1, 1, "syntax"),), accepted=2),
            lines(good) + b"\n{]\n" + lines(good),
            count=3,
        ),
        Case("no UTF-8", Outcome(((0, 1, "syntax"),)), b'{"at_ms": 1, "host": "\xff\xfe"}'),
        Case("half a surrogate", Outcome(((0, 1, "syntax"),)), b'{"host": "\\ud800"}'),
        Case("JSON a thousand levels deep and more", Outcome(((0, 1, "syntax"),)), b"[" * 1_000_000),
        Case("JSON that is no object", Outcome(((0, 1, "wrong_type"),)), b"[1, 2]"),
        Case("broken columns", whole("syntax"), orjson.dumps(columns(good))[:-5], JSON_COLUMNS),
        Case("columns that are no arrays", whole("wrong_type"), b'{"at_ms": 3}', JSON_COLUMNS),
        Case(
            "mixed column lengths",
            whole("column_lengths", 2),
            orjson.dumps({**columns(good, good), "host": ["a"]}),
            JSON_COLUMNS,
            count=2,
        ),
        Case("a Native block cut off", whole("syntax"), native[:-7], NATIVE),
        Case("a Native block with more behind it", whole("syntax"), native + b"more", NATIVE),
        Case("random bytes as Native", whole("syntax"), bytes(range(251, 100, -1)), NATIVE),
        Case("text as Native", whole("syntax"), b"hello", NATIVE),
        Case(
            "a Native block of 2^60 rows",
            whole("syntax"),
            varint(1) + varint(1 << 60) + text("at_ms") + text("Int64"),
            NATIVE,
        ),
        Case("a Native block of 2^60 columns", whole("syntax"), varint(1 << 60) + varint(1), NATIVE),
        Case(
            "a Native text of 2^60 bytes",
            whole("syntax"),
            varint(1) + varint(1) + text("request_id") + text("String") + varint(1 << 60),
            NATIVE,
        ),
        Case(
            "a Native dictionary of 2^60 words",
            whole("syntax"),
            varint(1)
            + varint(1)
            + text("model")
            + text("LowCardinality(String)")
            + b"".join(n.to_bytes(8, "little") for n in (1, 0x600, 1 << 60)),
            NATIVE,
        ),
        Case("zeros as Native", whole("empty"), bytes(2), NATIVE),
        Case("an empty batch", whole("empty", 0), b"", count=0),
        Case("an empty batch that claims events", whole("empty", 3), b"\n\n", count=3),
        Case("empty columns", whole("empty"), orjson.dumps({name: [] for name in good}), JSON_COLUMNS),
        Case("a tombstone", whole("no_value"), None),
        Case("another count", whole("count", 5), lines(good, good), count=5),
        Case("too many events", whole("too_many"), b"\n".join([b"{}"] * 1_001)),
    ]


def unfit(now_ms: int) -> list[Case]:
    """Readable records with events that cannot count."""
    return [
        Case("a wrong type", Outcome(((0, 1, "wrong_type"),)), lines(event(now_ms, ttft_us="fast"))),
        Case("a bool for a number", Outcome(((0, 1, "wrong_type"),)), lines(event(now_ms, input_tokens=True))),
        Case("a fraction", Outcome(((0, 1, "wrong_type"),)), lines(event(now_ms, ttft_us=1.5))),
        Case("a missing field", Outcome(((0, 1, "missing_field"),)), lines({"ttft_us": 3})),
        Case("NaN", Outcome(((0, 1, "out_of_range"),)), lines(event(now_ms, ttft_us=float("nan")))),
        Case("Infinity", Outcome(((0, 1, "out_of_range"),)), lines(event(now_ms, ttft_us=float("inf")))),
        Case("a negative number", Outcome(((0, 1, "out_of_range"),)), lines(event(now_ms, ttft_us=-1))),
        Case("an overflow", Outcome(((0, 1, "out_of_range"),)), lines(event(now_ms, input_tokens=2**32))),
        Case("a number of 200 digits", Outcome(((0, 1, "out_of_range"),)), lines(event(now_ms, ttft_us=10**200))),
        Case(
            "one bad event among good ones",
            Outcome(((1, 1, "out_of_range"),), accepted=2),
            lines(event(now_ms), event(now_ms, ttft_us=-5), event(now_ms)),
            count=3,
        ),
        Case("unknown fields", Outcome(accepted=1), lines(event(now_ms, colour="blue", deep={"a": [1]}))),
        Case(
            "an unknown column",
            Outcome(accepted=1),
            orjson.dumps({**columns(event(now_ms)), "colour": ["blue"]}),
            JSON_COLUMNS,
        ),
        Case("10 years ahead", Outcome(future=2), lines(*[event(now_ms + YEARS_MS)] * 2), count=2),
        Case("10 years back", Outcome(late=2), lines(*[event(now_ms - YEARS_MS)] * 2), count=2),
        Case("the end of time", Outcome(future=1), lines(event(2**63 - 1))),
        Case("the end of time as Native", Outcome(future=1), block(event(2**63 - 1)), NATIVE),
    ]


def mislabelled(now_ms: int) -> list[Case]:
    """Records whose headers are wrong. Those without readable headers have no sender."""
    value = lines(event(now_ms))
    right = dict(encode_headers(EVENT.schema, NDJSON, Identity(SOURCE, 1, 0, (1, 0)), 1))

    def without(name: str) -> Headers:
        return tuple((key, value) for key, value in right.items() if key != name)

    def wrong(**change: bytes) -> Headers:
        return tuple({**right, **change}.items())

    return [
        Case("an unknown version", whole("unknown_schema"), value, schema="llm.requests/99"),
        Case("the schema of another topic", whole("unknown_schema"), value, schema="gpu.samples/1"),
        Case("an unknown format", whole("unknown_format"), value, "text/csv"),
        Case("no headers at all", whole("headers"), value, headers=()),
        Case("no schema", whole("headers"), value, headers=without("schema")),
        Case("no content-type", whole("headers"), value, headers=without("content-type")),
        Case("a source without count", whole("headers"), value, headers=without("count")),
        Case("a source that is none", whole("headers"), value, headers=wrong(source=b"me")),
        Case("a sequence that is none", whole("headers"), value, headers=wrong(seq=b"-1")),
        Case("a low above the record", whole("headers"), value, headers=wrong(low=b"9.9")),
        Case("a header twice", whole("headers"), value, headers=(*right.items(), ("seq", b"1"))),
        Case("a header without a value", whole("headers"), value, headers=wrong(boot=None)),  # type: ignore[arg-type]
        Case("a header that is no text", whole("headers"), value, headers=wrong(schema=b"\xff\x00")),
        Case("a header of a megabyte", whole("headers"), value, headers=wrong(schema=b"x" * MIB)),
        Case("no identity", Outcome(accepted=1), value, count=None),
    ]


def huge(now_ms: int) -> list[Case]:
    """Records far above the limit, as they are and packed small."""
    return [
        Case("50 MB", whole("too_large"), secrets.token_bytes(MIB) * 50, NATIVE),
        Case("50 MB of nothing, packed", whole("too_large"), bytes(HUGE_BYTES), NATIVE, compressed=True),
        Case(
            "7 MB of one word, packed",
            Outcome(((0, 1, "too_long"),)),
            lines(event(now_ms, model="x" * 7 * MIB)),
            compressed=True,
        ),
        Case("7 MB of empty lines", whole("empty"), b"\n" * 7 * MIB, compressed=True),
        Case("7 MB of unknown fields", Outcome(accepted=1), lines(event(now_ms, note="y" * 7 * MIB)), compressed=True),
    ]


def examples(now_ms: int) -> list[Case]:
    """Every example of schemas/examples."""
    found: list[Case] = []
    for topic, document in DOCUMENTS.items():
        moved = now_ms - document["appended_ms"]
        base = document["accepted"][0]["event"]
        for example in document["accepted"]:
            row = {**example["event"], "at_ms": example["event"]["at_ms"] + moved}
            found.append(
                Case(
                    f"{topic}: {example['why']}",
                    Outcome(accepted=1),
                    lines(row),
                    schema=document["schema"],
                    topic=topic,
                )
            )
        for example in document["rejected"]:
            row = {**base, "at_ms": base["at_ms"] + moved, **example.get("change", {})}
            row = {name: value for name, value in row.items() if name not in example.get("without", [])}
            outcome = Outcome(((0, 1, example["reason"]),))
            found.append(
                Case(f"{topic}: {example['why']}", outcome, lines(row), schema=document["schema"], topic=topic)
            )
    return found


NAMES = [case.name for make in (unreadable, unfit, mislabelled, huge, examples) for case in make(0)]


@dataclass(slots=True)
class Run:
    """What was sent and what is to be seen of it."""

    config: Config
    processes: Processes
    environment: Mapping[str, str]
    cases: dict[str, Case] = field(default_factory=dict)
    places: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    bomb: list[tuple[str, int, int]] = field(default_factory=list)
    good_events: int = 0
    report: Report | None = None
    shown: list[dict[str, Any]] = field(default_factory=list)
    peaks: dict[str, int] = field(default_factory=dict)

    def cli(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-m", "fleetpulse", *words],
            env={**os.environ, **self.environment},
            capture_output=True,
            timeout=120,
            check=False,
        )


class Sender:
    """Sends cases as one source, and keeps its books."""

    def __init__(self, config: Config) -> None:
        settings = {**config.kafka.client_settings(), "max_request_size": 64 * MIB}
        self._plain = AIOKafkaProducer(**settings)
        self._packed = AIOKafkaProducer(**settings, compression_type="zstd")
        self.books: Books = {}
        self.headers_sent: dict[str, Headers] = {}
        self._seq = 0

    async def __aenter__(self) -> Sender:
        await self._plain.start()
        await self._packed.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._plain.stop()
        await self._packed.stop()

    async def send(self, case: Case) -> tuple[str, int, int]:
        """Where the record came to stand."""
        producer = self._packed if case.compressed else self._plain
        headers = self.headers_sent[case.name] = self._headers(case)
        sent = await producer.send_and_wait(case.topic, case.value, b"k", PARTITION, headers=list(headers))
        return sent.topic, sent.partition, sent.offset

    async def send_again(self, case: Case) -> None:
        """Send a record with the identity it had."""
        sent = (case.topic, case.value, b"k", PARTITION)
        await self._plain.send_and_wait(*sent, headers=list(self.headers_sent[case.name]))

    def _headers(self, case: Case) -> Headers:
        if case.headers is not None:
            return case.headers
        if case.count is None:
            return (("schema", case.schema.encode()), ("content-type", case.content_type.encode()))
        tally = tally_of(self.books, 1, case.topic)
        tally.records += 1
        tally.events += case.count
        tally.acknowledged_events += case.count
        self._seq += 1
        return encode_headers(
            case.schema, case.content_type, Identity(SOURCE, 1, self._seq, (1, self._seq)), case.count
        )

    async def send_books(self) -> None:
        now_ms = int(time.time() * 1_000)
        value = encode_rows(book_rows(self.books, lambda _boot: SOURCE, "test", now_ms, lambda _boot: 0))
        headers = [("schema", PRODUCER_BOOKS.schema.encode()), ("content-type", NATIVE.encode())]
        await self._plain.send_and_wait(BOOKS_TOPIC, value, partition=0, headers=headers)


async def send_all(run: Run, now_ms: int) -> None:
    cases = [case for make in (unreadable, unfit, mislabelled, huge, examples) for case in make(now_ms)]
    good = Case(
        "good", Outcome(accepted=2), block(event(now_ms, tenant="good"), event(now_ms, tenant="good")), NATIVE, count=2
    )
    async with Sender(run.config) as sender:
        await sender.send(good)
        for case in cases:
            run.cases[case.name] = case
            run.places[case.name] = await sender.send(case)
            await sender.send(good)
        run.bomb = await send_bomb(run.config)
        await sender.send(good)
        await sender.send_again(run.cases["broken JSON"])
        await sender.send_books()
    run.good_events = 2 * (len(cases) + 2)


async def send_bomb(config: Config) -> list[tuple[str, int, int]]:
    """One batch that unpacks to far more than `batch_bytes_max`; where its records came to stand."""
    settings = {**config.kafka.client_settings(), "max_request_size": 64 * MIB, "compression_type": "zstd"}
    async with AIOKafkaProducer(**settings, max_batch_size=(BOMB_RECORDS + 1) * HUGE_BYTES) as producer:
        batch = producer.create_batch()
        for _ in range(BOMB_RECORDS):
            assert batch.append(key=b"k", value=bytes(HUGE_BYTES), timestamp=None) is not None
        sent = await (await producer.send_batch(batch, TOPIC, partition=PARTITION))
    return [(TOPIC, PARTITION, sent.offset + index) for index in range(BOMB_RECORDS)]


def peak_bytes(pid: int) -> int:
    """The most memory that a process ever held (Linux)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return psutil.Process(pid).memory_info().rss


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Everything was sent and the books were looked at."""
    data_dir = tmp_path_factory.mktemp("bad")
    environment = {"FLEETPULSE_DATA_DIR": str(data_dir)}
    try:
        config = bring_up(data_dir, lambda _text: None)
        with Processes(data_dir / "log") as processes:
            found = Run(config, processes, environment)
            for command in (
                Command("job", ("jobs", "windows", "--shell", "bare"), environment, restart=False),
                Command("sink", ("sink",), environment, restart=False),
            ):
                processes.start(command)
            asyncio.run(send_all(found, int(time.time() * 1_000)))
            found.report = reconcile(config.kafka, config.clickhouse, wait_s=WAIT_S)
            for name in ("job", "sink"):
                pid = processes.pid(name)
                assert pid is not None, processes.tail(name)
                found.peaks[name] = peak_bytes(pid)
            found.shown = json.loads(found.cli("rejected", "show", "--json", "--limit", "10000").stdout)
            yield found
    finally:
        local.down(data_dir)


def test_the_books_are_exact_in_the_end(run: Run) -> None:
    """Every event is booked once: produced = accepted + late + future + rejected, in every table."""
    assert run.report is not None
    assert run.report.exact, run.report.text()


@pytest.mark.parametrize("name", NAMES)
def test_what_is_refused_shows_its_reason_and_place(run: Run, name: str) -> None:
    """`rejected show --json` has topic, partition, offset, row, reason, source and the bytes, cut at the limit."""
    case, place = run.cases[name], run.places[name]

    found = [row for row in run.shown if (row["topic"], row["partition"], row["offset"]) == place]

    assert sorted((row["row"], row["events"], row["reason"]) for row in found) == sorted(case.outcome.refused)
    for row in found:
        identified = case.headers is None and case.count is not None
        assert row["source"] == (SOURCE if identified else None)
        assert row["detail"]
        kept = base64.b64decode(row["bytes"])
        assert len(kept) <= DEFAULT_LIMITS.rejected_bytes_kept_max
        if row["row"] is None:
            value = case.value or b""
            assert (kept, row["bytes_total"]) == (value[: DEFAULT_LIMITS.rejected_bytes_kept_max], len(value))


def test_a_batch_that_unpacks_to_too_much_is_refused_record_by_record(run: Run) -> None:
    """None of it is unpacked beyond `batch_bytes_max`: each of its offsets shows in `rejected`, saying so."""
    found = {(row["topic"], row["partition"], row["offset"]): row for row in run.shown}

    for place in run.bomb:
        row = found[place]
        assert (row["row"], row["events"], row["reason"], row["source"]) == (None, 1, "too_large", None)
        assert base64.b64decode(row["bytes"]).startswith(b"fleetpulse did not read this record")
    assert len(run.bomb) == BOMB_RECORDS


def test_nothing_else_was_refused(run: Run) -> None:
    """Good records between the bad ones leave no trace in `rejected`."""
    places = {*run.places.values(), *run.bomb}

    assert [row for row in run.shown if (row["topic"], row["partition"], row["offset"]) not in places] == []


def test_good_records_between_bad_ones_all_count(run: Run) -> None:
    """Raw rows and windows hold each of them once."""
    database = Database(run.config.reading)
    raw = database.sql("SELECT count() FROM llm_requests FINAL WHERE tenant = 'good'").rows[0][0]
    windows = database.sql(
        "SELECT grouping, sum(event_count) FROM llm_requests_partials FINAL WHERE tenant = 'good' GROUP BY grouping"
    ).rows
    database.close()

    assert raw == run.good_events
    assert windows
    assert {int(events) for _, events in windows} == {run.good_events}


def test_late_and_future_events_are_booked_as_such(run: Run) -> None:
    """A clock ten years off costs its own events their windows, and nobody else."""
    assert run.report is not None
    got = {books.topic: books for books in run.report.topics}[TOPIC]
    cases = [case for case in run.cases.values() if case.topic == TOPIC]

    assert got.late == sum(case.outcome.late for case in cases)
    assert got.future == sum(case.outcome.future for case in cases)
    assert got.accepted == run.good_events + sum(case.outcome.accepted for case in cases)


def test_a_bad_record_sent_again_is_a_duplicate(run: Run) -> None:
    """It shows once in `rejected`, and the books tell the re-send apart."""
    assert run.report is not None

    assert {books.topic: books.duplicate for books in run.report.topics if books.duplicate} == {TOPIC: 1}


def test_no_process_ended_and_memory_stays_bounded(run: Run) -> None:
    """Job and sink live on as the processes they were, and 50 MB records leave them below a bound."""
    assert {name: run.processes.restarts(name) for name in run.processes.names()} == {"job": 0, "sink": 0}
    assert max(run.peaks.values()) < BYTES_MAX, run.peaks


def test_replay_sends_whole_records_and_leaves_the_others_alone(run: Run) -> None:
    """A dry run changes nothing; cut records are counted and left alone."""
    planned = json.loads(run.cli("rejected", "replay", "unknown_schema", "--dry-run", "--json").stdout)
    cut = json.loads(run.cli("rejected", "replay", "too_large", "--json").stdout)
    sent = json.loads(run.cli("rejected", "replay", "unknown_schema", "--json").stdout)

    nothing = {"sent_before": 0, "cut": 0, "single": 0, "unnamed": 0, "empty": 0}
    assert planned == {"reason": "unknown_schema", "sent": False, "records": 2, "remaining": 0, "left_alone": nothing}
    assert sent == {**planned, "sent": True}
    assert cut == {
        "reason": "too_large",
        "sent": True,
        "records": 0,
        "remaining": 0,
        "left_alone": {**nothing, "cut": 2 + BOMB_RECORDS},
    }


def test_what_was_replayed_is_judged_anew_without_identity(run: Run) -> None:
    """Refused again, since nothing was mended, it is a row of its own without a source; only that can be sent next."""
    report = reconcile(run.config.kafka, run.config.clickhouse, wait_s=WAIT_S)
    shown = json.loads(run.cli("rejected", "show", "--json", "--reason", "unknown_schema").stdout)
    again = json.loads(run.cli("rejected", "replay", "unknown_schema", "--dry-run", "--json").stdout)

    assert report.exact, report.text()
    assert Counter(row["source"] for row in shown) == {SOURCE: 2, None: 2}
    assert Counter(row["schema"] for row in shown) == {"llm.requests/99": 2, "gpu.samples/1": 2}
    assert (again["records"], again["left_alone"]["sent_before"]) == (2, 2)
