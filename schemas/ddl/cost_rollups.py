"""Bills by minute, hour and day: sums of bills, of their parts and lines, of all together and by owner.

An engine with sixty tenants has some two hundred parts in a bill, and ten thousand GPUs half a million a minute. Of
one bucket all is kept in *one* row, as lists: sums of bills, parts and lines by all but their owner, and by owner
without tenants. So a bucket is replaced as a whole: a part that a later revision of a bill no longer has is gone here,
too.

``version`` is the sum of the versions of the bills behind a row. A bill's version only grows, so that the row of the
latest revisions stays, whatever the order in which computations arrive. Money and energy are integers: sums of sums
are exact, and a sum of nulls alone is null. ``detail`` is 0 in rows of 0.1.0, which lack some of the lists: what is
asked of these is read from bills (``schemas.ddl.billed_views``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schemas.ddl.columns import Column, codec_of, month, table
from schemas.ddl.cost_views import LACKING, METER, METER_OF_PART, lacking, lacking_what, whole
from schemas.ddl.merging import LEVELS, Level, ranges
from schemas.ddl.tables import NOTES
from schemas.fields import Kind
from schemas.rows.costs import COSTS

TOPIC = "costs"
IDLE = "('__idle__', '__wasted__')"
_MEANINGS = {field.name: field.meaning for field in COSTS.fields}
_LABEL, _AMOUNT, _COUNT = "LowCardinality(Nullable(String))", "Nullable(Int64)", "Int64"


@dataclass(frozen=True, slots=True)
class Item:
    """A list of a row. ``of_one`` is its value as SQL of one bill ``t``, or of a part or line of it."""

    name: str
    type: str
    meaning: str
    of_one: str


@dataclass(frozen=True, slots=True)
class Lists:
    """Lists of one length: sums by labels, of bills, or of the parts or lines of each. Sums are
    apart where a condition of ``apart`` holds: tokens without a price are in no price. Rows of 0.1.0 have no lists of
    ``added``."""

    stem: str
    of: str
    labels: tuple[Item, ...]
    sums: tuple[Item, ...]
    apart: tuple[str, ...] = ()
    added: tuple[str, ...] = ()

    @property
    def items(self) -> tuple[Item, ...]:
        """All of them, labels first."""
        return (*self.labels, *self.sums)

    def column(self, item: Item) -> str:
        """The list's name in a row."""
        return f"{self.stem}_{item.name}"

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all lists in a row."""
        return tuple(map(self.column, self.items))

    def of_bill(self) -> str:
        """What makes parts or lines of a bill ``t`` rows, with columns ``each_...``; empty for bills themselves."""
        fields = [field.name for field in COSTS.fields if self.of and field.name.startswith(f"{self.of}_")]
        each = ", ".join(f"{whole(name)} AS each_{name.removeprefix(f'{self.of}_')}" for name in fields)
        return f"\nARRAY JOIN {each}" if each else ""

    def of_row(self) -> str:
        """What makes the lists of a row ``t`` rows, with columns ``each_...``; those that it lacks are null."""
        first = f"t.{self.columns[0]}"
        each = (
            f"arrayResize(t.{self.column(one)}, length({first}), NULL)"
            if one.name in self.added
            else f"t.{self.column(one)}"
            for one in self.items
        )
        return "\nARRAY JOIN " + ", ".join(
            f"{sql} AS each_{one.name}" for sql, one in zip(each, self.items, strict=True)
        )


def _label(name: str, meaning: str, sql: str) -> Item:
    return Item(name, _LABEL, meaning, sql)


def _labels(*names: str) -> tuple[Item, ...]:
    """Labels of parts or lines, as they are."""
    meanings = {"name": "what for", "kind": "what was paid for", "tenant": "whose", "model": "model",
                "status": "how requests ended", "slo_class": "service class"}  # fmt: skip
    return tuple(_label(name, meanings[name], f"each_{name}") for name in names)


def _each(of: str, *names: str) -> tuple[Item, ...]:
    """Amounts of parts or lines, as they are."""
    kinds = {field.name: field.kind for field in COSTS.fields}
    types = {Kind.LIST_INT64: _COUNT, Kind.LIST_OPTIONAL_INT64: _AMOUNT}
    meanings = {name: _MEANINGS[f"{of}_{name}"].removeprefix("of each line ") for name in names}
    return tuple(Item(name, types[kinds[f"{of}_{name}"]], meanings[name], f"each_{name}") for name in names)


def _amounts(*names: str) -> tuple[Item, ...]:
    return tuple(Item(name, _AMOUNT, _MEANINGS[name], f"t.{name}") for name in names)


_USE, _REGION = _label("use", "what the GPUs are for", "t.use"), _label("region", "region of the GPUs", "t.region")
_TYPE = _label("gpu_model", "product name of the GPUs; null where they are of several", "t.gpu_model")
_OWNER = _label("owner", "engine id; the host where no engine holds the GPU", "t.owner")
_HOST = _label("host", "host of the GPUs; null where they are on several", "t.host")
_METER = Item(METER.name, _AMOUNT, METER.meaning, METER_OF_PART)
_ADDED = ("meter_mj", "carbon_ug")
BILLS = Lists(
    "bill",
    "",
    (
        _USE,
        _REGION,
        _TYPE,
        _label("prices_version", "version of the prices that it was billed with", "t.prices_version"),
        _label("weights_version", "version of the weights that parts were split by", "toString(t.weights_version)"),
        _label("definition_version", "version of the metric definitions", "toString(t.definition_version)"),
    ),
    (
        Item("count", _COUNT, "bills", "1"),
        Item("provisional", _COUNT, "bills that may still change", "toInt64(t.final = 0)"),
        *_amounts(
            "total_nusd", "gpu_nusd", "host_nusd", "energy_nusd", "gpu_ms", "energy_mj", "unpriced_gpu_ms",
            "estimated_gpu_ms", "meter_mj", "carbon_ug", "unpriced_energy_mj", "unmeasured_gpu_ms",
        ),
    ),
    (*(f"{{{name}}} IS NULL" for name in ("total_nusd", "gpu_nusd", *_ADDED)), "{unpriced_gpu_ms} > 0"),
    (
        "gpu_model", "prices_version", "weights_version", "definition_version", *_ADDED, "unpriced_energy_mj",
        "unmeasured_gpu_ms",
    ),
)  # fmt: skip
_OF_PARTS = ("amount", "cost_nusd", "energy_mj", "gpu_ms", "carbon_ug")
PARTS = Lists(
    "part",
    "part",
    (
        *_labels("name", "kind", "tenant", "model", "status"),
        _REGION,
        _label("use", "what idle GPUs are for; else null", f"if(each_name IN {IDLE}, t.use, NULL)"),
        _label("owner", "engine or host that stood idle; else null", f"if(each_name IN {IDLE}, t.owner, NULL)"),
        _label("gpu_model", "product name of idle GPUs; else null", f"if(each_name IN {IDLE}, t.gpu_model, NULL)"),
        *_labels("slo_class"),
    ),
    (*_each("part", *_OF_PARTS), _METER),
    tuple(f"{{{name}}} IS NULL" for name in ("cost_nusd", *_ADDED)),
    ("slo_class", *_ADDED),
)
_LACKING = {name: _label(name, lacking_what(name), lacking(name)) for name in LACKING}
_OF_LINES = ("requests", "prefill_tokens", "cached_tokens", "decode_tokens")
LINES = Lists(
    "line",
    "line",
    (*_labels("tenant", "model", "slo_class", "status"), _REGION, _TYPE, *_LACKING.values()),
    _each("line", *_OF_LINES),
    added=tuple(_LACKING),
)
OWNERS = Lists(
    "owner",
    "",
    (_USE, _label("name", _OWNER.meaning, _OWNER.of_one), _HOST, _TYPE, _REGION),
    _amounts("total_nusd", "gpu_ms", "energy_mj", "meter_mj", "carbon_ug"),
)
OWNER_PARTS = Lists(
    "owner_part",
    "part",
    (_USE, _OWNER, *_labels("name", "model", "status")),
    _each("part", "cost_nusd", "gpu_ms"),
)
OWNER_LINES = Lists(
    "owner_line",
    "line",
    (_USE, _OWNER, *_labels("model"), _LACKING["unpriced"]),
    _each("line", *_OF_LINES),
    added=("unpriced",),
)
ALL = (BILLS, PARTS, LINES, OWNERS, OWNER_PARTS, OWNER_LINES)
COLUMNS = tuple(name for lists in ALL for name in lists.columns)


PENDING = f"""(
        SELECT groupUniqArray((level, window_ms))
        FROM
        (
            SELECT level, window_ms FROM {NOTES} WHERE topic = '{TOPIC}'
            GROUP BY level, window_ms, writer HAVING max(noted) > max(done)
        )
    ) AS pending"""
"""Buckets of any level whose bills have changed since they were computed, by level and start."""


def current(level: Level) -> str:
    """That a row of a level holds all that its bills are by now: it has every list, is over for as long again, and no
    bucket in it is ``pending``, which must be known to the query."""
    finer = [f"'{one.name}'" for one in LEVELS if one.bucket_ms <= level.bucket_ms]
    changed = f"arrayFilter(one -> one.1 IN ({', '.join(finer)}), pending)"
    starts = f"arrayMap(one -> intDiv(one.2, {level.bucket_ms}) * {level.bucket_ms}, {changed})"
    return (
        f"detail = 1 AND window_ms + {2 * level.bucket_ms} <= toUnixTimestamp64Milli(now64(3))\n"
        f"            AND window_ms NOT IN (SELECT arrayJoin({starts}))"
    )


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
            Column(
                lists.column(one),
                f"Array({one.type})",
                f"of each {lists.stem.replace('owner_', 'owner and ')}: {one.meaning}",
                "ZSTD(1)",
            )
            for lists in ALL
            for one in lists.items
        ),
        Column("version", "UInt64", "sum of the versions of its bills; the greatest wins", "ZSTD(1)"),
        Column("oldest_ms", "Int64", "its first minute with a bill [ms]", "ZSTD(1)"),
        Column("detail", "UInt8", "1: all lists are there; 0: as release 0.1.0 wrote it", "ZSTD(1)"),
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


_HEAD = (
    ("newest_ms", "max(t.minute_ms)", "max(t.newest_ms)"),
    ("oldest_ms", "min(t.minute_ms)", "min(t.oldest_ms)"),
    ("detail", "1", "min(t.detail)"),
    ("version", "sum(t.version)", "sum(t.version)"),
)
"""Columns of a row beside its lists: of bills, and of rows below."""


def insert(level: Level, buckets: Sequence[int]) -> str:
    """The statement that computes whole buckets again and replaces their rows."""
    bills = level.below is None
    source = COSTS.name if level.below is None else table_of(level.below)
    time = "t.minute_ms" if bills else "t.window_ms"
    within = f"FROM {source} AS t FINAL\nWHERE {ranges(time, level, buckets)}"
    bucket = f"intDiv({time}, {level.bucket_ms}) * {level.bucket_ms} AS bucket_ms"
    head = ", ".join(f"{of_bills if bills else of_rows} AS {name}" for name, of_bills, of_rows in _HEAD)
    names = [name for name, _, _ in _HEAD]
    picked = ["h.bucket_ms", *(f"h.{name}" for name in names)]
    joined = []
    for lists in ALL:
        picked += [f"{lists.stem}.found.{number}" for number in range(1, 1 + len(lists.items))]
        joined.append(
            f"LEFT JOIN\n(\n{_grouped(lists, bucket, within, bills=bills)}\n) AS {lists.stem}"
            f" ON {lists.stem}.bucket_ms = h.bucket_ms"
        )
    return (
        f"INSERT INTO {table_of(level.name)} (window_ms, {', '.join(names)}, {', '.join(COLUMNS)})\n"
        f"SELECT {', '.join(picked)}\nFROM\n(\nSELECT {bucket}, {head}\n{within}\nGROUP BY bucket_ms\n) AS h\n"
        + "\n".join(joined)
    )


def _grouped(lists: Lists, bucket: str, within: str, *, bills: bool) -> str:
    """Lists of sums by labels, a row for each bucket."""
    each = {one.name: one.of_one if bills else f"each_{one.name}" for one in lists.items}
    join = lists.of_bill() if bills else lists.of_row()
    picked = [f"{each[one.name]} AS of_{one.name}" for one in lists.labels]
    picked += [f"sum({each[one.name]}) AS of_{one.name}" for one in lists.sums]
    groups = ", ".join(
        [*(f"of_{one.name}" for one in lists.labels), *(condition.format(**each) for condition in lists.apart)]
    )
    names = ", ".join(f"of_{one.name}" for one in lists.items)
    where = within.replace("\nWHERE", f"{join}\nWHERE")
    inner = f"SELECT {bucket}, {', '.join(picked)}\n{where}\nGROUP BY bucket_ms, {groups}"
    return f"SELECT bucket_ms, groupArray(({names})) AS found\nFROM\n(\n{inner}\n)\nGROUP BY bucket_ms"
