"""Passing on: accepted events once, commands as they are."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.codec import native
from schemas.codec.build import rows_of
from schemas.contract.headers import Identity
from schemas.contract.record import Output, Record
from schemas.contract.topics import ALERT_COMMANDS
from schemas.errors import ContractError
from schemas.events.event_types import BY_TOPIC
from schemas.limits import DEFAULT_LIMITS
from schemas.rows.finals import PassedOnHeaders, decode
from stream_jobs.finals.forward import COMMAND_BYTES_MAX, Forwarding, ForwardStep, Waiting
from stream_jobs.step import Commit
from tests.unit.stream_jobs.windows.cases import BASE_MS, SOURCE, Row, a_record

TOPIC = "gpu.events"
HOUR_MS = 3_600_000


def an_event(at_ms: int = BASE_MS, **fields: object) -> Row:
    base = {"host": "h1", "gpu_uuid": "GPU-1", "kind": "xid", "severity": "critical", "origin": "measured"}
    return {"at_ms": at_ms, "message": "GPU has fallen off the bus", **base, **fields}


def a_step() -> ForwardStep:
    return ForwardStep(DEFAULT_LIMITS)


def passed_on(step: ForwardStep, state: Forwarding, records: list[Record]) -> list[Output]:
    changes = step.changes()
    step.fold(state, records, changes)
    assert step.due(state, changes) == bool(changes.outputs)
    return step.rows(state, changes, Commit(state.topic, 0, 0, 1, 0, BASE_MS, False))


def seen(output: Output) -> tuple[PassedOnHeaders, list[Row]]:
    headers = decode(output.headers, "an output")
    assert isinstance(headers, PassedOnHeaders)
    fields = BY_TOPIC[headers.schema.removesuffix("/1")].fields
    return headers, rows_of(fields, native.decode(output.value, fields))


def test_an_accepted_event_is_passed_on_whole() -> None:
    """With its texts and the time at which it was appended; one record for one record."""
    step = a_step()
    record = a_record(TOPIC, [an_event(), an_event(gpu_uuid="GPU-2")], appended_ms=BASE_MS + 70)

    (output,) = passed_on(step, step.new(TOPIC, 0), [record])
    headers, rows = seen(output)

    assert (output.topic, output.partition, output.key) == ("window.finals", 0, None)
    assert headers == PassedOnHeaders("gpu.events/1", BASE_MS + 70, 2)
    assert [(row["gpu_uuid"], row["message"]) for row in rows] == [
        ("GPU-1", "GPU has fallen off the bus"),
        ("GPU-2", "GPU has fallen off the bus"),
    ]


def test_only_accepted_events_are_passed_on() -> None:
    """Late, future and refused ones are in the books and tables, not here; a record without any is nothing."""
    step = a_step()
    late = an_event(BASE_MS - 7 * HOUR_MS, gpu_uuid="late")
    future = an_event(BASE_MS + HOUR_MS, gpu_uuid="future")
    records = [
        a_record(TOPIC, [late, an_event(gpu_uuid="good"), future], appended_ms=BASE_MS),
        a_record(TOPIC, [late], appended_ms=BASE_MS),
        Record(TOPIC, 0, 2, BASE_MS, None, b"garbage", a_record(TOPIC, [late]).headers),
        Record(TOPIC, 0, 3, BASE_MS, None, b"", ()),
    ]

    (output,) = passed_on(step, step.new(TOPIC, 0), records)

    assert [row["gpu_uuid"] for row in seen(output)[1]] == ["good"]


def test_a_re_send_is_dropped_also_after_a_restart() -> None:
    """By the identity of its record."""
    step = a_step()
    state = step.new("engine.events", 3)
    event = {"at_ms": BASE_MS, "host": "h1", "engine_id": "e", "kind": "registered", "origin": "measured"}
    records = [a_record("engine.events", [event], n, None, Identity(SOURCE, 1, n, (1, 0))) for n in (0, 2, 3, 5)]

    first = passed_on(step, state, records[:3])
    dumped = step.dump(state)
    state = step.load("engine.events", 3, dumped)
    second = passed_on(step, state, records)

    assert (len(first), len(second)) == (3, 1)
    assert step.dump(step.load("engine.events", 3, step.dump(state))) == step.dump(state) != dumped


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(1, 2), st.integers(0, 6), st.booleans()), max_size=12), st.integers(1, 4))
def test_the_cut_of_batches_does_not_matter(sends: list[tuple[int, int, bool]], cut: int) -> None:
    """Same outputs, same state."""
    step = a_step()
    records = []
    for number, (boot, seq, is_late) in enumerate(sends):
        rows = [an_event(BASE_MS - 7 * HOUR_MS * is_late, gpu_uuid=f"g{seq}")]
        records.append(a_record(TOPIC, rows, number, BASE_MS, Identity(SOURCE, boot, seq, (boot, 0))))
    one, other = step.new(TOPIC, 0), step.new(TOPIC, 0)

    whole = passed_on(step, one, records)
    pieces = [o for start in range(0, len(records), cut) for o in passed_on(step, other, records[start : start + cut])]

    assert whole == pieces
    assert step.dump(one) == step.dump(other)


def test_a_command_is_passed_on_as_it_is_when_it_is_not_too_large() -> None:
    """Its size is bounded; tombstones are none."""
    step = a_step()
    state, changes = step.new(ALERT_COMMANDS, 0), step.changes()
    values = [b'{"mute": 1}', b"x" * COMMAND_BYTES_MAX, b"x" * (COMMAND_BYTES_MAX + 1), b"", None]

    step.fold(state, [Record(ALERT_COMMANDS, 0, n, 7, None, value, ()) for n, value in enumerate(values)], changes)

    assert [output.value for output in changes.outputs] == values[:2]
    assert {output.headers for output in changes.outputs} == {PassedOnHeaders("alert.commands/1", 7, 1).encode()}
    assert changes.left_out == 3


def test_a_record_that_cannot_be_judged_is_left_out() -> None:
    """It is counted; nothing waits for it."""
    step, changes = a_step(), Waiting()

    step.reject(step.new(TOPIC, 0), a_record(TOPIC, [an_event()]), "why", changes)

    assert (changes.left_out, step.due(step.new(TOPIC, 0), changes)) == (1, False)


def test_a_foreign_snapshot_is_refused() -> None:
    """Of another topic, partition or version."""
    step = a_step()

    with pytest.raises(ContractError, match=r"is of \{'topic': 'gpu\.events', 'partition': 1\}, not"):
        step.load(TOPIC, 0, step.dump(step.new(TOPIC, 1)))
