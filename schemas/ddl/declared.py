"""What the database has to hold, declared: functions, tables and views as they are now, made from the field tables.

Nothing here is executed on a database with data. The files in ``schemas/migrations`` are; ``make migration`` writes the
next one by comparing what they make with what is declared here.
"""

from __future__ import annotations

import re

from schemas.ddl import (
    alert_views,
    billed_views,
    book_rollups,
    concurrency_view,
    cost_rollups,
    cost_views,
    coverage_view,
    fault_view,
    gpu_history,
    range_views,
    slowest_hours,
    tables,
    views,
)
from schemas.ddl.merging import LEVELS
from schemas.events.event_types import EVENTS
from schemas.rows.tables import GROUPED

_MADE = re.compile(
    r"CREATE (?:OR REPLACE )?(?P<kind>TABLE|VIEW|MATERIALIZED VIEW|FUNCTION)(?: IF NOT EXISTS)? (?P<name>\w+)"
)


def declared() -> dict[str, str]:
    """CREATE statements by the name of what they make, in the order in which they can be executed."""
    statements = (
        *views.functions(),
        *(tables.raw(event) for event in EVENTS),
        *(tables.partials(event) for event in GROUPED),
        *tables.logs(),
        *(tables.rollup(event, level.name) for event in GROUPED for level in LEVELS),
        *book_rollups.tables(),
        tables.costs(),
        tables.replaced(),
        *cost_rollups.tables(),
        *gpu_history.statements(),
        *slowest_hours.statements(),
        tables.notes(),
        *views.views(),
        concurrency_view.view(),
        *alert_views.views(),
        *cost_views.views(),
        *billed_views.views(),
        fault_view.view(),
        *range_views.views(),
        coverage_view.view(),
    )
    found = {made(statement)[1]: statement for statement in statements}
    assert len(found) == len(statements), "two statements make the same"
    return found


def made(statement: str) -> tuple[str, str]:
    """Kind (``table``, ``view``, ``materialized view``, ``function``) and name of what a CREATE statement makes; two
    empty texts for any other statement."""
    found = _MADE.match(statement)
    return (found["kind"].lower(), found["name"]) if found else ("", "")
