"""DCGM fields, and which of them make each field of ``gpu.samples``. Pure.

Sources: the field list of dcgm-exporter (default-counters.csv), HELP texts of its pages, dcgm_fields.h (DCGM 4).

A GPU's energy, violations and error counts are totals since the driver or the host engine began; they have no suffix
``_total``. ``DCGM_FI_PROF_*_BYTES`` are bytes per second although the field list calls them counters: they are taken
only where the page itself types them ``gauge``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from producers.gpu.scraped_rows import SampleField

MIB = 1_048_576
XID = "DCGM_FI_DEV_XID_ERRORS"
"""Sticky: the last XID, never set back."""


@dataclass(frozen=True, slots=True)
class DcgmField:
    """``value * times / per`` is in our unit. ``signed``: below 0 is a value, too; ``high``: above is none.
    ``zero_is_unknown``: 0 says that there is no sensor. ``only_as_gauge``: taken where the page types it so."""

    name: str
    times: int = 1
    per: int = 1
    zero_is_unknown: bool = False
    signed: bool = False
    counter: bool = False
    only_as_gauge: bool = False
    high: int | None = None


_TABLE = (
    DcgmField("DCGM_FI_DEV_GPU_UTIL"),
    DcgmField("DCGM_FI_DEV_MEM_COPY_UTIL"),
    DcgmField("DCGM_FI_DEV_ENC_UTIL"),
    DcgmField("DCGM_FI_DEV_DEC_UTIL"),
    DcgmField("DCGM_FI_DEV_POWER_USAGE", times=1_000),
    DcgmField("DCGM_FI_DEV_POWER_USAGE_INSTANT", times=1_000),
    DcgmField("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", times=1_000),
    DcgmField("DCGM_FI_DEV_POWER_MGMT_LIMIT", times=1_000),
    DcgmField("DCGM_FI_DEV_GPU_TEMP", signed=True),
    DcgmField("DCGM_FI_DEV_MEMORY_TEMP", signed=True, zero_is_unknown=True),  # a card without the sensor says 0
    DcgmField("DCGM_FI_DEV_GPU_TEMP_LIMIT", signed=True),
    DcgmField("DCGM_FI_DEV_SM_CLOCK"),
    DcgmField("DCGM_FI_DEV_MEM_CLOCK"),
    DcgmField("DCGM_FI_DEV_PSTATE", high=15),  # 32 is "unknown"
    DcgmField("DCGM_FI_DEV_CLOCKS_EVENT_REASONS"),
    DcgmField("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"),  # its name until DCGM 3.3
    DcgmField("DCGM_FI_PROF_SM_ACTIVE", times=1_000_000),
    DcgmField("DCGM_FI_PROF_SM_OCCUPANCY", times=1_000_000),
    DcgmField("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", times=1_000_000),
    DcgmField("DCGM_FI_PROF_DRAM_ACTIVE", times=1_000_000),
    # MiB, whatever the help texts of some versions say.
    DcgmField("DCGM_FI_DEV_FB_TOTAL", times=MIB),
    DcgmField("DCGM_FI_DEV_FB_FREE", times=MIB),
    DcgmField("DCGM_FI_DEV_FB_USED", times=MIB),
    DcgmField("DCGM_FI_DEV_FB_RESERVED", times=MIB),
    DcgmField("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", counter=True),
    DcgmField("DCGM_FI_DEV_POWER_VIOLATION", per=1_000, counter=True),
    DcgmField("DCGM_FI_DEV_THERMAL_VIOLATION", per=1_000, counter=True),
    DcgmField("DCGM_FI_DEV_BOARD_LIMIT_VIOLATION", per=1_000, counter=True),
    DcgmField("DCGM_FI_DEV_RELIABILITY_VIOLATION", per=1_000, counter=True),
    DcgmField("DCGM_FI_PROF_PCIE_TX_BYTES", only_as_gauge=True),
    DcgmField("DCGM_FI_PROF_PCIE_RX_BYTES", only_as_gauge=True),
    DcgmField("DCGM_FI_PROF_NVLINK_TX_BYTES", only_as_gauge=True),
    DcgmField("DCGM_FI_PROF_NVLINK_RX_BYTES", only_as_gauge=True),
    DcgmField("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", counter=True),
    DcgmField("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", counter=True),
    DcgmField("DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", counter=True),
    DcgmField("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", counter=True),
    DcgmField("DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", counter=True),
    DcgmField("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", counter=True),
    DcgmField("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", counter=True),
    DcgmField("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS"),
    DcgmField("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS"),
    DcgmField("DCGM_FI_DEV_ROW_REMAP_PENDING"),
    DcgmField(XID),
)
FIELDS: Mapping[str, DcgmField] = MappingProxyType({field.name: field for field in _TABLE})


def _dev(*names: str) -> tuple[str, ...]:
    return tuple(f"DCGM_FI_DEV_{name}" for name in names)


def _prof(*names: str) -> tuple[str, ...]:
    return tuple(f"DCGM_FI_PROF_{name}" for name in names)


_ERRORS_PER_S = 1_000_000_000
_LINK_ERRORS = tuple(f"NVLINK_{kind}_ERROR_COUNT_TOTAL" for kind in ("CRC_FLIT", "CRC_DATA", "REPLAY", "RECOVERY"))
_VIOLATIONS = _dev("POWER_VIOLATION", "THERMAL_VIOLATION", "BOARD_LIMIT_VIOLATION", "RELIABILITY_VIOLATION")

SAMPLE_FIELDS: tuple[SampleField, ...] = (
    SampleField("util_gpu_pct", "gauge", _dev("GPU_UTIL")),
    SampleField("util_memory_pct", "gauge", _dev("MEM_COPY_UTIL")),
    SampleField("util_encoder_pct", "gauge", _dev("ENC_UTIL")),
    SampleField("util_decoder_pct", "gauge", _dev("DEC_UTIL")),
    SampleField("power_mw", "gauge", _dev("POWER_USAGE")),
    SampleField("power_instant_mw", "gauge", _dev("POWER_USAGE_INSTANT")),
    SampleField("power_limit_mw", "gauge", _dev("ENFORCED_POWER_LIMIT"), _dev("POWER_MGMT_LIMIT")),
    SampleField("temperature_c", "gauge", _dev("GPU_TEMP")),
    SampleField("temperature_memory_c", "gauge", _dev("MEMORY_TEMP")),
    SampleField("temperature_margin_c", "gauge", _dev("GPU_TEMP_LIMIT")),
    SampleField("clock_sm_mhz", "gauge", _dev("SM_CLOCK")),
    SampleField("clock_memory_mhz", "gauge", _dev("MEM_CLOCK")),
    SampleField("performance_state", "gauge", _dev("PSTATE")),
    SampleField("clock_reasons", "gauge", _dev("CLOCKS_EVENT_REASONS"), _dev("CLOCK_THROTTLE_REASONS")),
    SampleField("sm_active_ppm", "gauge", _prof("SM_ACTIVE")),
    SampleField("sm_occupancy_ppm", "gauge", _prof("SM_OCCUPANCY")),
    SampleField("tensor_active_ppm", "gauge", _prof("PIPE_TENSOR_ACTIVE")),
    SampleField("dram_active_ppm", "gauge", _prof("DRAM_ACTIVE")),
    SampleField("memory_used_bytes", "gauge", _dev("FB_USED")),
    SampleField("memory_total_bytes", "gauge", _dev("FB_TOTAL"), _dev("FB_FREE", "FB_USED", "FB_RESERVED")),
    SampleField("memory_reserved_bytes", "gauge", _dev("FB_RESERVED")),
    SampleField("energy_mj", "counter", _dev("TOTAL_ENERGY_CONSUMPTION"), most_per_s=20_000_000),
    SampleField("throttled_us", "counter", _VIOLATIONS, partial=True),
    SampleField("throttled_power_us", "counter", _dev("POWER_VIOLATION")),
    SampleField("throttled_thermal_us", "counter", _dev("THERMAL_VIOLATION")),
    SampleField("pcie_tx_bytes", "rate", _prof("PCIE_TX_BYTES")),
    SampleField("pcie_rx_bytes", "rate", _prof("PCIE_RX_BYTES")),
    SampleField("nvlink_tx_bytes", "rate", _prof("NVLINK_TX_BYTES")),
    SampleField("nvlink_rx_bytes", "rate", _prof("NVLINK_RX_BYTES")),
    SampleField("pcie_replays", "counter", _dev("PCIE_REPLAY_COUNTER"), most_per_s=_ERRORS_PER_S),
    SampleField("nvlink_errors", "counter", _dev(*_LINK_ERRORS), partial=True, most_per_s=_ERRORS_PER_S),
    SampleField("ecc_corrected", "counter", _dev("ECC_SBE_VOL_TOTAL"), most_per_s=_ERRORS_PER_S),
    SampleField("ecc_uncorrected", "counter", _dev("ECC_DBE_VOL_TOTAL"), most_per_s=_ERRORS_PER_S),
    SampleField("remapped_rows", "gauge", _dev("CORRECTABLE_REMAPPED_ROWS", "UNCORRECTABLE_REMAPPED_ROWS")),
    SampleField("remapped_rows_pending", "gauge", _dev("ROW_REMAP_PENDING")),
)

INT32_BLANK = 2_147_483_632
INT64_BLANK = 9_223_372_036_854_775_792
FP64_BLANK = 140_737_488_355_328
_REASONS = 4
"""A blank says why it is one: blank, not found, not supported, not permitted."""


def is_blank(value: float, *, counter: bool) -> bool:
    """True for DCGM's "no value" markers (dcgm_structs.h). A 64-bit counter may pass the 32-bit ones."""
    if value >= INT64_BLANK or FP64_BLANK <= value < FP64_BLANK + _REASONS:
        return True
    return not counter and INT32_BLANK <= value < INT32_BLANK + _REASONS


def in_our_unit(field: DcgmField, value: float) -> int | None:
    """The value of a sample; None where it is a blank, no finite number, or nothing that the field can be."""
    if not math.isfinite(value) or is_blank(value, counter=field.counter):
        return None
    if (value < 0 and not field.signed) or (value == 0 and field.zero_is_unknown):
        return None
    if field.high is not None and value > field.high:
        return None
    return value * field.times // field.per if isinstance(value, int) else round(value * field.times / field.per)
