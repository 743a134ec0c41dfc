"""GPU and engine events as signals: what each kind is called, how long it lasts and what ends it. Data, and few lines.

Lost and unresponsive GPUs stay so until they are found. Throttling ends with its own ``over:`` event (severity info,
the same code), a wanted recovery with code 0. XIDs, memory errors and driver restarts are moments: over when they have
not come again for a while. What no rule covers and has severity ``info`` opens nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from schemas.limits import DAY_MS, HOUR_MS, MINUTE_MS
from stream_jobs.alerts.signals import Level, Rank, Signal
from stream_jobs.insight.frame import Labels
from stream_jobs.rules.model import GpuEvent, RuleSet

Row = Mapping[str, Any]


LOST_MS = DAY_MS
"""What was lost and never comes back is no longer an alert after this."""
_FOUND = ("gpu_found",)


@dataclass(frozen=True, slots=True)
class EventKind:
    """What holds where the rules say nothing of a kind. ``lasts_ms``: over by itself after this; ``ended_by``: kinds of
    events that end it sooner; ``by_code``: each code is a trouble of its own."""

    rule: str
    says: str
    lasts_ms: int
    ended_by: tuple[str, ...] = ()
    by_code: bool = False


GPU_KINDS = {
    "xid": EventKind("gpu_xid", "XID {code}", 5 * MINUTE_MS, by_code=True),
    "ecc": EventKind("gpu_ecc", "memory errors", 5 * MINUTE_MS),
    "recovery": EventKind("gpu_recovery", "the driver asks for a recovery action", HOUR_MS, _FOUND),
    "clocks": EventKind("gpu_clocks", "clocks are throttled", 30 * MINUTE_MS, _FOUND, by_code=True),
    "gpu_lost": EventKind("gpu_lost", "the GPU is lost", LOST_MS, _FOUND),
    "gpu_unresponsive": EventKind("gpu_unresponsive", "the GPU does not answer", LOST_MS, _FOUND),
    "driver_restart": EventKind("gpu_driver_restart", "the driver was restarted", 5 * MINUTE_MS),
}
GONE = frozenset({"gpu_lost", "gpu_unresponsive"})
ENGINE_LOST = "engine_lost"
ENGINE_LOST_SEVERITY = "warning"
ENGINE_BACK = frozenset({"found", "registered", "changed"})
MARKS = frozenset({"changed", "marked"})

ADVICE = {
    "reset_gpu": "Drain the GPU's workload, stop agent and DCGM, and reset the GPU.",
    "reboot_node": "Drain the node and reboot it.",
    "drain_node": "Move the workload off the node.",
    "drain_and_reset": "Drain the node, stop agent and DCGM, then reset the GPU.",
    "restart_workload": "Restart the workload on the GPU.",
    "check_cooling": "Check the cooling: fans, air flow, inlet temperature.",
    "check_power": "Check the power supply and its cables.",
    "check_link": "Check the NVLink bridges, cables and the fabric manager.",
    "contact_vendor": "Have the GPU looked at by its vendor.",
    "watch": "Watch whether it comes again.",
}
_WHERE = ("cluster", "region", "host", "engine_id", "placement_group", "gpu_uuid", "gpu_model")


def handling_of(row: Row, rules: RuleSet) -> GpuEvent:
    """What to do about an event: as the rules say, else as its kind is known, with the severity it came with; ``info``
    is then none."""
    kind, code, severity = str(row["kind"]), row.get("code"), str(row["severity"])
    covered = rules.gpu_event(kind, code, severity)
    if covered is not None:
        return covered
    known = GPU_KINDS.get(kind)
    if known is None:
        return GpuEvent((kind,), (), (), None, "", (), MINUTE_MS)
    opens = None if severity == "info" else severity
    return GpuEvent((kind,), (), (), opens, "", known.ended_by, known.lasts_ms)


def is_over(row: Row) -> bool:
    """The event ends what an event of the same kind and code began."""
    kind = row["kind"]
    return (kind == "clocks" and row["severity"] == "info") or (kind == "recovery" and row.get("code") == 0)


def gpu_rule(kind: str) -> str:
    """The name that an alert about events of this kind has as its rule."""
    known = GPU_KINDS.get(kind)
    return known.rule if known is not None else kind


def gpu_key(row: Row) -> Labels:
    """What identifies the trouble: the GPU, and the code where each is one of its own."""
    known, code = GPU_KINDS.get(row["kind"]), row.get("code")
    gpu = ("gpu_uuid", str(row["gpu_uuid"]))
    return (gpu, ("code", str(code))) if known is not None and known.by_code and code is not None else (gpu,)


def of_gpu_event(row: Row, handling: GpuEvent, labels: Mapping[str, str]) -> Signal | None:
    """The event as a signal; None when it opens nothing."""
    known = GPU_KINDS.get(row["kind"])
    if known is None or is_over(row) or handling.severity is None:
        return None
    key = gpu_key(row)
    message = row.get("message") or ""
    where = f"GPU {row['gpu_uuid']} on {row['host']}"
    return Signal(
        known.rule,
        "event",
        key,
        {**labels, **dict(key), "kind": row["kind"]},
        Level.GPU,
        Rank.GONE if row["kind"] in GONE else Rank.EVENT,
        0,
        handling.severity,
        int(row["at_ms"]),
        int(row["at_ms"]),
        True,
        handling.lasts_ms,
        ended_by=handling.ended_by,
        count=1,
        summary=f"{where}: {known.says.format(code=row.get('code'))}" + (f" ({message})" if message else ""),
        advice=handling.advice or ADVICE.get(row.get("action") or "", ""),
    )


def of_engine_lost(row: Row, labels: Mapping[str, str]) -> Signal | None:
    """An engine that went away as a signal; None where it has no name."""
    engine_id = row.get("engine_id")
    if engine_id is None:
        return None
    return Signal(
        ENGINE_LOST,
        "event",
        engine_key(str(engine_id)),
        labels,
        Level.ENGINE,
        Rank.EVENT,
        0,
        ENGINE_LOST_SEVERITY,
        int(row["at_ms"]),
        int(row["at_ms"]),
        True,
        LOST_MS,
        count=1,
        summary=f"Engine {engine_id} on {row['host']} does not answer any more",
        advice="Look at the engine's process and its last lines of log.",
    )


def engine_key(engine_id: str) -> Labels:
    """What identifies the trouble of an engine."""
    return (("engine_id", engine_id),)


def where_of(row: Row) -> dict[str, str]:
    """The labels of the row that say where, as far as they are known."""
    return {name: str(row[name]) for name in _WHERE if row.get(name) is not None}
