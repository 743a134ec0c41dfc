"""Minute, hour and day rollups: whole buckets are computed again from the level below and replace what was there.

The sink notes every minute whose partial rows it changed, *after* they landed and *before* it commits; it numbers its
notes. A pass reads the notes first, computes the buckets, notes the buckets above them, and only then marks as dealt
with the numbers it had read: rows that land after it looked have a note with a higher number, so that none is missed,
however clocks step and whoever is killed in between. Doing a bucket twice is harmless: a row's version is the number of
partial rows behind it, which only grows, and equal versions are equal rows.

A statement is of one grouping set and takes as long as it takes: it is waited for, and after a connection that broke
until the server no longer runs it, so that none is repeated beside itself.

A bucket is due when it has ended, or when nothing at all came for a while (then open buckets are computed too, so
that everything agrees once the load has stopped). Of a bucket that was computed a moment ago the next computation
waits. Several sinks share the work by the partitions that they own, without asking one another; what none of them
computes for a while, because its sink is gone or keeps no rollups, any does that has nothing else to do. Work is
bounded: a pass looks at the notes alone, never at tables, and does at most ``buckets_per_pass_max``. Buckets that need
a part that cannot be read come last, the one that was tried longest ago first: they hold up no others.
A bucket of which part has passed the time to live of the rows below is left as it is, and logged: what is gone cannot
be summed.
"""

from __future__ import annotations

import logging
import secrets
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count, groupby
from typing import Any, NamedTuple

from runtime.counters import COUNTERS
from schemas.contract.topics import BOOKS_TOPIC, COSTS_TOPIC, WINDOW_PARTIALS
from schemas.ddl import book_rollups, cost_rollups
from schemas.ddl.merging import BY_LEVEL, LEVELS, Level, above, rollup_inserts, rollup_table
from schemas.ddl.tables import NOTES
from schemas.errors import BrokenPartError
from schemas.events.event_types import BY_TOPIC
from schemas.limits import DAY_MS, DEFAULT_LIMITS, Limits
from schemas.rows.costs import COSTS
from schemas.rows.tables import BOOKS, PARTIALS
from sinks.database import SinkDatabase
from sinks.landing import Bucket

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RollupSettings:
    """``pass_ms``: how often it looks. ``settle_ms``: how long after its end, or after the last note of all, a bucket
    is due. ``again_ms``: a bucket that keeps changing is computed at most this often."""

    pass_ms: int = 3_000
    settle_ms: int = 4_000
    again_ms: int = 30_000
    buckets_per_pass_max: int = 64
    buckets_per_statement_max: int = 4
    """Of minutes; hours and days are computed one by one."""
    help_ms: int = 60_000
    """So long after it became due, a bucket of another sink is computed by one that has nothing else to do."""
    memory_bytes: int = 400_000_000
    """What one statement may hold in memory before it goes on by way of the disk."""


OF_LOGS = {BOOKS_TOPIC: book_rollups.insert, COSTS_TOPIC: cost_rollups.insert}
"""What computes a bucket of what is no event: by the topic that names it in the notes."""


class Pending(NamedTuple):
    """A bucket with notes that were not dealt with. Times are the database's own clock, ms; ``done_ms`` 0: never."""

    level: str
    topic: str
    window_ms: int
    noted_ms: int
    done_ms: int
    notes: tuple[tuple[str, int], ...]
    """(writer, number) of the latest note of every writer."""


class Share(NamedTuple):
    """The buckets of one sink: topic, level and start of each choose one of ``of`` numbers, some of which it owns."""

    owned: frozenset[int]
    of: int

    def has(self, one: Pending) -> bool:
        """Whether it is one of them."""
        return bool(self.of) and zlib.crc32(f"{one.topic}/{one.level}/{one.window_ms}".encode()) % self.of in self.owned


def share_of(consumer: Any) -> Share:
    """As many of the buckets as of the partitions of window.partials."""
    owned = frozenset(one.partition for one in consumer.assignment() if one.topic == WINDOW_PARTIALS)
    return Share(owned, len(consumer.partitions_for_topic(WINDOW_PARTIALS) or ()))


NONE, ALL = Share(frozenset(), 0), Share(frozenset({0}), 1)
_PENDING = f"""
SELECT level, topic, window_ms, max(latest), max(computed), groupArray((writer, number))
FROM
(
    SELECT level, topic, window_ms, writer, max(noted) AS number, max(done) AS dealt_with,
        max(noted_ms) AS latest, max(done_ms) AS computed
    FROM {NOTES} GROUP BY level, topic, window_ms, writer
)
GROUP BY level, topic, window_ms
HAVING max(number > dealt_with)
"""
_CLOCK = f"""
SELECT toUnixTimestamp64Milli(now64(3)), max(noted_ms) FROM {NOTES} WHERE level = '{LEVELS[0].name}'
"""


def due(pending: Sequence[Pending], now_ms: int, noted_ms: int, settings: RollupSettings) -> list[Pending]:
    """The buckets to compute now, finest level and oldest bucket first, those of events before books and bills.
    ``noted_ms``: time of the sink's last note."""
    idle = noted_ms + settings.settle_ms <= now_ms
    waiting = {_above(one) for one in pending}  # for what is finer
    ready = [one for one in pending if (idle or _ended(one, now_ms, settings)) and _key(one) not in waiting]
    order = [level.name for level in LEVELS]
    return sorted(ready, key=lambda one: (order.index(one.level), one.topic in OF_LOGS, one.topic, one.window_ms))


def _key(one: Pending) -> tuple[str, str, int]:
    return one.level, one.topic, one.window_ms


def _above(one: Pending) -> tuple[str, str, int] | None:
    """The bucket that is computed from this one, as ``_key``; None of the coarsest."""
    level = above(BY_LEVEL[one.level])
    return None if level is None else (level.name, one.topic, level.bucket_of(one.window_ms))


def _ended(one: Pending, now_ms: int, settings: RollupSettings) -> bool:
    end_ms = one.window_ms + BY_LEVEL[one.level].bucket_ms
    calm = one.noted_ms + settings.settle_ms <= now_ms or one.done_ms + settings.again_ms <= now_ms
    return calm and end_ms + settings.settle_ms <= now_ms


def summable(one: Pending, now_ms: int, limits: Limits) -> bool:
    """Whether all rows below this bucket are still kept (a day to spare: they are dropped by the day)."""
    finest = BY_LEVEL[one.level].below is None
    kept_ms = limits.partials_ttl_ms if finest else limits.rollup_ttl_ms
    if one.topic == COSTS_TOPIC:
        kept_ms = limits.costs_ttl_ms
    return one.window_ms > now_ms - kept_ms + DAY_MS


def _inserts(topic: str, level: Level, buckets: tuple[int, ...]) -> tuple[str, ...]:
    of_log = OF_LOGS.get(topic)
    return rollup_inserts(BY_TOPIC[topic], level, buckets) if of_log is None else (of_log(level, buckets),)


def _read(topic: str, level: Level) -> str:
    """The table that a level is computed from."""
    below, of_log = level.below, {BOOKS_TOPIC: book_rollups.table_of, COSTS_TOPIC: cost_rollups.table_of}.get(topic)
    if below is None:
        return {BOOKS_TOPIC: BOOKS, COSTS_TOPIC: COSTS, **PARTIALS}[topic].name
    return rollup_table(BY_TOPIC[topic], below) if of_log is None else of_log(below)


class Notebook:
    """Writes numbered notes of changed buckets under a name of its own."""

    def __init__(self, database: SinkDatabase) -> None:
        self._database = database
        self._writer = secrets.token_hex(8)
        self._numbers = count(1)

    def note(self, level: Level, buckets: Iterable[Bucket]) -> None:
        """Note buckets; when it returns the notes are stored."""
        number = next(self._numbers)
        rows = [[level.name, topic, window_ms, self._writer, number] for topic, window_ms in sorted(set(buckets))]
        if rows:
            self._database.insert_rows(NOTES, ("level", "topic", "window_ms", "writer", "noted"), rows)


class Rollups:
    """Keeps rollups up to date. ``run_pass`` does a bounded amount of work and returns how many buckets it did.
    ``share``: which are its own, by now."""

    def __init__(
        self,
        database: SinkDatabase,
        settings: RollupSettings | None = None,
        limits: Limits = DEFAULT_LIMITS,
        share: Callable[[], Share] = lambda: ALL,
    ) -> None:
        self._database = database
        self._notebook = Notebook(database)
        self._settings = settings or RollupSettings()
        self._limits = limits
        self._share = share
        self._due_since: dict[Pending, int] = {}
        self._broken: dict[tuple[str, str, int], int] = {}
        """Buckets that need a part that cannot be read, by a number that rises with every try."""
        self._tries = count(1)

    def run_pass(self) -> int:
        """Compute what is due. Raises ``UnavailableError``; what was done stays done. What needs a part that cannot be
        read holds up nothing else: its error is raised at the end."""
        broken: BrokenPartError | None = None
        now_ms, noted_ms = self._database.row(_CLOCK)
        pending = [Pending(*row) for row in self._database.rows(_PENDING)]
        self._broken = {key: self._broken[key] for key in map(_key, pending) if key in self._broken}
        ready = self._chosen(due(pending, now_ms, noted_ms, self._settings), now_ms)
        self._set_lag(pending, now_ms)
        gone = [one for one in ready if not summable(one, now_ms, self._limits)]
        self._mark_done(gone, now_ms)
        if gone:
            oldest_ms, topics = min(one.window_ms for one in gone), sorted({one.topic for one in gone})
            extra = {"buckets": len(gone), "oldest_ms": oldest_ms, "topics": ",".join(topics)}
            _log.warning("rollups left as they are: rows that they are computed from have expired", extra=extra)
        kept = [one for one in ready if summable(one, now_ms, self._limits)]
        for (level, topic), group in groupby(kept, key=lambda one: (one.level, one.topic)):
            buckets = list(group)
            self._database.sync(
                _read(topic, BY_LEVEL[level])
            )  # after the notes were read: what they are about came first
            at_once = 1 if BY_LEVEL[level].below else self._settings.buckets_per_statement_max
            for first in range(0, len(buckets), at_once):
                broken = self._roll_readable(level, topic, buckets[first : first + at_once], now_ms) or broken
        if broken is not None:
            raise broken
        return len(ready)

    def _chosen(self, ready: Sequence[Pending], now_ms: int) -> list[Pending]:
        """Of what is due, what this sink computes now."""
        share = self._share()
        own, others = [one for one in ready if share.has(one)], [one for one in ready if not share.has(one)]
        seen = {one._replace(noted_ms=0, notes=()): one for one in others}
        self._due_since = {key: self._due_since.get(key, now_ms) for key in seen}
        late = [one for key, one in seen.items() if self._due_since[key] + self._settings.help_ms <= now_ms]
        readable = [one for one in own if _key(one) not in self._broken]
        readable = readable or [one for one in late if _key(one) not in self._broken]
        broken = [one for one in [*own, *late] if _key(one) in self._broken]
        broken.sort(key=lambda one: self._broken[_key(one)])
        return [*readable, *broken][: self._settings.buckets_per_pass_max]

    def _set_lag(self, pending: Sequence[Pending], now_ms: int) -> None:
        """How many buckets wait that have ended, and how long ago the oldest of them did."""
        for level in LEVELS:
            ends = [one.window_ms + level.bucket_ms for one in pending if one.level == level.name]
            ended = [end_ms for end_ms in ends if end_ms <= now_ms]
            COUNTERS.set("rollup_waiting", len(ended), level=level.name)
            COUNTERS.set("rollup_lag_ms", now_ms - min(ended, default=now_ms), level=level.name)

    def _roll_readable(self, level: str, topic: str, buckets: Sequence[Pending], now_ms: int) -> BrokenPartError | None:
        """Compute the buckets; where they need a part that cannot be read, one by one. The error of the last of which
        that holds is returned."""
        try:
            self._roll(BY_LEVEL[level], topic, buckets, now_ms)
        except BrokenPartError as error:
            if len(buckets) == 1:
                self._broken[_key(buckets[0])] = next(self._tries)
                return error
            errors = [self._roll_readable(level, topic, [one], now_ms) for one in buckets]
            return next((one for one in reversed(errors) if one is not None), None)
        for one in buckets:
            self._broken.pop(_key(one), None)
        return None

    def _roll(self, level: Level, topic: str, buckets: Sequence[Pending], now_ms: int) -> None:
        begun_s = time.monotonic()
        settings = {"max_threads": 1, "max_bytes_before_external_group_by": self._settings.memory_bytes}
        for sql in _inserts(topic, level, tuple(one.window_ms for one in buckets)):
            self._database.finish(sql, settings)
        higher = above(level)
        if higher is not None:
            self._notebook.note(higher, ((topic, higher.bucket_of(one.window_ms)) for one in buckets))
        self._mark_done(buckets, now_ms)
        COUNTERS.add("rollup_buckets", len(buckets), level=level.name, topic=topic)
        COUNTERS.add("rollup_ms", (time.monotonic() - begun_s) * 1_000, level=level.name, topic=topic)

    def _mark_done(self, buckets: Sequence[Pending], now_ms: int) -> None:
        rows = [
            [one.level, one.topic, one.window_ms, writer, number, one.noted_ms, now_ms]
            for one in buckets
            for writer, number in one.notes
        ]
        if rows:
            columns = ("level", "topic", "window_ms", "writer", "done", "noted_ms", "done_ms")
            self._database.insert_rows(NOTES, columns, rows)
