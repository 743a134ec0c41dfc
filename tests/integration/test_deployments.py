"""Deployments keep apart: on topics of another none starts, and under prefixes several share one cluster.

Covers runtime.contract_record and runtime.topic_prefix.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from aiokafka import TopicPartition

from fleetpulse.alerts.view import publish
from fleetpulse.migrate import topics
from fleetpulse.migrate.plan import NameDeployment, Plan
from fleetpulse.reconcile.compare import reconcile
from fleetpulse.services.processes import Command, Processes
from fleetpulse.topics.tail import lines_of
from producers.batch import Batch
from producers.publish.publisher import Publisher
from producers.spool.spool import Spool
from runtime.clock import SystemClock
from runtime.config import ClickHouseConfig, KafkaConfig
from runtime.contract_record import read_contract
from runtime.delivery_config import DeliveryConfig
from runtime.kafka_clients import make_admin, make_consumer, make_producer, started
from schemas.contract.alert_commands import Command as AlertCommand
from schemas.contract.topics import BOOKS_TOPIC, CONTRACT, DEPLOYMENT_KEY
from schemas.errors import ConfigError
from schemas.limits import DEFAULT_LIMITS
from sinks.delivery.service import Delivery, run_delivery
from sinks.service import SinkSettings, run_sink
from tests.integration.installation import variables_of
from tests.unit.sinks.landing_cases import requests

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

OTHER = "another"


def foreign(kafka: KafkaConfig) -> KafkaConfig:
    """The same topics under another name."""
    return kafka.model_copy(update={"deployment": OTHER})


async def plan(kafka: KafkaConfig) -> Plan:
    return await topics.plan(kafka, {}, DEFAULT_LIMITS)


async def unname(kafka: KafkaConfig) -> None:
    """As 0.1.0 leaves a contract."""
    async with started(make_producer(kafka)) as producer:
        await producer.send_and_wait(CONTRACT.name, None, key=DEPLOYMENT_KEY.encode(), partition=0)


REFUSED = "kafka.deployment = 'another': must be {}, to which these topics belong"


async def test_nothing_starts_on_topics_of_another_deployment(
    own_kafka: KafkaConfig, clickhouse_config: ClickHouseConfig
) -> None:
    """And each says whose they are and what to set."""
    kafka, stop = foreign(own_kafka), asyncio.Event()
    refused = pytest.raises(ConfigError, match=REFUSED.format(own_kafka.deployment))

    with refused:
        await plan(kafka)
    with refused:
        await run_sink(kafka, clickhouse_config, SinkSettings(), stop)
    with refused:
        await run_delivery(Delivery(kafka, DeliveryConfig(), stop))
    with refused:
        await publish(kafka, AlertCommand("mute", "1", until_ms=1))
    with refused:
        await asyncio.to_thread(reconcile, kafka, clickhouse_config)


@pytest.mark.parametrize("shell", ["bare", "faust"])
def test_a_job_of_another_deployment_ends_before_it_reads(own_kafka: KafkaConfig, tmp_path: Path, shell: str) -> None:
    """With the exit code of a wrong setting, so that nobody restarts it in vain."""
    done = fleetpulse(variables_of(foreign(own_kafka)), tmp_path, "jobs", "windows", "--shell", shell)

    assert done.returncode == 2, done.stderr
    assert f"must be {own_kafka.deployment}, to which these topics belong" in " ".join(done.stderr.split())


def fleetpulse(settings: dict[str, str], folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fleetpulse", *words]
    own = {**os.environ, **settings, "FLEETPULSE_DATA_DIR": str(folder), "COLUMNS": "300"}
    return subprocess.run(command, env=own, cwd=folder, capture_output=True, text=True, timeout=240, check=False)


async def test_an_edge_that_names_another_deployment_keeps_its_records(own_kafka: KafkaConfig, tmp_path: Path) -> None:
    """They leave once its setting is right; an edge that names none sends to whom the topics belong."""
    wrong = await sent_by(foreign(own_kafka), tmp_path / "wrong", within_s=3.0)
    right = await sent_by(own_kafka, tmp_path / "wrong", within_s=60.0)
    silent = KafkaConfig(bootstrap=own_kafka.bootstrap, topic_prefix=own_kafka.topic_prefix)

    assert (wrong, right, await sent_by(silent, tmp_path / "silent", within_s=60.0)) == (False, True, True)


async def sent_by(kafka: KafkaConfig, folder: Path, within_s: float) -> bool:
    """Whether an edge could send what is in its spool and one record more."""
    one = requests([SystemClock().now_ms()], 0)
    schema, content_type = (dict(one.headers)[name].decode() for name in ("schema", "content-type"))
    async with Publisher(Spool.open(folder), kafka, host="h") as publisher:
        await publisher.put(one.topic, b"k", Batch(one.topic, schema, content_type, b"k", 1, one.value or b""))
        return await publisher.flush(within_s)


async def test_a_contract_of_the_release_before_gets_its_name(own_kafka: KafkaConfig) -> None:
    """Processes start before it has one, so that an upgrade may begin anywhere; `migrate` gives it the name once."""
    await unname(own_kafka)
    before = await read_contract(own_kafka)
    first = await plan(own_kafka)
    await topics.carry_out(own_kafka, first.steps, DEFAULT_LIMITS)
    after = await read_contract(own_kafka)

    assert before is not None
    assert after is not None
    assert (before.deployment, after.deployment) == (None, own_kafka.deployment)
    assert before.log_ids == after.log_ids
    assert [one for one in first.steps if isinstance(one, NameDeployment)] == list(first.steps)
    assert await plan(own_kafka) == Plan()


async def test_topics_without_a_name_are_not_taken_from_jobs_that_read_them(own_kafka: KafkaConfig) -> None:
    """Whoever migrates first would else keep the right owner out."""
    await unname(own_kafka)
    async with started(make_consumer(own_kafka, group=f"{own_kafka.namespace}-windows")) as consumer:
        at = TopicPartition("llm.requests", 0)
        consumer.assign([at])
        await consumer.commit({at: 0})

    with pytest.raises(ConfigError, match=f"must be {own_kafka.deployment}, whose jobs read these topics"):
        await plan(foreign(own_kafka))
    assert len((await plan(own_kafka)).steps) == 1


async def test_two_deployments_of_one_cluster_count_their_own_events(
    own_kafka: KafkaConfig, other_kafka: KafkaConfig, tmp_path: Path
) -> None:
    """Both shells; topics, groups and transactional ids of a prefix are all apart, and each event counts once."""
    both = {"faust": own_kafka, "bare": other_kafka}
    with Processes(tmp_path) as processes:
        for number, (shell, kafka) in enumerate(both.items()):
            words = ("jobs", "windows", "--shell", shell)
            own = {**variables_of(kafka), "FLEETPULSE_DATA_DIR": str(tmp_path / shell)}
            processes.start(Command(shell, words, own))
            for _ in range(number + 1):
                assert await sent_by(kafka, tmp_path / f"spool-{shell}", within_s=60.0)
        accepted = [await booked(processes, kafka, number + 1) for number, kafka in enumerate(both.values())]

    assert accepted == [1, 2]


async def booked(processes: Processes, kafka: KafkaConfig, enough: int) -> int:
    """Events that the windows job accepted, once there are ``enough``, and no books come for a while."""
    async with started(make_consumer(kafka)) as consumer:
        consumer.assign([TopicPartition(BOOKS_TOPIC, 0)])
        found, quiet = 0, 0
        async with asyncio.timeout(150):
            while found < enough or quiet < 5:
                processes.tend()
                fetched = await consumer.getmany(timeout_ms=500)
                records = [record for some in fetched.values() for record in some]
                assert all(record.topic == BOOKS_TOPIC for record in records)
                rows = [orjson.loads(line) for record in records for line in lines_of(record)]
                found += sum(row["events"] for row in rows if row.get("job") == "windows" and row["verdict"] == 0)
                quiet = 0 if records else quiet + 1
        return found


async def test_a_client_with_a_prefix_sees_its_own_topics_alone(own_kafka: KafkaConfig) -> None:
    """Under their names of the contract."""
    async with started(make_admin(own_kafka)) as admin, started(make_consumer(own_kafka)) as consumer:
        seen, named = await admin.list_topics(), await consumer.topics()
        described = await admin.describe_topics([CONTRACT.name])

    assert set(seen) == set(named)
    assert CONTRACT.name in seen
    assert not [name for name in seen if name.startswith("t") and name.count(".") > 2]
    assert described[0]["topic"] == CONTRACT.name
