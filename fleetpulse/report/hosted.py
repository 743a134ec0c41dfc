"""The table of what the same tokens would have cost at the list price of a hosted model. Pure."""

from __future__ import annotations

from fleetpulse.report import amounts as a
from fleetpulse.report.page import Table
from fleetpulse.report.tables import Layout, Rows, whose


def list_prices(rows: Rows) -> Table:
    """Models beside hosted ones: none where no model has a list price, and never what is no model's."""
    listed = [row for row in rows if row["list_key"] or row["list_note"]]
    return _LIST_PRICES.table(listed if any(row["list_key"] for row in listed) else [])


def _reachable(share: float | None) -> str:
    return a.share(share) if share is None or share <= 1 else f"{a.share(share)}, not reachable"


_LIST_PRICES = Layout(
    "The same tokens at list price",
    {
        "model": whose("model"),
        "hosted as": lambda row: row["list_key"] or a.UNKNOWN,
        "all in": lambda row: a.usd(row["full_nusd"]),
        "list price": lambda row: a.usd(row["list_nusd"]),
        "ratio": lambda row: a.decimal(row["break_even_traffic"], "x"),
        "utilization": lambda row: a.share(row["busy"]),
        "break-even": lambda row: _reachable(row["break_even_busy"]),
        "note": lambda row: row["list_note"],
    },
    words=2,
    least=("note", "utilization", "all in"),
    also=frozenset({"note"}),
)
