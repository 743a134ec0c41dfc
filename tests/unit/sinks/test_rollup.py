"""Which buckets are due, and that notes can never be lost. SQL runs in tests/integration/test_rollup.py."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from runtime.counters import Counters, exposition
from schemas.ddl.merging import LEVELS, Level
from schemas.errors import BrokenPartError
from schemas.events.grouping import sets_of
from schemas.limits import DAY_MS, DEFAULT_LIMITS
from sinks import rollup
from sinks.rollup import Notebook, Pending, Rollups, RollupSettings, Share, due, summable

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
NOW_MS = 500_000 * HOUR_MS + 30 * MINUTE_MS + 30_000
SETTINGS = RollupSettings(settle_ms=4_000, again_ms=30_000)
BUSY_MS = NOW_MS - 100
"""Time of a note while load goes on."""


def a_minute(back: int, *, noted_ms: int = BUSY_MS, done_ms: int = 0, topic: str = "gpu.samples") -> Pending:
    start_ms = NOW_MS // MINUTE_MS * MINUTE_MS - back * MINUTE_MS
    return Pending("1m", topic, start_ms, noted_ms, done_ms, (("w", 1),))


def an_hour(back: int, **times: int) -> Pending:
    start_ms = NOW_MS // HOUR_MS * HOUR_MS - back * HOUR_MS
    return Pending("1h", "gpu.samples", start_ms, times.get("noted_ms", BUSY_MS), times.get("done_ms", 0), (("w", 1),))


def ready(*pending: Pending, noted_ms: int = BUSY_MS) -> list[Pending]:
    return due(pending, NOW_MS, noted_ms, SETTINGS)


def test_an_ended_bucket_is_due() -> None:
    """It waits only for its rows to settle."""
    assert ready(a_minute(1)) == [a_minute(1)]


def test_an_open_bucket_waits_while_anything_comes() -> None:
    """It would only have to be computed again."""
    assert ready(a_minute(0, noted_ms=NOW_MS - 20_000)) == []


def test_an_open_bucket_is_due_once_nothing_comes_any_more() -> None:
    """So that every level agrees as soon as the load has stopped."""
    quiet = a_minute(0, noted_ms=NOW_MS - 4_000)

    assert ready(quiet, noted_ms=NOW_MS - 4_000) == [quiet]
    assert ready(quiet, noted_ms=NOW_MS - 3_999) == []


@pytest.mark.parametrize(("end_ago_ms", "is_due"), [(3_999, False), (4_000, True), (4_001, True)])
def test_a_bucket_settles_after_its_end(end_ago_ms: int, is_due: bool) -> None:
    """On the boundary it is due."""
    one = a_minute(1)
    now_ms = one.window_ms + MINUTE_MS + end_ago_ms

    assert (due([one], now_ms, now_ms, SETTINGS) == [one]) is is_due


def test_a_bucket_that_keeps_changing_is_computed_now_and_then() -> None:
    """Late rows that arrive all the time cost one computation per ``again_ms``."""
    assert ready(a_minute(5, done_ms=NOW_MS - 29_999)) == []
    assert ready(a_minute(5, done_ms=NOW_MS - 30_000)) == [a_minute(5, done_ms=NOW_MS - 30_000)]
    assert ready(a_minute(5, done_ms=NOW_MS - 5_000, noted_ms=NOW_MS - 4_000)) != []


def test_an_hour_waits_for_its_minutes() -> None:
    """And for no other minute, topic or level."""
    inside, outside, other = a_minute(40), a_minute(200), a_minute(40, topic="llm.requests")

    assert ready(an_hour(1), inside) == [inside]
    assert ready(an_hour(1), outside, other) == [outside, other, an_hour(1)]


def test_a_pass_looks_at_each_bucket_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a repair of weeks tens of thousands wait."""
    asked, bucket_of = list[int](), Level.bucket_of

    def counted(level: Level, at_ms: int) -> int:
        asked.append(at_ms)
        return bucket_of(level, at_ms)

    monkeypatch.setattr(Level, "bucket_of", counted)
    pending = [*(a_minute(n) for n in range(1, 50)), *(an_hour(n) for n in range(2, 50))]

    assert len(ready(*pending)) == len(pending)
    assert len(asked) <= len(pending)


def test_finer_levels_and_older_buckets_come_first() -> None:
    """The order in which rows flow upwards."""
    assert ready(an_hour(2), a_minute(2), a_minute(9)) == [a_minute(9), a_minute(2), an_hour(2)]


def test_what_lost_rows_to_their_time_to_live_is_never_summed_again() -> None:
    """A minute hangs on partial rows, an hour on minutes, which are kept longer."""
    old_ms = NOW_MS - DEFAULT_LIMITS.partials_ttl_ms + DAY_MS
    minute = Pending("1m", "gpu.samples", old_ms, 0, 0, ())

    assert not summable(minute, NOW_MS, DEFAULT_LIMITS)
    assert summable(minute._replace(window_ms=old_ms + 1), NOW_MS, DEFAULT_LIMITS)
    assert summable(minute._replace(level="1h"), NOW_MS, DEFAULT_LIMITS)


class Recording:
    """A database that remembers what it was told and answers with what it was given."""

    def __init__(self, *answers: Sequence[tuple[Any, ...]]) -> None:
        self.answers = list(answers)
        self.told: list[tuple[Any, ...]] = []

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return list(self.answers.pop(0))

    def row(self, sql: str) -> tuple[Any, ...]:
        return self.answers.pop(0)[0]

    def sync(self, table: str) -> None:
        self.told.append(("sync", table))

    def finish(self, sql: str, settings: dict[str, Any] | None = None) -> None:
        self.told.append(("command", sql))

    def insert_rows(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self.told.append((table, tuple(columns), [list(row) for row in rows]))


def test_a_pass_computes_then_notes_the_level_above_then_marks_what_it_had_read() -> None:
    """In this order, and only the numbers it read before it computed: a later note stays open."""
    minute = a_minute(3)._replace(notes=(("sink-a", 7), ("sink-b", 2)))
    database = Recording([(NOW_MS, BUSY_MS)], [tuple(minute)])

    done = Rollups(database, SETTINGS).run_pass()  # type: ignore[arg-type]

    kinds = [told[0] if told[0] in ("command", "sync") else told[1] for told in database.told]
    marks = database.told[-1][2]
    assert done == 1
    assert database.told[0] == ("sync", "gpu_samples_partials")
    assert kinds == [
        "sync",
        "command",
        ("level", "topic", "window_ms", "writer", "noted"),
        ("level", "topic", "window_ms", "writer", "done", "noted_ms", "done_ms"),
    ]
    assert database.told[2][2][0][:3] == ["1h", "gpu.samples", minute.window_ms // HOUR_MS * HOUR_MS]
    assert [(mark[3], mark[4]) for mark in marks] == [("sink-a", 7), ("sink-b", 2)]


@pytest.mark.parametrize(
    ("level", "topic", "table"),
    [
        ("1m", "books", "books"),
        ("1m", "costs", "token_costs"),
        ("1h", "gpu.samples", "gpu_samples_rollup_1m"),
        ("1d", "books", "books_rollup_1h"),
        ("1d", "costs", "token_costs_rollup_1h"),
    ],
)
def test_replicas_are_in_sync_before_a_level_is_read(level: str, topic: str, table: str) -> None:
    """A replica that lags shows the note before the rows that it is about."""
    one = Pending(level, topic, NOW_MS // DAY_MS * DAY_MS - DAY_MS, BUSY_MS, 0, (("w", 1),))
    database = Recording([(NOW_MS, BUSY_MS)], [tuple(one)])

    Rollups(database, SETTINGS).run_pass()  # type: ignore[arg-type]

    assert database.told[0] == ("sync", table)


def test_each_grouping_set_is_a_statement_of_its_own() -> None:
    """None takes longer than the largest set; the last takes sets that a newer version writes. Hours go one by one."""
    minutes, hours = [a_minute(2, topic="llm.requests"), a_minute(3, topic="llm.requests")], [an_hour(2), an_hour(3)]

    def statements(*pending: Pending) -> list[str]:
        database = Recording([(NOW_MS, BUSY_MS)], [tuple(one) for one in pending])
        Rollups(database, SETTINGS).run_pass()  # type: ignore[arg-type]
        return [told[1] for told in database.told if told[0] == "command"]

    wheres = [sql.partition("WHERE ")[2].partition(" AND (")[0] for sql in statements(*minutes)]
    *first, last = [one.name for one in sets_of("llm.requests")]
    assert last
    assert wheres == [
        *(f"p.grouping = '{name}'" for name in first),
        f"p.grouping NOT IN ({', '.join(repr(name) for name in first)})",
    ]
    assert len(statements(*hours)) == 2


def test_progress_and_lag_are_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lag is since the end of the oldest bucket that waits; an open bucket does not wait."""
    counters = Counters()
    monkeypatch.setattr(rollup, "COUNTERS", counters)
    waiting = [a_minute(0), a_minute(1), a_minute(5)]
    database = Recording([(NOW_MS, BUSY_MS)], [tuple(one) for one in waiting])

    Rollups(database, SETTINGS).run_pass()  # type: ignore[arg-type]

    page = exposition(counters.registry).decode()
    assert 'fleetpulse_rollup_waiting{level="1m"} 2.0' in page
    assert f'fleetpulse_rollup_lag_seconds{{level="1m"}} {(NOW_MS - a_minute(4).window_ms) / 1_000}' in page
    assert 'fleetpulse_rollup_lag_seconds{level="1d"} 0.0' in page
    assert 'fleetpulse_rollup_buckets_total{level="1m",topic="gpu.samples"} 2.0' in page


def test_a_pass_does_a_bounded_amount_of_work() -> None:
    """What is beyond waits for the next pass, some buckets share a statement."""
    minutes = [a_minute(back) for back in range(1, 20)]
    database = Recording([(NOW_MS, BUSY_MS)], [tuple(one) for one in minutes])
    settings = RollupSettings(buckets_per_pass_max=5, buckets_per_statement_max=2)

    done = Rollups(database, settings).run_pass()  # type: ignore[arg-type]

    assert done == 5
    assert sum(told[0] == "command" for told in database.told) == 3


def computed(rollups: Rollups, database: Recording, now_ms: int, pending: Sequence[Pending]) -> list[int]:
    """Starts of the minutes that a pass at this time marks as done."""
    database.answers, database.told = [[(now_ms, BUSY_MS)], [tuple(one) for one in pending]], []
    rollups.run_pass()
    return sorted(row[2] for told in database.told if "done" in told[1] for row in told[2])


def test_several_sinks_share_the_buckets_by_their_partitions() -> None:
    """Each is computed by one of them."""
    minutes = [a_minute(back) for back in range(1, 41)]
    shares = [Share(frozenset({0, 1}), 4), Share(frozenset({2}), 4), Share(frozenset({3}), 4)]

    found = [
        computed(Rollups(database, SETTINGS, share=lambda share=share: share), database, NOW_MS, minutes)  # type: ignore
        for database, share in ((Recording(), share) for share in shares)
    ]

    assert all(found)
    assert sorted(start for each in found for start in each) == sorted(one.window_ms for one in minutes)


def test_what_no_sink_computes_is_done_by_one_that_is_idle() -> None:
    """Its sink is gone, or keeps no rollups. A bucket that was computed and changed again waits as long again."""
    minutes = [a_minute(back) for back in range(1, 9)]
    some = Share(frozenset({0}), 2)
    own = [one for one in minutes if some.has(one)]
    others = [one for one in minutes if not some.has(one)]
    database = Recording()
    rollups = Rollups(database, SETTINGS, share=lambda: some)  # type: ignore[arg-type]

    first = computed(rollups, database, NOW_MS, minutes)
    busy = computed(rollups, database, NOW_MS + 60_000, minutes)
    changed = others[0]._replace(done_ms=NOW_MS + 1)
    idle = computed(rollups, database, NOW_MS + 60_000, [changed, *others[1:]])
    later = computed(rollups, database, NOW_MS + 120_000, [changed])

    assert own
    assert first == busy == sorted(one.window_ms for one in own)
    assert idle == sorted(one.window_ms for one in others[1:])
    assert later == [changed.window_ms]


@pytest.fixture
def starts_as_sql(monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement is the starts of its buckets."""
    monkeypatch.setattr(rollup, "_inserts", lambda _topic, _level, buckets: (repr(buckets),))


class Damaged(Recording):
    """Statements about these minutes fail."""

    def __init__(self, *broken: Pending) -> None:
        super().__init__()
        self.broken = {str(one.window_ms) for one in broken}
        self.done: list[int] = []

    def finish(self, sql: str, settings: dict[str, Any] | None = None) -> None:
        if any(start in sql for start in self.broken):
            raise BrokenPartError("ClickHouse: part 1 of gpu_samples_partials is broken")
        super().finish(sql, settings)

    def insert_rows(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self.done += [row[2] for row in rows if "done" in columns]


def passes(rollups: Rollups, database: Damaged, pending: list[Pending], number: int) -> None:
    """So many passes of a sink that goes on after an error, each of what is left."""
    for second in range(number):
        left = [tuple(one) for one in pending if one.window_ms not in database.done]
        database.answers = [[(NOW_MS + second * 1_000, BUSY_MS)], left]
        with suppress(BrokenPartError):
            rollups.run_pass()


@pytest.mark.usefixtures("starts_as_sql")
def test_buckets_that_need_a_broken_part_hold_up_no_others() -> None:
    """However many they are, and also those that share a statement with one of them."""
    minutes = [a_minute(back) for back in range(40, 0, -1)]
    broken = [*minutes[:12], minutes[14]]
    database = Damaged(*broken)
    rollups = Rollups(database, replace(SETTINGS, buckets_per_pass_max=8))  # type: ignore[arg-type]

    passes(rollups, database, minutes, 8)

    assert sorted(database.done) == [one.window_ms for one in minutes if one not in broken]


@pytest.mark.usefixtures("starts_as_sql")
def test_buckets_that_need_a_broken_part_are_computed_once_it_is_mended() -> None:
    """Each gets its turn, though those that stay broken are more than a pass does."""
    minutes = [a_minute(back) for back in range(20, 0, -1)]
    database = Damaged(*minutes)
    rollups = Rollups(database, replace(SETTINGS, buckets_per_pass_max=8))  # type: ignore[arg-type]
    passes(rollups, database, minutes, 4)
    database.broken.discard(str(minutes[-1].window_ms))

    passes(rollups, database, minutes, 3)

    assert database.done == [minutes[-1].window_ms]


@pytest.mark.usefixtures("starts_as_sql")
def test_what_a_sink_cannot_read_does_not_keep_it_from_helping() -> None:
    """It has nothing else to do."""
    minutes = [a_minute(back) for back in range(1, 9)]
    some = Share(frozenset({0}), 2)
    own = [one for one in minutes if some.has(one)]
    database = Damaged(*own)
    rollups = Rollups(database, replace(SETTINGS, help_ms=1_000), share=lambda: some)  # type: ignore[arg-type]

    passes(rollups, database, minutes, 3)

    assert sorted(database.done) == sorted(one.window_ms for one in minutes if one not in own)


def test_a_sink_that_owns_nothing_yet_computes_nothing_at_once() -> None:
    """Before its group has joined it does not know."""
    database, nothing = Recording(), Share(frozenset(), 0)
    rollups = Rollups(database, SETTINGS, share=lambda: nothing)  # type: ignore[arg-type]

    assert computed(rollups, database, NOW_MS, [a_minute(1)]) == []


def test_a_bucket_that_cannot_be_summed_is_marked_and_left_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    """Else it would be looked at for ever. All of a pass are one line of the log."""
    gone = [a_minute(0)._replace(window_ms=start_ms) for start_ms in (0, MINUTE_MS)]
    database = Recording([(NOW_MS, BUSY_MS)], [tuple(one) for one in gone])

    Rollups(database, SETTINGS).run_pass()  # type: ignore[arg-type]

    assert [told[1][4] for told in database.told] == ["done"]
    assert [(line.levelname, line.buckets, line.oldest_ms) for line in caplog.records] == [("WARNING", 2, 0)]  # type: ignore[attr-defined]


def test_notes_are_numbered_upwards_under_a_name_of_their_own() -> None:
    """Numbers do not hang on any clock; two writers never share a name."""
    database = Recording()
    first, second = Notebook(database), Notebook(database)  # type: ignore[arg-type]

    first.note(LEVELS[0], [("t", 0)])
    first.note(LEVELS[0], [("t", 0), ("t", 0)])
    second.note(LEVELS[0], [("t", 60_000)])
    second.note(LEVELS[0], [])

    rows = [told[2] for told in database.told]
    assert [row[4] for told in rows for row in told] == [1, 2, 1]
    assert rows[0][0][3] == rows[1][0][3] != rows[2][0][3]
