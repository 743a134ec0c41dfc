"""Columns to query from nvidia-smi, which of them make each field of ``gpu.samples``, and its CSV read. Pure.

Source: ``nvidia-smi --help-query-gpu`` of drivers 590 and 595. A driver that does not know a column rejects the whole
query and names it: the column is then queried by its older name, or left out. Columns are looked up by their name in
the header, units by what stands behind each number. A line before the header, with another number of cells, or without
a UUID, is left out and counted.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from producers.gpu.fields import ERRORS_PER_S
from producers.gpu.scraped_rows import Nature, SampleField

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
    Column(f"clocks_event_reasons_counters.{cause}", "us")
    for cause in ("sw_power_cap", "hw_power_brake_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown")
)


_Row = tuple[SampleField, tuple[Column, ...]]


def _sample(name: str, *columns: Column, nature: Nature = "gauge", **how: Any) -> _Row:
    return SampleField(name, nature, tuple(column.name for column in columns), **how), columns


def _throttled(name: str, *columns: Column) -> _Row:
    return _sample(name, *columns, nature="counter", partial=True)


def _errors(name: str, column: str) -> _Row:
    return _sample(name, Column(column), nature="counter", most_per_s=ERRORS_PER_S)


_TABLE = (
    _sample("util_gpu_pct", Column("utilization.gpu", "%")),
    _sample("util_memory_pct", Column("utilization.memory", "%")),
    _sample("util_encoder_pct", Column("utilization.encoder", "%")),
    _sample("util_decoder_pct", Column("utilization.decoder", "%")),
    _sample("power_mw", Column("power.draw", "mW")),
    _sample("power_instant_mw", Column("power.draw.instant", "mW")),
    _sample("power_limit_mw", Column("enforced.power.limit", "mW")),
    _sample("temperature_c", Column("temperature.gpu")),
    _sample("temperature_memory_c", Column("temperature.memory")),
    _sample("temperature_margin_c", Column("temperature.gpu.tlimit")),
    _sample("clock_sm_mhz", Column("clocks.current.sm", "MHz", older="clocks.sm")),
    _sample("clock_memory_mhz", Column("clocks.current.memory", "MHz", older="clocks.mem")),
    _sample("performance_state", Column("pstate", words=_P_STATES)),
    _sample("clock_reasons", Column("clocks_event_reasons.active", older="clocks_throttle_reasons.active")),
    _throttled("throttled_us", *_THROTTLED),
    _throttled("throttled_fault_us", *_THROTTLED[1:]),
    _throttled("throttled_power_us", *_THROTTLED[:2]),
    _throttled("throttled_thermal_us", *_THROTTLED[2:]),
    _sample("memory_total_bytes", Column("memory.total", "bytes")),
    _sample("memory_used_bytes", Column("memory.used", "bytes")),
    _sample("memory_reserved_bytes", Column("memory.reserved", "bytes")),
    _sample("pcie_generation", Column("pcie.link.gen.gpucurrent", older="pcie.link.gen.current")),
    _sample("pcie_generation_max", Column("pcie.link.gen.max")),
    _sample("pcie_width", Column("pcie.link.width.current")),
    _sample("pcie_width_max", Column("pcie.link.width.max")),
    _errors("ecc_corrected", "ecc.errors.corrected.volatile.total"),
    _errors("ecc_uncorrected", "ecc.errors.uncorrected.volatile.total"),
    _sample("remapped_rows", Column("remapped_rows.correctable"), Column("remapped_rows.uncorrectable")),
    _sample("remapped_rows_pending", Column("remapped_rows.pending", words=_YES_NO)),
    _sample("recovery_action", Column("gpu_recovery_action", words=_RECOVERY)),
)
SAMPLE_FIELDS: tuple[SampleField, ...] = tuple(sample for sample, _ in _TABLE)
COLUMNS: Mapping[str, Column] = MappingProxyType({column.name: column for _, columns in _TABLE for column in columns})
QUERY_COLUMNS: tuple[str, ...] = (UUID, NAME, *COLUMNS)

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


_NUMBER = re.compile(r"([+-]?[0-9]{1,20}(?:\.[0-9]{1,20})?)(?: (\S+))?")
_HEX = re.compile(r"0x[0-9a-fA-F]{1,16}")
_UNIT_OF_HEADER = re.compile(r" \[[^\]]*\]$")
_REFUSED = re.compile(r'Field "([^"]+)" is not a valid field')
_UUID = re.compile(r"(?:GPU|MIG)-\S+")
_ZERO_IS_UNKNOWN = "temperature.memory"
"""A card without the sensor says 0."""


@dataclass(frozen=True, slots=True)
class GpuLine:
    """``values`` by column in our units, known ones only."""

    uuid: str
    model: str | None
    values: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Table:
    """GPUs in the order printed; and what was left out, by reason or column."""

    gpus: tuple[GpuLine, ...]
    left_out: Mapping[str, int]


def read_table(text: str) -> Table:
    """The output of ``--query-gpu=... --format=csv``."""
    left_out = Counter[str]()
    try:
        lines = list(csv.reader(text.splitlines(), skipinitialspace=True))
    except csv.Error:  # a cell of more than 128 KiB
        lines = []
    named = [[_current(_UNIT_OF_HEADER.sub("", cell.strip())) for cell in line] for line in lines]
    header = next((at for at, names in enumerate(named) if UUID in names), None)
    if header is None:
        return Table((), {"no header": 1})
    names = named[header]
    left_out["line"] += sum(map(bool, lines[:header]))
    gpus = []
    for line in lines[header + 1 :]:
        cells = dict(zip(names, (cell.strip() for cell in line), strict=False))
        if len(line) != len(names) or not _UUID.fullmatch(cells[UUID]):
            left_out["line"] += bool(line)
            continue
        gpus.append(GpuLine(cells[UUID], _word(cells.get(NAME, "")), _values(cells, left_out)))
    return Table(tuple(gpus), +left_out)


def query(refused: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """The columns to ask for, ``refused`` ones by their older name or not at all."""
    wanted = [(COLUMNS[name].older if name in refused and name in COLUMNS else name) for name in QUERY_COLUMNS]
    return tuple(name for name in wanted if name is not None and name not in refused)


def refused_column(output: str) -> str | None:
    """The column that an answer of nvidia-smi says it does not know."""
    match = _REFUSED.search(output)
    return match.group(1) if match else None


def value_of(column: Column, cell: str) -> int | None:
    """A cell in our unit; None where it says that there is no value. Raises ``ValueError`` for what it may not say."""
    if cell in column.words:
        return column.words[cell]
    if _word(cell) is None:
        return None
    if _HEX.fullmatch(cell):
        return int(cell, 16)
    match = _NUMBER.fullmatch(cell)
    unit, times = UNITS.get(match.group(2) or "", ("?", 0)) if match else ("?", 0)
    if match is None or unit != column.unit:
        raise ValueError(f"{column.name}: {cell!r}")
    return round(float(match.group(1)) * times) if "." in match.group(1) else int(match.group(1)) * times


def _values(cells: Mapping[str, str], left_out: Counter[str]) -> dict[str, int]:
    values = {}
    for name, column in COLUMNS.items():
        try:
            value = value_of(column, cells.get(name, ""))
        except ValueError:
            left_out[name] += 1
            continue
        if value is not None and not (value == 0 and name == _ZERO_IS_UNKNOWN):
            values[name] = value
    return values


def _word(cell: str) -> str | None:
    inner = cell[1:-1] if cell.startswith("[") and cell.endswith("]") else cell
    return None if inner in NO_VALUES else cell


def _current(name: str) -> str:
    return _CURRENT.get(name, name)


_CURRENT = {column.older: column.name for column in COLUMNS.values() if column.older is not None}
