"""Every field of a GPU sample: where NVML has its numbers, and what of it to read from one GPU. Pure.

A field is a sum of groups; a group is a list of options, best first, and the first option of which the GPU supports
anything is read. So one table serves ten years of GPUs. What no option gives is null. A plan starts hopeful (the best
option of everything) and gets worse by what the GPU refuses, until nothing new is refused: then it is read every second
without a vain question. Counters that cost milliseconds are read once a window of ten seconds, and null between. Units
and meanings: ``schemas.events.machine_events``. DCGM's names: ``producers.dcgm.fields``.

Source: NVML API reference (NVIDIA; nvml.h as in nvidia-ml-py 13.580).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from sys import intern
from typing import Literal

ALL_LINKS = 0xFFFF_FFFF
"""As the scope of an NVLink field: the sum over all links."""
LINKS_MAX = 18
"""Links of one GPU (NVLink 4 and 5)."""


@dataclass(frozen=True, slots=True)
class Call:
    """A part of what a call of NVML returns. ``key`` names it in ``producers.gpu.calls``."""

    key: str


@dataclass(frozen=True, slots=True)
class Value:
    """An NVML field, read together with all others in one call: ``value * times // per``."""

    id: int
    link: int | None = None
    times: int = 1
    per: int = 1

    @property
    def key(self) -> str:
        """Names it in a reading."""
        return intern(f"field {self.id}" if self.link in (None, ALL_LINKS) else f"field {self.id} link {self.link}")

    @property
    def scope(self) -> int:
        """The scope passed to NVML: the link, all links, or 0."""
        return 0 if self.link is None else self.link


@dataclass(frozen=True, slots=True)
class Gpm:
    """A GPM metric between two readings (Hopper and newer; not while a profiler holds the counters): the mean per cent
    or, where it ``grows``, bytes (NVML reports MiB a second)."""

    id: int
    grows: bool = False

    @property
    def key(self) -> str:
        """Names it in a reading."""
        return intern(f"gpm {self.id}")


Source = Call | Value | Gpm
Option = tuple[Source, ...]
Group = tuple[Option, ...]


@dataclass(frozen=True, slots=True)
class GpuField:
    """``name`` as in ``gpu.samples``. ``most_per_s``: a counter that grows faster was misread; 0: a gauge.
    ``unknown``: the driver's marker for a gauge it does not have. ``pace``: whether a counter is read at every reading
    or at the last of each window alone."""

    name: str
    groups: tuple[Group, ...]
    most_per_s: int = 0
    unknown: int | None = None
    pace: Literal["every", "window"] = "every"

    @property
    def nature(self) -> Literal["gauge", "counter"]:
        """Whether it is emitted as it is or as its growth."""
        return "counter" if self.most_per_s else "gauge"

    def sources(self) -> Iterator[Source]:
        """All that it can be made of."""
        for group in self.groups:
            for option in group:
                yield from option


def _field(
    name: str,
    *options: Source,
    most_per_s: int = 0,
    unknown: int | None = None,
    pace: Literal["every", "window"] = "every",
) -> GpuField:
    """One group whose options are single sources."""
    return GpuField(name, (tuple((source,) for source in options),), most_per_s, unknown, pace)


def _links(id: int) -> Option:
    return tuple(Value(id, link) for link in range(LINKS_MAX))


_BYTES_PER_S = 2**42
ERRORS_PER_S = 1_000_000_000
_US_PER_S = 5_000_000
MJ_PER_S = 20_000_000

# NVML counts nanoseconds, and causes at the same time once each: rows are cut to the interval. Low utilization (78) is
# no throttling.
_SW_POWER: Group = ((Value(74, per=1_000),),)
_POWER_BRAKE: Group = ((Value(271, per=1_000),),)
_THERMAL: Group = ((Value(269, per=1_000), Value(270, per=1_000)), (Value(75, per=1_000),))
_BOARD_LIMIT: Group = ((Value(77, per=1_000),),)
_RELIABILITY: Group = ((Value(79, per=1_000),),)
_FAULTS = (_POWER_BRAKE, _THERMAL, _BOARD_LIMIT, _RELIABILITY)
"""What a healthy GPU does not meet, however much it works; its power limit it does."""

# NVLink counts KiB up to NVLink 4, bytes on NVLink 5, there by link; what counts as an error differs between them.
_NVLINK_TX: Group = ((Value(138, ALL_LINKS, times=1_024),), (Value(202, ALL_LINKS),), _links(202))
_NVLINK_RX: Group = ((Value(139, ALL_LINKS, times=1_024),), (Value(204, ALL_LINKS),), _links(204))
_NVLINK_ERRORS: Group = (
    (Value(38), Value(45), Value(52), Value(59)),
    (Value(208, ALL_LINKS), Value(214, ALL_LINKS)),
    _links(208),
)

FIELDS: tuple[GpuField, ...] = (
    _field("util_gpu_pct", Call("util_gpu")),  # one busy thread is 100 %; not supported while MIG is on
    _field("util_memory_pct", Call("util_memory")),  # time of the memory controller, not space
    _field("util_encoder_pct", Call("util_encoder")),
    _field("util_decoder_pct", Call("util_decoder")),
    # Before Ampere and on GA100 the call gives the moment's draw; field 185 is the mean everywhere.
    _field("power_mw", Value(185), Call("power")),
    _field("power_instant_mw", Value(186)),
    _field("power_limit_mw", Call("power_limit")),
    _field("temperature_c", Call("temperature")),
    _field("temperature_memory_c", Value(82), unknown=0),  # a card without the sensor says 0
    _field("temperature_margin_c", Call("temperature_margin")),  # older drivers: slowdown threshold minus temperature
    _field("clock_sm_mhz", Call("clock_sm")),
    _field("clock_memory_mhz", Call("clock_memory")),
    _field("performance_state", Call("performance_state"), unknown=32),
    _field("sm_active_ppm", Gpm(2)),
    _field("sm_occupancy_ppm", Gpm(3)),
    _field("tensor_active_ppm", Gpm(5)),
    _field("dram_active_ppm", Gpm(10)),
    _field("memory_used_bytes", Call("memory_used")),  # version 1 of the call counts reserved memory as used
    _field("memory_total_bytes", Call("memory_total")),  # more than used + free
    _field("memory_reserved_bytes", Call("memory_reserved")),  # only version 2 of the call has it
    # 3.5 ms a reading on an H200; restarts from 0 with the driver.
    _field("energy_mj", Value(83), Call("energy"), most_per_s=MJ_PER_S, pace="window"),
    # 1.2 ms, almost all of it for the fields of heat.
    GpuField("throttled_us", (_SW_POWER, *_FAULTS), _US_PER_S, pace="window"),
    GpuField("throttled_fault_us", _FAULTS, _US_PER_S, pace="window"),
    GpuField("throttled_power_us", (_SW_POWER, _POWER_BRAKE), _US_PER_S, pace="window"),
    GpuField("throttled_thermal_us", (_THERMAL,), _US_PER_S, pace="window"),
    # Fields 197 and 198 have 32 bits, which a busy link passes thirteen times a second: they tell no growth.
    # nvmlDeviceGetPcieThroughput blocks 20 ms. Neither is read.
    _field("pcie_tx_bytes", Gpm(20, grows=True), most_per_s=_BYTES_PER_S),
    _field("pcie_rx_bytes", Gpm(21, grows=True), most_per_s=_BYTES_PER_S),
    _field("pcie_replays", Value(94), Call("pcie_replays"), most_per_s=ERRORS_PER_S, pace="window"),  # 0.5 ms
    _field("pcie_generation", Call("pcie_generation")),  # lower while the GPU rests, to save power
    _field("pcie_generation_max", Call("pcie_generation_max")),  # of GPU and slot
    _field("pcie_width", Call("pcie_width")),
    _field("pcie_width_max", Call("pcie_width_max")),
    GpuField("nvlink_tx_bytes", (_NVLINK_TX,), _BYTES_PER_S),
    GpuField("nvlink_rx_bytes", (_NVLINK_RX,), _BYTES_PER_S),
    GpuField("nvlink_errors", (_NVLINK_ERRORS,), ERRORS_PER_S),
    # Volatile: both restart from 0 with the driver.
    _field("ecc_corrected", Value(3), Call("ecc_corrected"), most_per_s=ERRORS_PER_S),
    _field("ecc_uncorrected", Value(4), Call("ecc_uncorrected"), most_per_s=ERRORS_PER_S),
    GpuField(
        "remapped_rows",
        (((Value(142),), (Call("remapped_corrected"),)), ((Value(143),), (Call("remapped_uncorrected"),))),
    ),
    _field("remapped_rows_pending", Value(144), Call("remapped_pending")),
    _field("recovery_action", Value(230)),  # 0 nothing; see producers.gpu.faults
    _field("clock_reasons", Call("clock_reasons")),  # 1 idle, 2 application clocks, 0x100 display: no throttling
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
GROWING = frozenset(
    source.id for field in FIELDS for source in field.sources() if isinstance(source, Gpm) and source.grows
)
"""GPM metrics that are amounts: they are growth already, since the reading before."""
GROWTH_KEYS = frozenset(Gpm(id).key for id in GROWING)
COUNTER_KEYS = frozenset(source.key for field in FIELDS if field.most_per_s for source in field.sources()).difference(
    GROWTH_KEYS
)
"""Keys of readings that count: they are remembered from one reading to the next."""
WINDOW_KEYS = frozenset(source.key for field in FIELDS if field.pace == "window" for source in field.sources())
"""Counters that are read at the last reading of a window."""


@dataclass(frozen=True, slots=True)
class Plan:
    """``parts``: the keys whose sum is a field, by its name. ``missing``: fields that no option gives."""

    parts: Mapping[str, tuple[str, ...]]
    values: tuple[Value, ...]
    calls: frozenset[str]
    gpms: tuple[int, ...]
    missing: tuple[str, ...]


def plan_for(refused: Collection[str], fields: tuple[GpuField, ...] = FIELDS) -> Plan:
    """The best plan that asks for none of the keys in ``refused``."""
    chosen = {field.name: [_option(group, refused) for group in field.groups] for field in fields}
    sources = dict.fromkeys(source for options in chosen.values() for option in options for source in option)
    if REMAP_FAILED.key not in refused:
        sources[REMAP_FAILED] = None
    parts = {name: tuple(source.key for option in options for source in option) for name, options in chosen.items()}
    return Plan(
        parts={name: keys for name, keys in parts.items() if keys},
        values=tuple(source for source in sources if isinstance(source, Value)),
        calls=frozenset(source.key for source in sources if isinstance(source, Call)),
        gpms=tuple(source.id for source in sources if isinstance(source, Gpm)),
        missing=tuple(name for name, keys in parts.items() if not keys),
    )


@lru_cache(maxsize=64)
def shared_plan(refused: frozenset[str]) -> Plan:
    """``plan_for``, one for all devices that refuse the same: they are walked one after another."""
    return plan_for(refused)


def _option(group: Group, refused: Collection[str]) -> Option:
    """The sources left of the first option of which any is left."""
    left = (tuple(source for source in option if source.key not in refused) for option in group)
    return next((option for option in left if option), ())
