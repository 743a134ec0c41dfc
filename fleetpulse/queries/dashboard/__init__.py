"""The dashboard's catalogue: one SQL file each; its header says what it needs, what it reads, how much may come back.

::

    -- What one line says about the answer.
    -- param top: how many models at most
    -- reads requests: llm.requests 10s <= 1h, 1m <= 24h, 1h <= 60d, 1d
    -- rows: 5000
    -- kept: 1

``{name:Type}`` places are bound by the server. A ``reads`` line gives the place ``{requests:Rows}``: the rows of the
range, its middle from the coarsest table of that topic whose bound it exceeds and both edges from finer ones
(``fleetpulse.queries.levels``), so that every window that begins in the range counts once. ``{requests:Labels}`` are
the same where nothing but labels counts: a row may come several times, and costs much less. ``{requests:Seen}`` tell
which labels there were in whole hours or days, and since then in finer rows. ``{requests:Windows}``
are their windows alone, with ``width_ms``; ``{requests:First}`` and ``{requests:Over}`` are where they begin and end,
for queries that read the rest elsewhere; ``{requests:Identifier}`` is the table of the middle alone, for queries
that compare windows of one width. Rollups of ``books`` and ``costs``, which begin at 1m, are named the same way;
``gpu.history`` is gpu.samples sorted by GPU, for queries about one.
``{failed:Metric}`` is the expression that ``schemas.definitions`` has for it, ``{open_at_end:Alerts}`` a piece of
``fleetpulse.queries.alerts``, ``{every:Overflow}`` what ``fleetpulse.queries.overflow`` makes of all its sources.
``rows`` is what the server holds it to, ``kept`` is how many seconds an answer may be shown again.
Other ``Identifier`` places are columns and must be names that the field tables know. Parameters of ``STANDARD`` are
known everywhere and need no line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from fleetpulse.queries.alerts import with_alerts
from fleetpulse.queries.levels import (
    FIRST,
    LABELS,
    OVER,
    ROWS,
    SEEN,
    WINDOWS,
    Source,
    sources_of,
    with_rows,
)
from fleetpulse.queries.overflow import with_overflow
from schemas.ddl.merging import labels_of, measures_of
from schemas.definitions import BY_MINUTE_MS, written
from schemas.rows.tables import GROUPED

STANDARD = {
    "from_ms": "start of the range [ms]",
    "to_ms": "end of the range, not part of it [ms]",
    "bucket_ms": "width of a point of a chart [ms]",
    **dict.fromkeys(
        ("cluster", "region", "model", "tenant", "host", "gpu_model", "engine_id", "status"),
        "only rows of this value; an empty text takes all",
    ),
}
_PLACE = re.compile(r"\{(\w+):([^{}]+)\}")
_LISTED = re.compile(r"LIMIT (\d+)\Z")
_GROUPED = re.compile(r"\bgrouping (?:=|IN) \(?('\w+'(?:, '\w+')*)")
_OF_SOURCES = (ROWS, LABELS, SEEN, WINDOWS, FIRST, OVER)
_HEADER = re.compile(r"-- (param (\w+)|rows|kept): (.+)")
_LIST = re.compile(r"-- list: (\d+) by (.+)")
_LIMITS = {"rows": 0, "kept": 1}
_NAME = re.compile(r"[a-z][a-z0-9_]*")

SECONDS_MAX = 20
"""What the server stops every query of a page after. One limit for all: how long a cheap query takes says how busy the
server is, and a page of a busy server waits rather than asking for a shorter range."""
SHARED = ("cost_by_day", "latency_rise", "request_cost", "request_cost_of_alert")
"""Queries of the catalogue for people that pages ask too: their headers are as here."""

Value = int | float | str | Sequence[str | int | None]


@dataclass(frozen=True, slots=True)
class Query:
    """A query of the catalogue. ``parameters`` are all places that are bound, with their types; ``unlisted`` is its
    text without the order and limit that its header gives it, None where it gives none."""

    name: str
    title: str
    sql: str
    parameters: Mapping[str, str]
    meanings: Mapping[str, str]
    sources: Mapping[str, Source]
    rows_max: int
    kept_s: int
    unlisted: str | None = None

    def whole(self) -> Query:
        """All of its rows, in no order. ``ValueError`` where order and limit are no part of its header."""
        if self.unlisted is None:
            raise ValueError(f"{self.name} must have its order and limit in its header (-- list: ROWS by COLUMNS)")
        return replace(self, sql=self.unlisted, unlisted=None)

    def kept(self, from_ms: object, kept_from_ms: int) -> Query:
        """The same for a range that begins there: of minutes where it begins before rows of 10 s are kept."""
        if not isinstance(from_ms, int) or from_ms >= kept_from_ms:
            return self
        return replace(self, sources={name: source.by_minutes() for name, source in self.sources.items()})

    @property
    def listed_max(self) -> int | None:
        """How many rows its text ends with at most; None where that is a parameter or not said."""
        found = _LISTED.search(self.sql)
        return int(found[1]) if found else None

    @property
    def groupings(self) -> frozenset[str]:
        """Names of the grouping sets whose rows it reads: those that its text compares with."""
        return frozenset(name for listed in _GROUPED.findall(self.sql) for name in re.findall(r"\w+", listed))

    def values(self, given: Mapping[str, Value], span_ms: int) -> dict[str, Value]:
        """What is bound of the text ``at_levels``: exactly the query's places, tables among them. ``KeyError`` names a
        place without a value, ``ValueError`` an identifier that is no column."""
        tables = {name: source.table(source.level(span_ms)) for name, source in self.sources.items()}
        found = {name: tables[name] if name in tables else given[name] for name in self.parameters}
        if "bucket_ms" in found:
            bucket_ms = found["bucket_ms"]
            assert isinstance(bucket_ms, int)
            found["bucket_ms"] = max(bucket_ms, self.grain_ms(span_ms))
        for name, kind in self.parameters.items():
            if kind == "Identifier" and name not in tables and found[name] not in _columns():
                raise ValueError(f"{name} of {self.name} must be a column, not {found[name]!r}")
        return found

    def grain_ms(self, span_ms: int) -> int:
        """Width of the rows it reads over a range of this length: points of a chart can't be closer."""
        return max((source.grain_ms(span_ms) for source in self.sources.values()), default=1)

    def settings(self) -> dict[str, int | str]:
        """Limits that the server holds the query to; and columns that rows are sorted by are read before others, which
        changes no answer: rows that are copies of one another agree in them."""
        return {
            "max_execution_time": SECONDS_MAX,
            "max_result_rows": self.rows_max,
            "result_overflow_mode": "throw",
            "optimize_move_to_prewhere_if_final": 1,
        }

    def grain_sql(self) -> str:
        """The same as SQL, of a range whose length is known when the text is run."""
        grains = [grain for source in self.sources.values() for grain in (source.grain_sql(), source.grain_kept_sql())]
        return f"greatest({', '.join(['1', *dict.fromkeys(filter(None, grains))])})"

    def at_levels(self, span_ms: int | None, bound: Mapping[str, Value] | None = None) -> str:
        """The text for a range of this length, with its tables and nothing else written in; with what is ``bound`` of
        it, without the levels that have no window of that very range. None: for a range of any length; tables that are
        read alone are then those of the finest level."""
        ends_ms = None
        if bound is not None and self.sources:
            from_ms, to_ms = bound.get("from_ms"), bound.get("to_ms")
            ends_ms = (from_ms, to_ms) if isinstance(from_ms, int) and isinstance(to_ms, int) else None
        text = self.sql
        for name, source in self.sources.items():
            text = text.replace(f"{{{name}:Identifier}}", source.table(source.level(span_ms or 0)))
        return with_rows(text, self.sources, span_ms, ends_ms)


@cache
def names() -> tuple[str, ...]:
    """Names of all queries, sorted."""
    own = (entry.name[:-4] for entry in files(__name__).iterdir() if entry.name.endswith(".sql"))
    return tuple(sorted((*own, *SHARED)))


def covered(span_ms: int) -> str:
    """Name of the query that says how much of a range of this length has data."""
    return "covered_closely" if span_ms <= BY_MINUTE_MS else "covered"


@cache
def query(name: str) -> Query:
    """A query by its name; ``KeyError`` for an unknown one, ``ValueError`` naming the line for a bad header."""
    if name not in names():
        raise KeyError(name)
    folder = files("fleetpulse.queries" if name in SHARED else __name__)
    return read(name, folder.joinpath(f"{name}.sql").read_text(encoding="utf-8"))


def read(name: str, text: str) -> Query:
    """A query from its text; ``ValueError`` with file and line for a bad header."""
    header, meanings, sources, limits = [], dict[str, str](), dict[str, Source](), dict(_LIMITS)
    tail = ""
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if not line.startswith("--"):
            break
        header.append(line)
        if (listed := _LIST.fullmatch(line)) is not None:
            tail = f"\nORDER BY {listed[2]}\nLIMIT {listed[1]}"
        try:
            sources |= sources_of(line)
            _take(line, meanings, limits)
        except (ValueError, KeyError) as error:
            raise ValueError(f"{name}.sql:{number}: {error}") from error
    sql = with_overflow(with_alerts(written("\n".join(lines[len(header) :]).strip())), sources)
    found = dict(_PLACE.findall(sql))
    if set(_OF_SOURCES) & {kind for _, kind in _PLACE.findall(sql)}:
        found |= {"from_ms": "Int64", "to_ms": "Int64"}
    missing = found.keys() - STANDARD.keys() - meanings.keys() - sources.keys()
    spare = (meanings.keys() | sources.keys()) - found.keys()
    if missing or spare or not limits["rows"]:
        raise ValueError(f"{name}.sql: header without {sorted(missing)}, with unused {sorted(spare)}, or without rows")
    parameters = {place: kind for place, kind in found.items() if kind not in _OF_SOURCES}
    title = header[0].removeprefix("--").strip()
    whole = sql if tail else None
    return Query(name, title, sql + tail, parameters, meanings, sources, limits["rows"], limits["kept"], whole)


def _take(line: str, meanings: dict[str, str], limits: dict[str, int]) -> None:
    found = _HEADER.fullmatch(line)
    if found is None:
        return
    what, param, rest = found.groups()
    if param:
        meanings[param] = rest
    else:
        limits[what] = int(rest)


@cache
def _columns() -> frozenset[str]:
    labels = {one.name for event in GROUPED for one in labels_of(event)}
    found = labels | {one.name for event in GROUPED for one in measures_of(event)}
    return frozenset(name for name in found if _NAME.fullmatch(name))
