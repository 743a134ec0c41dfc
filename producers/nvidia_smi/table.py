"""Parse the CSV of nvidia-smi into values by GPU. Pure.

Columns are looked up by their name in the header, units by what stands behind each number. A line with another number
of cells than the header, or without a UUID, is left out and counted.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from producers.nvidia_smi.fields import COLUMNS, NAME, NO_VALUES, QUERY_COLUMNS, UNITS, UUID, Column

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
    if not lines:
        return Table((), {"no header": 1})
    names = [_current(_UNIT_OF_HEADER.sub("", cell.strip())) for cell in lines[0]]
    if UUID not in names:
        return Table((), {"no header": 1})
    gpus = []
    for line in lines[1:]:
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
