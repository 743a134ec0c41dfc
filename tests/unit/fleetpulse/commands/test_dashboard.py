"""The command ``dashboard``: where its token comes from, and who else sees it."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from fleetpulse.cli import app
from schemas.errors import ConfigError

SHORT = "too short"
SEEN = "reads --token in the list of processes"


def test_a_token_among_the_arguments_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is taken all the same; in the environment nobody else sees it."""
    given = CliRunner().invoke(app, ["dashboard", "--token", SHORT])
    monkeypatch.setenv("FLEETPULSE_DASHBOARD_TOKEN", SHORT)
    in_environment = CliRunner().invoke(app, ["dashboard"])

    assert isinstance(given.exception, ConfigError)
    assert isinstance(in_environment.exception, ConfigError)
    assert "at least 16 characters" in str(given.exception) + str(in_environment.exception)
    assert SEEN in " ".join(given.stderr.split())
    assert SEEN not in " ".join(in_environment.stderr.split())
    assert SHORT not in given.output
