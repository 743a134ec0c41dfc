"""Growth of GPU counters over a restart of the agent is not lost: the last readings are kept in a file.

It is ignored when the machine or the driver was started since (counters restarted from 0), and when it is too old.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson

from producers.gpu.rows import Reading
from producers.kept_file import AGE_MS_MAX, KeptFile

_log = logging.getLogger(__name__)

SLOT_BYTES = 512 * 1024
"""More than 128 devices take whose 18 links are counted one by one."""
VERSION = 1


@dataclass(frozen=True, slots=True)
class Era:
    """From when on counters can be compared: a start of the machine and a version of the driver. None: not known."""

    boot_id: str | None
    driver: str | None


@dataclass(frozen=True, slots=True)
class Remembered:
    """Counters by UUID, and the driver they were read with. None: not known."""

    readings: Mapping[str, Reading]
    driver: str | None


def encoded(era: Era, readings: Mapping[str, Reading]) -> bytes:
    """The file's bytes."""
    kept = {
        uuid: {
            "at_ms": each.at_ms,
            "monotonic_ms": each.monotonic_ms,
            "values": dict(each.values),
            "read_ms": dict(each.read_ms),
            "windows": each.windows,
        }
        for uuid, each in readings.items()
    }
    return orjson.dumps({"version": VERSION, "boot_id": era.boot_id, "driver": era.driver, "gpus": kept})


def decoded(data: bytes, era: Era, monotonic_ms: int) -> Remembered:
    """What may be compared with now; nothing at all when the bytes are not ours.

    ``monotonic_ms`` counts from the start of the machine, as that of the readings does.
    """
    try:
        kept = orjson.loads(data)
        driver = kept["driver"] if isinstance(kept["driver"], str) else None
        if kept["version"] != VERSION:
            return Remembered({}, None)
        if era.boot_id is None or Era(kept["boot_id"], kept["driver"]) != era:
            return Remembered({}, driver)
        readings = {str(uuid): _reading(each) for uuid, each in kept["gpus"].items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        return Remembered({}, None)
    young = {uuid: each for uuid, each in readings.items() if 0 <= monotonic_ms - each.monotonic_ms <= AGE_MS_MAX}
    return Remembered(young, driver)


def _reading(kept: Mapping[str, object]) -> Reading:
    at_ms, monotonic_ms, values = kept["at_ms"], kept["monotonic_ms"], kept["values"]
    if not (isinstance(at_ms, int) and isinstance(monotonic_ms, int) and isinstance(values, dict)):
        raise TypeError("not a reading")
    read_ms, windows = kept.get("read_ms", {}), kept.get("windows", [])  # an agent of 0.1 wrote neither
    if not (isinstance(read_ms, dict) and isinstance(windows, list)):
        raise TypeError("not a reading")
    pairs = tuple((start_ms, end_ms) for start_ms, end_ms in windows)
    numbers = (*values.values(), *read_ms.values(), *(each for pair in pairs for each in pair))
    if not all(isinstance(value, int) for value in numbers):
        raise TypeError("not a reading")
    return Reading(at_ms, monotonic_ms, values, read_ms, pairs)


class CounterFile:
    """The file at ``path``. A disk that fails costs the memory, never a sample; it is logged once."""

    def __init__(self, path: Path, era: Era) -> None:
        self._file = KeptFile(path, SLOT_BYTES)
        self._era = era

    def load(self, monotonic_ms: int) -> Remembered:
        """As ``decoded``; nothing when there is no file."""
        data = self._file.load()
        return Remembered({}, None) if data is None else decoded(data, self._era, monotonic_ms)

    def save(self, readings: Mapping[str, Reading]) -> None:
        """Replace what is remembered."""
        if (error := self._file.save(encoded(self._era, readings))) is not None:
            _log.warning(
                "writing GPU counters failed; a restart cannot continue them",
                extra={"path": str(self._file.path), "why": str(error)},
            )

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()
