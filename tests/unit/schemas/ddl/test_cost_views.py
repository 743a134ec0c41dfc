"""The views of costs: every list is taken apart, every amount added up. They run in tests/integration/test_costs.py."""

from __future__ import annotations

import re

from schemas.ddl.cost_views import views
from schemas.rows.costs import COST_PARTS, COSTS, LINES


def columns(view: str) -> list[str]:
    return re.findall(r"^    (\w+) .* COMMENT '", view, re.M)


def by_name() -> dict[str, str]:
    return {view.split()[4]: view for view in views()}


def test_every_list_is_taken_apart() -> None:
    """A part and a line is a row with all it has; names do not collide."""
    found = by_name()

    for name, lists, stem in (("cost_parts", COST_PARTS, "part"), ("cost_lines", LINES, "line")):
        shown = columns(found[name])
        own = {one.name.removeprefix(f"{stem}_") for one in lists} - {"name"}
        assert own <= set(shown)
        assert len(shown) == len(set(shown))
        assert found[name].count(" AS each_") >= len(lists)


def test_every_amount_of_a_bill_is_added_up_by_hour_and_day() -> None:
    """What the table gains, the rollups show."""
    amounts = {one.name for one in COSTS.fields if one.name.endswith(("_nusd", "_ms", "_mj")) and one.kind.item is None}

    for level in ("1h", "1d"):
        assert amounts - {"minute_ms"} <= set(columns(by_name()[f"costs_{level}"]))


def test_views_read_the_last_version_of_each_bill() -> None:
    """Without FINAL provisional bills would count as well."""
    assert all("FINAL" in view or re.search(r"FROM cost", view) for view in views())


def test_late_rows_are_looked_for_in_the_partition_of_costs_that_has_their_bills() -> None:
    """There may be fewer of them than of ``window.partials``: as the cost job chooses it, by the remainder."""
    late = by_name()["cost_late"]

    assert late.count("max(log_partition) % ifNull((SELECT max(log_partition) + 1 FROM token_costs), 1)") == 3
    assert "ON r.of_partition = p.log_partition" in late
