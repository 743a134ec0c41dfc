"""What tailing one log needs to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from schemas.errors import ConfigError


@dataclass(frozen=True, slots=True)
class LogTailSettings:
    """``path``: the log. ``position``: where it is kept how far the log is read, a file of this log alone.

    ``fields``: as ``mapping`` says. ``labels`` go into every row: host, cluster, region. ``from_start``: a log that is
    there when it is first seen is read from its begin.
    """

    path: Path
    position: Path
    fields: Mapping[str, str]
    labels: Mapping[str, str | None]
    from_start: bool = False
    poll_ms: int = 500
    rotated_ms: int = 3_000
    chunk_bytes: int = 1024 * 1024
    line_bytes_max: int = 256 * 1024
    """Longer lines are left out, and counted."""

    def __post_init__(self) -> None:
        if self.line_bytes_max >= self.chunk_bytes:
            raise ConfigError("line_bytes_max", self.line_bytes_max, f"must be below chunk_bytes ({self.chunk_bytes})")
