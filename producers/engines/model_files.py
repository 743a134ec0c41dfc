"""Reads the size of a model from the folder on this host that its engine names, in a bounded way.

An engine says where its weights are, and anybody may be an engine: only files of fixed names are opened, never more
than their JSON is read, one header at a time, and only the numbers of ``weights.Size`` go on. A folder of a container
is looked for in that container's view of the files, where the agent may see it. What cannot be read is not known.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from producers.engines.weights import CONFIG, INDEX, UNKNOWN, WHOLE, Size, parts_of, size_of

CONFIG_BYTES_MAX = 1024 * 1024
HEADER_BYTES_MAX = 4 * 1024 * 1024
"""Of one part: some 30,000 tensors of 130 bytes. Parsed, JSON takes up to twenty times its room."""
HEADERS_BYTES_MAX = 64 * 1024 * 1024
"""Of all headers of a model."""
INDEX_BYTES_MAX = 32 * 1024 * 1024
"""Some 90 bytes a tensor, of which models with many experts have over 200,000."""


class _TooMuchError(ValueError):
    """More than is read."""


def read_folder(path: str | None, pid: int | None = None) -> tuple[Any, Size]:
    """``config.json`` (None: unknown) and size of the model in the folder ``path``, absolute; ``pid``: a process in
    whose view that is a path."""
    if path is None or not path.startswith("/") or ".." in path.split("/") or "\0" in path:
        return None, UNKNOWN
    folder, config = Path(path) if pid is None else Path(f"/proc/{pid}/root{path}"), None
    try:
        config = orjson.loads(_text(folder / CONFIG, CONFIG_BYTES_MAX))
        names = [WHOLE] if (folder / WHOLE).exists() else parts_of(_text(folder / INDEX, INDEX_BYTES_MAX))
        return config, size_of(config, _headers(folder, names)) if names else UNKNOWN
    except (OSError, ValueError):  # JSON that is none is a ValueError
        return config, UNKNOWN


def _text(path: Path, bytes_max: int) -> bytes:
    descriptor, size = _opened(path)
    try:
        if size > bytes_max:
            raise _TooMuchError
        return os.pread(descriptor, size, 0)
    finally:
        os.close(descriptor)


def _headers(folder: Path, names: list[str]) -> Iterator[Any]:
    left = HEADERS_BYTES_MAX
    for name in names:
        descriptor, _ = _opened(folder / name)
        try:
            length = int.from_bytes(os.pread(descriptor, 8, 0), "little")
            left -= length
            if length > HEADER_BYTES_MAX or left < 0:
                raise _TooMuchError
            header = os.pread(descriptor, length, 8)
        finally:
            os.close(descriptor)
        yield orjson.loads(header)


def _opened(path: Path) -> tuple[int, int]:
    """A descriptor of a regular file, and its size. A pipe in its place does not hold up the reader."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    there = os.fstat(descriptor)
    if not stat.S_ISREG(there.st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is no file")
    return descriptor, there.st_size
