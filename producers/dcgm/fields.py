"""DCGM fields, which of them make each field of ``gpu.samples``, and pages of dcgm-exporter as values by GPU. Pure.

Sources: the field list of dcgm-exporter (default-counters.csv), HELP texts of its pages, dcgm_fields.h (DCGM 4).

A GPU's energy, violations and error counts are totals since the driver or the host engine began; they have no suffix
``_total``. ``DCGM_FI_PROF_*_BYTES`` are bytes per second although the field list calls them counters: they are taken
only where the page itself types them ``gauge``.

A GPU is identified by its UUID; a MIG instance, which has none on the page, by the GPU's UUID and its instance number.
Of an instance are its memory and its shares of time (``OF_INSTANCE``); all else that the exporter prints for each of
them (power, energy, XID) is the whole GPU's and stands there, once. An instance's utilisation is not measured: it is
printed as 0, and not taken.
Where pods share a GPU, the exporter repeats every sample for each of them: the first counts.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from producers.exposition import Sample, parse
from producers.gpu.fields import ERRORS_PER_S, MJ_PER_S
from producers.gpu.scraped_rows import Nature, SampleField

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


def _dev(name: str, times: int = 1, per: int = 1, **how: Any) -> DcgmField:
    return DcgmField(f"DCGM_FI_DEV_{name}", times, per, **how)


def _prof(name: str, times: int = 1, **how: Any) -> DcgmField:
    return DcgmField(f"DCGM_FI_PROF_{name}", times, **how)


def _sample(name: str, *sources: DcgmField, otherwise: tuple[DcgmField, ...] = (), **how: Any) -> _Row:
    nature: Nature = "counter" if sources[0].counter else "rate" if sources[0].only_as_gauge else "gauge"
    first, second = (tuple(each.name for each in some) for some in (sources, otherwise))
    return SampleField(name, nature, first, second, **how), (*sources, *otherwise)


_Row = tuple[SampleField, tuple[DcgmField, ...]]
_USED, _FREE, _RESERVED = (_dev(f"FB_{part}", MIB) for part in ("USED", "FREE", "RESERVED"))
"""In MiB, whatever the help texts of some versions say."""
_VIOLATIONS = tuple(
    _dev(f"{cause}_VIOLATION", per=1_000, counter=True) for cause in ("POWER", "THERMAL", "BOARD_LIMIT", "RELIABILITY")
)
_LINK_ERRORS = tuple(
    _dev(f"NVLINK_{kind}_ERROR_COUNT_TOTAL", counter=True) for kind in ("CRC_FLIT", "CRC_DATA", "REPLAY", "RECOVERY")
)

_ENERGY = _dev("TOTAL_ENERGY_CONSUMPTION", counter=True)
ENERGY = _ENERGY.name
"""Since the driver was loaded; what the exporter or its host engine do leaves it as it is."""

_TABLE: tuple[_Row, ...] = (
    # A MIG instance, and a page without the first, have the share of time that the graphics engine was active.
    _sample("util_gpu_pct", _dev("GPU_UTIL"), otherwise=(_prof("GR_ENGINE_ACTIVE", 100),)),
    _sample("util_memory_pct", _dev("MEM_COPY_UTIL")),
    _sample("util_encoder_pct", _dev("ENC_UTIL")),
    _sample("util_decoder_pct", _dev("DEC_UTIL")),
    _sample("power_mw", _dev("POWER_USAGE", 1_000)),
    _sample("power_instant_mw", _dev("POWER_USAGE_INSTANT", 1_000)),
    _sample("power_limit_mw", _dev("ENFORCED_POWER_LIMIT", 1_000), otherwise=(_dev("POWER_MGMT_LIMIT", 1_000),)),
    _sample("temperature_c", _dev("GPU_TEMP", signed=True)),
    # A card without the sensor says 0.
    _sample("temperature_memory_c", _dev("MEMORY_TEMP", signed=True, zero_is_unknown=True)),
    _sample("temperature_margin_c", _dev("GPU_TEMP_LIMIT", signed=True)),
    _sample("clock_sm_mhz", _dev("SM_CLOCK")),
    _sample("clock_memory_mhz", _dev("MEM_CLOCK")),
    _sample("performance_state", _dev("PSTATE", high=15)),  # 32 is "unknown"
    # The second is its name until DCGM 3.3.
    _sample("clock_reasons", _dev("CLOCKS_EVENT_REASONS"), otherwise=(_dev("CLOCK_THROTTLE_REASONS"),)),
    _sample("sm_active_ppm", _prof("SM_ACTIVE", 1_000_000)),
    _sample("sm_occupancy_ppm", _prof("SM_OCCUPANCY", 1_000_000)),
    _sample("tensor_active_ppm", _prof("PIPE_TENSOR_ACTIVE", 1_000_000)),
    _sample("dram_active_ppm", _prof("DRAM_ACTIVE", 1_000_000)),
    _sample("memory_used_bytes", _USED),
    _sample("memory_total_bytes", _dev("FB_TOTAL", MIB), otherwise=(_FREE, _USED, _RESERVED)),
    _sample("memory_reserved_bytes", _RESERVED),
    _sample("energy_mj", _ENERGY, most_per_s=MJ_PER_S),
    _sample("throttled_us", *_VIOLATIONS, partial=True),
    # Under power DCGM counts the limit and the brake as one: the brake is an event of its clock reasons alone.
    _sample("throttled_fault_us", *_VIOLATIONS[1:], partial=True),
    _sample("throttled_power_us", _VIOLATIONS[0]),
    _sample("throttled_thermal_us", _VIOLATIONS[1]),
    _sample("pcie_tx_bytes", _prof("PCIE_TX_BYTES", only_as_gauge=True)),
    _sample("pcie_rx_bytes", _prof("PCIE_RX_BYTES", only_as_gauge=True)),
    _sample("nvlink_tx_bytes", _prof("NVLINK_TX_BYTES", only_as_gauge=True)),
    _sample("nvlink_rx_bytes", _prof("NVLINK_RX_BYTES", only_as_gauge=True)),
    _sample("pcie_replays", _dev("PCIE_REPLAY_COUNTER", counter=True), most_per_s=ERRORS_PER_S),
    _sample("pcie_generation", _dev("PCIE_LINK_GEN")),
    _sample("pcie_generation_max", _dev("PCIE_MAX_LINK_GEN")),
    _sample("pcie_width", _dev("PCIE_LINK_WIDTH")),
    _sample("pcie_width_max", _dev("PCIE_MAX_LINK_WIDTH")),
    _sample("nvlink_errors", *_LINK_ERRORS, partial=True, most_per_s=ERRORS_PER_S),
    _sample("ecc_corrected", _dev("ECC_SBE_VOL_TOTAL", counter=True), most_per_s=ERRORS_PER_S),
    _sample("ecc_uncorrected", _dev("ECC_DBE_VOL_TOTAL", counter=True), most_per_s=ERRORS_PER_S),
    _sample("remapped_rows", _dev("CORRECTABLE_REMAPPED_ROWS"), _dev("UNCORRECTABLE_REMAPPED_ROWS")),
    _sample("remapped_rows_pending", _dev("ROW_REMAP_PENDING")),
)
SAMPLE_FIELDS: tuple[SampleField, ...] = tuple(sample for sample, _ in _TABLE)
FIELDS: Mapping[str, DcgmField] = MappingProxyType(
    {field.name: field for _, sources in _TABLE for field in (*sources, DcgmField(XID))}
)
OF_INSTANCE = frozenset(
    name for name in FIELDS if name.startswith(("DCGM_FI_DEV_FB_", "DCGM_FI_PROF_")) and not FIELDS[name].only_as_gauge
)
"""What is measured of a MIG instance itself: bytes over PCIe and NVLink are the whole GPU's."""
NOT_WITH_MIG = frozenset(name for name in FIELDS if name.startswith("DCGM_FI_DEV_") and name.endswith("_UTIL"))

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


_TYPED_GAUGE = re.compile(r"^# TYPE (\S+) gauge\s*$", re.MULTILINE)
GPUS_MAX = 1_024
"""GPUs and MIG parts of one page; more are left out, and counted."""


@dataclass(slots=True)
class GpuOnPage:
    """``values`` by DCGM field in our units, known ones only. ``holder``: the pod that has it, as a text."""

    uuid: str
    model: str | None
    parent_uuid: str | None = None
    mig_profile: str | None = None
    holder: str | None = None
    values: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Page:
    """GPUs by UUID in the order of the page; and what was left out, by reason."""

    gpus: Mapping[str, GpuOnPage]
    left_out: Mapping[str, int]


def read_page(text: str) -> Page:
    """The page's values. Names without a mapping are ignored."""
    scrape = parse(text)
    gauges = frozenset(_TYPED_GAUGE.findall(text))
    left_out = Counter[str](f"line: {bad.reason}" for bad in scrape.bad)
    gpus: dict[str, GpuOnPage] = {}
    for sample in scrape.samples:
        dcgm = FIELDS.get(sample.name)
        if dcgm is None or (dcgm.only_as_gauge and sample.name not in gauges):
            continue
        if sample.name in NOT_WITH_MIG and sample.labels.get("GPU_I_ID"):
            continue
        gpu = _gpu_of(gpus, sample)
        if gpu is None:
            left_out["no UUID"] += 1
        elif (value := in_our_unit(dcgm, sample.value)) is not None:
            gpu.values.setdefault(sample.name, value)
    for uuid in list(gpus)[GPUS_MAX:]:
        del gpus[uuid]
        left_out["too many GPUs"] += 1
    return Page(gpus, left_out)


def _gpu_of(gpus: dict[str, GpuOnPage], sample: Sample) -> GpuOnPage | None:
    labels = sample.labels
    parent = labels.get("UUID")
    if not parent:
        return None
    printed_for = labels.get("GPU_I_ID") or None
    part = printed_for if sample.name in OF_INSTANCE else None
    uuid = parent if part is None else f"{parent}/{part}"
    found = gpus.get(uuid)
    if found is None:
        found = gpus[uuid] = GpuOnPage(uuid, labels.get("modelName") or None)
        if part is not None:
            found.parent_uuid, found.mig_profile = parent, labels.get("GPU_I_PROFILE") or None
    if part == printed_for:
        found.holder = found.holder or _holder(labels)
    return found


def _holder(labels: Mapping[str, str]) -> str | None:
    pod = labels.get("pod")
    if not pod:
        return None
    container = labels.get("container")
    return f"{labels.get('namespace') or '?'}/{pod}" + (f" ({container})" if container else "")
