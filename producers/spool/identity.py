"""Who a spool is: its random id, the *source*, and the ordinal of this start, on disk before anything is sent.

Both are what a record's identity hangs on. A lost or unreadable identity beside records that may have been sent is
no reason to make a new one: their re-sends would escape the check. So that is refused, with what to do.

A copy that went on under its original's source would give its records numbers that are taken: they would be dropped as
duplicates, with books that look exact. So a source is bound to its *place*: the machine, its start, the folder's inode
and device, and the time at which the file with the identity was written, which no copy and no restore can keep. Where
any of it differs the spool is a new source from this start on; records of older starts keep the source that they were
written under, so that those which both copies send count once. Taking an original for a copy does no harm.

Not noticed: a file system that is rolled back under a running machine, or a machine's memory that is copied.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import secrets
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from pathlib import Path

from producers.spool.frame import ORDINAL_MAX
from runtime.live_process import boot_id
from schemas.errors import ConfigError, ContractError

_log = logging.getLogger(__name__)

_FILE = "identity.json"
_LOCK = "lock"
"""Holds beside that which inode the file with the identity had, and when it was written."""
_FILE_BYTES, _LOCK_BYTES = 16 * 1024, 64
"""They are written at full length, spaces behind the value: another one takes no more of a disk that is full."""
_MACHINE_ID = Path("/etc/machine-id")
OTHER_MACHINE, COPIED, RESTARTED, RESTORED = "other machine", "copied", "machine restarted", "restored"
"""Why a spool is a new source."""
_ID_DIGITS = 32
_SOURCE = re.compile(rf"[0-9a-f]{{{_ID_DIGITS}}}")


@dataclass(frozen=True, slots=True)
class Place:
    """What a source is bound to; what cannot be read is empty."""

    machine: str
    started: str
    folder: str

    @classmethod
    def of(cls, folder: Path) -> Place:
        """This machine, its start, and the folder."""
        about = folder.stat()
        return cls(_line(_MACHINE_ID), boot_id() or "", f"{about.st_dev}:{about.st_ino}")


@dataclass(frozen=True, slots=True)
class SpoolIdentity:
    """``source`` is 32 hex digits; ``boot`` counts the starts on this spool, from 1. ``earlier`` are sources it had
    before, each with the last boot of it. ``renewed`` says why this start has a new one; None: it has not."""

    source: str
    boot: int
    earlier: tuple[tuple[str, int], ...] = ()
    place: Place | None = None
    renewed: str | None = None

    def source_of(self, boot: int) -> str:
        """The source of records of this boot."""
        return next((source for source, last in self.earlier if boot <= last), self.source)


def lock_folder(folder: Path) -> int:
    """A descriptor that holds the folder for this process alone, until closed or the process ends.

    Raises ConfigError when another process holds it.
    """
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise ConfigError("spool", str(folder), "must be no other process's spool: give each its own folder") from error
    return descriptor


def next_identity(folder: Path, *, fresh: bool, place: Place | None = None, oldest_boot: int = 0) -> SpoolIdentity:
    """The identity of this start, safe on disk. ``fresh``: the folder holds no records, so an id may be made.
    ``place``: that of the folder, where it is not given. Sources of boots before ``oldest_boot`` are forgotten.

    The folder must be locked. Raises ContractError when the identity cannot be read.
    """
    known = known_identity(folder, fresh=fresh)
    place = place or Place.of(folder)
    if known is None:
        identity = SpoolIdentity(_new_source(), 1, (), place)
    elif (why := _renewed(folder, known, place)) is None:
        earlier = tuple(each for each in known.earlier if each[1] >= oldest_boot)
        identity = replace(known, boot=known.boot + 1, earlier=earlier, place=place)
    else:
        had = (*known.earlier, (known.source, known.boot))
        earlier = tuple(each for each in had if each[1] >= oldest_boot)
        identity = SpoolIdentity(_new_source(), known.boot + 1, earlier, place, why)
        if why != RESTARTED:
            facts = {"why": why, "folder": str(folder), "source": identity.source, "before": known.source}
            _log.warning("spool folder was copied or restored: it is a new source", extra=facts)
    _write(folder / _FILE, identity)
    return identity


def known_identity(folder: Path, *, fresh: bool) -> SpoolIdentity | None:
    """The identity of the last start; None when there was none. Raises ContractError as ``next_identity``."""
    known = _read(folder / _FILE)
    if known is None and not fresh:
        path = folder / _FILE
        raise ContractError(f"{path} is missing, but the spool holds records: restore it, or move the folder away")
    return known


def _renewed(folder: Path, known: SpoolIdentity, place: Place) -> str | None:
    """Why what was known is not the identity of this place; None when it is. Before 0.2.0 none was noted."""
    if known.place is None:
        return None
    if known.place.machine != place.machine:
        return OTHER_MACHINE
    if known.place.folder != place.folder:
        return COPIED
    if known.place.started != place.started:
        return RESTARTED
    return None if _line(folder / _LOCK) == _written(folder / _FILE) else RESTORED


def _written(path: Path) -> str:
    about = path.stat()
    return f"{about.st_ino}:{about.st_ctime_ns}"


def _line(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _new_source() -> str:
    return secrets.token_hex(_ID_DIGITS // 2)


def _read(path: Path) -> SpoolIdentity | None:
    try:
        found = json.loads(path.read_bytes())
        earlier = tuple((source, last) for source, last in found.get("earlier", ()))
        place = None if found.get("place") is None else Place(*found["place"])
        identity = SpoolIdentity(found["source"], found["boot"], earlier, place)
        good = all(map(_is_good, (*earlier, (identity.source, identity.boot))))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ContractError(f"{path} cannot be read ({error}): restore it, or move the whole folder away") from error
    if not good:
        raise ContractError(f"{path} holds no spool identity: restore it, or move the whole folder away")
    return identity


def _is_good(known: tuple[str, int]) -> bool:
    source, boot = known
    return bool(_SOURCE.fullmatch(source)) and type(boot) is int and 0 <= boot < ORDINAL_MAX


def _write(path: Path, identity: SpoolIdentity) -> None:
    """Let it be the identity on disk. A full disk takes it: it goes into a file that is there already, and the file
    that it replaces is the next one's."""
    content = {"source": identity.source, "boot": identity.boot, "earlier": identity.earlier}
    content["place"] = None if identity.place is None else astuple(identity.place)
    spare, former = path.with_suffix(".new"), path.with_suffix(".old")
    _find_spare(spare, former)
    _overwrite(spare, json.dumps(content).encode("ascii").ljust(_FILE_BYTES))
    with suppress(OSError):  # there is none, or its file system has no second names
        os.link(path, former)
    spare.replace(path)
    if former.exists():
        former.replace(spare)
    marker = _written(path).encode("ascii").ljust(_LOCK_BYTES)
    _overwrite(path.parent / _LOCK, marker)  # lost with the power or a kill: a new source then
    if not spare.exists():
        with suppress(OSError):  # the next start needs room then
            _overwrite(spare, bytes(_FILE_BYTES))
    sync_folder(path.parent)
    sync_folder(path.parent.parent)


def _find_spare(spare: Path, former: Path) -> None:
    """Clear up what a kill in the middle of ``_write`` left. What ``spare`` names then, nothing else does."""
    if former.exists() and not spare.exists():
        former.replace(spare)
    former.unlink(missing_ok=True)
    if spare.exists() and spare.stat().st_nlink > 1:
        spare.unlink()


def _overwrite(path: Path, data: bytes) -> None:
    """Let this file, made where there is none, hold these bytes, safe on disk. It needs no room where it is as long."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if os.write(descriptor, data) != len(data):
            raise OSError(f"{path} was not written whole")
        os.ftruncate(descriptor, len(data))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Make names in the folder safe against a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
