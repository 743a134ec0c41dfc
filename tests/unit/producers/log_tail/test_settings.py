from __future__ import annotations

from pathlib import Path

import pytest

from producers.log_tail.tail import LogTailSettings
from schemas.errors import ConfigError


def test_a_line_must_be_shorter_than_a_chunk() -> None:
    """Else its newline would never come into sight."""
    with pytest.raises(ConfigError, match="line_bytes_max"):
        LogTailSettings(Path("log"), Path("position"), {}, {}, chunk_bytes=10, line_bytes_max=10)
