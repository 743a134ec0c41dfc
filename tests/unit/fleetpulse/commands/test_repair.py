"""What `fleetpulse repair` says of two copies, which need not be alike where it has nothing to do."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from fleetpulse.cli import app
from fleetpulse.repair import run
from fleetpulse.repair.run import Filled, Repaired

ASKED = ["repair", "--from", "http://a:8123", "--to", "http://b:8123", "--dry-run"]


@pytest.mark.parametrize(
    ("filled", "ahead", "said"),
    [
        ([], {"books": 0, "costs": 0}, ["--to lacks nothing that --from has, in 2 tables"]),
        (
            [],
            {"books": 0, "costs": 7},
            [
                "--to lacks nothing that --from has, in 2 tables",
                "--from has nothing of hours that --to has: costs 7; that is a repair the other way round",
            ],
        ),
        ([Filled("books", 3, None)], {"books": 0}, ["books: 3 hours differ"]),
        ([Filled("books", 3, 1_200)], {"books": 0}, ["books: 3 hours, 1,200 rows"]),
    ],
)
def test_a_repair_says_what_either_lacks(
    filled: list[Filled], ahead: dict[str, int], said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of how many tables, and of which it is the other one that has more."""
    monkeypatch.setattr(run, "repair", lambda *_asked, **_more: Repaired(filled, ahead))

    people = CliRunner().invoke(app, ASKED)
    program = json.loads(CliRunner().invoke(app, [*ASKED, "--json"]).stdout)

    assert people.stdout.splitlines() == said
    assert program["ahead_hours"] == {table: hours for table, hours in ahead.items() if hours}
    assert [one["table"] for one in program["filled"]] == [one.table for one in filled]
