"""Table of every field of a GPU sample: its source in NVML, its name in DCGM, and what to beware of.

A field is a sum of groups; a group is a list of options, best first, and the first option of which the GPU supports
anything is read. So one table serves ten years of GPUs. What no option gives is null.

Sources: NVML API reference (NVIDIA; nvml.h as in nvidia-ml-py 13.580), DCGM field identifiers (dcgm_fields.h 4.x).
"""

from __future__ import annotations

from producers.gpu.sources import ALL_LINKS, LINKS_MAX, Call, Gpm, GpuField, Group, Option, Source, Value


def _one(*options: Source) -> tuple[Group, ...]:
    """One group whose options are single sources."""
    return (tuple((source,) for source in options),)


def _links(id: int) -> Option:
    return tuple(Value(id, link) for link in range(LINKS_MAX))


_SW_POWER: Group = ((Value(74, per=1_000),),)
_POWER_BRAKE: Group = ((Value(271, per=1_000),),)
_THERMAL: Group = ((Value(269, per=1_000), Value(270, per=1_000)), (Value(75, per=1_000),))
_BOARD_LIMIT: Group = ((Value(77, per=1_000),),)
_RELIABILITY: Group = ((Value(79, per=1_000),),)

_BYTES_PER_S = 2**42
_ERRORS_PER_S = 1_000_000_000
_US_PER_S = 5_000_000
_MJ_PER_S = 20_000_000

FIELDS: tuple[GpuField, ...] = (
    GpuField(
        "util_gpu_pct",
        "%",
        "gauge",
        _one(Call("util_gpu", "nvmlDeviceGetUtilizationRates")),
        "DCGM_FI_DEV_GPU_UTIL",
        "share of time a kernel ran",
        "one thread is enough for 100 %; not supported while MIG is on",
    ),
    GpuField(
        "util_memory_pct",
        "%",
        "gauge",
        _one(Call("util_memory", "nvmlDeviceGetUtilizationRates")),
        "DCGM_FI_DEV_MEM_COPY_UTIL",
        "share of time memory was read or written",
        "time of the memory controller, not space",
    ),
    GpuField(
        "util_encoder_pct",
        "%",
        "gauge",
        _one(Call("util_encoder", "nvmlDeviceGetEncoderUtilization")),
        "DCGM_FI_DEV_ENC_UTIL",
        "share of time the video encoder worked",
        "read once in ten seconds",
    ),
    GpuField(
        "util_decoder_pct",
        "%",
        "gauge",
        _one(Call("util_decoder", "nvmlDeviceGetDecoderUtilization")),
        "DCGM_FI_DEV_DEC_UTIL",
        "share of time the video decoder worked",
        "read once in ten seconds",
    ),
    GpuField(
        "power_mw",
        "mW",
        "gauge",
        _one(Value(185), Call("power", "nvmlDeviceGetPowerUsage")),
        "DCGM_FI_DEV_POWER_USAGE",
        "power draw, mean of a second",
        "before Ampere and on GA100 the call gives the moment's draw; field 185 is the mean everywhere",
    ),
    GpuField(
        "power_instant_mw",
        "mW",
        "gauge",
        _one(Value(186)),
        "DCGM_FI_DEV_POWER_USAGE_INSTANT",
        "power draw of the moment",
    ),
    GpuField(
        "power_limit_mw",
        "mW",
        "gauge",
        _one(Call("power_limit", "nvmlDeviceGetEnforcedPowerLimit")),
        "DCGM_FI_DEV_ENFORCED_POWER_LIMIT",
        "enforced power limit, the lowest of all that apply",
        "a setting: read once in ten seconds and in every sample",
    ),
    GpuField(
        "temperature_c",
        "C",
        "gauge",
        _one(Call("temperature", "nvmlDeviceGetTemperatureV")),
        "DCGM_FI_DEV_GPU_TEMP",
        "core temperature",
    ),
    GpuField(
        "temperature_memory_c",
        "C",
        "gauge",
        _one(Value(82)),
        "DCGM_FI_DEV_MEMORY_TEMP",
        "memory temperature",
        "a card without the sensor says 0",
        unknown=0,
    ),
    GpuField(
        "temperature_margin_c",
        "C",
        "gauge",
        _one(Call("temperature_margin", "nvmlDeviceGetMarginTemperature")),
        "DCGM_FI_DEV_GPU_TEMP_LIMIT",
        "degrees left until the GPU slows down",
        "read once in ten seconds; older drivers: slowdown threshold minus core temperature",
    ),
    GpuField(
        "clock_sm_mhz",
        "MHz",
        "gauge",
        _one(Call("clock_sm", "nvmlDeviceGetClockInfo")),
        "DCGM_FI_DEV_SM_CLOCK",
        "SM clock",
    ),
    GpuField(
        "clock_memory_mhz",
        "MHz",
        "gauge",
        _one(Call("clock_memory", "nvmlDeviceGetClockInfo")),
        "DCGM_FI_DEV_MEM_CLOCK",
        "memory clock",
        "read once in ten seconds",
    ),
    GpuField(
        "performance_state",
        "",
        "gauge",
        _one(Call("performance_state", "nvmlDeviceGetPerformanceState")),
        "DCGM_FI_DEV_PSTATE",
        "0 fastest to 15 slowest",
        "read once in ten seconds",
        unknown=32,
    ),
    GpuField(
        "sm_active_ppm",
        "ppm",
        "gauge",
        _one(Gpm(2)),
        "DCGM_FI_PROF_SM_ACTIVE",
        "share of SMs with a resident warp",
        "Hopper and newer; not available while a profiler holds the counters",
    ),
    GpuField(
        "sm_occupancy_ppm",
        "ppm",
        "gauge",
        _one(Gpm(3)),
        "DCGM_FI_PROF_SM_OCCUPANCY",
        "resident warps against the most there could be",
    ),
    GpuField(
        "tensor_active_ppm",
        "ppm",
        "gauge",
        _one(Gpm(5)),
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
        "share of cycles the tensor cores worked",
    ),
    GpuField(
        "dram_active_ppm",
        "ppm",
        "gauge",
        _one(Gpm(10)),
        "DCGM_FI_PROF_DRAM_ACTIVE",
        "memory bandwidth used against the most there could be",
    ),
    GpuField(
        "memory_used_bytes",
        "bytes",
        "gauge",
        _one(Call("memory_used", "nvmlDeviceGetMemoryInfo")),
        "DCGM_FI_DEV_FB_USED",
        "memory in use, reserved excluded",
        "version 1 of the call counts what the driver reserves as used; DCGM reports MiB",
    ),
    GpuField(
        "memory_total_bytes",
        "bytes",
        "gauge",
        _one(Call("memory_total", "nvmlDeviceGetMemoryInfo")),
        "DCGM_FI_DEV_FB_TOTAL",
        "physical memory",
        "more than used + free",
    ),
    GpuField(
        "memory_reserved_bytes",
        "bytes",
        "gauge",
        _one(Call("memory_reserved", "nvmlDeviceGetMemoryInfo")),
        "DCGM_FI_DEV_FB_RESERVED",
        "memory that driver and firmware keep",
        "only version 2 of the call has it",
    ),
    GpuField(
        "energy_mj",
        "mJ",
        "counter",
        _one(Value(83), Call("energy", "nvmlDeviceGetTotalEnergyConsumption")),
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        "energy since the driver was loaded",
        "restarts from 0 with the driver",
        _MJ_PER_S,
    ),
    GpuField(
        "throttled_us",
        "us",
        "counter",
        (_SW_POWER, _POWER_BRAKE, _THERMAL, _BOARD_LIMIT, _RELIABILITY),
        None,
        "time clocks were throttled by power, heat, board limit or reliability",
        "causes at the same time are counted once each by NVML: cut to the interval; low utilisation (78) is none",
        _US_PER_S,
    ),
    GpuField(
        "throttled_power_us",
        "us",
        "counter",
        (_SW_POWER, _POWER_BRAKE),
        "DCGM_FI_DEV_POWER_VIOLATION",
        "time clocks were throttled by the power limit or the power brake",
        "NVML and DCGM count nanoseconds",
        _US_PER_S,
    ),
    GpuField(
        "throttled_thermal_us",
        "us",
        "counter",
        (_THERMAL,),
        "DCGM_FI_DEV_THERMAL_VIOLATION",
        "time clocks were throttled by heat",
        "NVML and DCGM count nanoseconds",
        _US_PER_S,
    ),
    GpuField(
        "pcie_tx_bytes",
        "bytes",
        "counter",
        _one(Value(197)),
        "DCGM_FI_PROF_PCIE_TX_BYTES",
        "sent over PCIe",
        "nvmlDeviceGetPcieThroughput blocks 20 ms and is never called",
        _BYTES_PER_S,
    ),
    GpuField(
        "pcie_rx_bytes",
        "bytes",
        "counter",
        _one(Value(198)),
        "DCGM_FI_PROF_PCIE_RX_BYTES",
        "received over PCIe",
        "",
        _BYTES_PER_S,
    ),
    GpuField(
        "pcie_replays",
        "",
        "counter",
        _one(Value(94), Call("pcie_replays", "nvmlDeviceGetPcieReplayCounter")),
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
        "transfers over PCIe that had to be sent again",
        "",
        _ERRORS_PER_S,
    ),
    GpuField(
        "nvlink_tx_bytes",
        "bytes",
        "counter",
        (((Value(138, ALL_LINKS, times=1_024),), (Value(202, ALL_LINKS),), _links(202)),),
        "DCGM_FI_PROF_NVLINK_TX_BYTES",
        "sent over NVLink",
        "KiB up to NVLink 4, bytes on NVLink 5, there by link",
        _BYTES_PER_S,
    ),
    GpuField(
        "nvlink_rx_bytes",
        "bytes",
        "counter",
        (((Value(139, ALL_LINKS, times=1_024),), (Value(204, ALL_LINKS),), _links(204)),),
        "DCGM_FI_PROF_NVLINK_RX_BYTES",
        "received over NVLink",
        "KiB up to NVLink 4, bytes on NVLink 5, there by link",
        _BYTES_PER_S,
    ),
    GpuField(
        "nvlink_errors",
        "",
        "counter",
        (((Value(38), Value(45), Value(52), Value(59)), (Value(208, ALL_LINKS), Value(214, ALL_LINKS)), _links(208)),),
        "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
        "errors on NVLink: CRC, replay and recovery; on NVLink 5 packets received with errors",
        "what counts as an error differs between generations of NVLink",
        _ERRORS_PER_S,
    ),
    GpuField(
        "ecc_corrected",
        "",
        "counter",
        _one(Value(3), Call("ecc_corrected", "nvmlDeviceGetTotalEccErrors")),
        "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
        "memory errors that were corrected",
        "volatile: restarts from 0 with the driver",
        _ERRORS_PER_S,
    ),
    GpuField(
        "ecc_uncorrected",
        "",
        "counter",
        _one(Value(4), Call("ecc_uncorrected", "nvmlDeviceGetTotalEccErrors")),
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
        "memory errors that could not be corrected",
        "volatile: restarts from 0 with the driver",
        _ERRORS_PER_S,
    ),
    GpuField(
        "remapped_rows",
        "",
        "gauge",
        (
            ((Value(142),), (Call("remapped_corrected", "nvmlDeviceGetRemappedRows"),)),
            ((Value(143),), (Call("remapped_uncorrected", "nvmlDeviceGetRemappedRows"),)),
        ),
        "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
        "rows of memory that were replaced, for corrected and uncorrected errors together",
        "DCGM has a second field for the uncorrected ones",
    ),
    GpuField(
        "remapped_rows_pending",
        "",
        "gauge",
        _one(Value(144), Call("remapped_pending", "nvmlDeviceGetRemappedRows")),
        "DCGM_FI_DEV_ROW_REMAP_PENDING",
        "1 when rows wait for a reset of the GPU to be replaced",
    ),
    GpuField(
        "recovery_action",
        "",
        "gauge",
        _one(Value(230)),
        None,
        "what the driver recommends: 0 nothing; see producers.gpu.faults",
    ),
    GpuField(
        "clock_reasons",
        "bits",
        "gauge",
        _one(Call("clock_reasons", "nvmlDeviceGetCurrentClocksEventReasons")),
        "DCGM_FI_DEV_CLOCKS_EVENT_REASONS",
        "why clocks are not higher",
        "1 idle, 2 application clocks, 0x100 display: no throttling",
    ),
)

REMAP_FAILED = Value(145)
"""1 when a row could not be replaced; no field of a sample, but an event."""

BY_NAME = {field.name: field for field in FIELDS}
VALUES: tuple[Value, ...] = tuple(
    dict.fromkeys(
        [source for field in FIELDS for source in field.sources() if isinstance(source, Value)] + [REMAP_FAILED]
    )
)
"""Every NVML field that a sample's fields can be made of, each once."""
COUNTER_KEYS = frozenset(source.key for field in FIELDS if field.nature == "counter" for source in field.sources())
"""Keys of readings that count: they are remembered from one reading to the next."""
GPMS: tuple[int, ...] = tuple(
    dict.fromkeys(source.id for field in FIELDS for source in field.sources() if isinstance(source, Gpm))
)
