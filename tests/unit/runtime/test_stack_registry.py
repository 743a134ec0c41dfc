"""The user's registry of running stacks: what is noted, found, forgotten and ignored."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.live_process import Process
from runtime.local_stack import FILE_NAME, Ports, StackState, write_state
from runtime.stack_registry import register, registry_of, running_stacks, unregister

KAFKA = Process(7, "boot:1")


@pytest.fixture
def environment(tmp_path: Path) -> Mapping[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path / "state")}


def stack(folder: Path, environment: Mapping[str, str]) -> StackState:
    """A stack that was started and noted."""
    folder.mkdir(parents=True)
    state = StackState(folder, "c", Ports(1, 2, 3, 4), "w", "r", True, {"kafka": KAFKA})
    write_state(state)
    register(folder, environment)
    return state


def found(environment: Mapping[str, str], *living: Process | None) -> list[StackState]:
    return list(running_stacks(environment, alive=lambda process: process in living))


def test_a_noted_stack_is_found_until_it_is_forgotten(tmp_path: Path, environment: Mapping[str, str]) -> None:
    """Noting and forgetting twice change nothing; names are any that a folder may have."""
    state = stack(tmp_path / "my stäck\n", environment)
    register(state.data_dir, environment)

    assert found(environment, KAFKA) == [state]
    unregister(state.data_dir, environment)
    unregister(state.data_dir, environment)
    assert found(environment, KAFKA) == []


def test_several_are_found_in_the_order_of_their_folders(tmp_path: Path, environment: Mapping[str, str]) -> None:
    """The newest is no better than another."""
    states = [stack(tmp_path / name, environment) for name in ("b", "a", "c")]

    assert found(environment, KAFKA) == [states[1], states[0], states[2]]


def test_only_the_owner_reads_the_registry(tmp_path: Path, environment: Mapping[str, str]) -> None:
    """The folder has mode 0700, its files 0600, and nothing is left beside them."""
    stack(tmp_path / "a", environment)
    folder = registry_of(environment)

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()] == [0o600]


def test_a_stack_that_is_gone_is_ignored(tmp_path: Path, environment: Mapping[str, str]) -> None:
    """Killed, taken down, moved away, of another release, or half a file."""
    killed, down, moved, other = (stack(tmp_path / name, environment) for name in ("a", "b", "c", "d"))
    living = replace(killed, processes={"kafka": Process(7, "boot:2")})
    write_state(living)
    write_state(replace(down, wanted=False))
    moved.data_dir.rename(tmp_path / "elsewhere")
    (other.data_dir / FILE_NAME).write_text("{")
    (registry_of(environment) / "half.stack").write_bytes(b"\0")

    assert found(environment, KAFKA) == []
    assert found(environment, Process(7, "boot:2")) == [living]


def test_without_a_registry_nothing_runs(environment: Mapping[str, str]) -> None:
    """No folder yet, or no way into it."""
    assert running_stacks(environment) == ()


def test_the_registry_is_in_the_state_folder_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By the base directory specification."""
    monkeypatch.setenv("HOME", str(tmp_path))

    assert registry_of({}) == tmp_path / ".local" / "state" / "fleetpulse" / "stacks"
    assert registry_of({"XDG_STATE_HOME": "/state"}) == Path("/state/fleetpulse/stacks")
