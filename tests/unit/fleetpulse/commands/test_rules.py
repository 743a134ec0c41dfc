"""The command ``rules``: exit codes, what is said, JSON for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetpulse.cli import app
from fleetpulse.commands.rules import check
from schemas.errors import ConfigError
from stream_jobs.rules.load import load, load_set

RUNNER = CliRunner()
BAD = "rules:\n  - {name: one, kind: treshold, metric: mean(running), by: []}\nruls: 1\n"


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "bad.yaml"
    path.write_text(BAD)
    return path


def test_the_shipped_rules_are_valid() -> None:
    """Exit 0 and a table with every rule."""
    result = RUNNER.invoke(app, ["rules", "check"], env={"COLUMNS": "200"})

    assert result.exit_code == 0
    assert {rule.name for rule in load()} <= {line.partition(" ")[0] for line in result.stdout.splitlines()}


def test_a_bad_file_exits_with_one_and_every_line(bad: Path) -> None:
    """File and line of each mistake on stderr, nothing on stdout."""
    result = RUNNER.invoke(app, ["rules", "check", str(bad)])

    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        f"{bad}:2: rules.one.kind: 'treshold' is not known; did you mean threshold?",
        f"{bad}:3: ruls: unknown key; did you mean rules?",
        "2 mistakes; no rule of this file is in force",
    ]


def test_a_bad_file_as_json(bad: Path) -> None:
    """The same lines in a list."""
    result = RUNNER.invoke(app, ["rules", "check", str(bad), "--json"])

    assert result.exit_code == 1
    assert json.loads(result.stdout) == {
        "valid": False,
        "problems": [
            f"{bad}:2: rules.one.kind: 'treshold' is not known; did you mean threshold?",
            f"{bad}:3: ruls: unknown key; did you mean rules?",
        ],
    }


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    """No traceback."""
    result = RUNNER.invoke(app, ["rules", "check", str(tmp_path / "none.yaml")])

    assert result.exit_code == 1
    assert "cannot be read: No such file or directory" in result.stderr


def test_a_good_file_as_json(tmp_path: Path) -> None:
    """Rules and what stands beside them."""
    path = tmp_path / "good.yaml"
    path.write_text("rules: [{name: a, kind: threshold, metric: mean(running), by: [model], options: {above: 3}}]")
    result = RUNNER.invoke(app, ["rules", "check", str(path), "--json"])

    assert result.exit_code == 0
    assert json.loads(result.stdout) == {
        "valid": True,
        "problems": [],
        "rules": [
            {
                "rule": "a",
                "kind": "threshold",
                "metric": "mean(running)",
                "by": ["model"],
                "window": "10s",
                "for": "1 of 1",
                "severity": "warning",
            }
        ],
        "disabled": [],
        "silences": 0,
        "slo_classes": [],
        "gpu_events": 0,
    }


def test_a_rule_is_explained() -> None:
    """In words, also one that is switched off."""
    result = RUNNER.invoke(app, ["rules", "explain", "ttft_moving_average", "--json"])

    explained = json.loads(result.stdout)
    assert result.exit_code == 0
    assert explained["name"] == "ttft_moving_average"
    assert explained["in force"] == "no: switched off"
    assert explained["reads value"] == "grouping set service, columns ttft_us_bins"


def test_an_unknown_rule_names_the_nearest() -> None:
    """A misspelt name is wrong use."""
    result = RUNNER.invoke(app, ["rules", "explain", "gpu_hott"])

    assert isinstance(result.exception, ConfigError)
    assert str(result.exception) == "NAME = 'gpu_hott': is no rule of this set; did you mean gpu_hot?"


def test_what_is_shown_is_a_file_that_can_be_used(tmp_path: Path) -> None:
    """``show`` into a file and ``check`` it."""
    path = tmp_path / "all.yaml"
    path.write_text(RUNNER.invoke(app, ["rules", "show"]).stdout)

    assert [rule.name for rule in load_set(path).rules] == [rule.name for rule in load()]
    assert len(json.loads(RUNNER.invoke(app, ["rules", "show", "--json"]).stdout)["rules"]) == len(load()) + 1


def test_check_is_a_function_too(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a file it takes the shipped rules."""
    check(json=True)

    assert json.loads(capsys.readouterr().out)["valid"] is True
