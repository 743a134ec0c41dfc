"""Look at this machine: disk, the local stack's parts, their ports, Java, who can read files with passwords."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from fleetpulse.doctor.facts import DiskFacts, HostFacts
from fleetpulse.stack import parts_of, ports, status
from fleetpulse.stack.java import find_java
from runtime.local_stack import FILE_NAME, StackState, read_state
from schemas.errors import StackError

MOUNTED = Path("/run/secrets")
"""Where Compose and the shipped manifests mount secrets."""


def look_at_host(data_dir: Path, secret_files: Iterable[Path] = ()) -> HostFacts:
    """Facts about this machine; ``secret_files`` are those that the configuration names. Raises ``StackError`` for a
    state file that cannot be read."""
    state = read_state(data_dir)
    open_secrets = tuple(path for path in (*secret_files, data_dir / FILE_NAME) if _open(path))
    facts = HostFacts(data_dir, _disk(data_dir), open_secrets=open_secrets)
    if state is None or not state.wanted:
        return facts
    parts = status(data_dir).parts
    down = {one.name for one in parts if not one.running}
    return HostFacts(data_dir, facts.disk, parts, _java(), tuple(_taken(state, down)), open_secrets)


def _disk(data_dir: Path) -> DiskFacts | None:
    folder = next((path for path in (data_dir, *data_dir.parents) if path.is_dir()), None)
    if folder is None:
        return None
    usage = shutil.disk_usage(folder)
    return DiskFacts(str(folder), usage.free, usage.total)


def _open(path: Path) -> bool:
    """Whether others than its owner can read it. What a container is handed in is for that container alone."""
    if path.is_relative_to(MOUNTED):
        return False
    try:
        return bool(path.stat().st_mode & 0o077)
    except OSError:
        return False


def _java() -> str | None:
    try:
        find_java(os.environ)
    except StackError as error:
        return str(error)
    return None


def _taken(state: StackState, down: set[str]) -> Iterator[tuple[str, int]]:
    """Ports that a part which is down needs and somebody else has."""
    needed = parts_of(state)
    for part in sorted(down):
        yield from ((part, port) for port in needed[part].ports(state) if not ports.is_free(port))
