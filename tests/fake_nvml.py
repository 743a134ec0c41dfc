"""An NVML library in Python, below the real ``pynvml``: its attributes are the C functions, its values a dump's.

``pynvml`` calls them with ctypes arguments; each fills what it was given and returns a code. Values may be changed
while a test runs, by GPU.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pynvml

DUMPS = Path(__file__).parent / "data" / "nvml_dumps"
NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED
OK = pynvml.NVML_SUCCESS


@dataclass
class FakeGpu:
    """``calls`` are by the C function's name without version; ``fields`` by NVML field id. An ``Error`` is raised."""

    uuid: str
    calls: dict[str, Any]
    fields: dict[int, int | Exception]
    lost: int = OK
    asked: list[str] = field(default_factory=list)


class Error(Exception):
    """Stands for a return code."""

    def __init__(self, code: int) -> None:
        self.code = code


def gpus_of(model: str, count: int = 1) -> list[FakeGpu]:
    """GPUs with the values of ``mock_a100``, ``mock_h100`` or ``mock_b200``, each with its own UUID."""
    dump = json.loads((DUMPS / f"{model}.json").read_text())
    calls = {name: _value(value) for name, value in dump.items() if name.startswith("nvmlDevice")}
    fields = dump["nvmlDeviceGetFieldValues(TOTAL_ENERGY,PERF_POLICY_POWER)"]
    return [
        FakeGpu(f"GPU-{number:08d}", dict(calls), {id: _field(code, value) for id, code, value in fields})
        for number in range(count)
    ]


def _value(value: Any) -> Any:
    return Error(NOT_SUPPORTED) if isinstance(value, str) and value.startswith("ERR ") else value


def _field(code: int, value: int) -> int | Exception:
    return Error(code) if code else value


class FakeNvml:
    """``missing`` names C functions that this driver does not have."""

    def __init__(self, gpus: list[FakeGpu], missing: tuple[str, ...] = ()) -> None:
        self.gpus = gpus
        self.missing = missing

    def __getattr__(self, name: str) -> Callable[..., int]:
        if name in self.missing:
            raise AttributeError(name)
        own = getattr(type(self), f"_{name}", None)
        return partial(own, self) if own else self._device_call(name)

    def _nvmlInitWithFlags(self, _flags: int) -> int:
        return OK

    def _nvmlInit_v2(self) -> int:
        return OK

    def _nvmlShutdown(self) -> int:
        return OK

    def _nvmlErrorString(self, code: Any) -> bytes:
        return b"error %d" % code

    def _nvmlDeviceGetCount_v2(self, count: Any) -> int:
        count._obj.value = len(self.gpus)
        return OK

    def _nvmlDeviceGetHandleByIndex_v2(self, index: Any, handle: Any) -> int:
        return self._hand(handle, index.value)

    def _nvmlDeviceGetHandleByUUID(self, uuid: Any, handle: Any) -> int:
        index = next(n for n, gpu in enumerate(self.gpus) if gpu.uuid.encode() == uuid.value)
        return self.gpus[index].lost or self._hand(handle, index)

    def _hand(self, handle: Any, index: int) -> int:
        # Addresses from 1 on stand for the GPUs; nothing ever follows them.
        handle._obj.contents = ctypes.cast(index + 1, pynvml.c_nvmlDevice_t).contents
        return OK

    def _gpu(self, handle: Any) -> FakeGpu:
        address = ctypes.cast(handle, ctypes.c_void_p).value
        assert address is not None
        return self.gpus[address - 1]

    def _nvmlDeviceGetUUID(self, handle: Any, buffer: Any, _size: Any) -> int:
        buffer.value = self._gpu(handle).uuid.encode()
        return OK

    def _nvmlDeviceGetName(self, handle: Any, buffer: Any, _size: Any) -> int:
        buffer.value = self._gpu(handle).calls["nvmlDeviceGetName"].encode()
        return OK

    def _nvmlDeviceGetFieldValues(self, handle: Any, count: Any, values: Any) -> int:
        gpu = self._gpu(handle)
        gpu.asked.append("nvmlDeviceGetFieldValues")
        if gpu.lost:
            return gpu.lost
        for answer in values._obj[: count.value]:
            value = gpu.fields.get(answer.fieldId, Error(NOT_SUPPORTED))
            answer.nvmlReturn = value.code if isinstance(value, Error) else OK
            if not isinstance(value, Exception):
                answer.valueType = pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG
                answer.value.ullVal = value
        return OK

    def _device_call(self, name: str) -> Callable[..., int]:
        def call(handle: Any, *arguments: Any) -> int:
            gpu = self._gpu(handle)
            gpu.asked.append(name)
            if gpu.lost:
                return gpu.lost
            value = gpu.calls.get(_KNOWN_AS.get(name, name), Error(NOT_SUPPORTED))
            if isinstance(value, Error):
                return value.code
            _fill(arguments[-1]._obj, value)
            return OK

        return call


_KNOWN_AS = {
    "nvmlDeviceGetMemoryInfo_v2": "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetTemperatureV": "nvmlDeviceGetTemperature",
    "nvmlDeviceGetCurrentClocksEventReasons": "nvmlDeviceGetCurrentClocksThrottleReasons",
}


def _fill(target: Any, value: Any) -> None:
    if isinstance(value, dict):
        for name, part in value.items():
            setattr(target, name, part)
    elif hasattr(target, "temperature"):
        target.temperature = value
    else:
        target.value = value


@contextmanager
def installed(library: FakeNvml) -> Iterator[FakeNvml]:
    """``pynvml`` on this library."""
    before = pynvml.nvmlLib
    pynvml.nvmlLib = library
    pynvml._nvmlGetFunctionPointer_cache.clear()
    try:
        yield library
    finally:
        pynvml.nvmlLib = before
        pynvml._nvmlGetFunctionPointer_cache.clear()
