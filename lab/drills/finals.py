"""Finals against the windows they are merged of: the books of events say nothing of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

from fleetpulse.reconcile.compare import LOOK_EVERY_S, Difference, Report
from fleetpulse.sql.database import Database
from lab.chaos.outcomes import Finals, read_log
from runtime.config import Config
from schemas.contract.record import Record
from schemas.contract.topics import WINDOW_FINALS
from schemas.errors import FleetpulseError
from schemas.events.grouping import sets_of
from schemas.rows import finals
from schemas.rows.finals import FinalsHeaders
from schemas.rows.tables import GROUPED, PARTIALS

CHECK = "windows against their finals"
STORED = """
SELECT window_ms, sum(event_count) FROM {table} FINAL
WHERE grouping = '{grouping}' AND window_ms >= {from_ms} AND window_ms < {to_ms} GROUP BY window_ms
"""


def with_finals(books: Report, config: Config, since_ms: int, within_s: float, tend: Callable[[], object]) -> Report:
    """The books, and whether every window from then on that all upstreams have passed has the events in the topic of
    finals that it has in ClickHouse, where some may still be on their way."""
    until_s = time.monotonic() + within_s
    with closing(Database(config.clickhouse)) as database:
        while True:
            try:
                log = read_log(config, WINDOW_FINALS)
            except TimeoutError as error:
                raise FleetpulseError(f"topic {WINDOW_FINALS} could not be read in time") from error
            checks, differences = compare(log, database, since_ms)
            if not checks:
                differences = (Difference(CHECK, "windows that are over", 1, 0),)
            if not differences or time.monotonic() > until_s:
                return replace(books, checks=books.checks + checks, differences=books.differences + differences)
            tend()
            time.sleep(LOOK_EVERY_S)


def compare(log: list[Record], database: Database, since_ms: int) -> tuple[int, tuple[Difference, ...]]:
    """How many windows were compared, by topic, and those that differ. Each event is in one series of any set: the
    first of its topic stands for all."""
    through = Counter[int]()
    for record in log:
        headers = finals.decode(record.headers, f"{record.topic}@{record.offset}")
        if isinstance(headers, FinalsHeaders):
            through[headers.upstream] = max(through[headers.upstream], headers.through_ms)
    span = {"from_ms": since_ms, "to_ms": min(through.values(), default=0)}
    newest, checks, found = Finals([one for one in log if one.timestamp_ms >= since_ms]), 0, list[Difference]()
    for grouping in (sets_of(event.topic)[0] for event in GROUPED):
        emitted = Counter[int]()
        for (window_ms, *_), row in newest.of(grouping).items():
            emitted[window_ms] += row["events"]
        sql = STORED.format(table=PARTIALS[grouping.topic].name, grouping=grouping.name, **span)
        stored = {int(window_ms): int(events) for window_ms, events in database.sql(sql).rows}
        windows = stored.keys() | {one for one in emitted if span["from_ms"] <= one < span["to_ms"]}
        checks += len(windows)
        found += [
            Difference(CHECK, f"{grouping.topic}, window {one}", stored.get(one, 0), emitted[one])
            for one in sorted(windows)
            if stored.get(one, 0) != emitted[one]
        ]
    return checks, tuple(found)
