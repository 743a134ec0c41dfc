"""The verdict on each GPU from its readings: fine, hot, throttled, not reporting. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MISSING_MS = 30_000
"""An edge sends every second; a window and its way into the tables take some ten seconds more."""
THROTTLED_SHARE = 0.05
"""Throttled for more of the last minute than this by anything but the power limit, at which a busy GPU always is."""
HOT_C = 88
_ORDER = ("missing", "throttled", "hot", "fine")
_TEXT = {"missing": "not reporting", "throttled": "throttled", "hot": "hot", "fine": "fine"}
_MOOD = {"missing": "fp-bad", "throttled": "fp-warn", "hot": "fp-warn", "fine": "fp-good"}


@dataclass(frozen=True, slots=True)
class Health:
    """``gpus`` are records in the order of the query, with ``verdict``, ``mood`` and ``heard_ago_ms``: of GPUs and of
    MIG devices. Where they are counted, a GPU counts once with its devices."""

    gpus: tuple[dict[str, Any], ...]
    behind_ms: int = 0
    """How long before the end of the range the newest reading of all was."""
    gpus_known: int = 0
    """Records of the range, also those that the query had no room for."""

    def count(self, *verdicts: str) -> int:
        """How many GPUs have one of these."""
        return len({one["part_of_gpu"] or one["gpu_uuid"] for one in self.gpus if one["verdict"] in verdicts})

    @property
    def whole(self) -> int:
        """GPUs of the range."""
        return self.count(*_ORDER)

    @property
    def devices(self) -> int:
        """MIG devices of the range."""
        return sum(one["part_of_gpu"] is not None for one in self.gpus)

    @property
    def missing(self) -> int:
        """GPUs that fell silent within the range, with all of their MIG devices."""
        return self.whole - self.reporting

    @property
    def throttled(self) -> int:
        """GPUs throttled by anything but their power limit."""
        return self.count("throttled")

    @property
    def reporting(self) -> int:
        """GPUs that report."""
        return self.count("throttled", "hot", "fine")

    @property
    def cut(self) -> str:
        """What is said where the range has more GPUs than are looked at; empty where it has not."""
        shown = len(self.gpus)
        return f"the first {shown:,} of {self.gpus_known:,} by host: filter" if shown < self.gpus_known else ""

    def worst(self, most: int) -> list[dict[str, Any]]:
        """GPUs that stand out, the worst first."""
        found = [one for one in self.gpus if one["verdict"] != "fine"]
        found.sort(key=lambda one: (_ORDER.index(one["verdict"]), -(one["throttled_fault_us"] or 0), one["gpu_uuid"]))
        return found[:most]


def health_of(
    known: Sequence[Mapping[str, Any]], shown: Sequence[Mapping[str, Any]], to_ms: int, scale: float
) -> Health:
    """Of every GPU ``known`` in the range: its value and state in the stretch ``shown``, which ends at ``to_ms``."""
    now = {(row["host"], row["gpu_uuid"]): row for row in shown}
    newest_ms = max((row["heard_ms"] for row in (*known, *shown)), default=to_ms)
    # Silence is judged by the newest reading of all: when the whole pipeline lags, no GPU is missing for that.
    gpus = tuple(_one(row, now.get((row["host"], row["gpu_uuid"])), newest_ms, scale) for row in known)
    return Health(gpus, max(0, to_ms - newest_ms), known[0]["gpus_known"] if known else 0)


def _one(row: Mapping[str, Any], now: Mapping[str, Any] | None, newest_ms: int, scale: float) -> dict[str, Any]:
    value = None if now is None or now["value"] is None else now["value"] * scale
    heard_ago_ms = newest_ms - max(row["heard_ms"], now["heard_ms"] if now else 0)
    verdict = _verdict(row if now is None else now, heard_ago_ms)
    return {**row, "value": value, "heard_ago_ms": heard_ago_ms, "verdict": verdict, "mood": _MOOD[verdict]}


def _verdict(row: Mapping[str, Any], heard_ago_ms: int) -> str:
    if heard_ago_ms >= MISSING_MS:
        return "missing"
    covered_ms = row.get("covered_ms")
    if covered_ms and (row["throttled_fault_us"] or 0) > 1_000 * THROTTLED_SHARE * covered_ms:
        return "throttled"
    return "hot" if (row["temperature_max_c"] or 0) >= HOT_C else "fine"


def verdict_text(verdict: Any) -> str:
    """A verdict in words."""
    return _TEXT[verdict]
