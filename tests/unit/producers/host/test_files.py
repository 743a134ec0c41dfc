from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from producers.host.files import (
    STACKED_DISKS,
    CpuTimes,
    DiskCounters,
    HostFiles,
    KernelFile,
    Memory,
    NetworkCounters,
    Swapped,
    TcpCounters,
    cpu_times,
    disk_names,
    disks,
    hardware_interfaces,
    memory,
    network,
    processors,
    stalled_us,
    swapped,
    tcp,
)

DISKSTATS = b"""   7       0 loop0 9 0 9 9 9 0 9 9 0 9 9 0 0 0 0 0 0
 259       0 nvme0n1 100 5 2000 30 200 6 4000 70 1 90 100 0 0 0 0 8 4
 259       1 nvme0n1p1 90 5 1000 20 100 6 2000 60 1 80 90 0 0 0 0 0 0
 252       0 dm-0 90 5 1000 20 100 6 2000 60 1 80 90
"""
DEV = b"""Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier
    lo: 5 5 5 5 0 0 0 0 5 5 5 5 0 0 0 0
  eth0:87819 60 1 2 0 0 0 0 4711 50 4 8 0 0 0 0
eth0:1: 7 0 0 0 0 0 0 0 9 0 0 0 0 0 0 0
"""
MEMINFO = b"MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    %d kB\n"
SWAP = b"SwapCached:        7 kB\nSwapTotal:       50 kB\nSwapFree:        20 kB\n"


def test_processor_time_is_that_of_all_processors_and_counts_guests_once() -> None:
    """User and nice hold theirs already; waiting for a disk is not busy."""
    line = b"cpu  1000 200 300 4000 500 60 70 80 900 100\ncpu0 1 1 1 1 1 1 1 1 1 1\n"

    assert cpu_times(line) == CpuTimes(busy_s=17.1, iowait_s=5.0, total_s=62.1, idle_s={b"cpu0": 0.02})


def test_a_single_processor_is_idle_while_it_waits_for_a_disk() -> None:
    """Processors that are off line have no line; what follows is of other things, and a line that is cut is none."""
    stat = b"cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 3 400 50 6 7 8 9 9\ncpu12 1 2 3 7 0 6 7 8 9 9\n"

    assert cpu_times(stat + b"intr 1 2\nctxt 3\n").idle_s == {b"cpu0": 4.5, b"cpu12": 0.07}
    assert cpu_times(stat + b"cpu13 1 2 3 7 0 6").idle_s == {b"cpu0": 4.5, b"cpu12": 0.07}


SNMP = b"""Ip: Forwarding DefaultTTL
Ip: 1 64
Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab InSegs OutSegs\
 RetransSegs InErrs OutRsts InCsumErrors
Tcp: 1 200 120000 -1 962 85 559 9 14 324620 80103 22 0 1190 0
UdpLite: InDatagrams
UdpLite: 0
"""
"""Cut from a file of Linux 6.18."""


def test_segments_are_read_by_name() -> None:
    """Kernels add columns. Without the lines there is nothing to guess from."""
    assert tcp(SNMP) == TcpCounters(retransmits=22, segments_out=80_103)
    with pytest.raises(ValueError, match="unpack"):
        tcp(b"Ip: Forwarding\nIp: 1\n")


@pytest.mark.parametrize("stat", [b"", b"cpu  1 2 3 4", b"cpu  1 2 3 4\n", b"intr 1 2 3 4 5\n"])
def test_another_line_is_no_processor_time(stat: bytes) -> None:
    """Nothing is guessed from it."""
    with pytest.raises(ValueError, match=r"not found|no line"):
        cpu_times(stat)


@pytest.mark.parametrize(("online", "count"), [(b"0\n", 1), (b"0-1\n", 2), (b"0-3,6,8-15\n", 13), (b"127\n", 1)])
def test_processors_are_counted_from_ranges(online: bytes, count: int) -> None:
    """Both ends belong to a range."""
    assert processors(online) == count


@pytest.mark.parametrize("online", [b"", b"\n", b"0-\n", b"all\n"])
def test_what_is_no_list_of_processors_is_none(online: bytes) -> None:
    """Nothing is guessed from it."""
    with pytest.raises(ValueError, match="invalid literal"):
        processors(online)


def test_processors_that_come_and_go_are_noticed(tmp_path: Path) -> None:
    """Where the file is missing or odd, Python's count is used."""
    online, counts = tmp_path / "online", list[int | None]()
    files = HostFiles(online=online)
    try:
        counts.append(files.processors())
        for text in (b"0-7\n", b"0-7\n", b"0-5\n", b"?\n"):
            online.write_bytes(text)
            counts.append(files.processors())
    finally:
        files.close()

    assert counts == [os.cpu_count(), 8, 8, 6, os.cpu_count()]


@pytest.mark.parametrize(("available", "used"), [(400, 600), (1_000, 0), (1_001, 900)])
def test_memory_in_use_is_what_is_not_available(available: int, used: int) -> None:
    """More available than there is comes of containers; then what is free counts."""
    assert memory(MEMINFO % available + SWAP) == Memory(used * 1_024, 1_000 * 1_024, 30 * 1_024)


def test_memory_that_is_not_reported_is_no_memory() -> None:
    """Kernels before 3.14."""
    with pytest.raises(ValueError, match="not found"):
        memory(b"MemTotal:       1000 kB\nMemFree:         100 kB\n")


def test_swapping_is_reported_in_bytes() -> None:
    """The kernel counts pages."""
    assert swapped(b"pgpgin 3\npswpin 2\npswpout 5\n") == Swapped(2 * 4_096, 5 * 4_096)


def test_traffic_is_reported_by_interface() -> None:
    """Without loopback; an alias has a colon in its name, and a number may follow the colon at once."""
    found = network(DEV)
    errors = {"eth0/errin": 1, "eth0/dropin": 2, "eth0/errout": 4, "eth0/dropout": 8}

    assert (found.tx_bytes, found.rx_bytes) == ({"eth0": 4711, "eth0:1": 9}, {"eth0": 87819, "eth0:1": 7})
    assert found.errors == errors | {name.replace("eth0", "eth0:1"): 0 for name in errors}


def test_disks_are_those_that_are_whole() -> None:
    """Parts of one, and what is stacked on one, would count its traffic again."""
    names = disk_names(DISKSTATS, ["nvme0n1", "dm-0", "loop0"])

    assert names == {b"loop0": None, b"nvme0n1": "nvme0n1", b"nvme0n1p1": None, b"dm-0": None}
    assert disks(DISKSTATS, names) == DiskCounters(
        {"nvme0n1": 2_000 * 512},
        {"nvme0n1": 4_000 * 512},
        {"nvme0n1": 90},
        {"nvme0n1/read": 30, "nvme0n1/write": 70},
    )
    assert disk_names(DISKSTATS, [])[b"nvme0n1p1"] == "nvme0n1p1"
    with pytest.raises(KeyError):
        disks(DISKSTATS, {})


@pytest.mark.parametrize(
    ("head", "counted"),
    [((70, 90), {"nvme0n1"}), ((0, 90), {"nvme0n1"}), ((0, 0), {"nvme0n1", "nvme0c0n1", "nvme0c1n1"})],
    ids=["both", "written only", "an older kernel"],
)
def test_paths_to_an_nvme_namespace_count_once(head: tuple[int, int], counted: set[str]) -> None:
    """On the namespace, where the kernel counts there."""
    line = b" 259 0 %s 9 0 %d 9 9 0 %d 9 0 9 9\n"
    stats = line % (b"nvme0n1", *head) + b"".join(line % (b"nvme0c%dn1" % path, 30, 40) for path in (0, 1))
    names = disk_names(stats, ["nvme0n1", "nvme0c0n1", "nvme0c1n1"])

    assert {name for name in names.values() if name} == counted
    assert set(disks(stats, names).read_bytes) == counted


def test_pressure_is_read_as_the_kernel_writes_it() -> None:
    """Totals in microseconds; a line that the kernel does not have is unknown."""
    text = b"some avg10=0.12 avg60=0.05 avg300=0.01 total=123456789\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"

    assert (stalled_us("some", text), stalled_us("full", text)) == (123_456_789, 7)
    assert stalled_us("full", text[: text.index(b"full")]) is None


def test_pressure_is_reported_by_field(tmp_path: Path) -> None:
    """Without files that this kernel does not have."""
    (tmp_path / "pressure").mkdir()
    (tmp_path / "pressure" / "cpu").write_text("some avg10=0.12 avg60=0.05 avg300=0.01 total=12\n")
    (tmp_path / "pressure" / "memory").write_text("some avg10=0.00 total=7\nfull avg10=0.00 total=0\n")

    files = HostFiles(tmp_path)
    try:
        assert files.stalled_us() == {"cpu_pressure_ppm": 12, "memory_pressure_ppm": 7, "memory_full_pressure_ppm": 0}
    finally:
        files.close()
    assert HostFiles(tmp_path / "absent").stalled_us() == {}


def test_what_a_bond_sends_counts_once(tmp_path: Path) -> None:
    """By the interfaces below it; where none has hardware, as in a container, all but loopback count."""
    line = "%8s: 200 1 1 0 0 0 0 0 100 1 2 0 0 0 0 0\n"
    (tmp_path / "net").mkdir()

    def written(*names: str) -> None:
        (tmp_path / "net" / "dev").write_text("a\nb\n" + "".join(line % name for name in names))

    files, seen = HostFiles(tmp_path, net=tmp_path / "class"), list[object]()
    try:
        written("lo", "eth0")
        seen.append(files.network())
        for name in ("eth0", "eth1"):
            (tmp_path / "class" / name / "device").mkdir(parents=True)
        written("lo", "eth0", "eth1", "bond0", "bond0.7", "docker0", "veth1")
        seen.append(files.network())
    finally:
        files.close()

    def counted(*names: str) -> NetworkCounters:
        of_each = {"errin": 1, "dropin": 0, "errout": 2, "dropout": 0}
        errors = {f"{name}/{each}": count for name in names for each, count in of_each.items()}
        return NetworkCounters(dict.fromkeys(names, 100), dict.fromkeys(names, 200), errors)

    assert seen == [counted("eth0"), counted("eth0", "eth1")]


def test_hardware_below_an_interface_with_hardware_counts_once(tmp_path: Path) -> None:
    """Azure's synthetic interface counts what goes over its virtual function; a bond has no hardware of its own."""
    for name in ("eth0", "enP1s1", "eth1", "eth2"):
        (tmp_path / name / "device").mkdir(parents=True)
    (tmp_path / "bond0").mkdir()
    for name, master in (("enP1s1", "eth0"), ("eth1", "bond0"), ("eth2", "bond0")):
        (tmp_path / name / "master").symlink_to(Path("..", master))

    assert hardware_interfaces(tmp_path) == {"eth0", "eth1", "eth2"}


def test_a_disk_that_is_put_in_is_found(tmp_path: Path) -> None:
    """Which devices are disks is looked up when a name is new, not at every reading."""
    (tmp_path / "diskstats").write_bytes(DISKSTATS)
    (tmp_path / "block" / "nvme0n1").mkdir(parents=True)
    files = HostFiles(tmp_path, tmp_path / "block")
    try:
        before = set(files.disks().read_bytes)
        (tmp_path / "block" / "sda").mkdir()
        with (tmp_path / "diskstats").open("ab") as more:
            more.write(b"   8       0 sda 1 0 8 1 1 0 8 1 0 1 1 0\n")

        assert (before, set(files.disks().read_bytes)) == ({"nvme0n1"}, {"nvme0n1", "sda"})
    finally:
        files.close()


def test_a_file_is_read_whole_and_anew_each_time(tmp_path: Path) -> None:
    """One that is not there is looked for at the next reading."""
    file = KernelFile(tmp_path / "numbers")
    with pytest.raises(FileNotFoundError):
        file.read()
    (tmp_path / "numbers").write_bytes(b"x" * 200_000)

    assert file.read() == b"x" * 200_000
    (tmp_path / "numbers").write_bytes(b"y")
    assert file.read() == b"y"
    file.close()


def test_without_swap_nothing_is_read_of_it(tmp_path: Path) -> None:
    """The last reading is repeated while there is none; it is read again when there is some."""
    there, missing = SWAP, SWAP.replace(b"50 kB", b"0 kB").replace(b"20 kB", b"0 kB")
    files, seen = HostFiles(tmp_path), list[Swapped]()
    try:
        for second, swap in enumerate((there, missing, missing, there), 1):
            (tmp_path / "meminfo").write_bytes(MEMINFO % 300 + swap)
            (tmp_path / "vmstat").write_bytes(b"pswpin %d\npswpout %d\n" % (second, 10 * second))
            files.memory()
            seen.append(files.swapped())
    finally:
        files.close()

    page = os.sysconf("SC_PAGE_SIZE")
    assert seen == [Swapped(pages * page, 10 * pages * page) for pages in (1, 2, 2, 4)]


def test_this_host_s_files_agree_with_psutil() -> None:
    """An independent reader of the same kernel, within what passes between two readings."""
    files = HostFiles()
    try:
        before, cpu, after = psutil.cpu_times(), files.cpu(), psutil.cpu_times()
        virtual = psutil.virtual_memory()
        interfaces = {name for name in psutil.net_io_counters(pernic=True, nowrap=False) if name != "lo"}
        known = set(psutil.disk_io_counters(perdisk=True, nowrap=False) or {})

        assert sum(before[:8]) - 0.1 <= cpu.total_s <= sum(after[:8]) + 0.1
        assert files.processors() == len(cpu.idle_s) == psutil.cpu_count()
        assert files.tcp().segments_out >= files.tcp().retransmits >= 0
        assert files.memory().total_bytes == virtual.total
        assert abs(files.memory().used_bytes - (virtual.total - virtual.available)) < virtual.total * 0.05
        assert files.memory().swap_used_bytes == psutil.swap_memory().used
        assert files.swapped() == Swapped(psutil.swap_memory().sin, psutil.swap_memory().sout)
        hardware = {name for name in interfaces if Path("/sys/class/net", name, "device").exists()}
        assert set(files.network().tx_bytes) == (hardware or interfaces)
        assert set(files.disks().read_bytes) <= known
        assert not any(name.startswith(STACKED_DISKS) for name in files.disks().read_bytes)
    finally:
        files.close()
