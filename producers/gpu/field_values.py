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

_ENTRY = "IIqqIIQ"
"""nvmlFieldValue_t: fieldId, scopeId, timestamp, latencyUsec, valueType, nvmlReturn, value (nvml.h). Little-endian, as
every machine with such a driver is."""
_KIND, _CODE, _VALUE, _MEMBERS = 4, 5, 6, 7
_MARKERS_FROM = 2**62
"""Values from here on are words for "not available" (nvml.h and DCGM use several), never amounts."""
_NOT_AVAILABLE_32 = 0xFFFF_FFFF


class FieldValues:
    """An array for ``values``, used again at each reading. For one thread at a time."""

    def __init__(self, values: Sequence[Value]) -> None:
        self.keys = tuple(value.key for value in values)
        self._scaled = tuple((value.key, value.times, value.per) for value in values if value.times != value.per)
        self._layout = struct.Struct("<" + _ENTRY * len(values))
        self._array = (pynvml.c_nvmlFieldValue_t * len(values))()
        self._arguments = (ctypes.c_int(len(values)), ctypes.byref(self._array))
        self._kinds: tuple[int, ...] = ()
        self._odd: tuple[tuple[str, int], ...] = ()
        for entry, value in zip(self._array, values, strict=True):
            entry.fieldId, entry.scopeId = value.id, value.scope

    def read(self, handle: Any) -> tuple[dict[str, int], dict[str, int]]:
        """Amounts in our units by key, and the codes of those that failed; what the driver has not to tell is in
        neither. ``NVMLError`` when the call as a whole fails.
        """
        if not self.keys:
            return {}, {}
        code = pynvml._nvmlGetFunctionPointer("nvmlDeviceGetFieldValues")(handle, *self._arguments)
        if code != pynvml.NVML_SUCCESS:
            raise pynvml.NVMLError(code)
        told = self._layout.unpack(self._array)
        codes, raws = told[_CODE::_MEMBERS], told[_VALUE::_MEMBERS]
        values, failed = dict(zip(self.keys, raws, strict=True)), dict[str, int]()
        if any(codes):
            failed = {key: code for key, code in zip(self.keys, codes, strict=True) if code}
            values = {key: raw for key, raw in values.items() if key not in failed}
        self._take_kinds(told[_KIND::_MEMBERS])
        for key, kind in self._odd:
            if key in values:
                _put(values, key, _amount(kind, values[key]))
        if any(raw >= _MARKERS_FROM for raw in raws):
            values = {key: value for key, value in values.items() if value < _MARKERS_FROM}
        for key, times, per in self._scaled:
            if key in values:
                values[key] = values[key] * times // per
        return values, failed

    def _take_kinds(self, kinds: tuple[int, ...]) -> None:
        """Which values are no plain 64 bits; a driver hardly ever changes its mind about that."""
        if kinds != self._kinds:
            self._kinds = kinds
            pairs = zip(self.keys, kinds, strict=True)
            self._odd = tuple((key, kind) for key, kind in pairs if kind != pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG)


def _put(values: dict[str, int], key: str, amount: int | None) -> None:
    if amount is None:
        del values[key]
    else:
        values[key] = amount


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
