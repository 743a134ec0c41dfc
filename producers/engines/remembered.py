"""What an engine counted over a restart of the agent is not lost: its last readings are kept in a file.

It is ignored when the machine was started since, and when it is too old. An engine that was restarted meanwhile counts
from 0, as between two readings of one agent.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson

from producers.engines.mappings import BY_KIND
from producers.engines.rows import Known, SeriesName
from producers.kept_file import AGE_MS_MAX, KeptFile
from producers.series import digest_of
from runtime.live_process import boot_id

_log = logging.getLogger(__name__)

SLOT_BYTES = 256 * 1024
"""A page of vLLM takes some 4 KB of them, and as much again for every further model."""
VERSION = 1


def encoded(boot: str | None, known: Known, read_ms: int) -> bytes:
    """The file's bytes. ``read_ms`` is the wall time of the reading."""
    totals = [[*identity, name, series, value] for (identity, name, series), value in known.totals.items()]
    kept = {"kind": known.kind, "started_at_s": known.started_at_s, "whole": known.whole, "totals": totals}
    return orjson.dumps({"version": VERSION, "boot_id": boot, "moment_ms": known.moment_ms, "at_ms": read_ms, **kept})


def decoded(data: bytes, boot: str | None, moment_ms: int) -> tuple[Known, int] | None:
    """The reading to go on from, and its wall time; None where there is none. ``moment_ms`` is monotonic, and counts
    from the start of the machine as that of the reading does."""
    try:
        kept = orjson.loads(data)
        kind, begun_s, whole = kept["kind"], kept["started_at_s"], kept["whole"]
        read_ms, age_ms = kept["at_ms"], moment_ms - kept["moment_ms"]
        same = kept["version"] == VERSION and boot is not None and kept["boot_id"] == boot and kind in BY_KIND
        typed = isinstance(begun_s, float | None) and isinstance(whole, bool) and isinstance(read_ms, int)
        if not (same and typed and 0 <= age_ms <= AGE_MS_MAX):
            return None
        return Known(moment_ms - age_ms, kind, begun_s, dict(map(_total, kept["totals"])), whole), read_ms
    except (ValueError, TypeError, KeyError):
        return None


def _total(kept: Iterable[Any]) -> tuple[SeriesName, int | None]:
    model, version, name, series, value = kept
    for each, kind in ((model, str | None), (version, str | None), (name, str), (series, str), (value, int | None)):
        if not isinstance(each, kind):
            raise TypeError("not a counter")
    return ((model, version), name, series), value


class EngineMemory:
    """The file of one engine in ``folder``, which holds those of all engines; what is too old there is removed."""

    def __init__(self, folder: Path, engine_id: str) -> None:
        self._file = KeptFile(folder / digest_of([engine_id]).hex(), SLOT_BYTES)
        self._boot = boot_id()
        self._saved_ms = 0
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, exist_ok=True)
            for path in folder.iterdir():
                if time.time() - path.stat().st_mtime > AGE_MS_MAX / 1_000:
                    path.unlink()

    def load(self, moment_ms: int) -> tuple[Known, int] | None:
        """As ``decoded``."""
        data = self._file.load()
        return None if data is None else decoded(data, self._boot, moment_ms)

    def save(self, known: Known, read_ms: int) -> None:
        """Replace what is remembered. A disk that fails is logged once."""
        if known.moment_ms - self._saved_ms > AGE_MS_MAX:
            self._file.close()  # it may have been removed
        self._saved_ms = known.moment_ms
        if (error := self._file.save(encoded(self._boot, known, read_ms))) is not None:
            _log.warning(
                "writing engine counters failed; a restart cannot continue them",
                extra={"path": str(self._file.path), "why": str(error)},
            )

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()
