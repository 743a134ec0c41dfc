"""One GPU, or one MIG instance, as it is read: which figures it gives is found out at the first reading."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pynvml

from producers.gpu.calls import CALLS, NvmlCall, Values
from producers.gpu.field_values import FieldValues
from producers.gpu.fields import FIELDS, VALUES
from producers.gpu.gpm import GpmReader, open_gpm
from producers.gpu.library import REFUSED, GpuLostError, raise_if_gone, why
from producers.gpu.plan import Plan, plan_for
from producers.gpu.rows import Reading, shape_of
from producers.gpu.sources import Call, Gpm

SLOW_MS = 10_000
STAGGER_MS = 1_000
PROBES_MAX = 8
MIG_CALLS = frozenset({"memory_used", "memory_total", "memory_reserved"})
"""All that NVML tells of a MIG instance beside GPM (NVML API reference, "Multi Instance GPU Management")."""


@dataclass(frozen=True, slots=True)
class Found:
    """A device as the driver lists it. A MIG instance has its parent's UUID and handle, its profile and instance."""

    uuid: str
    model: str | None
    handle: Any
    number: int
    parent_uuid: str | None = None
    parent_handle: Any = None
    mig_profile: str | None = None
    instance_id: int | None = None


class Device:
    """Reads one device. For one thread at a time; ``errors`` are those of the last reading, by key."""

    def __init__(self, found: Found, *, stale: bool = False) -> None:
        """``stale``: its handle is of a driver that is no more; it must be looked up before it is read."""
        self.found = found
        self.stale = stale
        self.refused: dict[str, str] = _refused_by_mig() if found.parent_uuid else {}
        self.errors: dict[str, str] = {}
        self._planned_with = len(self.refused)
        self._settings: Values = {}
        self._slow_slot: int | None = None
        self._follow(plan_for(self.refused))
        made = {call.name: call.prepared(found.handle) for call in self._asked} if not stale else {}
        self._prepared = {name: prepared for name, prepared in made.items() if prepared is not None}
        self._gpm: GpmReader | None = None
        self._gpm_opened = False
        self._probed = False

    def read(self, at_ms: int, monotonic_ms: int) -> Reading:
        """All it tells now. The first time it is asked until nothing new is refused.

        ``GpuLostError`` and ``DriverGoneError`` when it does not answer at all.
        """
        self.errors = {}
        values = self._once(at_ms, monotonic_ms)
        for _ in range(0 if self._probed else PROBES_MAX):
            if not self._replan():
                break
            self._slow_slot = None
            values = self._once(at_ms, monotonic_ms)
        self._probed = True
        self._replan()
        if values.keys() <= self._settings.keys():
            raise GpuLostError("it tells nothing any more")
        return Reading(at_ms, monotonic_ms, values)

    def missing(self) -> dict[str, str]:
        """Figures that are always null here, each with the reason."""
        by_name = {field.name: field for field in FIELDS}
        return {
            name: "; ".join(dict.fromkeys(self.refused.get(source.key, "") for source in by_name[name].sources()))
            for name in self.plan.missing
        }

    def close(self) -> None:
        """Give back what the driver holds for it, if it takes it."""
        if self._gpm is not None:
            with contextlib.suppress(pynvml.NVMLError):
                self._gpm.close()

    def _once(self, at_ms: int, monotonic_ms: int) -> Values:
        values: Values = {}
        for call in self._due(at_ms):
            self._ask(call, values)
        values |= self._settings
        values |= self._read_fields()
        values |= self._read_gpm(monotonic_ms)
        return values

    def _due(self, at_ms: int) -> tuple[NvmlCall, ...]:
        slot = (at_ms + self.found.number * STAGGER_MS) // SLOW_MS
        slow = slot != self._slow_slot
        self._slow_slot = slot
        return self._asked if slow else self._every

    def _ask(self, call: NvmlCall, values: Values) -> None:
        """By the call made ready; a driver that refuses it may know an older way."""
        prepared = self._prepared.get(call.name)
        code = pynvml.NVML_ERROR_NOT_SUPPORTED if prepared is None else prepared.into(values)
        if code in REFUSED:
            self._prepared.pop(call.name, None)
            values |= self._call(call)
        elif code:
            self._judge(call.keys, code)

    def _call(self, call: NvmlCall) -> Values:
        try:
            values = call.read(self.found.handle)
        except pynvml.NVMLError as error:
            self._judge(call.keys, error.value)
            return {}
        for key in call.keys if len(values) < len(call.keys) else ():
            if key not in values:
                self.refused[key] = "not told by this driver's version of the call"
        if call.pace == "setting":
            self._settings |= values
        return values

    def _read_fields(self) -> Values:
        try:
            values, failed = self._fields.read(self.found.handle)
        except pynvml.NVMLError as error:
            self._judge(self._fields.keys, error.value)
            return {}
        self._judge_parts(failed)
        return values

    def _read_gpm(self, monotonic_ms: int) -> Values:
        if not self.plan.gpms:
            return {}
        if not self._gpm_opened:
            self._gpm_opened = True
            self._gpm = open_gpm(self.found.parent_handle or self.found.handle, self.found.instance_id)
        if self._gpm is None:
            self._judge(tuple(self._gpm_keys.values()), pynvml.NVML_ERROR_NOT_SUPPORTED)
            return {}
        try:
            means, failed = self._gpm.read(self.plan.gpms, monotonic_ms)
        except pynvml.NVMLError as error:
            self._judge(tuple(self._gpm_keys.values()), error.value)
            return {}
        keys = self._gpm_keys
        self._judge_parts({keys[id]: code for id, code in failed.items()})
        return {keys[id]: mean for id, mean in means.items()}

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
        """Plan anew with what was refused since; whether that changes what is read."""
        if len(self.refused) == self._planned_with:
            return False
        self._planned_with = len(self.refused)
        plan = plan_for(self.refused)
        if plan == self.plan:
            return False
        self._follow(plan)
        return True

    def _follow(self, plan: Plan) -> None:
        self.plan, self.shape = plan, shape_of(plan.parts)
        self._asked = tuple(call for call in CALLS if plan.calls.intersection(call.keys))
        self._every = tuple(call for call in self._asked if call.pace == "every")
        self._fields = FieldValues(plan.values)
        self._gpm_keys = {id: Gpm(id).key for id in plan.gpms}


def _refused_by_mig() -> dict[str, str]:
    calls = {source.key for field in FIELDS for source in field.sources() if isinstance(source, Call)}
    keys = {value.key for value in VALUES} | (calls - MIG_CALLS)
    return dict.fromkeys(sorted(keys), "not told of a MIG instance")
