"""Delivery on a real Kafka, with receivers that fail, refuse and go away: at least once, in order, nobody blocked."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiokafka import TopicPartition
from typer.testing import CliRunner

from fleetpulse.cli import app
from fleetpulse.migrate.run import migrate
from runtime import kafka_clients
from runtime.clock import SystemClock
from runtime.config import ClickHouseConfig, KafkaConfig
from runtime.delivery_config import DeliveryConfig, TargetConfig
from schemas.contract.alerts import Alert, encode
from schemas.contract.topics import ALERTS_TOPIC, BOOKS_TOPIC, REJECTED_TOPIC, WINDOW_PARTIALS
from sinks.delivery import target as delivery_target
from sinks.delivery.request import SIGNATURE, verify
from sinks.delivery.service import Delivery, run_delivery
from sinks.delivery.transition import RECORD_BYTES_MAX
from sinks.service import SinkSettings, run_sink
from tests.integration.delivery_rig import Receiver, Request, an_alert, tell, undelivered, until
from tests.integration.installation import variables_of
from tests.integration.sink_rig import committed, skip_to_end
from tests.tables import KEPT

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
KEY = "0123456789abcdef"


@pytest.fixture
async def kafka(own_kafka: KafkaConfig) -> KafkaConfig:
    """Kafka under a name of its own: topics and groups of this test are new."""
    return own_kafka


@pytest.fixture
def test() -> str:
    """Value of the label ``test``: targets of a test take no alerts of others."""
    return secrets.token_hex(6)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver().standing() as standing:
        yield standing


def webhook(receiver: Receiver, test: str, **settings: Any) -> TargetConfig:
    fast = {"retry_initial_s": 0.05, "retry_max_s": 0.2, "rate_per_s": 1_000, "burst": 1_000, "match": {"test": test}}
    return TargetConfig(**{"name": "hook", "kind": "webhook", "endpoint_url": receiver.url, **fast, **settings})


@contextlib.asynccontextmanager
async def delivering(kafka: KafkaConfig, *targets: TargetConfig) -> AsyncIterator[Delivery]:
    """The service, from ready until its clean end."""
    delivery = Delivery(kafka, DeliveryConfig(targets=targets), asyncio.Event(), worker="deliver-0")
    task = asyncio.create_task(run_delivery(delivery))
    try:
        await until(partial(_ready, delivery, task))
        yield delivery
    finally:
        delivery.stop.set()
        await asyncio.wait_for(task, 120.0)


async def _ready(delivery: Delivery, task: asyncio.Task[None]) -> bool:
    return delivery.readiness.why() is None or task.done()


def life_of(test: str, fingerprint: str) -> list[Alert]:
    return [
        an_alert(test, fingerprint),
        an_alert(test, fingerprint, 2, "updated"),
        an_alert(test, fingerprint, 3, "resolved"),
    ]


def ids(alerts: Sequence[Alert]) -> list[str]:
    return [alert.transition_id for alert in alerts]


async def test_a_receiver_that_fails_five_times_gets_each_alert_once_more_and_no_more(
    kafka: KafkaConfig, test: str, receiver: Receiver
) -> None:
    """Five requests are answered 503 and repeated with the same key and body; everything else goes out once."""
    failed: list[str] = []

    def answers(request: Request) -> tuple[int, dict[str, str]]:
        if len(failed) < 5:
            failed.append(request.key)
            return 503, {}
        return 200, {}

    receiver.answers = answers
    alerts = [alert for name in ("a", "b", "c") for alert in life_of(test, f"{test}000{name}")]
    async with delivering(kafka, webhook(receiver, test, hmac_key=KEY)):
        await tell(kafka, *alerts, transaction=f"{kafka.namespace}-tx")
        await receiver.until(lambda: len(receiver.requests) >= len(alerts) + 5)
        await asyncio.sleep(0.5)

    assert sorted(receiver.keys) == sorted([*ids(alerts), *failed])
    assert {(one.key, one.body) for one in receiver.requests} == {(a.transition_id, encode(a)) for a in alerts}
    for name in ("a", "b", "c"):
        taken = list(dict.fromkeys(key for key in receiver.keys if key.startswith(f"{test}000{name}-")))
        assert taken == ids(life_of(test, f"{test}000{name}"))
    for one in receiver.requests:
        header = one.headers[SIGNATURE.lower()]
        assert verify(KEY.encode(), one.body, header, int(header[2:].split(",")[0]))


async def test_an_unavailable_target_blocks_no_other_and_gets_everything_when_it_is_back(
    kafka: KafkaConfig, test: str, receiver: Receiver
) -> None:
    """Its transitions wait, over a restart too; the other target gets nothing twice by that."""
    away = Receiver()
    async with away.standing():
        pass  # the port is known, nobody listens
    alerts = life_of(test, f"{test}000a")
    targets = (webhook(receiver, test), webhook(away, test, name="away"))
    async with delivering(kafka, *targets):
        await tell(kafka, *alerts)
        await receiver.until(lambda: len(receiver.requests) >= len(alerts))
    async with away.standing(), delivering(kafka, *targets):
        await away.until(lambda: len(away.requests) >= len(alerts))

    assert away.keys == receiver.keys == ids(alerts)


async def test_what_is_rejected_goes_to_the_undelivered_ones_at_once(
    kafka: KafkaConfig, test: str, receiver: Receiver
) -> None:
    """Status 400 is not retried; what comes after it is delivered."""
    receiver.answers = lambda request: (400 if request.key.endswith("-1") else 200, {})
    alerts = life_of(test, f"{test}000a")
    async with delivering(kafka, webhook(receiver, test)):
        await tell(kafka, *alerts)
        await receiver.until(lambda: len(receiver.requests) >= len(alerts))
        await until(lambda: _some(kafka, f"{test}000a"))

    told = [json.loads(value) for value in await undelivered(kafka, {f"{test}000a"})]
    assert receiver.keys == ids(alerts)
    assert [(one["target"], one["reason"], one["detail"], one["attempts"]) for one in told] == [
        ("hook", "rejected", "status 400: ", 0)
    ]
    assert told[0]["record"] == json.loads(encode(alerts[0]))


async def test_what_is_rejected_and_large_goes_to_the_undelivered_ones_whole(
    kafka: KafkaConfig, test: str, receiver: Receiver
) -> None:
    """With what stands around it, it is larger than what a producer sends unless told."""
    receiver.answers = lambda request: (400, {})
    fingerprint = f"{test}000b"
    room = RECORD_BYTES_MAX - 150 - len(encode(an_alert(test, fingerprint, evidence={"pad": ""})))
    alert = an_alert(test, fingerprint, evidence={"pad": "x" * room})
    async with delivering(kafka, webhook(receiver, test)):
        await tell(kafka, alert)
        await until(lambda: _some(kafka, fingerprint))

    (value,) = await undelivered(kafka, {fingerprint})
    assert len(value) > RECORD_BYTES_MAX
    assert json.loads(value)["record"] == json.loads(encode(alert))


async def _some(kafka: KafkaConfig, fingerprint: str) -> bool:
    return bool(await undelivered(kafka, {fingerprint}))


async def test_a_new_target_is_sent_what_is_open(kafka: KafkaConfig, test: str, receiver: Receiver) -> None:
    """Of the past only what goes on; from then on everything, and after a restart nothing again."""
    open_, over = an_alert(test, f"{test}000a", 2, "updated"), life_of(test, f"{test}000b")
    await tell(kafka, an_alert(test, f"{test}000a"), *over, open_)
    async with delivering(kafka, webhook(receiver, test)):
        await receiver.until(lambda: len(receiver.requests) >= 1)
    async with delivering(kafka, webhook(receiver, test)):
        end = an_alert(test, f"{test}000a", 3, "resolved")
        await tell(kafka, end)
        await receiver.until(lambda: len(receiver.requests) >= 2)

    assert receiver.keys == ids([open_, end])


async def test_a_target_whose_filter_is_widened_is_sent_what_is_open(
    kafka: KafkaConfig, test: str, receiver: Receiver
) -> None:
    """Once: what matched before a second time under the same key, and after a restart nothing again."""
    bad, mild = an_alert(test, f"{test}000a"), an_alert(test, f"{test}000b", severity="warning")
    async with delivering(kafka, webhook(receiver, test, severities=("critical",))) as delivery:
        await tell(kafka, bad, mild)
        await receiver.until(lambda: len(receiver.requests) >= 1)
        await until(partial(_committed_past, delivery, kafka))
    async with delivering(kafka, webhook(receiver, test)):
        await receiver.until(lambda: len(receiver.requests) >= 3)
    async with delivering(kafka, webhook(receiver, test)):
        await tell(kafka, end := an_alert(test, f"{test}000b", 2, "resolved", severity="warning"))
        await receiver.until(lambda: len(receiver.requests) >= 4)

    first, *again, last = receiver.keys
    assert (first, last) == (bad.transition_id, end.transition_id)
    assert sorted(again) == sorted(ids([bad, mild]))


async def test_a_silenced_alert_is_sent_when_the_silence_ends_over_a_restart(
    kafka: KafkaConfig, test: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not sent by one process, sent once by the next one, and by no later one."""
    monkeypatch.setattr(delivery_target, "RELEASE_MS", 500)
    until_ms = SystemClock().now_ms() + 1_500
    muted = an_alert(test, f"{test}000a", muted_until_ms=until_ms)
    target = webhook(receiver, test)
    async with delivering(kafka, target) as delivery:
        await tell(kafka, muted)
        await until(partial(_committed_past, delivery, kafka))
    async with delivering(kafka, target):
        await receiver.until(lambda: len(receiver.requests) >= 1)
    async with delivering(kafka, target):
        await tell(kafka, end := an_alert(test, f"{test}000a", 2, "resolved"))
        await receiver.until(lambda: len(receiver.requests) >= 2)

    assert receiver.keys == ids([muted, end])
    assert receiver.requests[0].at_ms >= until_ms + 500


async def _committed_past(delivery: Delivery, kafka: KafkaConfig) -> bool:
    """The group has passed what is on the topic."""
    async with kafka_clients.started(kafka_clients.make_consumer(kafka)) as consumer:
        partition = TopicPartition(ALERTS_TOPIC, 0)
        ends = await consumer.end_offsets([partition])
    return await committed(kafka, delivery.group, ALERTS_TOPIC, 0) >= ends[partition]


async def test_the_example_drains_an_engine_whose_gpu_is_lost(
    kafka: KafkaConfig, test: str, receiver: Receiver
) -> None:
    """examples/drain_engine.py: drained when lost, back when found; other alerts move nothing."""
    labels = {"test": test, "engine_id": f"engine-{test}", "gpu_uuid": "GPU-1"}
    lost = an_alert(test, f"{test}000a", rule="gpu_lost", labels=labels)
    slow = an_alert(test, f"{test}000b", rule="ttft_high", labels=labels)
    found = an_alert(test, f"{test}000a", 2, "resolved", rule="gpu_lost", labels=labels)
    await tell(kafka, slow, lost, found)
    settings = {"KAFKA": kafka.bootstrap, "ROUTER": f"http://127.0.0.1:{receiver.port}", "GROUP": kafka.deployment}
    settings["TOPIC"] = f"{kafka.topic_prefix}{ALERTS_TOPIC}"
    command = [sys.executable, str(ROOT / "examples" / "drain_engine.py")]
    process = await asyncio.create_subprocess_exec(*command, env={**os.environ, **settings})
    try:
        await receiver.until(lambda: len(_of_engine(receiver, test)) >= 2)
    finally:
        process.kill()
        await process.wait()

    assert _of_engine(receiver, test) == [
        (f"/engines/engine-{test}/drain", f"{lost.transition_id}-engine-{test}"),
        (f"/engines/engine-{test}/undrain", f"{found.transition_id}-engine-{test}"),
    ]


def _of_engine(receiver: Receiver, test: str) -> list[tuple[str, str]]:
    return [(one.path, one.key) for one in receiver.requests if test in one.path]


async def test_transitions_land_in_the_database(
    kafka: KafkaConfig, test: str, clickhouse_config: ClickHouseConfig, clickhouse: Any
) -> None:
    """Each of them a row of table ``alerts``, with its record."""
    await asyncio.to_thread(migrate, kafka, clickhouse_config, limits=KEPT)
    await skip_to_end(kafka, f"{kafka.namespace}-sink", (WINDOW_PARTIALS, BOOKS_TOPIC, REJECTED_TOPIC))
    alerts = life_of(test, f"{test}000a")
    await tell(kafka, *alerts)
    stop, settings = asyncio.Event(), SinkSettings(flush_ms=100, raw=False, roll=False)
    task = asyncio.create_task(run_sink(kafka, clickhouse_config, settings, stop, limits=KEPT))
    await until(partial(_landed, kafka))
    stop.set()
    await asyncio.wait_for(task, 120.0)

    query = "SELECT number, transition, record FROM alerts FINAL WHERE fingerprint = %(of)s ORDER BY number"
    found = clickhouse.query(query, parameters={"of": f"{test}000a"}).result_rows
    assert found == [(alert.number, alert.transition, encode(alert).decode()) for alert in alerts]


async def _landed(kafka: KafkaConfig) -> bool:
    async with kafka_clients.started(kafka_clients.make_consumer(kafka)) as consumer:
        partition = TopicPartition(ALERTS_TOPIC, 0)
        ends = await consumer.end_offsets([partition])
    return await committed(kafka, f"{kafka.namespace}-sink", ALERTS_TOPIC, 0) >= ends[partition]


async def test_dry_run_prints_what_is_open_without_secrets(kafka: KafkaConfig, test: str, receiver: Receiver) -> None:
    """One document for each open alert that the target matches; nothing is sent."""
    open_ = an_alert(test, f"{test}000a", 2, "updated")
    await tell(kafka, an_alert(test, f"{test}000a"), *life_of(test, f"{test}000b"), open_)
    target = {"name": "pager", "kind": "pagerduty", "endpoint_url": receiver.url, "routing_key": "r0ut1ng"}
    done = await asyncio.to_thread(cli, kafka, {**target, "match": {"test": test}}, "deliver", "--dry-run")

    (told,) = json.loads(done.stdout)
    assert (done.exit_code, done.stderr, receiver.requests) == (0, "", [])
    assert (told["target"], told["to"]) == ("pager", f"http://127.0.0.1:{receiver.port}")
    assert (told["idempotency_key"], told["body"]["routing_key"]) == (open_.transition_id, "***")
    assert "r0ut1ng" not in done.stdout


def cli(kafka: KafkaConfig, target: dict[str, Any], *words: str) -> Any:
    return CliRunner().invoke(app, words, env=environment(kafka, target))


async def test_check_reports_the_response_of_each_target(kafka: KafkaConfig, receiver: Receiver) -> None:
    """Exit 1 when one does not accept the test alert; a single attempt each."""
    receiver.answers = lambda _: (403, {})
    target = {"name": "hook", "kind": "webhook", "endpoint_url": receiver.url}
    done = await asyncio.to_thread(cli, kafka, target, "deliver", "--check", "--json")

    assert done.exit_code == 1
    assert [(one["target"], one["transition"], one["status"]) for one in json.loads(done.stdout)] == [
        ("hook", "opened", 403),
        ("hook", "resolved", 403),
    ]
    assert len(receiver.requests) == 2


async def test_killed_halfway_every_transition_arrives(kafka: KafkaConfig, test: str, receiver: Receiver) -> None:
    """kill -9 of the command, twice: no transition is missing, all are in order, repeats have the same key and body."""
    lives = {f"{test}{n:04}": life_of(test, f"{test}{n:04}") for n in range(30)}
    alerts = [lives[name][number] for number in range(3) for name in lives]
    target = {
        "name": "hook",
        "kind": "webhook",
        "endpoint_url": receiver.url,
        "match": {"test": test},
        "rate_per_s": 60,
    }
    with started(kafka, target) as first:
        await ready(first)
        await tell(kafka, *alerts)
        await receiver.until(lambda: len(receiver.requests) >= 20)
        first.kill()
    with started(kafka, target) as second:
        await receiver.until(lambda: len(set(receiver.keys)) >= 50)
        second.kill()
    with started(kafka, target) as third:
        await receiver.until(lambda: set(receiver.keys) >= set(ids(alerts)))
        third.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(third.wait, 20) == 0

    assert {(one.key, one.body) for one in receiver.requests} == {(a.transition_id, encode(a)) for a in alerts}
    for name, life in lives.items():
        assert list(dict.fromkeys(key for key in receiver.keys if key.startswith(f"{name}-"))) == ids(life)


def environment(kafka: KafkaConfig, target: dict[str, Any]) -> dict[str, str]:
    return {**variables_of(kafka), "FLEETPULSE_DELIVERY__TARGETS": json.dumps([target])}


@contextlib.contextmanager
def started(kafka: KafkaConfig, target: dict[str, Any]) -> Any:
    """``fleetpulse deliver`` with this target."""
    command = [sys.executable, "-m", "fleetpulse", "deliver"]
    process = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **environment(kafka, target)}, stderr=subprocess.PIPE, text=True
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


async def ready(process: Any) -> None:
    """Until it logs that it has started."""
    said = ""
    while "delivery started" not in said:
        line = await asyncio.to_thread(process.stderr.readline)
        assert line, f"it ended: {said}"
        said += line
