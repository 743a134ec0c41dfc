"""``fleetpulse.toml`` as a tree."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from schemas.errors import ConfigError


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file. Raises ConfigError when it is missing or not TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError("config_file", str(path), f"must be a readable TOML file ({error})") from error
