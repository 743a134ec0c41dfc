"""Columns to query from nvidia-smi, and which of them make each field of ``gpu.samples``. Pure.

Source: ``nvidia-smi --help-query-gpu`` of drivers 590 and 595. A driver that does not know a column rejects the whole
query and names it: the column is then queried by its older name, or left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from producers.gpu.scraped_rows import SampleField

UUID, NAME = "uuid", "name"


@dataclass(frozen=True, slots=True)
class Column:
    """``name`` as in the query and the header, without the unit. ``unit``: ours; "" is a plain number.

    ``words`` are what it says instead of numbers; ``older`` its name in drivers before.
    """

    name: str
    unit: str = ""
    words: Mapping[str, int] = field(default_factory=dict)
    older: str | None = None


_P_STATES = {f"P{state}": state for state in range(16)}
_YES_NO = {"No": 0, "Yes": 1}
_RECOVERY = {"None": 0, "Reset": 1, "Reboot": 2, "Drain P2P": 3, "Drain and Reset": 4}
_THROTTLED = tuple(
    f"clocks_event_reasons_counters.{cause}"
    for cause in ("sw_power_cap", "hw_power_brake_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown")
)
_POWER, _HEAT = _THROTTLED[:2], _THROTTLED[2:]

_TABLE = (
    Column("utilization.gpu", "%"),
    Column("utilization.memory", "%"),
    Column("utilization.encoder", "%"),
    Column("utilization.decoder", "%"),
    Column("power.draw", "mW"),
    Column("power.draw.instant", "mW"),
    Column("enforced.power.limit", "mW"),
    Column("temperature.gpu"),
    Column("temperature.memory"),
    Column("temperature.gpu.tlimit"),
    Column("clocks.current.sm", "MHz", older="clocks.sm"),
    Column("clocks.current.memory", "MHz", older="clocks.mem"),
    Column("pstate", words=_P_STATES),
    Column("clocks_event_reasons.active", older="clocks_throttle_reasons.active"),
    *(Column(name, "us") for name in _THROTTLED),
    Column("memory.total", "bytes"),
    Column("memory.used", "bytes"),
    Column("memory.reserved", "bytes"),
    Column("ecc.errors.corrected.volatile.total"),
    Column("ecc.errors.uncorrected.volatile.total"),
    Column("remapped_rows.correctable"),
    Column("remapped_rows.uncorrectable"),
    Column("remapped_rows.pending", words=_YES_NO),
    Column("gpu_recovery_action", words=_RECOVERY),
)
COLUMNS: Mapping[str, Column] = MappingProxyType({column.name: column for column in _TABLE})
QUERY_COLUMNS: tuple[str, ...] = (UUID, NAME, *COLUMNS)

_ERRORS_PER_S = 1_000_000_000

SAMPLE_FIELDS: tuple[SampleField, ...] = (
    SampleField("util_gpu_pct", "gauge", ("utilization.gpu",)),
    SampleField("util_memory_pct", "gauge", ("utilization.memory",)),
    SampleField("util_encoder_pct", "gauge", ("utilization.encoder",)),
    SampleField("util_decoder_pct", "gauge", ("utilization.decoder",)),
    SampleField("power_mw", "gauge", ("power.draw",)),
    SampleField("power_instant_mw", "gauge", ("power.draw.instant",)),
    SampleField("power_limit_mw", "gauge", ("enforced.power.limit",)),
    SampleField("temperature_c", "gauge", ("temperature.gpu",)),
    SampleField("temperature_memory_c", "gauge", ("temperature.memory",)),
    SampleField("temperature_margin_c", "gauge", ("temperature.gpu.tlimit",)),
    SampleField("clock_sm_mhz", "gauge", ("clocks.current.sm",)),
    SampleField("clock_memory_mhz", "gauge", ("clocks.current.memory",)),
    SampleField("performance_state", "gauge", ("pstate",)),
    SampleField("clock_reasons", "gauge", ("clocks_event_reasons.active",)),
    SampleField("memory_used_bytes", "gauge", ("memory.used",)),
    SampleField("memory_total_bytes", "gauge", ("memory.total",)),
    SampleField("memory_reserved_bytes", "gauge", ("memory.reserved",)),
    SampleField("throttled_us", "counter", _THROTTLED, partial=True),
    SampleField("throttled_power_us", "counter", _POWER, partial=True),
    SampleField("throttled_thermal_us", "counter", _HEAT, partial=True),
    SampleField("ecc_corrected", "counter", ("ecc.errors.corrected.volatile.total",), most_per_s=_ERRORS_PER_S),
    SampleField("ecc_uncorrected", "counter", ("ecc.errors.uncorrected.volatile.total",), most_per_s=_ERRORS_PER_S),
    SampleField("remapped_rows", "gauge", ("remapped_rows.correctable", "remapped_rows.uncorrectable")),
    SampleField("remapped_rows_pending", "gauge", ("remapped_rows.pending",)),
    SampleField("recovery_action", "gauge", ("gpu_recovery_action",)),
)

UNITS: Mapping[str, tuple[str, int]] = MappingProxyType(
    {
        "": ("", 1),
        "%": ("%", 1),
        "mW": ("mW", 1),
        "W": ("mW", 1_000),
        "kW": ("mW", 1_000_000),
        "MHz": ("MHz", 1),
        "us": ("us", 1),
        "ms": ("us", 1_000),
        "s": ("us", 1_000_000),
        "B": ("bytes", 1),
        "KiB": ("bytes", 2**10),
        "MiB": ("bytes", 2**20),
        "GiB": ("bytes", 2**30),
    }
)
"""Unit as printed -> ours, and how many of ours it is."""

NO_VALUES = frozenset(
    {"", "-", "N/A", "None", "Not Supported", "Unknown", "Requested functionality has been deprecated"}
)
"""Spellings of "no value", without the brackets that most of them have."""
