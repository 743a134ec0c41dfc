"""Findings about ClickHouse, of facts: logins and their rights, migrations, tables, clock, disks. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from shlex import quote

from fleetpulse.doctor.facts import Bounds, DatabaseFacts, DiskFacts, LoginFacts
from fleetpulse.doctor.finding import Finding, good, note, unknown, wrong
from fleetpulse.doctor.judge_joins import judge_agents, judge_joins, judge_prices
from fleetpulse.doctor.judge_kafka import judge_clock, setting
from fleetpulse.migrate.plan import SetTtl, Step
from fleetpulse.migrate.table_plan import VERSION_MIN, LiveDatabase, Wanted, plan_tables, too_old
from fleetpulse.sql import reader_profile
from runtime.tls import OUT_OF_TIME
from schemas.errors import ContractError

WRITER_NEEDS = ("SELECT", "INSERT", "CREATE TABLE", "CREATE VIEW", "ALTER UPDATE")
READER_NEEDS = ("SELECT",)
READER_MUST_NOT = ("INSERT", "ALTER UPDATE", "CREATE TABLE", "DROP TABLE", "TRUNCATE")
SOURCES = ("FILE", "URL", "REMOTE", "S3", "AZURE", "HDFS", "MYSQL", "POSTGRES", "MONGO", "REDIS", "ODBC", "JDBC")
"""Rights by which SQL reads what is not in ClickHouse: files of the server, and whatever its network reaches."""
_WRONG_LOGIN = (192, 193, 194, 516)
_CHECKS = {"migration": "schema.migration", "missing": "schema.missing", "table ttl": "schema.ttl"}
"""Name of the check by the kind of step that is missing."""


def judge_database(facts: DatabaseFacts, wanted: Wanted, bounds: Bounds) -> Iterator[Finding]:
    """Everything about ClickHouse."""
    if facts.unset:
        yield unknown("clickhouse.answer", "clickhouse.url", facts.writer.error or "is not set")
    else:
        yield from _login("clickhouse", facts.url, facts.writer)
    if facts.reader is not None and _rejected_unproven(facts.reader):
        says = "cannot be checked: its password is not configured here, where no SQL of people runs then"
        yield unknown("clickhouse_reader.login", facts.reader.user, says)
    elif facts.reader is not None:
        yield from _login("clickhouse_reader", facts.url, facts.reader)
    if facts.writer.error is None:
        yield from _version(facts)
        yield from _rights(facts.writer)
        yield from _schema(facts, wanted)
        yield from judge_clock("clock.clickhouse", "the database's clock", facts.skew_ms, bounds)
        for disk in facts.disks:
            mend = "make room, or shorten limits.raw_ttl_ms and limits.source_retention_ms"
            subject = f"disk {disk.name} of {disk.server or facts.url}"
            yield judge_disk(subject, disk, bounds.disk_free_bytes_min, mend)
        yield from _parts(facts)
        yield from _mutations(facts)
        if facts.others_error is not None:
            says = f"disks, parts and mutations of other servers cannot be seen: {facts.others_error}"
            yield unknown("clickhouse.servers", facts.url, says)
        yield from judge_joins(facts.joins or (), facts.joins_newest or ())
        yield from _overflow(facts)
        yield from _rejected(facts)
        yield from _clocks(facts)
        yield from judge_agents(facts.measured_twice)
        yield from judge_prices(facts.prices_versions)
    else:
        yield unknown("schema.migration", facts.writer.database, "cannot be checked without the login")
    yield from _reader(facts)


def _login(section: str, url: str, login: LoginFacts) -> Iterator[Finding]:
    if login.error is None:
        yield good(f"{section}.login", login.user, f"is let in at {url}")
        return
    if login.slow_s is not None:
        says = f"is slow: it let us in, and a look took longer than {login.slow_s:g} s; --within gives it more"
        yield unknown(f"{section}.answer", url, says)
    elif login.error_code in _WRONG_LOGIN:
        mend = f"{_variable('USER', section)}=... {_variable('PASSWORD_FILE', section)}=/path/to/password"
        yield wrong(f"{section}.login", login.user, f"is rejected at {url}: {login.error}", mend)
    elif login.key is not None:
        yield wrong(f"{section}.answer", url, f"is not trusted: {login.error}", setting(f"{section}.{login.key}"))
    elif OUT_OF_TIME in login.error:
        yield wrong("certificate", url, login.error, f"renew it   # where {section}.url leads")
    else:
        mend = "fleetpulse up" if "127.0.0.1" in url else f"{_variable('URL', section)}=https://host:8443"
        mend += "   # or start the server: its log says why it ended"
        yield wrong(f"{section}.answer", url, f"{url} does not answer: {login.error}", mend)


def _rejected_unproven(login: LoginFacts) -> bool:
    """Whether it has no password: hosts of jobs and sink share their settings with the dashboard's, not its secrets."""
    return login.error_code in _WRONG_LOGIN and not login.proven


def _version(facts: DatabaseFacts) -> Iterator[Finding]:
    if facts.version is None:
        return
    if (says := too_old(facts.version)) is not None:
        needed = ".".join(map(str, VERSION_MIN))
        yield wrong("clickhouse.version", facts.url, says, f"apt-get install clickhouse-server   # {needed} or newer")
    else:
        yield good("clickhouse.version", facts.url, f"ClickHouse {facts.version}")


def _parts(facts: DatabaseFacts) -> Iterator[Finding]:
    """Parts that cannot be read are taken out; then their rows are brought back."""
    for one in facts.broken or ():
        at = f"on {one.server}, " if one.server else ""
        if one.detached:
            says = f"lacks the rows of part {one.part}, which ClickHouse has taken out ({one.why})"
            drop = f"ALTER TABLE {one.table} DROP DETACHED PART '{one.part}' SETTINGS allow_drop_detached = 1"
            yield wrong("parts", one.table, f"{at}{says}", f"{_client(drop)}   # {at}once its rows are back")
        else:
            says = f"part {one.part} cannot be read ({one.why}): statements that need it fail"
            detach = _client(f"ALTER TABLE {one.table} DETACH PART '{one.part}'")
            yield wrong("parts", one.table, f"{at}{says}", f"{detach}   # on {one.server}" if at else detach)
    if facts.broken == ():
        yield good("parts", facts.writer.database, "no part is broken")


def _mutations(facts: DatabaseFacts) -> Iterator[Finding]:
    """What rewrites rows: one that fails is tried for ever, and those after it on its parts wait."""
    for one in facts.mutations or ():
        at = f"on {one.server}, " if one.server else ""
        if one.failed:
            database, _, table = one.table.partition(".")
            kill = f"KILL MUTATION WHERE database = '{database}' AND table = '{table}' AND mutation_id = '{one.id}'"
            says = f"{at}mutation {one.id} ({one.command}) fails on {one.parts:,} parts: {one.failed}"
            mend = f"{_client(kill)}   # {at}or mend what it says; it is tried again"
            yield wrong("mutations", one.table, says, mend)
        else:
            yield note("mutations", one.table, f"{at}mutation {one.id} ({one.command}) has {one.parts:,} parts to do")
    if facts.mutations == ():
        yield good("mutations", facts.writer.database, "none is unfinished")


def _overflow(facts: DatabaseFacts) -> Iterator[Finding]:
    """Names that the windows job had no room for in the last minutes."""
    if facts.overflow is None:
        return
    for row in facts.overflow:
        of = f" ({', '.join(row['tenants'])})" if row["tenants"] else ""
        what = f"{row['dimension']} of set {row['grouping']}"
        says = f"reads __other__ in {int(row['beyond']):,} events of the last 3 minutes{of}: no room for more names"
        mend = "fleetpulse dashboard   # page Pipeline, Cardinality; docs/how-to/running.md#too-many-series"
        yield wrong("series.room", what, says, mend)
    if not facts.overflow:
        yield good("series.room", "labels", "every value has its name")


def _rejected(facts: DatabaseFacts) -> Iterator[Finding]:
    """What somebody sends that is not in the contract."""
    for row in facts.rejected or ():
        newest = datetime.fromtimestamp(int(row["newest_ms"]) / 1_000, UTC)
        says = (
            f"{int(row['rejected']):,} events of the last 3 minutes, the newest at {newest:%H:%M:%S} UTC, were rejected"
            f" ({row['reason']}): {row['example']}"
        )
        yield wrong("records.rejected", row["topic"], says, "fleetpulse rejected show   # from whom, and its bytes")
    if facts.rejected == ():
        yield good("records.rejected", "events", "none was rejected in the last 3 minutes")


def _clocks(facts: DatabaseFacts) -> Iterator[Finding]:
    """Hosts whose edges say that their clock is off the brokers'."""
    for row in facts.clocks or ():
        skew_ms = int(row["skew_ms"])
        says = f"{abs(skew_ms):,} ms {'ahead of' if skew_ms > 0 else 'behind'} the brokers'"
        yield wrong(
            "clock.hosts", row["host"], says, "timedatectl set-ntp true   # on that host; then `chronyc tracking`"
        )
    if facts.clocks == ():
        yield good("clock.hosts", "hosts", "none is more than a second off the brokers'")


def _rights(writer: LoginFacts) -> Iterator[Finding]:
    missing = [right for right in WRITER_NEEDS if writer.can.get(right) is False]
    if missing:
        mend = _client(f"GRANT ALL ON {writer.database}.* TO {writer.user}")
        yield wrong("writer.rights", writer.user, f"may not {', '.join(missing)} on database {writer.database}", mend)
    else:
        yield good("writer.rights", writer.user, f"may write to database {writer.database}")


def _schema(facts: DatabaseFacts, wanted: Wanted) -> Iterator[Finding]:
    """What `fleetpulse migrate` would do, or why it would refuse."""
    database = facts.writer.database
    if facts.exists is False or facts.live is None:
        create = f"{_client(f'CREATE DATABASE {database}')} && fleetpulse migrate"
        yield wrong("schema.database", database, "does not exist", create)
        return
    if facts.live.is_new:
        yield wrong("schema.migration", database, "was never migrated", "fleetpulse migrate")
        return
    every = facts.servers or {facts.writer.database: facts.live}
    try:
        plan, steps = plan_tables(facts.live, wanted), _steps(every, wanted)
    except ContractError as error:
        mend = "fleetpulse migrate   # of the release that is named there"
        yield wrong("schema.migration", database, str(error), mend)
        return
    for step, where in steps.items():
        judged, mend = (note, "fleetpulse migrate --yes") if step.removes else (wrong, "fleetpulse migrate")
        mend += "   # with --clickhouse URL for each other server" * facts.one_by_one
        yield judged(_CHECKS[step.kind], step.subject, f"is not as configured{where}: {step.says}", mend)
    if facts.servers_error is not None:
        yield unknown("schema.servers", database, f"cannot be compared on all servers: {facts.servers_error}")
    for text in plan.notes:
        yield note("schema.note", database, text)
    if not steps:
        yield good("schema.migration", database, f"is at migration {max(facts.live.applied)}")


def _steps(servers: Mapping[str, LiveDatabase], wanted: Wanted) -> dict[Step, str]:
    """What `fleetpulse migrate` would do on these servers, each thing once, with those that need it where not all do.
    It removes rows where it does on any of them."""
    steps: dict[tuple[str, str, str], list[tuple[str, Step]]] = {}
    for server, its in servers.items():
        for step in plan_tables(its, wanted).steps:
            if isinstance(step, SetTtl) and step.subject not in its.tables:
                continue  # that it is missing is said already
            steps.setdefault((step.kind, step.subject, step.says), []).append((server, step))
    return {
        next((step for _, step in each if step.removes), each[0][1]): (
            "" if len(each) == len(servers) else f" on {', '.join(server for server, _ in each)}"
        )
        for each in steps.values()
    }


def _reader(facts: DatabaseFacts) -> Iterator[Finding]:
    reader = facts.reader or facts.writer
    if reader.error is not None:
        return
    grant = f"GRANT SELECT ON {reader.database}.* TO {reader.user}"
    mend = _client("; ".join(reader_profile.statements(reader.user, reader.database, sharded=reader.sharded)))
    limit = f"fleetpulse migrate --reader   # or {mend}"
    if reader.user == facts.writer.user:  # which would lose its rights
        mend = limit = f"{_variable('USER')}=reader   # a user of its own, which `fleetpulse migrate --reader` limits"
    if facts.reader is None:
        if _writes(reader):
            says = "no login that only reads is configured here: people's SQL is refused"
            yield note("reader.rights", reader.user, says)
        return
    if _writes(reader):
        may = ", ".join(right for right in READER_MUST_NOT if reader.can.get(right))
        yield wrong("reader.rights", reader.user, f"runs people's SQL and may {may}", mend)
    elif reader.sources:
        may = f"runs people's SQL and may read beyond the server: {', '.join(reader.sources)}"
        yield wrong("reader.rights", reader.user, may, mend)
    elif not all(reader.can.get(right, True) for right in READER_NEEDS):
        yield wrong("reader.rights", reader.user, f"may not read database {reader.database}", _client(grant))
    else:
        yield good("reader.rights", reader.user, f"may read database {reader.database}, and only that")
    if missing := reader_profile.unlimited(reader.settings):
        says = f"may use as much as a statement asks for: {', '.join(missing)} without a bound"
        yield wrong("reader.limits", reader.user, says, limit)
    else:
        yield good("reader.limits", reader.user, "has limits on time, memory, rows, bytes and statements at once")
    if reader.database != facts.writer.database:
        says = f"is what people read, but the sink writes to {facts.writer.database}"
        mend = f"{_variable('DATABASE')}={quote(facts.writer.database)}"
        yield note("reader.database", reader.database, says, mend)


def _variable(name: str, section: str = "clickhouse_reader") -> str:
    return f"FLEETPULSE_{section.upper()}__{name}"


def _client(sql: str) -> str:
    """The command that runs it, to be copied into a shell."""
    plain = "'" in sql and not set(sql) & set('"$`\\!')
    return f'clickhouse-client --query "{sql}"' if plain else f"clickhouse-client --query {quote(sql)}"


def _writes(login: LoginFacts) -> bool:
    """Whether nothing keeps the login from writing: neither its profile nor missing rights."""
    return login.readonly == 0 and any(login.can.get(right) for right in READER_MUST_NOT)


def judge_disk(subject: str, disk: DiskFacts, needed_bytes: float, mend: str) -> Finding:
    """One disk against what must be left on it."""
    free_mib, needed_mib = disk.free_bytes >> 20, int(needed_bytes) >> 20
    if disk.free_bytes < needed_bytes:
        return wrong("disk", subject, f"{free_mib:,} MiB are left, {needed_mib:,} are needed", mend)
    return good("disk", subject, f"{free_mib:,} MiB are left")
