"""Books and bills of a big fleet, drawn by the database itself: what *Pipeline* and *Cost* are asked of.

Lines of books are those of an hour (a commit every five seconds, a line for each host and topic); sums of a minute, of
an hour and of a day, of books and of bills, are those of the whole history. In a minute each engine stands idle for a
part of its bill, every tenant has requests to every model in every region, and some of them fail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fleetpulse.bench.dashboard_history import ENGINES_PER_HOST, REGIONS, Fleet
from schemas import book_rollups, cost_rollups
from schemas.limits import HOUR_MS, MINUTE_MS
from schemas.merging import BY_LEVEL
from schemas.tables import BOOKS
from sinks.database import SinkDatabase

COMMIT_MS = 5_000
BOOKED = ("llm.requests", "gpu.samples", "host.samples", "engine.samples")
LEVELS = ("1m", "1h", "1d")
KINDS = ("prefill", "decode", "kv")
Tell = Callable[[str, int, int], None]


def fill_sums(database: SinkDatabase, fleet: Fleet, span: tuple[int, int], tell: Tell) -> int:
    """Insert all of it over ``span`` = [from, to) in ms, whole minutes; the rows inserted."""
    from_ms, to_ms = span
    lines = [(at, at + MINUTE_MS) for at in range(max(from_ms, to_ms - HOUR_MS), to_ms, MINUTE_MS)]
    rows = _each("books, lines", [_lines(fleet, *one) for one in lines], database, tell, _lines_of(fleet))
    for level in LEVELS:
        width_ms = BY_LEVEL[level].bucket_ms
        count = -(-(to_ms - from_ms) // width_ms)
        first_ms = from_ms - from_ms % width_ms
        rows += _each(f"books, sums of {level}", [_books(level, first_ms, count)], database, tell, count * len(BOOKED))
        some = 60
        chunks = [(first_ms + at * width_ms, min(some, count - at)) for at in range(0, count, some)]
        texts = [_bills(fleet, level, at_ms, of) for at_ms, of in chunks]
        rows += _each(f"bills, sums of {level}", texts, database, tell, 0) + count
    return rows


def _each(what: str, statements: Sequence[str], database: SinkDatabase, tell: Tell, rows: int) -> int:
    for number, sql in enumerate(statements, 1):
        database.command(sql)
        tell(what, number, len(statements))
    return rows * len(statements)


def _lines_of(fleet: Fleet) -> int:
    return fleet.hosts * len(BOOKED) * MINUTE_MS // COMMIT_MS


def _lines(fleet: Fleet, from_ms: int, to_ms: int) -> str:
    """A minute of lines: of each commit one for each topic and host; every thousandth tells of refused events."""
    commits = (to_ms - from_ms) // COMMIT_MS
    return f"""
INSERT INTO {BOOKS.name} (committed_ms, partition, offset_from, offset_to, boot, verdict, records, events, job, topic,
    source, log_id, log_partition, log_offset, log_row)
SELECT at_ms, host % 16, at_ms, at_ms + 1, 1, if(cityHash64(number, at_ms) % 1000 = 0, 3, 0), 5,
    20 + cityHash64(number) % 40, 'windows', {words(BOOKED)}[1 + number % {len(BOOKED)}],
    concat('host-', toString(host)), 'bench', 0, at_ms, number
FROM
(
    SELECT number, intDiv(number, {len(BOOKED)}) % {fleet.hosts} AS host,
        {from_ms} + {COMMIT_MS} * intDiv(number, {len(BOOKED) * fleet.hosts}) AS at_ms
    FROM numbers({commits * len(BOOKED) * fleet.hosts})
)"""


def _books(level: str, first_ms: int, count: int) -> str:
    width_ms = BY_LEVEL[level].bucket_ms
    return f"""
INSERT INTO {book_rollups.table_of(level)}
    (window_ms, job, topic, verdict, identified, records, events, last_commit_ms, version)
SELECT {first_ms} + {width_ms} * intDiv(number, {len(BOOKED)}) AS at_ms, 'windows',
    {words(BOOKED)}[1 + number % {len(BOOKED)}], 0, 1, {width_ms // 10}, {width_ms} + cityHash64(number) % 1000,
    at_ms + {width_ms} - 1, 1
FROM numbers({count * len(BOOKED)})"""


def _bills(fleet: Fleet, level: str, first_ms: int, count: int) -> str:
    """Buckets of bills: parts of requests first, then those of idle engines."""
    width_ms = BY_LEVEL[level].bucket_ms
    minutes = width_ms // MINUTE_MS
    engines = fleet.hosts * ENGINES_PER_HOST
    tenants, models, regions = len(fleet.tenants), len(fleet.models), len(REGIONS)
    paid = 2 * len(KINDS) * tenants * models * regions
    each = f"range({paid + engines})"

    def label(of_request: str, of_idle: str) -> str:
        return f"arrayMap(i -> if(i < {paid}, {of_request}, {of_idle}), {each})"

    def amount(most: int) -> str:
        return f"arrayMap(i -> toInt64(cityHash64(i, number, {fleet.seed}) % {most * minutes}), {each})"

    def of_regions(value: str) -> str:
        return f"arrayMap(i -> {value}, range({regions}))"

    region = f"{words(REGIONS)}[1 + i % {regions}]"
    bill = f"toInt64({engines // regions * minutes} * (1000000 + cityHash64(i, number) % 1000))"
    columns = {
        "window_ms": f"{first_ms} + {width_ms} * number",
        "newest_ms": f"{first_ms} + {width_ms} * (number + 1) - {MINUTE_MS}",
        "version": "1",
        **{one.name: of_regions(bill) for one in cost_rollups.BILL_SUMS},
        "bill_use": of_regions("'engine'"),
        "bill_region": of_regions(region),
        "bill_count": of_regions(f"{engines // regions * minutes}"),
        "part_name": label("if(i % 2 = 0, 'request', '__overhead__')", "'__wasted__'"),
        "part_kind": label(f"{words(KINDS)}[1 + intDiv(i, 2) % {len(KINDS)}]", "'held'"),
        "part_tenant": label(f"{words(fleet.tenants)}[1 + intDiv(i, {2 * len(KINDS)}) % {tenants}]", "NULL"),
        "part_model": label(f"{words(fleet.models)}[1 + intDiv(i, {2 * len(KINDS) * tenants}) % {models}]", "NULL"),
        "part_status": label("if(i % 2 = 0, 'ok', 'error')", "NULL"),
        "part_region": label(f"{words(REGIONS)}[1 + intDiv(i, {paid // regions})]", region),
        "part_use": label("NULL", "'engine'"),
        "part_owner": label("NULL", f"concat('engine-', toString(i - {paid}))"),
        "part_gpu_model": label("NULL", "'NVIDIA H100 80GB HBM3'"),
        "part_amount": amount(50_000),
        "part_cost_nusd": amount(40_000_000),
        "part_energy_mj": amount(900_000),
        "part_gpu_ms": amount(12_000),
    }
    picked = ",\n    ".join(columns.values())
    table = cost_rollups.table_of(level)
    return f"INSERT INTO {table} ({', '.join(columns)})\nSELECT\n    {picked}\nFROM numbers({count})"


def words(names: Sequence[str]) -> str:
    """A list of texts that hold no quotes, as SQL."""
    assert not any(mark in name for name in names for mark in "'\\")
    return f"[{', '.join(map(repr, names))}]"
