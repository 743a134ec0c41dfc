"""Bills by minute, hour and day: what tenants, models and idle GPUs cost, without each engine's own bill.

An engine with sixty tenants has some two hundred parts in a bill, and ten thousand GPUs half a million a minute. Of
one bucket all is kept in *one* row, as lists: sums of bills by use and region, and sums of parts by all but the engine
(engines and hosts are kept for what stood idle alone, of which each bill has a part or two). So a bucket is replaced
as a whole: a part that a later revision of a bill no longer has is gone here, too.

``version`` is the sum of the versions of the bills behind a row. A bill's version only grows, so that the row of the
latest revisions stays, whatever the order in which computations arrive. Money and energy are integers: sums of sums
are exact, and a sum of nulls alone is null.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schemas.ddl.columns import Column, codec_of, month, table
from schemas.ddl.cost_views import METER, METER_OF_PART, whole
from schemas.ddl.merging import LEVELS, Level, ranges
from schemas.rows.costs import COSTS

TOPIC = "costs"
IDLE = "('__idle__', '__wasted__')"
_MEANINGS = {field.name: field.meaning for field in COSTS.fields}
_LABEL, _AMOUNT, _COUNT = "LowCardinality(Nullable(String))", "Nullable(Int64)", "Int64"


@dataclass(frozen=True, slots=True)
class Item:
    """A list of a row. ``of_bills`` is its SQL over bills ``t``, or over their parts; over rows below it adds up."""

    name: str
    type: str
    meaning: str
    of_bills: str


def _labels(stem: str, *listed: tuple[str, str, str]) -> tuple[Item, ...]:
    return tuple(Item(f"{stem}_{name}", _LABEL, meaning, sql) for name, meaning, sql in listed)


def _sums(stem: str, kind: str, *listed: tuple[str, str, str]) -> tuple[Item, ...]:
    return tuple(Item(f"{stem}_{name}", kind, meaning, sql) for name, meaning, sql in listed)


BILL_LABELS = _labels("bill", ("use", "what the GPUs are for", "t.use"), ("region", "region of the GPUs", "t.region"))
BILL_SUMS = (
    *_sums(
        "bill",
        _COUNT,
        ("count", "bills", "count()"),
        ("provisional", "bills that may still change", "countIf(t.final = 0)"),
    ),
    *_sums(
        "bill",
        _AMOUNT,
        *((name, _MEANINGS[name], f"sum(t.{name})") for name in (
            "total_nusd", "gpu_nusd", "host_nusd", "energy_nusd", "gpu_ms", "energy_mj", "unpriced_gpu_ms",
            "estimated_gpu_ms", "meter_mj", "carbon_ug",
        )),
    ),
)  # fmt: skip
PART_LABELS = _labels(
    "part",
    ("name", "what for", "each_name"),
    ("kind", "what was paid for", "each_kind"),
    ("tenant", "whose", "each_tenant"),
    ("model", "model", "each_model"),
    ("status", "how requests ended", "each_status"),
    ("region", "region of the GPUs", "t.region"),
    ("use", "what idle GPUs are for; else null", f"if(each_name IN {IDLE}, t.use, NULL)"),
    ("owner", "engine or host that stood idle; else null", f"if(each_name IN {IDLE}, t.owner, NULL)"),
    ("gpu_model", "product name of idle GPUs; else null", f"if(each_name IN {IDLE}, t.gpu_model, NULL)"),
)
PART_SUMS = _sums(
    "part",
    _AMOUNT,
    *((name, _MEANINGS[f"part_{name}"], f"sum(each_{name})")
      for name in ("amount", "cost_nusd", "energy_mj", "gpu_ms", "carbon_ug")),
    (METER.name, METER.meaning, f"sum({METER_OF_PART})"),
)  # fmt: skip
_LISTS = (*BILL_LABELS, *BILL_SUMS, *PART_LABELS, *PART_SUMS)
COLUMNS = tuple(one.name for one in _LISTS)
_APART = tuple(f"{of}_{name}" for of, cost in (("bill", "total_nusd"), ("part", "cost_nusd"))
               for name in (cost, "meter_mj", "carbon_ug"))  # fmt: skip
"""Where one of these is not known, sums are apart from those where it is: tokens without a price are in no price."""
_OF_PARTS = ("name", "kind", "tenant", "model", "status", "amount", "cost_nusd", "energy_mj", "gpu_ms", "carbon_ug")


def table_of(level: str) -> str:
    """Name of the table of a level."""
    return f"{COSTS.name}_rollup_{level}"


def tables() -> list[str]:
    """The tables of all levels."""
    return [_table(level) for level in LEVELS]


def _table(level: Level) -> str:
    columns = [
        Column("window_ms", "Int64", f"start of the {level.name} bucket [ms]", codec_of("window_ms", "Int64")),
        Column("newest_ms", "Int64", "its latest minute with a bill [ms]", "ZSTD(1)"),
        *(
            Column(one.name, f"Array({one.type})", f"of each {one.name[:4]}: {one.meaning}", "ZSTD(1)")
            for one in _LISTS
        ),
        Column("version", "UInt64", "sum of the versions of its bills; the greatest wins", "ZSTD(1)"),
    ]
    computed = f"computed whole from the {level.below or 'bills'}; read with FINAL"
    return table(
        table_of(level.name),
        columns,
        "ReplacingMergeTree(version)",
        "window_ms",
        f"{level.name} sums of bills and their parts, {computed}",
        partition=month("window_ms"),
        settings="ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0",
    )


def insert(level: Level, buckets: Sequence[int]) -> str:
    """The statement that computes whole buckets again and replaces their rows."""
    bills = level.below is None
    source = COSTS.name if level.below is None else table_of(level.below)
    time = "t.minute_ms" if bills else "t.window_ms"
    within = f"FROM {source} AS t FINAL\nWHERE {ranges(time, level, buckets)}"
    bucket = f"intDiv({time}, {level.bucket_ms}) * {level.bucket_ms} AS bucket_ms"
    newest = "max(t.minute_ms)" if bills else "max(t.newest_ms)"
    head = f"SELECT {bucket}, {newest} AS newest_ms, sum(t.version) AS version\n{within}\nGROUP BY bucket_ms"
    of_bills = _grouped(bucket, BILL_LABELS, BILL_SUMS, within, bills=bills, joined=not bills)
    of_parts = _grouped(bucket, PART_LABELS, PART_SUMS, within, bills=bills, joined=True)
    picked = [f"b.found.{number}" for number in range(1, 1 + len(BILL_LABELS) + len(BILL_SUMS))]
    picked += [f"p.found.{number}" for number in range(1, 1 + len(PART_LABELS) + len(PART_SUMS))]
    return (
        f"INSERT INTO {table_of(level.name)} (window_ms, newest_ms, version, {', '.join(one.name for one in _LISTS)})\n"
        f"SELECT h.bucket_ms, h.newest_ms, h.version, {', '.join(picked)}\nFROM\n(\n{head}\n) AS h\n"
        f"INNER JOIN\n(\n{of_bills}\n) AS b ON b.bucket_ms = h.bucket_ms\n"
        f"LEFT JOIN\n(\n{of_parts}\n) AS p ON p.bucket_ms = h.bucket_ms"
    )


def _grouped(
    bucket: str, labels: Sequence[Item], sums: Sequence[Item], within: str, *, bills: bool, joined: bool
) -> str:
    """Lists of sums by labels, a row for each bucket."""
    lists = _OF_PARTS if bills else tuple(one.name for one in (*labels, *sums))
    stem = "part_" if bills else ""
    each = ", ".join(f"{whole(stem + name)} AS each_{name}" for name in lists)
    join = f"\nARRAY JOIN {each}" if joined else ""
    picked = [f"{one.of_bills if bills else f'each_{one.name}'} AS of_{one.name}" for one in labels]
    picked += [f"{one.of_bills if bills else f'sum(each_{one.name})'} AS of_{one.name}" for one in sums]
    apart = (one.of_bills[len("sum(") : -1] if bills else f"each_{one.name}" for one in sums if one.name in _APART)
    groups = ", ".join([*(f"of_{one.name}" for one in labels), *(f"{amount} IS NULL" for amount in apart)])
    names = ", ".join(f"of_{one.name}" for one in (*labels, *sums))
    where = within.replace("\nWHERE", f"{join}\nWHERE")
    inner = f"SELECT {bucket}, {', '.join(picked)}\n{where}\nGROUP BY bucket_ms, {groups}"
    return f"SELECT bucket_ms, groupArray(({names})) AS found\nFROM\n(\n{inner}\n)\nGROUP BY bucket_ms"
