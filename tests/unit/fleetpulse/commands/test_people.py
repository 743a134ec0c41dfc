"""Commands for people: clean JSON, tables that obey nobody's data, errors in one sentence.

Covers fleetpulse.commands.stack.
"""

from __future__ import annotations

import io
import ipaddress
import json
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from aiokafka.errors import KafkaConnectionError
from clickhouse_connect.driver.exceptions import DatabaseError
from rich.console import Console
from typer.testing import CliRunner

from fleetpulse.cli import app
from fleetpulse.commands.output import json_text, sentence_of, show, spoken, table
from fleetpulse.commands.people import duration_ms, rejected_row
from fleetpulse.migrate.plan import GrowTopic, Plan, SetTtl
from schemas.ddl.kept import Kept
from schemas.errors import ConfigError, FleetpulseError, UnavailableError
from schemas.limits import DAY_MS


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (datetime(2026, 1, 2, 3, 4, 5), "2026-01-02T03:04:05+00:00"),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00+00:00"),
        (date(2026, 1, 2), "2026-01-02"),
        (Decimal("1.50"), "1.50"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (ipaddress.IPv4Address("1.2.3.4"), "1.2.3.4"),
        (b"\xff", "/w=="),
        (float("nan"), None),
        (np.uint64(2**64 - 1), 2**64 - 1),
        ({1: 2, -3: 4}, {"1": 2, "-3": 4}),
        ((1, "a"), [1, "a"]),
        pytest.param({"b", "a"}, ["a", "b"], id="a set is written in order"),
        (2**200, 2**200),
        ({"big": [2**70, float("nan"), b"\x00", None]}, {"big": [2**70, None, "AA==", None]}),
    ],
    ids=repr,
)
def test_whatever_the_database_answers_becomes_json(value: Any, plain: Any) -> None:
    """Times in UTC, bytes as base64, NaN as null, whole numbers of any size."""
    assert json.loads(json_text([value])) == [plain]


def test_values_are_never_markup() -> None:
    """A label that looks like markup, in a cell, a heading or the title, stands as it is."""
    console = Console(file=io.StringIO(), width=80)

    console.print(table("[/title]", ("[/head]", "n"), [("[/red][bold]x", 1)]))

    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "[/title]" in text
    assert "[/head]" in text
    assert "[/red][bold]x" in text


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (None, "–"),
        (True, "yes"),
        (1_234, "1,234"),
        (0.12345, "0.123"),
        (1234.5, "1,234"),
        ("a\x1b[31m\x07", "a\\x1b[31m\\x07"),
    ],
    ids=repr,
)
def test_cells_show_values_and_obey_none(value: Any, cell: str) -> None:
    """Control characters are shown as escapes."""
    assert show(value) == cell


def test_a_rejected_record_fits_a_narrow_terminal() -> None:
    """Two lines a cell; the row only where there is one."""
    record = {"time": "T", "topic": "llm.requests", "partition": 2, "offset": 7, "row": None, "reason": "syntax"}

    whole = rejected_row({**record, "detail": "why", "source": "0123456789abcdef"})
    single = rejected_row({**record, "row": 3, "detail": "why", "source": None})

    assert whole == ("T\nllm.requests 2 @ 7", "syntax\nwhy", "01234567…")
    assert single == ("T\nllm.requests 2 @ 7, row 3", "syntax\nwhy", None)


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        (KafkaConnectionError("no"), UnavailableError, "Kafka does not answer"),
        (DatabaseError("no\nmore"), UnavailableError, r"ClickHouse does not answer as it should \(no\)"),
        (TimeoutError(), UnavailableError, "no answer in time"),
        (PermissionError(13, "Permission denied", "/x"), FleetpulseError, "Permission denied"),
        (ConfigError("a", 1, "must be 2"), ConfigError, "a = 1: must be 2"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_what_the_world_does_is_told_in_a_sentence(error: Exception, kind: type[Exception], says: str) -> None:
    """Never a traceback, and an error of ours stays what it is."""

    @spoken
    def command() -> None:
        raise error

    with pytest.raises(kind, match=says) as caught:
        command()
    assert "\n" not in str(caught.value)


def test_a_defect_keeps_its_traceback() -> None:
    """What is nobody's fault but ours is not dressed up."""
    assert sentence_of(KeyError("x")) is None
    with pytest.raises(ZeroDivisionError):
        spoken(lambda: 1 / 0)()


@pytest.mark.parametrize("text", ["¹h", "٣h", "9" * 400 + "d", "1000000s"], ids=lambda text: text[:10])
def test_strange_durations_are_refused(text: str) -> None:
    """Digits of other scripts and numbers without end."""
    with pytest.raises(ConfigError, match="whole number"):
        duration_ms(text)


UP = SimpleNamespace(
    kafka=SimpleNamespace(bootstrap="h:1"),
    clickhouse=SimpleNamespace(url="http://h:2"),
    reading=SimpleNamespace(user="reader"),
)
"""What a stack that is up is reached by."""
GROWN = GrowTopic("gpu.samples", 4, 8)
SHORTER = SetTtl(Kept("a", "at_ms", DAY_MS), 7 * DAY_MS, 5)


def test_up_passes_new_ports_and_the_size_of_the_stack_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The flag that the port-taken error names exists and reaches the stack."""
    seen: list[tuple[Path | None, dict[str, Any]]] = []

    def bring_up(data_dir: Path | None, on_progress: object, *, on_migrated: object, **options: Any) -> Any:
        seen.append((data_dir, options))
        return UP

    monkeypatch.setattr("fleetpulse.migrate.bring_up.bring_up", bring_up)

    flags = ([], ["--new-ports"], ["--brokers", "3", "--shards", "2"])
    codes = [CliRunner().invoke(app, ["up", *each]).exit_code for each in flags]

    assert codes == [0, 0, 0]
    assert seen == [
        (None, {"new_ports": False, "brokers": None, "shards": None}),
        (None, {"new_ports": True, "brokers": None, "shards": None}),
        (None, {"new_ports": False, "brokers": 3, "shards": 2}),
    ]


@pytest.mark.parametrize(
    ("plan", "lines"),
    [
        (Plan((GROWN,)), []),
        (Plan(notes=("look at this",)), ["topics and tables are up to date", "note: look at this"]),
        (
            Plan((GROWN, SHORTER), ("look at this",)).without_removing(),
            [
                "not done without --yes: table ttl a: 7 d -> 1 d after at_ms (removes what is older)",
                "note: look at this",
                "`fleetpulse migrate --yes` does what is not done",
            ],
        ),
    ],
    ids=["nothing is left", "there is a note", "rows would be removed"],
)
def test_up_says_what_the_migration_left(plan: Plan, lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """In the words of `migrate`; of what was done it says nothing."""

    def bring_up(*_of: object, on_migrated: Callable[[Plan], None], **_options: object) -> Any:
        on_migrated(plan)
        return UP

    monkeypatch.setattr("fleetpulse.migrate.bring_up.bring_up", bring_up)

    said = CliRunner().invoke(app, ["up"]).stdout.splitlines()

    assert said == ["Kafka      h:1", "ClickHouse http://h:2 (people log in as reader)", *lines]
