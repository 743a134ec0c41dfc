"""GPU events from the change between two samples. Pure: a state and a sample give a state and events.

Memory errors, rows to be replaced and the driver's recovery action are emitted as soon as they change; an action that
is still wanted, and rows that still wait or could not be replaced, are emitted again every ``REPEAT_MS``, so that their
alert goes on. Throttling is emitted when a reason has held for ``HOLD_MS``, and its end when it has been absent for
``CLEAR_MS``: clocks change many times a second under load. Events of one kind about one GPU are at least ``GAP_MS``
apart; the next one counts those that were suppressed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from producers.gpu.faults import Action, Fault, Severity, recovery
from producers.gpu.fields import REMAP_FAILED

HOLD_MS = 3_000
CLEAR_MS = 10_000
GAP_MS = 60_000
REPEAT_MS = 1_800_000
ERRORS = ("ecc_corrected", "ecc_uncorrected")


@dataclass(frozen=True, slots=True)
class Happening:
    """An event of a GPU, without the identity of its row."""

    kind: str
    severity: Severity
    action: Action
    message: str
    code: int | None = None

    @classmethod
    def of(cls, kind: str, fault: Fault, code: int | None) -> Happening:
        """From an entry of the tables of faults."""
        return cls(kind, fault.severity, fault.action, fault.meaning, code)


@dataclass(frozen=True, slots=True)
class Throttle:
    """A bit of the clock reasons that means throttling (nvml.h, nvmlClocksEventReason*)."""

    bit: int
    fault: Fault


THROTTLES = (
    Throttle(0x04, Fault("info", "clocks are throttled by the power limit", "none")),
    Throttle(
        0x08, Fault("warning", "clocks are throttled by hardware: heat, power brake or power draw", "check_cooling")
    ),
    Throttle(0x20, Fault("warning", "clocks are throttled by the driver because of heat", "check_cooling")),
    Throttle(0x40, Fault("critical", "clocks are halved or less by hardware because of heat", "check_cooling")),
    Throttle(0x80, Fault("critical", "clocks are halved or less by the external power brake", "check_power")),
)
"""Idle (1), application clocks (2), sync boost (0x10) and display (0x100) are no throttling."""

THROTTLED = sum(throttle.bit for throttle in THROTTLES)


@dataclass(frozen=True, slots=True)
class BitState:
    """One throttle reason: ``on`` as last emitted, and since when it differs from that."""

    on: bool = False
    differs_since_ms: int | None = None
    emitted_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Watch:
    """What is remembered of one GPU between samples."""

    recovery_action: int | None = None
    recovery_emitted_ms: int | None = None
    rows_emitted_ms: int | None = None
    """Of rows that wait, and below of one that could not be replaced: None while there are none."""
    remap_failed_emitted_ms: int | None = None
    corrected_emitted_ms: int | None = None
    corrected_suppressed: int = 0
    bits: Mapping[int, BitState] = field(default_factory=dict)


Seen = tuple[Watch, list[Happening]]


def newest(rows: Sequence[Mapping[str, int | None]]) -> Mapping[str, int | None]:
    """The last row of a reading, with the memory errors of all its rows (where it crosses the edge of a window)."""
    if len(rows) == 1:
        return rows[0]
    return {**rows[-1], **{name: sum(row.get(name) or 0 for row in rows) for name in ERRORS}}


def observe(
    watch: Watch,
    at_ms: int,
    fields: Mapping[str, int | None],
    values: Mapping[str, int],
    event_kinds: Collection[str] = (),
) -> Seen:
    """``fields``: as ``newest`` gives them; ``values``: of its reading. ``event_kinds``: those reported as events."""
    watch, errors = _ecc(watch, at_ms, fields)
    watch, recovery_action = _recovery(watch, at_ms, fields, "recovery" in event_kinds)
    watch, rows = _rows(watch, at_ms, fields, values)
    watch, throttles = _throttles(watch, at_ms, fields.get("clock_reasons"))
    return watch, [*(errors if "ecc" not in event_kinds else ()), *recovery_action, *rows, *throttles]


def _ecc(watch: Watch, at_ms: int, fields: Mapping[str, int | None]) -> Seen:
    events = []
    uncorrected = fields.get("ecc_uncorrected") or 0
    if uncorrected:
        message = f"{uncorrected} memory errors that could not be corrected"
        events.append(Happening("ecc", "critical", "drain_and_reset", message))
    corrected = watch.corrected_suppressed + (fields.get("ecc_corrected") or 0)
    if corrected and _due(watch.corrected_emitted_ms, at_ms):
        events.append(Happening("ecc", "info", "watch", f"{corrected} memory errors were corrected"))
        return replace(watch, corrected_emitted_ms=at_ms, corrected_suppressed=0), events
    return (
        watch if corrected == watch.corrected_suppressed else replace(watch, corrected_suppressed=corrected)
    ), events


def _recovery(watch: Watch, at_ms: int, fields: Mapping[str, int | None], by_driver: bool) -> Seen:
    action, before = fields.get("recovery_action"), watch.recovery_action
    changed = action != before
    if action is None or not (changed or (action and _due(watch.recovery_emitted_ms, at_ms, REPEAT_MS))):
        return watch, []
    watch = replace(watch, recovery_action=action, recovery_emitted_ms=at_ms)
    # The driver's own event comes when the action changes: of one that is there at first sight it has none.
    if changed and (action == (before or 0) or (by_driver and before is not None)):
        return watch, []
    return watch, [Happening.of("recovery", recovery(action), action)]


def _rows(watch: Watch, at_ms: int, fields: Mapping[str, int | None], values: Mapping[str, int]) -> Seen:
    events = []
    rows_ms, rows_due = _lasting(watch.rows_emitted_ms, at_ms, fields.get("remapped_rows_pending"))
    failed_ms, failed_due = _lasting(watch.remap_failed_emitted_ms, at_ms, values.get(REMAP_FAILED.key))
    if rows_due:
        events.append(Happening("ecc", "warning", "reset_gpu", "rows of memory wait for a reset to be replaced"))
    if failed_due:
        events.append(Happening("ecc", "critical", "contact_vendor", "a row of memory could not be replaced"))
    if (rows_ms, failed_ms) == (watch.rows_emitted_ms, watch.remap_failed_emitted_ms):
        return watch, events
    return replace(watch, rows_emitted_ms=rows_ms, remap_failed_emitted_ms=failed_ms), events


def _lasting(emitted_ms: int | None, at_ms: int, holds: int | None) -> tuple[int | None, bool]:
    """When a state was emitted last, None while it does not hold, and whether it is emitted now."""
    if not holds:
        return (emitted_ms if holds is None else None), False
    due = _due(emitted_ms, at_ms, REPEAT_MS)
    return (at_ms if due else emitted_ms), due


def _throttles(watch: Watch, at_ms: int, reasons: int | None) -> Seen:
    if reasons is None or _as_emitted(reasons & THROTTLED, watch.bits):
        return watch, []
    events, bits = [], dict(watch.bits)
    for throttle in THROTTLES:
        before, now = bits.get(throttle.bit, BitState()), bool(reasons & throttle.bit)
        after, happening = _bit(before, now, at_ms, throttle)
        if after != before:
            bits[throttle.bit] = after
        if happening is not None:
            events.append(happening)
    return (watch if bits == watch.bits else replace(watch, bits=bits)), events


def _as_emitted(held: int, bits: Mapping[int, BitState]) -> bool:
    """True when exactly the emitted reasons hold, and none is about to change."""
    for bit, state in bits.items():
        if state.on:
            held ^= bit
        if state.differs_since_ms is not None:
            return False
    return held == 0


def _bit(state: BitState, now: bool, at_ms: int, throttle: Throttle) -> tuple[BitState, Happening | None]:
    if now == state.on:
        return (state if state.differs_since_ms is None else replace(state, differs_since_ms=None)), None
    since_ms = at_ms if state.differs_since_ms is None else min(at_ms, state.differs_since_ms)
    held = at_ms - since_ms >= (HOLD_MS if now else CLEAR_MS)
    # An end is emitted whenever its beginning was; only beginnings are suppressed.
    if not held or (now and not _due(state.emitted_ms, at_ms)):
        return replace(state, differs_since_ms=since_ms), None
    if now:
        return BitState(True, None, at_ms), Happening.of("clocks", throttle.fault, throttle.bit)
    message = f"over: {throttle.fault.meaning}"
    return BitState(False, None, state.emitted_ms), Happening("clocks", "info", "none", message, throttle.bit)


def _due(emitted_ms: int | None, at_ms: int, gap_ms: int = GAP_MS) -> bool:
    return emitted_ms is None or not 0 <= at_ms - emitted_ms < gap_ms
