"""What follows from windows, against the truth: finals, bills and alerts; each a ``Comparison`` as of windows.

- **finals**: of every upstream the newest row of each window and series, added up, against the generator's truth;
- **bills**: GPU time and energy of every group and minute, and all requests, against the truth; then the audit, which
  computes each bill again from stored rows, with nothing left that came too late;
- **alerts**: the transitions on their topic against one undisturbed fold of ``window.finals``, to the byte.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from aiokafka import TopicPartition

from fleetpulse.audit.ask import audit
from fleetpulse.services.jobs_and_sink import EXAMPLE_PRICES, partitions_of, setup_of
from fleetpulse.sql.database import Database
from lab.chaos.compare import Comparison, Difference, Row, Rows, compare
from lab.simulator.truth import Truth
from runtime.config import Config
from runtime.kafka_clients import open_consumer
from runtime.positions import read_whole
from schemas.codec import native
from schemas.codec.build import rows_of
from schemas.contract.record import Output, Record
from schemas.contract.topics import ALERTS_TOPIC, COSTS_TOPIC, WINDOW_FINALS
from schemas.events.event_types import BY_TOPIC
from schemas.events.grouping import GroupingSet
from schemas.fields import Role
from schemas.limits import MINUTE_MS
from schemas.rows import finals
from schemas.rows.finals import FinalsHeaders
from stream_jobs.alerts.step import output_of
from stream_jobs.prices.load import load as load_prices
from stream_jobs.runner.job import AnyStep
from stream_jobs.runner.kafka_ports import record_of

READ_WITHIN_S = 60.0
_BILLED = """
SELECT placement_group, minute_ms, sum(gpu_ms) - sum(estimated_gpu_ms) AS gpu_ms, ifNull(sum(energy_mj), 0) AS energy_mj
FROM costs GROUP BY placement_group, minute_ms
"""
_REQUESTS = "SELECT sum(requests) AS requests FROM cost_lines"
_BILLED_FIELDS = {"gpu_ms": "interval_ms", "energy_mj": "energy_mj"}
"""Amounts of bills, by the field of a reading that they are sums of."""


def read_log(config: Config, topic: str) -> list[Record]:
    """All committed records of a topic, partition by partition."""
    return asyncio.run(_read_log(config, topic))


async def _read_log(config: Config, topic: str) -> list[Record]:
    places = [TopicPartition(topic, number) for number in range(partitions_of(config)[topic])]
    async with asyncio.timeout(READ_WITHIN_S), open_consumer(config.kafka) as consumer:
        records = [record_of(message) async for message in read_whole(consumer, places)]
    return sorted(records, key=lambda record: (record.partition, record.offset))


# finals


class Finals:
    """The newest rows of a log of finals; ``of`` as ``compare`` takes it."""

    def __init__(self, log: Sequence[Record]) -> None:
        self._newest: dict[str, dict[tuple[Any, ...], Row]] = {}
        revisions: dict[tuple[Any, ...], int] = {}
        for record in log:
            headers = finals.decode(record.headers, f"{record.topic}@{record.offset}")
            topic = finals.TOPIC_BY_SCHEMA.get(headers.schema)
            if not isinstance(headers, FinalsHeaders) or topic is None or not record.value:
                continue
            fields = finals.TABLE_BY_SCHEMA[headers.schema].fields
            labels = [field.name for field in fields if field.role is Role.DIMENSION]
            for row in rows_of(fields, native.decode(record.value, fields)):
                key = (headers.upstream, row["window_ms"], *(row[name] for name in labels))
                if headers.revision >= revisions.get((topic, *key), -1):
                    revisions[topic, *key] = headers.revision
                    self._newest.setdefault(topic, {})[key] = row

    def of(self, grouping: GroupingSet) -> Rows:
        """Rows of a grouping set: a series that several upstreams have is added up."""
        found: dict[tuple[Any, ...], dict[str, Any]] = {}
        for row in self._newest.get(grouping.topic, {}).values():
            if row["grouping"] == grouping.name:
                key = (row["window_ms"], *(row[name] for name in grouping.dimensions))
                _add(found.setdefault(key, {}), _measured(grouping.topic, row))
        return dict(found)


def _measured(topic: str, row: Row) -> dict[str, Any]:
    event = BY_TOPIC[topic]
    found: dict[str, Any] = {"events": row["event_count"]}
    for field in event.of(Role.SKETCH, Role.GAUGE, Role.DIFFERENCE):
        parts = ("sum",) if field.role is Role.DIFFERENCE else ("sum", "count", "min", "max")
        found |= {f"{field.name}.{part}": row[f"{field.name}_{part}"] for part in parts}
    found |= {f"{field.name}.bins": row[f"{field.name}_bins"] for field in event.of(Role.SKETCH)}
    return found | {f"{field.name}.bins": row[field.name] for field in event.of(Role.SKETCH_BINS)}


def _add(to: dict[str, Any], row: Row) -> None:
    for name, value in row.items():
        before, part = to.get(name), name.rpartition(".")[2]
        if value is None or before is None:
            to[name] = before if value is None else value
        elif part in ("min", "max"):
            to[name] = min(before, value) if part == "min" else max(before, value)
        else:
            to[name] = dict(Counter(before) + Counter(value)) if part == "bins" else before + value


# bills


def bills(database: Database, truth: Truth, prices: Path = EXAMPLE_PRICES) -> Comparison:
    """All bills there are; ``lost`` and ``doubled`` are requests."""
    expected, billed = _readings(truth), _billed(database)
    differences = [
        Difference(COSTS_TOPIC, "group and minute", key, name, wanted, got)
        for key in sorted(expected.keys() | billed.keys())
        for name in _BILLED_FIELDS
        if (wanted := expected.get(key, {}).get(name, 0)) != (got := billed.get(key, {}).get(name, 0))
    ]
    requests = truth.events().get("llm.requests", 0)
    ((found,),) = database.sql(_REQUESTS).rows
    missing = requests - int(found or 0)
    if missing:
        differences.append(Difference(COSTS_TOPIC, "all", (), "requests", requests, int(found or 0)))
    cells = len(_BILLED_FIELDS) * len(expected) + 1
    if expected:
        checked, wrong = _audited(database, [minute_ms for _, minute_ms in expected], prices)
        cells, differences = cells + checked, [*differences, *wrong]
    return Comparison(cells, 0, max(0, missing), max(0, -missing), tuple(differences))


def _readings(truth: Truth) -> dict[tuple[str, int], dict[str, int]]:
    """Time and energy of GPUs by minute and what is billed together: engines that share a GPU, else a host."""
    groups = truth["gpu.samples"].groups(("placement_group", "host"), MINUTE_MS)
    found: dict[tuple[str, int], dict[str, int]] = {}
    for name, field in _BILLED_FIELDS.items():
        for (minute_ms, group, host), measure in groups.measure(field).items():
            of = found.setdefault((group or host or "", minute_ms), dict.fromkeys(_BILLED_FIELDS, 0))
            of[name] += measure.total
    return found


def _billed(database: Database) -> dict[tuple[str, int], dict[str, int]]:
    return {
        (row["placement_group"], int(row["minute_ms"])): {name: int(row[name]) for name in _BILLED_FIELDS}
        for row in database.sql(_BILLED).records()
    }


def _audited(database: Database, minutes: Iterable[int], prices: Path) -> tuple[int, list[Difference]]:
    minutes = list(minutes)
    found = audit(database, min(minutes), max(minutes) + MINUTE_MS, load_prices(prices))
    wrong = [
        Difference(COSTS_TOPIC, "audit", tuple(check.examples), check.name, 0, check.difference)
        for check in found.checks
        if check.differing
    ]
    if found.late_rows:
        examples = tuple((late.group, late.minute_ms) for late in found.late)
        wrong.append(Difference(COSTS_TOPIC, "audit", examples, "stored rows in no bill", 0, found.late_rows))
    if found.unpriced:
        wrong.append(Difference(COSTS_TOPIC, "audit", (), "prices", prices.name, found.unpriced))
    return sum(check.compared for check in found.checks), wrong


# alerts


def alerts(step: AnyStep, finals_log: Sequence[Record], emitted: Sequence[Record]) -> Comparison:
    """Transitions in order; ``step`` is that of the alert job."""
    state, changes = step.new(WINDOW_FINALS, 0), step.changes()
    step.fold(state, finals_log, changes)
    expected = [_plain(output_of(alert)) for alert in changes.alerts]
    got = [_plain(record) for record in emitted if record.value is not None]
    missing, more = Counter(expected) - Counter(got), Counter(got) - Counter(expected)
    differences = [Difference(ALERTS_TOPIC, "transition", one, "records", 1, 0) for one in missing.elements()]
    differences += [Difference(ALERTS_TOPIC, "transition", one, "records", 0, 1) for one in more.elements()]
    if not differences and expected != got:
        at = next(number for number, pair in enumerate(zip(expected, got, strict=True)) if pair[0] != pair[1])
        differences.append(Difference(ALERTS_TOPIC, "transition", (at,), "order", expected[at], got[at]))
    return Comparison(len(expected), 0, missing.total(), more.total(), tuple(differences))


def _plain(record: Record | Output) -> tuple[bytes | None, bytes | None, tuple[tuple[str, bytes], ...]]:
    return record.key, record.value, tuple(record.headers)


# all of them


def outcomes(config: Config, database: Database, truth: Truth) -> Mapping[str, Comparison]:
    """Finals, bills and alerts as they are now: while jobs work off what is left, less than the truth."""
    emitted = read_log(config, ALERTS_TOPIC)  # before finals: what is judged meanwhile is no transition too many
    log = read_log(config, WINDOW_FINALS)
    return {
        "finals": compare(Finals(log).of, truth),
        "bills": bills(database, truth),
        "alerts": alerts(setup_of("alerts", config).steps[WINDOW_FINALS], log, emitted),
    }
