"""How partial rows merge, as SQL: one expression per measure. Views and rollups are both made of these.

Every rule is exact and independent of order: counts, sums and bins add, min and max take the extreme, ``_last`` comes
from the row with the greatest (last_at_ms, value), where null is less than any value: what was not known at the last
moment is null, as it is within a row. Merging what is merged already gives the same, so a
minute of ten-second rows, an hour of minutes and an hour of ten-second rows agree to the last bit.

Sums are Int64, which one series and at most one day always fit: a day of microseconds up to 107 million requests in
flight at every moment (1M requests/s of 10 s are 10 million), a day of bytes up to 107 TB a second (a GPU of 288 GB,
read ten times a second, is 2.9). Many series or days do not fit: queries sum ``toInt128`` of these columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schemas.events.grouping import derived_of, sets_of
from schemas.fields import Event, Field, Kind, Role
from schemas.limits import DAY_MS, HOUR_MS, MINUTE_MS
from schemas.rows.tables import PARTIALS


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure column: its name, ClickHouse type, the aggregate over table ``p`` that merges it, and its meaning."""

    name: str
    type: str
    sql: str
    meaning: str
    unit: str


LATEST = "tupleElement(argMax(tuple(p.{0}), (p.last_at_ms, ifNull(p.{0}, -9223372036854775807))), 1)"
"""A tuple keeps nulls: argMax alone would skip a row that does not know its latest value, and show an older one."""


def _rule(name: str) -> tuple[str, str]:
    """Type and aggregate by the end of a partials column's name."""
    if name == "last_at_ms":
        return "Int64", "max(p.{0})"
    if name == "definition_version":
        return "UInt32", "max(p.{0})"
    if name.endswith("_count"):
        return "UInt64", "sum(p.{0})"
    if name.endswith("_min"):
        return "Nullable(Int64)", "min(p.{0})"
    if name.endswith("_max"):
        return "Nullable(Int64)", "max(p.{0})"
    if name.endswith("_last"):
        return "Nullable(Int64)", LATEST
    if name.endswith("_bins"):
        return "Map(Int16, UInt64)", "sumMap(p.{0})"
    assert name.endswith("_sum"), name
    return "", "sum(p.{0})"


def _measure(field: Field) -> Measure:
    kind, sql = _rule(field.name)
    return Measure(field.name, kind or field.kind.value, sql.format(field.name), field.meaning, field.unit)


def measures_of(event: Event) -> tuple[Measure, ...]:
    """All measures of an event's partials, in wire order; what is left are ``window_ms`` and the labels."""
    fields = PARTIALS[event.topic].fields
    return tuple(_measure(field) for field in fields if field.name != "window_ms" and field.kind is not Kind.LABEL)


def labels_of(event: Event) -> tuple[Field, ...]:
    """The labels of an event's partials behind ``grouping``: its dimensions and the derived ones."""
    names = {field.name for field in event.of(Role.DIMENSION)} | {one.name for one in derived_of(event.topic)}
    return tuple(field for field in PARTIALS[event.topic].fields if field.name in names)


@dataclass(frozen=True, slots=True)
class Level:
    """A rollup level: buckets of ``bucket_ms``, computed from the rows of the level ``below`` (None: from partials)."""

    name: str
    bucket_ms: int
    below: str | None

    def bucket_of(self, at_ms: int) -> int:
        """Start of the bucket that holds this moment."""
        return at_ms - at_ms % self.bucket_ms


LEVELS = (Level("1m", MINUTE_MS, None), Level("1h", HOUR_MS, "1m"), Level("1d", DAY_MS, "1h"))
BY_LEVEL = {level.name: level for level in LEVELS}


def above(level: Level) -> Level | None:
    """The level that is computed from this one; None for the last."""
    return next((other for other in LEVELS if other.below == level.name), None)


def rollup_table(event: Event, level: str) -> str:
    """Name of a rollup table, such as ``llm_requests_rollup_1m``."""
    return f"{event.topic.replace('.', '_')}_rollup_{level}"


def rollup_inserts(event: Event, level: Level, buckets: tuple[int, ...]) -> tuple[str, ...]:
    """The statements that together are ``rollup_insert``: one for each grouping set, so that none takes longer than the
    largest of them. The last takes rows of sets that this version does not know, too."""
    first = [one.name for one in sets_of(event.topic)][:-1]
    others = ", ".join(f"'{name}'" for name in first)
    wanted = [*(f"p.grouping = '{name}'" for name in first), f"p.grouping NOT IN ({others})" if first else ""]
    return tuple(rollup_insert(event, level, buckets, where) for where in wanted)


def rollup_insert(event: Event, level: Level, buckets: tuple[int, ...], where: str = "") -> str:
    """The statement that computes whole buckets again from the level below and replaces them by key, of rows of which
    ``where`` holds.

    ``version`` is the number of partial rows behind a row; it only grows, so the fullest computation stays whatever
    the order in which computations arrive.
    """
    assert buckets
    assert all(bucket % level.bucket_ms == 0 for bucket in buckets)
    source = PARTIALS[event.topic].name if level.below is None else rollup_table(event, level.below)
    within = ranges("p.window_ms", level, buckets)
    within = f"{where} AND ({within})" if where else within
    version = "count()" if level.below is None else "sum(p.version)"
    labels = ["grouping", *(field.name for field in labels_of(event))]
    measures = measures_of(event)
    bucket = f"intDiv(p.window_ms, {level.bucket_ms}) * {level.bucket_ms}"
    columns = ["window_ms", *labels, *(measure.name for measure in measures), "version"]
    picked = [
        f"{bucket} AS bucket_ms",
        *(f"p.{name}" for name in labels),
        *(measure.sql for measure in measures),
        version,
    ]
    return (
        f"INSERT INTO {rollup_table(event, level.name)} ({', '.join(columns)})\n"
        f"SELECT {', '.join(picked)}\n"
        f"FROM {source} AS p FINAL\nWHERE {within}\n"
        f"GROUP BY bucket_ms, {', '.join(f'p.{name}' for name in labels)}"
    )


def ranges(column: str, level: Level, buckets: Sequence[int]) -> str:
    """The condition that a moment is in one of these buckets; those that touch one another become one range."""
    found: list[list[int]] = []
    for bucket in sorted(set(buckets)):
        if found and found[-1][1] == bucket:
            found[-1][1] = bucket + level.bucket_ms
        else:
            found.append([bucket, bucket + level.bucket_ms])
    return " OR ".join(f"({column} >= {start} AND {column} < {end})" for start, end in found)
