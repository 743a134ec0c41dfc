"""Keep the last readings in a small file, so that growth of GPU counters over a restart of the agent is not lost.

Written after every reading (into two slots in turn, so that a kill leaves one of them whole) and before its rows are
handed on: a process that is killed between the two loses the differences of that one reading, never counts any twice.
It is ignored when the machine or the driver was started since (counters restarted from 0), and when it is older than a
minute (the difference would be smeared over windows in which nobody looked).
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson

from producers.gpu.rows import Reading
from producers.spool.slots import Slots

_log = logging.getLogger(__name__)

AGE_MS_MAX = 60_000
SLOT_BYTES = 512 * 1024
"""More than 128 devices take whose 18 links are counted one by one."""
VERSION = 1
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


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


def boot_id() -> str | None:
    """Of this start of the machine; None where the system does not report it."""
    try:
        return BOOT_ID.read_text().strip() or None
    except OSError:
        return None


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
        self._path = path
        self._era = era
        self._slots: Slots | None = None
        self._logged = False

    def load(self, monotonic_ms: int) -> Remembered:
        """As ``decoded``; nothing when there is no file."""
        with contextlib.suppress(OSError):
            if self._path.exists() and (data := self._opened().read()) is not None:
                return decoded(data, self._era, monotonic_ms)
        return Remembered({}, None)

    def save(self, readings: Mapping[str, Reading]) -> None:
        """Replace what is remembered."""
        try:
            self._opened().write(encoded(self._era, readings), durable=False)
        except OSError as error:
            if not self._logged:
                self._logged = True
                _log.warning(
                    "writing GPU counters failed; a restart cannot continue them",
                    extra={"path": str(self._path), "why": str(error)},
                )

    def close(self) -> None:
        """Let go of the file."""
        if self._slots is not None:
            self._slots.close()
            self._slots = None

    def _opened(self) -> Slots:
        if self._slots is None:
            self._slots = Slots.open(self._path, SLOT_BYTES)
        return self._slots
