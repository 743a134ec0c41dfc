"""Queries of the catalogue in Grafana's words, and those words as a server understands them. Pure.

Places of the catalogue become macros of the ClickHouse data source (``$__fromTime_ms``, ``$__interval_s``) and
variables of the dashboard, which Grafana encodes as in addresses (``${host:percentencode}``): what is left are letters,
digits, ``-_.~`` and ``%``, and the server decodes it. Its ``sqlstring`` doubles quotes and leaves backslashes, by which
a value could end its literal. Tables are chosen by the server, by the length of the range that a panel shows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote

from fleetpulse import queries
from fleetpulse.queries import dashboard

FILTERS = ("cluster", "region", "host", "engine_id", "gpu_model", "model", "tenant")
"""Variables of a dashboard; an empty text takes all."""
_PLACE = re.compile(r"\{(\w+):[^{}]+\}")
_ENDS = {
    "from_ms": "toUnixTimestamp64Milli($__fromTime_ms)",
    "to_ms": "toUnixTimestamp64Milli($__toTime_ms)",
}
_MACRO = re.compile(r"\$__\w+|\$\{(\w+):percentencode\}")


def grafana_sql(name: str, params: Mapping[str, str], *, whole: bool = False) -> str:
    """A query of the catalogue for a panel, whatever range somebody chooses. ``params`` are SQL for places that neither
    time nor filters fill. ``KeyError`` names a place nobody fills. ``whole``: all rows of a query of pages; raises as
    ``Query.whole``."""
    if name in dashboard.names():
        found = dashboard.query(name)
        text = (found.whole() if whole else found).at_levels(None)
    else:
        text = queries.text(name)
        text = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
    filters = {name: f"decodeURLComponent('${{{name}:percentencode}}')" for name in FILTERS}
    words = {**_ENDS, "bucket_ms": bucket_sql(name), **filters, **params}
    return _PLACE.sub(lambda place: words[place[1]], text).strip()


def bucket_sql(name: str) -> str:
    """Width of a point of a query of the catalogue [ms]: what Grafana wants, but not less than a row."""
    grain = dashboard.query(name).grain_sql() if name in dashboard.names() else "1000"
    return f"greatest(toInt64($__interval_s) * 1000, {_PLACE.sub(lambda place: _ENDS[place[1]], grain)})"


def counted_sql(name: str, time: str, row_s: int) -> str:
    """Seconds of the range that a point of such a query counts, in rows of so many: less than its width at the ends of
    the range. ``time`` is where the point begins."""
    row_ms = 1_000 * row_s
    first = f"intDiv(greatest({_ENDS['from_ms']}, {time}) + {row_ms - 1}, {row_ms})"
    over = f"intDiv(least({_ENDS['to_ms']}, {time} + {bucket_sql(name)}) + {row_ms - 1}, {row_ms})"
    return f"{row_s} * greatest(1, {over} - {first})"


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
            return quote(variables[found[1]], safe="")
        return macros[found[0]]

    return _MACRO.sub(word, sql)
