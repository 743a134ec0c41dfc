"""Queries of the catalogue in Grafana's words, and those words as a server understands them. Pure.

Places of the catalogue become macros of the ClickHouse data source (``$__fromTime_ms``, ``$__interval_s``) and
variables of the dashboard (``${host:sqlstring}``, quoted by Grafana). Tables are those for the dashboard's usual range.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from fleetpulse import queries
from fleetpulse.queries import dashboard

FILTERS = ("cluster", "region", "host", "engine_id", "gpu_model", "model", "tenant")
"""Variables of a dashboard; an empty text takes all."""
_PLACE = re.compile(r"\{(\w+):[^{}]+\}")
_MACRO = re.compile(r"\$__\w+|\$\{(\w+):sqlstring\}")


def grafana_sql(name: str, span_ms: int, params: Mapping[str, str]) -> str:
    """A query of the catalogue for a panel that usually shows ``span_ms``. ``params`` are SQL for places that neither
    time nor filters fill. ``KeyError`` names a place nobody fills."""
    if name in dashboard.names():
        found = dashboard.query(name)
        text, grain_ms = found.at_levels(span_ms), found.grain_ms(span_ms)
    else:
        text, grain_ms = queries.text(name), 1_000
        text = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
    width = f"greatest(toInt64($__interval_s) * 1000, {grain_ms})"
    words = {
        "from_ms": "toUnixTimestamp64Milli($__fromTime_ms)",
        "to_ms": "toUnixTimestamp64Milli($__toTime_ms)",
        "bucket_ms": width,
        **{name: f"${{{name}:sqlstring}}" for name in FILTERS},
        **params,
    }
    return _PLACE.sub(lambda place: words[place[1]], text).strip()


def variables_of(sql: str) -> frozenset[str]:
    """Variables of the dashboard that a query needs."""
    return frozenset(found[1] for found in _MACRO.finditer(sql) if found[1])


def expanded(sql: str, from_ms: int, to_ms: int, interval_s: int, variables: Mapping[str, str]) -> str:
    """What the data source sends to the server: macros and variables filled in. ``KeyError`` for one nobody knows."""
    macros = {
        "$__fromTime_ms": f"fromUnixTimestamp64Milli({from_ms})",
        "$__toTime_ms": f"fromUnixTimestamp64Milli({to_ms})",
        "$__interval_s": str(interval_s),
    }

    def word(found: re.Match[str]) -> str:
        if found[1]:
            return "'" + variables[found[1]].replace("'", "''") + "'"
        return macros[found[0]]

    return _MACRO.sub(word, sql)
