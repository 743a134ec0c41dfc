from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from producers.collector import Identity
from producers.host import devices as host_devices
from producers.host.devices import (
    Device,
    DevicesReading,
    HostDevices,
    device_rows,
    disk_of,
    node_levels,
    read_disks,
    read_interfaces,
    read_nodes,
)
from producers.host.files import hardware_only
from runtime.counters import Counters
from schemas.codec.build import block_from_rows
from schemas.events.event_types import HOST_DEVICES
from tests.virtual_clock import VirtualClock

ETH, SDA, NODE = ("interface", "eth0"), ("disk", "sda"), ("numa_node", "node0")


def test_a_row_for_each_device_with_what_its_counters_grew_by() -> None:
    """In order; a device without counters has levels only, a busy time of more than all the time is cut."""
    before = DevicesReading(
        1_000, {ETH: Device({"tx_bytes": 5, "rx_bytes": 9}), SDA: Device({"busy_ms": 10}, {"total_bytes": 7})}
    )
    now = DevicesReading(
        3_000,
        {
            NODE: Device(levels={"used_bytes": 1}),
            ETH: Device({"tx_bytes": 8, "rx_bytes": 4}),
            SDA: Device({"busy_ms": 9_999}, {"total_bytes": 7}),
        },
    )

    assert device_rows(before, now) == [
        {"device": "sda", "device_kind": "disk", "total_bytes": 7, "interval_ms": 2_000, "busy_ms": 2_000},
        {"device": "eth0", "device_kind": "interface", "interval_ms": 2_000, "tx_bytes": 3, "rx_bytes": 4},
        {"device": "node0", "device_kind": "numa_node", "used_bytes": 1},
    ]


def test_devices_come_and_go() -> None:
    """New ones, and those that come back, count from their second reading."""
    one = DevicesReading(0, {ETH: Device({"tx_bytes": 5})})
    none = DevicesReading(1_000, {})
    back = DevicesReading(2_000, {ETH: Device({"tx_bytes": 1_000})})
    levels = [{"device": "eth0", "device_kind": "interface"}]

    assert device_rows(None, one) == levels
    assert device_rows(one, none) == []
    assert device_rows(none, back) == levels


@pytest.mark.parametrize("moment_ms", [5_000, 4_999, 5_000 + 3_600_001])
def test_readings_too_near_or_too_far_have_no_amounts(moment_ms: int) -> None:
    """Nor an interval."""
    device = {ETH: Device({"tx_bytes": 5})}

    assert device_rows(DevicesReading(5_000, device), DevicesReading(moment_ms, device)) == [
        {"device": "eth0", "device_kind": "interface"}
    ]


def test_error_counters_of_an_interface_are_told_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One that is set back takes nothing from the others, and feigns none."""

    def reading(moment_ms: int, **counts: int) -> DevicesReading:
        found = dict.fromkeys(("bytes_sent", "bytes_recv", "errin", "errout", "dropin", "dropout"), 0) | counts
        monkeypatch.setattr(psutil, "net_io_counters", lambda **_: {"eth0": SimpleNamespace(**found)})
        return DevicesReading(moment_ms, {ETH: read_interfaces(tmp_path)["eth0"]})

    before, now = reading(0, errin=5, dropin=1_000, errout=7), reading(1_000, errin=2, dropin=1_003, errout=8)
    (row,) = device_rows(before, now)

    assert row["errors"] == 2 + 3 + 1


def test_interfaces_without_hardware_count_only_where_there_are_no_others() -> None:
    """A container has one end of a pair and nothing else."""
    assert hardware_only(["docker0", "eth0", "lo", "veth1"], frozenset({"eth0", "ib0"})) == ["eth0"]
    assert hardware_only(["eth0", "lo"], frozenset()) == ["eth0"]


def test_a_node_s_memory_in_use() -> None:
    """Without file cache; shared memory is no cache."""
    meminfo = """
Node 0 MemTotal:       1000 kB
Node 0 MemFree:         300 kB
Node 0 MemUsed:         700 kB
Node 0 FilePages:       400 kB
Node 0 Shmem:            50 kB
Node 0 SReclaimable:     20 kB
Node 0 HugePages_Total:     0
"""

    assert node_levels(meminfo) == {"total_bytes": 1_024_000, "used_bytes": 330 * 1_024}
    assert node_levels("Node 0 MemTotal: 5 kB") == {}
    assert node_levels("") == {}


@pytest.fixture
def sys_folder(tmp_path: Path) -> Path:
    """Two disks, a partition on one, a volume on the partition, a volume over both disks, a node without memory."""
    block, names = tmp_path / "block", tmp_path / "class" / "block"
    names.mkdir(parents=True)
    for disk, sectors in (("sda", "100"), ("sdb", "broken")):
        (block / disk).mkdir(parents=True)
        (block / disk / "size").write_text(f"{sectors}\n")
        (names / disk).symlink_to(block / disk)
    (block / "sda" / "sda1").mkdir()
    (block / "sda" / "sda1" / "partition").write_text("1\n")
    (names / "sda1").symlink_to(block / "sda" / "sda1")
    for volume, below in (("dm-0", ["sda1"]), ("dm-1", ["sda1", "sdb"])):
        (block / volume / "slaves").mkdir(parents=True)
        (names / volume).symlink_to(block / volume)
        for each in below:
            (block / volume / "slaves" / each).touch()
    for node, text in (("node0", "Node 0 MemTotal: 4 kB\nNode 0 MemFree: 1 kB\n"), ("node1", "")):
        folder = tmp_path / "devices" / "system" / "node" / node
        folder.mkdir(parents=True)
        (folder / "meminfo").write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "disk"), [("sda", "sda"), ("sda1", "sda"), ("dm-0", "sda"), ("dm-1", None), ("overlay", None)]
)
def test_a_block_device_lies_on_a_disk(sys_folder: Path, name: str, disk: str | None) -> None:
    """Or on several, which is none."""
    assert disk_of(name, sys_folder) == disk


def test_disks_and_nodes_are_read_from_the_kernel_s_folders(sys_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole disks, with what is used of their file systems."""
    io = SimpleNamespace(read_bytes=10, write_bytes=20, busy_time=4)
    mounted = [
        SimpleNamespace(device=f"/dev/{name}", mountpoint=f"/{name}")
        for name in ("sda1", "dm-0", "sdb", "dm-1", "gone")
    ]

    def usage(folder: str) -> SimpleNamespace:
        if folder == "/sdb":
            raise PermissionError("no")
        return SimpleNamespace(used=5)

    monkeypatch.setattr(psutil, "disk_io_counters", lambda **_: {"sda": io, "sda1": io, "sdb": io, "dm-0": io})
    monkeypatch.setattr(psutil, "disk_partitions", lambda **_: mounted)
    monkeypatch.setattr(psutil, "disk_usage", usage)
    counted = {"read_bytes": 10, "write_bytes": 20, "busy_ms": 4}

    assert read_disks(sys_folder) == {
        "sda": Device(counted, {"used_bytes": 10, "total_bytes": 51_200}),
        "sdb": Device(counted, {}),
    }
    assert read_nodes(sys_folder) == {"node0": Device(levels={"total_bytes": 4_096, "used_bytes": 3_072})}


def test_paths_to_an_nvme_namespace_are_no_disks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their traffic is the namespace's, unless that has none at all."""
    some, none = (SimpleNamespace(read_bytes=count, write_bytes=0) for count in (5, 0))
    found = {"nvme0n1": some, "nvme0c0n1": some, "nvme1n1": none, "nvme1c0n1": some}
    for name in found:
        (tmp_path / "block" / name).mkdir(parents=True)
    monkeypatch.setattr(psutil, "disk_io_counters", lambda **_: found)
    monkeypatch.setattr(psutil, "disk_partitions", lambda **_: [])

    assert set(read_disks(tmp_path)) == {"nvme0n1", "nvme1n1", "nvme1c0n1"}


def test_this_host_s_devices_can_be_read() -> None:
    """Twice; the rows fit the field table."""
    clock = VirtualClock()
    counters = Counters()
    collector = HostDevices(Identity({"host": "here"}, {}), 30_000, clock=clock, counters=counters)
    collector.collect(0)
    clock.advance(30_000)
    (collected,) = collector.collect(30_000)

    interfaces = [row for row in collected.rows if row["device_kind"] == "interface"]
    assert interfaces
    assert all(row["interval_ms"] == 30_000 and row["tx_bytes"] >= 0 for row in interfaces)
    assert block_from_rows(HOST_DEVICES.fields, collected.rows).rows == len(collected.rows)


def test_kinds_that_cannot_be_read_and_devices_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other kinds are there."""

    def refuse() -> dict[str, Any]:
        raise PermissionError("no")

    counters = Counters()
    many = {f"eth{number:03}": Device({"tx_bytes": -1}) for number in range(host_devices.DEVICES_MAX + 2)}
    monkeypatch.setattr(host_devices, "read_disks", refuse)
    monkeypatch.setattr(host_devices, "read_nodes", dict)
    monkeypatch.setattr(host_devices, "read_interfaces", lambda: many)
    clock = VirtualClock()
    collector = HostDevices(Identity({"host": "here"}, {}), 1, clock=clock, counters=counters)
    collector.collect(0)
    clock.advance(1)
    (collected,) = collector.collect(1)

    assert len(collected.rows) == host_devices.DEVICES_MAX
    assert {row["tx_bytes"] for row in collected.rows} == {0}
    assert counters.value("sampler_errors", sampler="host_devices", field="disk") == 2
    assert counters.value("sampler_errors", sampler="host_devices", field="interface: too many") == 4
