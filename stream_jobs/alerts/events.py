"""GPU and engine events as signals: what each kind is called, how long it lasts and what ends it. Data, and few lines.

Lost and unresponsive GPUs stay so until they are found. Throttling ends with its own ``over:`` event (severity info,
the same code), a wanted recovery with code 0. XIDs, memory errors and driver restarts are moments: over when they have
not come again for a while. What has severity ``info`` opens nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from schemas.limits import DAY_MS, HOUR_MS, MINUTE_MS
from stream_jobs.alerts.policy import AlertPolicy
from stream_jobs.alerts.signals import Level, Rank, Signal

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EventKind:
    """``lasts_ms``: over by itself after this; ``by_code``: each code is a trouble of its own."""

    rule: str
    says: str
    lasts_ms: int
    by_code: bool = False


_LOST_MS = DAY_MS
GPU_KINDS = {
    "xid": EventKind("gpu_xid", "XID {code}", 5 * MINUTE_MS, by_code=True),
    "ecc": EventKind("gpu_ecc", "memory errors", 5 * MINUTE_MS),
    "recovery": EventKind("gpu_recovery", "the driver asks for a recovery action", HOUR_MS),
    "clocks": EventKind("gpu_clocks", "clocks are held down", 30 * MINUTE_MS, by_code=True),
    "gpu_lost": EventKind("gpu_lost", "the GPU is lost", _LOST_MS),
    "gpu_unresponsive": EventKind("gpu_unresponsive", "the GPU does not answer", _LOST_MS),
    "driver_restart": EventKind("gpu_driver_restart", "the driver was restarted", 5 * MINUTE_MS),
}
ENGINE_LOST = EventKind("engine_lost", "the engine does not answer any more", _LOST_MS)
FOUND_ENDS = ("gpu_lost", "gpu_unresponsive", "gpu_recovery", "gpu_clocks")
"""Rules that a GPU's ``gpu_found`` ends, whatever the code."""
ENGINE_BACK = frozenset({"found", "registered", "changed"})
MARKS = frozenset({"changed", "marked"})
EVENT_RULES = frozenset({ENGINE_LOST.rule, *(kind.rule for kind in GPU_KINDS.values())})
ENGINE_LOST_SEVERITY = "warning"
NO_SEVERITY = "none"

ADVICE = {
    "reset_gpu": "Drain the GPU's workload and reset the GPU.",
    "reboot_node": "Drain the node and reboot it.",
    "drain_node": "Move the workload off the node.",
    "drain_and_reset": "Drain the node, then reset the GPU.",
    "restart_workload": "Restart the workload on the GPU.",
    "check_cooling": "Check the cooling: fans, air flow, inlet temperature.",
    "check_power": "Check the power supply and its cables.",
    "check_link": "Check the NVLink bridges, cables and the fabric manager.",
    "contact_vendor": "Have the GPU looked at by its vendor.",
    "watch": "Watch whether it comes again.",
}
_WHERE = ("cluster", "region", "host", "engine_id", "placement_group", "gpu_uuid", "gpu_model")


def ends_of(row: Row) -> tuple[str, str | None] | None:
    """(rule or "", code or None) of what a GPU event ends: "" is everything ``FOUND_ENDS``; None: it ends nothing."""
    kind, code = row["kind"], row.get("code")
    if kind == "gpu_found":
        return "", None
    if kind == "clocks" and row["severity"] == "info":
        return GPU_KINDS[kind].rule, None if code is None else str(code)
    if kind == "recovery" and code == 0:
        return GPU_KINDS[kind].rule, None
    return None


def severity_of(row: Row, policy: AlertPolicy) -> str:
    """By ``kind/code``, else ``kind`` in the policy, else the event's own."""
    kind, code = row["kind"], row.get("code")
    told = policy.gpu_events.get(f"{kind}/{code}") or policy.gpu_events.get(kind)
    return str(told or row["severity"])


def of_gpu_event(row: Row, severity: str, labels: Mapping[str, str]) -> Signal | None:
    """The event as a signal; None when it opens nothing."""
    kind = GPU_KINDS.get(row["kind"])
    if kind is None or severity in ("info", NO_SEVERITY):
        return None
    code = row.get("code")
    key = [("gpu_uuid", str(row["gpu_uuid"]))]
    if kind.by_code and code is not None:
        key.append(("code", str(code)))
    labels = {**labels, **dict(key), "kind": row["kind"]}
    message = row.get("message") or ""
    where = f"GPU {row['gpu_uuid']} on {row['host']}"
    summary = f"{where}: {kind.says.format(code=code)}" + (f" ({message})" if message else "")
    advice = ADVICE.get(row.get("action") or "", "")
    return _signal(kind, tuple(key), labels, Level.GPU, severity, row, summary, advice)


def of_engine_lost(row: Row, labels: Mapping[str, str]) -> Signal | None:
    """An engine that went away as a signal; None where it has no name."""
    engine_id = row.get("engine_id")
    if engine_id is None:
        return None
    summary = f"Engine {engine_id} on {row['host']}: {ENGINE_LOST.says}"
    key = (("engine_id", str(engine_id)),)
    advice = "Look at the engine's process and its last lines of log."
    return _signal(ENGINE_LOST, key, labels, Level.ENGINE, ENGINE_LOST_SEVERITY, row, summary, advice)


def where_of(row: Row) -> dict[str, str]:
    """The labels of the row that say where, as far as they are known."""
    return {name: str(row[name]) for name in _WHERE if row.get(name) is not None}


def _signal(
    kind: EventKind,
    key: tuple[tuple[str, str], ...],
    labels: Mapping[str, str],
    level: Level,
    severity: str,
    row: Row,
    summary: str,
    advice: str,
) -> Signal:
    at_ms = int(row["at_ms"])
    return Signal(
        kind.rule,
        "event",
        key,
        labels,
        level,
        Rank.EVENT,
        0,
        severity,
        at_ms,
        at_ms,
        True,
        kind.lasts_ms,
        count=1,
        summary=summary,
        advice=advice,
    )
