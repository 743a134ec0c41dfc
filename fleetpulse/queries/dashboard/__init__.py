"""The dashboard's catalogue: one SQL file each; its header says what it needs, what it reads, how much may come back.

::

    -- What one line says about the answer.
    -- param top: how many models at most
    -- reads requests: llm.requests 10s <= 1h, 1m <= 24h, 1h <= 60d, 1d
    -- rows: 5000
    -- seconds: 5
    -- kept: 1

``{name:Type}`` places are bound by the server. A ``reads`` line gives the place ``{requests:Identifier}``: the finest
table of that topic whose bound the range keeps, ``*_partials`` for 10s, else a rollup; both have the same columns.
Rollups of ``books`` and ``costs``, which begin at 1m, are named the same way; ``gpu.history`` is gpu.samples
sorted by GPU, for queries about one.
``rows`` and ``seconds`` are what the server holds it to, ``kept`` is how many seconds an answer may be shown again.
Other ``Identifier`` places are columns and must be names that the field tables know. Parameters of ``STANDARD`` are
known everywhere and need no line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from schemas.ddl import book_rollups, cost_rollups, gpu_history
from schemas.ddl.merging import BY_LEVEL, labels_of, measures_of, rollup_table
from schemas.events.event_types import BY_TOPIC
from schemas.limits import DAY_MS, HOUR_MS, MINUTE_MS
from schemas.rows.tables import GROUPED, PARTIALS

STANDARD = {
    "from_ms": "start of the range [ms]",
    "to_ms": "end of the range, not part of it [ms]",
    "bucket_ms": "width of a point of a chart [ms]",
    **dict.fromkeys(
        ("cluster", "region", "model", "tenant", "host", "gpu_model", "engine_id", "status"),
        "only rows of this value; an empty text takes all",
    ),
}
FINEST, WINDOW_MS = "10s", 10_000
_LEVELS = (FINEST, "1m", "1h", "1d")
_OWN: Mapping[str, tuple[Callable[[str], str], tuple[str, ...]]] = {
    "books": (book_rollups.table_of, _LEVELS[1:]),
    "costs": (cost_rollups.table_of, _LEVELS[1:]),
    "gpu.history": (gpu_history.table_of, _LEVELS),
}
"""Tables beside those of topics of events: by the name that ``reads`` has for them, the table of a level, and which
levels there are."""
_UNIT_MS = {"s": 1_000, "m": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS}
_PLACE = re.compile(r"\{(\w+):([^{}]+)\}")
_HEADER = re.compile(r"-- (param (\w+)|reads (\w+)|rows|seconds|kept): (.+)")
_READS = re.compile(r"([\w.]+) (.+)")
_LIMITS = {"rows": 0, "seconds": 5, "kept": 1}
_NAME = re.compile(r"[a-z][a-z0-9_]*")

_SHARED = ("request_cost", "request_cost_of_alert")
"""Queries of the catalogue for people that pages ask too: their headers are as here."""

Value = int | float | str | Sequence[str | int | None]


@dataclass(frozen=True, slots=True)
class Source:
    """A table that is chosen by range. ``levels`` are (level, longest range [ms]), finest first; the last takes all."""

    topic: str
    levels: tuple[tuple[str, int | None], ...]

    def level(self, span_ms: int) -> str:
        """The finest level for a range of this length."""
        return next(level for level, most_ms in self.levels if most_ms is None or span_ms <= most_ms)

    def grain_ms(self, span_ms: int) -> int:
        """Width of a row for a range of this length."""
        level = self.level(span_ms)
        return WINDOW_MS if level == FINEST else BY_LEVEL[level].bucket_ms

    def table(self, level: str) -> str:
        """The table of a level."""
        if self.topic in _OWN:
            table_of, _ = _OWN[self.topic]
            return table_of(level)
        return PARTIALS[self.topic].name if level == FINEST else rollup_table(BY_TOPIC[self.topic], level)


@dataclass(frozen=True, slots=True)
class Query:
    """A query of the catalogue. ``parameters`` are all places with their types, sources included."""

    name: str
    title: str
    sql: str
    parameters: Mapping[str, str]
    meanings: Mapping[str, str]
    sources: Mapping[str, Source]
    rows_max: int
    seconds_max: int
    kept_s: int

    def values(self, given: Mapping[str, Value], span_ms: int) -> dict[str, Value]:
        """What is bound: exactly the query's places, tables among them. ``KeyError`` names a place without a value,
        ``ValueError`` an identifier that is no column."""
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
        """Limits that the server holds the query to."""
        return {
            "max_execution_time": self.seconds_max,
            "max_result_rows": self.rows_max,
            "result_overflow_mode": "throw",
        }

    def at_levels(self, span_ms: int) -> str:
        """The text with its tables and nothing else written in: for tools that bind what is left themselves."""
        text = self.sql
        for name, source in self.sources.items():
            text = text.replace(f"{{{name}:Identifier}}", source.table(source.level(span_ms)))
        return text


@cache
def names() -> tuple[str, ...]:
    """Names of all queries, sorted."""
    own = (entry.name[:-4] for entry in files(__name__).iterdir() if entry.name.endswith(".sql"))
    return tuple(sorted((*own, *_SHARED)))


@cache
def query(name: str) -> Query:
    """A query by its name; ``KeyError`` for an unknown one, ``ValueError`` naming the line for a bad header."""
    if name not in names():
        raise KeyError(name)
    folder = files("fleetpulse.queries" if name in _SHARED else __name__)
    return read(name, folder.joinpath(f"{name}.sql").read_text(encoding="utf-8"))


def read(name: str, text: str) -> Query:
    """A query from its text; ``ValueError`` with file and line for a bad header."""
    header, meanings, sources, limits = [], dict[str, str](), dict[str, Source](), dict(_LIMITS)
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if not line.startswith("--"):
            break
        header.append(line)
        try:
            _take(line, meanings, sources, limits)
        except (ValueError, KeyError) as error:
            raise ValueError(f"{name}.sql:{number}: {error}") from error
    sql = "\n".join(lines[len(header) :]).strip()
    found = dict(_PLACE.findall(sql))
    missing = found.keys() - STANDARD.keys() - meanings.keys() - sources.keys()
    spare = (meanings.keys() | sources.keys()) - found.keys()
    if missing or spare or not limits["rows"]:
        raise ValueError(f"{name}.sql: header without {sorted(missing)}, with unused {sorted(spare)}, or without rows")
    title = header[0].removeprefix("--").strip()
    return Query(name, title, sql, found, meanings, sources, limits["rows"], limits["seconds"], limits["kept"])


def _take(line: str, meanings: dict[str, str], sources: dict[str, Source], limits: dict[str, int]) -> None:
    found = _HEADER.fullmatch(line)
    if found is None:
        return
    what, param, source, rest = found.groups()
    if param:
        meanings[param] = rest
    elif source:
        sources[source] = _source(rest)
    else:
        limits[what] = int(rest)


def _source(text: str) -> Source:
    found = _READS.fullmatch(text)
    if found is None or found[1] not in {*_OWN, *(event.topic for event in GROUPED)}:
        raise ValueError(f"reads must name an aggregated topic, {', '.join(_OWN)}, and its levels, not {text!r}")
    levels: list[tuple[str, int | None]] = []
    _, known = _OWN.get(found[1], (None, _LEVELS))
    for part in found[2].split(","):
        level, _, most = (piece.strip() for piece in part.partition("<="))
        if level not in known:
            raise ValueError(f"a level of {found[1]} must be one of {', '.join(known)}, not {level!r}")
        levels.append((level, int(most[:-1]) * _UNIT_MS[most[-1]] if most else None))
    if levels[-1][1] is not None or any(most is None for _, most in levels[:-1]):
        raise ValueError("every level but the last needs its longest range (10s <= 1h), the last takes what is left")
    return Source(found[1], tuple(levels))


@cache
def _columns() -> frozenset[str]:
    labels = {one.name for event in GROUPED for one in labels_of(event)}
    found = labels | {one.name for event in GROUPED for one in measures_of(event)}
    return frozenset(name for name in found if _NAME.fullmatch(name))
