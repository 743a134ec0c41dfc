"""When a model got slow: who asks *who is behind the spike* seldom knows the minute, so it is looked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fleetpulse import queries
from fleetpulse.commands.elsewhere import label_utc
from fleetpulse.queries.data_ends import Span
from fleetpulse.queries.meaning import Meaning
from fleetpulse.queries.metric_words import label
from fleetpulse.queries.questions import numbered
from fleetpulse.queries.rise import RISE, SLOWED, WIDTHS_MS, bounds
from fleetpulse.queries.scope import scoped
from fleetpulse.queries.verdict import has_risen, others
from fleetpulse.report.amounts import instant
from fleetpulse.sql.database import Database
from fleetpulse.sql.lookups import lacking


@dataclass(frozen=True, slots=True)
class Rise:
    """A model, the stretch of time in which its latency rose most, and what is said of it."""

    model: str
    bounds: dict[str, int]
    says: str


def may_be_sought(meaning: Meaning) -> bool:
    """Whether the question is who is behind a rise."""
    return numbered()[meaning.number].query == SLOWED


def sought(
    database: Database, meaning: Meaning, usual: dict[str, int], *, given: bool = False
) -> tuple[Meaning, dict[str, int], str]:
    """The question held to the model that got slow, and over the stretch in which it did, against the one before; and
    what is said of it. As they were, and nothing, where no stretch says anything.

    Looked for in ``usual``; unless options have ``given`` that, in the nearest range of its length that has data."""
    span = (usual["from_ms"], usual["to_ms"])
    if not given and (without := lacking(database, ["requests"], span)) and (nearest := without.nearest()):
        span = nearest
    found = rise(database, meaning, span)
    if found is None:
        return meaning, usual, ""
    return replace(meaning, names={**meaning.names, "model": found.model}), found.bounds, found.says


def rise(database: Database, meaning: Meaning, span: Span) -> Rise | None:
    """The stretch of a range in which a latency rose most, by its share, of what the question is held to; None where
    there is none."""
    measured = {name: meaning.given[name] for name in ("bins", "quantile")}
    sql = scoped(queries.text(RISE), meaning.names)
    given = {**measured, "model": "", **meaning.names, "from_ms": span[0], "to_ms": span[1]}
    for width_ms in WIDTHS_MS:
        if rows := database.sql(sql, {**given, "width_ms": width_ms}).records():
            found = _of(rows[0], width_ms, label(measured), span)
            return replace(found, says=found.says + _others(rows[1:]))
    return None


def _others(rows: Sequence[Mapping[str, Any]]) -> str:
    """Models that rose by a tenth or more beside the one that rose most, each in a stretch of its own."""
    rose = [row for row in rows if has_risen(row["before_ms"], row["now_ms"])]
    return others([f"{row['model']} at {instant(row['at_ms'])[11:]}" for row in rose])


def _of(row: Mapping[str, Any], width_ms: int, what: str, span: Span) -> Rise:
    stretch = bounds(row, width_ms)
    change = f"{row['before_ms']:,.0f} to {row['now_ms']:,.0f} ms"
    where = f"in {label_utc(stretch['from_ms'], stretch['to_ms'])}"
    if row["now_ms"] <= row["before_ms"]:
        return Rise(
            row["model"], stretch, f"{what} rose nowhere in {label_utc(*span)}; it fell least {where} ({change})"
        )
    return Rise(row["model"], stretch, f"{what} rose most {where}, of {row['model']} ({change}), in {label_utc(*span)}")
