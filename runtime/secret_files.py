"""Secrets that stand in files of their own: ``<secret>_file`` beside ``<secret>`` in the settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from schemas.errors import ConfigError

_OPEN_FILES = ("config_file", "ca_file", "client_cert_file")


def named_files(tree: Mapping[str, Any]) -> Iterator[Path]:
    """Files that settings, as they were given, name for secrets: passwords, tokens, private keys."""
    for name, value in tree.items():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, dict):
                yield from named_files(each)
            elif each and name.endswith(("_file", "_keyfile")) and name not in _OPEN_FILES:
                yield Path(each)


def read_secret(key: str, path: Path) -> str:
    """The text of a secret's file without the newline at its end; ``ConfigError`` names ``key``."""
    try:
        return path.read_text(encoding="utf-8").rstrip("\n")
    except (OSError, ValueError) as error:
        raise ConfigError(key, str(path), f"must be a readable file ({error})") from error
