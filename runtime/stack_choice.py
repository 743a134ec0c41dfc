"""Which local stack a configuration means: of the data folder named or this place's own, else the one that runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runtime.local_stack import StackState, data_dir_of, default_data_dir, read_state
from runtime.stack_registry import registry_of, running_stacks


def stack_of(above: Mapping[str, Any]) -> tuple[Path, StackState | None]:
    """The data folder and the state of its stack. ``above``: what stronger sources say.

    Where neither this place nor ``above`` says which servers are meant, the stack that the user has running elsewhere;
    of several none. Raises StackError for a state file that cannot be read."""
    if given := above.get("data_dir"):
        data_dir = Path(given).expanduser().absolute()
        return data_dir, read_state(data_dir)
    data_dir = default_data_dir(os.environ, Path.cwd())
    if _elsewhere(above) and (running := running_stacks(os.environ)):
        return (data_dir, None) if len(running) > 1 else (running[0].data_dir, running[0])
    return data_dir, read_state(data_dir)


def _elsewhere(above: Mapping[str, Any]) -> bool:
    named = "bootstrap" in above.get("kafka", {}) or "url" in above.get("clickhouse", {})
    return not named and not os.environ.get("FLEETPULSE_DATA_DIR") and data_dir_of(Path.cwd()) is None


def why_unset(data_dir: Path, key: str) -> str:
    """What was looked at and what to do, as the end of a sentence that begins with the key."""
    if running := running_stacks(os.environ):
        names = ", ".join(str(state.data_dir) for state in running)
        which = f"is not set, and which local stack is meant is not clear (running: {names})"
        return f"{which}: set FLEETPULSE_DATA_DIR to one of these folders, or set {key}"
    return (
        f"is not set, and no local stack runs (looked in {data_dir} and {registry_of(os.environ)}): start one with "
        f"`fleetpulse up`, set FLEETPULSE_DATA_DIR to the folder of one that runs, or set {key}"
    )
