from __future__ import annotations

import ctypes
from typing import Any

import pynvml
import pytest

from producers.gpu.calls import CALLS, NvmlCall, codes_of, together
from producers.gpu.device import Device, Found, RawReading
from tests import nvml_stub

READY = [call for call in CALLS if call.raw is not None]


def handle_and_found() -> Found:
    pynvml.nvmlInit()
    return Found("GPU-1", "H100", pynvml.nvmlDeviceGetHandleByIndex(0), 0)


@pytest.mark.parametrize("call", READY, ids=[call.name for call in READY])
def test_a_prepared_call_returns_what_pynvml_returns(call: NvmlCall) -> None:
    """Its buffer is read as bytes: the layout must be that of nvml.h, and it must be filled at each call."""
    gpus = nvml_stub.gpus(1)
    with nvml_stub.installed(nvml_stub.NvmlStub(gpus)):
        handle = handle_and_found().handle
        assert call.is_ready()
        assert call.raw is not None
        ready = together([call], handle)

        assert call.raw.layout.size == ctypes.sizeof(call.raw.made())
        assert (codes_of(ready.c_calls), ready.decode()) == ([0], call.read(handle))
        gpus[0].calls |= {
            "nvmlDeviceGetUtilizationRates": {"gpu": 7, "memory": 3},
            "nvmlDeviceGetTemperature": -5,
            "nvmlDeviceGetMarginTemperature": {"marginTemperature": -3},
        }
        assert (codes_of(ready.c_calls), ready.decode()) == ([0], call.read(handle))


def test_calls_that_are_made_together_are_decoded_together() -> None:
    """Each number under its own key, whatever lies before it in memory."""
    with nvml_stub.installed(nvml_stub.NvmlStub(nvml_stub.gpus(1))) as stub:
        handle = handle_and_found().handle
        ready = together(READY, handle)
        values = {key: value for call in READY for key, value in call.read(handle).items()}
        stub.calls.clear()

        assert (codes_of(ready.c_calls), ready.decode()) == ([0] * len(READY), values)
        assert (sum(stub.calls.values()), len(values)) == (len(READY), 18)


class OlderDriver(nvml_stub.NvmlStub):
    """Has none of the newest calls for temperature and memory, and refuses that for clock reasons."""

    def __getattr__(self, name: str) -> Any:
        if name in ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetMemoryInfo_v2"):
            raise AttributeError(name)
        return super().__getattr__(name)

    def _nvmlDeviceGetCurrentClocksEventReasons(self, _handle: Any, _reasons: Any) -> int:
        return nvml_stub.NOT_SUPPORTED


def test_an_older_driver_is_called_in_its_own_way() -> None:
    """What cannot be prepared, or is refused, is called by pynvml; what the older call lacks is null."""
    with nvml_stub.installed(OlderDriver(nvml_stub.gpus(1))):
        device = Device(handle_and_found())
        device.read(1_000, 1_000)
        values = device.read(2_000, 2_000).values

    assert (values["temperature"], values["memory_used"], values["clock_reasons"]) == (58, 80 * 10**9, 4)
    assert "memory_reserved" not in values
    assert "memory_reserved_bytes" in device.missing()


def test_a_call_that_fails_now_and_then_stays_ready() -> None:
    """An error that is no refusal is kept, and the field is missing this once."""
    gpus = nvml_stub.gpus(1)
    with nvml_stub.installed(nvml_stub.NvmlStub(gpus)):
        device = Device(handle_and_found())
        device.read(1_000, 1_000)
        gpus[0].calls["nvmlDeviceGetClockInfo"] = nvml_stub.Code(pynvml.NVML_ERROR_UNKNOWN)
        without, errors = device.read(2_000, 2_000).values, device.errors
        gpus[0].calls["nvmlDeviceGetClockInfo"] = 1_500

        assert ("clock_sm" in without, set(errors) & {"clock_sm"}) == (False, {"clock_sm"})
        assert device.read(3_000, 3_000).values["clock_sm"] == 1_500


def test_a_driver_that_refuses_later_is_called_in_an_older_way_from_then_on() -> None:
    """The field is missing once; the older call is made in the reading itself, which may take its time."""

    class Refusing(nvml_stub.NvmlStub):
        refuses = False

        def _nvmlDeviceGetCurrentClocksEventReasons(self, handle: Any, reasons: Any) -> int:
            if self.refuses:
                return nvml_stub.NOT_SUPPORTED
            reasons._obj.value = self._gpu(handle).calls["nvmlDeviceGetCurrentClocksThrottleReasons"]
            return nvml_stub.OK

    with nvml_stub.installed(Refusing(nvml_stub.gpus(1))) as stub:
        device = Device(handle_and_found())
        device.read(1_000, 1_000)
        stub.refuses = True
        raw = device.poll(2_000, 2_000)
        assert isinstance(raw, RawReading)
        reading = device.decode(raw)
        later = device.poll(3_000, 3_000)

    assert "clock_reasons" not in reading.values
    assert not isinstance(later, RawReading)
    assert later.values["clock_reasons"] == 4
    assert "clock_reasons" not in device.refused
