"""Rollups on a real ClickHouse hold exactly what the partial rows hold, after late rows, repeats and races too."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import pytest

from runtime.config import ClickHouseConfig
from schemas.ddl.merging import LEVELS, labels_of, measures_of, rollup_insert, rollup_table
from schemas.errors import UnavailableError
from schemas.events.event_types import BY_TOPIC
from schemas.events.grouping import sets_of
from schemas.fields import Kind, Role
from schemas.rows.tables import PARTIALS
from sinks.database import SinkDatabase
from sinks.rollup import Notebook, Rollups, RollupSettings
from tests.integration.sink_rig import store
from tests.unit.sinks.landing_cases import full, partials

pytestmark = [pytest.mark.integration, pytest.mark.tables]

HOUR_MS = 3_600_000
AT_ONCE = RollupSettings(settle_ms=0, again_ms=0)


class Scene:
    """A database, a sink that notes, and rollups that look when told."""

    def __init__(self, clickhouse: Any, database: SinkDatabase) -> None:
        self.clickhouse, self.database = clickhouse, database
        self.notebook, self.rollups = Notebook(database), Rollups(database, AT_ONCE)
        self.now_ms = int(clickhouse.command("SELECT toUnixTimestamp64Milli(now64(3))"))
        self.rng = random.Random(5)
        self.offset = 0

    def land(self, topic: str, windows: list[int], *, note: bool = True) -> None:
        self.offset += 1
        rows = [self.row(topic, window_ms) for window_ms in windows]
        landing = store(self.database, [partials(rows, self.offset, topic)], self.now_ms)
        if note:
            self.notebook.note(LEVELS[0], landing.dirty)

    def row(self, topic: str, window_ms: int) -> dict[str, Any]:
        """Random measures under few series; labels are null now and then."""
        rng, fields = self.rng, PARTIALS[topic].fields
        grouping = rng.choice(sets_of(topic))
        row: dict[str, Any] = {"window_ms": window_ms, "grouping": grouping.name}
        for field in fields:
            if field.name in grouping.dimensions:
                row[field.name] = rng.choice((None, "a", "b")) if field.name in ("host", "model") else None
            elif field.kind is Kind.BINS:
                row[field.name] = {b: rng.randint(1, 9) for b in sorted(rng.sample(range(50), rng.randrange(5)))}
            elif field.role is not Role.DIMENSION and field.name not in row:
                row[field.name] = None if field.kind.optional and rng.random() < 0.3 else rng.randrange(1_000)
        return full(fields, row)

    def settle(self) -> None:
        for _ in range(20):
            if not self.rollups.run_pass():
                return
        raise AssertionError("rollups do not come to an end")

    def whole(self, topic: str, level: str) -> tuple[list[Any], list[Any]]:
        """Rows of a level, and the same made from the partial rows at once."""
        event = BY_TOPIC[topic]
        keys = ["grouping", *(field.name for field in labels_of(event))]
        names = [measure.name for measure in measures_of(event)]
        width = next(one.bucket_ms for one in LEVELS if one.name == level)
        merged = ", ".join(measure.sql for measure in measures_of(event))
        order = " ORDER BY ALL"
        got = f"SELECT window_ms, {', '.join((*keys, *names))}, version FROM {rollup_table(event, level)} FINAL" + order
        expected = (
            f"SELECT intDiv(p.window_ms, {width}) * {width} AS bucket, {', '.join(f'p.{key}' for key in keys)},"
            f" {merged}, count() FROM {PARTIALS[topic].name} AS p FINAL GROUP BY ALL" + order
        )
        return self.clickhouse.query(got).result_rows, self.clickhouse.query(expected).result_rows


@pytest.fixture
def scene(clickhouse: Any, clickhouse_config: ClickHouseConfig) -> Iterator[Scene]:
    with contextlib.closing(SinkDatabase(clickhouse_config)) as database:
        yield Scene(clickhouse, database)


@pytest.mark.parametrize("topic", ["llm.requests", "gpu.samples"])
def test_every_level_equals_the_partial_rows_also_after_late_rows(scene: Scene, topic: str) -> None:
    """All measures of all series, sketches and last values included, and rows hours late change every level."""
    hour_ms = scene.now_ms // HOUR_MS * HOUR_MS - 5 * HOUR_MS
    windows = [hour_ms + step * 10_000 for step in (0, 1, 5, 6, 7, 359, 360, 800)]
    scene.land(topic, windows * 6)
    scene.settle()
    for level in LEVELS:
        got, expected = scene.whole(topic, level.name)
        assert got == expected
        assert got

    scene.land(topic, windows[:4] * 3)
    scene.settle()

    for level in LEVELS:
        got, expected = scene.whole(topic, level.name)
        assert got == expected


def test_rows_that_land_after_a_pass_looked_are_not_missed(scene: Scene) -> None:
    """Their note has a higher number than the one the pass marks, whatever any clock says."""
    topic, window_ms = "llm.requests", scene.now_ms // HOUR_MS * HOUR_MS - 2 * HOUR_MS
    scene.land(topic, [window_ms])
    command = scene.database.command

    def late(sql: str, settings: Any = None) -> None:
        command(sql, settings)
        if "rollup_1m" in sql:
            scene.database.command = command  # type: ignore[method-assign]
            scene.land(topic, [window_ms])

    scene.database.command = late  # type: ignore[method-assign]
    scene.settle()

    for level in LEVELS:
        got, expected = scene.whole(topic, level.name)
        assert got == expected
        assert sum(row[-1] for row in got) == 2


def test_a_rollup_that_is_computed_twice_or_late_changes_nothing(scene: Scene) -> None:
    """An older, emptier computation that arrives last loses by its version."""
    topic, window_ms = "llm.requests", scene.now_ms // HOUR_MS * HOUR_MS - 2 * HOUR_MS
    table = rollup_table(BY_TOPIC[topic], "1m")
    scene.land(topic, [window_ms] * 4)
    scene.settle()
    scene.clickhouse.command(f"CREATE TABLE old AS {table}")
    scene.clickhouse.command(f"INSERT INTO old SELECT * FROM {table} FINAL")
    scene.land(topic, [window_ms] * 4)
    scene.settle()

    scene.clickhouse.command(f"INSERT INTO {table} SELECT * FROM old")
    scene.clickhouse.command(rollup_insert(BY_TOPIC[topic], LEVELS[0], (window_ms,)))

    got, expected = scene.whole(topic, "1m")
    assert got == expected


def test_once_settled_there_is_nothing_to_do(scene: Scene) -> None:
    """Each pass then looks at the notes alone."""
    scene.land("llm.requests", [scene.now_ms // 10_000 * 10_000])
    scene.settle()

    assert scene.rollups.run_pass() == 0


def test_a_rollup_that_was_killed_begins_again(scene: Scene) -> None:
    """Notes that were not marked stay open for whoever comes next."""
    topic, window_ms = "llm.requests", scene.now_ms // HOUR_MS * HOUR_MS - 2 * HOUR_MS
    scene.land(topic, [window_ms] * 3)
    insert_rows = scene.database.insert_rows

    def die(*_: Any) -> None:
        raise KeyboardInterrupt

    scene.database.insert_rows = die  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        scene.rollups.run_pass()
    scene.database.insert_rows = insert_rows  # type: ignore[method-assign]
    scene.rollups = Rollups(scene.database, AT_ONCE)
    scene.settle()

    for level in LEVELS:
        got, expected = scene.whole(topic, level.name)
        assert got == expected
        assert got


def test_a_statement_that_outlives_its_connection_is_waited_for(
    clickhouse: Any, clickhouse_config: ClickHouseConfig
) -> None:
    """The client gives up after a second, the server goes on: a pass that repeated it would run beside it."""
    clickhouse.command("CREATE TABLE slow (x UInt8) ENGINE = MergeTree ORDER BY x")
    slow = "INSERT INTO slow SELECT sleepEachRow(0.1) FROM numbers(15) SETTINGS max_block_size = 1, max_threads = 1"
    running = "SELECT count() FROM system.processes WHERE query LIKE 'INSERT INTO slow%'"

    with (
        contextlib.closing(SinkDatabase(clickhouse_config, seconds_max=1)) as database,
        pytest.raises(UnavailableError),
    ):
        database.finish(slow, poll_s=0.1)

    assert clickhouse.command(running) == 0
    assert clickhouse.command("SELECT count() FROM slow") == 15
