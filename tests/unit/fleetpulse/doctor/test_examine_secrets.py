"""Covers fleetpulse.doctor.examine where it needs no servers: which files hold secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetpulse.doctor.examine import _with_secrets


def test_the_configuration_s_own_file_counts_where_a_secret_stands_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a checkout, where a fleetpulse.toml beside the code is everybody's by default."""
    monkeypatch.chdir(tmp_path)
    file = Path("fleetpulse.toml")
    file.write_text('kafka = { sasl_password_file = "of-kafka" }\n')
    named = _with_secrets({})
    file.write_text('kafka = { sasl_password_file = "of-kafka" }\nclickhouse = { password = "p" }\n')

    assert (named, _with_secrets({})) == ((Path("of-kafka"),), (Path("of-kafka"), file))
