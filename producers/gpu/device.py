"""Read one GPU or MIG instance; its supported fields are found at the first reading."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pynvml

from producers.gpu.calls import CALLS, CCall, NvmlCall, Together, Values, codes_of, together
from producers.gpu.field_values import FieldValues, GpmReader, open_gpm
from producers.gpu.fields import FIELDS, GROWTH_KEYS, VALUES, WINDOW_KEYS, Call, Gpm, shared_plan
from producers.gpu.library import REFUSED, GpuLostError, raise_if_gone, why
from producers.gpu.rows import Reading, Shape, shape_of
from schemas.limits import WINDOW_MS

SLOW_MS = 10_000
STAGGER_MS = 1_000
PROBES_MAX = 8
MIG_CALLS = frozenset({"memory_used", "memory_total", "memory_reserved"})
"""All that NVML reports of a MIG instance beside GPM (NVML API reference, "Multi Instance GPU Management")."""


@dataclass(frozen=True, slots=True)
class Found:
    """A device as the driver lists it. A MIG instance has its parent's UUID and handle, its profile and instance.

    Of a GPU: ``mig``, whether it was in MIG mode; ``lists_all``: False when a call that says so, or lists its
    instances, failed and may succeed the next time.
    """

    uuid: str
    model: str | None
    handle: Any
    number: int
    parent_uuid: str | None = None
    parent_handle: Any = None
    mig_profile: str | None = None
    instance_id: int | None = None
    mig: bool = False
    lists_all: bool = True


@dataclass(frozen=True, slots=True)
class Due:
    """Calls of one reading: those that are made together, those that pynvml makes, and the one for all fields.
    ``settings``: keys to keep.
    """

    ready: tuple[NvmlCall, ...]
    together: Together
    unready: tuple[NvmlCall, ...]
    settings: tuple[str, ...]
    fields: FieldValues


@dataclass(frozen=True, slots=True)
class RawReading:
    """The driver's return codes of one reading: calls, fields, GPM. The values are in the buffers."""

    at_ms: int
    monotonic_ms: int
    due: Due
    calls: list[int]
    fields: list[int]
    gpm: list[int]


class Device:
    """Reads one device. For one thread at a time; ``errors`` are those of the last reading, by key.

    ``read`` is ``poll`` and ``decode``: ``poll`` makes all calls that may hang, ``decode`` only reads the buffers.
    """

    def __init__(self, found: Found, *, stale: bool = False) -> None:
        """``stale``: its handle is of a driver that is no more; it must be looked up before it is read."""
        self.found = found
        self.stale = stale
        self.refused: dict[str, str] = _refused_by_mig() if found.parent_uuid else {}
        self.errors: dict[str, str] = {}
        self._planned_with = len(self.refused)
        self._settings: Values = {}
        self._slow_slot: int | None = None
        self._read_ms: int | None = None
        self._window_read = 0
        self._ready = frozenset[str]() if stale else frozenset(call.name for call in CALLS if call.is_ready())
        self._follow(frozenset(self.refused))
        self._gpm: GpmReader | None = None
        self._gpm_opened = False
        self._probed = False

    def read(self, at_ms: int, monotonic_ms: int) -> Reading:
        """Its values now. The first reading is repeated until no further field is refused.

        ``GpuLostError`` and ``DriverGoneError`` when it does not answer at all.
        """
        raw = self.poll(at_ms, monotonic_ms)
        return self.decode(raw) if isinstance(raw, RawReading) else raw

    def poll(self, at_ms: int, monotonic_ms: int) -> RawReading | Reading:
        """What ``decode`` makes a reading of; the reading itself where it takes more than prepared calls.

        Raises as ``read``.
        """
        if self._probed and not self._dues[True, True].unready:
            self.errors = {}
            return self._poll(at_ms, monotonic_ms)
        self.errors = {}
        values = self._values(self._poll(at_ms, monotonic_ms))
        for _ in range(0 if self._probed else PROBES_MAX):
            if not self._replan():
                break
            self._slow_slot = self._read_ms = None
            values = self._values(self._poll(at_ms, monotonic_ms))
        self._probed = True
        return self._reading(at_ms, monotonic_ms, values)

    def decode(self, raw: RawReading) -> Reading:
        """The reading. Raises as ``read``."""
        return self._reading(raw.at_ms, raw.monotonic_ms, self._values(raw))

    def _reading(self, at_ms: int, monotonic_ms: int, values: Values) -> Reading:
        self._replan()
        if values.keys() <= self._settings.keys():
            raise GpuLostError("it returns no values any more")
        return Reading(at_ms, monotonic_ms, values)

    def missing(self) -> dict[str, str]:
        """Fields that are always null here, each with the reason."""
        by_name = {field.name: field for field in FIELDS}
        return {
            name: "; ".join(dict.fromkeys(self.refused.get(source.key, "") for source in by_name[name].sources()))
            for name in self.plan.missing
        }

    def close(self) -> None:
        """Free what the driver holds for it, once, as far as the driver still answers."""
        gpm, self._gpm = self._gpm, None
        if gpm is not None:
            with contextlib.suppress(pynvml.NVMLError):
                gpm.close()

    def _poll(self, at_ms: int, monotonic_ms: int) -> RawReading:
        """All calls that are ready, one after another."""
        due = self._due(at_ms)
        fields, gpm = self._calls_of_fields(due), self._calls_of_gpm(monotonic_ms)
        codes = codes_of((*due.together.c_calls, *fields, *gpm))
        if gpm and not codes[-1] and self._gpm is not None:
            codes += codes_of(self._gpm.compares())
        of_calls, of_fields = len(due.ready), len(due.ready) + len(fields)
        return RawReading(at_ms, monotonic_ms, due, codes[:of_calls], codes[of_calls:of_fields], codes[of_fields:])

    def _values(self, raw: RawReading) -> Values:
        values: Values = {}
        self._take_calls(raw.due, raw.calls, values)
        values |= self._settings
        if raw.fields:
            self._take_fields(raw.due.fields, raw.fields[0], values)
        if raw.gpm:
            self._take_gpm(raw.gpm, values)
        return values

    def _due(self, at_ms: int) -> Due:
        slot = (at_ms + self.found.number * STAGGER_MS) // SLOW_MS
        slow = slot != self._slow_slot
        self._slow_slot = slot
        return self._dues[slow, self._ends_window(at_ms)]

    def _ends_window(self, at_ms: int) -> bool:
        """Whether the next reading should lie in another window, or the last one of the window before was left out; at
        the first reading too. Readings come some milliseconds behind their tick: a quarter of a step is allowed for."""
        step_ms, window = (None if self._read_ms is None else at_ms - self._read_ms), at_ms // WINDOW_MS
        self._read_ms = at_ms
        if step_ms is None or not 0 < step_ms * 5 // 4 < WINDOW_MS - at_ms % WINDOW_MS:
            self._window_read = window
            return True
        missed = self._window_read < window - 1
        self._window_read = max(self._window_read, window - 1)
        return missed

    def _take_calls(self, due: Due, codes: list[int], values: Values) -> None:
        """Their values. A refused call is tried in an older version, as are calls that are not prepared: at once in the
        first reading, later in the next one."""
        values |= due.together.decode()
        refused = list[NvmlCall]()
        for call, code in zip(due.ready, codes, strict=True) if any(codes) else ():
            if not code:
                continue
            for key in call.keys:
                del values[key]
            if code in REFUSED:
                refused.append(call)
            else:
                self._judge(call.keys, code)
        if refused:
            self._ready -= {call.name for call in refused}
            self._sort_calls()
        for call in (*due.unready, *(refused if not self._probed else ())):
            values |= self._call(call)
        for key in due.settings:
            if key in values:
                self._settings[key] = values[key]

    def _call(self, call: NvmlCall) -> Values:
        try:
            values = call.read(self.found.handle)
        except pynvml.NVMLError as error:
            self._judge(call.keys, error.value)
            return {}
        for key in call.keys if len(values) < len(call.keys) else ():
            if key not in values:
                self.refused[key] = "not returned by this driver's version of the call"
        return values

    def _calls_of_fields(self, due: Due) -> tuple[CCall, ...]:
        try:
            return due.fields.c_calls(self.found.handle)
        except pynvml.NVMLError as error:
            self._judge(due.fields.keys, error.value)
            return ()

    def _take_fields(self, fields: FieldValues, code: int, values: Values) -> None:
        if code:
            self._judge(fields.keys, code)
            return
        known, failed = fields.decode()
        values |= known
        self._judge_parts(failed)

    def _calls_of_gpm(self, monotonic_ms: int) -> tuple[CCall, ...]:
        if not self.plan.gpms:
            return ()
        if not self._gpm_opened:
            self._gpm_opened = True
            self._gpm = open_gpm(self.found.parent_handle or self.found.handle, self.found.instance_id)
        try:
            if self._gpm is not None:
                return self._gpm.c_calls(self.plan.gpms, monotonic_ms)
            code = pynvml.NVML_ERROR_NOT_SUPPORTED
        except pynvml.NVMLError as error:
            code = error.value
        self._judge(tuple(self._gpm_keys.values()), code)
        return ()

    def _take_gpm(self, codes: list[int], values: Values) -> None:
        assert self._gpm is not None
        keys = self._gpm_keys
        if any(codes):
            self._judge(tuple(keys.values()), next(code for code in codes if code))
            return
        means, failed = self._gpm.decode()
        values |= {keys[id]: mean for id, mean in means.items()}
        self._judge_parts({keys[id]: code for id, code in failed.items()})

    def _judge_parts(self, failed: Mapping[str, int]) -> None:
        """Parts of a call that went well as a whole: of their codes only the plainest says that the GPU is gone."""
        for key, code in failed.items():
            self._judge((key,), code, whole=code == pynvml.NVML_ERROR_GPU_IS_LOST)

    def _judge(self, keys: tuple[str, ...], code: int, *, whole: bool = True) -> None:
        if whole:
            raise_if_gone(code)
        reason = why(code)
        if code in REFUSED:
            self.refused |= dict.fromkeys(keys, reason)
        self.errors |= dict.fromkeys(keys, reason)

    def _replan(self) -> bool:
        """Plan again without what was refused since; True when that changes what is read."""
        if len(self.refused) == self._planned_with:
            return False
        self._planned_with = len(self.refused)
        refused = frozenset(self.refused)
        if shared_plan(refused) == self.plan:
            return False
        self._follow(refused)
        return True

    def _follow(self, refused: frozenset[str]) -> None:
        plan = shared_plan(refused)
        self.plan, self.shape = plan, _shape(refused)
        self._planned = tuple(call for call in CALLS if plan.calls.intersection(call.keys))
        every = [value for value in plan.values if value.key not in WINDOW_KEYS]
        self._fields = {False: FieldValues(every), True: FieldValues(plan.values)}
        self._sort_calls()
        self._gpm_keys = {id: Gpm(id).key for id in plan.gpms}

    def _sort_calls(self) -> None:
        """By whether slow values are due, and whether the reading is the last of its window."""
        self._dues = {(slow, window): self._due_of(slow, window) for slow in (False, True) for window in (False, True)}

    def _due_of(self, slow: bool, window: bool) -> Due:
        paces = {"every"} | ({"slow", "setting"} if slow else set()) | ({"window"} if window else set())
        calls = [call for call in self._planned if call.pace in paces]
        ready = tuple(call for call in calls if call.name in self._ready)
        return Due(
            ready=ready,
            together=together(ready, self.found.handle),
            unready=tuple(call for call in calls if call.name not in self._ready),
            settings=tuple(key for call in calls if call.pace == "setting" for key in call.keys),
            fields=self._fields[window],
        )


@lru_cache(maxsize=64)
def _shape(refused: frozenset[str]) -> Shape:
    return shape_of(shared_plan(refused).parts)


def _refused_by_mig() -> dict[str, str]:
    calls = {source.key for field in FIELDS for source in field.sources() if isinstance(source, Call)}
    keys = {value.key for value in VALUES} | (calls - MIG_CALLS)
    # GPM's traffic over PCIe is the whole GPU's, by whichever instance it is asked.
    return dict.fromkeys(sorted(keys | GROWTH_KEYS), "not reported for a MIG instance")
