"""Who a spool is: its random id, made once, and the ordinal of this start, on disk before anything is sent.

Both are what a record's identity hangs on. A lost or unreadable identity beside records that may have been sent is
no reason to make a new one: their re-sends would escape the check. So that is refused, with what to do.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

from producers.spool.frame import ORDINAL_MAX
from schemas.errors import ConfigError, ContractError

_ID_DIGITS = 32
_SOURCE = re.compile(rf"[0-9a-f]{{{_ID_DIGITS}}}")


@dataclass(frozen=True, slots=True)
class SpoolIdentity:
    """``source`` is 32 hex digits; ``boot`` counts the starts on this spool, from 1."""

    source: str
    boot: int


def lock_folder(folder: Path) -> int:
    """A descriptor that holds the folder for this process alone, until closed or the process ends.

    Raises ConfigError when another process holds it.
    """
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise ConfigError("spool", str(folder), "must be no other process's spool: give each its own folder") from error
    return descriptor


def next_identity(folder: Path, *, fresh: bool) -> SpoolIdentity:
    """The identity of this start, safe on disk. ``fresh``: the folder holds no records, so an id may be made.

    The folder must be locked. Raises ContractError when the identity cannot be read.
    """
    path = folder / "identity.json"
    known = _read(path)
    if known is None and not fresh:
        raise ContractError(f"{path} is missing, but the spool holds records: restore it, or move the folder away")
    source, boot = (secrets.token_hex(_ID_DIGITS // 2), 0) if known is None else (known.source, known.boot)
    identity = SpoolIdentity(source, boot + 1)
    _write(path, identity)
    return identity


def _read(path: Path) -> SpoolIdentity | None:
    try:
        found = json.loads(path.read_bytes())
        identity = SpoolIdentity(found["source"], found["boot"])
        good = _SOURCE.fullmatch(identity.source) and type(identity.boot) is int and 0 <= identity.boot < ORDINAL_MAX
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ContractError(f"{path} cannot be read ({error}): restore it, or move the whole folder away") from error
    if not good:
        raise ContractError(f"{path} holds no spool identity: restore it, or move the whole folder away")
    return identity


def _write(path: Path, identity: SpoolIdentity) -> None:
    fresh = path.with_suffix(".new")
    with fresh.open("w", encoding="ascii") as file:
        json.dump({"source": identity.source, "boot": identity.boot}, file)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    sync_folder(path.parent)
    sync_folder(path.parent.parent)


def sync_folder(folder: Path) -> None:
    """Make names in the folder safe against a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
