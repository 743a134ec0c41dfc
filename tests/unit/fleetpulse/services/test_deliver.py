"""Covers fleetpulse.services.deliver where it needs no servers: which targets are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetpulse.services.deliver import load_with_targets
from runtime.config import load
from schemas.errors import ConfigError


def test_files_of_the_targets_that_are_meant_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of another part's settings none is."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").write_text("http://h/token\n")
    targets = [
        f'[[delivery.targets]]\nname = "{name}"\nkind = "webhook"\nendpoint_url_file = "{tmp_path / name}"\n'
        for name in ("here", "gone")
    ]
    Path("fleetpulse.toml").write_text("".join(targets))

    (here,) = load_with_targets(["here"]).delivery.all_targets

    assert here.url == "http://h/token"
    assert len(load().delivery.all_targets) == 2
    with pytest.raises(ConfigError, match=r"delivery\.targets\.1\.endpoint_url_file = '.*gone': must be a readable"):
        load_with_targets()
