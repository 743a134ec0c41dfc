"""Bills to budgets to alerts on a real broker: kill -9 of both jobs, and every threshold is told once."""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from fleetpulse.alerts.view import newest, open_of
from runtime.config import KafkaConfig
from schemas.contract.alerts import Alert, decode
from schemas.contract.record import Output, Record
from schemas.limits import MINUTE_MS
from stream_jobs.alerts.step import output_of
from tests.integration.alerts_worker import UPSTREAMS
from tests.integration.job_rig import KILLS, JobRig, job_rig
from tests.unit.stream_jobs.alerts.cases import T0
from tests.unit.stream_jobs.alerts.log import Log, a_step
from tests.unit.stream_jobs.budgets.spend_cases import BUDGETS, DAY_MS, DOLLAR, a_bill, a_cost_record, added_up

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300 + 30 * KILLS)]

MINUTES = 60
FIRST_MS = T0 - T0 % MINUTE_MS
TODAY_MS = T0 - T0 % DAY_MS
ANY_TIME = {"message.timestamp.after.max.ms": str(2**62), "retention.ms": "-1"}
"""The log is of another year."""


def bills(draw: random.Random) -> tuple[list[Record], dict[tuple[int, str | None, str | None], int]]:
    """Bills of two engines for an hour, each told one to three times; and what those that count add up to."""
    told: list[tuple[int, dict[str, Any]]] = []
    sums: Counter[tuple[int, str | None, str | None]] = Counter()
    for minute in range(MINUTES):
        for owner in ("e-1", "e-2"):
            for version in range(draw.randrange(1, 4)):
                parts = [(who, "m", draw.randrange(DOLLAR)) for who in ("acme", "globex", None)]
                told.append((minute + 8 * version, a_bill(FIRST_MS + minute * MINUTE_MS, parts, version, owner)))
            sums.update({(TODAY_MS, who, model): amount for who, model, amount in parts})
    told.sort(key=lambda one: one[0])
    return [a_cost_record(n, [bill], at_ms=T0) for n, (_, bill) in enumerate(told)], dict(sums)


@pytest.fixture
async def spend(kafka_bootstrap: str, tmp_path: Path) -> AsyncIterator[JobRig]:
    async with job_rig("finals", kafka_bootstrap, tmp_path, ANY_TIME) as made:
        yield made


@pytest.fixture
async def alerts(kafka_bootstrap: str, tmp_path: Path) -> AsyncIterator[JobRig]:
    async with job_rig("alerts", kafka_bootstrap, tmp_path, {"message.timestamp.type": "LogAppendTime"}) as made:
        yield made


def with_windows(spend: Sequence[Record]) -> list[Record]:
    """What the alert job reads: a minute of windows for each record of spend."""
    log = Log()
    for number in range(len(spend) + 2):
        log.rows(0, 6 * number, {"e-1": 1}, through=6 * number + 6)
        log.rows(1, 6 * number, {"e-2": 1}, through=6 * number + 6)
        log.records += [one._replace(topic=log.records[0].topic) for one in spend[number : number + 1]]
    return log.records


async def test_kill_9_of_both_jobs_and_every_threshold_is_told_once(spend: JobRig, alerts: JobRig) -> None:
    """Differences on the log add up to the bills that count, to the nano-dollar; of every (budget, level) that was
    crossed there is one alert, and the topic is the fold of the log."""
    records, sums = bills(random.Random(5))
    last = await spend.send_while_killed(records, random.Random(6), kills=KILLS // 2)
    told = await spend.settled(lambda told: added_up(outputs_of(told)) == sums)
    last.send(signal.SIGTERM)
    assert await last.ended() == 0

    log = with_windows(told)
    expected = undisturbed(log)
    last = await alerts.send_while_killed(log, random.Random(7), kills=KILLS // 2)
    found = await alerts.settled(lambda found: len(found) >= len(expected))
    last.send(signal.SIGTERM)

    assert await last.ended() == 0
    assert outputs_of(found) == [output_of(alert, alerts.out) for alert in expected]
    assert crossed(expected) == {(one.name, level) for one in BUDGETS.budgets for level in ("soft 50%", "hard 100%")}
    open_now = open_of(await newest(KafkaConfig(bootstrap=alerts.bootstrap), alerts.out))
    assert Counter(alert.fingerprint for alert in open_now) == Counter(alert.fingerprint for alert in expected)


def outputs_of(records: Sequence[Record]) -> list[Output]:
    return [Output(one.topic, one.partition, one.key, one.value or b"", one.headers) for one in records]


def undisturbed(records: Sequence[Record]) -> list[Alert]:
    step = a_step(UPSTREAMS, BUDGETS)
    state, changes = step.new("window.finals", 0), step.changes()
    step.fold(state, records, changes)
    return [decode(output_of(alert).value or b"") for alert in changes.alerts]


def crossed(alerts: Sequence[Alert]) -> set[tuple[str, str]]:
    assert {alert.transition for alert in alerts} == {"opened"}
    return {(alert.labels["budget"], alert.labels["level"]) for alert in alerts}
