from __future__ import annotations

from dataclasses import replace

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.differences import bounds, share_ppm, since, summed, within
from producers.host.files import (
    CpuTimes,
    DiskCounters,
    HostFiles,
    Memory,
    NetworkCounters,
    Swapped,
    TcpCounters,
    disks,
    network,
)
from producers.host.rdma import Port
from producers.host.sampler import ByPsutil, HostReading, HostSampler, System, host_row
from runtime.counters import Counters
from schemas.codec.build import block_from_rows
from schemas.events.event_types import HOST_SAMPLES
from tests.virtual_clock import VirtualClock

FIRST = HostReading(
    moment_ms=10_000,
    cpu=CpuTimes(100.0, 5.0, 400.0, {b"cpu0": 80.0, b"cpu1": 90.0, b"cpu3": 10.0}),
    load_1m=1.25,
    processors=4,
    memory=Memory(used_bytes=10, total_bytes=40, swap_used_bytes=0),
    swapped=Swapped(in_bytes=7, out_bytes=9),
    stalled_us={"cpu_pressure_ppm": 5, "memory_pressure_ppm": 0, "memory_full_pressure_ppm": 900, "io_pressure_ppm": 0},
    network=NetworkCounters({"eth0": 100}, {"eth0": 200}, {"eth0": 1}),
    tcp=TcpCounters(retransmits=5, segments_out=1_000),
    rdma={"mlx5_0/1": Port(1_000, 2_000, {"a": 3}), "efa_0/1": Port(7, 7, {})},
    disks=DiskCounters({"sda": 10}, {"sda": 20}, {"sda": 30}, {"sda": 40}),
)
LEVELS = {
    "load_1m_milli": 1_250,
    "processors": 4,
    "memory_used_bytes": 10,
    "memory_total_bytes": 40,
    "swap_used_bytes": 0,
}


def test_a_first_reading_has_levels_only() -> None:
    """Differences and shares need a reading before."""
    assert host_row(None, FIRST) == LEVELS


def test_a_second_reading_has_differences_and_shares() -> None:
    """Over the two seconds between them."""
    now = replace(
        FIRST,
        moment_ms=12_000,
        cpu=CpuTimes(102.0, 6.0, 408.0, {b"cpu0": 82.0, b"cpu1": 90.5, b"cpu2": 7.0}),
        swapped=Swapped(in_bytes=4_103, out_bytes=10),
        stalled_us={"cpu_pressure_ppm": 500_005, "memory_pressure_ppm": 1, "memory_full_pressure_ppm": 400},
        network=NetworkCounters({"eth0": 1_100}, {"eth0": 2_200}, {"eth0": 4}),
        tcp=TcpCounters(retransmits=9, segments_out=1_500),
        rdma={"mlx5_0/1": Port(1_100, 2_200, {"a": 5}), "efa_0/1": Port(8, 9, {}), "mlx5_1/1": Port(9, 9, {"a": 9})},
        disks=DiskCounters({"sda": 110}, {"sda": 220}, {"sda": 1_030}, {"sda": 3_040}),
    )

    assert host_row(FIRST, now) == LEVELS | {
        "interval_ms": 2_000,
        "cpu_busy_ppm": 250_000,
        "cpu_iowait_ppm": 125_000,
        "cpu_core_busy_max_ppm": 750_000,
        "swap_in_bytes": 4_096,
        "swap_out_bytes": 1,
        "cpu_pressure_ppm": 250_000,
        "memory_pressure_ppm": 0,
        "memory_full_pressure_ppm": 200,
        "io_pressure_ppm": None,
        "network_tx_bytes": 1_000,
        "network_rx_bytes": 2_000,
        "network_errors": 3,
        "tcp_retransmits": 4,
        "tcp_segments_out": 500,
        "rdma_tx_bytes": 101,
        "rdma_rx_bytes": 202,
        "rdma_errors": 2,
        "disk_read_bytes": 100,
        "disk_write_bytes": 200,
        "disk_busy_ms": 1_000,
        "disk_queue_milli": 1_500,
    }


@pytest.mark.parametrize("moment_ms", [10_000, 9_000, 10_000 + 3_600_001], ids=["no time", "backwards", "an hour"])
def test_readings_too_far_apart_or_too_near_have_no_differences(moment_ms: int) -> None:
    """They would belong to no window."""
    assert host_row(FIRST, replace(FIRST, moment_ms=moment_ms)) == LEVELS


def test_what_could_not_be_read_is_unknown() -> None:
    """Neither 0 nor a guess."""
    row = host_row(FIRST, HostReading(moment_ms=11_000))

    assert {value for name, value in row.items() if name != "interval_ms"} == {None}


@pytest.mark.parametrize(
    ("before", "now", "growth"),
    [(3, 10, 7), (10, 10, 0), (10, 3, 3), (None, 3, None), (3, None, None), (0, 0, 0)],
    ids=["grown", "stood still", "restarted", "first reading", "not read", "zero is a value"],
)
def test_a_counter_grows_by_the_difference(before: int | None, now: int | None, growth: int | None) -> None:
    """Lower than before means restarted: what it shows was counted since."""
    assert since(before, now) == growth


def test_an_error_counter_that_is_set_back_takes_nothing_from_the_others() -> None:
    """Nor does what the others had counted in all their life become errors of now."""
    line = b"\n\n  eth0: 9 9 %d %d 0 0 0 0 9 9 0 0 0 0 0 0\n"
    before = replace(FIRST, network=network(line % (5, 1_000)))
    now = replace(FIRST, moment_ms=12_000, network=network(line % (2, 1_003)))

    assert host_row(before, now)["network_errors"] == 2 + 3


def test_times_of_reads_and_writes_begin_again_one_by_one() -> None:
    """The kernel counts them in 32 bits: in a day of a busy disk either may come round."""
    line = b" 8 0 sda 9 0 9 %d 9 0 9 %d 0 5 9 0\n"
    before = replace(FIRST, disks=disks(line % (2**32 - 500, 3_000_000), {b"sda": "sda"}))
    now = replace(FIRST, moment_ms=12_000, disks=disks(line % (700, 3_001_300), {b"sda": "sda"}))

    assert host_row(before, now)["disk_queue_milli"] == (700 + 1_300) // 2


def test_a_new_device_counts_from_its_second_reading() -> None:
    """An interface moved here brings its count along; one that went takes nothing back."""
    assert summed({"a": 10, "gone": 5}, {"a": 13, "new": 1_000}) == 3
    assert summed({"gone": 5}, {"new": 1_000}) is None
    assert summed(None, {"a": 1}) is None


@given(st.lists(st.tuples(st.integers(0, 10**12), st.booleans()), min_size=1, max_size=30))
def test_differences_add_up_to_all_that_was_counted(steps: list[tuple[int, bool]]) -> None:
    """Over any run of growth and restarts between readings, nothing is counted twice and nothing made up."""
    counter, before, counted, truth = 0, 0, 0, 0
    for growth, restarted in steps:
        if restarted:
            counter = 0
        counter += growth
        visible = not restarted or counter < before
        if visible:
            truth += growth
        else:
            truth += counter - before  # a restart hidden by more growth than before: the least that is sure
        grown = since(before, counter)
        assert grown is not None
        counted += grown
        before = counter

    assert counted == truth


@pytest.mark.parametrize(
    ("part", "whole", "ppm"), [(1.0, 4.0, 250_000), (5.0, 4.0, 1_000_000), (-0.1, 4.0, 0), (0.0, 0.0, None)]
)
def test_a_share_lies_between_nothing_and_all(part: float, whole: float, ppm: int | None) -> None:
    """Clocks of the kernel are not exact; without time passed there is no share."""
    assert share_ppm(part, whole) == ppm


def test_numbers_outside_their_bounds_are_unknown() -> None:
    """One wrong value does not cost the sample."""
    row, wrong = within(bounds(HOST_SAMPLES), {"cpu_busy_ppm": 1_000_001, "processors": 2, "disk_busy_ms": -1})

    assert row == {"cpu_busy_ppm": None, "processors": 2, "disk_busy_ms": None}
    assert wrong == ["cpu_busy_ppm", "disk_busy_ms"]


@pytest.mark.parametrize("system", [HostFiles(), ByPsutil()], ids=["the kernel's files", "psutil"])
def test_this_host_can_be_sampled(system: System) -> None:
    """Real values fit the field table; the second sample covers the time since the first."""
    clock = VirtualClock()
    sampler = HostSampler({"host": "here", "region": None}, clock=clock, counters=Counters(), system=system)
    first = sampler.sample(1_000)
    clock.advance(1_000)
    second = sampler.sample(2_000)

    assert first["memory_total_bytes"] == psutil.virtual_memory().total
    assert first["processors"] == psutil.cpu_count()
    assert "interval_ms" not in first
    assert second["interval_ms"] == 1_000
    assert 0 < second["memory_used_bytes"] < second["memory_total_bytes"]
    assert block_from_rows(HOST_SAMPLES.fields, [first, second]).rows == 2


class WithRdma(HostFiles):
    """An adapter that sends a thousand bytes between any two looks, which are counted."""

    looks = 0

    def rdma(self) -> dict[str, Port]:
        """The next reading."""
        self.looks += 1
        return {"mlx5_0/1": Port(1_000 * self.looks, 0, {})}


def test_rdma_ports_are_read_once_in_every_window() -> None:
    """A reading may ask the adapter; what grew since the one before stands in one sample, the others know nothing."""
    system, clock = WithRdma(), VirtualClock()
    sampler = HostSampler({"host": "here"}, clock=clock, counters=Counters(), system=system)

    rows = []
    for at_ms in range(5_000, 35_000, 1_000):
        rows.append(sampler.sample(at_ms))
        clock.advance(1_000)

    known = {row["at_ms"]: row["rdma_tx_bytes"] for row in rows if row.get("rdma_tx_bytes") is not None}
    assert (known, system.looks) == ({10_000: 1_000, 20_000: 1_000, 30_000: 1_000}, 4)


class WithoutNetwork(HostFiles):
    """A system that refuses one field."""

    def network(self) -> NetworkCounters:
        """Never."""
        raise PermissionError("no")


def test_a_field_the_system_refuses_is_null_and_counted() -> None:
    """Logged once, counted every time; the others are there."""
    counters = Counters()
    sampler = HostSampler({"host": "here"}, clock=VirtualClock(), counters=counters, system=WithoutNetwork())
    sampler.sample(0)

    row = sampler.sample(0)

    assert row.get("network_tx_bytes") is None
    assert row["memory_total_bytes"] > 0
    assert counters.value("sampler_errors", sampler="host", field="network") == 2
