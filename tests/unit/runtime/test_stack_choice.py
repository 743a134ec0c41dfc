"""Which stack is meant: named, of this place, running elsewhere, or none. ``test_config`` has it with all sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.local_stack import Ports, StackState, write_state
from runtime.stack_choice import stack_of, why_unset


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLEETPULSE_DATA_DIR", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


def test_a_named_folder_is_taken_with_its_stack_or_without(tmp_path: Path) -> None:
    """Relative to this place."""
    (tmp_path / "named").mkdir()
    assert stack_of({"data_dir": "named"}) == (tmp_path / "named", None)
    state = StackState(tmp_path / "named", "c", Ports(1, 2, 3, 4), "w", "r", True)
    write_state(state)

    assert stack_of({"data_dir": "named"}) == (tmp_path / "named", state)


def test_without_any_the_users_folder_is_left(tmp_path: Path) -> None:
    """Named in the sentence beside the registry."""
    assert stack_of({}) == (tmp_path / "share" / "fleetpulse", None)
    assert f"{tmp_path}/state/fleetpulse/stacks" in why_unset(tmp_path, "kafka.bootstrap")
