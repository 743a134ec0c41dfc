"""What ``fleetpulse query`` makes of a ready-made query for people: amounts in units that they read, and beside the
table what it comes to, which range it is of, names that were perhaps meant, and which question asks it."""

from __future__ import annotations

from contextlib import closing

from fleetpulse import queries
from fleetpulse.commands.asking import covered, over, readable
from fleetpulse.commands.elsewhere import label_utc
from fleetpulse.commands.output import Result, err, print_rows
from fleetpulse.queries.data_ends import Span, kinds_of
from fleetpulse.queries.questions import numbered
from fleetpulse.queries.verdict import said_of
from fleetpulse.report import BY_EXAMPLES
from fleetpulse.sql import lookups
from fleetpulse.sql.database import Answer, Database
from fleetpulse.sql.query import Query
from runtime.clock import SystemClock
from runtime.config import ClickHouseConfig


def for_people(login: ClickHouseConfig, name: str, query: Query, answer: Answer, kept_from_ms: int = 0) -> Result:
    """The table of an answer, or where data is. SQL that is no ready-made query is shown as it came. ``kept_from_ms``:
    since when rows of 10 s are kept."""
    ours = name in queries.names()
    verdict = said_of(name, query.parameters, answer.records()) if ours else ""
    title = "\n".join(line for line in (f"{len(answer.rows)} rows", verdict) if line)
    said: list[str] = []
    if ours or not answer.rows:
        with closing(Database(login)) as database:
            said += _beside(database, name, query, kept_from_ms) if ours else []
            said += [] if answer.rows else _where_data_is(database, query.sql)
    columns, rows = readable(answer.columns, answer.rows) if ours else (answer.columns, answer.rows)

    def show() -> None:
        print_rows(title, columns, rows, empty="no rows", exact=not ours)
        for line in said:
            err.print(line, markup=False, highlight=False, soft_wrap=True)

    return Result(answer.records(), show)


def _beside(database: Database, name: str, query: Query, kept_from_ms: int) -> list[str]:
    """Which range an answer is of, names that were perhaps meant, what stands behind its money, and the question."""
    spans = {which: _span(query, which) for which in ("", "before_")}
    now_ms = SystemClock().now_ms()
    said = [
        over({f"{which}from_ms": span[0], f"{which}to_ms": span[1]}, covered(database, *span, kept_from_ms), which)
        for which, span in spans.items()
        if span
    ]
    said += lookups.unknown_names(database, query.parameters, spans[""] or (now_ms, now_ms))
    if (span := spans[""]) and "bills" in kinds_of(query.sql) and lookups.with_examples(database, span):
        said.append(BY_EXAMPLES)
    asks = next(((number, one.text) for number, one in numbered().items() if one.query == name), None)
    return said + ([f"in words: fleetpulse ask {asks[0]}  {asks[1]}"] if asks else [])


def _span(query: Query, which: str) -> Span | None:
    begin, end = (query.parameters.get(f"{which}{one}") for one in ("from_ms", "to_ms"))
    return None if begin is None or end is None else (int(begin), int(end))


def _where_data_is(database: Database, sql: str) -> list[str]:
    now_ms = SystemClock().now_ms()
    lack = lookups.lacking(database, kinds_of(sql), (now_ms, now_ms))
    if lack is None or not lack.held:
        return []
    return [f"there are {' and '.join(lack.kinds)} of {' and '.join(label_utc(*span) for span in lack.held)}"]
