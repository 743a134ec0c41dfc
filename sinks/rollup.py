"""Minute and hour rollups: whole buckets are computed again from the partial rows and replace what was there.

A bucket is due when partial rows landed in it since it was last rolled up and either it has ended or nothing new came
for a while. Its version is the number of partial rows behind it, which only grows; a bucket that was rolled up from
fewer rows than there are now is rolled up again. A bucket of which part has passed the partials' TTL is left alone:
what is gone cannot be summed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schemas.ddl import LEVELS, dimensions_of, merged_columns, rollup_table
from schemas.limits import DEFAULT_LIMITS
from schemas.tables import PARTIALS
from sinks.database import SinkDatabase
from sinks.landing import Bucket


@dataclass(frozen=True, slots=True)
class RollupSettings:
    """``pass_ms``: how often it looks. ``settle_ms``: quiet time after which a bucket counts as settled."""

    pass_ms: int = 2_000
    settle_ms: int = 4_000
    buckets_per_pass_max: int = 200
    look_back_ms: int = 2 * 24 * 3_600_000


_DUE = """
SELECT level, topic, bucket_ms, noted_ms
FROM dirty_windows FINAL
WHERE noted_ms >= {since:Int64}
ORDER BY noted_ms
"""

_ROLLED = "SELECT level, topic, bucket_ms, partial_rows FROM rolled_windows FINAL WHERE bucket_ms >= {since:Int64}"


def settled(notes: Sequence[tuple[str, str, int, int]], now_ms: int, settings: RollupSettings) -> list[Bucket]:
    """The noted buckets (level, topic, start, noted) that may be rolled up now, oldest note first."""
    expired_ms = now_ms - DEFAULT_LIMITS.partials_ttl_ms
    return [
        (level, topic, bucket_ms)
        for level, topic, bucket_ms, noted_ms in notes
        if bucket_ms > expired_ms
        and (noted_ms + settings.settle_ms <= now_ms or bucket_ms + LEVELS[level] + settings.settle_ms <= now_ms)
    ]


def rollup_sql(topic: str, level: str) -> str:
    """INSERT SELECT that replaces one bucket; parameters bucket and end (ms)."""
    table = PARTIALS[topic]
    merged = dict(merged_columns(topic))
    dimensions = dimensions_of(topic)
    columns, values = [], []
    for field in table.fields:
        if field.name == "window_ms":
            value = "{bucket:Int64}"
        elif field.name == "grouping" or field.name in dimensions:
            value = f"p.{field.name}"
        else:
            value = merged[field.name]
        columns.append(field.name)
        values.append(value)
    series = ", ".join(f"ifNull(p.{name}, '\\0')" for name in dimensions)
    keys = ", ".join(f"p.{name}" for name in ("grouping", *dimensions))
    return (
        f"INSERT INTO {rollup_table(topic, level)} ({', '.join(columns)}, series, version)\n"
        f"SELECT {', '.join(values)}, sipHash64({series}), count()\n"
        f"FROM {table.name} AS p FINAL\n"
        "WHERE p.window_ms >= {bucket:Int64} AND p.window_ms < {end:Int64}\n"
        f"GROUP BY {keys}"
    )


class Rollups:
    """Keeps rollups up to date. ``run_pass`` does a bounded amount of work and returns how many buckets it did."""

    def __init__(self, database: SinkDatabase, settings: RollupSettings | None = None) -> None:
        self._database = database
        self._settings = settings or RollupSettings()

    def run_pass(self, now_ms: int) -> int:
        """Roll up what is due. Raises ``UnavailableError``; what was done stays done."""
        since = now_ms - self._settings.look_back_ms
        notes = self._database.rows(_DUE, {"since": since})
        ready = settled(notes, now_ms, self._settings)
        if not ready:
            return 0
        oldest = min(bucket for _, _, bucket in ready)
        rolled = {
            (level, topic, bucket): count
            for level, topic, bucket, count in self._database.rows(_ROLLED, {"since": oldest})
        }
        behind = self._behind(ready)
        due = [bucket for bucket in ready if behind.get(bucket, 0) != rolled.get(bucket, 0)]
        for bucket in due[: self._settings.buckets_per_pass_max]:
            self._roll(bucket, behind[bucket])
        return min(len(due), self._settings.buckets_per_pass_max)

    def _behind(self, buckets: Sequence[Bucket]) -> dict[Bucket, int]:
        """Partial rows in each of these buckets."""
        found: dict[Bucket, int] = {}
        for level, topic in sorted({(level, topic) for level, topic, _ in buckets}):
            starts = [start for lvl, tpc, start in buckets if (lvl, tpc) == (level, topic)]
            width = LEVELS[level]
            rows = self._database.rows(
                f"SELECT intDiv(window_ms, {width}) * {width} AS bucket, count() FROM {PARTIALS[topic].name} FINAL"
                " WHERE window_ms >= {first:Int64} AND window_ms < {end:Int64} GROUP BY bucket",
                {"first": min(starts), "end": max(starts) + width},
            )
            found |= {(level, topic, start): count for start, count in rows}
        return found

    def _roll(self, bucket: Bucket, behind: int) -> None:
        level, topic, start = bucket
        self._database.command(rollup_sql(topic, level), {"bucket": start, "end": start + LEVELS[level]})
        self._database.command(
            "INSERT INTO rolled_windows VALUES ({level:String}, {topic:String}, {bucket:Int64}, {behind:UInt64})",
            {"level": level, "topic": topic, "bucket": start, "behind": behind},
        )
