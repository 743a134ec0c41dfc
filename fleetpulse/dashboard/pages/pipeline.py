"""*Pipeline*: freshness of the tables, consumer lag, books of every event, and rejected records."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from typing import Any

from fleetpulse.dashboard.charts import Line, over_time
from fleetpulse.dashboard.consumer_lag import Lag, LagOfGroups
from fleetpulse.dashboard.parts import ChartPanel, Column, Panel, Stats, TablePanel, choices, grid, set_text, tag
from fleetpulse.dashboard.time_range import TimeRange
from fleetpulse.dashboard.values import UNKNOWN, ago, clean, rate, short, size
from fleetpulse.dashboard.view import PageSpec, Refresh, View
from fleetpulse.doctor.facts import Bounds
from runtime.config import load
from runtime.runbook import Cause
from schemas.contract.verdicts import REASONS
from schemas.errors import UnavailableError

BYTES_SHOWN = 2_048
FRESH_MS, STALE_MS = 30_000, 120_000
"""Younger than the first is well, older than the second is not."""
BACKLOG_MANY = 10_000
LAG_RECORDS_MANY = Bounds().lag_records_max
"""The doctor warns from here on, too."""
_PLACE = re.compile(r"([a-z.]{1,40})/(\d{1,10})/(\d{1,18})/(-1|\d{1,9})")
_LINE_BYTES = 16

Row = dict[str, Any]


def joined(
    booked: Sequence[Mapping[str, Any]],
    produced: Sequence[Mapping[str, Any]],
    fresh: Sequence[Mapping[str, Any]],
    now_ms: int,
) -> list[Row]:
    """One row a topic of what three queries say; None where one of them does not know it."""
    found: dict[str, Row] = {}
    for rows in (booked, produced, fresh):
        for row in rows:
            found.setdefault(str(row["topic"]), {}).update(row)
    for row in found.values():
        for name, at in (("newest_ago_ms", "newest_ms"), ("commit_ago_ms", "last_commit_ms")):
            row[name] = max(0, now_ms - row[at]) if row.get(at) else None
    return [found[topic] for topic in sorted(found)]


def place_of(text: str) -> dict[str, str | int] | None:
    """Parameters of the rejected row that an address names as topic/partition/offset/row; None for anything else."""
    found = _PLACE.fullmatch(text)
    if found is None:
        return None
    topic, partition, offset, row = found.groups()
    return {"topic": topic, "partition": int(partition), "offset": int(offset), "row": int(row)}


def shares(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Rows of the query ``joins`` with the share that has what it is joined with, in per cent."""
    return [
        {**row, "share": 100 * int(row["joined_events"]) / int(row["total"]), "lacks": ", ".join(row["lacks"])}
        for row in rows
    ]


def caused(query: str, rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Rows of a query with what the runbook calls their cause; empty where nothing is wrong."""
    cause, holds = CAUSES[query]
    return [{**row, "wrong": cause if holds(row) else ""} for row in rows]


def named_tenants(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Rows of the query ``pipeline_overflow`` with their tenants in one line."""
    return [{**row, "tenants": ", ".join(row["tenants"])} for row in rows]


def place_text(row: Mapping[str, Any]) -> str:
    """A rejected row as an address names it."""
    return f"{row['topic']}/{row['partition']}/{row['offset']}/{-1 if row['row'] is None else row['row']}"


def dump(data: bytes) -> str:
    """Bytes as people look at them: offset, hex digits, and what of them is ASCII."""
    lines = []
    for first in range(0, len(data), _LINE_BYTES):
        line = data[first : first + _LINE_BYTES]
        digits = " ".join(f"{byte:02x}" for byte in line).ljust(3 * _LINE_BYTES - 1)
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in line)
        lines.append(f"{first:06x}  {digits}  {text}")
    return "\n".join(lines)


def build(view: View) -> Refresh:
    """Totals, topics, lines over time, rejected records."""
    return _Pipeline(view).refresh


class _Pipeline:
    def __init__(self, view: View) -> None:
        self._view = view
        self._stats = Stats(
            {"fresh": "Newest event", "commit": "Last commit", "rate": "Events booked", "waiting": "Backlog at edges",
             "rejected": "Rejected", "shed": "Shed"}
        )  # fmt: skip
        books, lag = (
            "books of this range; fleetpulse reconcile proves them",
            "records that a job has not committed, now",
        )
        self._topics = TablePanel("By source topic", books, _TOPICS, label="Books by source topic", page_rows=15)
        self._joins = TablePanel("Joins", "what has its engine, GPUs, tenant, price", _JOINS, label="Joins")
        self._clocks = TablePanel("Clocks", "hosts that are off the broker's by over a second", _CLOCKS, label="Clocks")
        hint, label = "names without room, counted as __other__", "Events beyond the limits of cardinality"
        self._overflow = TablePanel("Cardinality", hint, _OVERFLOW, label=label)
        self._lag = TablePanel("Consumer lag", lag, _LAG, label="Consumer lag by job and topic", page_rows=15)
        with grid():
            rate = "Events booked a second by topic, over time"
            self._rate = ChartPanel(view, "Events booked", "a second, by topic", rate, 190)
            odd, label = "a second: rejected, late or future, duplicate", "Events not accepted, a second, over time"
            self._odd = ChartPanel(view, "Not accepted", odd, label, 190)
            self._why = TablePanel("Why rejected", "by reason", _WHY, "c5", label="Reasons of rejections")
            label, columns = "Newest rejected records and events", self._row_columns()
            self._rows = TablePanel("Newest rejected", "follow one to see its bytes", columns, "c7", label=label)
            with self._rows.tools:
                known = {"": "all", **{reason: reason.replace("_", " ") for reason in REASONS}}
                choices("Reason", known, view.choice("reason", known), lambda value: view.set(reason=value))
        self._bytes = _Bytes(view)

    def _row_columns(self) -> list[Column]:
        def link(row: Mapping[str, Any]) -> str:
            return self._view.link(PAGE.path, record=place_text(row), reason=self._view.option("reason"))

        return [
            Column("ago_ms", "Ago", text=ago, right=True),
            Column("place", "Where", href=link),
            Column("reason", "Reason"),
            Column("detail", "Detail"),
            Column("bytes_total", "Size", text=size, right=True),
        ]

    async def refresh(self) -> None:
        view = self._view
        reason = view.choice("reason", ("", *REASONS))
        lag = asyncio.ensure_future(self._show_lag())
        covered_s, (joins, overflow, booked, produced, fresh, series, why, rows, clocks) = await asyncio.gather(
            view.covered_s(),  # what takes longest is queried first
            view.gather(
                view.ask("joins"),
                view.ask("pipeline_overflow"),
                view.ask("pipeline_topics"),
                view.ask("pipeline_producers"),
                view.ask("pipeline_freshness"),
                view.ask("pipeline_over_time"),
                view.ask("pipeline_rejected"),
                view.ask("pipeline_rejected_rows", reason=reason),
                view.ask("pipeline_clocks"),
            ),
        )
        topics = joined(booked.records(), produced.records(), fresh.records(), view.until_ms)
        self._show_stats(topics, covered_s)
        self._topics.rows(topics, "No event was booked in this range", _START)
        self._joins.rows(shares(caused("joins", joins.records())), "Neither requests nor GPU samples in this range")
        self._clocks.rows(caused("pipeline_clocks", clocks.records()), "No host's clock is off")
        without = caused("pipeline_overflow", overflow.records())
        self._overflow.rows(named_tenants(without), "Every value has its name")
        self._show_lines(series.records())
        self._show_rejected(why.records(), rows.records())
        await self._show_bytes()
        await lag

    async def _show_bytes(self) -> None:
        named = self._view.option("record")
        place = place_of(named)
        if named and place is None:
            self._bytes.missing("This link names no rejected record")
        elif place is not None:
            found = await self._view.ask("pipeline_rejected_bytes", bytes_max=BYTES_SHOWN, **place)
            records = found.records()
            if records:
                self._bytes.show(records[0])
            else:
                self._bytes.missing("This record was not rejected in this range")

    async def _show_lag(self) -> None:
        try:
            found = await _lag_of_groups().ask()
        except UnavailableError as error:
            self._lag.empty("Consumer lag is not known", str(error))
            return
        self._lag.rows(most_lag_first(found), "Kafka has none of the topics", "fleetpulse migrate creates them.")

    def _show_stats(self, topics: Sequence[Row], covered_s: float | None) -> None:
        def worst(name: str) -> int | None:
            return max((row[name] for row in topics if row[name] is not None), default=None)

        def total(name: str) -> int:
            return sum(int(row.get(name) or 0) for row in topics)

        newest = min((row["newest_ago_ms"] for row in topics if row["newest_ago_ms"] is not None), default=None)
        commit = min((row["commit_ago_ms"] for row in topics if row["commit_ago_ms"] is not None), default=None)
        booked = sum(total(name) for name in ("accepted", "untimely", "rejected", "duplicate"))
        show = self._stats.show
        show("fresh", ago(newest), f"oldest topic {ago(worst('newest_ago_ms'))}", _mood(newest))
        show("commit", ago(commit), "of the windows job", _mood(commit))
        show("rate", short(rate(booked, covered_s)), f"a second; {short(booked)} in all")
        waiting, rejected = total("waiting"), total("rejected")
        show("waiting", short(waiting), "not acknowledged", "warn" if waiting > BACKLOG_MANY else "")
        show("rejected", short(rejected), "events in this range", "warn" if rejected else "good")
        show("shed", short(total("shed")), "declared lost at edges", "bad" if total("shed") else "good")

    def _show_lines(self, series: list[Row]) -> None:
        view, name = self._view, "pipeline_over_time"
        if not series:
            self._rate.empty("No event was booked in this range")
            self._odd.empty("No event was booked in this range")
            return
        by_topic, odd = rates(view.whole_buckets(name, series), view.past, view.bucket_ms(name))
        self._rate.draw(over_time([Line(name, points) for name, points in by_topic.items()], view.range, view.palette))
        if not any(row[kind] for row in series for kind in odd):
            self._odd.empty("Everything was accepted", "Nothing rejected, late, future or duplicate.")
            return
        if not any(value for points in odd.values() for value in points.values()):  # all in the last point
            _, odd = rates(series, view.past, view.bucket_ms(name))
        words = {"rejected": "rejected", "untimely": "late or future", "duplicate": "duplicate"}
        lines = [Line(words[name], list(points.items())) for name, points in odd.items()]
        self._odd.draw(over_time(lines, view.range, view.palette))

    def _show_rejected(self, why: Sequence[Row], rows: Sequence[Row]) -> None:
        self._why.rows(caused("pipeline_rejected", why), "Nothing was rejected in this range")
        dated = [
            {**row, "ago_ms": max(0, self._view.until_ms - row["appended_ms"]), "place": place_text(row)}
            for row in rows
        ]
        self._rows.rows(dated, "Nothing was rejected in this range", "fleetpulse rejected show looks further back.")


class _Bytes:
    """The bytes of one rejected record."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._panel = Panel("Rejected record", "as it was received")
        with self._panel.body:
            self._said = tag("p", text="", style="overflow-wrap:anywhere")
            self._dump = tag("pre", "fp-mono", text="", tabindex="0", role="region", aria_label="Bytes")
            self._dump._props["style"] = "overflow:auto;max-height:360px;margin:0"
        self._panel.empty("No record was chosen", "Follow one of the newest rejected to see its bytes here.")

    def missing(self, why: str) -> None:
        """Say why there are none."""
        self._panel.empty(why, "Choose one of the newest rejected above.")

    def show(self, row: Mapping[str, Any]) -> None:
        """Show this one."""
        self._panel.show()
        data = bytes.fromhex(row["first_bytes"])
        event = "the whole record" if row["row"] is None else f"row {row['row']}"
        self._panel.hint(f"{place_text(row)}, {size(row['bytes_total'])}, first {len(data):,} bytes below")
        said = (
            f"{event}, {self._view.zone.said(row['appended_ms'])}, from {clean(row['source'])}: {row['reason']}, "
            f"{clean(row['detail'])} (schema {clean(row['schema'])}, {clean(row['content_type'])})"
        )
        set_text(self._said, said)
        set_text(self._dump, dump(data) if data else UNKNOWN)


def rates(
    series: Sequence[Mapping[str, Any]], span: TimeRange, width_ms: int
) -> tuple[dict[str, list[tuple[int, float | None]]], dict[str, dict[int, float]]]:
    """Events a second at points of this width: booked, by topic; and not accepted, by what became of them. Books are
    written at any millisecond."""
    by_topic: dict[str, list[tuple[int, float | None]]] = {}
    odd: dict[str, dict[int, float]] = {"rejected": {}, "untimely": {}, "duplicate": {}}
    for row in series:
        each_s = span.counted_s(row["at_ms"], width_ms, row_ms=1)
        by_topic.setdefault(str(row["topic"]), []).append((row["at_ms"], row["booked"] / each_s))
        for name, points in odd.items():
            points[row["at_ms"]] = points.get(row["at_ms"], 0.0) + row[name] / each_s
    return by_topic, odd


@cache
def _lag_of_groups() -> LagOfGroups:
    """One for all pages of this process."""
    return LagOfGroups(load().kafka)


def most_lag_first(found: Sequence[Lag]) -> list[Row]:
    """Rows of the table: what has a cause and then the greatest lag first, jobs that never ran last."""
    rows = sorted(found, key=lambda one: (not one.wrong, one.records is None, -(one.records or 0)))
    return [{**asdict(one), "wrong": one.wrong} for one in rows]


def _mood(age_ms: int | None) -> str:
    if age_ms is None:
        return ""
    return "good" if age_ms <= FRESH_MS else "warn" if age_ms <= STALE_MS else "bad"


def _count(name: str, label: str) -> Column:
    return Column(name, label, text=short, right=True)


_START = "Start the jobs and the sink (fleetpulse jobs all, fleetpulse sink), or choose a longer range."
_TOPICS = [
    Column("topic", "Topic"),
    Column("newest_ago_ms", "Newest", text=ago, right=True),
    Column("commit_ago_ms", "Commit", text=ago, right=True),
    _count("accepted", "Accepted"),
    _count("untimely", "Late, future"),
    Column("rejected", "Rejected", text=short, right=True, mood=lambda row: "fp-warn" if row.get("rejected") else ""),
    _count("duplicate", "Duplicate"),
    _count("unidentified", "No id"),
    _count("waiting", "Backlog"),
    Column("shed", "Shed", text=short, right=True, mood=lambda row: "fp-bad" if row.get("shed") else ""),
]
_CAUSE = Column("wrong", "Cause", mood=lambda row: "fp-bad")
CAUSES: Mapping[str, tuple[Cause, Callable[[Mapping[str, Any]], bool]]] = {
    "joins": (
        Cause.PRICE,
        lambda row: row["joined_with"] == "price" and 100 * int(row["joined_events"]) < 99 * int(row["total"]),
    ),
    "pipeline_clocks": (Cause.CLOCK, lambda row: True),
    "pipeline_overflow": (Cause.SERIES, lambda row: True),
    "pipeline_rejected": (Cause.REJECTED, lambda row: True),
}
"""By query the cause that its rows show, and which of them do."""
_JOINS = [
    Column("counted", "Of"),
    Column("joined_with", "With"),
    Column(
        "share",
        "Share",
        text=lambda share: UNKNOWN if share is None else f"{share:.1f} %",
        right=True,
        mood=lambda row: "fp-warn" if row["share"] < 99 else "",
    ),
    Column("lacks", "Without it, among others"),
    _CAUSE,
]
_CLOCKS = [
    Column("host", "Host"),
    Column(
        "skew_ms",
        "Clock",
        text=lambda skew_ms: f"{abs(skew_ms) / 1_000:,.1f} s {'ahead' if skew_ms > 0 else 'behind'}",
        right=True,
        mood=lambda row: "fp-warn",
    ),
    _CAUSE,
]
_OVERFLOW = [
    Column("grouping", "Set"),
    Column("dimension", "Label"),
    Column("beyond", "Events", text=short, right=True, mood=lambda row: "fp-warn"),
    Column("tenants", "Tenants, among others"),
    _CAUSE,
]
_LAG = [
    Column("job", "Job"),
    Column("topic", "Topic"),
    Column(
        "records",
        "Consumer lag",
        text=lambda records: "never ran" if records is None else short(records),
        right=True,
        mood=lambda row: "fp-warn" if (row["records"] or 0) > LAG_RECORDS_MANY else "",
    ),
    _count("partitions", "Partitions"),
    _count("members", "Members"),
    _CAUSE,
]
_WHY = [
    Column("reason", "Reason"),
    Column("topic", "Topic"),
    _count("rejected", "Events"),
    _count("sources", "Senders"),
    _CAUSE,
    Column("example", "Such as"),
]

PAGE = PageSpec(
    path="/pipeline",
    title="Pipeline",
    icon="account_tree",
    about="How fresh the tables are and what became of every event",
    build=build,
    options={"reason": "", "record": ""},
)
