"""Counting single readings of GPUs."""

from __future__ import annotations

from dataclasses import replace

from lab.oracle.machines import HostSample, Sample, by_window, hosts, most_throttled, readings

ONE = Sample(20_000, "g", "t", 50, 40, 1_000, 7)


def test_readings_are_by_type_by_gpu_and_of_all() -> None:
    """Means are of what is known."""
    other = replace(ONE, at_ms=29_999, gpu_uuid="h", util_gpu_pct=100, temperature_c=None, energy_mj=None)

    found = readings([ONE, other])

    assert {metric: value for (metric, of), value in found.items() if of == "gpu_model=t"} == {
        "gpus": 2, "util_pct": 75, "hottest_c": 40, "power_mw": 1_000, "gpu_energy_mj": 7,
    }  # fmt: skip
    assert found["util_pct", "gpu=h"] == 100
    assert ("hottest_c", "gpu=h") not in found
    assert readings([]) == {}


def test_a_gpu_counts_once_with_its_mig_devices() -> None:
    """Which are seen for themselves, too."""
    device = replace(ONE, gpu_uuid="m", parent_uuid="g", power_mw=None)

    found = readings([ONE, device, replace(device, gpu_uuid="n"), replace(ONE, gpu_uuid="h")])

    assert (found["gpus", "gpu_model=t"], found["gpus", "gpu=m"]) == (2, 1)


def test_a_gpu_is_throttled_for_a_share_of_the_time_that_is_read() -> None:
    """Its slowest clock beside; what is unknown is not there."""
    held = replace(ONE, interval_ms=1_000, throttled_us=250_000, clock_sm_mhz=900)
    found = readings([held, replace(held, throttled_us=0, clock_sm_mhz=1_000), replace(ONE, gpu_uuid="h")])

    assert (found["throttled_pct", "gpu=g"], found["slowest_clock_mhz", "gpu=g"]) == (12.5, 900)
    assert ("throttled_pct", "gpu=h") not in found


def test_windows_in_which_throttled_time_is_unknown_are_no_time_without_it() -> None:
    """Read once in a window it is of the whole window."""
    silent = replace(ONE, interval_ms=1_000)
    found = readings([silent, replace(silent, throttled_us=1_000_000), replace(silent, at_ms=30_000)])

    assert (found["throttled_pct", "gpu=g"], found["throttled_pct", "all"]) == (50, 50)


def test_what_the_power_limit_did_not_do_is_a_share_of_its_own() -> None:
    """Of the windows in which it is known, be the rest known or not."""
    held = replace(ONE, interval_ms=1_000, throttled_us=500_000)
    found = readings([replace(held, throttled_fault_us=250_000), replace(held, at_ms=30_000)])

    assert (found["throttled_pct", "gpu=g"], found["throttled_fault_pct", "gpu=g"]) == (50, 25)
    assert ("throttled_fault_pct", "gpu=g") not in readings([held])


def test_a_gpu_is_beside_the_median_of_its_engine_window_by_window() -> None:
    """A GPU without an engine has no peers."""
    slow = replace(ONE, engine_id="e", clock_sm_mhz=1_000)
    peers = [replace(slow, gpu_uuid=one, clock_sm_mhz=2_000) for one in "hi"]
    found = readings([slow, *peers, replace(slow, at_ms=30_000), replace(ONE, gpu_uuid="z", clock_sm_mhz=1)])

    assert (found["clock_mhz", "peer=e g"], found["group_clock_mhz", "peer=e g"]) == (1_000, 1_500)
    assert ("clock_mhz", "peer=None z") not in found


def test_the_most_throttled_gpu_is_that_of_the_longest_window() -> None:
    """Of several of one length the last by its name; none where nothing is known."""
    held = replace(ONE, throttled_us=9)
    rows = [held, replace(held, gpu_uuid="h"), replace(held, gpu_uuid="i", throttled_us=8), ONE]

    assert most_throttled(by_window(rows)) == "h"
    assert most_throttled(by_window([ONE])) is None


def test_hosts_are_read_by_themselves() -> None:
    """Means are of what is known, bytes of the time that readings cover; a host that knows little says little."""
    one = HostSample(0, "a", 200_000, 900_000, 30, 100, 4, 8, 1, 500, 1, 10)
    found = hosts([one, replace(one, cpu_busy_ppm=None, cpu_core_busy_max_ppm=300_000), HostSample(0, "b", 1_000_000)])

    assert {metric: value for (metric, of), value in found.items() if of == "host=a"} == {
        "host_cpu_share": 0.2, "host_core_share": 0.9, "host_memory_share": 0.3, "host_tx_per_s": 8,
        "host_rx_per_s": 16, "host_sent_again": 0.1, "host_network_errors": 2,
    }  # fmt: skip
    assert {metric: value for (metric, of), value in found.items() if of == "host=b"} == {
        "host_cpu_share": 1, "host_network_errors": 0,
    }  # fmt: skip
