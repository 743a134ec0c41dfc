"""Files that people name for a result: each is replaced as a whole or stays as it was."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A new file in place of the one at ``path``, also behind links, once the block ends without an error; a pipe or
    device is written as it is. Raises OSError."""
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    whole = path.resolve()
    fresh = whole.with_name(f".{whole.name}.{os.getpid()}.new")
    try:
        with fresh.open("wb") as file:
            yield file
        fresh.replace(whole)
    finally:
        fresh.unlink(missing_ok=True)
