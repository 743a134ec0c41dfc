"""Partials records, upstreams and shorthands that the tests of the finals job share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from schemas.codec import native
from schemas.codec.build import block_from_rows, rows_of
from schemas.contract.headers import NATIVE
from schemas.contract.record import Headers, Output, Record
from schemas.contract.topics import WINDOW_PARTIALS
from schemas.limits import DEFAULT_LIMITS, Limits
from schemas.rows.finals import TABLE_BY_SCHEMA, FinalsHeaders, decode, finals_schema
from schemas.rows.tables import EXEMPLARS, PARTIALS, Table
from schemas.rows.usage import USAGE
from stream_jobs.finals.changes import Changes, State
from stream_jobs.finals.step import FinalsStep
from stream_jobs.step import Commit
from tests.unit.stream_jobs.windows.cases import BASE_MS, Row, _rows_of_event, a_request, a_sample

PARTITION = 2
SOURCES = {"llm.requests": 1, "gpu.samples": 1}
REQUESTS, SAMPLES = ("llm.requests", 0), ("gpu.samples", 0)
WINDOW_MS = 10_000
END_MS = BASE_MS + WINDOW_MS


def a_step(limits: Limits = DEFAULT_LIMITS, sources: Mapping[str, int] = SOURCES, **more: Any) -> FinalsStep:
    return FinalsStep(limits, sources, **more)


def request_rows(at_ms: int = BASE_MS, **fields: Any) -> list[Row]:
    """The partial rows of one request."""
    return _rows_of_event("llm.requests", a_request(at_ms, **fields))


def sample_rows(at_ms: int = BASE_MS, **fields: Any) -> list[Row]:
    """The partial rows of one GPU sample."""
    return _rows_of_event("gpu.samples", a_sample(at_ms, **fields))


def an_exemplar(window_ms: int = BASE_MS, **fields: Any) -> Row:
    base = {"metric": "ttft", "engine_id": "e1", "model": "m1", "host": "h1", "status": "ok", "origin": "measured"}
    return {"window_ms": window_ms, "value_us": 1, "request_id": "r", **base, **fields}


class Upstream:
    """Writes a partition of ``window.partials`` as the windows job does; ``log`` is what stands there. With ``links``
    every record says the number of the one before it, which 0.1.0 does not."""

    def __init__(self, hole: int = 0, *, links: bool = True) -> None:
        self.log: list[Record] = []
        self._hole = hole
        self._links = links
        self._ends: dict[tuple[str, int], int] = {}
        self._numbers: dict[tuple[str, int], int] = {}

    def commit(
        self,
        source: tuple[str, int] = REQUESTS,
        watermark_ms: int = 0,
        rows: Sequence[Row] = (),
        *more: Sequence[Row],
        exemplars: Sequence[Row] = (),
        usage: Sequence[Row] = (),
        at_ms: int | None = None,
    ) -> list[Record]:
        """The parts of one commit; each list of rows is a part, exemplars come first, then usage."""
        table = PARTIALS[source[0]]
        beside: list[tuple[Table, Sequence[Row]]] = [(EXEMPLARS, exemplars), (USAGE, usage)]
        parts = [part for part in beside if part[1]]
        parts += [(table, part) for part in (rows, *more)]
        first = self._ends.get(source, 0)
        self._ends[source] = first + 5
        made = []
        for place, (of, part) in enumerate(parts, 1):
            previous = self._numbers.get(source)
            number = self._numbers[source] = 0 if previous is None else previous + 1
            headers = (
                ("schema", of.schema.encode()),
                ("content-type", NATIVE.encode()),
                ("job", b"windows"),
                ("source-topic", source[0].encode()),
                ("source-partition", b"%d" % source[1]),
                ("offsets", b"%d-%d" % (first, first + 5)),
                ("part", b"%d/%d" % (place, len(parts))),
                ("number", b"%d" % number),
                *self._link(previous),
                ("watermark", b"%d" % (watermark_ms if place == len(parts) else 0)),
                ("rows", b"%d" % len(part)),
                ("idle", b"0"),
            )
            value = native.encode(of.fields, block_from_rows(of.fields, part)) if part else b""
            offset = self.log[-1].offset + 1 + self._hole if self.log else 0
            at = (watermark_ms or BASE_MS) + 2_000 if at_ms is None else at_ms
            made.append(Record(WINDOW_PARTIALS, PARTITION, offset, at, None, value, headers))
            self.log.append(made[-1])
        return made

    def _link(self, previous: int | None) -> Headers:
        if not self._links:
            return ()
        return (("previous", b"" if previous is None else b"%d" % previous),)


def a_state(step: FinalsStep) -> tuple[State, Changes]:
    return step.new(WINDOW_PARTIALS, PARTITION), step.changes()


def sent(step: FinalsStep, state: State, changes: Changes) -> list[Output]:
    """What a commit sends now."""
    return step.rows(state, changes, Commit(WINDOW_PARTIALS, PARTITION, 0, state.position, 0, BASE_MS, False))


def folded(step: FinalsStep, records: Sequence[Record]) -> list[Output]:
    """What one commit sends of all these."""
    state, changes = a_state(step)
    step.fold(state, records, changes)
    return sent(step, state, changes)


def headers_of(output: Output) -> FinalsHeaders:
    found = decode(output.headers, "an output")
    assert isinstance(found, FinalsHeaders)
    return found


def rows_told(outputs: Iterable[Output], schema: str = finals_schema("llm.requests")) -> list[Row]:
    """The rows of all records of a schema, in order."""
    fields = TABLE_BY_SCHEMA[schema].fields
    of_schema = [output for output in outputs if headers_of(output).schema == schema]
    return [row for output in of_schema for row in rows_of(fields, native.decode(output.value, fields))]


def heads(outputs: Iterable[Output]) -> list[tuple[int, int, bool, int]]:
    """(window, revision, complete, through) of every record."""
    found = [headers_of(output) for output in outputs]
    return [(head.window_ms, head.revision, head.complete, head.through_ms) for head in found]


def last_rows(outputs: list[Output], schema: str) -> dict[str, Any]:
    """The row of the greatest revision by window and series."""
    found: dict[str, tuple[int, Any]] = {}
    for output in outputs:
        revision = headers_of(output).revision
        for row in rows_told([output], schema):
            key = str([row[n] for n in ("window_ms", "grouping", "tenant" if "tenant" in row else "gpu_uuid")])
            found[key] = max(found.get(key, (-1, None)), (revision, row), key=lambda one: one[0])
    return {key: row for key, (_, row) in sorted(found.items())}
