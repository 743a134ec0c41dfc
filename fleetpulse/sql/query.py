"""SQL that commands run: as it was given, of the catalogue with its parameters filled, or for percentiles.

Values are bound by the server, by the type that stands in the query; nothing is written into the SQL. Names in the SQL
for percentiles are checked against the field tables.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import IO, Any

from clickhouse_connect.driver.exceptions import ClickHouseError
from urllib3.exceptions import HTTPError

from fleetpulse import queries
from fleetpulse.queries.levels import read_source, with_rows
from fleetpulse.queries.offers import usual
from fleetpulse.sql.csv_text import each_as_text
from fleetpulse.sql.database import Answer, Database, in_a_line
from fleetpulse.sql.hints import hint
from fleetpulse.sql.server_error import SAID_BYTES_MAX, broken_off
from fleetpulse.sql.wide_integers import as_decimals, described
from fleetpulse.whole_file import replacing
from runtime.clickhouse_clients import connect, rows_of
from runtime.config import ClickHouseConfig
from schemas.ddl.views import LINEAR
from schemas.errors import ConfigError, FleetpulseError
from schemas.events.event_types import LLM_REQUESTS
from schemas.events.grouping import sets_of
from schemas.fields import Role
from schemas.sketch import counted_min

_PARAMETER = re.compile(r"\{(\w+)\s*:\s*([^{}]+)\}")
_AGAIN = re.compile(
    r"\b(?:max|min|avg|sum|any|median|quantile\w*)(?:\([\d.]+\))?\((?:\w+\.)?(?P<of>\w+)_p(?P<percent>50|90|95|99)\)",
    re.IGNORECASE,
)
_NAME = re.compile(r"[\w./-]+")
_LIMIT = re.compile(r"\nLIMIT (?:(\d+)|\{(\w+):\w+\})(?:\nSETTINGS [^\n]*)?\s*\Z")
_CHUNK_BYTES = 256 * 1024
QUANTILES = (0.5, 0.9, 0.95, 0.99, 0.999)
_READS = "llm.requests 10s <= 1h, 1m <= 1d, 1h"


@dataclass(frozen=True, slots=True)
class Query:
    """SQL and its parameters, as text that the server reads by their types."""

    sql: str
    parameters: Mapping[str, str]


def parameters_of(sql: str) -> dict[str, str]:
    """Type by name of the parameters ``{name:Type}`` in a query."""
    return dict(_PARAMETER.findall(sql))


def ready_made() -> list[dict[str, Any]]:
    """Every query of the catalogue: its name, its first sentence, its parameters with their types."""
    texts = {name: queries.text(name) for name in queries.names()}
    return [
        {"name": name, "says": text.splitlines()[0].removeprefix("-- "), "params": parameters_of(text)}
        for name, text in texts.items()
    ]


def query_of(text: str, params: Sequence[str], now_ms: int, range_ms: int) -> Query:
    """The query behind a name, or the text itself when it is SQL, with ``params`` (``name=value``) as its parameters.

    Those of the range follow from ``now_ms`` where they are not given, those of the one before it from the range; those
    that questions of people have get a usual value. Raises ``ConfigError`` for an unknown name, and for parameters that
    are missing or not there.
    """
    name, given = text.strip(), {end: int(value) for end, value in pairs(params).items() if value.isdecimal()}
    to_ms = given.get("to_ms", now_ms)
    from_ms = given.get("from_ms", max(0, to_ms - range_ms))
    earlier = {"before_from_ms": max(0, 2 * from_ms - to_ms), "before_to_ms": from_ms}
    bounds = {"from_ms": from_ms, "to_ms": to_ms, **earlier}
    return bound(_sql(name), usual(name), params, bounds)


def bound(sql: str, known: Mapping[str, str], params: Sequence[str], bounds: Mapping[str, int]) -> Query:
    """A query with its parameters: those of people (``name=value``), else what is known, else the range's bounds.
    Raises ``ConfigError`` for parameters that are missing or not there."""
    wanted, given = parameters_of(sql), pairs(params)
    for name in given:
        if name not in wanted:
            near = get_close_matches(name, wanted, n=1) or sorted(wanted)
            raise ConfigError("--param", name, f"must be a parameter of the query: {', '.join(near) or 'it has none'}")
    named = {name: str(value) for name, value in bounds.items()} | dict(known) | given
    missing = [f"{name} ({wanted[name]})" for name in wanted if name not in named]
    if missing:
        raise ConfigError("--param", ", ".join(missing), "must be given, as --param name=value")
    return Query(sql, {name: named[name] for name in wanted})


def measures() -> tuple[str, ...]:
    """Measures with a sketch."""
    return tuple(field.name for field in LLM_REQUESTS.of(Role.SKETCH))


def percentiles_sql(measure: str, by: str) -> str:
    """A query with parameters from_ms and to_ms. Raises ``ConfigError`` for an unknown measure or dimension."""
    if measure not in measures():
        raise ConfigError("measure", measure, f"must be one of {', '.join(measures())}")
    groupings = [grouping.name for grouping in sets_of("llm.requests") if by in grouping.dimensions]
    if not groupings:
        known = sorted({name for grouping in sets_of("llm.requests") for name in grouping.dimensions})
        raise ConfigError("--by", by, f"must be one of {', '.join(known)}")
    columns = ",\n    ".join(
        f"round({LINEAR}({q}, sumMap({measure}_bins))) AS p{str(100 * q).rstrip('0').rstrip('.').replace('.', '_')}"
        for q in QUANTILES
    )
    sql = (
        f"SELECT\n    {by},\n    sum({measure}_count) AS requests,\n    {columns}\n"
        "FROM {requests:Rows}\n"
        f"WHERE grouping = '{groupings[0]}' AND window_ms >= {{from_ms:Int64}} AND window_ms < {{to_ms:Int64}}\n"
        f"GROUP BY {by}\nORDER BY requests DESC\nLIMIT 1000"
    )
    return with_rows(sql, {"requests": read_source(_READS)}, None)


def readable(answer: Answer) -> list[tuple[Any, ...]]:
    """Rows of ``percentiles_sql`` for people: ``few`` where a percentile is of too few values."""
    fewest = [counted_min(float(name.removeprefix("p").replace("_", ".")) / 100) for name in answer.columns[2:]]
    return [
        (name, counted, *("few" if counted < least else value for least, value in zip(fewest, found, strict=True)))
        for name, counted, *found in answer.rows
    ]


def advice(sql: str) -> str:
    """What is said beside an answer that executes and misleads: a percentile column of rows that is aggregated again.
    Empty for any other SQL."""
    found = _AGAIN.search(sql)
    if found is None:
        return ""
    bins = f"{found['of']}_bins".replace("itl_us", "itl").replace("running_requests", "running")
    share = str(int(found["percent"]) / 100)
    return (
        f"{found[0]} is no percentile: {found['of']}_p{found['percent']} is of one row. Of all rows: p({share}, {bins})"
    )


def at_limit(query: Query, count: int) -> str:
    """What is said of an answer with as many rows as its query gives out at most, empty of any other."""
    found = _LIMIT.search(query.sql)
    most = (found[1] or query.parameters.get(found[2], "")) if found else ""
    if most != str(count):
        return ""
    more = f"; -p {found[2]}=N for more" if found and found[2] else ""
    return f"the first {count} rows are shown, the most that this query gives{more}"


def _sql(text: str) -> str:
    if not _NAME.fullmatch(text):
        return text
    if text in queries.names():
        return queries.text(text)
    near = get_close_matches(text, queries.names(), n=3, cutoff=0.4)
    meant = f"did you mean {' or '.join(near)}" if near else "see fleetpulse query"
    raise ConfigError("SQL", text, f"is neither SQL nor a ready-made query: {meant}")


def pairs(params: Sequence[str]) -> dict[str, str]:
    """Values by name of ``name=value`` each. Raises ``ConfigError`` for anything else."""
    found = {}
    for param in params:
        name, equals, value = param.partition("=")
        if not equals or not name:
            raise ConfigError("--param", param, "must be name=value")
        found[name] = value
    return found


def rows(login: ClickHouseConfig, query: Query, rows_max: int) -> tuple[Answer, bool]:
    """At most ``rows_max`` rows, and whether there were more."""
    with closing(Database(login)) as database:
        # One more than is shown, so that it is known that there are more; the server stops reading there.
        limits = {"max_result_rows": rows_max + 1, "result_overflow_mode": "break"}
        try:
            answer = database.sql(query.sql, query.parameters, **limits)
        except FleetpulseError as error:
            if advised := hint(str(error), query.sql):
                raise FleetpulseError(f"{error}\n{advised}") from error
            raise
    return Answer(answer.columns, answer.rows[:rows_max]), len(answer.rows) > rows_max


def stream(login: ClickHouseConfig, query: Query, server_format: str, output: Path | None) -> None:
    """Write the answer in a format of the server's, as it comes, whatever its size, to standard output without
    ``output``. A file appears when it is whole. Raises ``FleetpulseError`` where the server ends it before."""
    given = {"parameters": dict(query.parameters), "fmt": server_format}
    with (
        in_a_line(),
        closing(connect(login)) as client,
        closing(client.raw_stream(_written(client, query, server_format), **given)) as source,
        nullcontext(sys.stdout.buffer) if output is None else replacing(output) as target,
    ):
        _copy(source, target, each_as_text if server_format.startswith("CSV") else iter)


def _written(client: Any, query: Query, server_format: str) -> str:
    """The SQL for a format: Parquet has decimals in place of wide integers. What is no SELECT, or rejected, is left."""
    if server_format != "Parquet":
        return query.sql
    try:
        columns = rows_of(client.query(described(query.sql), parameters=dict(query.parameters)))
    except ClickHouseError:
        return query.sql
    return as_decimals(query.sql, columns)


def _copy(source: Any, target: IO[bytes], written: Callable[[Iterator[bytes]], Iterator[bytes]]) -> None:
    end = b""

    def pieces() -> Iterator[bytes]:
        nonlocal end
        for piece in source.stream(_CHUNK_BYTES):
            end = (end + piece)[-SAID_BYTES_MAX:]
            yield piece

    try:
        target.writelines(written(pieces()))
    except HTTPError as error:
        raise FleetpulseError(broken_off(end, error)) from error
    target.flush()
