"""Events of the driver, as they happen: XIDs, memory errors, recovery actions. They do not wait for a sample.

``EventSource.wait`` blocks in NVML until something happens or the time is over; it belongs in a thread of its own.
Repeats (an application that faults in a loop) are emitted once a second, with their number.

Not registered: changes of P-state and of clocks, which come dozens of times a second under load; throttling is seen in
the samples (``producers.gpu.transitions``). A GPU that hangs is left out until the call returns
(``producers.gpu.watchdog``).
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import pynvml

from producers.gpu import inventory
from producers.gpu.device import Found
from producers.gpu.faults import Fault, recovery, xid
from producers.gpu.inventory import GpuIdentity
from producers.gpu.library import DRIVER_GONE, DriverGoneError, GpuLostError, answered, open_library, why
from producers.gpu.transitions import Happening
from producers.gpu.watchdog import LIMIT_S, Watchdog, value_of

_log = logging.getLogger(__name__)

Row = dict[str, Any]
Value = TypeVar("Value")
DRAINED_MAX = 256
"""Events taken at one wake-up; those behind come with the next."""
NO_INSTANCE = 0xFFFF_FFFF
"""The number of an instance in an event of the whole GPU (nvml.h, nvmlEventData_t)."""
REPEAT_MS = 1_000
REPEATS_MAX = 4_096
"""Distinct events of this host that are remembered; beyond them all are forgotten."""


@dataclass(frozen=True, slots=True)
class EventType:
    """A bit of nvmlEventType* (nvml.h), the kind of our event, and what it means; None: by the event's data."""

    bit: int
    kind: str
    fault: Fault | None


def _event(name: str, kind: str, *fault: Any) -> EventType:
    return EventType(getattr(pynvml, f"nvmlEventType{name}"), kind, Fault(*fault) if fault else None)


EVENT_TYPES: tuple[EventType, ...] = (
    _event("XidCriticalError", "xid"),
    _event("SingleBitEccError", "ecc", "info", "a memory error was corrected", "watch"),
    _event("DoubleBitEccError", "ecc", "critical", "a memory error could not be corrected", "drain_and_reset"),
    _event("SingleBitEccErrorStorm", "ecc", "warning", "memory errors are corrected at a high rate", "watch"),
    _event("DramRetirementEvent", "ecc", "warning", "memory is to be replaced at the next reset", "watch"),
    _event("DramRetirementFailure", "ecc", "critical", "memory could not be replaced", "drain_and_reset"),
    _event("NonFatalPoisonError", "ecc", "warning", "bad memory was read; one application ends", "restart_workload"),
    _event(
        "FatalPoisonError", "ecc", "critical", "bad memory was read; all applications are affected", "drain_and_reset"
    ),
    _event("PowerSourceChange", "clocks", "warning", "the power source changed", "check_power"),
    _event("GpuUnavailableError", "gpu_lost", "critical", "the GPU became unavailable", "reboot_node"),
    _event("GpuRecoveryAction", "recovery"),
)
WANTED = sum(each.bit for each in EVENT_TYPES)
ECC = pynvml.nvmlEventTypeSingleBitEccError | pynvml.nvmlEventTypeDoubleBitEccError
WHOLE_KINDS = {"ecc": ECC, "recovery": pynvml.nvmlEventTypeGpuRecoveryAction}
"""Kinds that samples show as well, and the types that together cover all of them."""


def happening(type_bit: int, data: int) -> Happening | None:
    """What an event of the driver means; None for a type that was not registered."""
    event = next((each for each in EVENT_TYPES if each.bit == type_bit), None)
    if event is None:
        return None
    if event.kind == "xid":
        return Happening.of("xid", xid(data), data)
    if event.kind == "recovery":
        return Happening.of("recovery", recovery(data), data)
    assert event.fault is not None
    return Happening.of(event.kind, event.fault, None)


@dataclass(slots=True)
class _Repeats:
    """Repeats of an event since it was last emitted."""

    device: Found
    emitted_ms: int
    suppressed: int = 0


class RateLimit:
    """The same event of the same device once in ``repeat_ms``. What it remembers is bounded."""

    def __init__(self, repeat_ms: int = REPEAT_MS) -> None:
        self._repeat_ms = repeat_ms
        self._seen: dict[tuple[str, Happening], _Repeats] = {}

    def admit(self, device: Found, event: Happening, at_ms: int) -> Happening | None:
        """The event to emit; None when it is suppressed. The next one counts those suppressed."""
        repeats = self._seen.get((device.uuid, event))
        if repeats is not None and not self._due(repeats, at_ms):
            repeats.suppressed += 1
            return None
        if len(self._seen) >= REPEATS_MAX:
            self._seen.clear()
        self._seen[(device.uuid, event)] = _Repeats(device, at_ms)
        return _counted(event, repeats.suppressed) if repeats is not None else event

    @property
    def pending(self) -> bool:
        """Whether any event is suppressed."""
        return any(repeats.suppressed for repeats in self._seen.values())

    def overdue(self, at_ms: int) -> list[tuple[Found, Happening]]:
        """Suppressed events that are due, each once, with their number."""
        due = []
        for (_, event), repeats in self._seen.items():
            if repeats.suppressed and self._due(repeats, at_ms):
                due.append((repeats.device, _counted(event, repeats.suppressed - 1)))
                repeats.suppressed, repeats.emitted_ms = 0, at_ms
        return due

    def _due(self, repeats: _Repeats, at_ms: int) -> bool:
        return not 0 <= at_ms - repeats.emitted_ms < self._repeat_ms


def _counted(event: Happening, more: int) -> Happening:
    message = f"{event.message} ({more} more since)" if more else event.message
    return Happening(event.kind, event.severity, event.action, message, event.code)


class EventSource:
    """Registers every GPU that can. ``wait`` belongs to one thread; ``event_kinds`` is thread-safe."""

    def __init__(
        self,
        labels: Mapping[str, str | None],
        placement: Mapping[str, Any],
        limit: RateLimit | None = None,
        watchdog: Watchdog[Any] | None = None,
    ) -> None:
        """``limit`` and ``watchdog``: those of the source before. ``DriverGoneError`` when there is no driver."""
        open_library()
        self._identity = GpuIdentity(labels, placement)
        self._limit = limit or RateLimit()
        self._watchdog = watchdog or Watchdog(LIMIT_S, "gpu-events")
        self._unregistered: list[Found] = []
        found = self._found()
        self._devices = [each for each in found if each.parent_uuid is None]
        self._by_address = {_address(each.handle): each for each in self._devices}
        self._instances: dict[tuple[str, int | None], Found] = {
            (each.parent_uuid, each.instance_id): each for each in found if each.parent_uuid is not None
        }
        self._set = pynvml.nvmlEventSetCreate()
        self._set_in_use = False  # by a call that hangs
        self._types = self._registered()
        self._event_kinds = {
            uuid: frozenset(kind for kind, bits in WHOLE_KINDS.items() if types & bits == bits)
            for uuid, types in self._types.items()
        }

    @property
    def active(self) -> bool:
        """Whether any GPU supports events; where none does there is nothing to wait for."""
        return any(self._types.values())

    def event_kinds(self, uuid: str) -> frozenset[str]:
        """The kinds that this GPU reports as events, which samples need not report."""
        return self._event_kinds.get(uuid, frozenset())

    def current(self) -> bool:
        """Whether every GPU that answers now is registered; if not, a new source reports more.

        Instances are listed again: a new MIG layout gives a number to another one.
        """
        with contextlib.suppress(DriverGoneError):
            divided = {uuid for uuid, _ in self._instances}
            self._list_instances([device for device in self._devices if device.uuid in divided])
            return self._lists_all() and not any(self._on_each(self._unregistered, _answers))
        return False

    def _lists_all(self) -> bool:
        """One that cannot be named, or hangs, is counted by the driver: then it is names that are compared."""
        if inventory.count() == len(self._devices):
            return True
        named = {each.uuid for each in self._found() if each.parent_uuid is None}
        return named <= {each.uuid for each in self._devices}

    def _found(self) -> list[Found]:
        """As ``inventory.found``; a GPU that hangs is left out."""
        steps = {str(index): partial(inventory.at, index) for index in range(inventory.count())}
        return [device for outcome in self._watchdog.run(steps).values() for device in value_of(outcome) or ()]

    def _on_each(self, gpus: Sequence[Found], step: Callable[[Found], Value]) -> list[Value | None]:
        """What the driver says of each; None where that hangs. Raises what ``step`` raised."""
        steps = {str(each.number): partial(step, each) for each in gpus}
        return [value_of(outcome) for outcome in self._watchdog.run(steps).values()]

    def wait(self, timeout_s: float, now_ms: Callable[[], int]) -> list[Row]:
        """Rows of what happened within ``timeout_s``; returns as soon as there is any. ``now_ms()`` gives the time.

        ``DriverGoneError`` when the driver is no more, ``GpuLostError`` when a GPU of the set is: make a new one then.
        What happened before that is returned first; the next wait raises.
        """
        rows = [self._row(device, event, now_ms()) for device, event in self._limit.overdue(now_ms())]
        longest_s = min(timeout_s, REPEAT_MS / 1_000) if self._limit.pending else timeout_s
        timeout_ms = 0 if rows else max(0, round(longest_s * 1_000))
        for _ in range(DRAINED_MAX):
            try:
                data = self._next(timeout_ms)
            except (GpuLostError, DriverGoneError):
                if rows:
                    break
                raise
            if data is None:
                break
            rows += self._rows(data, now_ms())
            timeout_ms = 0
        return rows

    def take_over(self, before: EventSource, now_ms: Callable[[], int]) -> list[Row]:
        """Rows of what ``before`` recorded until this one did; closes that one."""
        own, self._set = self._set, before._set
        try:
            return self.wait(0, now_ms)
        except (DriverGoneError, GpuLostError):
            return []
        finally:
            self._set = own
            before.close()

    def close(self) -> None:
        """Free the event set, unless a call hangs in it."""
        if not self._set_in_use:
            with contextlib.suppress(pynvml.NVMLError):
                pynvml.nvmlEventSetFree(self._set)

    def _registered(self) -> dict[str, int]:
        """The event types that each GPU supports, by UUID; 0 when none."""
        types = self._on_each(self._devices, partial(_register, self._set))
        found = dict[str, int]()
        for device, supported in zip(self._devices, types, strict=True):
            self._set_in_use |= supported is None
            failure = "it does not answer in time" if supported is None else supported
            if isinstance(failure, str):
                self._unregistered.append(device)
                _log.info("cannot register for GPU events, retrying", extra={"gpu": device.uuid, "why": failure})
            found[device.uuid] = failure if isinstance(failure, int) else 0
        return found

    def _next(self, timeout_ms: int) -> Any:
        """The next event; None when the time is over."""
        try:
            return pynvml.nvmlEventSetWait_v2(self._set, timeout_ms)
        except pynvml.NVMLError as error:
            if error.value == pynvml.NVML_ERROR_TIMEOUT:
                return None
            kind = DriverGoneError if error.value in DRIVER_GONE else GpuLostError
            raise kind(why(error.value)) from error

    def _rows(self, data: Any, at_ms: int) -> list[Row]:
        device = self._by_address.get(_address(data.device))
        event = happening(data.eventType, data.eventData)
        if device is None or event is None:
            return []
        device = self._part(device, data.gpuInstanceId)
        admitted = self._limit.admit(device, event, at_ms)
        return [] if admitted is None else [self._row(device, admitted, at_ms)]

    def _part(self, device: Found, instance_id: int) -> Found:
        """The instance of that number, which may be newer than the list; the whole GPU where there is none."""
        if instance_id == NO_INSTANCE:
            return device
        key = (device.uuid, instance_id)
        if key not in self._instances:
            with contextlib.suppress(DriverGoneError):
                self._list_instances([device])
            self._instances.setdefault(key, device)
        return self._instances[key]

    def _list_instances(self, devices: Sequence[Found]) -> None:
        """Those known stay where the GPU does not say that they are gone."""
        for whole, listed in filter(None, self._on_each(devices, inventory.with_instances)):
            if whole.lists_all:
                self._instances = {key: each for key, each in self._instances.items() if key[0] != whole.uuid}
            self._instances |= {(whole.uuid, each.instance_id): each for each in listed}

    def _row(self, device: Found, event: Happening, at_ms: int) -> Row:
        facts = {"gpu": device.uuid, "kind": event.kind, "code": event.code, "why": event.message}
        _log.log(logging.INFO if event.severity == "info" else logging.WARNING, "GPU event", extra=facts)
        return self._identity.event(device, at_ms, event)


def _register(event_set: Any, device: Found) -> int | str:
    """The event types that this GPU supports, 0 when none; why it cannot be registered."""
    try:
        wanted = int(answered(pynvml.nvmlDeviceGetSupportedEventTypes, device.handle) or 0) & WANTED
        if wanted:
            pynvml.nvmlDeviceRegisterEvents(device.handle, wanted, event_set)
        return wanted
    except (pynvml.NVMLError, GpuLostError) as error:
        return str(error)


def _answers(device: Found) -> bool:
    try:
        answered(pynvml.nvmlDeviceGetSupportedEventTypes, inventory.looked_up(device).handle)
    except GpuLostError:
        return False
    return True


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value
