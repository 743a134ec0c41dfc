"""Which tables a range is read from: the one place where a query chooses its levels. Pure.

A range of any length and with any ends counts every window that begins in it, once::

    from                                                                 to
     | 10 s rows | minutes |        whole hours        | minutes | 10 s rows |

The middle comes from the coarsest level that the length allows, both edges from the finer ones, down to the finest: at
most 59 minutes and five windows at an end, whatever the length. Sums, counts, sketches and extremes of a level are
those of the rows below it, to the last bit: where a window was read makes no difference to the answer.

Rollups of bills are read of hours and days that are over for as long again, since bills change after their minute;
those of books up to two minutes before the end: a query reads what is newer from the lines. A range that ends in the
future ends now for them.

Rows of 10 s are kept for less long than minutes (``limits.partials_ttl_ms``). A range that begins before that is read
from minutes on, by whole minutes that begin in it: ``Source.by_minutes``. A text for ranges of any length takes minutes
for what of a short range lies before its first row of 10 s.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

from schemas.ddl import book_rollups, cost_rollups, gpu_history
from schemas.ddl.merging import BY_LEVEL, labels_of, measures_of, rollup_table
from schemas.events.event_types import BY_TOPIC
from schemas.limits import DAY_MS, DERIVED_SETTLE_MS, HOUR_MS, MINUTE_MS
from schemas.rows.tables import GROUPED, PARTIALS

FINEST, WINDOW_MS = "10s", 10_000
LEVELS = (FINEST, "1m", "1h", "1d")
ROWS, LABELS, SEEN, WINDOWS, FIRST, OVER = "Rows", "Labels", "Seen", "Windows", "First", "Over"
"""Types of places that become the rows of a range, the same where labels alone count, those that name which labels
there were, its windows, and where what these hold of it begins and ends."""
BEFORE = "Before"
"""The type of a place that becomes the rows of the range that a range of the same length is compared with."""
_FROM, _TO = "{from_ms:Int64}", "{to_ms:Int64}"
_BEFORE_FROM, _BEFORE_TO = "{before_from_ms:Int64}", "{before_to_ms:Int64}"
_SPAN = f"{_TO} - {_FROM}"
_TO_NOW = f"least({_TO}, (SELECT toUnixTimestamp64Milli(now64(3))))"
"""A scalar subquery: one moment for all levels, and for all shards."""
_UNIT_MS = {"s": 1_000, "m": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS}
_WORD = re.compile(r"\b[a-z][a-z0-9_]*\b")
_COLUMN = re.compile(r"\{\w+:Identifier\}")
_WIDTH = re.compile(r"(?<!\{)\bwidth_ms\b")
_READS = re.compile(r"([\w.]+) (.+)")
_NAMED = re.compile(r"^-- reads (\w+): (.+)$", re.MULTILINE)
_OWN: Mapping[str, tuple[Callable[[str], str], tuple[str, ...]]] = {
    "books": (book_rollups.table_of, LEVELS[1:]),
    "costs": (cost_rollups.table_of, LEVELS[1:]),
    "gpu.history": (gpu_history.table_of, LEVELS),
}
"""Tables beside those of topics of events: by the name that ``reads`` has for them, the table of a level, and which
levels there are."""


@dataclass(frozen=True, slots=True)
class Source:
    """Tables of one kind. ``levels`` are (level, longest range [ms]), finest first; the last takes all."""

    topic: str
    levels: tuple[tuple[str, int | None], ...]

    def by_minutes(self) -> Source:
        """The same for a range whose rows of 10 s are gone."""
        (finest, most_ms), *coarser = self.levels
        if finest != FINEST:
            return self
        return replace(self, levels=(*([] if coarser and coarser[0][0] == "1m" else [("1m", most_ms)]), *coarser))

    def level(self, span_ms: int) -> str:
        """The finest level for a range of this length: that of its middle."""
        return next(level for level, most_ms in self.levels if most_ms is None or span_ms <= most_ms)

    def grain_ms(self, span_ms: int) -> int:
        """Width of a row for a range of this length."""
        return _width_ms(self.level(span_ms))

    def table(self, level: str) -> str:
        """The table of a level."""
        if self.topic in _OWN:
            table_of, _ = _OWN[self.topic]
            return table_of(level)
        return PARTIALS[self.topic].name if level == FINEST else rollup_table(BY_TOPIC[self.topic], level)

    def grain_sql(self) -> str:
        """The width of a row as SQL, of a range whose length is known when the text is run."""
        widths = [f"{_SPAN} <= {most_ms}, {_width_ms(level)}" for level, most_ms in self.levels[:-1]]
        return f"multiIf({', '.join(widths)}, {_width_ms(self.levels[-1][0])})"

    def grain_kept_sql(self) -> str:
        """The least width of a row of a short range as SQL: that of the level above where rows of 10 s are gone that
        were there, however long they are kept; else 1. Empty: it reads none of 10 s."""
        if self.levels[0][0] != FINEST or len(self.levels) == 1:
            return ""
        level = self.levels[1][0]
        gone = f"SELECT count() > 0 FROM {self.table(level)} WHERE {self._before_finest(level)}"
        return f"if(({gone}), {_width_ms(level)}, 1)"

    def rows(
        self, span_ms: int | None, sql: str, ends_ms: tuple[int, int] | None = None, *, final: str = " FINAL"
    ) -> str:
        """Rows of ``[from_ms, to_ms)``, a range of this length, as a subquery with the columns that ``sql`` names,
        ``width_ms`` of a row among them. With its ends, levels that have no window of that very range are left out.
        None: of any length, which chooses the levels when the text is run. Without ``final`` a row may come several
        times, with the same labels."""
        named, wide = self._named(sql), bool(_WIDTH.search(sql))
        return _union(
            f"    SELECT {named}{_as_width(level) if wide else ''}\n"
            f"    FROM {self.table(level)}{final}\n    WHERE {where}\n"
            for level, where in self._parts(span_ms, ends_ms)
        )

    def seen(self, span_ms: int | None, sql: str) -> str:
        """Rows that name which labels there were in windows that reach into a range of this length: those of the
        coarsest level, and of finer ones what is newer, since an hour may be rolled up only once it is over. A row may
        come several times."""
        levels = [level for level, _ in self.levels]
        named, parts, above = self._named(sql), list[str](), ""
        for level in reversed(levels if span_ms is None else levels[: levels.index(self.level(span_ms)) + 1]):
            width_ms, table = _width_ms(level), self.table(level)
            begin = f"greatest({_FROM}, ({above}))" if above else _FROM
            where = f"window_ms >= intDiv({begin}, {width_ms}) * {width_ms} AND window_ms < {_TO}"
            parts.append(f"    SELECT {named}\n    FROM {table}\n    WHERE {where}\n")
            of_range = f"window_ms >= intDiv({_FROM}, {width_ms}) * {width_ms} AND window_ms < {_TO}"
            above = f"SELECT max(last_at_ms) FROM {table} WHERE {of_range}"
        return _union(parts)

    def windows(self, span_ms: int | None, ends_ms: tuple[int, int] | None = None) -> str:
        """Their windows alone, with ``width_ms`` and ``grouping``; one may come several times."""
        return _union(
            f"    SELECT window_ms{_as_width(level)}, grouping\n    FROM {self.table(level)}\n    WHERE {where}\n"
            for level, where in self._parts(span_ms, ends_ms)
        )

    def ends(self) -> tuple[str, str]:
        """Where what these rows hold of the range begins and ends [ms], as SQL."""
        return self._ends(self.levels[0][0], finest=True)

    def _named(self, sql: str) -> str:
        """Columns that a query names."""
        known = _columns_of(self.topic)
        named = dict.fromkeys(word for word in _WORD.findall(sql) if word in known)
        return ", ".join([*named, *sorted({*_COLUMN.findall(sql)})])

    def _parts(self, span_ms: int | None, ends_ms: tuple[int, int] | None) -> Iterator[tuple[str, str]]:
        """Levels that a range is read from, each with the condition on its windows; at least one."""
        if span_ms is None:
            yield from self._parts_of_any()
            return
        middle = self.level(span_ms)
        read = [level for level, _ in self.levels]
        read = read[: read.index(middle) + 1]
        for place, level in enumerate(read):
            first, over = self._ends(level, finest=place == 0)
            where = f"window_ms >= {first} AND window_ms < {over}"
            if level == middle:
                yield level, where
            elif ends_ms is None or self._has_edges(level, read[place + 1], ends_ms, finest=place == 0):
                first, over = self._ends(read[place + 1])
                yield level, f"{where}\n        AND (window_ms < {first} OR window_ms >= {over})"

    def _parts_of_any(self) -> Iterator[tuple[str, str]]:
        """All levels, each with a condition that is constant and false for ranges that do not need it."""
        for place, (level, most_ms) in enumerate(self.levels):
            first, over = self._ends(level, finest=place == 0)
            where = f"window_ms >= {first} AND window_ms < {over}"
            if place:
                where += f" AND {_SPAN} > {self.levels[place - 1][1]}"
            if most_ms is not None:
                first, over = self._ends(self.levels[place + 1][0])
                where += f"\n        AND ({_SPAN} <= {most_ms} OR window_ms < {first} OR window_ms >= {over})"
            if place == 1 and self.levels[0][0] == FINEST:
                where = f"({where}\n        OR {self._before_finest(level)})"
            yield level, where

    def _before_finest(self, level: str) -> str:
        """Rows of a short range before its first row of 10 s: what is no longer kept by 10 s, else none."""
        begun = f"window_ms >= {_FROM} AND window_ms < {_TO} AND {_SPAN} <= {self.levels[0][1]}"
        first = f"SELECT minOrNull(window_ms) FROM {self.table(FINEST)} WHERE {begun}"
        width_ms = _width_ms(level)
        return f"{begun} AND window_ms < intDiv(ifNull(({first}), {_TO}), {width_ms}) * {width_ms}"

    def _has_edges(self, level: str, above: str, ends_ms: tuple[int, int], *, finest: bool) -> bool:
        """Whether a level has windows of the range between these moments that the one above it has not, or may have
        when the text is run."""
        (from_ms, to_ms), (width_ms, settles_ms) = ends_ms, self._rounding(level, finest=finest)
        wider_ms, later_ms = self._rounding(above)
        if later_ms:
            return True
        begin_ms = -(-from_ms // _width_ms(level)) * _width_ms(level)
        over_ms = (to_ms - settles_ms) // width_ms * width_ms
        return begin_ms < -(-from_ms // wider_ms) * wider_ms or (to_ms - later_ms) // wider_ms * wider_ms < over_ms

    def _rounding(self, level: str, *, finest: bool = False) -> tuple[int, int]:
        """Of the range a level has what lies between its start rounded up to the first number, and its end less the
        second, rounded down to the first [ms]. 1: as it is."""
        if finest and self.topic != "books":
            return 1, 0
        width_ms = _width_ms(level)
        return width_ms, {"costs": width_ms, "books": DERIVED_SETTLE_MS}.get(self.topic, 0)

    def _ends(self, level: str, *, finest: bool = False) -> tuple[str, str]:
        """Where what a level has of the range begins and ends, as SQL."""
        width_ms, settles_ms = self._rounding(level, finest=finest)
        if width_ms == 1:
            return _FROM, _TO
        to = f"{_TO_NOW} - {settles_ms}" if settles_ms else _TO
        return f"intDiv({_FROM} + {width_ms - 1}, {width_ms}) * {width_ms}", f"intDiv({to}, {width_ms}) * {width_ms}"


def read_source(text: str) -> Source:
    """``llm.requests 10s <= 1h, 1m <= 24h, 1d`` as a source; ``ValueError`` says what is wrong with it."""
    found = _READS.fullmatch(text)
    if found is None or found[1] not in {*_OWN, *(event.topic for event in GROUPED)}:
        raise ValueError(f"reads must name an aggregated topic, {', '.join(_OWN)}, and its levels, not {text!r}")
    levels: list[tuple[str, int | None]] = []
    _, known = _OWN.get(found[1], (None, LEVELS))
    for part in found[2].split(","):
        level, _, most = (piece.strip() for piece in part.partition("<="))
        if level not in known:
            raise ValueError(f"a level of {found[1]} must be one of {', '.join(known)}, not {level!r}")
        levels.append((level, int(most[:-1]) * _UNIT_MS[most[-1]] if most else None))
    if levels[-1][1] is not None or any(most is None for _, most in levels[:-1]):
        raise ValueError("every level but the last needs its longest range (10s <= 1h), the last takes what is left")
    return Source(found[1], tuple(levels))


def sources_of(text: str) -> dict[str, Source]:
    """Sources that ``-- reads requests: ...`` lines of a query name; ``ValueError`` as ``read_source``."""
    return {name: read_source(rest) for name, rest in _NAMED.findall(text)}


def with_rows(
    sql: str, sources: Mapping[str, Source], span_ms: int | None, ends_ms: tuple[int, int] | None = None
) -> str:
    """The query with its places of sources filled, as ``Source.rows`` says."""
    named = "\n".join(line for line in sql.splitlines() if not line.startswith("--"))
    for name, source in sources.items():
        sql = sql.replace(f"{{{name}:{ROWS}}}", source.rows(span_ms, named, ends_ms))
        before = source.rows(span_ms, named).replace(_FROM, _BEFORE_FROM).replace(_TO, _BEFORE_TO)
        sql = sql.replace(f"{{{name}:{BEFORE}}}", before)
        sql = sql.replace(f"{{{name}:{LABELS}}}", source.rows(span_ms, named, ends_ms, final=""))
        sql = sql.replace(f"{{{name}:{SEEN}}}", source.seen(span_ms, named))
        sql = sql.replace(f"{{{name}:{WINDOWS}}}", source.windows(span_ms, ends_ms))
        for place, moment in zip((FIRST, OVER), source.ends(), strict=True):
            sql = sql.replace(f"{{{name}:{place}}}", moment)
    return sql


def _union(parts: Iterable[str]) -> str:
    return "(\n" + "    UNION ALL\n".join(parts) + ")"


def _width_ms(level: str) -> int:
    return WINDOW_MS if level == FINEST else BY_LEVEL[level].bucket_ms


def _as_width(level: str) -> str:
    return f", toInt64({_width_ms(level)}) AS width_ms"


@cache
def _columns_of(topic: str) -> frozenset[str]:
    """Columns that the tables of all levels have."""
    if topic == "books":
        return frozenset({"window_ms", *book_rollups.COLUMNS})
    if topic == "costs":
        return frozenset({"window_ms", *cost_rollups.COLUMNS})
    event = BY_TOPIC["gpu.samples" if topic == "gpu.history" else topic]
    measures = {one.name for one in measures_of(event)}
    return frozenset({"window_ms", "last_at_ms", "grouping", *(one.name for one in labels_of(event)), *measures})
