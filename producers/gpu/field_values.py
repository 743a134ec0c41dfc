"""Many NVML fields in one call, read out of the driver's array without an object per field.

``pynvml.nvmlDeviceGetFieldValues`` makes the array and its entries anew at each call; here it is made once for a plan.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Sequence
from typing import Any

import pynvml

from producers.gpu.sources import Value

_ENTRY = struct.Struct("<IIqqIIQ")
"""nvmlFieldValue_t: fieldId, scopeId, timestamp, latencyUsec, valueType, nvmlReturn, value (nvml.h). Little-endian, as
every machine with such a driver is."""
_MARKERS_FROM = 2**62
"""Values from here on are words for "not available" (nvml.h and DCGM use several), never amounts."""
_NOT_AVAILABLE_32 = 0xFFFF_FFFF


class FieldValues:
    """An array for ``values``, used again at each reading. For one thread at a time."""

    def __init__(self, values: Sequence[Value]) -> None:
        self.keys = tuple(value.key for value in values)
        self._scales = tuple((value.times, value.per) for value in values)
        self._array = (pynvml.c_nvmlFieldValue_t * len(values))()
        for entry, value in zip(self._array, values, strict=True):
            entry.fieldId, entry.scopeId = value.id, value.scope

    def read(self, handle: Any) -> tuple[dict[str, int], dict[str, int]]:
        """Amounts in our units by key, and the codes of those that failed; what the driver has not to tell is in
        neither. ``NVMLError`` when the call as a whole fails.
        """
        values: dict[str, int] = {}
        failed: dict[str, int] = {}
        if not self.keys:
            return values, failed
        call = pynvml._nvmlGetFunctionPointer("nvmlDeviceGetFieldValues")
        code = call(handle, ctypes.c_int(len(self.keys)), ctypes.byref(self._array))
        if code != pynvml.NVML_SUCCESS:
            raise pynvml.NVMLError(code)
        entries = _ENTRY.iter_unpack(self._array)
        for key, (times, per), (_, _, _, _, kind, code, raw) in zip(self.keys, self._scales, entries, strict=True):
            if code:
                failed[key] = code
                continue
            amount = raw if kind == pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG else _amount(kind, raw)
            if amount is not None and amount < _MARKERS_FROM:
                values[key] = amount * times // per
        return values, failed


def _amount(kind: int, raw: int) -> int | None:
    """The number in the union's 8 bytes, by nvmlValueType_t; None when it is not one."""
    if kind == pynvml.NVML_VALUE_TYPE_UNSIGNED_INT:
        low = raw & 0xFFFF_FFFF
        return None if low == _NOT_AVAILABLE_32 else low
    layout = _LAYOUTS.get(kind)
    if layout is None:
        return None
    number = struct.unpack_from(layout, raw.to_bytes(8, "little"))[0]
    return int(number) if math.isfinite(number) else None


_LAYOUTS = {
    pynvml.NVML_VALUE_TYPE_DOUBLE: "<d",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "<Q",
    pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "<q",
    pynvml.NVML_VALUE_TYPE_SIGNED_INT: "<i",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_SHORT: "<H",
}
