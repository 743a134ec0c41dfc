"""Parts of a table that cannot be read: how they break, and what the runbook's section has people do about them."""

from __future__ import annotations

import asyncio
import os
import shlex
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from clickhouse_connect.driver.exceptions import ClickHouseError

from lab.bench.stand import samples
from lab.drills.stand import READY_WITHIN_S, SINK, Stand, metrics
from lab.drills.watch import reported
from runtime.clickhouse_clients import connect
from runtime.config import KafkaConfig
from runtime.kafka_clients import make_admin, make_consumer, started
from schemas.contract.topics import WINDOW_PARTIALS
from schemas.errors import FleetpulseError
from sinks.service import group_name

TABLE = "llm_requests_partials"
NO_LAG_RECORDS = 100
"""Fewer are on their way at any time while a fleet runs."""
_PARTS = f"SELECT path FROM system.parts WHERE database = currentDatabase() AND table = '{TABLE}' AND active"
NONE_FOR_S = 30.0
"""So long the doctor has to name no part: only what a statement has come upon is named, and rollups are tried again
every few seconds."""


def break_parts(stand: Stand) -> None:
    """A disk has lost what was in the files of marks under a table that rollups are computed from."""
    with closing(connect(stand.config.clickhouse)) as client:
        for (folder,) in client.query(_PARTS).result_rows:
            for file in _marks(folder):
                os.truncate(file, 0)
        client.command("SYSTEM DROP MARK CACHE")


def take_out(stand: Stand) -> None:
    """As the page says: what the doctor names is taken out by its command, then the sink's groups are set back beside
    no sink; again, where that comes upon more."""
    while _out(stand):
        command = stand.processes.command(SINK)
        stand.processes.stop(SINK)
        asyncio.run(_set_back(stand.config.kafka))
        stand.processes.start(command)
        stand.until(lambda: _is_done(stand) or any(taking_out(stand)), READY_WITHIN_S, "the sink has no lag")


def _is_done(stand: Stand) -> bool:
    """Whether the sink has read all again, and no rollup waits: by then these have come upon every part."""
    page = metrics(stand.ports[SINK])
    lags = [one.value for one in samples(page, "sink_lag_records") if one.labels["topic"] == WINDOW_PARTIALS]
    waiting = [one.value for one in samples(page, "rollup_waiting")]
    return bool(lags and waiting) and sum(lags) < NO_LAG_RECORDS and not any(waiting)


def _out(stand: Stand) -> bool:
    """Take out parts until the doctor names none; whether there were any."""
    any_named, named_s = False, time.monotonic()
    with closing(connect(stand.config.clickhouse)) as client:
        while time.monotonic() < named_s + NONE_FOR_S:
            for statement in taking_out(stand):
                _run(client, statement)
                any_named, named_s = True, time.monotonic()
            stand.pass_time(1.0)
    return any_named


def _run(client: Any, statement: str) -> None:
    try:
        client.command(statement)
    except ClickHouseError as error:
        raise FleetpulseError(f"{statement}: {error}") from error


def taking_out(stand: Stand) -> Iterator[str]:
    """Statements of the doctor's commands that take out parts which cannot be read."""
    for finding in reported(stand):
        if finding["check"] == "parts" and finding["state"] == "wrong":
            *_, statement = shlex.split(finding["mend"], comments=True)
            if "DETACH PART" in statement:
                yield statement


def _marks(folder: str) -> Iterator[Path]:
    return Path(folder).glob("*mrk*")


async def _set_back(kafka: KafkaConfig) -> None:
    """The sink begins again at the oldest record that Kafka has, of every topic."""
    for of in ("sink", "raw"):
        group = group_name(kafka.namespace, of)
        async with started(make_admin(kafka)) as admin, started(make_consumer(kafka, group=group)) as consumer:
            partitions = list(await admin.list_consumer_group_offsets(group))
            consumer.assign(partitions)
            await consumer.commit(await consumer.beginning_offsets(partitions))
