"""One process at a time, among those of a machine that agree on a file."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from schemas.errors import ConfigError, FleetpulseError


def locked(file: int | IO[str]) -> bool:
    """Lock an open file for this process, until it is closed. At once: False where another process holds the lock.
    Raises ``OSError`` on a file system without locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def alone(path: Path, refusal: str) -> Iterator[None]:
    """Hold the lock of the file ``path``, which is made with its folder and stays. It ends with the process, however
    that ends. Raises ``FleetpulseError`` with ``refusal`` where another process holds it, ``ConfigError`` where the
    folder, which is in the data folder, cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        opened = path.open("a")
    except OSError as error:
        raise ConfigError("data_dir", str(path.parent), f"must be a folder that can be written: {error}") from error
    with opened as file:
        if not locked(file):
            raise FleetpulseError(refusal)
        yield
