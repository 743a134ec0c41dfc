"""Which hours of which tables a copy lacks, of what both hold: pure SQL and comparisons.

Hours of a table are compared by the number of their rows, a hash of the rows' identities, and the sum of their
versions where rows have one. Rows that are copied have an identity, so that copying one that was there changes nothing;
of rollups and bills the greatest version stands. Producers' books are compared by what they say, of which the greatest
stands. Of rollups a bucket counts that the span begins in. An hour that each of two copies has a part of is whole in
the one that was filled; its rollups are noted to be computed again there. Raw events are in the span by the time they
were appended, whatever time they say of themselves, and an hour of theirs is copied whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from schemas.contract.topics import BOOKS_TOPIC, COSTS_TOPIC
from schemas.ddl import slowest_hours
from schemas.ddl.kept import kept
from schemas.ddl.merging import LEVELS
from schemas.ddl.tables import NOTES
from schemas.limits import HOUR_MS, Limits
from schemas.rows.costs import COSTS
from schemas.rows.tables import BOOKS, GROUPED, PARTIALS, PRODUCER_BOOKS

Contents = Mapping[int, tuple[int, ...]]
"""By start of the hour [ms] what its rows come to."""
_ROLLED = {PARTIALS[event.topic].name: event.topic for event in GROUPED} | {BOOKS.name: BOOKS_TOPIC}
ROLLED: Mapping[str, str] = _ROLLED | {COSTS.name: COSTS_TOPIC}
"""Topic that notes of rollups name, by the table whose rows they are computed from."""
_LAST = "clock_skew_ms"
"""Of producers' books the row inserted last says it: copies differ in it that lack nothing."""


@dataclass(frozen=True, slots=True)
class Copied:
    """A table as the server describes it: the column of its time, the columns of its identity, and those that are
    stored as they are inserted. ``span``: the column by which rows are in the span, where that is another than
    ``time``."""

    table: str
    time: str
    key: str
    columns: tuple[str, ...]
    span: str = ""

    def contents(self, from_ms: int, to_ms: int) -> str:
        """The query of what hours come to."""
        version = "sum(version)" if "version" in self.columns else "toUInt64(0)"
        told = ", ".join(one for one in self.columns if one != _LAST) if self.table == PRODUCER_BOOKS.name else self.key
        width_ms = max((one.bucket_ms for one in LEVELS if self.table.endswith(f"_rollup_{one.name}")), default=1)
        bound = self.span or self.time
        return (
            f"SELECT intDiv({self.time}, {HOUR_MS}) * {HOUR_MS} AS hour_ms, count(),"
            f" groupBitXor(cityHash64(toString(tuple({told})))), {version}\nFROM {self.table} FINAL\n"
            f"WHERE {bound} >= {from_ms - from_ms % width_ms} AND {bound} < {to_ms}\nGROUP BY hour_ms"
        )

    def rows(self, hour_ms: int) -> str:
        """The query of an hour's rows."""
        return (
            f"SELECT {', '.join(self.columns)}\nFROM {self.table} FINAL\n"
            f"WHERE {self.time} >= {hour_ms} AND {self.time} < {hour_ms + HOUR_MS}"
        )


def tables_of(limits: Limits, keys: Mapping[str, str], columns: Mapping[str, Sequence[str]]) -> tuple[Copied, ...]:
    """The tables to compare, by their sorting keys and columns; what is computed from others comes last."""
    found = [
        Copied(
            one.table,
            _sorted_by(one.column, columns[one.table]),
            keys[one.table],
            tuple(columns[one.table]),
            span=one.column,
        )
        for one in kept(limits)
        if one.table not in (NOTES, slowest_hours.TABLE) and one.table in keys
    ]
    return tuple(sorted(found, key=lambda one: "_rollup_" in one.table))


def _sorted_by(column: str, columns: Sequence[str]) -> str:
    """Raw events are kept by the time they were appended, and sorted by their own, which may be any: senders' clocks
    say it. So the span is of the former and the hours are of the latter."""
    return "at_ms" if column == "appended_ms" and "at_ms" in columns else column


def lacking(source: Contents, target: Contents) -> list[int]:
    """The hours of the source that the target has not, or not as they are there."""
    return sorted(hour_ms for hour_ms, found in source.items() if target.get(hour_ms) != found)


def dirty(table: str, hours: Sequence[int]) -> Iterator[tuple[str, int]]:
    """The buckets of the finest level that are to be computed again where these hours of a table were copied."""
    if (topic := ROLLED.get(table)) is not None:
        width_ms = LEVELS[0].bucket_ms
        yield from ((topic, at_ms) for hour_ms in hours for at_ms in range(hour_ms, hour_ms + HOUR_MS, width_ms))
