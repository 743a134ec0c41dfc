"""Findings about ClickHouse, of facts: logins and their rights, migrations, tables, clock, disks. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fleetpulse.doctor.facts import Bounds, DatabaseFacts, DiskFacts, LoginFacts
from fleetpulse.doctor.finding import Finding, good, note, unknown, wrong
from fleetpulse.doctor.judge_kafka import judge_clock, setting
from schemas.ddl import Migration

WRITER_NEEDS = ("SELECT", "INSERT", "CREATE TABLE", "CREATE VIEW", "ALTER UPDATE")
READER_NEEDS = ("SELECT",)
READER_MUST_NOT = ("INSERT", "ALTER UPDATE", "CREATE TABLE", "DROP TABLE", "TRUNCATE")
VERSION_MIN = (25, 3)
_WRONG_LOGIN = (192, 193, 194, 516)
_MADE = re.compile(r"^CREATE (?:OR REPLACE )?(TABLE|VIEW|FUNCTION)(?: IF NOT EXISTS)? (\w+)", re.MULTILINE)


def made_by(migrations: Sequence[Migration]) -> dict[str, tuple[str, str]]:
    """Kind (table, view, function) and file by the name of everything the migrations make."""
    return {
        name: (kind.lower(), migration.file_name)
        for migration in migrations
        for statement in migration.statements
        for kind, name in _MADE.findall(statement)
    }


def judge_database(facts: DatabaseFacts, migrations: Sequence[Migration], bounds: Bounds) -> Iterator[Finding]:
    """Everything about ClickHouse."""
    yield from _login("clickhouse", facts.url, facts.writer)
    if facts.reader is not None:
        yield from _login("clickhouse_reader", facts.url, facts.reader)
    if facts.writer.error is None:
        yield from _version(facts)
        yield from _rights(facts.writer)
        yield from _schema(facts, migrations)
        yield from judge_clock("clock.clickhouse", "the database's clock", facts.skew_ms, bounds)
        for disk in facts.disks:
            yield judge_disk(f"disk {disk.name} of {facts.url}", disk, bounds)
    else:
        yield unknown("schema.migration", facts.writer.database, "cannot be checked without the login")
    yield from _reader(facts)


def _login(section: str, url: str, login: LoginFacts) -> Iterator[Finding]:
    if login.error is None:
        yield good(f"{section}.login", login.user, f"is let in at {url}")
        return
    if login.error_code in _WRONG_LOGIN:
        yield wrong(
            f"{section}.login",
            login.user,
            f"is refused at {url}: {login.error}",
            f"FLEETPULSE_{section.upper()}__USER=... FLEETPULSE_{section.upper()}__PASSWORD_FILE=/path/to/password",
        )
        return
    if login.key is not None:
        yield wrong(f"{section}.answer", url, f"is not trusted: {login.error}", setting(f"{section}.{login.key}"))
        return
    says = f"{url} does not answer: {login.error}"
    mend = "fleetpulse up" if "127.0.0.1" in url else f"FLEETPULSE_{section.upper()}__URL=https://host:8443"
    yield wrong(f"{section}.answer", url, says, f"{mend}   # or start the server: its log says why it ended")


def _version(facts: DatabaseFacts) -> Iterator[Finding]:
    if facts.version is None:
        return
    numbers = tuple(int(part) for part in facts.version.split(".")[:2])
    if numbers < VERSION_MIN:
        needed = ".".join(map(str, VERSION_MIN))
        says = f"ClickHouse {facts.version} is too old, {needed} or newer is needed"
        yield wrong("clickhouse.version", facts.url, says, f"apt-get install clickhouse-server   # {needed} or newer")
    else:
        yield good("clickhouse.version", facts.url, f"ClickHouse {facts.version}")


def _rights(writer: LoginFacts) -> Iterator[Finding]:
    missing = [right for right in WRITER_NEEDS if writer.can.get(right) is False]
    if missing:
        yield wrong(
            "writer.rights",
            writer.user,
            f"may not {', '.join(missing)} on database {writer.database}",
            f'clickhouse-client --query "GRANT ALL ON {writer.database}.* TO {writer.user}"',
        )
    else:
        yield good("writer.rights", writer.user, f"may write to database {writer.database}")


def _schema(facts: DatabaseFacts, migrations: Sequence[Migration]) -> Iterator[Finding]:
    database = facts.writer.database
    if facts.exists is False:
        yield wrong(
            "schema.database",
            database,
            "does not exist",
            f'clickhouse-client --query "CREATE DATABASE {database}" && fleetpulse migrate',
        )
        return
    if facts.applied is None:
        yield wrong("schema.migration", database, "was never migrated", "fleetpulse migrate")
        return
    problems = [*_migrations(facts, migrations), *_tables(facts, migrations)]
    yield from problems
    if not problems:
        yield good("schema.migration", database, f"is at migration {max(one.number for one in migrations)}")


def _migrations(facts: DatabaseFacts, migrations: Sequence[Migration]) -> Iterator[Finding]:
    assert facts.applied is not None
    database = facts.writer.database
    for one in migrations:
        has = facts.applied.get(one.number)
        if has is None:
            yield wrong("schema.migration", one.file_name, f"is not applied to {database}", "fleetpulse migrate")
        elif has != one.checksum and one.replaceable:
            yield wrong("schema.migration", one.file_name, "is applied in an older version", "fleetpulse migrate")
        elif has != one.checksum:
            yield wrong(
                "schema.migration",
                one.file_name,
                f"its tables in {database} were made by another version or with other limits",
                f'clickhouse-client --query "DROP DATABASE {database}" && fleetpulse migrate   # loses its rows;'
                " topics bring back what they still hold",
            )
    newer = sorted(set(facts.applied) - {one.number for one in migrations})
    if newer:
        says = f"{database} knows migrations {', '.join(map(str, newer))}, newer than this fleetpulse"
        yield wrong("schema.newer", database, says, "pip install --upgrade fleetpulse")


def _tables(facts: DatabaseFacts, migrations: Sequence[Migration]) -> Iterator[Finding]:
    if facts.tables is None or facts.applied is None:
        return
    applied = [one for one in migrations if one.number in facts.applied]
    for name, (kind, file_name) in made_by(applied).items():
        there = facts.functions if kind == "function" else facts.tables
        if there is not None and name not in there:
            number = int(file_name[:4])
            forget = f"ALTER TABLE {facts.writer.database}.schema_migrations DELETE WHERE number = {number}"
            yield wrong(
                f"schema.{kind}",
                name,
                f"is missing although {file_name} was applied",
                f'clickhouse-client --query "{forget} SETTINGS mutations_sync = 1" && fleetpulse migrate',
            )


def _reader(facts: DatabaseFacts) -> Iterator[Finding]:
    reader = facts.reader
    if reader is None:
        if facts.writer.error is None and _writes(facts.writer):
            yield wrong(
                "reader.rights",
                facts.writer.user,
                "runs people's SQL and may write: no read-only login is configured",
                "FLEETPULSE_CLICKHOUSE_READER__URL=... FLEETPULSE_CLICKHOUSE_READER__USER=reader"
                " FLEETPULSE_CLICKHOUSE_READER__PASSWORD_FILE=/path/to/password",
            )
        return
    if reader.error is not None:
        return
    if _writes(reader):
        yield wrong(
            "reader.rights",
            reader.user,
            f"runs people's SQL and may {', '.join(right for right in READER_MUST_NOT if reader.can.get(right))}",
            f'clickhouse-client --query "REVOKE ALL ON *.* FROM {reader.user}; GRANT SELECT ON'
            f' {reader.database}.* TO {reader.user}; ALTER USER {reader.user} SETTINGS readonly = 2"',
        )
    elif not all(reader.can.get(right, True) for right in READER_NEEDS):
        mend = f'clickhouse-client --query "GRANT SELECT ON {reader.database}.* TO {reader.user}"'
        yield wrong("reader.rights", reader.user, f"may not read database {reader.database}", mend)
    else:
        yield good("reader.rights", reader.user, f"may read database {reader.database}, and only that")
    if reader.database != facts.writer.database:
        yield note(
            "reader.database",
            reader.database,
            f"is what people read, but the sink writes to {facts.writer.database}",
            f"FLEETPULSE_CLICKHOUSE_READER__DATABASE={facts.writer.database}",
        )


def _writes(login: LoginFacts) -> bool:
    """Whether nothing keeps the login from writing: neither its profile nor missing rights."""
    return login.readonly == 0 and any(login.can.get(right) for right in READER_MUST_NOT)


def judge_disk(subject: str, disk: DiskFacts, bounds: Bounds) -> Finding:
    """One disk against the bound."""
    free_mib, needed_mib = disk.free_bytes >> 20, bounds.disk_free_bytes_min >> 20
    if disk.free_bytes < bounds.disk_free_bytes_min:
        says = f"{free_mib:,} MiB are left, {needed_mib:,} are needed"
        return wrong("disk", subject, says, "make room, or shorten limits.raw_ttl_ms and limits.source_retention_ms")
    return good("disk", subject, f"{free_mib:,} MiB are left")
