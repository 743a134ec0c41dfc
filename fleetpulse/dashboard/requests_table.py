"""The table of single requests, on the pages Requests, Engine and GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleetpulse.dashboard.machine_tables import engine_column
from fleetpulse.dashboard.parts import Column, Table
from fleetpulse.dashboard.time_range import TimeRange
from fleetpulse.dashboard.values import UNKNOWN, clean, microseconds, middle, short
from fleetpulse.dashboard.view import View
from fleetpulse.sql.database import Answer
from schemas.limits import MINUTE_MS

_MOODS = {"ok": "fp-good", "error": "fp-bad", "timeout": "fp-bad", "rejected": "fp-warn"}


def requests_table(view: View, label: str, page_rows: int = 25) -> Table:
    """An empty table of requests; each id links to the request's own page."""

    def link(row: Mapping[str, Any]) -> str:
        return view.link("/request", id=str(row["request_id"]), at=str(row["at_ms"]))

    def clock(at_ms: Any) -> str:
        return view.zone.clock(at_ms) if isinstance(at_ms, int) else UNKNOWN

    columns = [
        Column("at_ms", f"Ended ({view.zone.name})", text=clock),
        Column("request_id", "Request", href=link, text=middle),
        Column("status", "Status", text=clean, mood=lambda row: f"fp-pill {_MOODS.get(row['status'], 'fp-muted')}"),
        Column("model", "Model"),
        Column("tenant", "Tenant"),
        Column("ttft_us", "TTFT", text=microseconds, right=True),
        Column("tpot_us", "TPOT", text=microseconds, right=True),
        Column("e2e_us", "E2E", text=microseconds, right=True),
        Column("input_tokens", "Tokens in", text=short, right=True),
        Column("output_tokens", "out", text=short, right=True),
        engine_column(view),
    ]
    return Table(columns, label, page_rows=page_rows)


def widening(span: TimeRange) -> list[TimeRange]:
    """Stretches to look through one after another for the newest: the last minute, ten, a hundred, the whole range."""
    found = [span.end(MINUTE_MS * minutes) for minutes in (1, 10, 100) if MINUTE_MS * minutes < span.span_ms]
    return [*found, span]


async def newest(view: View, top: int, **values: Any) -> Answer:
    """The newest requests of the page's range; looks no further back than it needs to."""
    for span in widening(view.past)[:-1]:
        answer = await view.ask_over(span, "requests", top=top, **values)
        if len(answer.rows) >= top:
            return answer
    return await view.ask("requests", top=top, **values)
