"""The dashboard's token, as it was given or from the file of a mounted secret."""

from __future__ import annotations

from pathlib import Path

from runtime.config import read_secret
from schemas.errors import ConfigError


def token_of(token: str | None, token_file: Path | None) -> str | None:
    """The token; None for none. ``ConfigError`` for both at once and for a file that can't be read."""
    if token_file is None:
        return token
    if token is not None:
        raise ConfigError("--token-file", str(token_file), "must stand alone: a token is given too; leave one out")
    return read_secret("--token-file", token_file).strip()
