"""The catalogue of named queries: one SQL file each, parameters bound by the server, never built from strings.

``{failed:Metric}`` is the expression that ``schemas.definitions`` has for it. A line ``-- reads requests: llm.requests
1m <= 1h, 1h`` gives the place ``{requests:Rows}``, the rows of the range (``fleetpulse.queries.levels``). ``Alerts``
are pieces of ``fleetpulse.queries.alerts``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files

from fleetpulse.queries.alerts import with_alerts
from fleetpulse.queries.levels import sources_of, with_rows
from schemas.definitions import written


def names() -> tuple[str, ...]:
    """Names of all queries, sorted."""
    return tuple(sorted(entry.name[:-4] for entry in files(__name__).iterdir() if entry.name.endswith(".sql")))


def text(name: str) -> str:
    """SQL of a query with its ``{parameter:Type}`` places; ``KeyError`` for an unknown name."""
    if name not in names():
        raise KeyError(name)
    found = with_alerts(written(files(__name__).joinpath(f"{name}.sql").read_text(encoding="utf-8")))
    return with_rows(found, sources_of(found), None)


def filled(name: str, parameters: Mapping[str, int | float]) -> str:
    """The query with its numbers written in, ready to paste into a console. Numbers only."""
    return re.sub(r"\{(\w+):\w+\}", lambda found: repr(parameters[found.group(1)]), text(name)).strip()
