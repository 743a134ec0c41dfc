"""Devices of a host and links of its GPUs, on real tables: amounts by device, over the time they were read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from fleetpulse.queries.dashboard import query
from fleetpulse.sql.database import Database
from runtime.config import ClickHouseConfig
from sinks.database import SinkDatabase
from tests.integration.sink_rig import store_raw
from tests.integration.test_ddl import store
from tests.unit.sinks.landing_cases import partials
from tests.unit.stream_jobs.windows.cases import a_record

pytestmark = [pytest.mark.integration, pytest.mark.tables]

GIB = 2**30


@pytest.fixture
def now_ms(clickhouse: Any) -> int:
    return int(clickhouse.command("SELECT toUnixTimestamp64Milli(now64(3))")) // 10_000 * 10_000


@pytest.fixture
def database(clickhouse: Any, clickhouse_config: ClickHouseConfig, now_ms: int) -> Iterator[Database]:
    """Twenty seconds of a host with an interface, a port, a disk and a node; of another host with more."""
    read = [
        ("eth0", "interface", {"tx_bytes": 5_000, "rx_bytes": 1_000, "errors": 0}),
        ("mlx5_0/1", "rdma", {"tx_bytes": 2**40, "rx_bytes": 2**41, "errors": 3}),
        ("nvme0n1", "disk", {"read_bytes": 40_000, "write_bytes": 10_000, "busy_ms": 2_500, "used_bytes": 7 * GIB,
                             "total_bytes": 10 * GIB}),
        ("node0", "numa_node", {"used_bytes": GIB, "total_bytes": 4 * GIB}),
    ]  # fmt: skip
    devices = [
        {"at_ms": now_ms - ago_ms, "interval_ms": 10_000, "host": host, "device": name, "device_kind": kind,
         "origin": "measured", **values}
        for host in ("h", "other") for ago_ms in (20_000, 10_000) for name, kind, values in read
    ]  # fmt: skip
    window = {"grouping": "gpu", "window_ms": now_ms - 20_000, "last_at_ms": now_ms - 15_000, "event_count": 10,
              "origin": "measured", "host": "h", "interval_ms_sum": 10_000, "pcie_width_max_max": 16,
              "pcie_generation_max": 5}  # fmt: skip
    windows = [
        {**window, "gpu_uuid": "GPU-1", "pcie_width_min": 16, "pcie_tx_bytes_sum": 10_000, "pcie_replays_sum": 0},
        {**window, "gpu_uuid": "GPU-2", "pcie_width_min": 8, "nvlink_tx_bytes_sum": 20_000, "nvlink_errors_sum": 7},
    ]
    with contextlib.closing(SinkDatabase(clickhouse_config)) as sink:
        store(sink, [partials(windows, 1, "gpu.samples")], now_ms)
        store_raw(sink, [a_record("host.devices", devices, appended_ms=now_ms)], now_ms)
    with contextlib.closing(Database(clickhouse_config)) as found:
        yield found


def asked(database: Database, name: str, to_ms: int) -> list[dict[str, Any]]:
    found = query(name)
    bound = found.values({"host": "h", "from_ms": to_ms - 600_000, "to_ms": to_ms}, 600_000)
    return database.sql(found.at_levels(600_000), bound).records()


def test_every_device_of_a_host_has_what_it_moved(database: Database, now_ms: int) -> None:
    """A second, errors first; what a kind of device does not have is null."""
    nothing = dict.fromkeys(
        (
            "sent_per_s",
            "received_per_s",
            "faults",
            "read_per_s",
            "written_per_s",
            "disk_busy",
            "held_bytes",
            "size_bytes",
        )
    )
    rows = asked(database, "host_devices", now_ms)

    assert rows[0]["device"] == "mlx5_0/1"
    assert {row.pop("device"): row for row in rows} == {
        "mlx5_0/1": {
            **nothing, "device_kind": "rdma", "sent_per_s": 2**40 / 10, "received_per_s": 2**41 / 10, "faults": 6,
        },
        "eth0": {**nothing, "device_kind": "interface", "sent_per_s": 500.0, "received_per_s": 100.0, "faults": 0},
        "nvme0n1": {
            **nothing, "device_kind": "disk", "read_per_s": 4_000.0, "written_per_s": 1_000.0, "disk_busy": 0.25,
            "held_bytes": 7 * GIB, "size_bytes": 10 * GIB,
        },
        "node0": {**nothing, "device_kind": "numa_node", "held_bytes": GIB, "size_bytes": 4 * GIB},
    }  # fmt: skip


def test_links_of_a_host_s_gpus(database: Database, now_ms: int) -> None:
    """Those with errors first; a link that lost lanes stands beside what it could have."""
    names = (
        "gpu_uuid",
        "lanes_min",
        "lanes_possible",
        "generation",
        "pcie_sent_per_s",
        "nvlink_sent_per_s",
        "link_errors",
    )

    rows = [tuple(row[name] for name in names) for row in asked(database, "host_links", now_ms)]

    assert rows == [("GPU-2", 8, 16, 5, None, 2_000.0, 7), ("GPU-1", 16, 16, 5, 1_000.0, None, None)]
