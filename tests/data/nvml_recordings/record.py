"""Records one NVIDIA GPU as this folder's README says: ``python record.py FILE`` beside the driver, with PyTorch and
nvidia-ml-py. Takes 75 seconds, and the whole GPU.
"""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pynvml as nvml

PHASES = ("idle1", "bf16", "fp8", "copy", "h2d", "d2h", "duty", "idle2")
PHASE_S, LEFT_OUT_S = 9, 4
"""Seconds of a phase; the first few are left out, and the last, after which nvidia-smi sees the next phase."""
SIDE = 8_192
FIELDS = (
    *(1, 3, 4, 38, 45, 52, 59, 74, 75, 77, 78, 79, 82, 83, 94, 138, 139, 142, 143, 144, 145),
    *range(185, 199),
    *(202, 204, 208, 214, 230, 269, 270, 271),
)
METRICS = (*range(1, 14), 20, 21, 60, 61, 248, 249, 250)
SMI = (
    "timestamp,utilization.gpu,utilization.memory,memory.used,memory.total,memory.reserved,power.draw,power.draw.average,"
    "power.draw.instant,enforced.power.limit,temperature.gpu,temperature.memory,temperature.gpu.tlimit,clocks.current.sm,"
    "clocks.current.memory,pstate,clocks_event_reasons.active,clocks_event_reasons_counters.sw_power_cap,"
    "clocks_event_reasons_counters.hw_thermal_slowdown,clocks_event_reasons_counters.sw_thermal_slowdown,"
    "clocks_event_reasons_counters.hw_power_brake_slowdown,pcie.link.gen.gpucurrent,pcie.link.width.current,"
    "utilization.encoder,utilization.decoder"
)
CALLS: dict[str, tuple[Any, ...]] = {
    "nvmlDeviceGetClockInfo(MEM)": (nvml.NVML_CLOCK_MEM,),
    "nvmlDeviceGetClockInfo(SM)": (nvml.NVML_CLOCK_SM,),
    "nvmlDeviceGetComputeRunningProcesses_v3": (),
    "nvmlDeviceGetCurrPcieLinkGeneration": (),
    "nvmlDeviceGetCurrPcieLinkWidth": (),
    "nvmlDeviceGetCurrentClocksEventReasons": (),
    "nvmlDeviceGetDecoderUtilization": (),
    "nvmlDeviceGetEncoderUtilization": (),
    "nvmlDeviceGetEnforcedPowerLimit": (),
    "nvmlDeviceGetMarginTemperature": (),
    "nvmlDeviceGetMaxPcieLinkGeneration": (),
    "nvmlDeviceGetMaxPcieLinkWidth": (),
    "nvmlDeviceGetMemoryInfo": (nvml.nvmlMemory_v2,),
    "nvmlDeviceGetMigMode": (),
    "nvmlDeviceGetName": (),
    "nvmlDeviceGetPcieReplayCounter": (),
    "nvmlDeviceGetPerformanceState": (),
    "nvmlDeviceGetPowerUsage": (),
    "nvmlDeviceGetRemappedRows": (),
    "nvmlDeviceGetSupportedEventTypes": (),
    "nvmlDeviceGetTemperature": (nvml.NVML_TEMPERATURE_GPU,),
    "nvmlDeviceGetTotalEccErrors(CORRECTED)": (nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, nvml.NVML_VOLATILE_ECC),
    "nvmlDeviceGetTotalEccErrors(UNCORRECTED)": (nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC),
    "nvmlDeviceGetTotalEnergyConsumption": (),
    "nvmlDeviceGetUtilizationRates": (),
}
Work = Callable[[], float]
"""Does some of it, and returns how much."""


def works() -> dict[str, Work]:
    """By phase; all memory is taken before the first."""
    import torch

    a, b = (torch.randn(SIDE, SIDE, device="cuda", dtype=torch.bfloat16) for _ in "ab")
    a8, b8 = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn).t().contiguous().t()
    one = torch.ones((), device="cuda")
    large, other = (torch.empty(4 << 30, dtype=torch.uint8, device="cuda") for _ in "ab")
    host = torch.empty(1 << 30, dtype=torch.uint8, pin_memory=True)
    there = large[: 1 << 30]

    def bf16() -> float:
        for _ in range(20):
            torch.matmul(a, b)
        torch.cuda.synchronize()
        return 20 * 2.0 * SIDE**3

    def fp8() -> float:
        for _ in range(20):
            torch._scaled_mm(a8, b8, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
        torch.cuda.synchronize()
        return 20 * 2.0 * SIDE**3

    def copy() -> float:
        for _ in range(5):
            other.copy_(large)
        torch.cuda.synchronize()
        return 5 * 2.0 * large.numel()

    def moved(to: Any, source: Any) -> float:
        to.copy_(source, non_blocking=True)
        torch.cuda.synchronize()
        return float(source.numel())

    def duty() -> float:
        until, done = time.monotonic() + 0.1, 0.0
        while time.monotonic() < until:
            done += bf16()
        time.sleep(0.1)
        return done

    return {
        "bf16": bf16,
        "fp8": fp8,
        "copy": copy,
        "h2d": lambda: moved(there, host),
        "d2h": lambda: moved(host, there),
        "duty": duty,
    }


def load(phase: Any, ready: Any, file: str) -> None:
    """Work as the phase says, and write down how much was done until when."""
    every = works()
    for work in every.values():
        work()
    ready.set()
    with Path(file).open("w", buffering=1) as out:
        while (name := PHASES[phase.value]) != "idle2":
            if name in every:
                amount = every[name]()
                out.write(json.dumps([time.time(), name, amount]) + "\n")
            else:
                time.sleep(0.05)


def plain(value: Any) -> Any:
    """A return value without what names the machine's processes."""
    if isinstance(value, list) and value and hasattr(value[0], "pid"):
        fields = ("usedGpuMemory", "gpuInstanceId", "computeInstanceId")
        return [str({"pid": 1234, **{name: getattr(each, name) for name in fields}}) for each in value]
    if isinstance(value, nvml._PrintableStructure):
        return {name: getattr(value, name) for name, _ in value._fields_}
    return list(value) if isinstance(value, tuple) else value


def calls(device: Any) -> dict[str, Any]:
    found = {}
    for name, arguments in CALLS.items():
        function = getattr(nvml, name.partition("(")[0], None)
        if function is not None:
            try:
                found[name] = plain(function(device, *arguments))
            except nvml.NVMLError as error:
                found[name] = {"error": error.value}
    return found


def fields(device: Any) -> list[tuple[int, int, int, int]]:
    return [
        (each.fieldId, each.valueType, each.nvmlReturn, each.value.ullVal if each.nvmlReturn == 0 else 0)
        for each in nvml.nvmlDeviceGetFieldValues(device, list(FIELDS))
    ]


def gpm(before: Any, after: Any) -> list[tuple[int, int, float | None]]:
    asked = nvml.c_nvmlGpmMetricsGet_t()
    asked.version, asked.numMetrics = nvml.NVML_GPM_METRICS_GET_VERSION, len(METRICS)
    asked.sample1, asked.sample2 = before, after
    for place, metric in enumerate(METRICS):
        asked.metrics[place].metricId = metric
    nvml.nvmlGpmMetricsGet(asked)
    got = [asked.metrics[place] for place in range(len(METRICS))]
    return [(each.metricId, each.nvmlReturn, each.value if each.nvmlReturn == 0 else None) for each in got]


def record(device: Any, phase: Any) -> list[dict[str, Any]]:
    found, samples = list[dict[str, Any]](), [nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()]
    begin = int(time.time()) + 2
    for second in range(PHASE_S * len(PHASES)):
        phase.value = second // PHASE_S
        time.sleep(max(0.0, begin + second - time.time()))
        nvml.nvmlGpmSampleGet(device, samples[1])
        if LEFT_OUT_S <= second % PHASE_S < PHASE_S - 1:
            at = {"phase": PHASES[phase.value], "at_ms": (begin + second) * 1_000}
            read = {"calls": calls(device), "fields": fields(device), "gpm": gpm(*samples)}
            found.append(at | {"done": None} | read)
        samples.reverse()
    return found


def add_work(readings: list[dict[str, Any]], file: str) -> None:
    """What was done in the second before each; a piece of work counts evenly over the time since the last one's end."""
    done = [json.loads(line) for line in Path(file).read_text().splitlines()]
    for reading in readings:
        stop, amount = reading["at_ms"] / 1_000, 0.0
        for (begun, *_), (ended, name, much) in pairwise(done):
            if name == reading["phase"] and ended > begun:
                amount += much * max(0.0, min(ended, stop) - max(begun, stop - 1)) / (ended - begun)
        if amount:
            unit = "bytes" if reading["phase"] in ("copy", "h2d", "d2h") else "flop"
            reading["done"] = {"amount": amount, "unit": unit}


def add_smi(readings: list[dict[str, Any]], lines: list[str]) -> None:
    names, *rows = [[cell.strip() for cell in line.split(",")] for line in lines if line.strip()]
    at = [time.mktime(time.strptime(row[0][:19], "%Y/%m/%d %H:%M:%S")) + float(row[0][19:]) for row in rows]
    for reading in readings:
        wanted = reading["at_ms"] / 1_000
        place = bisect_left(at, wanted)
        nearest = min(range(max(0, place - 1), min(len(at), place + 1)), key=lambda each: abs(at[each] - wanted))
        reading["nvidia_smi"] = dict(zip(names, rows[nearest], strict=True))


def main() -> None:
    nvml.nvmlInit()
    device = nvml.nvmlDeviceGetHandleByIndex(0)
    spawn = multiprocessing.get_context("spawn")
    phase, ready = spawn.Value("i", 0), spawn.Event()
    with tempfile.TemporaryDirectory() as folder:
        done = str(Path(folder) / "done")
        loading = spawn.Process(target=load, args=(phase, ready, done))
        loading.start()
        if not ready.wait(180):
            sys.exit("the load did not begin")
        told = subprocess.Popen(
            ["nvidia-smi", f"--query-gpu={SMI}", "--format=csv", "-lms", "500"], stdout=subprocess.PIPE, text=True
        )
        try:
            readings = record(device, phase)
        finally:
            told.terminate()
            loading.join(20)
        add_work(readings, done)
        add_smi(readings, told.communicate()[0].splitlines())
    lines = (json.dumps(each, separators=(",", ":"), sort_keys=False) for each in readings)
    Path(sys.argv[1]).write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main()
