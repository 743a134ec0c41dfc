"""Alerts on the command line: what is open, one in full, what mutes and marks look like on their topics."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from fleetpulse.alerts import view as reading
from fleetpulse.cli import app
from fleetpulse.commands import alerts as commands
from schemas.codec import native
from schemas.codec.build import rows_of
from schemas.contract.alert_commands import Command
from schemas.contract.alerts import Alert, Member, encode
from schemas.errors import ConfigError
from schemas.events.event_types import ENGINE_EVENTS

MEMBER = Member("model_slow", "warning", {"model": "llama"}, 1_700_000_001_000, None, 2.0, "llama is slow")
ALERT = Alert(
    fingerprint="a1b2c3d4e5f60718",
    transition="updated",
    number=2,
    rule="engine_slow",
    severity="warning",
    summary="e-0 is slow",
    advice="look",
    labels={"engine_id": "e-0", "host": "h-1"},
    opened_ms=1_700_000_010_000,
    since_ms=1_700_000_000_000,
    at_ms=1_700_000_020_000,
    value=0.25,
    baseline=0.1,
    low=0.05,
    high=0.15,
    unit="s",
    members=(MEMBER,),
    evidence={"requests": [{"request_id": "r-1"}]},
)
FINGERPRINT = ALERT.fingerprint
CRITICAL = replace(ALERT, fingerprint="ffff000011112222", severity="critical", members=(), evidence={})
OVER = replace(ALERT, fingerprint="0000111122223333", transition="resolved", resolved_ms=1_700_000_030_000)


TOUCHED = {"requests": 3, "dollars": 4.5}


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> list[Alert]:
    """What the topic holds."""
    found = [ALERT, OVER]

    async def newest(kafka: object) -> list[Alert]:
        return found

    monkeypatch.setattr(reading, "newest", newest)
    monkeypatch.setattr(commands, "_touched", lambda config, alert: TOUCHED)
    return found


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[Command]:
    """What was put on the topic of commands."""
    commands: list[Command] = []

    async def publish(kafka: object, command: Command) -> None:
        commands.append(command)

    async def silences_of(kafka: object) -> dict[str, Command]:
        return {"m-1": Command("mute", "m-1")}

    monkeypatch.setattr(reading, "publish", publish)
    monkeypatch.setattr(reading, "silences_of", silences_of)
    return commands


def run(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, words, env={"COLUMNS": "100"})
    return done.exit_code, done.stdout, done.stderr


def test_the_newest_record_of_each_alert_counts() -> None:
    """Later records replace earlier ones, an empty value takes one away; what is no alert is left out."""
    gone = replace(ALERT, fingerprint="9" * 16)
    alerts = [replace(ALERT, number=1, transition="opened"), OVER, gone, ALERT]
    records = [(alert.fingerprint.encode(), encode(alert)) for alert in alerts]

    assert reading.of_records([*records, (b"x", b"junk"), (b"9" * 16, None), (None, b"{}")]) == [OVER, ALERT]


def test_open_alerts_come_worst_first_then_newest() -> None:
    """What is resolved is not open."""
    older = replace(ALERT, fingerprint="b" * 16, opened_ms=ALERT.opened_ms - 1)

    assert reading.open_of([older, OVER, ALERT, CRITICAL]) == [CRITICAL, ALERT, older]


def test_alerts_lists_what_is_open(topic: list[Alert]) -> None:
    """As a table for people, as the records themselves for programs."""
    code, table, _ = run("alerts")
    as_json = run("alerts", "--json")

    assert code == 0
    assert "e-0 is slow" in table
    assert "a1b2c3d4e5f60718" in table
    assert OVER.fingerprint not in table
    assert json.loads(as_json[1]) == [json.loads(encode(ALERT))]


def test_the_exit_code_is_for_scripts(topic: list[Alert]) -> None:
    """1 only when requested, and only for a critical alert that is not muted."""
    warned = run("alerts", "--exit-code")[0]
    topic.append(CRITICAL)
    requested, not_requested = run("alerts", "--exit-code")[0], run("alerts")[0]
    topic[-1] = replace(CRITICAL, muted_until_ms=2**42)
    muted = run("alerts", "--exit-code")[0]

    assert (warned, requested, not_requested, muted) == (0, 1, 0, 0)


def test_nothing_open_is_said_in_words(monkeypatch: pytest.MonkeyPatch, topic: list[Alert]) -> None:
    """On stderr; stdout stays empty."""
    topic.clear()

    assert run("alerts") == (0, "", "no alert is open\n")


def test_one_alert_in_full_by_the_beginning_of_its_id(topic: list[Alert]) -> None:
    """Values, where, members, evidence; a resolved one too."""
    code, shown, _ = run("alerts", "show", "a1b2")

    assert code == 0
    values = "0.25 s (usual 0.1, from 0.05, to 0.15)"
    for piece in ("e-0 is slow", values, "host = h-1", "llama is slow", "r-1", '"dollars": 4.5'):
        assert piece in shown
    as_json = json.loads(run("alerts", "show", "0000", "--json")[1])
    assert as_json == {**json.loads(encode(OVER)), "touched": TOUCHED}


@pytest.mark.parametrize(("fingerprint", "why"), [("", "is no alert"), ("zz", "is no alert"), ("a", "fits 2 alerts")])
def test_an_id_that_fits_none_or_several_is_refused(fingerprint: str, why: str) -> None:
    """With what to do about it."""
    with pytest.raises(ConfigError, match=why):
        reading.find([ALERT, replace(ALERT, fingerprint="a" * 16)], fingerprint)


def test_a_mute_is_a_command_with_an_end(published: list[Command]) -> None:
    """Labels, reason and a fresh id; the id is printed."""
    code, printed, said = run(
        "alerts", "silence", "host=h-1", "rule=engine_slow", "--for", "2h", "--reason", "new fans"
    )

    assert (code, printed) == (0, f"{published[0].id}\n")
    assert said.startswith("silenced: host=h-1, rule=engine_slow for 2h; ")
    assert [(c.command, dict(c.labels), c.until_ms - c.from_ms, c.reason) for c in published] == [
        ("mute", {"host": "h-1", "rule": "engine_slow"}, 7_200_000, "new fans")
    ]
    assert published[0].id in said


@pytest.mark.parametrize("given", ["a1b2", "a1b2c3d4e5f60718"], ids=["its beginning", "all of it"])
def test_an_alert_is_silenced_by_its_id(given: str, topic: list[Alert], published: list[Command]) -> None:
    """The beginning will do, as where it is shown: the job compares whole ones."""
    code, _, said = run("alerts", "silence", f"fingerprint={given}", "rule=engine_slow")

    assert code == 0
    assert [dict(command.labels) for command in published] == [{"fingerprint": FINGERPRINT, "rule": "engine_slow"}]
    assert FINGERPRINT in said


@pytest.mark.parametrize("given", ["zz", "A1B2C3D4E5F60718"])
def test_an_id_that_no_alert_has_silences_nothing(given: str, topic: list[Alert], published: list[Command]) -> None:
    """It is refused: its silence would match nothing."""
    done = CliRunner().invoke(app, ["alerts", "silence", f"fingerprint={given}"])

    assert "is no alert" in str(done.exception)
    assert published == []


def test_every_alert_is_silenced_by_name_alone(published: list[Command]) -> None:
    """That it is every one is said."""
    code, _, said = run("alerts", "silence", "--all")

    assert (code, [(dict(c.labels), c.until_ms - c.from_ms) for c in published]) == (0, [({}, 7_200_000)])
    assert said.startswith("silenced: every alert for 2h; ")


def test_an_unmute_names_it(published: list[Command]) -> None:
    """By the id that was printed."""
    assert run("alerts", "unsilence", "m-1")[0] == 0
    assert [(c.command, c.id) for c in published] == [("unmute", "m-1")]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("silence", "host"), "must be a label and its value"),
        (("silence", "--for", "soon"), "must be a whole number above 0"),
        (("silence", "--for", "365d"), "90 days at most"),
        (("silence", "--for", "8h"), "or --all alone for every alert"),
        (("silence", "host=h-1", "--all"), "or --all alone for every alert"),
        (("silence", "host=a", "host=b"), "silence each by itself"),
        (("silence", "host=a", "--every", "Sat 22:00-06:00"), "must be given with --every"),
        (("unsilence", "m-2"), "is no silence that was sent"),
        (("--json", "unsilence", "m-1"), "options of unsilence stand behind it"),
        (("--exit-code", "silence", "host=a"), "options of silence stand behind it"),
    ],
    ids=[
        "no value",
        "no duration",
        "for ever",
        "an empty variable",
        "labels and all",
        "two values",
        "a length that is not of the week",
        "an unknown id",
        "json of the group",
        "exit code of the group",
    ],
)
def test_a_mute_that_means_nothing_is_refused(published: list[Command], words: tuple[str, ...], why: str) -> None:
    """Before anything is sent."""
    done = CliRunner().invoke(app, ["alerts", *words])

    assert why in str(done.exception)
    assert published == []


def test_a_mark_is_an_engine_event() -> None:
    """Of kind marked, readable by everybody who reads engine events."""
    row = {"at_ms": 5, "host": "h", "model": "m", "model_version": "v2", "kind": "marked", "origin": "measured"}

    batch = reading.mark_batch(row)

    (found,) = rows_of(ENGINE_EVENTS.fields, native.decode(batch.value, ENGINE_EVENTS.fields))
    assert (batch.topic, batch.schema, batch.key, batch.count) == ("engine.events", "engine.events/1", b"h", 1)
    assert {name: value for name, value in found.items() if value is not None} == row
