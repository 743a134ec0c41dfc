"""Forwards accepted events of a topic, each once, and commands as they were sent.

Events are judged as the windows job judges them, duplicates by the same identities, so that alerts are made of what is
counted. Books are the windows job's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from schemas.codec import native
from schemas.codec.select import select
from schemas.contract.admission import Reject, admit, read_headers
from schemas.contract.headers import RecordHeaders
from schemas.contract.record import Output, Record
from schemas.contract.topics import ALERT_COMMANDS, WINDOW_FINALS
from schemas.contract.verdicts import Verdict
from schemas.events.event_types import BY_TOPIC
from schemas.fields import Event
from schemas.limits import Limits
from schemas.rows.finals import COMMANDS_SCHEMA, PassedOnHeaders
from stream_jobs import parts as parts_of
from stream_jobs.step import Commit, Stat, Step
from stream_jobs.windows.dedup import Dedup, SourceSeen, join, split

COMMAND_BYTES_MAX = 64 * 1024
"""Larger commands are left out and counted."""
VERSION = 1


@dataclass(slots=True)
class Forwarding:
    """The state of a source partition: whose records were taken before."""

    topic: str
    partition: int
    dedup: Dedup


@dataclass(slots=True)
class Waiting:
    """What the next commit sends, and records that were left out since the last: no command, or not to be judged."""

    outputs: list[Output] = field(default_factory=list)
    left_out: int = 0


class ForwardStep(Step[Forwarding, Waiting]):
    """Passes the records of one source topic on, in their order, to the one partition of ``window.finals``."""

    name = "finals"

    def __init__(self, limits: Limits) -> None:
        self.limits = limits

    def new(self, topic: str, partition: int) -> Forwarding:
        return Forwarding(topic, partition, Dedup(self.limits.source_expiry_ms))

    def changes(self) -> Waiting:
        return Waiting()

    def fold(self, state: Forwarding, records: Sequence[Record], changes: Waiting) -> None:
        if state.topic == ALERT_COMMANDS:
            self._fold_commands(records, changes)
        else:
            self._fold_events(state, records, changes)

    def _fold_commands(self, records: Sequence[Record], changes: Waiting) -> None:
        for record in records:
            value = record.value or b""
            if 0 < len(value) <= COMMAND_BYTES_MAX:
                headers = PassedOnHeaders(COMMANDS_SCHEMA, record.timestamp_ms, 1)
                changes.outputs.append(Output(WINDOW_FINALS, 0, None, value, headers.encode()))
            else:
                changes.left_out += 1

    def _fold_events(self, state: Forwarding, records: Sequence[Record], changes: Waiting) -> None:
        event = BY_TOPIC[state.topic]
        readable, heads = _readable(event, records, self.limits)
        values = self._accepted(event, readable, heads)
        for record, head, found in zip(readable, heads, values, strict=True):
            identity = head.identity
            if identity is not None and not state.dedup.take(identity, record.timestamp_ms):
                continue
            if found is not None:
                rows, value = found
                headers = PassedOnHeaders(event.schema, record.timestamp_ms, rows)
                changes.outputs.append(Output(WINDOW_FINALS, 0, None, value, headers.encode()))

    def _accepted(
        self, event: Event, records: Sequence[Record], heads: Sequence[RecordHeaders]
    ) -> list[tuple[int, bytes] | None]:
        """The accepted rows of each record; None where there are none."""
        admitted = admit(event, records, heads, self.limits)
        accepted = admitted.verdicts == Verdict.ACCEPTED
        found: list[tuple[int, bytes] | None] = [None] * len(records)
        for number in np.unique(admitted.record_of[accepted]).tolist():
            block = select(admitted.block, accepted & (admitted.record_of == number))
            found[number] = (block.rows, native.encode(event.fields, block))
        return found

    def reject(self, state: Forwarding, record: Record, detail: str, changes: Waiting) -> None:
        changes.left_out += 1

    def due(self, state: Forwarding, changes: Waiting) -> bool:
        return bool(changes.outputs)

    def rows(self, state: Forwarding, changes: Waiting, commit: Commit) -> list[Output]:
        return changes.outputs

    def stats(self, state: Forwarding, changes: Waiting) -> Iterable[Stat]:
        return (Stat("finals_records_skipped", changes.left_out, {"topic": state.topic}),)

    def dump(self, state: Forwarding) -> list[bytes]:
        seen = [
            [source, *split(one.low), one.appended_ms, [split(s) for s in one.starts], [split(e) for e in one.ends]]
            for source, one in state.dedup.entries()
        ]
        found = {
            "version": VERSION,
            "topic": state.topic,
            "partition": state.partition,
            "appended_ms_max": state.dedup.appended_ms_max,
            "forgotten": state.dedup.forgotten,
            "seen": seen,
        }
        return [json.dumps(found, separators=(",", ":")).encode()]

    def load(self, topic: str, partition: int, parts: Sequence[bytes]) -> Forwarding:
        found: dict[str, Any] = json.loads(b"".join(parts))
        parts_of.check_head(found, VERSION, topic=topic, partition=partition)
        state = self.new(topic, partition)
        state.dedup.appended_ms_max, state.dedup.forgotten = found["appended_ms_max"], found["forgotten"]
        for source, boot, seq, appended_ms, starts, ends in found["seen"]:
            ranges = [join(*start) for start in starts], [join(*end) for end in ends]
            state.dedup.sources[source] = SourceSeen(join(boot, seq), *ranges, appended_ms)
        return state


def _readable(event: Event, records: Sequence[Record], limits: Limits) -> tuple[list[Record], list[RecordHeaders]]:
    """The records whose headers can be read, and these."""
    pairs = [
        (record, head)
        for record, head in zip(records, read_headers(event, records, limits), strict=True)
        if not isinstance(head, Reject)
    ]
    return [record for record, _ in pairs], [head for _, head in pairs]
