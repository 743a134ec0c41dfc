"""Views of the bills of a range, which is their parameter: sums of bills, of their parts and lines, and by owner.

``billed_parts(from_ms = ..., to_ms = ..., bucket_ms = ...)`` answers what view ``cost_parts`` answers, of any range, at
the cost of a few rows: whole days, hours and minutes come from their rollups, as far as these are over for as long
again (bills change after their minute). Minutes that no rollup holds are read from the bills: the newest, those whose
bills have changed since they were added up, those whose rollup is gone, and those that release 0.1.0 rolled up, with
less in it. So every bill whose minute begins in the range counts once, as it is now, whatever its ends. Rows are sums
of buckets at most ``bucket_ms`` wide, which begin at ``window_ms``: add them up by what you group by; by hours with
``bucket_ms = 3600000``, by days or not at all with ``bucket_ms = 86400000``.
"""

from __future__ import annotations

from schemas.ddl.columns import Column, create
from schemas.ddl.cost_rollups import (
    ALL,
    BILLS,
    LINES,
    OWNER_LINES,
    OWNER_PARTS,
    OWNERS,
    PARTS,
    PENDING,
    Item,
    Lists,
    current,
    table_of,
)
from schemas.ddl.merging import LEVELS, Level
from schemas.limits import MINUTE_MS
from schemas.rows.costs import COSTS

NAMES = {
    BILLS.stem: "billed",
    PARTS.stem: "billed_parts",
    LINES.stem: "billed_lines",
    OWNERS.stem: "billed_owners",
    OWNER_PARTS.stem: "billed_owner_parts",
    OWNER_LINES.stem: "billed_owner_lines",
}
"""By what they are lists of."""
OF_BILLS = {NAMES[lists.stem]: {"": "costs", "part": "cost_parts", "line": "cost_lines"}[lists.of] for lists in ALL}
"""By view the one that has each of its rows as bills have them, with every name."""
AS_SUMS = "minute_ms AS window_ms, minute_ms AS oldest_ms, minute_ms AS newest_ms, 1 AS bills, final = 0 AS provisional"
"""Columns that rows of the latter lack."""
_MEANINGS = {
    BILLS.stem: "bills of a range, by use, region, type of GPU and versions",
    PARTS.stem: "parts of the bills of a range: cost_parts, added up over owners",
    LINES.stem: "usage in the bills of a range: cost_lines, added up over owners",
    OWNERS.stem: "bills of a range by their owner",
    OWNER_PARTS.stem: "parts of the bills of a range by owner, added up over tenants",
    OWNER_LINES.stem: "usage in the bills of a range by owner, added up over tenants",
}
_FROM, _TO, _WIDEST = "{from_ms:Int64}", "{to_ms:Int64}", "{bucket_ms:Int64}"
_COARSEST_FIRST = LEVELS[::-1]
_OF_BUCKET = (
    Column("window_ms", "Int64", "start of its minute, hour or day, UTC [ms]"),
    Column("oldest_ms", "Int64", "the first minute in it with a bill [ms]"),
    Column("newest_ms", "Int64", "the latest minute in it with a bill [ms]"),
)


def views() -> list[str]:
    """Their CREATE statements."""
    return [_view(lists) for lists in ALL]


def _view(lists: Lists) -> str:
    shown = [*_OF_BUCKET, *(Column(column(lists, one), one.type, one.meaning) for one in lists.items)]
    rows = "\n    UNION ALL\n".join([*(_of_level(lists, level) for level in _COARSEST_FIRST), _of_bills(lists)])
    behind = f"AS WITH\n{_held()}\nSELECT {', '.join(one.name for one in shown)}\nFROM\n(\n{rows}\n)"
    return create("CREATE OR REPLACE VIEW", NAMES[lists.stem], shown, behind, _MEANINGS[lists.stem])


def column(lists: Lists, item: Item) -> str:
    """As views of bills call it; what parts know of idle GPUs alone says so."""
    if lists is PARTS and item.name in ("use", "owner", "gpu_model"):
        return f"idle_{item.name}"
    return {"name": lists.stem.split("_")[-1], "count": "bills"}.get(item.name, item.name)


def _buckets(level: Level) -> str:
    """Name of the list of buckets that are read from a level."""
    return f"of_{level.name}"


def _held() -> str:
    """Which buckets each level is read of, and the minutes that are in none."""
    found, above = [f"    {PENDING}"], list[Level]()
    for level in _COARSEST_FIRST:
        others = "".join(f"\n            AND NOT has({_buckets(one)}, {_start('window_ms', one)})" for one in above)
        found.append(
            f"    (\n        SELECT groupUniqArray(window_ms)\n        FROM {table_of(level.name)} FINAL\n"
            f"        WHERE {current(level)}\n            AND {level.bucket_ms} <= {_WIDEST}\n"
            f"            AND window_ms >= {_FROM} AND window_ms + {level.bucket_ms} <= {_TO}{others}\n"
            f"    ) AS {_buckets(level)}"
        )
        above.append(level)
    in_none = " AND ".join(f"NOT has({_buckets(one)}, {_start('minute', one)})" for one in above)
    known = f"(SELECT (min(minute_ms), max(minute_ms) + {MINUTE_MS}) FROM {COSTS.name})"
    found.append(f"    {known} AS known")
    first = f"intDiv(greatest({_FROM}, known.1) + {MINUTE_MS - 1}, {MINUTE_MS})"
    over = f"intDiv(least({_TO}, known.2) + {MINUTE_MS - 1}, {MINUTE_MS})"
    minutes = f"arrayMap(n -> n * {MINUTE_MS}, range({first}, greatest({first}, {over})))"
    found.append(f"    arrayFilter(minute -> {in_none}, {minutes}) AS lacking")
    return ",\n".join(found)


def _start(moment: str, level: Level) -> str:
    return moment if level.bucket_ms == MINUTE_MS else f"intDiv({moment}, {level.bucket_ms}) * {level.bucket_ms}"


def _of_level(lists: Lists, level: Level) -> str:
    picked = ", ".join(
        [
            *(f"t.{one.name}" for one in _OF_BUCKET),
            *(f"each_{one.name} AS {column(lists, one)}" for one in lists.items),
        ]
    )
    return (
        f"    SELECT {picked}\n    FROM {table_of(level.name)} AS t FINAL{lists.of_row()}\n"
        f"    WHERE t.window_ms >= {_FROM} AND t.window_ms < {_TO} AND has({_buckets(level)}, t.window_ms)"
    )


def _of_bills(lists: Lists) -> str:
    picked = ", ".join(
        [*("t.minute_ms" for _ in _OF_BUCKET), *(f"{one.of_one} AS {column(lists, one)}" for one in lists.items)]
    )
    return (
        f"    SELECT {picked}\n    FROM {COSTS.name} AS t FINAL{lists.of_bill()}\n"
        f"    WHERE t.minute_ms >= {_FROM} AND t.minute_ms < {_TO} AND t.minute_ms IN (SELECT arrayJoin(lacking))"
    )
