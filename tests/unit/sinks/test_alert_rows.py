"""Rows of the history of alerts: one per transition, told apart by where it stood in the log."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schemas.codec.build import rows_of
from schemas.contract import alert_commands
from schemas.contract.alert_commands import Command
from schemas.contract.alerts import Alert, Member, encode
from schemas.contract.record import Record
from schemas.limits import DEFAULT_LIMITS
from schemas.rows.tables import ACTIONS, ALERT_HISTORY
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
    block, kept = block_of(ALERT_HISTORY, [record(encode(ALERT))])
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


SILENCE = Command("mute", "s-1", {"rule": "gpu_lost", "host": "h1"}, NOW_MS, NOW_MS + 5, "new fans", "dashboard: ada")


def command(value: bytes, offset: int = 7) -> Record:
    return Record("alert.commands", 0, offset, NOW_MS + 9, None, value, ())


def test_what_people_did_is_a_row_with_the_brokers_time() -> None:
    """Whatever time the command itself claims."""
    did = [SILENCE, Command("unmute", "s-1", by="bob@h"), Command("ran", "r-1", reason="rerate --to x", by="bob@h")]
    block, kept = block_of(ACTIONS, [command(alert_commands.encode(one)) for one in did])
    rows = rows_of(ACTIONS.fields, block)

    assert kept == [0, 1, 2]
    assert {row["at_ms"] for row in rows} == {NOW_MS + 9}
    shown = ("action", "done_by", "about", "reason", "until_ms", "action_id")
    assert [tuple(row[name] for name in shown) for row in rows] == [
        ("silence", "dashboard: ada", "host=h1 rule=gpu_lost", "new fans", NOW_MS + 5, "s-1"),
        ("unsilence", "bob@h", "", "", None, "s-1"),
        ("run", "bob@h", "rerate --to x", "", None, "r-1"),
    ]
    assert [row["record"] for row in rows] == [alert_commands.encode(one).decode() for one in did]


@pytest.mark.parametrize(
    "value",
    [
        b"{}",
        b"no",
        b"\xff",
        b'{"command": "shout", "id": "x"}',
        alert_commands.encode(replace(SILENCE, from_ms=2**62, until_ms=2**62 + 5)),
        alert_commands.encode(replace(SILENCE, from_ms=2**64 - 6, until_ms=2**64 - 1)),
    ],
)
def test_a_record_that_is_no_command_is_left_out_and_counted(value: bytes) -> None:
    """Those around it land with their own place."""
    records = [command(alert_commands.encode(SILENCE)), command(value, 8), command(alert_commands.encode(SILENCE), 9)]

    landing = land_derived(records, {"alert.commands": "eeee"}, NOW_MS, DEFAULT_LIMITS)

    (insert,) = landing.inserts
    assert (insert.table, landing.unreadable, landing.dirty) == ("actions", 1, frozenset())
    assert [row["log_offset"] for row in rows_landed(insert)] == [7, 9]
