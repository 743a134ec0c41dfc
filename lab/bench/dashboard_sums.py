"""Books and bills of a big fleet, drawn by the database itself: what *Pipeline* and *Cost* query.

Lines of books and bills of single engines are those of an hour; sums of a minute, an hour and a day those of the whole
history. In a minute each
engine stands idle for a part of its bill, every tenant has requests to every model in every region, some of them fail.
"""

from __future__ import annotations

from collections.abc import Iterator

from lab.bench.dashboard_fleet import ENGINES_PER_HOST, GPUS_PER_HOST, REGIONS, Drawn, Fleet, engine_of, one_of, words
from lab.bench.dashboard_windows import Span
from lab.bench.workload import CLASSES
from schemas.ddl import book_rollups, cost_rollups
from schemas.ddl.merging import BY_LEVEL
from schemas.limits import HOUR_MS, MINUTE_MS
from schemas.rows.costs import COSTS
from schemas.rows.tables import BOOKS, DEFINITION_VERSION

COMMIT_MS = 5_000
BOOKED = ("llm.requests", "gpu.samples", "host.samples", "engine.samples")
LEVELS = ("1m", "1h", "1d")
KINDS = ("prefill", "decode", "kv")
_GPU = "'NVIDIA H100 80GB HBM3'"
_BUCKETS_AT_ONCE = 60


def sums(fleet: Fleet, span: Span) -> Iterator[tuple[str, Drawn]]:
    """All of it over ``span``, and what it is."""
    minutes = range(max(span.from_ms, span.to_ms - HOUR_MS), span.to_ms, MINUTE_MS)
    yield from (("books, lines", _lines(fleet, at_ms)) for at_ms in minutes)
    yield from (("bills of engines", _engine_bills(fleet, at_ms)) for at_ms in minutes)
    for level in LEVELS:
        width_ms = BY_LEVEL[level].bucket_ms
        starts = range(span.from_ms - span.from_ms % width_ms, span.to_ms, width_ms)
        yield f"books, sums of {level}", _books(level, starts)
        for first in range(0, len(starts), _BUCKETS_AT_ONCE):
            some = starts[first : first + _BUCKETS_AT_ONCE]
            yield f"bills, sums of {level}", _bills(fleet, level, some.start, len(some))


def _lines(fleet: Fleet, from_ms: int) -> Drawn:
    """A minute of lines: of each commit one for each topic and host; every thousandth counts rejected events."""
    each = len(BOOKED) * fleet.hosts
    at_ms, host = f"{from_ms} + {COMMIT_MS} * intDiv(number, {each})", f"intDiv(number, {len(BOOKED)}) % {fleet.hosts}"
    columns = {
        "committed_ms": at_ms,
        "partition": f"({host}) % 16",
        "offset_from": at_ms,
        "offset_to": f"{at_ms} + 1",
        "boot": "1",
        "verdict": f"if(cityHash64(number, {from_ms}) % 1000 = 0, 3, 0)",
        "records": "5",
        "events": "20 + cityHash64(number) % 40",
        "job": "'windows'",
        "topic": one_of(BOOKED, "number"),
        "source": f"concat('host-', toString({host}))",
        "log_id": "'bench'",
        "log_partition": "0",
        "log_offset": at_ms,
        "log_row": "number",
    }
    return Drawn(BOOKS.name, columns, each * MINUTE_MS // COMMIT_MS)


def _books(level: str, starts: range) -> Drawn:
    at_ms = f"{starts.start} + {starts.step} * intDiv(number, {len(BOOKED)})"
    columns = {
        "window_ms": at_ms,
        "job": "'windows'",
        "topic": one_of(BOOKED, "number"),
        "verdict": "0",
        "identified": "1",
        "records": str(starts.step // 10),
        "events": f"{starts.step} + cityHash64(number) % 1000",
        "last_commit_ms": f"{at_ms} + {starts.step - 1}",
        "version": "1",
    }
    return Drawn(book_rollups.table_of(level), columns, len(starts) * len(BOOKED))


def _engine_bills(fleet: Fleet, at_ms: int) -> Drawn:
    """A minute of bills, one of each engine: the requests of every tenant, and what they had of it."""
    labels, parts = engine_of(fleet, "number"), len(KINDS) * len(fleet.tenants)

    def of_parts(value: str) -> str:
        return f"arrayMap(i -> {value}, range({parts}))"

    def amount(most: int) -> str:
        return of_parts(f"toInt64(1 + cityHash64(i, number, {at_ms}, {most}) % {most})")

    def of_lines(value: str) -> str:
        return f"arrayMap(i -> {value}, range({len(fleet.tenants)}))"

    tenant = f"intDiv(i, {len(KINDS)})"
    tokens = of_lines(f"toInt64(cityHash64(i, number, {at_ms}) % 10000)")
    paid, energy_mj, carbon_ug = amount(40_000_000), amount(900_000), amount(90_000)
    columns = {
        "minute_ms": str(at_ms),
        "version": "1",
        "final": "1",
        "definition_version": str(DEFINITION_VERSION),
        "gpu_ms": str(GPUS_PER_HOST // ENGINES_PER_HOST * MINUTE_MS),
        "use": "'engine'",
        "owner": labels["engine_id"],
        "placement_group": labels["engine_id"],
        "region": labels["region"],
        "host": labels["host"],
        "gpu_model": _GPU,
        "prices_version": "'2026-01'",
        "line_tenant": of_lines(one_of(fleet.tenants, "i")),
        "line_model": of_lines(labels["model"]),
        "line_slo_class": of_lines(one_of(CLASSES, "i")),
        "line_status": of_lines("'ok'"),
        "line_requests": of_lines(f"toInt64(1 + cityHash64(i, number, {at_ms}) % 20)"),
        **{f"line_{name}": tokens for name in ("prefill_tokens", "cached_tokens", "decode_tokens", "kv_token_ms")},
        "part_name": of_parts("'request'"),
        "part_kind": of_parts(one_of(KINDS, "i")),
        "part_tenant": of_parts(one_of(fleet.tenants, tenant)),
        "part_model": of_parts(labels["model"]),
        "part_slo_class": of_parts(one_of(CLASSES, tenant)),
        "part_status": of_parts("'ok'"),
        "part_amount": amount(1_000_000),
        "part_cost_nusd": paid,
        "part_energy_mj": energy_mj,
        "part_carbon_ug": carbon_ug,
        "part_gpu_ms": amount(12_000),
        "total_nusd": f"arraySum({paid})",
        "gpu_nusd": f"arraySum({paid})",
        "energy_mj": f"arraySum({energy_mj})",
        "carbon_ug": f"arraySum({carbon_ug})",
        "log_id": "'bench'",
        "log_offset": str(at_ms),
        "log_row": "number",
    }
    return Drawn(COSTS.name, columns, fleet.engines)


def _bills(fleet: Fleet, level: str, first_ms: int, count: int) -> Drawn:
    """Buckets of bills: parts of requests first, then those of idle engines."""
    width_ms = BY_LEVEL[level].bucket_ms
    minutes = width_ms // MINUTE_MS
    engines = fleet.engines
    tenants, models, regions = len(fleet.tenants), len(fleet.models), len(REGIONS)
    paid = 2 * len(KINDS) * tenants * models * regions
    each = f"range({paid + engines})"

    def label(of_request: str, of_idle: str) -> str:
        return f"arrayMap(i -> if(i < {paid}, {of_request}, {of_idle}), {each})"

    def amount(most: int) -> str:
        return f"arrayMap(i -> toInt64(cityHash64(i, number, {fleet.seed}) % {most * minutes}), {each})"

    def of_regions(value: str) -> str:
        return f"arrayMap(i -> {value}, range({regions}))"

    region = one_of(REGIONS, "i")
    bill = f"toInt64({engines // regions * minutes} * (1000000 + cityHash64(i, number) % 1000))"
    columns = {
        "window_ms": f"{first_ms} + {width_ms} * number",
        "newest_ms": f"{first_ms} + {width_ms} * (number + 1) - {MINUTE_MS}",
        "oldest_ms": f"{first_ms} + {width_ms} * number",
        "version": "1",
        "detail": "1",
        **{cost_rollups.BILLS.column(one): of_regions(bill) for one in cost_rollups.BILLS.sums},
        "bill_use": of_regions("'engine'"),
        "bill_gpu_model": of_regions(_GPU),
        **{f"bill_{name}_version": of_regions("'1'") for name in ("prices", "weights", "definition")},
        "bill_region": of_regions(region),
        "bill_count": of_regions(f"{engines // regions * minutes}"),
        "part_name": label("if(i % 2 = 0, 'request', '__overhead__')", "'__wasted__'"),
        "part_kind": label(one_of(KINDS, "intDiv(i, 2)"), "'held'"),
        "part_tenant": label(one_of(fleet.tenants, f"intDiv(i, {2 * len(KINDS)})"), "NULL"),
        "part_model": label(one_of(fleet.models, f"intDiv(i, {2 * len(KINDS) * tenants})"), "NULL"),
        "part_status": label("if(i % 2 = 0, 'ok', 'error')", "NULL"),
        "part_region": label(f"{words(REGIONS)}[1 + intDiv(i, {paid // regions})]", region),
        "part_use": label("NULL", "'engine'"),
        "part_owner": label("NULL", f"concat('engine-', toString(i - {paid}))"),
        "part_gpu_model": label("NULL", _GPU),
        "part_amount": amount(50_000),
        "part_cost_nusd": amount(40_000_000),
        "part_energy_mj": amount(900_000),
        "part_gpu_ms": amount(12_000),
        **{f"part_{name}": label("NULL", "NULL") for name in ("slo_class", "carbon_ug", "meter_mj")},
        **_usage_and_owners(fleet, minutes),
    }
    return Drawn(cost_rollups.table_of(level), columns, count)


def _usage_and_owners(fleet: Fleet, minutes: int) -> dict[str, str]:
    """Lists of usage, and those by engine: of each a bill, what requests caused, what it waited, and usage."""

    def lists(of: cost_rollups.Lists, items: int, **labels: str) -> dict[str, str]:
        drawn = {of.column(one): labels.get(one.name, "NULL") for one in of.labels}
        amount = f"toInt64(cityHash64(i, number, {fleet.seed}) % {100_000 * minutes})"
        drawn |= dict.fromkeys(map(of.column, of.sums), amount)
        return {name: f"arrayMap(i -> {sql}, range({items}))" for name, sql in drawn.items()}

    engine, model = "concat('engine-', toString({}))", one_of(fleet.models, "intDiv(i, 2)")
    by_tenant = len(fleet.tenants) * len(fleet.models)
    usage = lists(
        cost_rollups.LINES,
        by_tenant * len(REGIONS),
        tenant=one_of(fleet.tenants, "i"),
        model=one_of(fleet.models, f"intDiv(i, {len(fleet.tenants)})"),
        status="'ok'",
        region=one_of(REGIONS, f"intDiv(i, {by_tenant})"),
        gpu_model=_GPU,
    )
    of_engines = {"use": "'engine'", "gpu_model": _GPU}
    bills = lists(cost_rollups.OWNERS, fleet.engines, **of_engines, name=engine.format("i"))
    parts = lists(
        cost_rollups.OWNER_PARTS,
        2 * fleet.engines,
        **of_engines,
        owner=engine.format("intDiv(i, 2)"),
        name="if(i % 2 = 0, 'request', '__wasted__')",
        model=f"if(i % 2 = 0, {model}, NULL)",
        status="if(i % 2 = 0, 'ok', NULL)",
    )
    lines = lists(
        cost_rollups.OWNER_LINES,
        fleet.engines,
        **of_engines,
        owner=engine.format("i"),
        model=one_of(fleet.models, "i"),
    )
    return usage | bills | parts | lines
