"""The NVML stub with what goes wrong: values of recorded GPUs, missing functions, lost and hanging GPUs, no driver.

Values may be changed while a test runs, by GPU.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.nvml_stub import NOT_FOUND, NOT_SUPPORTED, OK, NvmlStub, StubGpu, installed
from tests.nvml_stub import Code as Error

__all__ = ["NOT_FOUND", "NOT_SUPPORTED", "OK", "Error", "FakeGpu", "FakeNvml", "gpus_of", "installed", "mig"]

DUMPS = Path(__file__).parent / "data" / "nvml_dumps"


@dataclass(eq=False)
class FakeGpu(StubGpu):
    """``lost``: the code of every call; ``hangs``: calls wait until it is set; ``called``: the calls made so far."""

    lost: int = OK
    hangs: threading.Event | None = None
    called: list[str] = field(default_factory=list)


def gpus_of(model: str, count: int = 1) -> list[FakeGpu]:
    """GPUs with the values of ``mock_a100``, ``mock_h100`` or ``mock_b200``, each with its own UUID."""
    dump = json.loads((DUMPS / f"{model}.json").read_text())
    calls = {name: _value(value) for name, value in dump.items() if name.startswith("nvmlDevice")}
    fields = dump["nvmlDeviceGetFieldValues(TOTAL_ENERGY,PERF_POLICY_POWER)"]
    return [
        FakeGpu(f"GPU-{number:08d}", dict(calls), {id: _field(code, value) for id, code, value in fields})
        for number in range(count)
    ]


def mig(gpu: FakeGpu, *profiles: str) -> None:
    """Divide the GPU into instances, as the driver shows them: no utilisation, no fields, memory of their own."""
    gpu.calls["nvmlDeviceGetMigMode"] = [1, 1]
    gpu.calls["nvmlDeviceGetUtilizationRates"] = Error(NOT_SUPPORTED)
    for number, profile in enumerate(profiles):
        calls = {
            "nvmlDeviceGetName": f"{gpu.calls['nvmlDeviceGetName']} MIG {profile}",
            "nvmlDeviceGetMemoryInfo": {"total": 10 * 2**30, "free": 9 * 2**30, "used": 2**30, "reserved": 2**20},
        }
        uuid = f"MIG-{gpu.uuid[4:]}-{number}"
        gpu.instances.append(FakeGpu(uuid, calls, instance_id=number + 7, gpm={2: 12.5 * (number + 1)}))


def _value(value: Any) -> Any:
    return Error(NOT_SUPPORTED) if isinstance(value, str) and value.startswith("ERR ") else value


def _field(code: int, value: int) -> int | Error:
    return Error(code) if code else value


class FakeNvml(NvmlStub):
    """``missing`` names C functions that this driver does not have; ``gone`` is the code of a driver that is not there,
    ``init`` what opening the library gives then."""

    def __init__(self, gpus: list[FakeGpu], missing: tuple[str, ...] = ()) -> None:
        super().__init__(gpus)
        self.missing = missing
        self.gone = OK
        self.init = OK

    def __getattr__(self, name: str) -> Callable[..., int]:
        if name in self.missing:
            raise AttributeError(name)
        return super().__getattr__(name)

    def entered(self, name: str, gpu: StubGpu | None) -> int:
        """The first thing that is wrong."""
        self.calls[name] += 1
        if name.startswith("nvmlInit"):
            self.gone = self.init or OK
            return self.init
        if self.gone:
            return self.gone
        if isinstance(gpu, FakeGpu):
            gpu.called.append(name)
            if gpu.hangs is not None:
                gpu.hangs.wait(30)
            return gpu.lost
        return OK

    def _nvmlDeviceGetHandleByUUID(self, uuid: Any, handle: Any) -> int:
        lost = [gpu.lost for gpu in self.gpus if isinstance(gpu, FakeGpu) and gpu.uuid.encode() == uuid.value]
        return (lost[0] if lost else OK) or super()._nvmlDeviceGetHandleByUUID(uuid, handle)
