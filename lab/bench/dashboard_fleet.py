"""The fleet whose history ``bench dashboard`` queries, in SQL: the server draws rows by their number.

Labels of hosts, engines and GPUs follow from their number, values from a hash of the row's number: the same seed gives
the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schemas.events.grouping import OTHER

GPUS_PER_HOST = 8
ENGINES_PER_HOST = 2
HOSTS_PER_CLUSTER = 250
REGIONS = ("eu-west", "us-east", "ap-south")
MODELS = ("llama-3.1-8b", "llama-3.3-70b", "qwen3-32b", "mixtral-8x22b", "deepseek-v3", "gemma-3-27b")
TENANTS = (*(f"tenant-{number:02d}" for number in range(59)), OTHER)
EVENTS_PER_WINDOW = 3
EVENT_KINDS = (("xid", "warning"), ("ecc_uncorrected", "critical"), ("thermal", "warning"), ("clock", "info"))
LEVELS: Mapping[str, tuple[float, float]] = {
    "util_gpu_pct": (30, 100),
    "util_memory_pct": (10, 70),
    "power_mw": (180e3, 690e3),
    "power_limit_mw": (700e3, 700e3),
    "temperature_c": (38, 80.3),
    "temperature_memory_c": (45, 92),
    "clock_sm_mhz": (1_400, 1_980),
    "clock_memory_mhz": (2_619, 2_619),
    "sm_active_ppm": (2e5, 9e5),
    "tensor_active_ppm": (1e5, 5e5),
    "memory_used_bytes": (40e9, 79e9),
    "memory_total_bytes": (85.5e9, 85.5e9),
    "sm_occupancy_ppm": (1e5, 6e5),
    "dram_active_ppm": (1e5, 8e5),
    "pcie_width": (16, 16),
    "pcie_width_max": (16, 16),
    "cpu_busy_ppm": (5e4, 7e5),
    "cpu_core_busy_max_ppm": (3e5, 1e6),
    "cpu_ppm": (5e4, 2e6),
    "cpu_thread_max_ppm": (4e4, 1e6),
    "memory_rss_bytes": (1e9, 2e10),
    "load_1m_milli": (1e3, 4e4),
    "processors": (128, 128),
    "running": (0, 64),
    "waiting": (0, 12),
    "kv_used_ppm": (1e5, 9.5e5),
    "ttft_us": (1e5, 6e5),
    "tpot_us": (1.2e4, 4e4),
    "e2e_us": (1e6, 2e7),
    "queue_us": (1e3, 5e4),
    "itl": (1e4, 4e4),
    "step_us": (9e5, 1.2e6),
    "loss_micro": (1.5e6, 2.5e6),
    "checkpoint_age_ms": (0, 6e5),
    "value_micro": (0, 5e7),
}
"""Least and greatest of what is drawn. What is not here is unknown in every row."""
SUMS: Mapping[str, tuple[float, float]] = {
    "interval_ms": (1e4, 1e4),
    "energy_mj": (1.8e6, 6.9e6),
    "throttled_us": (0, 2e5),
    "throttled_fault_us": (0, 0),
    "network_tx_bytes": (1e6, 1e9),
    "disk_write_bytes": (0, 1e8),
    "preemptions": (0, 2),
    "prompt_tokens": (1e4, 2e5),
    "generation_tokens": (1e3, 4e4),
    "finished_requests": (10, 400),
    "judged_requests": (8, 10),
    "good_requests": (6, 8),
    "good_tokens": (1e3, 1e5),
    "input_tokens": (1e4, 2e5),
    "cached_tokens": (0, 5e4),
    "output_tokens": (1e3, 4e4),
    "reasoning_tokens": (0, 1e4),
    "samples": (280, 320),
    "tokens": (5e5, 6.5e5),
    "increase_micro": (0, 9e6),
}
"""The same of differences: their sum over a window."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """Hosts of eight GPUs and two engines. ``seed`` decides every value."""

    hosts: int
    seed: int
    models: tuple[str, ...] = MODELS
    tenants: tuple[str, ...] = TENANTS

    @property
    def engines(self) -> int:
        """How many there are."""
        return self.hosts * ENGINES_PER_HOST

    @property
    def gpus(self) -> int:
        """How many there are."""
        return self.hosts * GPUS_PER_HOST


@dataclass(frozen=True, slots=True)
class Drawn:
    """Rows for a table, drawn by the server: ``columns`` in terms of ``number``, which counts to ``rows``."""

    table: str
    columns: Mapping[str, str]
    rows: int

    def sql(self) -> str:
        """The statement."""
        picked = ",\n    ".join(self.columns.values())
        return f"INSERT INTO {self.table} ({', '.join(self.columns)})\nSELECT\n    {picked}\nFROM numbers({self.rows})"


def words(names: Sequence[str]) -> str:
    """A list of texts as SQL."""
    quoted = (name.replace("\\", "\\\\").replace("'", "\\'") for name in names)
    return "[" + ", ".join(f"'{name}'" for name in quoted) + "]"


def one_of(names: Sequence[str], index: str) -> str:
    """The text of a number, counted from 0, again and again."""
    return f"{words(names)}[1 + {index} % {len(names)}]"


def between(low: float, high: float, salt: str) -> str:
    """A whole number of [low, high], by the row."""
    return f"{int(low)} + cityHash64(number, '{salt}') % {int(high - low) + 1}"


def host_of(index: str) -> dict[str, str]:
    """Labels of the host of a number."""
    cluster = f"intDiv({index}, {HOSTS_PER_CLUSTER})"
    return {
        "cluster": f"concat('cluster-', toString({cluster}))",
        "region": one_of(REGIONS, cluster),
        "host": f"concat('host-', leftPad(toString({index}), 4, '0'))",
    }


def engine_of(fleet: Fleet, index: str) -> dict[str, str]:
    """Labels of the engine of a number, with those of its host."""
    place = host_of(f"intDiv({index}, {ENGINES_PER_HOST})")
    return {
        **place,
        "engine_id": f"concat({place['host']}, '-engine-', toString({index} % {ENGINES_PER_HOST}))",
        "model": one_of(fleet.models, index),
    }


def gpu_of(fleet: Fleet, index: str) -> dict[str, str]:
    """Labels of the GPU of a number, with those of its host and engine."""
    labels = engine_of(fleet, f"intDiv({index} * {ENGINES_PER_HOST}, {GPUS_PER_HOST})")
    del labels["model"]
    uuid = f"concat('GPU-', leftPad(lower(hex(toUInt32({index}))), 8, '0'), '-3f5a-11ef')"
    return {**labels, "gpu_uuid": uuid, "gpu_model": "'NVIDIA H100 80GB HBM3'"}


def gpu_uuid(index: int) -> str:
    """UUID of a GPU of the fleet, as ``gpu_of`` has it."""
    return f"GPU-{index:08x}-3f5a-11ef"
