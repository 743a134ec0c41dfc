"""DCGM collector: reads dcgm-exporter's page and emits rows of ``gpu.samples``, and of ``gpu.events`` for XIDs.

The exporter samples GPUs on its own interval, 30 s by default. Until a GPU's values change, its rows hold gauges only;
the next row covers all the time since. So does the first row after the exporter was silent, also where the collector
was made anew meanwhile: what its counters grew by belongs to the time in which nobody could read them.

The page keeps the last XID for ever, so an event is emitted when it changes, and never for a GPU that was not seen
before. The same XID twice in a row, and all but the last of several between two readings, cannot be seen on this page.
That a GPU answers (``gpu_found``) is said once: where it comes without an XID, as it does when the machine or the agent
has started again, and where that of one that had fallen off the bus is gone.

Rows have no columns for pod, namespace and container: an event's message names them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from producers.collector import Collected, FieldErrors, Identity, Row, reserved_bytes
from producers.dcgm.fields import ENERGY, SAMPLE_FIELDS, XID, GpuOnPage, read_page
from producers.differences import INTERVAL_MS_MAX
from producers.engines.fetch import Fetch, FetchError, FetchLimits, fetch
from producers.gpu.faults import xid
from producers.gpu.scraped_rows import Reading, counters, sample_rows
from runtime.clock import Clock, SystemClock
from runtime.counters import COUNTERS, Counters
from schemas.events.event_types import GPU_EVENTS, GPU_SAMPLES

_log = logging.getLogger(__name__)

LIMITS = FetchLimits(time_ms=2_000, bytes_max=8 * 1024 * 1024)
OFF_THE_BUS = 79
STALE_MS = 60_000
"""Values unchanged for this long mean an idle GPU, not a page that was not refreshed; but for a GPU that counts its
energy: that grows as long as the page is refreshed."""
FAILURES_MAX = 10
"""Failed scrapes in a row after which the collector fails; the agent restarts it."""
FORGET_MS = 3_600_000


@dataclass(slots=True)
class SeenGpu:
    """State kept of one GPU. ``shown``: the values of its last page."""

    shown: dict[str, int]
    seen_ms: int
    before: Reading
    xid: int | None = None

    def stands_still(self, values: dict[str, int], monotonic_ms: int) -> bool:
        """Whether these are the values of the last page, which may not have been refreshed since."""
        interval_ms = monotonic_ms - self.before.monotonic_ms
        still_ms = INTERVAL_MS_MAX if values.get(ENERGY) else STALE_MS - 1
        return self.shown == values and interval_ms <= still_ms


class DcgmCollector:
    """One page per tick. Raises ``FetchError`` after ``FAILURES_MAX`` failures in a row; else they are counted."""

    name = "dcgm"

    def __init__(
        self,
        url: str,
        identity: Identity,
        period_ms: int,
        *,
        seen: dict[str, SeenGpu] | None = None,
        fetch: Fetch = fetch,
        clock: Clock | None = None,
        counters: Counters = COUNTERS,
    ) -> None:
        """``seen``: GPUs by UUID as the collector before left them, to go on from; it is kept up to date."""
        self.period_ms = period_ms
        self._url = url
        self._identity = identity
        self._fetch = fetch
        self._clock = clock or SystemClock()
        self._errors = FieldErrors("dcgm", GPU_SAMPLES, counters)
        self._gpus = {} if seen is None else seen
        self._failures = 0

    def collect(self, at_ms: int) -> Sequence[Collected]:
        """Events first: they say why samples look as they do."""
        moment_ms = round(self._clock.monotonic_s() * 1_000)
        text = self._page()
        if text is None:
            return []
        page = read_page(text)
        for reason, times in page.left_out.items():
            self._errors.count(reason, times)
        events: list[Row] = []
        samples: list[Row] = []
        for gpu in (gpu for gpu in page.gpus.values() if gpu.values):
            events += self._events(gpu, at_ms)
            samples += self._samples(gpu, Reading(at_ms, moment_ms, gpu.values))
        self._forget(moment_ms)
        return [part for part in (Collected(GPU_EVENTS, events), Collected(GPU_SAMPLES, samples)) if part.rows]

    def close(self) -> None:
        """Nothing is held open between two pages."""

    def _page(self) -> str | None:
        try:
            body = self._fetch(self._url, LIMITS)
        except FetchError as error:
            self._failures += 1
            self._errors.count(error.reason)
            if self._failures >= FAILURES_MAX:
                raise
            return None
        self._failures = 0
        return body.decode("utf-8", "replace")

    def _samples(self, gpu: GpuOnPage, now: Reading) -> list[Row]:
        known = self._gpus.get(gpu.uuid)
        if known is None:
            rows = sample_rows(SAMPLE_FIELDS, None, now)
            self._gpus[gpu.uuid] = SeenGpu(gpu.values, now.monotonic_ms, counters(None, now), gpu.values.get(XID))
        elif known.stands_still(gpu.values, now.monotonic_ms):
            rows = sample_rows(SAMPLE_FIELDS, None, now)
            known.seen_ms = now.monotonic_ms
        else:
            rows = sample_rows(SAMPLE_FIELDS, known.before, now)
            known.shown, known.seen_ms, known.before = gpu.values, now.monotonic_ms, counters(known.before, now)
        identity = self._of(gpu)
        if gpu.parent_uuid is not None:
            identity |= {"parent_uuid": gpu.parent_uuid, "mig_profile": gpu.mig_profile}
        share_ppm = self._identity.reserved_ppm(gpu.uuid)
        return [identity | reserved_bytes(row, share_ppm) | self._errors.checked(row) for row in rows]

    def _events(self, gpu: GpuOnPage, at_ms: int) -> list[Row]:
        """Called before ``_samples``: it needs to know whether the GPU was there before."""
        known, code = self._gpus.get(gpu.uuid), gpu.values.get(XID)
        if known is None:
            return [self._found(gpu, at_ms)] if code == 0 else []
        if code is None or code == known.xid:
            return []
        found = [self._found(gpu, at_ms)] if known.xid == OFF_THE_BUS else []
        known.xid = code
        return found + ([self._of_xid(gpu, code, at_ms)] if code != 0 else [])

    def _found(self, gpu: GpuOnPage, at_ms: int) -> Row:
        event = {"kind": "gpu_found", "severity": "info", "action": "none", "message": "the GPU answers again"}
        return {"at_ms": at_ms} | self._of(gpu) | event

    def _of_xid(self, gpu: GpuOnPage, code: int, at_ms: int) -> Row:
        fault = xid(code)
        message = f"XID {code}: {fault.meaning}" + (f"; held by pod {gpu.holder}" if gpu.holder else "")
        _log.warning("GPU reported an XID", extra={"gpu": gpu.uuid, "code": code, "why": fault.meaning})
        event = {"kind": "xid", "severity": fault.severity, "action": fault.action, "code": code, "message": message}
        return {"at_ms": at_ms} | self._of(gpu) | event

    def _of(self, gpu: GpuOnPage) -> dict[str, Any]:
        placement = self._identity.placement.get(gpu.uuid) or self._identity.placement.get(gpu.parent_uuid or "", {})
        known = {"origin": "measured", "gpu_uuid": gpu.uuid, "gpu_model": gpu.model}
        if not placement.get("placement_group") and (group := self._group_of_instances(gpu.uuid)) is not None:
            placement = {**placement, "placement_group": group}
        return known | dict(self._identity.labels) | dict(placement)

    def _group_of_instances(self, uuid: str) -> str | None:
        """A divided GPU and its instances are of one group; None where theirs are not known, or several."""
        placement = self._identity.placement
        groups = {placement[name].get("placement_group") for name in placement if name.startswith(f"{uuid}/")}
        return groups.pop() if len(groups) == 1 else None

    def _forget(self, moment_ms: int) -> None:
        for uuid in [uuid for uuid, gpu in self._gpus.items() if moment_ms - gpu.seen_ms > FORGET_MS]:
            del self._gpus[uuid]
