"""Look at this machine: disk, the local stack's parts, their ports, Java, who can read files with passwords."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from fleetpulse.doctor.facts import DiskFacts, HostFacts
from fleetpulse.stack import parts_of, ports, status
from fleetpulse.stack.java import find_java
from runtime.local_stack import FILE_NAME, StackState, read_state
from schemas.errors import StackError

MOUNTED = Path("/run/secrets")
"""Where Compose and the shipped manifests mount secrets."""


class Entry(Protocol):
    """Of an entry in a folder, as ``os.stat`` has it: who may do what, and its group."""

    @property
    def st_mode(self) -> int: ...

    @property
    def st_gid(self) -> int: ...


def look_at_host(data_dir: Path, secret_files: Iterable[Path] = ()) -> HostFacts:
    """Facts about this machine; ``secret_files`` are those that the configuration names. Raises ``StackError`` for a
    state file that cannot be read."""
    state = read_state(data_dir)
    open_secrets = tuple(path for path in (*secret_files, data_dir / FILE_NAME) if _open(path))
    of_group = frozenset(filter(_read_by_group, open_secrets))
    facts = HostFacts(data_dir, _disk(data_dir), open_secrets=open_secrets, group_secrets=of_group)
    if state is None or not state.wanted:
        return facts
    parts = status(data_dir).parts
    down = {one.name for one in parts if not one.running}
    return replace(facts, stack=parts, java_error=_java(), taken=tuple(_taken(state, down)))


def _disk(data_dir: Path) -> DiskFacts | None:
    folder = next((path for path in (data_dir, *data_dir.parents) if path.is_dir()), None)
    if folder is None:
        return None
    usage = shutil.disk_usage(folder)
    return DiskFacts(str(folder), usage.free, usage.total)


def _open(path: Path) -> bool:
    """Whether others can reach it. What a container is handed in is for that container alone."""
    if path.is_relative_to(MOUNTED):
        return False
    try:
        real = path.resolve(strict=True)
        file, *folders = (one.stat() for one in (real, *real.parents))
    except OSError:
        return False
    return is_open(file, folders, _own_groups())


def is_open(file: Entry, folders: Sequence[Entry], own_groups: Collection[int]) -> bool:
    """Whether anybody but its owner reaches a file through the folders that it lies in. A group of ours may read it:
    by that right services have files of root. Pure."""
    groups = {one.st_gid for one in (file, *folders)}
    return any(
        all(_rights(folder, group) & 0o1 for folder in folders)
        and _rights(file, group) & (0o3 if group in own_groups else 0o7)
        for group in (None, *groups)
    )


def _rights(entry: Entry, group: int | None) -> int:
    """Bits of whoever is in this group, or in none."""
    return (entry.st_mode >> 3 if entry.st_gid == group else entry.st_mode) & 0o7


def _read_by_group(path: Path) -> bool:
    """Whether we read it as one of its group, and would no longer if only its owner could."""
    file = path.stat()
    return file.st_uid != os.geteuid() and file.st_gid in _own_groups() and bool(file.st_mode & 0o040)


def _own_groups() -> frozenset[int]:
    return frozenset((os.getegid(), *os.getgroups()))


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
