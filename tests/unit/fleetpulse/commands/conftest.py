"""Consoles of the command line follow COLUMNS in each test: rich keeps the width that it finds when one is made."""

from __future__ import annotations

import pytest

from fleetpulse.commands import output


@pytest.fixture(autouse=True)
def consoles_follow_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    for console in (output.out, output.err):
        monkeypatch.setattr(console, "_width", None)
