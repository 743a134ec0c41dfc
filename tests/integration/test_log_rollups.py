"""Rollups of books and bills on a real ClickHouse are the sums of what they are made of, also after changes."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from fleetpulse.queries.dashboard import Value, query
from runtime.config import ClickHouseConfig
from schemas.ddl import billed_views, book_rollups, cost_rollups
from schemas.ddl.merging import BY_LEVEL, LEVELS, Level
from schemas.rows.costs import COSTS
from schemas.rows.tables import BOOKS, Table
from sinks.database import SinkDatabase
from sinks.rollup import Notebook, Rollups, RollupSettings
from tests.integration.sink_rig import store
from tests.unit.sinks.landing_cases import derived

pytestmark = [pytest.mark.integration, pytest.mark.tables]

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
OF_LINES = ("tenant", "model", "slo_class", "status")
NAMES = ("request", "__overhead__", "__wasted__", "__idle__")


class Scene:
    """A database, a sink that notes, and rollups that look when told."""

    def __init__(self, clickhouse: Any, database: SinkDatabase) -> None:
        self.clickhouse, self.database = clickhouse, database
        self.notebook = Notebook(database)
        self.rollups = Rollups(database, RollupSettings(settle_ms=0, again_ms=0))
        now_ms = int(clickhouse.command("SELECT toUnixTimestamp64Milli(now64(3))"))
        self.now_ms, self.hour_ms = now_ms, now_ms // HOUR_MS * HOUR_MS - 5 * HOUR_MS
        self.offset = 0
        self._of_bills = dict[tuple[int, str], list[Any]]()

    def land(self, table: Table, topic: str, rows: Sequence[dict[str, Any]]) -> None:
        self.offset += 1
        landing = store(self.database, [derived(table, rows, topic, self.offset)], self.now_ms)
        self.notebook.note(LEVELS[0], landing.dirty)

    def settle(self) -> None:
        for _ in range(20):
            if not self.rollups.run_pass():
                return
        raise AssertionError("rollups do not come to an end")

    def rows(self, sql: str) -> list[Any]:
        return list(self.clickhouse.query(sql).result_rows)

    def rows_of_bills(self, sql: str) -> list[Any]:
        """Rows that follow from the bills alone: the same until more have landed."""
        key = self.offset, sql
        if key not in self._of_bills:
            self._of_bills[key] = self.rows(sql)
        return self._of_bills[key]


@pytest.fixture
def scene(clickhouse: Any, clickhouse_config: ClickHouseConfig) -> Iterator[Scene]:
    with contextlib.closing(SinkDatabase(clickhouse_config)) as database:
        yield Scene(clickhouse, database)


def bill(scene: Scene, rng: random.Random, minute: int, owner: str, version: int, parts: int = 3) -> dict[str, Any]:
    """A bill with random amounts of which some are unknown, for the fifth hour before now."""

    def amount() -> int | None:
        return rng.choice((None, rng.randrange(10**9)))

    row: dict[str, Any] = {
        "minute_ms": scene.hour_ms + minute * MINUTE_MS, "version": version, "revision": version // 2,
        "final": version % 2, "weights_version": 1, "definition_version": 1, "gpu_ms": 60_000,
        "unpriced_gpu_ms": rng.choice((0, 5)), "unpriced_energy_mj": 3, "unmeasured_gpu_ms": 2,
        "estimated_gpu_ms": 7, "use": rng.choice(("engine", "idle")),
        "owner": owner, "placement_group": owner, "region": rng.choice((None, "eu")), "host": "h-1",
        "gpu_model": rng.choice((None, "H100")), "prices_version": rng.choice((None, "p-1")),
    }  # fmt: skip
    totals = ("total_nusd", "gpu_nusd", "host_nusd", "energy_nusd", "energy_mj", "meter_mj", "carbon_ug")
    row |= {name: amount() for name in totals}
    labels = {"name": NAMES, "kind": ("prefill", "decode"), "tenant": (None, "acme"), "model": (None, "m"),
              "slo_class": (None, "chat"), "status": (None, "ok")}  # fmt: skip
    row |= {f"part_{name}": [rng.choice(known) for _ in range(parts)] for name, known in labels.items()}
    amounts = ("amount", "cost_nusd", "energy_mj", "gpu_ms", "carbon_ug")
    row |= {f"part_{name}": [amount() for _ in range(parts)] for name in amounts}
    row |= {f"line_{name}": [rng.choice(labels[name]) for _ in range(parts)] for name in labels if name in OF_LINES}
    row["line_requests"] = [rng.randrange(100) for _ in range(parts)]
    amounts = ("prefill_tokens", "cached_tokens", "decode_tokens", "kv_token_ms")
    return row | {f"line_{name}": [amount() for _ in range(parts)] for name in amounts}


def books(scene: Scene, minute: int, verdict: int, source: str | None, events: int = 10) -> dict[str, Any]:
    """A line of books."""
    at_ms = scene.hour_ms + minute * MINUTE_MS + 1_000 * verdict
    return {"committed_ms": at_ms, "partition": 0, "offset_from": minute, "offset_to": minute + 1, "boot": 1,
            "verdict": verdict, "records": 1, "events": events, "job": "windows", "topic": "t",
            "source": source}  # fmt: skip


APART = "meter_mj IS NULL, carbon_ug IS NULL"
OF_BILLS = ("use, region, gpu_model, prices_version, toString(weights_version), toString(definition_version)"
            f"|total_nusd IS NULL, gpu_nusd IS NULL, {APART}, unpriced_gpu_ms > 0")  # fmt: skip
IDLE = f"part IN {cost_rollups.IDLE}"
OF_PARTS = (f"part, kind, tenant, model, status, region, if({IDLE}, use, NULL), if({IDLE}, owner, NULL),"
            f" if({IDLE}, gpu_model, NULL), slo_class|cost_nusd IS NULL, {APART}")  # fmt: skip
KEPT = {
    cost_rollups.BILLS: ("costs", OF_BILLS),
    cost_rollups.PARTS: ("cost_parts", OF_PARTS),
    cost_rollups.LINES: (
        "cost_lines",
        "tenant, model, slo_class, status, region, gpu_model, unpriced, unmetered, uncounted",
    ),
    cost_rollups.OWNERS: ("costs", "use, owner, host, gpu_model, region"),
    cost_rollups.OWNER_PARTS: ("cost_parts", "use, owner, part, model, status"),
    cost_rollups.OWNER_LINES: ("cost_lines", "use, owner, model, unpriced"),
}
"""What the lists of a rollup add up: a view, and what of it is summed apart: labels, and what is not shown."""


def sums_of(lists: cost_rollups.Lists) -> str:
    """The same sums over the rows of a view ``c``."""
    own = {"count": "count()", "provisional": "countIf(c.final = 0)"}
    return ", ".join(own.get(one.name, f"sum(c.{one.name})") for one in lists.sums)


def check_bills(scene: Scene) -> None:
    """Every level against the bills themselves; what has no price, meter or CO2e is apart from what has."""
    for level in LEVELS:
        at = f"intDiv(minute_ms, {level.bucket_ms}) * {level.bucket_ms} AS at_ms"
        table = f"{cost_rollups.table_of(level.name)} AS r FINAL ARRAY JOIN"
        for lists, (view, labels) in KEPT.items():
            shown, _, hidden = labels.partition("|")
            groups = f"at_ms, {shown}" + (f", {hidden}" if hidden else "")
            columns = ", ".join(lists.columns)
            assert scene.rows(f"SELECT window_ms, {columns} FROM {table} {columns} ORDER BY ALL") == scene.rows(
                f"SELECT {at}, {shown}, {sums_of(lists)} FROM {view} AS c GROUP BY {groups} ORDER BY ALL"
            )


def check_views(scene: Scene, from_ms: int, to_ms: int, level: Level) -> None:
    """Views of bills of a range against the bills themselves, by buckets of a level."""
    for lists, (view, labels) in KEPT.items():
        shown, within = labels.partition("|")[0], f"minute_ms >= {from_ms} AND minute_ms < {to_ms}"
        groups = ", ".join([*map(str, range(1, 1 + len(lists.labels))), "at"])
        ends = f"from_ms = {from_ms}, to_ms = {to_ms}, bucket_ms = {level.bucket_ms}"
        at = f"intDiv({{}}, {level.bucket_ms}) AS at"
        labelled = ", ".join(f"c.{billed_views.column(lists, one)}" for one in lists.labels)
        summed = ", ".join(f"sum(c.{billed_views.column(lists, one)})" for one in lists.sums)
        assert scene.rows(
            f"SELECT {labelled}, {at.format('window_ms')}, {summed} FROM {billed_views.NAMES[lists.stem]}({ends}) AS c"
            f" GROUP BY {groups} ORDER BY ALL"
        ) == scene.rows_of_bills(
            f"SELECT {shown}, {at.format('minute_ms')}, {sums_of(lists)} FROM {view} AS c WHERE {within}"
            f" GROUP BY {groups} ORDER BY ALL"
        )


def test_bills_of_every_level_add_up_to_the_last_revisions(scene: Scene) -> None:
    """By use and region, and every part; also after a revision that lacks some of the parts, and after late bills."""
    rng = random.Random(7)
    first = [bill(scene, rng, minute, owner, 2) for minute in (0, 1, 59, 60, 200) for owner in ("a", "b", "c")]
    scene.land(COSTS, "costs", first)
    scene.settle()
    check_bills(scene)

    changed = [bill(scene, rng, minute, "a", 5, parts=1) for minute in (0, 1)]
    scene.land(COSTS, "costs", [*changed, bill(scene, rng, 130, "a", 2)])
    scene.land(COSTS, "costs", first)  # the same again: it changes nothing
    scene.settle()
    check_bills(scene)
    assert scene.rows("SELECT count() FROM token_costs_rollup_1m FINAL") == [(6,)]


def test_a_bucket_without_parts_keeps_its_bills(scene: Scene) -> None:
    """A bill without a price has no parts, but a bill it is."""
    scene.land(COSTS, "costs", [bill(scene, random.Random(1), 0, "a", 2, parts=0)])
    scene.settle()

    assert scene.rows("SELECT bill_count, length(part_name) FROM token_costs_rollup_1h FINAL") == [([1], 0)]


def test_books_of_every_level_add_up_to_the_lines(scene: Scene) -> None:
    """By job, topic, verdict and whether the sender is known; lines that come later or again are no exception."""
    lines = [
        books(scene, minute, verdict, source) for minute in (0, 1, 61) for verdict in (0, 3) for source in (None, "s")
    ]
    for some in (lines[:5], lines, lines[3:]):
        scene.land(BOOKS, "books", some)
        scene.settle()
        for level in LEVELS:
            at = f"intDiv(committed_ms, {level.bucket_ms}) * {level.bucket_ms}"
            assert scene.rows(f"SELECT * FROM {book_rollups.table_of(level.name)} FINAL ORDER BY ALL") == scene.rows(
                f"SELECT {at}, job, topic, verdict, source IS NOT NULL AS known, sum(records), sum(events),"
                " max(committed_ms), count() FROM books FINAL GROUP BY ALL ORDER BY ALL"
            )


def asked(scene: Scene, name: str, from_ms: int, to_ms: int) -> list[dict[str, Any]]:
    """What the dashboard's query says of a range."""
    found = query(name)
    given: dict[str, Value] = {"from_ms": from_ms, "to_ms": to_ms, "bucket_ms": 1}
    given |= dict.fromkeys(("region", "tenant", "model"), "")
    span_ms = to_ms - from_ms
    return list(scene.clickhouse.query(found.at_levels(span_ms), found.values(given, span_ms)).named_results())


RANGES = [(0, 300), (7, 61), (1, 60), (59, 130), (0, 1)]
"""Minutes of the scene's hours: whole hours and their edges."""
MINUTES = (0, 1, 7, 30, 59, 60, 61, 119, 120, 200, 299)


def test_views_of_bills_of_a_range_are_the_bills(scene: Scene) -> None:
    """Of any range, days in it; also where rollups lag behind, are gone, or are of a release that knew less."""
    rng = random.Random(11)
    scene.hour_ms = (scene.now_ms // DAY_MS - 3) * DAY_MS - 2 * HOUR_MS

    def check() -> None:
        for first, end, level in ((7, 61, "1m"), (0, 300, "1h"), (90, 2_000, "1d"), (-2_000, 202, "1d"), (5, 5, "1d")):
            check_views(scene, scene.hour_ms + first * MINUTE_MS, scene.hour_ms + end * MINUTE_MS, BY_LEVEL[level])

    scene.land(COSTS, "costs", [bill(scene, rng, minute, owner, 2) for minute in MINUTES for owner in ("a", "b")])
    check()  # of nothing is there a rollup
    scene.settle()
    check()
    scene.land(COSTS, "costs", [bill(scene, rng, minute, "a", 5, parts=1) for minute in (1, 120)])
    check()  # a revision that no rollup has yet, as after a rerate
    scene.settle()
    check()
    rows_of(scene, 61, ("1h", "1d"), "DELETE FROM {table} WHERE {bucket}")
    scene.land(COSTS, "costs", [bill(scene, rng, 62, "a", 2)])
    check()  # in no rollup of its hour, or of its day
    scene.settle()
    check()
    older = "0 AS detail, [] AS part_slo_class, [] AS part_meter_mj, [] AS bill_gpu_model, [] AS line_tenant"
    older += "".join(f", [] AS {name}" for name in cost_rollups.LINES.columns[1:])
    rows_of(
        scene, 200, ("1m", "1h"), f"INSERT INTO {{table}} SELECT * REPLACE ({older}) FROM {{table}} WHERE {{bucket}}"
    )
    check()  # its day holds it
    scene.land(COSTS, "costs", [bill(scene, rng, 201, "a", 2)])
    scene.settle()
    assert scene.rows("SELECT detail, count() FROM token_costs_rollup_1d FINAL GROUP BY detail ORDER BY detail") == [
        (0, 1),
        (1, 1),
    ]
    check()  # from the bills: a day of which an hour knows less knows less


def rows_of(scene: Scene, minute: int, levels: Sequence[str], statement: str) -> None:
    """Run a statement on the rows of rollups that hold a minute."""
    for level in (one for one in LEVELS if one.name in levels):
        bucket_ms = level.bucket_of(scene.hour_ms + minute * MINUTE_MS)
        scene.clickhouse.command(
            statement.format(table=cost_rollups.table_of(level.name), bucket=f"window_ms = {bucket_ms}")
        )


def test_what_the_page_cost_asks_is_what_the_bills_say(scene: Scene) -> None:
    """Of any range, from hours, minutes or both, also of one that ends now."""
    rng = random.Random(9)
    scene.land(COSTS, "costs", [bill(scene, rng, minute, owner, 2) for minute in MINUTES for owner in ("a", "b")])
    scene.settle()
    for first, end in RANGES:
        check_cost_page(scene, scene.hour_ms + first * MINUTE_MS, scene.hour_ms + end * MINUTE_MS)


def check_cost_page(scene: Scene, from_ms: int, to_ms: int) -> None:
    """Every query of the page against the bills themselves."""
    within = f"minute_ms >= {from_ms} AND minute_ms < {to_ms}"

    (total,) = asked(scene, "cost_total", from_ms, to_ms)
    whole = scene.rows(f"SELECT count(), sum(total_nusd), sum(meter_mj), countIf(final = 0) FROM costs WHERE {within}")
    assert [(total["bills"], total["total"], total["used_mj"], total["provisional"])] == whole
    parts = f"FROM cost_parts WHERE {within}"
    whose = "if(status IS NULL, part, ifNull({}, ''))"
    for name, of, sql, where in (
        ("cost_tenants", "tenant", whose.format("tenant"), "true"),
        ("cost_models", "model", whose.format("model"), "true"),
        ("cost_idle_hosts", "owner", "owner", f"part IN {cost_rollups.IDLE}"),
    ):
        got = sorted((row[of], row["cost"]) for row in asked(scene, name, from_ms, to_ms))
        assert got == scene.rows(
            f"SELECT {sql} AS whose, sum(cost_nusd) {parts} AND {where} GROUP BY whose ORDER BY whose"
        )
    of_requests = {row["of_requests"] for row in asked(scene, "cost_tenants", from_ms, to_ms)}
    assert [(each,) for each in of_requests] == scene.rows(f"SELECT sum(cost_nusd) {parts} AND status IS NOT NULL")
    over_time = asked(scene, "cost_over_time", from_ms, to_ms)
    assert [(sum(row["cost"] or 0 for row in over_time),)] == scene.rows(f"SELECT sum(ifNull(cost_nusd, 0)) {parts}")
    days = asked(scene, "cost_by_day", from_ms // DAY_MS * DAY_MS, scene.now_ms)
    assert [(sum(row["cost_nusd"] or 0 for row in days),)] == scene.rows(
        "SELECT sum(ifNull(cost_nusd, 0)) FROM cost_parts"
    )
    assert [(first_ms,) for first_ms in {row["first_ms"] for row in days}] == scene.rows(
        "SELECT min(minute_ms) FROM costs"
    )


@pytest.mark.parametrize(("first", "end"), RANGES)
def test_what_the_page_pipeline_asks_is_what_the_books_say(scene: Scene, first: int, end: int) -> None:
    """The last two minutes come from the lines, whether or not they were added up already."""
    lines = [
        books(scene, minute, verdict, source) for minute in range(300) for verdict in (0, 3) for source in (None, "s")
    ]
    scene.land(BOOKS, "books", [line for line in lines if line["committed_ms"] < scene.hour_ms + (end - 1) * MINUTE_MS])
    scene.settle()
    scene.land(
        BOOKS, "books", [line for line in lines if line["committed_ms"] >= scene.hour_ms + (end - 1) * MINUTE_MS]
    )
    from_ms, to_ms = scene.hour_ms + first * MINUTE_MS, scene.hour_ms + end * MINUTE_MS

    (topic,) = asked(scene, "pipeline_topics", from_ms, to_ms)
    over_time = asked(scene, "pipeline_over_time", from_ms, to_ms)

    sums = "sumIf(events, verdict = 0), sumIf(events, verdict = 3), sumIf(events, source IS NULL), max(committed_ms)"
    expected = scene.rows(f"SELECT {sums} FROM books FINAL WHERE committed_ms >= {from_ms} AND committed_ms < {to_ms}")
    assert [(topic["accepted"], topic["rejected"], topic["unidentified"], topic["last_commit_ms"])] == expected
    assert sum(row["booked"] for row in over_time) == topic["accepted"] + topic["rejected"]
    assert [row["at_ms"] for row in over_time] == list(range(from_ms, to_ms, MINUTE_MS))
