"""What a database needs, of what it is: pure.

Files that were not applied are applied in order; a database with nothing in it gets at once what they make together,
and is noted as one to which they were applied. Of those that were, the checksum must be that of the file shipped (one
that no release has yet runs again where it changed), and what they made must be there. A database of fleetpulse 0.1.0,
whose history is the table ``schema_migrations``, is brought to the state behind the baseline by a file of its own.
TTLs are brought to ``limits`` of the configuration; one that somebody wrote by hand in another form is left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fleetpulse.migrate.plan import ApplyFile, Plan, Restore, SetTtl, Step
from schemas.ddl import views
from schemas.ddl.declared import made
from schemas.ddl.files import HISTORY, Migration, Names, statements_of
from schemas.ddl.kept import Kept
from schemas.ddl.sharded import LOCAL
from schemas.errors import ContractError
from schemas.limits import DAY_MS, SECOND_MS

OLD_HISTORY = "schema_migrations"
"""The history that 0.1.0 kept."""
OVER_SHARDS = "Distributed"
VERSION_MIN = (25, 10)
"""Of ClickHouse. Tables name settings that older ones do not know."""
REPLICATES = ("Replicated", "Shared")
"""Engines of databases whose statements reach every server: of a cluster with Keeper, of ClickHouse Cloud."""
OLD_FILES = 21
"""Files of 0.1.0 without which tables are missing; two more changed only how columns are packed."""
_TTL = re.compile(
    r"toDateTime\(intDiv\((?P<column>\w+), 1000\)\) \+ toInterval(?P<unit>Second|Day)\((?P<count>\d+)\)"
    r"(?: WHERE (?P<where>.+))?"
)
_UNIT_MS = {"Second": SECOND_MS, "Day": DAY_MS}
_ABOUT = re.compile(r"(?:ALTER TABLE|INSERT INTO|DROP VIEW IF EXISTS) (\w+)")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a database must become. ``upgrade`` is the text that brings one of 0.1.0 behind the baseline; ``released``
    names the files that never change. ``at_once`` makes in an empty database what all files and ``kept`` make."""

    files: tuple[Migration, ...]
    upgrade: str
    kept: tuple[Kept, ...]
    released: Collection[str] = ()
    at_once: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LiveTable:
    """``ttl`` is the text behind TTL, empty without one; ``rows`` may be estimated. ``whole_parts``: they go with their
    parts alone."""

    ttl: str = ""
    rows: int = 0
    whole_parts: bool = False


@dataclass(frozen=True, slots=True)
class LiveDatabase:
    """A database as it is. ``applied``: name and checksum by the number of the file; ``old``: numbers of files that
    0.1.0 applied. ``views`` are names; ``functions``, those of the server: text by name."""

    name: str
    tables: Mapping[str, LiveTable] = field(default_factory=dict)
    views: frozenset[str] = frozenset()
    functions: Mapping[str, str] = field(default_factory=dict)
    applied: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    old: frozenset[int] = frozenset()

    @property
    def is_new(self) -> bool:
        """Whether it was never migrated."""
        return not self.applied and not self.old

    @property
    def is_empty(self) -> bool:
        """Whether it has no table and no view, but that of the history."""
        return not self.views and not set(self.tables) - {HISTORY} and self.is_new


def too_old(version: str) -> str | None:
    """What is wrong with a server's version; None where tables can be made by it."""
    if tuple(int(part) for part in version.split(".")[:2]) >= VERSION_MIN:
        return None
    return f"ClickHouse {version} is too old, {'.'.join(map(str, VERSION_MIN))} or newer is needed"


def check_engines(names: Names, database: str, tables: Mapping[str, str]) -> None:
    """Raise ``ContractError`` where tables that are there, by name and engine, or the engine of the database are not
    as ``clickhouse.cluster`` and ``clickhouse.engine_prefix`` say: rows would stay on one server."""
    stored = {name: engine for name, engine in tables.items() if engine.endswith("MergeTree")}
    over = sorted(name for name, engine in tables.items() if engine == OVER_SHARDS)
    whole = sorted(name for name in stored if not name.endswith(LOCAL))
    if over and not names.cluster:
        cluster = f"table {over[0]} of database {names.database} is over shards: set clickhouse.cluster"
        raise ContractError(f"{cluster}; nothing was changed")
    if names.cluster and whole:
        raise ContractError(
            f"table {whole[0]} of database {names.database} holds its rows on one server, clickhouse.cluster names"
            f" {names.cluster}: leave it empty, or set clickhouse.database to a new database; nothing was changed"
        )
    shared = any(engine.startswith("Shared") for engine in stored.values())
    if database == REPLICATES[0] and not names.engine_prefix and not shared:
        raise ContractError(
            f"database {names.database} is of engine Replicated: set clickhouse.engine_prefix to Replicated, else rows"
            " stay on one replica; nothing was changed"
        )
    plain = sorted(name for name, engine in stored.items() if not engine.startswith("Replicated"))
    if names.engine_prefix and (plain or database not in ("", REPLICATES[0])):
        what = f"table {plain[0]} is" if plain else f"database {names.database} is of engine {database}, which is"
        raise ContractError(
            f"{what} not replicated, clickhouse.engine_prefix says Replicated: leave it empty, or create the database"
            f" with ENGINE = Replicated and no tables (docs/how-to/clusters.md); nothing was changed"
        )


def plan_tables(live: LiveDatabase, wanted: Wanted) -> Plan:
    """The steps. Raises ``ContractError`` where an applied file is not the one shipped, or where 0.1.0 did not
    finish."""
    files = wanted.files
    if live.is_empty and wanted.at_once:
        return Plan((*_at_once(wanted),), _other_p(live))
    _check(live, wanted)
    newer = sorted(set(live.applied) - {one.number for one in files})
    if newer:
        text = f"database {live.name} knows migration {newer[-1]} of a newer fleetpulse: no file is applied"
        found = Plan(notes=(text,))
    else:
        found = Plan((*_restored(live, files), *_missing(live, wanted)))
    return found + _ttls(live, wanted.kept) + Plan(notes=_other_p(live))


def _other_p(live: LiveDatabase) -> tuple[str, ...]:
    if views.LINEAR in live.functions.get("p", views.LINEAR):
        return ()
    instead = f"{views.LINEAR}(q, sumMap(bins))"
    return (f"function p of this server is somebody else's and stays: write {instead} where examples have p(q, bins)",)


def _at_once(wanted: Wanted) -> Iterator[Step]:
    """All with the first file, so that of a run that is killed the files do the rest: they are safe to repeat."""
    statements, because = wanted.at_once, "the database is empty: all tables and views as the last file leaves them"
    for one in wanted.files:
        yield ApplyFile(one.file_name, statements, (one.number, one.name, one.checksum), because)
        statements, because = (), "made with the first file"


def _check(live: LiveDatabase, wanted: Wanted) -> None:
    for one in wanted.files:
        _, checksum = live.applied.get(one.number, ("", one.checksum))
        if checksum != one.checksum and one.file_name in wanted.released:
            raise ContractError(
                f"{one.file_name} was applied to database {live.name} with another text (checksum {checksum[:12]}, here"
                f" {one.checksum[:12]}): a file never changes once it was released. Run the fleetpulse that applied it,"
                " or a release newer than that; nothing was changed"
            )
    if live.old and not live.applied and not live.old >= set(range(1, OLD_FILES + 1)):
        raise ContractError(
            f"database {live.name} was migrated by fleetpulse 0.1.0 only up to file {max(live.old)} of {OLD_FILES}: run"
            " `fleetpulse migrate` of 0.1.0 to its end, then this one; nothing was changed"
        )


def _missing(live: LiveDatabase, wanted: Wanted) -> Iterator[Step]:
    for one in wanted.files:
        noted = (one.number, one.name, one.checksum)
        if one.number in live.applied:
            if live.applied[one.number][1] != one.checksum:
                because = "in development, and changed since it was applied: tables that are there stay as they are"
                yield ApplyFile(one.file_name, one.statements, noted, because)
        elif one.number == 1 and live.old:
            because = "tables of fleetpulse 0.1.0 are brought to those of the baseline; rows stay"
            yield ApplyFile("upgrade/0.1.0.sql", statements_of(wanted.upgrade), noted, because)
        else:
            yield ApplyFile(one.file_name, one.statements, noted)


def _restored(live: LiveDatabase, files: Sequence[Migration]) -> Iterator[Step]:
    """What applied files made and what is not there. Data that a file moved (INSERT) is not moved again."""
    statements = [text for one in files if one.number in live.applied for text in one.statements]
    about: dict[str, list[str]] = {}
    for text in statements:
        if (name := _subject(text)) is not None:
            about.setdefault(name, []).append(text)
    there = {*live.tables, *live.views, *live.functions}
    for name, texts in about.items():
        if name not in there and not texts[-1].startswith("DROP "):
            yield Restore(name, tuple(texts), made(texts[0])[0] == "table")


def _subject(statement: str) -> str | None:
    """The table, view or function that a statement makes or alters; None for one that moves rows."""
    if statement.startswith("INSERT "):
        return None
    found = _ABOUT.match(statement)
    name = found[1] if found else made(statement)[1]
    assert name, f"a migration must not do this: {statement}"
    return name


def _ttls(live: LiveDatabase, kept: Sequence[Kept]) -> Plan:
    steps: list[Step] = []
    notes: list[str] = []
    for one in kept:
        table = live.tables.get(one.table, LiveTable())
        if not table.ttl:
            steps.append(SetTtl(one, None, table.rows))
        elif (found := _TTL.fullmatch(table.ttl)) is None:
            notes.append(f"table {one.table} has a TTL of its own, which is left as it is: {table.ttl}")
        else:
            kept_ms = int(found["count"]) * _UNIT_MS[found["unit"]]
            whole_parts = None if one.whole_parts is None else table.whole_parts
            had = Kept(one.table, found["column"], kept_ms, found["where"] or "", whole_parts)
            if had != one:
                steps.append(SetTtl(one, had.kept_ms, table.rows))
    return Plan((*steps,), (*notes,))
