"""A disk that somebody else's file takes whole, for as long as it is there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from os import SEEK_END
from pathlib import Path

from lab.drills.stand import Stand

BALLAST = "ballast"
AGAIN_S = 0.2


def fills(folder: str) -> Callable[[Stand], None]:
    """The disk of this folder has no room, nor has it when others make some: a database that merges soon would have
    enough for its next insert."""

    def begin(stand: Stand) -> None:
        file = stand.folder / folder / BALLAST
        file.touch()
        grow(file)
        threading.Thread(target=_go_on, args=(file,), name="full-disk", daemon=True).start()

    return begin


def has_room(folder: str) -> Callable[[Stand], None]:
    return lambda stand: (stand.folder / folder / BALLAST).unlink()


def grow(file: Path) -> bool:
    """The file takes what is left. False: it was removed."""
    try:
        opened = file.open("r+b", buffering=0)
    except FileNotFoundError:
        return False
    with opened, suppress(OSError):
        opened.seek(0, SEEK_END)
        while True:
            opened.write(bytes(1 << 20))
    return True


def _go_on(file: Path) -> None:
    while grow(file):
        time.sleep(AGAIN_S)
