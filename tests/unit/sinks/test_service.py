"""One batch is gathered while the one before is stored; what is committed was stored, and so was all before it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaConnectionError

from runtime import kafka_clients
from runtime.backoff import Backoff
from runtime.clock import SystemClock
from runtime.config import ClickHouseConfig, KafkaConfig
from runtime.retried import retried
from schemas.contract.record import Record
from schemas.errors import ConfigError, ContractError, UnavailableError
from schemas.limits import DAY_MS, DEFAULT_LIMITS
from sinks import service
from sinks.database import SinkDatabase
from sinks.landing import Insert, Landing
from sinks.service import Progress, SinkSettings, _else_stopping, _Group, _groups, _land_all, _run_group
from tests.unit.sinks.landing_cases import LOG_IDS, partials, requests

PLACE = TopicPartition("llm.requests", 0)
SETTINGS = SinkSettings(flush_ms=1, raw_flush_ms=1)


class Recording:
    """A consumer that brings one record at a time and remembers what was committed."""

    def __init__(self, begins: int = 0) -> None:
        self.brought = self.begins = begins
        self.commits: list[int] = []
        self.of_group: int | None = None

    async def getmany(self, timeout_ms: int, max_records: int) -> dict[TopicPartition, list[Any]]:
        await asyncio.sleep(0)
        self.brought += 1
        return {PLACE: [Record(PLACE.topic, 0, self.brought - 1, 0, None, b"x", ())]}

    def assignment(self) -> set[TopicPartition]:
        return {PLACE}

    def highwater(self, place: TopicPartition) -> int:
        return 10_000

    async def position(self, place: TopicPartition) -> int:
        return self.brought

    async def committed(self, place: TopicPartition) -> int | None:
        return self.of_group

    async def beginning_offsets(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, self.begins)

    async def commit(self, offsets: dict[TopicPartition, int]) -> None:
        self.commits.append(offsets[PLACE])


class Database:
    """Stores what it is given; from the ``away_from``-th insert on it is away."""

    def __init__(self, away_from: int, on_away: Any = None) -> None:
        self.stored: list[int] = []
        self._away_from = away_from
        self._on_away = on_away

    def insert(self, inserts: Sequence[Insert]) -> None:
        if len(self.stored) >= self._away_from:
            self._on_away()
            raise UnavailableError("away")
        self.stored.append(inserts[0].rows)


class Notebook:
    def note(self, level: Any, buckets: Any) -> None:
        """Nothing changed."""


def group(database: Any) -> _Group:
    def plan(records: Sequence[Record]) -> Landing:
        return Landing((Insert("llm_requests", (), (), records[-1].offset + 1),))

    async def log_ids() -> dict[str, str]:
        return {PLACE.topic: "a"}

    known = {PLACE.topic: "a"}
    return _Group("g", (PLACE.topic,), 1, plan, database, Notebook(), Progress(), known, log_ids)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _records_as_consumed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Record, "timestamp", 0, raising=False)


async def test_what_is_committed_was_stored_in_order() -> None:
    """Batches are landed one after the other, and each is committed after it was stored."""
    stop, consumer = asyncio.Event(), Recording()
    database = Database(3, stop.set)

    await _land_all(consumer, group(database), SETTINGS, stop)

    assert consumer.commits == database.stored
    assert len(database.stored) == 3
    assert consumer.commits == sorted(consumer.commits)


async def test_after_a_batch_that_was_not_stored_none_is_committed() -> None:
    """The batch gathered meanwhile could be stored, but its commit would skip the one that was not."""
    stop, consumer = asyncio.Event(), Recording()
    calls: list[int] = []

    class OnceAway(Database):
        def insert(self, inserts: Sequence[Insert]) -> None:
            calls.append(inserts[0].rows)
            if len(calls) == 1:
                stop.set()
                raise UnavailableError("away")
            self.stored.append(inserts[0].rows)

    database = OnceAway(99)

    await _land_all(consumer, group(database), SETTINGS, stop)

    assert (consumer.commits, database.stored) == ([], [])
    assert consumer.brought > calls[0], "a batch was gathered meanwhile"


async def test_the_lag_is_followed_while_the_database_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is fetched meanwhile."""
    monkeypatch.setattr("runtime.retried.BACKOFF", Backoff(0.05, 0.05))
    stop, followed = asyncio.Event(), []

    @contextlib.asynccontextmanager
    async def following(consumer: Any, known: set[TopicPartition]) -> AsyncIterator[None]:
        followed.append(len(database.stored))
        yield

    monkeypatch.setattr(service, "lag_followed", following)
    database = Database(1, stop.set)

    await _land_all(Recording(), group(database), SETTINGS, stop)

    assert followed


@pytest.mark.parametrize("committed", [None, 7])
async def test_a_topic_that_begins_again_is_not_read_on(committed: int | None) -> None:
    """Its rows would replace those of the topic before: deleted with it was what the group had committed, or it lies
    beyond the new end."""
    consumer, found = Recording(), group(Database(99))
    consumer.of_group, found.landed[PLACE] = committed, 7

    with pytest.raises(ContractError, match=r"llm.requests\[0\] goes back from offset 7 to 0: .* `fleetpulse migrate`"):
        await _land_all(consumer, found, SETTINGS, asyncio.Event())

    assert consumer.commits == []


async def test_what_another_member_committed_earlier_is_landed_again() -> None:
    """After a rebalance a partition may come back at an offset before what this sink committed."""
    stop, consumer = asyncio.Event(), Recording()
    database = Database(3, stop.set)
    found = group(database)
    consumer.of_group, found.landed[PLACE] = 0, 7

    await _land_all(consumer, found, SETTINGS, stop)

    assert consumer.commits == database.stored
    assert found.landed[PLACE] == consumer.commits[-1]


async def test_after_a_rebalance_a_sink_goes_on_from_what_the_group_had_committed() -> None:
    """Though a batch of the assignment before lands later and its commit is accepted: this member kept the partition.
    No topic was recreated."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    class Slow(Database):
        def insert(self, inserts: Sequence[Insert]) -> None:
            if len(self.stored) == 1:  # in a thread
                asyncio.run_coroutine_threadsafe(consumer.rebalance(), loop).result()
            super().insert(inserts)

    class Rebalancing(Recording):
        rebalanced = False

        async def rebalance(self) -> None:
            await found.assignment.on_partitions_revoked([PLACE])
            self.brought = self.commits[-1]
            await found.assignment.on_partitions_assigned([PLACE])
            self.rebalanced = True

        async def getmany(self, timeout_ms: int, max_records: int) -> dict[TopicPartition, list[Any]]:
            while self.rebalanced and len(self.commits) < 2:  # noqa: ASYNC110 -- the batch before is being stored
                await asyncio.sleep(0)
            return await super().getmany(timeout_ms, max_records)

        async def commit(self, offsets: dict[TopicPartition, int]) -> None:
            await super().commit(offsets)
            self.of_group = offsets[PLACE]

    database, consumer = Slow(4, stop.set), Rebalancing()
    found = group(database)

    await _land_all(consumer, found, SETTINGS, stop)

    assert consumer.commits == database.stored
    assert found.landed[PLACE] == consumer.commits[-1]


async def test_a_log_that_was_cut_is_read_on_and_what_is_missing_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """Once, however many batches follow."""
    stop, consumer = asyncio.Event(), Recording(begins=1_080)
    consumer.of_group, found = 1_000, group(Database(3, stop.set))
    found.read[PLACE] = 1_100  # by a consumer before, which did not land it

    await _land_all(consumer, found, SETTINGS, stop)

    missing = [record.__dict__["records"] for record in caplog.records if record.levelname == "ERROR"]
    assert missing == [80]
    assert len(consumer.commits) == 3


async def test_a_sink_is_not_ready_before_its_groups_have_joined() -> None:
    """Each group says so for itself; one that reads does not speak for the other."""
    progress = Progress()
    one, other = group(Database(1)), group(Database(1))
    one.progress = other.progress = progress
    other.name = "h"
    seen = [progress.waiting_for]
    for each in (one, other):
        each.not_joined("joins its group")
    progress.readiness.release("groups")
    seen.append(progress.waiting_for)
    one.joined()
    seen.append(progress.waiting_for)
    other.joined()
    seen.append(progress.waiting_for)

    assert seen == ["the sink is starting", "g joins its group; h joins its group", "h joins its group", None]


async def test_what_is_tried_again_says_what_it_waits_for_until_it_is_done() -> None:
    """Also when somebody else is served meanwhile."""
    progress, stop, seen = Progress(), asyncio.Event(), []
    progress.readiness.release("groups")

    async def away_once() -> str:
        seen.append(progress.waiting_for)
        if len(seen) == 1:
            raise UnavailableError("ClickHouse is away")
        return "done"

    async def served() -> bool:
        return True

    mine = asyncio.create_task(retried("one", away_once, stop, progress.readiness))
    await asyncio.sleep(0)
    await retried("other", served, stop, progress.readiness)
    seen.append(progress.waiting_for)

    assert await mine == "done"
    said = "ClickHouse unavailable: ClickHouse is away"
    assert (seen, progress.waiting_for) == ([None, said, said], None)


async def test_a_login_that_worked_is_tried_again_when_it_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that never worked ends the sink, so that its setting is corrected."""
    monkeypatch.setattr("runtime.retried.BACKOFF", Backoff(0.001, 0.001))
    rejected = ConfigError("clickhouse.user", "u", "must be a login that http://h accepts")
    progress, stop, errors = Progress(), asyncio.Event(), [rejected]

    async def rejected_once() -> str:
        if errors:
            raise errors.pop()
        return "done"

    assert await retried("ClickHouse", rejected_once, stop, progress.readiness, worked=True) == "done"

    errors.append(rejected)
    with pytest.raises(ConfigError):
        await retried("ClickHouse", rejected_once, stop, progress.readiness)


async def test_a_certificate_that_cannot_be_read_for_a_while_does_not_end_a_running_sink(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The group reconnects until the file is back."""
    monkeypatch.setattr(service, "BACKOFF", Backoff(0.001, 0.001))
    stop, errors = asyncio.Event(), [ConfigError("kafka.ssl_*", "ca.pem", "must be readable PEM files")]

    class Started(Recording):
        def subscribe(self, topics: Sequence[str], listener: Any) -> None:
            assert listener is found.assignment

        async def start(self) -> None:
            """It has joined."""

        async def stop(self) -> None:
            """Nothing is open."""

    def make(*_: Any, **__: Any) -> Started:
        if errors:
            raise errors.pop()
        return Started()

    class Closed(Database):
        def close(self) -> None:
            """Nothing is open."""

    monkeypatch.setattr(service, "make_consumer", make)
    database = Closed(2, stop.set)
    found = group(database)

    await _run_group(KafkaConfig(), found, SETTINGS, stop)

    assert len(database.stored) == 2
    (line,) = [one for one in caplog.records if one.getMessage().startswith("sink group failed")]
    assert "kafka.ssl_*" in line.__dict__["why"]


@pytest.mark.parametrize("where", ["getmany", "stop"])
async def test_a_client_that_is_cancelled_from_within_does_not_end_the_sink(
    where: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """aiokafka lets errors of its own tasks slip: the group reconnects. Else the sink would stop in order, and nobody
    would start it again."""
    monkeypatch.setattr(service, "BACKOFF", Backoff(0.001, 0.001))
    stop, first = asyncio.Event(), [True]

    class Slipping(Recording):
        def subscribe(self, topics: Sequence[str], listener: Any) -> None:
            """It brings records of them."""

        async def start(self) -> None:
            """It has joined."""

        async def getmany(self, timeout_ms: int, max_records: int) -> dict[TopicPartition, list[Any]]:
            if first and where == "getmany":
                first.clear()
                raise asyncio.CancelledError
            if first:
                raise KafkaConnectionError("away")
            return await super().getmany(timeout_ms, max_records)

        async def stop(self) -> None:
            if first:
                first.clear()
                raise asyncio.CancelledError

    class Closed(Database):
        def close(self) -> None:
            """Nothing is open."""

    monkeypatch.setattr(service, "make_consumer", lambda *_given, **_settings: Slipping())
    database = Closed(2, stop.set)

    await _run_group(KafkaConfig(), group(database), SETTINGS, stop)

    assert len(database.stored) == 2
    assert [one.getMessage()[:17] for one in caplog.records if one.levelname == "WARNING"][:1] == ["sink group failed"]


async def test_no_part_of_the_sink_ends_because_a_client_cancelled_itself() -> None:
    """In a task group it would be a task that was to end, and the sink would end in order."""
    stop = asyncio.Event()

    async def slips() -> None:
        raise asyncio.CancelledError

    with pytest.raises(ExceptionGroup) as ended:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_else_stopping(slips(), stop))

    assert isinstance(ended.value.exceptions[0], KafkaConnectionError)
    assert stop.is_set()


async def test_a_sink_that_joins_its_group_ends_when_it_is_told_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the group has no coordinator a consumer never starts."""
    stop, did = asyncio.Event(), list[str]()

    class Joining(Recording):
        def subscribe(self, topics: Sequence[str], listener: Any) -> None:
            """It brings records of them."""

        async def start(self) -> None:
            stop.set()
            await asyncio.Event().wait()

        async def stop(self) -> None:
            did.append("stopped")

    class Closed(Database):
        def close(self) -> None:
            did.append("closed")

    monkeypatch.setattr(service, "make_consumer", lambda *_given, **_settings: Joining())
    monkeypatch.setattr(kafka_clients, "_STARTED_WITHIN_S", 0.01)

    await _run_group(KafkaConfig(), group(Closed(0)), SETTINGS, stop)

    assert did == ["stopped", "closed"]


@pytest.mark.parametrize("name", ["flush_ms", "raw_flush_ms", "records_max", "bytes_max"])
def test_a_limit_of_nothing_is_refused(name: str) -> None:
    """Every limit of the sink is above 0."""
    with pytest.raises(ConfigError, match=f"sink.{name}"):
        SinkSettings(**{name: 0})


async def test_a_topic_that_was_recreated_before_its_first_records_came_ends_the_sink() -> None:
    """Nothing is landed under the log id of the log before."""
    database, stop = Database(99), asyncio.Event()
    recreated = group(database)
    recreated.log_ids = {PLACE.topic: "of the log before"}

    with pytest.raises(ContractError, match="was recreated since the sink read its log id"):
        await _land_all(Recording(), recreated, SETTINGS, stop)

    assert database.stored == []


@pytest.mark.parametrize("stops", [False, True])
@pytest.mark.parametrize("error", [UnavailableError("away"), ConfigError("kafka.ssl_*", "ca.pem", "must be readable")])
async def test_log_ids_that_cannot_be_read_again_for_a_while_do_not_end_a_running_sink(
    error: Exception, stops: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are asked for again; until they are known nothing of these records is landed, or passed over by a commit."""
    monkeypatch.setattr("runtime.retried.BACKOFF", Backoff(0.001, 0.001))
    stop, consumer, asked = asyncio.Event(), Recording(), list[str | None]()
    database = Database(2, stop.set)
    found = group(database)

    async def log_ids() -> dict[str, str]:
        asked.append(found.progress.waiting_for)
        if len(asked) == 3:
            return {PLACE.topic: "a"}
        if stops and len(asked) == 2:
            stop.set()
        raise error

    found.read_log_ids = log_ids
    found.progress.readiness.release("groups")

    await _land_all(consumer, found, SETTINGS, stop)

    assert len(asked) == (2 if stops else 3)
    assert str(error) in str(asked[1])
    assert (consumer.commits, len(database.stored)) == (database.stored, 0 if stops else 2)


def test_rows_are_past_their_time_by_the_databases_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """By that of a host that is ahead of it by more than they are kept, all would be left out and committed."""
    days_ago_ms = SystemClock().now_ms() - 3_000 * DAY_MS
    monkeypatch.setattr(SinkDatabase, "now_ms", lambda self: days_ago_ms)
    window = {"window_ms": days_ago_ms - days_ago_ms % 10_000, "grouping": "service", "event_count": 1}
    batches = {
        "sink": partials([window], 1),
        "raw": requests([days_ago_ms], 1)._replace(timestamp_ms=days_ago_ms),
    }

    groups = _groups(KafkaConfig(), ClickHouseConfig(), SETTINGS, LOG_IDS, DEFAULT_LIMITS, Progress())
    landings = [one.plan([batches[one.name.rpartition("-")[2]]]) for one in groups]

    assert [(one.inserts[0].rows, one.expired) for one in landings] == [(1, {}), (1, {})]


async def test_a_batch_waits_until_the_databases_clock_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is past its time cannot be told before."""
    monkeypatch.setattr("runtime.retried.BACKOFF", Backoff(0.001, 0.001))
    stop, consumer, asked = asyncio.Event(), Recording(), list[int]()
    database = Database(1, stop.set)
    found = group(database)
    plan = found.plan

    def planned(records: Sequence[Record]) -> Landing:
        asked.append(records[-1].offset + 1)
        if len(asked) < 3:
            raise UnavailableError("away")
        return plan(records)

    found.plan = planned

    await _land_all(consumer, found, SETTINGS, stop)

    assert asked[:3] == [database.stored[0]] * 3
    assert consumer.commits == database.stored
