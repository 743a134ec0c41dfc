"""Rows of a report cut to the first ones, the others as one row: what is shown adds up to all of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fleetpulse.report.amounts import UNKNOWN, per_million
from fleetpulse.report.money import total, unit_costs
from schemas.definitions import END

Row = Mapping[str, Any]
_SIDES = ("uncached", "output")
_OF_TENANTS = (*END, "requests", "priced_requests", "counted_requests", "cached_tokens", "cost_nusd", "carbon_ug",
               *(f"{side}_{what}" for side in _SIDES for what in ("tokens", "nusd")))  # fmt: skip


def with_other_tenants(rows: Sequence[Row], top: int) -> list[Row]:
    """The first ``top`` tenants, the others as one, then what is nobody's."""
    named = [row for row in rows if not row["nobody"]]
    shown, rest = named[:top], named[top:]
    nobody = [row for row in rows if row["nobody"]]
    return [*shown, *([_tenants(rest)] if rest else []), *nobody]


def _tenants(rows: Sequence[Row]) -> Row:
    """Sums, and prices of what is summed up; energy and emissions of a million tokens of all are not known."""
    summed = _summed(rows, _OF_TENANTS)
    prices = {
        f"usd_per_million_{side}": per_million(summed[f"{side}_nusd"], summed[f"{side}_tokens"]) for side in _SIDES
    }
    unknown = dict.fromkeys(f"{what}_per_million_output" for what in ("kwh", "g"))
    return unit_costs({"tenant": f"{len(rows)} others", **summed, **prices, **unknown})


def with_other_failures(rows: Sequence[Row], top: int) -> list[Row]:
    """The first ``top`` rows of ``cost_failed``, the others as one."""
    shown, rest = rows[:top], rows[top:]
    others = {"status": "others", "model": UNKNOWN, "tenant": UNKNOWN}
    return [*shown, *([others | _summed(rest, ("cost_nusd", "meter_mj", "carbon_ug"))] if rest else [])]


def _summed(rows: Sequence[Row], names: Sequence[str]) -> dict[str, Any]:
    return {name: total(*(row[name] for row in rows)) for name in names}
