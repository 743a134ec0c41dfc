"""What rocm-smi prints as JSON, and which of it makes each field of ``gpu.samples``. Pure.

Source: captures of ROCm before 5 to 6.1 (``tests/data/rocm_smi_captures``). ``GPU memory use (%)`` of older versions is
not read: newer ones print under two names what it may have been. A GPU is identified by its unique id, or where it has
none (most consumer cards) by host and PCI bus. The partitions of an Instinct are printed as cards with its id: the
first counts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import orjson

from producers.gpu.fields import ERRORS_PER_S
from producers.gpu.scraped_rows import SampleField
from producers.nvidia_smi.fields import GpuLine, Table

ARGUMENTS = (
    *("--showuniqueid", "--showproductname", "--showbus", "--showuse", "--showmemuse", "--showtemp", "--showpower"),
    *("--showmaxpower", "--showclocks", "--showreplaycount", "--showmeminfo", "vram", "--json"),
)
_GENERATIONS = MappingProxyType({"2.5": 1, "5.0": 2, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6})
"""PCIe generation by transfers per second (PCI Express base specification)."""

Read = Callable[[str], int]


def _whole(text: str) -> int:
    return int(text)


def _rounded(times: int) -> Read:
    return lambda text: round(float(text) * times)


def _found(pattern: str, read: Read) -> Read:
    """The first group of the pattern, as ``read`` reads it."""
    wanted = re.compile(pattern)

    def value(text: str) -> int:
        match = wanted.search(text)
        if match is None:
            raise ValueError(text)
        return read(match.group(1))

    return value


def _generation(transfers: str) -> int:
    if transfers not in _GENERATIONS:
        raise ValueError(transfers)
    return _GENERATIONS[transfers]


_CLOCK = _found(r"^\((\d+)Mhz\)$", _whole)
_POWER = ("Average Graphics Package Power (W)", "Current Socket Graphics Package Power (W)")
_TEMPERATURE = ("Temperature (Sensor edge) (C)", "Temperature (Sensor junction) (C)")
"""Each has the second alone on an Instinct MI300."""
SOURCES: Mapping[str, tuple[tuple[str, ...], Read]] = MappingProxyType(
    {
        "util_gpu_pct": (("GPU use (%)",), _whole),
        "util_memory_pct": (("GPU Memory Read/Write Activity (%)",), _whole),
        "power_mw": (_POWER, _rounded(1_000)),
        "power_limit_mw": (("Max Graphics Package Power (W)",), _rounded(1_000)),
        "temperature_c": (_TEMPERATURE, _rounded(1)),
        "temperature_memory_c": (("Temperature (Sensor memory) (C)",), _rounded(1)),
        "clock_sm_mhz": (("sclk clock speed:",), _CLOCK),
        "clock_memory_mhz": (("mclk clock speed:",), _CLOCK),
        "memory_total_bytes": (("VRAM Total Memory (B)",), _whole),
        "memory_used_bytes": (("VRAM Total Used Memory (B)",), _whole),
        "pcie_generation": (("pcie clock level",), _found(r"\(([\d.]+)GT/s x\d+\)$", _generation)),
        "pcie_width": (("pcie clock level",), _found(r"GT/s x(\d+)\)$", _whole)),
        "pcie_replays": (("PCIe Replay Count",), _whole),
    }
)
"""By field of the sample: what it is printed under, the first that has a value, and how it is read."""
SAMPLE_FIELDS: tuple[SampleField, ...] = tuple(
    SampleField(name, "counter", (name,), most_per_s=ERRORS_PER_S)
    if name == "pcie_replays"
    else SampleField(name, "gauge", (name,))
    for name in SOURCES
)
NO_VALUES = frozenset({"", "N/A", "None", "unknown"})
_MODELS = ("Card Series", "Card series", "Device Name")


def read_cards(text: str, host: str) -> Table:
    """The output of ``rocm-smi --json``; lines of warnings may stand before it."""
    try:
        cards = orjson.loads(text[text.index("{") :])
    except ValueError:
        return Table((), {"no JSON": 1})
    left_out = Counter[str]()
    tables = [about for name, about in cards.items() if name.startswith("card") and isinstance(about, dict)]
    gpus: dict[str, GpuLine] = {}
    for about in tables:
        gpu = _card(about, host, left_out)
        if gpu is not None:
            gpus.setdefault(gpu.uuid, gpu)
    return Table(tuple(gpus.values()), +left_out)


def _card(about: Mapping[str, Any], host: str, left_out: Counter[str]) -> GpuLine | None:
    unique, bus = (_text(about.get(name)) for name in ("Unique ID", "PCI Bus"))
    if unique is None and bus is None:
        left_out["card"] += 1
        return None
    values = {}
    for name, (printed, read) in SOURCES.items():
        text = _first(about, printed)
        try:
            if text is not None:
                values[name] = read(text)
        except ValueError:
            left_out[name] += 1
    model = _first(about, _MODELS)
    return GpuLine(f"AMD-{unique.removeprefix('0x')}" if unique else f"AMD-{host}-{bus}", model, values)


def _first(about: Mapping[str, Any], names: Iterable[str]) -> str | None:
    """What stands under the first of these names that has a value."""
    return next((known for name in names if (known := _text(about.get(name)))), None)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value not in NO_VALUES else None
