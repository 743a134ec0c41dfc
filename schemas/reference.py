"""The reference pages, written from the tables that the code walks: ``python -m schemas.reference``.

One page each for events, topics, tables and views, metrics, limits and reasons. A test keeps ``docs/reference`` equal
to what is written here, so that no page can say anything else than the code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from schemas import limits
from schemas.contract import headers
from schemas.contract.topics import KEPT_FOR_EVER, TOPICS
from schemas.contract.verdicts import REASONS
from schemas.ddl.declared import declared
from schemas.definitions import METRICS as RANGE_METRICS
from schemas.events.event_types import EVENTS
from schemas.events.grouping import DERIVED, GROUPING_SETS
from schemas.events.metrics import METRICS
from schemas.fields import Event, Field, Role
from schemas.limits import DEFAULT_LIMITS

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reference"
_MADE = "<!-- Written by `python -m schemas.reference`; change the tables in schemas/ instead. -->"
_LIMIT = re.compile(r"^    (?P<name>\w+): int = .*?(?:#\s*(?P<text>.*))?$")
_SECTION = re.compile(r"^    # (?P<text>.*)$")
_CREATE = re.compile(r"^CREATE (?:TABLE IF NOT EXISTS|OR REPLACE VIEW) (?P<name>\w+)\n\(\n(?P<columns>.*?)\n\)\n", re.S)
_COLUMN = re.compile(r"^    (?P<name>\w+) (?P<type>.+?)(?: CODEC\((?:[^()]|\([^()]*\))*\))? COMMENT '(?P<text>.*)',?$")


def pages() -> dict[str, str]:
    """Text of every page by file name."""
    return {
        "events.md": _events(),
        "topics.md": _topics(),
        "tables.md": _tables(),
        "metrics.md": _metrics(),
        "limits.md": _limits(),
        "reasons.md": _reasons(),
    }


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; bars inside cells are escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def _page(title: str, *parts: str) -> str:
    return "\n\n".join((f"# {title}", _MADE, *parts)) + "\n"


def _code(text: object) -> str:
    return f"`{text}`" if text != "" else ""


def _events() -> str:
    intro = (
        "Every event type with its fields, in wire order. Unknown is null, never 0. A record carries 1 to"
        f" {DEFAULT_LIMITS.batch_events_max:,} events of one type in one of the formats"
        f" {', '.join(_code(one) for one in headers.CONTENT_TYPES)}."
    )
    return _page("Events", intro, *(_event(event) for event in EVENTS))


def _event(event: Event) -> str:
    rows = [(_code(f.name), f.role.value, f.kind.value, f.unit, _bounds(f), f.meaning, f.source) for f in event.fields]
    derived = [
        f"`{one.name}`, derived from `{one.field}`: {one.meaning} ({', '.join(one.words)})"
        for one in DERIVED
        if one.topic == event.topic
    ]
    sets = [f"`{s.name}`: {', '.join(s.dimensions)}" for s in GROUPING_SETS if s.topic == event.topic]
    return "\n\n".join(
        (
            f"## {event.schema}",
            f"{event.meaning[0].upper()}{event.meaning[1:]}. Kafka key: {' or '.join(map(_code, event.key))}.",
            table(("field", "role", "type", "unit", "accepted", "meaning", "source"), rows),
            *derived,
            "Grouping sets (aggregated by):\n\n" + "\n".join(f"- {one}" for one in sets)
            if sets
            else "No grouping set: kept as raw events, not aggregated.",
        )
    )


def _bounds(field: Field) -> str:
    if field.allowed:
        words = ", ".join(_code(word) for word in field.allowed)
    elif field.low is None and field.high is None:
        words = ""
    else:
        low = "" if field.low is None else f"{field.low:,}"
        high = "" if field.high is None else f"{field.high:,}"
        words = f"{low} to {high}".strip() if low and high else f"at least {low}" if low else f"at most {high}"
    must = field.required or field.role is Role.TIME
    return ", ".join(part for part in (words, "required" if must else "") if part)


def _topics() -> str:
    rows = [
        (
            _code(topic.name),
            topic.partitions,
            "compacted" if topic.compacted else _kept(topic.retention_ms(DEFAULT_LIMITS)),
            "LogAppendTime" if topic.log_append_time else "CreateTime",
            topic.key,
            topic.written_by,
            topic.read_by,
            f"{topic.record_bytes_max // 1024**2} MiB",
        )
        for topic in TOPICS
    ]
    head = ("topic", "partitions", "kept", "timestamps", "key", "written by", "read by", "largest record")
    intro = (
        "Partition counts and retention are those of the defaults: `[partitions]` and `[limits]` of the configuration"
        " set them, and `fleetpulse migrate` brings topics to them ([operations](../how-to/operations.md#partitions))."
        " On the cluster every name begins with `kafka.topic_prefix`, where one is set"
        " ([several deployments](../how-to/operations.md#several-deployments-on-one-cluster))."
    )
    return _page("Topics", intro, table(head, rows))


def _tables() -> str:
    intro = (
        "To begin with: `request_windows` (requests by 10 s, with `_1m`, `_1h` and `_1d` for longer ranges),"
        " `gpu_windows`, `costs` and `cost_parts` (bills by minute), `alert_history`, `slow_requests`, `who_changed`;"
        " the cookbook (docs/how-to/cookbook.md) has a query for each. Views of a range take it in brackets:"
        " `covered_time(from_ms = ..., to_ms = ...)`.\n\n"
        "Tables keep one row per identity: read them with `FINAL`, or read the views, which do. Times are milliseconds"
        " since the epoch, UTC; bins are sketches of gamma = 2^(1/32), to be read by `p(q, bins)`, which"
        " merges those of all rows of a group: `p(0.99, ttft_us_bins)`. It is `fp_quantile_linear(q, sumMap(bins))`,"
        " for several at once `fp_quantiles_linear([q, ...], sumMap(bins))`. `fp_quantile` and `fp_quantiles` of"
        " release 0.1.0 read the same bins without interpolating: the value at the rank below."
    )
    return _page("Tables and views", intro, *filter(None, map(_relation, declared().values())))


def _relation(statement: str) -> str:
    found = _CREATE.match(statement)
    if found is None:
        return ""
    lines = [_COLUMN.match(line) for line in found["columns"].split("\n") if not line.startswith("    INDEX ")]
    assert all(lines), statement
    rows = [(_code(one["name"]), one["type"], _unquoted(one["text"])) for one in lines if one is not None]
    comment = _unquoted(statement.rsplit("\nCOMMENT '", 1)[1][:-1])
    return "\n\n".join(
        (f"## {found['name']}", f"{comment[:1].upper()}{comment[1:]}.", table(("column", "type", "meaning"), rows))
    )


def _unquoted(text: str) -> str:
    return text.replace("\\'", "'").replace("\\\\", "\\")


def _metrics() -> str:
    rows = [(_code(m.name), m.title, m.unit, m.topic, m.formula, m.unknown, m.since) for m in METRICS]
    head = ("metric", "title", "unit", "topic", "definition", "null when", "since version")
    shown = {
        over: table(
            ("metric", "unit", "meaning", "share of, or divided by", f"over rows of {over}"),
            [
                (_code(m.name), m.unit, m.meaning, m.of or m.clock, _code(m.sql))
                for m in RANGE_METRICS.values()
                if m.over == over
            ],
        )
        for over in ("windows", "covered_time", "billed", "judged", "parts")
    }
    of_ranges = (
        "## Requests of a range\n\nThe same on pages, boards, in queries, views and the rules of error budgets."
        " A range counts the windows of 10 s that begin in it."
    )
    of_time = (
        "## Time with data\n\nWhat rates of a range divide by, on pages, in queries and answers of `fleetpulse ask`:"
        " view `covered_time`."
    )
    of_billed = (
        "## Time with bills\n\nWhat rates of money divide by, on page *Cost*, in reports and in answers: in queries"
        " `{of_bills:Billed}`, `{of_rollup:Billed}`."
    )
    of_goodput = (
        "## Goodput of a range\n\nThe same on page *Models*, in reports and queries, over rows of windows that are of a"
        " service class. By single requests the verdicts are those of `cost_goodput`"
        " ([how](../why/costs.md#goodput))."
    )
    of_bills = (
        "## Unit costs\n\nThe same in view `unit_costs`, reports, page *Cost* and on boards, over parts of bills"
        " ([how](../why/costs.md#the-split)): prices times tokens are the cost of requests."
    )
    intro = "What the numbers mean. Rows say by which version they were made."
    sections = {
        "windows": of_ranges,
        "covered_time": of_time,
        "billed": of_billed,
        "judged": of_goodput,
        "parts": of_bills,
    }
    parts = (part for over, text in sections.items() for part in (text, shown[over]))
    return _page("Metrics", intro, table(head, rows), *parts)


def _limits() -> str:
    """Names, defaults and what happens, from the table in schemas/limits.py and its comments."""
    parts: list[str] = []
    rows: list[tuple[str, str, str]] = []
    title = ""
    source = Path(limits.__file__).read_text(encoding="utf-8").split("class Limits:", 1)[1].split("    def ", 1)[0]
    for line in [*source.split("\n"), "    # "]:
        section, field = _SECTION.match(line), _LIMIT.match(line)
        if field is not None:
            value = getattr(DEFAULT_LIMITS, field["name"])
            rows.append((_code(field["name"]), _readable(field["name"], value), field["text"] or ""))
        elif section is not None:
            if rows:
                parts.append(f"## {title}\n\n" + table(("limit", "default", "what it bounds and what happens"), rows))
            title, rows = section["text"][:1].upper() + section["text"][1:], []
    relations = [(_code(key), bound) for key, _, bound in DEFAULT_LIMITS._relations()]
    intro = "Set by `FLEETPULSE_LIMITS__NAME` or `[limits]` in `fleetpulse.toml`. Limits that are reached are counted."
    return _page("Limits", intro, *parts, "## Relations, checked at start\n\n" + table(("limit", "must"), relations))


def _readable(name: str, value: int) -> str:
    if name.endswith("_ms"):
        return f"{value:,} ({_duration(value)})"
    if "bytes" in name and value >= 1024**2:
        return f"{value:,} ({value / 1024**2:g} MiB)"
    return f"{value:,}"


def _kept(ms: int) -> str:
    return "for ever" if ms == KEPT_FOR_EVER else _duration(ms)


def _duration(ms: int) -> str:
    for unit, size in (("d", limits.DAY_MS), ("h", limits.HOUR_MS), ("min", limits.MINUTE_MS), ("s", limits.SECOND_MS)):
        if ms >= size and ms % size == 0:
            return f"{ms // size} {unit}"
    return f"{ms} ms"


def _reasons() -> str:
    intro = (
        "Why a record or an event is refused. Refused bytes are kept in the table `rejected`;"
        " `fleetpulse rejected show` prints them."
    )
    return _page("Reasons", intro, table(("reason", "meaning"), ((_code(k), v) for k, v in REASONS.items())))


def write(folder: Path = FOLDER) -> list[Path]:
    """Write all pages and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, text in pages().items():
        path = folder / name
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    return paths


if __name__ == "__main__":
    write()
