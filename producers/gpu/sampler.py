"""GPU sampler: reads NVIDIA GPUs and MIG instances by NVML once a second; emits ``gpu.samples`` and ``gpu.events``.

The table of fields is ``producers.gpu.fields``. A field that a GPU does not support is null; that is found at the first
reading and logged once. GPUs are identified by UUID, never by index. A GPU that is lost, hangs or comes back is an
event, and so is a restart of the driver.

A GPU that hangs does not take the others with it: GPUs are read one after another by a worker thread
(``producers.gpu.watchdog``); one that takes longer than its limit is reported (``gpu_unresponsive``), left behind with
that thread, and the rest is read by a fresh one. It is not read again until the call that hangs returns; then
``gpu_found`` is emitted, and its counters continue where they were.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

from producers.differences import bounds, within
from producers.gpu import inventory
from producers.gpu.device import Device, Found, RawReading
from producers.gpu.faults import Fault
from producers.gpu.inventory import GpuIdentity
from producers.gpu.library import DriverGoneError, GpuLostError, open_library
from producers.gpu.remembered import CounterFile, Era
from producers.gpu.rows import Reading, counters, sample_rows
from producers.gpu.transitions import Happening, Watch, newest, observe
from producers.gpu.watchdog import LIMIT_S, Done, Failed, Hung, Outcome, Watchdog
from runtime.clock import Clock, SystemClock
from runtime.counters import COUNTERS, Counters
from runtime.live_process import boot_id
from schemas.events.event_types import GPU_SAMPLES

_log = logging.getLogger(__name__)

Row = dict[str, Any]
SCAN = "scan "
"""Begins the names of steps that list devices; the index of a GPU follows."""
SCAN_MS = 60_000
LATE_MS = 250
"""A reading this late in its round gets the time at which it was made."""

LOST = Fault("critical", "the GPU does not answer", "reboot_node")
INSTANCE_LOST = Fault("info", "the MIG instance is gone", "none")
UNRESPONSIVE = Fault("critical", "the GPU does not answer in time", "drain_and_reset")
FOUND = Fault("info", "the GPU answers again", "none")
RESTARTED = Fault("warning", "the driver was restarted", "watch")
_BOUNDS = bounds(GPU_SAMPLES)


@dataclass(slots=True)
class Tracked:
    """A device and what is remembered of it from sample to sample."""

    device: Device
    before: Reading | None = None
    watch: Watch = field(default_factory=Watch)
    state: Literal["well", "lost", "hung"] = "well"

    @property
    def found(self) -> Found:
        """Who it is."""
        return self.device.found


class NvmlSampler:
    """Make it with ``open``. ``sample`` blocks, at the worst for one limit per GPU that newly hangs."""

    def __init__(
        self,
        labels: Mapping[str, str | None],
        placement: Mapping[str, Mapping[str, str | None]] | None = None,
        *,
        clock: Clock | None = None,
        counters: Counters = COUNTERS,
        memory: Path | None = None,
        driver: str | None = None,
        limit_s: float = LIMIT_S,
        event_kinds: Callable[[str], Collection[str]] = lambda _uuid: (),
        reserved_ppm: Callable[[str], int | None] = lambda _uuid: None,
    ) -> None:
        self._clock = clock or SystemClock()
        placement = {} if placement is None else placement  # an empty one may fill
        self._identity = GpuIdentity(labels, placement, reserved_ppm)
        self._counters = counters
        self._event_kinds = event_kinds
        self._logged: set[tuple[str, str]] = set()
        self._watchdog: Watchdog[Any] = Watchdog(limit_s)
        self._path, self._driver = memory, driver
        self._memory = self._open_memory()
        self._gone = False
        self._summed_up = False
        self._scanned_ms: int | None = None
        self._tracked: dict[str, Tracked] = {}
        self._restarts: Happening | None = None

    @classmethod
    def open(
        cls,
        labels: Mapping[str, str | None],
        placement: Mapping[str, Mapping[str, str | None]] | None = None,
        **options: Any,
    ) -> Self | None:
        """The sampler of this host's GPUs; None where there is no NVIDIA driver or no GPU.

        ``labels`` go into every row (host, cluster, region), ``placement`` by UUID: engine_id, placement_group,
        workload; it may change while samples are taken. ``memory``: file that keeps counters over a restart.
        ``limit_s``: the longest one GPU may take. ``event_kinds``: kinds that the driver reports as events, by UUID.
        ``reserved_ppm``: the share of a GPU's memory that its engines may take, by UUID.
        """
        try:
            sampler = cls(labels, placement, driver=open_library(), **options)
            why = None if sampler._find() else "the driver lists no GPU that answers"
        except DriverGoneError as error:
            why = str(error)
        if why is None:
            return sampler
        _log.info("no GPU to sample", extra={"why": why})
        return None

    def close(self) -> None:
        """Let the reading thread end. NVML stays open for the life of the process."""
        self._watchdog.close()
        if self._memory is not None:
            self._memory.close()

    def _find(self) -> bool:
        """List the devices and take up what is remembered of them; False, with no thread left, when there is none."""
        found = False
        try:
            listed = _listed(self._watchdog.run(_scan_steps()).values())
            self._tracked = {each.uuid: Tracked(Device(each)) for each in listed}
            self._restarts = self._remember()
            found = bool(self._tracked)
        finally:
            if not found:
                self.close()
        return found

    @property
    def gpu_uuids(self) -> tuple[str, ...]:
        """The devices that are sampled."""
        return tuple(self._tracked)

    def cpu_s(self) -> float:
        """Processor time spent in threads of its own since the last call."""
        return self._watchdog.cpu_s()

    def sample(self, at_ms: int) -> tuple[list[Row], list[Row]]:
        """Rows of ``gpu.samples`` and of ``gpu.events``."""
        events = [self._event(each, at_ms, happening) for each, happening in self._take_restarts()]
        if self._gone and self._reopen() is not None:
            return [], events
        events += [self._event(each, at_ms, happening) for each, happening in self._take_restarts()]
        samples: list[Row] = []
        scanned: list[Outcome[Any]] = []
        for uuid, outcome in self._watchdog.run(self._steps(at_ms)).items():
            if uuid.startswith(SCAN):
                scanned.append(outcome)
            else:
                rows, happenings = self._outcome(self._tracked[uuid], outcome)
                samples += [self._identity.row(self._tracked[uuid].found, row) for row in rows]
                events += [self._event(self._tracked[uuid], at_ms, each) for each in happenings]
        events += self._scanned(scanned, at_ms)
        if self._gone:
            events += self._driver_gone(at_ms)
        self._save()
        self._sum_up()
        return samples, events

    def answering(self, samples: Iterable[Row], at_ms: int) -> list[Row]:
        """``gpu_found`` for each device that has a row in ``samples``."""
        answers, uuids = Happening.of("gpu_found", FOUND, None), dict.fromkeys(row["gpu_uuid"] for row in samples)
        return [self._event(self._tracked[uuid], at_ms, answers) for uuid in uuids]

    def _steps(self, at_ms: int) -> dict[str, Callable[[], Any]]:
        monotonic_ms = round(self._clock.monotonic_s() * 1_000)
        steps: dict[str, Callable[[], Any]] = {
            uuid: partial(self._read, tracked.device, tracked.state == "lost", at_ms, monotonic_ms)
            for uuid, tracked in self._tracked.items()
        }
        if self._scanned_ms is None:
            self._scanned_ms = monotonic_ms
        elif monotonic_ms - self._scanned_ms >= SCAN_MS:
            self._scanned_ms = monotonic_ms
            with contextlib.suppress(DriverGoneError):  # the devices' own steps say so too
                steps |= _scan_steps()
        return steps

    def _read(self, device: Device, lost: bool, at_ms: int, begun_ms: int) -> tuple[Device, RawReading | Reading]:
        """A step of the watchdog: all driver calls for one device.

        All devices of a round stand at its moment, but for those that had to wait for one that hangs.
        """
        anew = lost or device.stale
        if anew:
            before, device = device, Device(inventory.looked_up(device.found))
            if lost:
                before.close()
        now_ms = round(self._clock.monotonic_s() * 1_000)
        late_ms = now_ms - begun_ms
        try:
            return device, device.poll(at_ms + late_ms if late_ms > LATE_MS else at_ms, now_ms)
        except Exception:
            if anew:
                device.close()
            raise

    def _outcome(self, tracked: Tracked, outcome: Outcome[Any]) -> tuple[list[Row], list[Happening]]:
        if isinstance(outcome, Done):
            tracked.device, raw = outcome.value
            try:
                reading = tracked.device.decode(raw) if isinstance(raw, RawReading) else raw
            except (GpuLostError, DriverGoneError) as error:
                outcome = Failed(error)
            else:
                return self._answered(tracked, reading)
        if isinstance(outcome, Hung):
            if tracked.state != "well":  # one that is lost stays lost
                return [], []
            tracked.state = "hung"
            return [], [Happening.of("gpu_unresponsive", UNRESPONSIVE, None)]
        assert isinstance(outcome, Failed)
        if isinstance(outcome.error, GpuLostError):
            return [], self._lost(tracked, str(outcome.error))
        if isinstance(outcome.error, DriverGoneError):
            self._gone = True
        else:
            self._note(tracked, "sample", f"{type(outcome.error).__name__}: {outcome.error}")
        return [], []

    def _answered(self, tracked: Tracked, reading: Reading) -> tuple[list[Row], list[Happening]]:
        device, happenings = tracked.device, []
        if tracked.state != "well":
            happenings.append(Happening.of("gpu_found", FOUND, None))
            tracked.state = "well"
        rows = []
        for row in sample_rows(device.shape, tracked.before, reading):
            good, wrong = within(_BOUNDS, row)
            rows.append(good)
            for name in wrong:
                self._note(tracked, name, "it lies outside its bounds")
        tracked.before = counters(tracked.before, reading)
        for key, reason in device.errors.items():
            if key not in device.refused:
                self._note(tracked, key, reason)
        covered = self._event_kinds(tracked.found.uuid)
        tracked.watch, more = observe(tracked.watch, reading.at_ms, newest(rows), reading.values, covered)
        return rows, happenings + more

    def _lost(self, tracked: Tracked, reason: str) -> list[Happening]:
        newly = tracked.state != "lost"
        tracked.state, tracked.before, tracked.watch = "lost", None, Watch()
        if not newly:
            return []
        fault = INSTANCE_LOST if tracked.found.parent_uuid else LOST
        self._scanned_ms = -SCAN_MS if tracked.found.parent_uuid else self._scanned_ms
        return [Happening("gpu_lost", fault.severity, fault.action, f"{fault.meaning}: {reason}")]

    def _scanned(self, outcomes: Iterable[Outcome[list[Found]]], at_ms: int) -> list[Row]:
        """Take in what is new; forget instances that a GPU which lists all of them has no more."""
        listed = {each.uuid: each for outcome in outcomes if isinstance(outcome, Done) for each in outcome.value}
        whole = {uuid: each for uuid, each in listed.items() if each.lists_all}
        known = self._tracked.items()
        gone = [each for uuid, each in known if uuid not in listed and each.found.parent_uuid in whole]
        changed = {uuid for uuid, each in known if uuid in whole and whole[uuid].mig != each.found.mig}
        for each in gone:
            _let_go(each)
            del self._tracked[each.found.uuid]
        new = [Tracked(Device(each)) for uuid, each in listed.items() if uuid not in self._tracked]
        self._tracked |= {each.found.uuid: each for each in new}
        for parent in changed.union(each.found.parent_uuid or "" for each in (*gone, *new)):
            if parent in self._tracked:
                # A GPU whose MIG mode or layout changed supports other fields than before.
                _let_go(self._tracked[parent])
                self._tracked[parent].device = Device(listed[parent])
        self._summed_up = self._summed_up and not new
        happening = Happening("gpu_found", "info", "none", "the driver lists a new device")
        return [self._event(each, at_ms, happening) for each in new]

    def _driver_gone(self, at_ms: int) -> list[Row]:
        """The library is opened again at once; where that fails, every device is lost until it does not."""
        why = self._reopen()
        if why is None:
            return [self._event(each, at_ms, happening) for each, happening in self._take_restarts()]
        _log.warning("driver not responding, retrying", extra={"why": why})
        lost = [(each, happening) for each in self._tracked.values() for happening in self._lost(each, why)]
        return [self._event(each, at_ms, happening) for each, happening in lost]

    def _reopen(self) -> str | None:
        """Why the library cannot be opened; None once it is."""
        before = self._driver
        try:
            self._driver = open_library()
        except DriverGoneError as error:
            return str(error)
        self._gone = False
        if self._memory is not None:
            self._memory.close()
        self._memory = self._open_memory()
        self._restarts = _restarted(before, self._driver)
        for tracked in self._tracked.values():
            # Handles of the driver before are worth nothing: each device is looked up again, in its reading.
            tracked.device = Device(tracked.found, stale=True)
        return None

    def _take_restarts(self) -> list[tuple[Tracked, Happening]]:
        restarted, self._restarts = self._restarts, None
        return [(each, restarted) for each in self._tracked.values()] if restarted is not None else []

    def _open_memory(self) -> CounterFile | None:
        return CounterFile(self._path, Era(boot_id(), self._driver)) if self._path is not None else None

    def _remember(self) -> Happening | None:
        """Take up the counters of the agent before; an event when the driver is another than it knew."""
        if self._memory is None:
            return None
        kept = self._memory.load(round(self._clock.monotonic_s() * 1_000))
        for uuid, reading in kept.readings.items():
            if uuid in self._tracked:
                self._tracked[uuid].before = reading
        changed = kept.driver is not None and kept.driver != self._driver
        return _restarted(kept.driver, self._driver) if changed else None

    def _save(self) -> None:
        if self._memory is not None:
            known = {uuid: each.before for uuid, each in self._tracked.items() if each.before is not None}
            self._memory.save(known)

    def _event(self, tracked: Tracked, at_ms: int, happening: Happening) -> Row:
        row = self._identity.event(tracked.found, at_ms, happening)
        level = logging.INFO if happening.severity == "info" else logging.WARNING
        facts = {"gpu": tracked.found.uuid, "kind": row["kind"], "why": row["message"]}
        _log.log(level, "GPU state changed", extra=facts)
        return row

    def _note(self, tracked: Tracked, name: str, reason: str) -> None:
        self._counters.add("sampler_errors", sampler="nvml", field=name)
        if (tracked.found.uuid, name) not in self._logged:
            self._logged.add((tracked.found.uuid, name))
            facts = {"gpu": tracked.found.uuid, "field": name, "why": reason}
            _log.info("GPU field is null", extra=facts)

    def _sum_up(self) -> None:
        """Once: how many devices there are, and which fields none of them supports."""
        if self._summed_up:
            return
        self._summed_up = True
        facts = {"gpus": len(self._tracked), "driver": self._driver, "models": ", ".join(self._models())}
        _log.info("sampling GPUs", extra=facts | {"null": "; ".join(self._missing())})

    def _models(self) -> list[str]:
        return sorted({each.found.model or "unknown" for each in self._tracked.values()})

    def _missing(self) -> list[str]:
        """Unsupported fields with the reason, each kind of device once."""
        missing = {
            f"{'MIG ' if each.found.parent_uuid else ''}{each.found.model}: {name} {reason}"
            for each in self._tracked.values()
            for name, reason in each.device.missing().items()
        }
        return sorted(missing)


def _let_go(tracked: Tracked) -> None:
    """Free what the driver holds for it, unless another thread hangs in a call with it."""
    if tracked.state != "hung":
        tracked.device.close()


def _scan_steps() -> dict[str, Callable[[], Any]]:
    """A step for each GPU, so that one that hangs hides no other. ``DriverGoneError`` without a driver."""
    return {f"{SCAN}{index}": partial(inventory.at, index) for index in range(inventory.count())}


def _listed(outcomes: Iterable[Outcome[list[Found]]]) -> list[Found]:
    """What the first scan found. ``DriverGoneError`` when the driver went meanwhile."""
    listed: list[Found] = []
    for index, outcome in enumerate(outcomes):
        if isinstance(outcome, Done):
            listed += outcome.value
        elif isinstance(outcome, Failed):
            raise outcome.error
        else:
            _log.warning("GPU not responding, not sampled", extra={"index": index})
    return listed


def _restarted(before: str | None, now: str | None) -> Happening:
    message = (
        RESTARTED.meaning if before == now else f"{RESTARTED.meaning}: {before or 'unknown'}, now {now or 'unknown'}"
    )
    return Happening("driver_restart", RESTARTED.severity, RESTARTED.action, message)
