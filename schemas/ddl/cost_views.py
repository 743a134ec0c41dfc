"""Views of costs: the last bill of every minute, its parts and its usage a row each, and sums of all by hour and day.

All are computed from ``token_costs`` when they are read, so hours and days are the sums of their minutes, exactly. A
sum of nulls alone is null: nothing of it had a price.
"""

from __future__ import annotations

from collections.abc import Sequence

from schemas.ddl.columns import Column, create, described
from schemas.fields import Field, Kind, Role
from schemas.rows.costs import COST_PARTS, COSTS, LINES
from schemas.rows.gpu_shares import SHARES
from schemas.rows.tables import PARTIALS
from schemas.rows.usage import USAGE

LEVELS = {"1h": ("toStartOfHour", "hour"), "1d": ("toStartOfDay", "day")}
"""By suffix of a view: function of a moment, and the word for it."""
_MINUTE = "toDateTime(intDiv(minute_ms, 1000), 'UTC')"
_BILL = tuple(field for field in COSTS.fields if field.kind.item is None)
_NAMES = tuple(field for field in _BILL if field.role is Role.DIMENSION)
_AMOUNTS = tuple(
    field for field in _BILL if field.kind in (Kind.INT64, Kind.OPTIONAL_INT64) and field.role != Role.TIME
)
ADDED = {"part_carbon_ug": "part_name", "bill_carbon_ug": "bill_use"}
"""Lists that rows of 0.1.0 don't have, and one as long as they should be: nulls stand for what is missing."""
AMOUNT_UNIT = Field("amount_unit", Kind.LABEL, Role.ATTRIBUTE, "", "what the amount counts; sums are of one unit alone")
_UNIT_BY_KIND = "multiIf(each_kind IN ('prefill', 'decode'), 'tokens', each_kind = 'kv', 'token-ms', NULL)"
_OF_MINUTE = ("final", "revision", "version", "weights_version")
Shown = list[tuple[Column, str]]


def views() -> list[str]:
    """All of them."""
    found = [bills(), late(), spread("cost_parts", COST_PARTS, "part"), spread("cost_lines", LINES, "line")]
    for suffix in LEVELS:
        found.append(summed("costs", suffix, _NAMES, _AMOUNTS))
        found.append(summed("cost_parts", suffix, *_taken_apart(COST_PARTS, "part")))
        found.append(summed("cost_lines", suffix, *_taken_apart(LINES, "line")))
    return found


def late() -> str:
    """Final minutes with rows that no bill holds: they came after the minute was forgotten."""
    group = "ifNull(coalesce(placement_group, host), '') AS of_group"
    each = [
        f"SELECT intDiv(window_ms, 60000) * 60000 AS of_ms, {group}, max(log_offset) AS newest\n"
        f"    FROM {table} FINAL GROUP BY of_ms, of_group"
        for table in (USAGE.name, SHARES.name, PARTIALS["gpu.samples"].name)
    ]
    came = "\n    UNION ALL\n    ".join(each)
    source = (
        f"(\n    {came}\n) AS r\nINNER JOIN (\n"
        "    SELECT minute_ms, placement_group, max(revision) AS billed, min(final) AS is_final\n"
        "    FROM token_costs FINAL GROUP BY minute_ms, placement_group\n"
        ") AS c ON r.of_ms = c.minute_ms AND r.of_group = c.placement_group\n"
        "WHERE c.is_final = 1 AND r.newest > c.billed\nGROUP BY c.minute_ms, c.placement_group"
    )
    shown = [
        (Column("minute", "DateTime('UTC')", "start of the minute, event time"), _MINUTE.replace("minute", "c.minute")),
        (Column("placement_group", "String", "engines that share any GPU; else the host"), "c.placement_group"),
        (Column("newest_offset", "UInt64", "offset of the last row that no bill holds"), "max(r.newest)"),
        (Column("billed_offset", "UInt64", "offset of the last row that a bill holds"), "max(c.billed)"),
    ]
    return _view("cost_late", shown, source, "final minutes with rows that came too late for their bill: rerate them")


def bills() -> str:
    """One row per bill: of all its revisions the last."""
    shown = [_minute(), *((_column(field), whole(field.name)) for field in COSTS.fields)]
    return _view(
        "costs", shown, "token_costs AS t FINAL", "bills by minute, the last revision of each, with all its parts"
    )


def spread(name: str, lists: Sequence[Field], stem: str) -> str:
    """One row for each part, or line, of a bill."""
    own = [_column(field) for field in _BILL if field in _NAMES or field.name in ("minute_ms", *_OF_MINUTE)]
    shown = [_minute(), *((column, f"t.{column.name}") for column in own)]
    items = [(_item(field, stem), whole(field.name)) for field in lists]
    shown += [(column, f"each_{column.name}") for column, _ in items]
    if lists is COST_PARTS:
        shown.append((_column(AMOUNT_UNIT), _UNIT_BY_KIND))
    joined = ",\n    ".join(f"{source} AS each_{column.name}" for column, source in items)
    source = f"token_costs AS t FINAL\nARRAY JOIN\n    {joined}"
    return _view(name, shown, source, f"{stem}s of the bills, a row each, the last revision of each bill")


def summed(name: str, suffix: str, labels: Sequence[Field], amounts: Sequence[Field]) -> str:
    """Sums of the rows of a view by hour or day."""
    function, word = LEVELS[suffix]
    shown: Shown = [(Column(word, "DateTime('UTC')", f"start of the {word}, event time"), f"{function}(minute)")]
    shown += [(_column(field), field.name) for field in labels]
    shown += [(_column(field), f"sum(c.{field.name})") for field in amounts]
    shown.append((Column("final", "UInt32", "1 once all its minutes are final"), "min(c.final)"))
    groups = ", ".join([word, *(field.name for field in labels)])
    return _view(f"{name}_{suffix}", shown, f"{name} AS c\nGROUP BY {groups}", f"sums of {name} by {word}")


def whole(name: str) -> str:
    """SQL of a column of row ``t``, a list as long as the others of the row."""
    like = ADDED.get(name)
    return f"t.{name}" if like is None else f"arrayResize(t.{name}, length(t.{like}), NULL)"


def _taken_apart(lists: Sequence[Field], stem: str) -> tuple[list[Field], list[Field]]:
    """Labels and amounts of the rows of a list, as fields."""
    labels, amounts = list(_NAMES), list[Field]()
    for field in lists:
        column = _item(field, stem)
        assert field.kind.item is not None
        found = Field(column.name, field.kind.item, field.role, field.unit, column.comment.split(" [")[0])
        (labels if field.kind is Kind.LIST_LABEL else amounts).append(found)
    return [*labels, AMOUNT_UNIT] if lists is COST_PARTS else labels, amounts


def _item(field: Field, stem: str) -> Column:
    """A column of what a list holds: ``part_cost_nusd`` is ``cost_nusd`` there, ``part_name`` is ``part``."""
    name = field.name.removeprefix(f"{stem}_")
    assert field.kind.item is not None
    meaning = field.meaning.replace(f"each {stem}", f"the {stem}")
    return Column(stem if name == "name" else name, field.kind.item.value, described(meaning, field.unit))


def _column(field: Field) -> Column:
    kind = "LowCardinality(String)" if field.name in ("use", "owner", "placement_group") else field.kind.value
    return Column(field.name, kind, described(field.meaning, field.unit))


def _minute() -> tuple[Column, str]:
    return Column("minute", "DateTime('UTC')", "start of the minute, event time"), _MINUTE


def _view(name: str, shown: Shown, source: str, comment: str) -> str:
    picked = ",\n    ".join(sql if sql == column.name else f"{sql} AS {column.name}" for column, sql in shown)
    behind = f"AS SELECT\n    {picked}\nFROM {source}"
    return create("CREATE OR REPLACE VIEW", name, [column for column, _ in shown], behind, comment)
