"""Events whose names found no room in the windows job: one piece for all topics, made of their grouping sets. Pure.

A query writes ``{every:Overflow}`` for those of all its sources as rows ``grouping``, ``events``, ``of_tenant`` and
``dimension``, which is ``every label`` where the whole series found none. Closed sets and ``bounded`` labels are not
looked at.
"""

from __future__ import annotations

from collections.abc import Mapping

from fleetpulse.queries.levels import ROWS, Source
from schemas.events.event_types import BY_TOPIC
from schemas.events.grouping import OTHER, sets_of
from schemas.fields import Role

_PLACE = "{every:Overflow}"


def with_overflow(sql: str, sources: Mapping[str, Source]) -> str:
    """The text with the piece in its place."""
    if _PLACE not in sql:  # its sources may be books and bills, which have no grouping sets
        return sql
    pieces = (_overflow(name, source.topic) for name, source in sources.items())
    return sql.replace(_PLACE, "\n    UNION ALL\n    ".join(pieces))


def _overflow(source: str, topic: str) -> str:
    sets = sets_of(topic)
    kept = {name for one in sets for name in one.dimensions}
    fields = (field for field in BY_TOPIC[topic].of(Role.DIMENSION) if not (field.allowed or field.bounded))
    dimensions = [field.name for field in fields if field.name in kept]
    tenant = "ifNull(tenant, '')" if "tenant" in dimensions else "''"
    labels = ", ".join(f"('{name}', ifNull({name}, ''))" for name in dimensions)
    groupings = ", ".join(f"'{one.name}'" for one in sets)
    any_other = " OR ".join(f"{name} = '{OTHER}'" for name in ("origin", *dimensions))
    return f"""SELECT grouping, toInt128(event_count) AS events, {tenant} AS of_tenant,
        arrayJoin(if(ifNull(origin, '') = '{OTHER}', ['every label'], arrayMap(name -> name.1, arrayFilter(
            name -> name.2 = '{OTHER}', [{labels}])))) AS dimension
    FROM {{{source}:{ROWS}}}
    WHERE grouping IN ({groupings}) AND window_ms >= {{from_ms:Int64}} AND window_ms < {{to_ms:Int64}}
        AND ({any_other})"""
