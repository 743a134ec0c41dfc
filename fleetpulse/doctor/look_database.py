"""Look at ClickHouse with both logins: rights, migrations, tables, clock, disks. Reads only."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from clickhouse_connect.driver.exceptions import ClickHouseError
from urllib3.exceptions import ReadTimeoutError

from fleetpulse.doctor.facts import DatabaseFacts, DiskFacts, LoginFacts, MutationFacts, PartFacts
from fleetpulse.doctor.judge_database import READER_MUST_NOT, READER_NEEDS, SOURCES, WRITER_NEEDS
from fleetpulse.doctor.judge_joins import LOOK_BACK_MS, RECENT_MS
from fleetpulse.migrate.table_plan import REPLICATES, LiveDatabase, LiveTable
from fleetpulse.migrate.tables import engine_of, live_table, look, names_of, whole
from fleetpulse.queries.dashboard import query
from fleetpulse.sql.reader_profile import LIMITS
from runtime.clickhouse_clients import LOGIN, first_line, make_client, named_rows_of, rejected, rows_of
from runtime.clickhouse_parts import CODES, broken_part
from runtime.clock import Clock
from runtime.config import ClickHouseConfig
from schemas.errors import ConfigError, UnavailableError
from schemas.limits import HOUR_MS

_WORLD = (ClickHouseError, OSError, UnavailableError)
_TIMEOUT_EXCEEDED = 159
_LIMITS = f"SELECT name, value, max FROM system.settings WHERE name IN {tuple(LIMITS)}"
_AGENTS = """
SELECT host, count() AS agents
FROM
(
    SELECT host, source, min(at_ms) AS first_ms, max(at_ms) AS last_ms FROM host_samples
    WHERE at_ms >= {from_ms:Int64} AND at_ms < {to_ms:Int64} AND isNotNull(source) GROUP BY host, source
)
WHERE first_ms < {middle_ms:Int64} AND last_ms >= {middle_ms:Int64}
GROUP BY host HAVING agents > 1 ORDER BY host
"""
"""Hosts that several sources measured before and after the same moment: one that took over from another did not."""
_DETACHED = """
SELECT table, name, reason, %(server)s AS server FROM %(detached_parts)s
WHERE database = {database:String} AND startsWith(reason, 'broken') ORDER BY server, table, name
"""
_UNREAD = """
SELECT code, last_error_message, %(server)s AS server FROM %(errors)s
WHERE code IN {codes:Array(Int32)} AND NOT remote AND last_error_time >= toDateTime(intDiv({from_ms:Int64}, 1000))
ORDER BY last_error_time DESC
"""
"""What the server last said under each of these codes."""
_ACTIVE = """
SELECT 1 FROM %(parts)s
WHERE database = {database:String} AND table = {table:String} AND name = {part:String} AND active
AND %(server)s = {server:String}
"""
_MUTATIONS = """
SELECT table, mutation_id, command, parts_to_do, latest_fail_reason, %(server)s AS server FROM %(mutations)s
WHERE database = {database:String} AND NOT is_done ORDER BY server, table, create_time, mutation_id
"""
_DISKS = "SELECT name, free_space, total_space, %(server)s AS server FROM %(disks)s ORDER BY server, name"
_SERVER = "concat(hostName(), ':', toString(tcpPort()))"
_SERVERS = f"""
SELECT {_SERVER} AS server
FROM clusterAllReplicas({{cluster:Identifier}}, system.one) ORDER BY server
"""
_ON_EACH = """
SELECT concat(hostName(), ':', toString(tcpPort())) AS server, name, engine, engine_full, ifNull(total_rows, 1) AS rows
FROM clusterAllReplicas({cluster:Identifier}, system.tables)
WHERE database = {database:String} AND engine NOT LIKE '%View'
"""
"""Tables of every server of a cluster: those that hold rows, and those over all shards."""
_SYSTEM = ("detached_parts", "errors", "parts", "mutations", "disks")
"""What each server has of its own."""
_EXISTS = "SELECT 1 FROM system.databases WHERE name = {database:String}"


def look_at_database(
    writer: ClickHouseConfig,
    reader: ClickHouseConfig | None,
    clock: Clock,
    *,
    within_s: float,
    copies: Sequence[ClickHouseConfig] = (),
) -> DatabaseFacts:
    """Facts by the writer's login, of ``copies`` what their tables are, and about the reader's. Never raises for the
    world's errors."""
    try:
        with _client(writer, within_s) as client, _let_in(within_s):
            facts = _with_servers(client, writer, _seen(client, writer, clock), copies, within_s)
    except _WORLD as error:
        facts = DatabaseFacts(writer.url, _refused(writer, error), None)
    except ConfigError as error:
        if writer.unset is None:
            raise
        facts = DatabaseFacts(writer.url, LoginFacts(writer.user, writer.database, error=error.bound), None, unset=True)
    return replace(facts, reader=None if reader is None else _login(reader, within_s))


@contextlib.contextmanager
def _client(config: ClickHouseConfig, within_s: float) -> Iterator[Any]:
    # That its database does not exist is a finding, not an error.
    client = make_client(
        config, database=None, connect_timeout=min(5.0, within_s), send_receive_timeout=within_s, query_retries=0
    )
    try:
        yield client
    finally:
        client.close()


class _SlowError(OSError):
    """A server that let us in took longer than ``within_s`` for what it was asked then."""

    def __init__(self, within_s: float) -> None:
        super().__init__(f"no answer within {within_s:g} s")
        self.within_s = within_s


@contextlib.contextmanager
def _let_in(within_s: float) -> Iterator[None]:
    """A client that was made has had its first answers: what has none now is slow, and not away."""
    try:
        yield
    except ClickHouseError as error:
        if getattr(error, "code", None) == _TIMEOUT_EXCEEDED or isinstance(error.__cause__, ReadTimeoutError):
            raise _SlowError(within_s) from error
        raise


def _login(config: ClickHouseConfig, within_s: float) -> LoginFacts:
    try:
        with _client(config, within_s) as client, _let_in(within_s):
            return _rights(client, config)
    except _WORLD as error:
        return _refused(config, error)


def _refused(config: ClickHouseConfig, error: Exception) -> LoginFacts:
    if isinstance(error, _SlowError):
        return LoginFacts(config.user, config.database, error=str(error), slow_s=error.within_s)
    code = getattr(error, "code", None)
    why = rejected(error, config)
    if code is None and isinstance(why, ConfigError):
        return LoginFacts(config.user, config.database, error=why.bound, key=why.key.partition(".")[2])
    said = first_line(error if why is None or code is not None else why)
    proven = code is None or config.client_cert_file is not None or bool(config.password.get_secret_value())
    return LoginFacts(config.user, config.database, error=said, error_code=code, proven=proven)


def _rights(client: Any, config: ClickHouseConfig) -> LoginFacts:
    names = dict.fromkeys((*WRITER_NEEDS, *READER_NEEDS, *READER_MUST_NOT))
    can = {name: bool(int(client.command(f"CHECK GRANT {name} ON {config.database}.*"))) for name in names}
    readonly = int(client.command("SELECT getSetting('readonly')"))
    settings = {name: (value, most) for name, value, most in rows_of(client.query(_LIMITS))}
    sources = tuple(name for name in SOURCES if _may_read_from(client, name))
    found = LoginFacts(config.user, config.database, readonly=readonly, can=can, settings=settings, sources=sources)
    return replace(found, sharded=bool(config.cluster))


def _may_read_from(client: Any, source: str) -> bool:
    """A server that does not know the source lets nobody read from it."""
    try:
        return bool(int(client.command(f"CHECK GRANT {source} ON *.*")))
    except ClickHouseError:
        return False


def _seen(client: Any, config: ClickHouseConfig, clock: Clock) -> DatabaseFacts:
    before_ms = clock.now_ms()
    server_ms = _now_ms(client)
    skew_ms = server_ms - (before_ms + clock.now_ms()) // 2
    return DatabaseFacts(
        url=config.url,
        writer=_rights(client, config),
        reader=None,
        version=str(client.command("SELECT version()")),
        exists=bool(rows_of(client.query(_EXISTS, parameters={"database": config.database}))),
        live=look(client, names_of(config)),
        skew_ms=skew_ms,
        **_stored(client, config, server_ms),
        joins=_found("joins", client, config.database, clock.now_ms()),
        joins_newest=_found("joins", client, config.database, clock.now_ms(), RECENT_MS, recent_ms=0),
        overflow=_found("pipeline_overflow", client, config.database, clock.now_ms()),
        rejected=_found("pipeline_rejected", client, config.database, clock.now_ms(), recent_ms=0),
        clocks=_found("pipeline_clocks", client, config.database, clock.now_ms(), recent_ms=0),
        prices_versions=_prices_versions(client, clock.now_ms()),
        measured_twice=_measured_twice(client, clock.now_ms()),
    )


def _with_servers(
    client: Any, config: ClickHouseConfig, facts: DatabaseFacts, copies: Sequence[ClickHouseConfig], within_s: float
) -> DatabaseFacts:
    """With the database as it is on every server of the cluster, and on every copy, and what copies have on disk. One
    that is away leaves both unknown."""
    if facts.live is None or not (config.cluster or copies):
        return facts
    try:
        found = _on_cluster(client, config, facts.live) if config.cluster else {config.url: facts.live}
        one_by_one = bool(copies) or (len(found) > 1 and engine_of(client, config.database) not in REPLICATES)
        for copy in copies:
            with _client(copy, within_s) as other:
                found[copy.url] = look(other, names_of(copy))
                facts = _with_stored(facts, copy.url, _stored(other, copy, _now_ms(other)))
    except _WORLD as error:
        why = first_line(error)
        return replace(facts, servers_error=why, others_error=why if copies else facts.others_error)
    return replace(facts, servers=found, one_by_one=one_by_one)


def _on_cluster(client: Any, config: ClickHouseConfig, live: LiveDatabase) -> dict[str, LiveDatabase]:
    """By server, each with the tables that it has itself; all else is that of the connected one."""
    parameters = {"cluster": config.cluster, "database": config.database}
    rows: dict[str, dict[str, Any]] = {server: {} for (server,) in rows_of(client.query(_SERVERS, parameters))}
    for server, name, engine, full, count in rows_of(client.query(_ON_EACH, parameters)):
        rows.setdefault(server, {})[name] = {"engine": engine, "is_view": 0, "full": full, "rows": count}
    return {server: replace(live, tables=_tables(of_server, config)) for server, of_server in rows.items()}


def _tables(rows: Mapping[str, Any], config: ClickHouseConfig) -> dict[str, LiveTable]:
    return {name: live_table(row["full"], row["rows"]) for name, row in whole(rows, names_of(config)).items()}


def _now_ms(client: Any) -> int:
    return int(client.command("SELECT toUnixTimestamp64Milli(now64(3))"))


def _stored(client: Any, config: ClickHouseConfig, now_ms: int) -> dict[str, Any]:
    """Disks, broken parts and mutations of every server of the cluster; where one of them does not answer, of the
    connected one alone."""
    try:
        return _stored_on(client, config.database, config.cluster, now_ms)
    except ClickHouseError as error:
        if not config.cluster:
            raise
        return _stored_on(client, config.database, "", now_ms) | {"others_error": first_line(error)}


def _stored_on(client: Any, database: str, cluster: str, now_ms: int) -> dict[str, Any]:
    return {
        "disks": _disks(client, cluster),
        "broken": _broken(client, database, now_ms, cluster),
        "mutations": _mutations(client, database, cluster),
    }


def _with_stored(facts: DatabaseFacts, url: str, stored: Mapping[str, Any]) -> DatabaseFacts:
    """With what this copy has, too. What is not known of either is not known to be none."""
    both: dict[str, Any] = {"others_error": stored.get("others_error", facts.others_error)}
    for name in ("disks", "broken", "mutations"):
        own, more = getattr(facts, name), stored[name]
        found = (*(own or ()), *(replace(one, server=one.server or url) for one in more or ()))
        both[name] = found or (None if own is None or more is None else ())
    return replace(facts, **both)


def _system(sql: str, cluster: str) -> str:
    """The query, of every server of the cluster; without one of that which is connected, which needs no name."""
    of = f"clusterAllReplicas('{cluster}', system.%s)" if cluster else "system.%s"
    return sql % {"server": _SERVER if cluster else "''", **{name: of % name for name in _SYSTEM}}


def _broken(client: Any, database: str, now_ms: int, cluster: str = "") -> tuple[PartFacts, ...] | None:
    """Parts that a server has taken out, and those that it could not read and has still; None for a login that may
    not read where it says so."""
    try:
        return tuple(_broken_parts(client, database, now_ms, cluster))
    except ClickHouseError as error:
        if getattr(error, "code", None) not in LOGIN:
            raise
        return None


def _broken_parts(client: Any, database: str, now_ms: int, cluster: str) -> Iterator[PartFacts]:
    detached = _system(_DETACHED, cluster)
    for table, name, reason, server in rows_of(client.query(detached, parameters={"database": database})):
        yield PartFacts(f"{database}.{table}", name, reason, detached=True, server=server)
    since = {"codes": sorted(CODES), "from_ms": now_ms - LOOK_BACK_MS}
    unread: dict[tuple[str, str, str], int] = {}
    for code, said, server in rows_of(client.query(_system(_UNREAD, cluster), parameters=since)):
        if (part := broken_part(code, said)) is not None and part[0].startswith(f"{database}."):
            unread.setdefault((*part, server), code)
    for (table, name, server), code in unread.items():
        if _is_there(client, table, name, server, cluster):
            yield PartFacts(table, name, CODES[code], detached=False, server=server)


def _mutations(client: Any, database: str, cluster: str = "") -> tuple[MutationFacts, ...] | None:
    """Those that are not done; None for a login that may not read where it says so."""
    try:
        rows = rows_of(client.query(_system(_MUTATIONS, cluster), parameters={"database": database}))
    except ClickHouseError as error:
        if getattr(error, "code", None) not in LOGIN:
            raise
        return None
    return tuple(MutationFacts(f"{database}.{table}", *rest) for table, *rest in rows)


def _is_there(client: Any, table: str, part: str, server: str, cluster: str) -> bool:
    database, _, name = table.partition(".")
    named = {"database": database, "table": name, "part": part, "server": server}
    return bool(rows_of(client.query(_system(_ACTIVE, cluster), parameters=named)))


def _found(
    name: str,
    client: Any,
    database: str,
    now_ms: int,
    look_back_ms: int = LOOK_BACK_MS,
    *,
    recent_ms: int = RECENT_MS,
) -> tuple[dict[str, Any], ...] | None:
    """Of a query over the last minutes; None where the tables are not there yet, which is a finding of its own."""
    bounds = {"from_ms": now_ms - look_back_ms, "to_ms": now_ms - recent_ms}
    try:
        client.database = database
        found = client.query(query(name).at_levels(look_back_ms, bounds), parameters=bounds)
    except ClickHouseError:
        return None
    return tuple(named_rows_of(found))


def _prices_versions(client: Any, now_ms: int) -> tuple[str, ...]:
    try:
        found = client.query(query("cost_prices").sql, parameters={"from_ms": now_ms - HOUR_MS, "to_ms": now_ms})
    except ClickHouseError:
        return ()
    return tuple(str(row["version"]) for row in named_rows_of(found))


def _measured_twice(client: Any, now_ms: int) -> tuple[str, ...] | None:
    """None where there are no raw rows."""
    middle_ms = now_ms - (LOOK_BACK_MS + RECENT_MS) // 2
    bounds = {"from_ms": now_ms - LOOK_BACK_MS, "to_ms": now_ms - RECENT_MS, "middle_ms": middle_ms}
    try:
        found = client.query(_AGENTS, parameters=bounds)
    except ClickHouseError:
        return None
    return tuple(str(row["host"]) for row in named_rows_of(found))


def _disks(client: Any, cluster: str) -> tuple[DiskFacts, ...]:
    disks = [DiskFacts(*row) for row in rows_of(client.query(_system(_DISKS, cluster)))]
    return tuple(one for one in disks if one.total_bytes < 1 << 62)  # object stores are endless
