"""Compiling ahead of time: see ``stream_jobs.warm_rows``."""

from __future__ import annotations

from schemas.codec import wire
from schemas.codec.build import block_from_rows
from schemas.contract.headers import NATIVE, NDJSON
from schemas.contract.record import Record
from schemas.contract.topics import BOOKS_TOPIC, REJECTED_TOPIC, WINDOW_PARTIALS
from schemas.events.event_types import EVENTS
from schemas.fields import Event
from schemas.limits import DEFAULT_LIMITS
from stream_jobs.costs import usage_kernels
from stream_jobs.step import Commit
from stream_jobs.warm_rows import row_of
from stream_jobs.windows import bin_kernels, exemplar_kernels, kernels
from stream_jobs.windows.step import WindowsStep

_AT_MS = 1_700_000_000_000


def warm() -> None:
    """Run everything a job runs once on tiny input, for every topic; compiles what is not in the cache."""
    step = WindowsStep(DEFAULT_LIMITS, {WINDOW_PARTIALS: 1, BOOKS_TOPIC: 1, REJECTED_TOPIC: 1})
    for event in EVENTS:
        state, changes = step.new(event.topic, 0), step.changes()
        step.fold(state, [_a_record(event, NATIVE), _a_record(event, NDJSON)], changes)
        for sums in changes.segments[0].sums:
            sums.grow()
        step.rows(state, changes, Commit(event.topic, 0, 0, 1, 0, _AT_MS, idle=False))
        step.load(event.topic, 0, step.dump(state))


def compiled() -> dict[str, int]:
    """For how many forms of input each loop that Python calls was compiled."""
    found = {**vars(kernels), **vars(bin_kernels), **vars(exemplar_kernels), **vars(usage_kernels)}
    loops = {name: value for name, value in found.items() if hasattr(value, "signatures") and name[0] != "_"}
    return {name: len(loop.signatures) for name, loop in loops.items()}


def _a_record(event: Event, content_type: str) -> Record:
    value = wire.encode(content_type, event.fields, block_from_rows(event.fields, [row_of(event.fields, at_ms=_AT_MS)]))
    headers = (("schema", event.schema.encode()), ("content-type", content_type.encode()))
    return Record(event.topic, 0, 0, _AT_MS, None, value, headers)
