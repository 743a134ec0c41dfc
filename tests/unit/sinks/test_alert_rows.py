"""Rows of the history of alerts: one per transition, told apart by where it stood in the log."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schemas.codec.build import rows_of
from schemas.contract.alerts import Alert, Member, encode
from schemas.contract.record import Record
from schemas.limits import DEFAULT_LIMITS
from schemas.rows.tables import ALERT_HISTORY
from sinks.alert_rows import block_of
from sinks.landing import Landing, land_derived
from tests.unit.sinks.landing_cases import NOW_MS, rows_landed

ALERT = Alert(
    fingerprint="00000000000000aa",
    transition="opened",
    number=1,
    rule="gpu_lost",
    severity="critical",
    summary="GPU-1 is lost: größer",
    advice="drain the engine",
    labels={"host": "h1"},
    opened_ms=NOW_MS,
    since_ms=NOW_MS - 5,
    at_ms=NOW_MS,
    members=(Member("ttft", "warning", {"engine_id": "e"}, NOW_MS, None),),
)


def record(value: bytes | None, offset: int = 7) -> Record:
    return Record("alerts", 0, offset, NOW_MS, b"00000000000000aa", value, ())


def test_a_transition_is_a_row_with_the_whole_record() -> None:
    """Columns as the alert says, null where it is open, and the bytes of the topic as text."""
    block, kept = block_of([record(encode(ALERT))])
    rows = rows_of(ALERT_HISTORY.fields, block)

    assert kept == [0]

    assert rows == [
        {
            "at_ms": NOW_MS,
            "opened_ms": NOW_MS,
            "since_ms": NOW_MS - 5,
            "resolved_ms": None,
            "number": 1,
            "fingerprint": "00000000000000aa",
            "transition": "opened",
            "rule": "gpu_lost",
            "severity": "critical",
            "summary": "GPU-1 is lost: größer",
            "record": encode(ALERT).decode(),
        }
    ]


def test_rows_land_with_the_identity_of_their_log() -> None:
    """The same record landed twice is the same row; a tombstone is none."""
    records = [record(encode(ALERT)), record(None, 8), record(encode(ALERT), 9)]

    landing = land_derived(records, {"alerts": "eeee"}, NOW_MS, DEFAULT_LIMITS)

    (insert,) = landing.inserts
    landed = rows_landed(insert)
    identity = ("log_id", "log_partition", "log_offset", "log_row")
    assert (insert.table, insert.rows, landing.dirty) == ("alerts", 2, frozenset())
    assert [tuple(row[name] for name in identity) for row in landed] == [("eeee", 0, 7, 0), ("eeee", 0, 9, 0)]


@pytest.mark.parametrize(
    "value",
    [
        b"{}",
        b"no",
        b'{"transition": "opened"}',
        b"\xff",
        encode(replace(ALERT, fingerprint="\u00e9")),
        encode(replace(ALERT, number=-1)),
        encode(replace(ALERT, number=2**40)),
        encode(replace(ALERT, at_ms=2**62)),
        encode(replace(ALERT, count="x")),  # type: ignore[arg-type]
    ],
)
def test_a_record_that_is_no_alert_is_left_out_and_counted(value: bytes) -> None:
    """Those around it land with their own place; alone it is nothing but a count."""
    records = [record(encode(ALERT)), record(value, 8), record(encode(ALERT), 9)]

    landing = land_derived(records, {"alerts": "eeee"}, NOW_MS, DEFAULT_LIMITS)
    alone = land_derived(records[1:2], {"alerts": "eeee"}, NOW_MS, DEFAULT_LIMITS)

    assert ([row["log_offset"] for row in rows_landed(landing.inserts[0])], landing.unreadable) == ([7, 9], 1)
    assert alone == Landing(unreadable=1)
