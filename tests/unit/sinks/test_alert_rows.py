"""Rows of the history of alerts: one per transition, told apart by where it stood in the log."""

from __future__ import annotations

import pytest

from schemas.alerts import Alert, Member, encode
from schemas.build import rows_of
from schemas.errors import ContractError
from schemas.limits import DEFAULT_LIMITS
from schemas.record import Record
from schemas.tables import ALERT_HISTORY
from sinks.alert_rows import block_of
from sinks.landing import land_derived
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
    rows = rows_of(ALERT_HISTORY.fields, block_of([record(encode(ALERT))]))

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


@pytest.mark.parametrize("value", [b"{}", b"no", b'{"transition": "opened"}', b"\xff"])
def test_a_record_that_is_no_alert_stops_the_sink(value: bytes) -> None:
    """With where it stands: only the alert job writes there."""
    with pytest.raises(ContractError, match=r"alerts\[0\] offset 7"):
        block_of([record(value)])
