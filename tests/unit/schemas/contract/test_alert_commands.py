"""Commands to the alert job: what is written is read again, what means nothing is refused with its reason."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from schemas.contract.alert_commands import (
    AHEAD_MS_MAX,
    MUTE_MS_MAX,
    RECURRING_MS_MAX,
    Command,
    check_begin,
    decode,
    encode,
)
from schemas.errors import RejectedError

MUTE = Command("mute", "m-1", {"host": "h-1"}, 1_000, 2_000, "new fans", "me")
RAN = Command("ran", "r-1", reason="rerate --from 2026-01-01", by="me@h")
AGAIN = Command("mute", "m-3", {}, 0, RECURRING_MS_MAX, every="Sat 22:00-06:00", zone="Europe/Berlin")


@pytest.mark.parametrize("command", [MUTE, Command("mute", "m-2", {}, 0, 1), AGAIN, Command("unmute", "m-1"), RAN])
def test_what_is_written_is_read_again(command: Command) -> None:
    """All fields, and the schema beside them."""
    assert decode(encode(command)) == command
    assert orjson.loads(encode(command))["schema"] == "alert.commands/1"


def test_fields_of_later_versions_are_left_out() -> None:
    """Others may say more."""
    assert decode(orjson.dumps({**orjson.loads(encode(MUTE)), "colour": "red"})) == MUTE


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"command": "shout"}, "not_allowed"),
        ({"command": None}, "not_allowed"),
        ({"id": ""}, "missing_field"),
        ({"id": 5}, "wrong_type"),
        ({"reason": "x" * 257}, "too_long"),
        ({"labels": {"host": 5}}, "wrong_type"),
        ({"labels": ["host"]}, "wrong_type"),
        ({"labels": {str(n): "x" for n in range(17)}}, "too_many"),
        ({"labels": {"hosts": "h-1"}}, "not_allowed"),
        ({"labels": {"grouping": "gpu"}}, "not_allowed"),
        ({"labels": {"host": "h" * 257}}, "too_long"),
        ({"labels": {"host": "\u00fc" * 129}}, "too_long"),
        ({"from_ms": "now"}, "wrong_type"),
        ({"from_ms": True}, "wrong_type"),
        ({"until_ms": -1}, "wrong_type"),
        ({"until_ms": 1_000}, "out_of_range"),
        ({"until_ms": 1_001 + MUTE_MS_MAX}, "out_of_range"),
        ({"every": "Sat 22:00-06:00", "until_ms": 1_001 + RECURRING_MS_MAX}, "out_of_range"),
        ({"every": "saturdays"}, "not_allowed"),
        ({"every": "Sat 22:00-06:00", "zone": "Berlin"}, "not_allowed"),
        ({"every": 5}, "wrong_type"),
    ],
)
def test_what_means_nothing_is_refused(change: dict[str, Any], reason: str) -> None:
    """With one of the closed set of reasons."""
    with pytest.raises(RejectedError) as refused:
        decode(orjson.dumps({**orjson.loads(encode(MUTE)), **change}))

    assert refused.value.reason == reason


@pytest.mark.parametrize("value", [b"", b"{", b"[]", b"5", b"null", b"\xff"])
def test_what_is_no_object_is_refused(value: bytes) -> None:
    """As a syntax error."""
    with pytest.raises(RejectedError) as refused:
        decode(value)

    assert refused.value.reason == "syntax"


@pytest.mark.parametrize("name", ["rule", "severity", "fingerprint", "kind", "code", "tenant", "gpu_uuid", "model"])
def test_a_mute_may_name_what_an_alert_has(name: str) -> None:
    """Dimensions, and what alerts are known by."""
    command = Command("mute", "m", {name: "x" * 256}, 0, 1)

    assert decode(encode(command)) == command


def test_a_mute_begins_within_ninety_days() -> None:
    """To the millisecond; the end of one may be told at any time."""
    check_begin(Command("mute", "m", {}, 7 + AHEAD_MS_MAX, 8 + AHEAD_MS_MAX), 7)
    check_begin(Command("unmute", "m", {}, 2**62), 7)

    with pytest.raises(RejectedError, match="out_of_range: a mute begins within 90 days"):
        check_begin(Command("mute", "m", {}, 8 + AHEAD_MS_MAX, 9 + AHEAD_MS_MAX), 7)
