"""The user's running local stacks: one small file for each, so that any command finds it from any folder.

They lie in ``XDG_STATE_HOME/fleetpulse/stacks`` (``~/.local/state`` where that is not set), which its owner alone may
enter, and name the data folder. ``up`` writes one, ``down`` removes it; one whose stack is gone is ignored.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from runtime.live_process import Process, alive
from runtime.local_stack import StackState, read_state
from schemas.errors import StackError


def registry_of(environment: Mapping[str, str]) -> Path:
    """The folder of the user's files."""
    base = environment.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "fleetpulse" / "stacks"


def register(data_dir: Path, environment: Mapping[str, str]) -> None:
    """Note a stack in one step; again changes nothing. Raises OSError where the folder cannot be written."""
    folder = registry_of(environment)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / _name_of(data_dir)
    fresh = path.with_suffix(f".{os.getpid()}.new")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(os.fsencode(data_dir))
    fresh.replace(path)


def unregister(data_dir: Path, environment: Mapping[str, str]) -> None:
    """Forget a stack; one that is not noted is none the less forgotten."""
    with contextlib.suppress(OSError):
        (registry_of(environment) / _name_of(data_dir)).unlink()


def running_stacks(
    environment: Mapping[str, str], alive: Callable[[Process | None], bool] = alive
) -> tuple[StackState, ...]:
    """The noted stacks that run, by their data folders. A stack that was killed, or whose folder is gone or of another
    release, is not among them."""
    try:
        paths = sorted(registry_of(environment).glob("*.stack"))
    except OSError:
        return ()
    found = [state for path in paths if (state := _running(path, alive)) is not None]
    return tuple(sorted(found, key=lambda state: state.data_dir))


def _running(path: Path, alive: Callable[[Process | None], bool]) -> StackState | None:
    try:
        state = read_state(Path(os.fsdecode(path.read_bytes())))
    except (OSError, ValueError, StackError):
        return None
    if state is None or not state.wanted or not any(map(alive, state.processes.values())):
        return None
    return state


def _name_of(data_dir: Path) -> str:
    return f"{hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:16]}.stack"
