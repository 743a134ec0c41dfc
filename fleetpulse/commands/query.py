"""The command that runs SQL, or a ready-made query, as the read-only user."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from fleetpulse.commands.output import Result, answers, err, for_program, out, print_json, print_rows
from fleetpulse.commands.people import AsWriter, Last, duration_ms
from fleetpulse.commands.progress import spinner
from runtime.clock import SystemClock
from schemas.errors import ConfigError


class Format(StrEnum):
    """How rows are written."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


@answers
def query(
    sql: Annotated[
        str | None, typer.Argument(help="SQL, or the name of a ready-made query; without it the names of these.")
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", help="A parameter of the query: name=value, names in full; may be repeated."),
    ] = None,
    last: Last = "1h",
    format_: Annotated[Format, typer.Option("--format", help="How rows are written.")] = Format.TABLE,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file instead of standard output, which - is.")
    ] = None,
    rows_max: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Rows of a table or of JSON; more are cut.")
    ] = 10_000,
    as_writer: AsWriter = False,
) -> Result | None:
    """Run SQL, or a ready-made query by its name, as the read-only user.

    Of a ready-made query the range, and the one before it, follow from --last, and others have a usual value unless
    --param says otherwise.

    Example: [bold]fleetpulse query percentiles_by_model --last 15m[/bold],
    [bold]fleetpulse query "SELECT count() FROM request_windows" --format csv[/bold]
    """
    from fleetpulse.commands.ready_made import for_people
    from fleetpulse.queries import names
    from fleetpulse.sql import query as asking
    from fleetpulse.sql.reader_profile import login_of_people
    from runtime.config import load

    wanted = Format.JSON if for_program() else format_
    output = None if output == Path("-") else output
    if sql is None:
        listed = asking.ready_made()
        rows = [(one["name"], one["says"], ", ".join(one["params"])) for one in listed]
        return _result("Ready-made queries", ("name", "what it answers", "parameters"), rows, listed, wanted)
    config, now_ms = load(), SystemClock().now_ms()
    login = login_of_people(config, as_writer=as_writer)
    query = asking.query_of(sql, param or (), now_ms, duration_ms(last))
    if wanted in (Format.CSV, Format.PARQUET):
        if output is None and wanted is Format.PARQUET and out.is_terminal:
            raise ConfigError("--format", "parquet", "is no text: add --output FILE, or send it to a pipe")
        with spinner("asking ClickHouse", lines=False) if output else nullcontext():
            asking.stream(login, query, {"csv": "CSVWithNames", "parquet": "Parquet"}[wanted], output)
        return None
    if output is not None:
        raise ConfigError("--output", str(output), f"goes with --format csv or parquet, not {wanted}")
    with spinner("asking ClickHouse", lines=False):
        answer, cut = asking.rows(login, query, rows_max)
        kept_from_ms = config.limits.kept_from_ms(now_ms)
        shown = for_people(login, sql.strip(), query, answer, kept_from_ms) if wanted is Format.TABLE else None
    if advised := asking.advice(query.sql):
        err.print(advised, markup=False, highlight=False)
    if not cut and sql.strip() in names() and (full := asking.at_limit(query, len(answer.rows))):
        err.print(full, markup=False, highlight=False)
    if cut:
        err.print(f"only the first {rows_max} rows are shown; --rows-max or --format csv for more", highlight=False)
    return shown or _result(f"{len(answer.rows)} rows", answer.columns, answer.rows, answer.records(), wanted)


def _result(title: str, columns: Sequence[str], rows: Sequence[Any], data: Any, wanted: Format) -> Result:
    def show() -> None:
        if wanted is Format.JSON:
            print_json(data)
        else:
            print_rows(title, columns, rows, empty="no rows")

    return Result(data, show)
