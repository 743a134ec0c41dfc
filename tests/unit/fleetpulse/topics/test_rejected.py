"""Replay of rejected records: what is sent, what is left alone, and that nothing is sent twice."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from fleetpulse.sql.database import Answer
from fleetpulse.topics import rejected
from fleetpulse.topics.rejected import JOURNAL_NAME, Again, Journal, check_memory, check_reason, plan_of, replay
from runtime.config import Config
from runtime.file_lock import alone
from schemas.errors import ConfigError, FleetpulseError

NOTHING = {"cut": 0, "single": 0, "unnamed": 0, "empty": 0}
COUNTS = {"whole": 0, **NOTHING}


def row(number: int) -> dict[str, Any]:
    value = b64encode(b"\xff%d" % number).decode()
    return {
        "position": f"log/0/{number}/0",
        "topic": "llm.requests",
        "partition": 3,
        "schema": "llm.requests/1",
        "content_type": "application/x-ndjson",
        "value": value,
    }


def test_whole_records_are_sent_as_they_were() -> None:
    """Bytes, schema, format, topic and partition."""
    plan = plan_of("syntax", [row(1)], {**COUNTS, "whole": 1}, frozenset(), 10)

    assert plan.records == (Again("log/0/1/0", "llm.requests", 3, "llm.requests/1", "application/x-ndjson", b"\xff1"),)


def test_what_was_sent_before_is_left_alone_and_does_not_use_up_the_limit() -> None:
    """The limit bounds what is sent now, oldest first."""
    plan = plan_of(
        "syntax", [row(1), row(2), row(3), row(4)], {**COUNTS, "whole": 2}, frozenset({"log/0/1/0", "log/0/3/0"}), 1
    )

    assert [record.position for record in plan.records] == ["log/0/2/0"]
    assert plan.sent_before == 2


def test_the_sentence_names_what_is_left_alone_and_why() -> None:
    """Only what there is."""
    plan = plan_of(
        "syntax", [row(1), row(2)], {**COUNTS, "whole": 1, "cut": 4, "single": 7}, frozenset({"log/0/1/0"}), 10
    )

    assert plan.text(sent=False) == (
        "1 whole records were rejected as syntax and can be sent again; left alone: 1 sent again before, 4 of which not"
        " all bytes were kept (rejected_bytes_kept_max), 7 single events of records whose other events count"
    )
    assert plan.text(sent=True).startswith("sent 1 whole records again, without identity")


def test_nothing_left_alone_is_not_mentioned() -> None:
    """The short case is short."""
    plan = plan_of("syntax", [], COUNTS, frozenset(), 10)

    assert plan.text(sent=False) == "0 whole records were rejected as syntax and can be sent again"
    assert plan.as_dict(sent=False) == {
        "reason": "syntax",
        "sent": False,
        "records": 0,
        "remaining": 0,
        "left_alone": {"sent_before": 0, **NOTHING},
    }


def test_what_the_limit_leaves_is_said() -> None:
    """With what to do about it; a script finds the number in the JSON."""
    plan = plan_of("syntax", [row(1), row(2), row(3)], {**COUNTS, "whole": 1_501, "cut": 4}, frozenset(), 2)

    assert [plan.as_dict(sent=sent)["remaining"] for sent in (False, True)] == [1_499, 1_499]
    assert plan.text(sent=True) == (
        "sent 2 whole records again, without identity (outside the guarantee); 1499 more remain beyond --limit: run it"
        " again for those; left alone: 4 of which not all bytes were kept (rejected_bytes_kept_max)"
    )
    assert plan.text(sent=False).startswith(
        "2 whole records were rejected as syntax and can be sent again; 1499 more remain beyond --limit"
    )


def test_the_journal_keeps_what_was_noted(tmp_path: Path) -> None:
    """Also for the next process; none there yet is none noted."""
    journal = Journal(tmp_path / "folder" / "replayed")
    before = journal.positions()

    journal.note("log/0/1/0")
    journal.note("log/0/2/0")

    assert before == frozenset()
    assert Journal(tmp_path / "folder" / "replayed").positions() >= {"log/0/1/0", "log/0/2/0"}


def test_a_journal_line_cut_off_by_a_crash_matches_no_other_record(tmp_path: Path) -> None:
    """Record 1 is not taken for noted because the crash left the beginning of record 12."""
    path = tmp_path / "replayed"
    path.write_bytes(b"log/0/7/0\nlog/0/1")

    plan = plan_of("syntax", [row(1), row(7)], {**COUNTS, "whole": 1}, Journal(path).positions(), 10)

    assert [record.position for record in plan.records] == ["log/0/1/0"]


@pytest.mark.parametrize("reason", ["nonsense", "", "Syntax"])
def test_reasons_are_of_the_closed_set(reason: str) -> None:
    """Others are one sentence that lists the set."""
    with pytest.raises(ConfigError, match=r"--reason = .* must be one of too_large, "):
        check_reason(reason, "--reason")


class Tables:
    """A database with nothing rejected, which remembers what it was asked beside."""

    def __init__(self, *_config: object) -> None:
        self.beside_rows: list[Any] = []

    def beside(self, text: str, _parameters: object, name: str, _columns: object, rows: Any) -> Answer:
        assert f"FROM {name})" in text
        self.beside_rows.append(list(rows))
        return Answer(tuple(COUNTS), (tuple(COUNTS.values()),)) if "AS whole" in text else Answer(("position",), ())

    def close(self) -> None:
        """Nothing is open."""


async def test_two_replays_at_once_do_not_send_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second is refused before it asks; a dry run is none."""
    monkeypatch.setattr(rejected, "Database", Tables)
    config = Config(data_dir=tmp_path / "a b")

    with alone(config.data_dir / JOURNAL_NAME, ""):
        with pytest.raises(FleetpulseError, match="another replay is at work"):
            await replay(config, "syntax", 10, dry_run=False)
        await replay(config, "syntax", 10, dry_run=True)
    assert not (await replay(config, "syntax", 10, dry_run=False)).records


async def test_the_server_is_told_what_was_sent_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of that it gives no bytes: all that was ever replayed would be fetched with every replay."""
    tables = Tables()
    monkeypatch.setattr(rejected, "Database", lambda *_config: tables)
    Journal(tmp_path / JOURNAL_NAME).note("log/0/1/0")

    await replay(Config(data_dir=tmp_path), "syntax", 10, dry_run=False)

    assert [("log/0/1/0",) in rows for rows in tables.beside_rows] == [True, True]


class Actions:
    """A database that knows of so many runs, and remembers what it was asked for."""

    def __init__(self, runs: int) -> None:
        self.runs, self.asked = runs, list[Any]()

    def sql(self, text: str, parameters: Any) -> Answer:
        assert "FROM actions FINAL" in text
        self.asked.append(parameters)
        return Answer(("runs", "who"), ((self.runs, "ada@h"),))

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize(
    ("runs", "journal"),
    [(0, False), (1, False), (1, True)],
    ids=["a first run", "a run before from elsewhere", "runs before from here"],
)
def test_what_was_replayed_from_another_folder_is_not_sent_again(
    runs: int, journal: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows here which records those were; a folder with a journal knows its own."""
    actions = Actions(runs)
    monkeypatch.setattr(rejected, "Database", lambda _config: actions)
    config = Config(data_dir=tmp_path)
    if journal:
        (tmp_path / JOURNAL_NAME).touch()

    if runs and not journal:
        with pytest.raises(FleetpulseError, match=rf"^ada@h replayed this reason before, and {tmp_path} does not know"):
            check_memory(config, "syntax")
    else:
        check_memory(config, "syntax")

    assert actions.asked == ([] if journal else [{"run": "rejected replay syntax "}])
