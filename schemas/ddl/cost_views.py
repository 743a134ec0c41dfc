"""Views of costs: the last bill of every minute, its parts and its usage a row each, and sums of all by hour and day.

All are computed from ``token_costs`` when they are read, so hours and days are the sums of their minutes, exactly. A
sum of nulls alone is null: nothing of it had a price.
"""

from __future__ import annotations

from collections.abc import Sequence

from schemas.ddl.columns import Column, create, described
from schemas.definitions import UNIT_COSTS, UNIT_OF, UNITS
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
ADDED = {f"{of}_{name}": first for of, first in (("part", "part_name"), ("bill", "bill_use"))
         for name in ("carbon_ug", "meter_mj")}  # fmt: skip
"""Lists that rows of 0.1.0 don't have, and one as long as they should be: nulls stand for what is missing."""
AMOUNT_UNIT = Field("amount_unit", Kind.LABEL, Role.ATTRIBUTE, "", "what the amount counts; sums are of one unit alone")
METER = Field(
    "meter_mj", Kind.OPTIONAL_INT64, Role.ATTRIBUTE, "mJ", "energy of the part at the meter, with the bill's PUE"
)
METER_OF_PART = "toInt64(intDiv(toInt128(each_energy_mj) * t.meter_mj, nullIf(t.energy_mj, 0)))"
"""Rounded down: a bill has energy at the meter as a whole, and its parts have theirs by their energy."""
LACKING = {"unpriced": ("USD", "total_nusd", "a cost"), "unmetered": ("kWh", "meter_mj", "energy at the meter"),
           "uncounted": ("g", "carbon_ug", "CO2e")}  # fmt: skip
"""Labels of usage whose bill lacks an amount: its unit, the amount, what it is called. Lines have none of their own."""
_UNIT_BY_KIND = "multiIf(each_kind IN ('prefill', 'decode'), 'tokens', each_kind = 'kv', 'token-ms', NULL)"
_OF_MINUTE = ("final", "revision", "version", "weights_version")
Shown = list[tuple[Column, str]]


def views() -> list[str]:
    """All of them."""
    found = [
        bills(),
        late(),
        spread("cost_parts", COST_PARTS, "part"),
        spread("cost_lines", LINES, "line"),
        unit_costs(),
    ]
    for suffix in LEVELS:
        found.append(summed("costs", suffix, _NAMES, _AMOUNTS))
        found.append(summed("cost_parts", suffix, *_taken_apart(COST_PARTS, "part")))
        found.append(summed("cost_lines", suffix, *_taken_apart(LINES, "line")))
    return found


def late() -> str:
    """Final minutes with rows that no bill holds: they came after the minute was forgotten, or its bills failed.

    A minute is final when a final bill of its partition is as new: those of a partition become final together. Topic
    ``costs`` may have fewer partitions than ``window.partials``, which may grow: bills of several are in one then, by
    the remainder. Shares alone make no bill.
    """
    group = "ifNull(coalesce(placement_group, host), '') AS of_group"
    tables = ((USAGE, 1, "1"), (SHARES, 0, "1"), (PARTIALS["gpu.samples"], 1, "grouping = 'gpu'"))
    in_costs = f"toUInt32(max(log_partition) % ifNull((SELECT max(log_partition) + 1 FROM {COSTS.name}), 1))"
    each = [
        f"SELECT intDiv(window_ms, 60000) * 60000 AS of_ms, {group}, {in_costs} AS of_partition,\n"
        f"        max(log_offset) AS newest, {is_billed} AS is_billed\n"
        f"    FROM {table.name} FINAL WHERE {which} GROUP BY of_ms, of_group"
        for table, is_billed, which in tables
    ]
    came = "\n    UNION ALL\n    ".join(each)
    source = (
        f"(\n    {came}\n) AS r\nINNER JOIN (\n"
        "    SELECT log_partition, max(minute_ms) AS final_ms FROM token_costs FINAL WHERE final = 1\n"
        "    GROUP BY log_partition\n"
        ") AS p ON r.of_partition = p.log_partition\nLEFT JOIN (\n"
        "    SELECT minute_ms, placement_group, toNullable(max(revision)) AS billed, min(final) AS is_final\n"
        "    FROM token_costs FINAL GROUP BY minute_ms, placement_group\n"
        ") AS c ON r.of_ms = c.minute_ms AND r.of_group = c.placement_group\n"
        "WHERE if(c.billed IS NULL, r.is_billed = 1, r.newest > c.billed OR c.is_final = 0) AND r.of_ms <= p.final_ms\n"
        "GROUP BY r.of_ms, r.of_group"
    )
    shown = [
        (Column("minute", "DateTime('UTC')", "start of the minute, event time"), _MINUTE.replace("minute", "r.of")),
        (Column("placement_group", "String", "engines that share any GPU; else the host"), "r.of_group"),
        (Column("newest_offset", "UInt64", "offset of the last row that no bill holds"), "max(r.newest)"),
        (Column("billed_offset", "Nullable(UInt64)", "offset of the last row that a bill holds; null: no bill"),
         "max(c.billed)"),
    ]  # fmt: skip
    comment = "final minutes with rows that no final bill holds, too late for it or as it failed: rerate them"
    return _view("cost_late", shown, source, comment)


def unit_costs() -> str:
    """What tokens and requests cost, emitted and took at the meter, by hour, tenant and model.

    Sums have columns too: over other ranges and groups a price is a sum of money by a sum of tokens.
    """
    label, many, ratio = "LowCardinality(Nullable(String))", "Nullable(Int128)", "Nullable(Float64)"
    shown: Shown = [
        (Column("hour", "DateTime('UTC')", "start of the hour, event time"), "of_hour"),
        (Column("tenant", label, "whose; null: nobody's in particular"), "tenant"),
        (Column("model", label, "model as served; null: nobody's in particular"), "model"),
        (Column("unused", label, "the part of bills, of what is of no request: waiting, idle, start-up"), "unused"),
    ]
    sums: Shown = [
        (Column("requests", "UInt64", "requests that ended"), "sum(requests)"),
        (Column("cached_tokens", "Nullable(Int64)",
                "prompt tokens from the prefix cache, of bills with a cost: none of their own"), "sum(cached_tokens)"),
        *((Column(name, many, described(meaning, unit)), f"sum(toInt128({name}))") for name, unit, meaning in (
            ("cost_nusd", "nUSD", "cost"), ("energy_mj", "mJ", "energy of the GPUs"), ("gpu_ms", "ms", "GPU time"),
            ("meter_mj", "mJ", "energy at the meter, with PUE"), ("carbon_ug", "ug", "CO2e, with PUE"),
        )),
        *((Column(one.name, ratio if one.unit in UNITS else many, described(one.meaning, one.unit)), one.sql)
          for one in UNIT_COSTS),
        *((Column(f"{unit.lower()}_per_request", ratio,
                  described("a request of bills that have it, with all of its tokens", unit)),
           f"{to_unit.format(f'sum(toInt128({UNIT_OF[unit]}))')} / nullIf(sum({unit.lower()}_requests), 0)")
          for unit, to_unit in UNITS.items()),
    ]  # fmt: skip
    shown += [(column, f"u.of_{column.name}") for column, _ in sums]
    picked = ",\n        ".join(f"{sql} AS of_{column.name}" for column, sql in sums)
    groups, amounts = (
        "of_hour, tenant, model, unused",
        "kind, amount, cost_nusd, energy_mj, meter_mj, carbon_ug, gpu_ms",
    )
    of_hour = "SELECT toStartOfHour(minute) AS of_hour, tenant, model"
    counts = {"requests": "toUInt64(requests)"}
    for name, (unit, _, _) in LACKING.items():
        counts[f"{unit.lower()}_requests"] = f"toUInt64(if({name} IS NULL, requests, 0))"
    none, counted = ", ".join(f"toUInt64(0) AS {name}" for name in counts), ", ".join(counts.values())
    rows = (
        f"        {of_hour}, if(status IS NULL, part, NULL) AS unused,\n            {amounts},"
        f"\n            {none}, CAST(NULL, 'Nullable(Int64)') AS cached_tokens\n        FROM cost_parts\n"
        f"        UNION ALL\n        {of_hour}, NULL,\n            {', '.join(['NULL'] * (amounts.count(',') + 1))},"
        f"\n            {counted}, if(unpriced IS NULL, cached_tokens, NULL)\n        FROM cost_lines"
    )
    grouped = f"    SELECT\n        {groups},\n        {picked}\n    FROM (\n{rows}\n    )\n    GROUP BY {groups}"
    comment = "unit costs by hour, tenant and model: prices times tokens are the cost, all rows are the bills"
    return _view("unit_costs", shown, f"(\n{grouped}\n) AS u", comment)


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
        shown += [(_column(AMOUNT_UNIT), _UNIT_BY_KIND), (_column(METER), METER_OF_PART)]
    else:
        label = "LowCardinality(Nullable(String))"
        shown += [(Column(name, label, lacking_what(name)), lacking(name)) for name in LACKING]
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


def lacking(name: str) -> str:
    """SQL of a label of ``LACKING``, of a bill ``t``."""
    return f"if(t.{LACKING[name][1]} IS NULL, 'yes', NULL)"


def lacking_what(name: str) -> str:
    """What the label says."""
    return f"yes: the bill lacks {LACKING[name][2]}; else null"


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
    return ([*labels, AMOUNT_UNIT], [*amounts, METER]) if lists is COST_PARTS else (labels, amounts)


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
