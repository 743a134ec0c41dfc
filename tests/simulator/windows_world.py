"""The windows job in the simulation: real records, the real step, and brute force to compare with."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from schemas.codec import native
from schemas.codec.build import rows_of
from schemas.contract.headers import NATIVE, Identity, encode_headers
from schemas.contract.record import Headers, Record
from schemas.contract.topics import BOOKS_TOPIC, WINDOW_PARTIALS
from schemas.contract.verdicts import Verdict
from schemas.limits import DEFAULT_LIMITS, WINDOW_MS, Limits
from schemas.rows.tables import BY_TABLE_SCHEMA, Table
from schemas.rows.usage import USAGE
from stream_jobs.runner.job import Job
from stream_jobs.runner.partitions import TopicPartition
from stream_jobs.step import Commit
from stream_jobs.windows.step import WindowsStep
from tests.simulator.counting import POISON
from tests.simulator.edges import Edge, Spooled
from tests.simulator.schedule import CALM_S, World
from tests.unit.stream_jobs.windows.cases import (
    BESIDE,
    PARTITIONS,
    Row,
    a_record,
    a_request,
    expected,
    merged,
    rows_in,
)
from tests.unit.stream_jobs.windows.usage_cases import merged_usage, over_windows, totals, usage_rows

TOPIC = "llm.requests"
SCHEMA = "llm.requests/1"
HOUR_MS = 3_600_000


class PoisonedWindowsStep(WindowsStep):
    """The real step with a defect: some records make it raise, after it has taken those before them. The later release
    finds them merely unreadable."""

    bounds: Limits = DEFAULT_LIMITS

    def __init__(self, *, lenient: bool) -> None:
        super().__init__(self.bounds, PARTITIONS)
        self._lenient = lenient

    def fold(self, state: Any, records: Sequence[Record], changes: Any) -> None:
        if not self._lenient:
            for number, record in enumerate(records):
                if record.value == POISON:
                    super().fold(state, records[:number], changes)
                    raise ValueError("poison")
        super().fold(state, records, changes)


@dataclass
class WindowsEdge(Edge):
    """Sends one to three requests per record; some of them late or in the future."""

    events: list[Row] = field(default_factory=list)
    verdicts: Counter[Verdict] = field(default_factory=Counter)

    def _fill(self, record: Spooled, *, poisoned: bool) -> None:
        rows = [self._request() for _ in range(self.draw.randrange(1, 4))]
        record.amount = len(rows)
        if poisoned:
            record.value = POISON
            self.verdicts[Verdict.REJECTED] += len(rows)
            return
        record.value = a_record(TOPIC, rows).value or b""
        for row in rows:
            ago_ms = self.server.now_ms() - row["at_ms"]
            verdict = Verdict.LATE if ago_ms > HOUR_MS else Verdict.FUTURE if ago_ms < -HOUR_MS else Verdict.ACCEPTED
            self.verdicts[verdict] += 1
            if verdict is Verdict.ACCEPTED:
                self.events.append(row)

    def _request(self) -> Row:
        draw = self.draw
        fate, tokens = draw.random(), draw.randrange(1_000)
        away_ms = 12 * HOUR_MS if fate < 0.05 else -12 * HOUR_MS if fate > 0.95 else draw.randrange(30_000)
        return a_request(
            self.server.now_ms() - away_ms,
            host=draw.choice(("h1", "h2")),
            model=draw.choice(("m1", "m2", "m3")),
            tenant=draw.choice(("a", "b", None)),
            ttft_us=draw.randrange(10_000_000),
            e2e_us=draw.choice((None, 10 * draw.randrange(10_000_000))),
            input_tokens=tokens if tokens % 7 else None,
            cached_tokens=tokens // 3 if tokens % 2 else None,
            output_tokens=draw.randrange(1_000),
        )

    def _encoded(self, record: Spooled, low: tuple[int, int]) -> tuple[bytes, Headers]:
        identity = Identity(self.name, record.boot, record.seq, low)
        return record.value, encode_headers(SCHEMA, NATIVE, identity, record.amount)


def _is_last(part: str) -> bool:
    number, _, parts = part.partition("/")
    return number == parts


class WindowsWorld(World):
    """``step`` may be one with a defect."""

    step: type[PoisonedWindowsStep] = PoisonedWindowsStep
    source = TOPIC
    outputs = tuple(TopicPartition(topic, number) for topic, count in PARTITIONS.items() for number in range(count))

    def _edge_class(self) -> Callable[..., Edge]:
        return WindowsEdge

    def _job(self) -> Job:
        return Job.of(self.step(lenient=self.lenient), [TOPIC])

    async def _calm(self) -> None:
        """Then nothing comes any more, until another window has passed by the clock alone."""
        await super()._calm()
        end_ms = (self.server.now_ms() // WINDOW_MS + 1) * WINDOW_MS
        until_s = self.loop.time() + CALM_S
        while not self.damaged and self._heard_ms() < end_ms:
            if self.loop.time() > until_s:
                self.outcome.violations.append(f"a reader of partials has heard of {self._heard_ms()}, not {end_ms}")
                return
            await asyncio.sleep(1.0)

    def _heard_ms(self) -> int:
        """The least watermark of any source partition, seen from any partition of partials."""
        heard = Counter[tuple[TopicPartition, str]]()
        targets = [place for place in self.outputs if place.topic == WINDOW_PARTIALS]
        for place in targets:
            for record in self._told(place):
                headers = dict(record.headers)
                key = (place, headers["source-partition"].decode())
                heard[key] = max(heard[key], int(headers["watermark"]))
        return min(heard[target, str(source.partition)] for target in targets for source in self.places)

    def _judge_outputs(self) -> None:
        self._judge_chains()
        self._judge_links()
        if not self.damaged:
            self._judge_rows()
            self._judge_usage()
            self._judge_books()

    def _judge_chains(self) -> None:
        """In the books the commits about a source partition follow one another without a gap."""
        ends: Counter[tuple[TopicPartition, str]] = Counter()
        for place in self.outputs:
            for record in self._told(place) if place.topic == BOOKS_TOPIC else ():
                headers = dict(record.headers)
                self.outcome.commits += 1
                first, _, end = headers["offsets"].partition(b"-")
                key = (place, headers["source-partition"].decode())
                if int(first) != ends[key]:
                    self.outcome.violations.append(f"{key}: from {int(first)} after {ends[key]}")
                ends[key] = int(end)

    def _judge_links(self) -> None:
        """In every partition of partials a source's records name the one before, numbers and watermarks rise, and
        nothing of a commit stands behind its watermark."""
        last: dict[tuple[TopicPartition, str], tuple[int, int]] = {}
        for place in self.outputs:
            for record in self._told(place) if place.topic == WINDOW_PARTIALS else ():
                headers = {name: value.decode() for name, value in record.headers}
                key, number = (place, headers["source-partition"]), int(headers["number"])
                before, open_end = last.get(key, (-1, 0))
                end = int(headers["offsets"].partition("-")[2])
                if headers["previous"] not in ("", str(before)) or number <= before:
                    self.outcome.violations.append(f"{key}: {number} names {headers['previous']} after {before}")
                if headers["part"].startswith("1/") and open_end:
                    self.outcome.violations.append(f"{key}: the commit up to {open_end} has no watermark")
                last[key] = number, 0 if _is_last(headers["part"]) else end

    def _rows(self, topic: str, only: Table | None = None) -> list[Row]:
        """Rows of one table, else of all but those that travel with partials."""
        rows: list[Row] = []
        for place in self.outputs:
            for record in self._told(place) if place.topic == topic else ():
                if record.value:
                    table = BY_TABLE_SCHEMA[dict(record.headers)["schema"].decode()]
                    if table is only or (only is None and table not in BESIDE):
                        rows += rows_of(table.fields, native.decode(record.value, table.fields))
        return rows

    def _events(self) -> list[Row]:
        """Whatever was accepted, once."""
        return [event for edge in self.edges if isinstance(edge, WindowsEdge) for event in edge.events]

    def _judge_usage(self) -> None:
        """Over all minutes a key's usage is what its requests told, in each minute what brute force says."""
        found, events = merged_usage(self._rows("window.partials", USAGE)), self._events()
        if over_windows(found) != totals(events):
            self.outcome.violations.append(f"usage of {len(events)} requests is not what they told")
        elif found != merged_usage(row for event in events for row in usage_rows(event)):
            self.outcome.violations.append("usage adds up, but in other minutes")

    def _judge_rows(self) -> None:
        events = self._events()
        found, wanted = merged(TOPIC, self._rows("window.partials")), expected(TOPIC, events)
        if found != wanted:
            counts = [sum(row["event_count"] for row in rows) for rows in (found, wanted)]
            self.outcome.violations.append(f"{len(found)} rows of {counts[0]} instead of {len(wanted)} of {counts[1]}")

    def _judge_books(self) -> None:
        booked: Counter[Verdict] = Counter()
        for row in self._rows("books"):
            booked[Verdict(row["verdict"])] += row["events"]
        del booked[Verdict.DUPLICATE]
        truth = sum((edge.verdicts for edge in self.edges if isinstance(edge, WindowsEdge)), Counter[Verdict]())
        if +booked != truth:
            self.outcome.violations.append(f"booked {dict(+booked)} instead of {dict(truth)}")
        refused = sum(row["events"] for row in self._rows("rejected"))
        if refused != truth[Verdict.REJECTED]:
            self.outcome.violations.append(f"{refused} events in rejected, booked {dict(+booked)}")


class SmallWindowsStep(PoisonedWindowsStep):
    """So little room that most names find none."""

    bounds = Limits(series_max=6, tenant_series_max=8, label_cardinality_max=6, tenant_label_cardinality_max=1)


class SmallWindowsWorld(WindowsWorld):
    """Who keeps a name is what folding the log once more, record by record, gives."""

    step: type[PoisonedWindowsStep] = SmallWindowsStep

    def _judge_rows(self) -> None:
        found, wanted = merged(TOPIC, self._rows("window.partials")), merged(TOPIC, self._undisturbed(None))
        if found != wanted:
            self.outcome.violations.append(f"{len(found)} rows, not the {len(wanted)} of a job that nothing disturbs")

    def _judge_usage(self) -> None:
        if merged_usage(self._rows("window.partials", USAGE)) != merged_usage(self._undisturbed(USAGE)):
            self.outcome.violations.append("usage is not that of a job that nothing disturbs")

    def _undisturbed(self, only: Table | None) -> list[Row]:
        rows: list[Row] = []
        for place in self.places:
            step = WindowsStep(SmallWindowsStep.bounds, PARTITIONS)
            state, changes = step.new(*place), step.changes()
            for record in self.server.log(place).read(0, 1 << 30).records:
                if record.value == POISON:
                    step.reject(state, record, "poison", changes)
                else:
                    step.fold(state, [record], changes)
            outputs = step.rows(state, changes, Commit(*place, 0, 1, 0, self.server.now_ms(), False))
            rows += rows_in(outputs, "window.partials", only)
        return rows


class _ForgetsOpeners(SmallWindowsStep):
    def load(self, topic: str, partition: int, parts: Sequence[bytes]) -> Any:
        state = super().load(topic, partition, parts)
        for table in state.series.tables:
            table.opened[:] = 0
        return state


class ForgetfulWorld(SmallWindowsWorld):
    """Who opened a series is no part of its snapshots."""

    step = _ForgetsOpeners
