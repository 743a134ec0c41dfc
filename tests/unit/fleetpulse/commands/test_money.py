"""Commands for money: what they refuse, and how they end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from fleetpulse.audit.checks import Check
from fleetpulse.audit.report import Audit
from fleetpulse.cli import app
from fleetpulse.commands.money import audited
from fleetpulse.report.gather import report_query, span
from fleetpulse.rerate.store import Rerated
from fleetpulse.sql.database import Answer
from runtime.file_lock import alone
from schemas.errors import ConfigError, FleetpulseError
from schemas.limits import DAY_MS, MINUTE_MS
from stream_jobs.costs.isolation import Failed

EXAMPLE = Path(__file__).parents[4] / "fleetpulse" / "data" / "budgets" / "example.yaml"
PRICES = EXAMPLE.parents[1] / "prices" / "example.yaml"


def test_valid_budgets_are_listed() -> None:
    """Exit 0, and everything the file says as data."""
    result = CliRunner().invoke(app, ["budgets", "check", str(EXAMPLE), "--json"])

    said = json.loads(result.stdout)
    assert (result.exit_code, said["valid"], said["problems"]) == (0, True, [])
    assert [(one["name"], one["amount_nusd"]) for one in said["budgets"]][:2] == [
        ("fleet", 60_000 * 10**9),
        ("acme", 9_000 * 10**9),
    ]
    assert said["teams"] == {"acme": "search", "globex": "search", "initech": "analytics", "hooli": "analytics"}


def test_wrong_budgets_end_with_one_and_every_mistake(tmp_path: Path) -> None:
    """Each with its line, as data too."""
    file = tmp_path / "b.yaml"
    file.write_text("budgets:\n- {name: a, amount: 5 EUR}\n- {name: b, amount: 0 USD}\n")

    result = CliRunner().invoke(app, ["budgets", "check", str(file), "--json"])

    assert result.exit_code == 1
    assert json.loads(result.stdout) == {
        "valid": False,
        "problems": [
            f"{file}:2: budgets.a.amount: '5 EUR' must be like `500 USD`, above 0, below a billion",
            f"{file}:3: budgets.b.amount: '0 USD' must be like `500 USD`, above 0, below a billion",
        ],
    }


def test_a_range_is_whole_minutes_up_to_now_or_as_given() -> None:
    """The minute that has begun is in it, and it is as long as was asked; a day is its midnight in UTC."""
    now_ms = 20_000 * DAY_MS + 90_500

    assert span(MINUTE_MS, None, None, now_ms) == (20_000 * DAY_MS + MINUTE_MS, 20_000 * DAY_MS + 2 * MINUTE_MS)
    assert span(30 * MINUTE_MS, None, None, now_ms) == (
        20_000 * DAY_MS - 28 * MINUTE_MS,
        20_000 * DAY_MS + 2 * MINUTE_MS,
    )
    assert span(0, "2024-10-04", "2024-10-04T00:01:00Z", now_ms) == (20_000 * DAY_MS, 20_000 * DAY_MS + MINUTE_MS)


@pytest.mark.parametrize(
    ("from_", "to", "key"),
    [
        ("2026-01-02", "2026-01-01", "--from"),
        ("yesterday", None, "--from"),
        ("2026-01-01", "2026-01-01T00:00:30Z", "--to"),
    ],
    ids=["the wrong way round", "no time", "between minutes"],
)  # fmt: skip
def test_other_ranges_are_refused(from_: str, to: str | None, key: str) -> None:
    """The option and what would be right are named."""
    with pytest.raises(ConfigError, match=key):
        span(0, from_, to, 30_000 * DAY_MS)


@pytest.mark.parametrize(
    ("options", "days"),
    [
        pytest.param([], (20_455, 20_456), id="that of the file's days"),
        pytest.param(["--from", "2026-01-01", "--to", "2026-02-01"], (20_454, 20_485), id="that of the options"),
    ],
)
def test_an_invoice_is_compared_over_a_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], days: tuple[int, int]
) -> None:
    """A day that the file leaves out is seen where people name the month."""
    file, asked = tmp_path / "january.csv", list[Mapping[str, int]]()
    file.write_text("gpu_model,gpu_hours,day\nH100,24,2026-01-02\n")

    def named(_query: str, bounds: Mapping[str, int]) -> Answer:
        asked.append(bounds)
        return Answer((), ())

    database = SimpleNamespace(named=named, close=lambda: None)
    monkeypatch.setattr("fleetpulse.sql.database.Database", lambda _config: database)

    done = CliRunner().invoke(app, ["audit", "invoice", str(file), *options, "--json"])

    said = json.loads(done.stdout)
    assert (done.exit_code, [one["day"] for one in said["types"]]) == (1, ["2026-01-02"])
    assert asked == [{"from_ms": days[0] * DAY_MS, "to_ms": days[1] * DAY_MS}]


@pytest.mark.parametrize("option", ["--from=2026-01-02T00:01:00Z", "--to=2026-01-02T23:59:00Z"])
def test_a_range_without_a_day_of_the_invoice_is_refused(tmp_path: Path, option: str) -> None:
    """That day would seem to have too little in the bills."""
    file = tmp_path / "january.csv"
    file.write_text("gpu_model,gpu_hours,day\nH100,24,2026-01-02\n")

    done = CliRunner().invoke(app, ["audit", "invoice", str(file), option])

    assert isinstance(done.exception, ConfigError)
    assert "must hold the days of the file, 2026-01-02 00:00 to 2026-01-03 00:00 (UTC)" in str(done.exception)


def test_a_question_reads_its_files(tmp_path: Path) -> None:
    """Prices, classes and budgets; without the last two there are none."""
    rules = tmp_path / "rules.yaml"
    rules.write_text("include: defaults\nslo_classes:\n  gold: {ttft: 800ms, share: 99%}\n")

    full, bare = report_query((0, 1), 1, PRICES, rules, EXAMPLE), report_query((0, 1), 1, PRICES)

    assert [slo.name for slo in full.slo_classes] == ["gold"]
    assert len(full.budgets.budgets) == 4
    assert full.prices.version == bare.prices.version
    assert (bare.slo_classes, bare.budgets.budgets, bare.bounds) == ((), (), {"from_ms": 0, "to_ms": 1})


def test_names_beside_a_rerate_and_an_audit_are_shown_not_obeyed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Groups, owners and tenants come from events of anybody, and a terminal would clear its screen."""
    failed = (Failed("g\x1b[2J", 0, "no \x1b[2J"),)
    bills = (("engine", "e\x1b[2J", "g", 0),)
    found = Rerated("aa", 0, 1, "v2", True, 0, 0, 9, 7, 7, failed=failed, incomplete=1, incomplete_bills=bills)
    monkeypatch.setattr("fleetpulse.rerate.store.rerate", lambda *_of, **_options: found)
    monkeypatch.setattr("fleetpulse.rerate.store.check_range", lambda *_of: None)
    monkeypatch.setenv("FLEETPULSE_DATA_DIR", str(tmp_path))
    words = ["rerate", "--from", "2026-01-01", "--to", "2026-01-02", "--prices", str(PRICES), "--dry-run"]
    check = Check("parts", 1, 1, 5, ("e\x1b[2J at 00:00",))

    said = CliRunner().invoke(app, words).stderr
    audited(Audit(0, 1, (check,), 0, 0, 0, 0, ())).show()
    said += capsys.readouterr().out

    assert "\x1b" not in said
    assert said.count(r"\x1b[2J") == 4


def test_a_rerate_names_bills_of_which_rows_are_gone_and_is_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 1: they stand with the prices that they had. A second one beside it would mix its bills with the first's."""
    found = Rerated("aa", 0, 1, "v2", True, 0, 0, 9, 7, 7, incomplete=2, incomplete_bills=(("engine", "e", "g", 0),))
    monkeypatch.setattr("fleetpulse.rerate.store.rerate", lambda *_of, **_options: found)
    monkeypatch.setattr("fleetpulse.rerate.store.check_range", lambda *_of: None)
    monkeypatch.setattr("fleetpulse.rerate.store.check_final", lambda *_of: None)
    monkeypatch.setattr("fleetpulse.alerts.actions.record_run", lambda *_of: None)
    monkeypatch.setenv("FLEETPULSE_DATA_DIR", str(tmp_path))
    words = ["rerate", "--from", "2026-01-01", "--to", "2026-01-02", "--prices", str(PRICES)]

    done = CliRunner().invoke(app, words)
    with alone(tmp_path / "rerate.lock", ""):
        second, looked = (CliRunner().invoke(app, each) for each in (words, [*words, "--dry-run"]))

    said = (
        "windows incomplete, left as they were (2 bills hold rows that are not stored): engine e at 1970-01-01 00:00,"
    )
    assert done.exit_code == looked.exit_code == 1
    assert f"{said} ..." in done.stderr
    assert isinstance(second.exception, FleetpulseError)
    assert "another rerate is at work" in str(second.exception)
