"""Reconcile on a real ClickHouse: what a sink landed is exact, and each damage to a table is found and named."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from fleetpulse.reconcile import compare as module
from fleetpulse.reconcile.compare import Report, compare
from fleetpulse.reconcile.tables import Cut, read_ends, read_produced, read_tables
from fleetpulse.sql.database import Database
from runtime.config import ClickHouseConfig
from schemas.contract.headers import Identity
from schemas.contract.verdicts import MISSING
from schemas.ddl.merging import LEVELS
from schemas.limits import DAY_MS, DEFAULT_LIMITS
from schemas.rows.tables import BOOKS, PRODUCER_BOOKS, REJECTED
from sinks.database import SinkDatabase
from sinks.rollup import Notebook, Rollups, RollupSettings
from tests.integration.sink_rig import store, store_raw
from tests.unit.sinks.landing_cases import derived, partials, requests

pytestmark = [pytest.mark.integration, pytest.mark.tables]

SPOOL = "0123456789abcdef0123456789abcdef"
LOG = {("llm.requests", 1): (0, 2)}


class Scene:
    """Two records of a sender in partition 1: three events accepted, one refused; all tables as they should be."""

    def __init__(self, clickhouse: Any, config: ClickHouseConfig, sink: SinkDatabase) -> None:
        self.clickhouse, self.config = clickhouse, config
        self.now_ms = int(clickhouse.command("SELECT toUnixTimestamp64Milli(now64(3))"))
        self.window_ms = self.now_ms // 10_000 * 10_000
        at = [self.window_ms + 1, self.window_ms + 2]
        raw = [
            requests(at, 0, Identity(SPOOL, 1, 0, (1, 0)), 1),
            requests([at[0], -5], 1, Identity(SPOOL, 1, 1, (1, 0)), 1),
        ]
        store_raw(sink, [record._replace(timestamp_ms=self.now_ms) for record in raw], self.now_ms)
        rows = [{"window_ms": self.window_ms, "grouping": name, "event_count": 3} for name in ("service", "engine")]
        book = {"topic": "llm.requests", "partition": 1, "source": SPOOL, "boot": 1, "committed_ms": self.now_ms}
        lines = [
            {**book, "offset_from": 0, "offset_to": 1, "verdict": 0, "events": 2, "records": 1},
            {**book, "offset_from": 1, "offset_to": 2, "verdict": 0, "events": 1, "records": 1},
            {**book, "offset_from": 1, "offset_to": 2, "verdict": 3, "events": 1, "records": 1},
        ]
        produced = {
            "at_ms": self.now_ms,
            "boot": 1,
            "source": SPOOL,
            "topic": "llm.requests",
            "records": 2,
            "events": 4,
            "seq_to": 2,
            "seq_events": 4,
        }
        refused = {"appended_ms": self.now_ms, "partition": 1, "offset": 1, "events": 1, "topic": "llm.requests"}
        landing = store(
            sink,
            [
                partials(rows, 0, source_partition=1),
                derived(BOOKS, lines, "books", 0),
                derived(
                    PRODUCER_BOOKS, [{**produced, "events": 2, "seq_to": 1, "seq_events": 2}, produced], "books", 1
                ),
                derived(REJECTED, [refused], "rejected", 0),
            ],
            self.now_ms,
        )
        Notebook(sink).note(LEVELS[0], landing.dirty)
        rollups = Rollups(sink, RollupSettings(settle_ms=0, again_ms=0))
        while rollups.run_pass():
            pass

    def land_more(self, sink: SinkDatabase, *, committed: bool) -> None:
        """What the sender sent since its line: one request in the raw table; where ``committed`` also its books and
        partial rows, and a record that was rejected."""
        raw = requests([self.window_ms + 3], 2, Identity(SPOOL, 1, 2, (1, 0)), 1)
        store_raw(sink, [raw._replace(timestamp_ms=self.now_ms)], self.now_ms)
        if not committed:
            return
        rows = [{"window_ms": self.window_ms, "grouping": name, "event_count": 1} for name in ("service", "engine")]
        book = {"topic": "llm.requests", "partition": 1, "source": SPOOL, "boot": 1, "committed_ms": self.now_ms}
        book = {**book, "offset_from": 2, "offset_to": 4, "records": 1}
        lines = [{**book, "verdict": 0, "events": 1}, {**book, "verdict": 3, "events": 5}]
        refused = {"appended_ms": self.now_ms, "partition": 1, "offset": 3, "events": 5, "topic": "llm.requests"}
        refused |= {"source": SPOOL, "boot": 1, "seq": 3}
        landing = store(
            sink,
            [
                partials(rows, 2, source_partition=1, source_offset_to=4),
                derived(BOOKS, lines, "books", 2),
                derived(REJECTED, [refused], "rejected", 1),
            ],
            self.now_ms,
        )
        Notebook(sink).note(LEVELS[0], landing.dirty)

    def report(self, *, now_ms: int | None = None, raw: bool = True, growing: bool = False) -> Report:
        with contextlib.closing(Database(self.config)) as database:
            cut = Cut(read_produced(database), read_ends(database), growing)
            return compare(LOG, read_tables(database, cut, now_ms or self.now_ms, DEFAULT_LIMITS, raw=raw), growing)

    def damage(self, statement: str, *, growing: bool = False) -> list[str]:
        self.clickhouse.command(statement, settings={"mutations_sync": 2, "lightweight_deletes_sync": 2})
        return [str(one) for one in self.report(growing=growing).differences]


@pytest.fixture
def sink(clickhouse_config: ClickHouseConfig) -> Iterator[SinkDatabase]:
    with contextlib.closing(SinkDatabase(clickhouse_config)) as sink:
        yield sink


@pytest.fixture
def scene(clickhouse: Any, clickhouse_config: ClickHouseConfig, sink: SinkDatabase) -> Scene:
    return Scene(clickhouse, clickhouse_config, sink)


def test_what_was_landed_once_is_exact(scene: Scene) -> None:
    """Producers, offsets, partial, raw, rejected and rollup tables all agree."""
    report = scene.report()

    assert report.differences == ()
    assert (report.exact, report.unchecked) == (True, 0)
    assert report.topics[0].produced == 4


@pytest.mark.parametrize(
    ("statement", "checks", "words"),
    [
        pytest.param(
            "DELETE FROM llm_requests WHERE seq = 1",
            (module.RAW_ROWS, module.WINDOWS),
            ("partition 1", f"source {SPOOL}, boot 1", "offsets 0-2", "window "),
            id="a raw row is lost",
        ),
        pytest.param(
            "ALTER TABLE llm_requests UPDATE verdict = 'late' WHERE seq = 1",
            (module.RAW_ROWS, module.WINDOWS),
            ("accepted", "late"),
            id="a raw row has another verdict",
        ),
        pytest.param(
            "DELETE FROM llm_requests_partials WHERE grouping = 'engine'",
            (module.PARTIAL_ROWS, module.WINDOWS, module.ROLLUP_ROWS),
            ("grouping set engine", "partition 1"),
            id="a partial row is lost",
        ),
        pytest.param(
            "ALTER TABLE llm_requests_rollup_1h UPDATE event_count = 9 WHERE 1",
            (module.ROLLUP_ROWS,),
            ("level 1h", "expected 3, found 9"),
            id="a rollup is wrong",
        ),
        pytest.param("TRUNCATE TABLE rejected", (module.REJECTED_ROWS,), ("partition 1",), id="a rejected row is lost"),
        pytest.param(
            "DELETE FROM books WHERE offset_from = 0",
            (module.PRODUCED, module.OFFSETS, module.PARTIAL_ROWS),
            ("start of the log", "expected 4, found 2"),
            id="a commit has no books",
        ),
        pytest.param(
            "TRUNCATE TABLE producer_books",
            (module.PRODUCED,),
            (SPOOL, "expected 0, found 4"),
            id="a sender is unknown",
        ),
    ],
)
def test_each_damage_is_found_and_named(
    scene: Scene, statement: str, checks: tuple[str, ...], words: tuple[str, ...]
) -> None:
    """The checks that must see it, and the place."""
    found = scene.damage(statement)

    assert {line.split(":")[0] for line in found} >= set(checks)
    assert [word for word in words if not any(word in line for line in found)] == []


def test_after_the_time_to_live_nothing_reads_as_wrong(scene: Scene) -> None:
    """Raw rows are gone after a week, the rest after a month: what can no longer be added up is told as unchecked."""
    week, month = scene.now_ms + 8 * DAY_MS, scene.now_ms + 31 * DAY_MS
    scene.clickhouse.command("TRUNCATE TABLE llm_requests")
    assert scene.report().differences
    assert scene.report(now_ms=week).exact

    for table in ("llm_requests_partials", "rejected"):
        scene.clickhouse.command(f"TRUNCATE TABLE {table}")
    assert not scene.report(now_ms=week).exact
    late = scene.report(now_ms=month)

    assert (late.differences, late.unchecked) == ((), 3)


def test_without_raw_tables_the_rest_is_still_checked(scene: Scene) -> None:
    """A sink with --no-raw has none."""
    scene.clickhouse.command("TRUNCATE TABLE llm_requests")

    assert not scene.report().exact
    assert scene.report(raw=False).exact


def test_rows_that_landed_before_their_commit_take_no_part(scene: Scene, sink: SinkDatabase) -> None:
    """A raw row is there, the books of its offset are not: the cut ends before it."""
    scene.land_more(sink, committed=False)

    assert scene.report(growing=True).differences == ()


def test_a_line_that_a_sink_of_0_1_0_landed_is_not_cut_by_the_sequence_number_of_an_older_one(
    scene: Scene, sink: SinkDatabase
) -> None:
    """Such a sink leaves out what it does not know: how many events the line has is newer than its sequence number."""
    scene.land_more(sink, committed=True)
    line = {"source": SPOOL, "boot": 1, "topic": "llm.requests", "at_ms": scene.now_ms + 1, "records": 4, "events": 10}
    store(sink, [derived(PRODUCER_BOOKS, [line], "books", 3)], scene.now_ms)

    assert scene.report(growing=True).differences == ()


def test_beside_a_running_producer_all_agree(scene: Scene, sink: SinkDatabase) -> None:
    """A commit has landed that the producer's line does not cover, and the minute's rollup waits."""
    scene.land_more(sink, committed=True)
    report = scene.report(growing=True)

    assert report.differences == ()
    assert report.open_buckets == len(LEVELS)
    assert {one.check for one in scene.report().differences} == {module.OFFSETS, module.ROLLUP_ROWS}


@pytest.mark.parametrize(
    ("statement", "checks"),
    [
        pytest.param("DELETE FROM llm_requests WHERE seq = 1", (module.RAW_ROWS, module.WINDOWS), id="a raw row"),
        pytest.param("DELETE FROM books WHERE offset_from = 0", (module.PRODUCED, module.OFFSETS), id="a commit"),
        pytest.param("DELETE FROM llm_requests WHERE seq = 2", (module.PRODUCED, module.RAW_ROWS), id="one since"),
        pytest.param(
            "DELETE FROM rejected WHERE seq = 3", (module.PRODUCED, module.REJECTED_ROWS), id="rejected since"
        ),
        pytest.param(
            "DELETE FROM llm_requests_partials WHERE source_offset_to = 4 AND grouping = 'engine'",
            (module.PARTIAL_ROWS, module.WINDOWS),
            id="a partial row since",
        ),
    ],
)
def test_beside_a_running_producer_damage_is_found(
    scene: Scene, sink: SinkDatabase, statement: str, checks: tuple[str, ...]
) -> None:
    """Before the producer's line and behind it."""
    scene.land_more(sink, committed=True)

    assert {line.split(":")[0] for line in scene.damage(statement, growing=True)} >= set(checks)


def test_what_a_reset_left_out_is_exact_and_declared(scene: Scene, sink: SinkDatabase) -> None:
    """The raw row of a record in the hole is in no window, and its sender produced it; the books say so. The same hole
    of another job is listed, and covers nothing."""
    scene.land_more(sink, committed=False)
    line = {"source": SPOOL, "boot": 1, "topic": "llm.requests", "at_ms": scene.now_ms + 1}
    line |= {"records": 3, "events": 5, "seq_to": 3, "seq_events": 5}
    hole = {"topic": "llm.requests", "partition": 1, "boot": 0, "committed_ms": scene.now_ms, "job": "windows"}
    hole |= {"offset_from": 2, "offset_to": 4, "verdict": MISSING, "events": 0, "records": 2}
    other = {**hole, "job": "finals", "offset_from": 1, "offset_to": 9, "records": 8}
    store(
        sink,
        [derived(BOOKS, [hole, other], "books", 2), derived(PRODUCER_BOOKS, [line], "books", 3)],
        scene.now_ms,
    )

    with contextlib.closing(Database(scene.config)) as database:
        cut = Cut(read_produced(database), read_ends(database))
        log = {("llm.requests", 1): (0, 4)}
        tables = read_tables(database, cut, scene.now_ms, DEFAULT_LIMITS, raw=True)
        without_raw = read_tables(database, cut, scene.now_ms, DEFAULT_LIMITS, raw=False)
    report = compare(log, tables)

    assert report.differences == ()
    assert (tables.gone, without_raw.gone) == ({"llm.requests": 1}, {"llm.requests": 2})
    assert (report.exact, report.missing) == (True, 1)
    assert [(hole.job, hole.first, hole.end) for hole in report.holes] == [("finals", 1, 9), ("windows", 2, 4)]
