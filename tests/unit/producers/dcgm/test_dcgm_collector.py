from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from producers.collector import Collected, Identity
from producers.dcgm.collector import FAILURES_MAX, DcgmCollector, SeenGpu
from producers.engines.fetch import FetchError, FetchLimits
from runtime.counters import Counters
from schemas.codec.build import block_from_rows
from schemas.events.event_types import GPU_EVENTS, GPU_SAMPLES
from tests.virtual_clock import VirtualClock

GAUGE = "# TYPE DCGM_FI_PROF_PCIE_TX_BYTES gauge\n"


class Exporter:
    """Pages to come, by hand; ``None`` is no answer."""

    def __init__(self, **placement: Mapping[str, str]) -> None:
        self.text: str | None = ""
        self.clock = VirtualClock(1_000_000)
        self.counters = Counters()
        self.identity = Identity({"host": "here"}, placement or {"GPU-a": {"engine_id": "e1", "placement_group": "g1"}})
        self.seen: dict[str, SeenGpu] = {}
        self.begin()

    def begin(self) -> None:
        """A life of the collector, as the agent begins one after a failure."""
        self.collector = DcgmCollector(
            "http://h", self.identity, 1_000, seen=self.seen, fetch=self.fetch, clock=self.clock, counters=self.counters
        )

    def fetch(self, url: str, limits: FetchLimits, api_key: str | None = None) -> bytes:
        if self.text is None:
            raise FetchError("refused", url, "no")
        return self.text.encode()

    def tick(self, text: str | None, after_ms: int = 1_000) -> Sequence[Collected]:
        self.text = text
        self.clock.advance(after_ms)
        return self.collector.collect(self.clock.now_ms())

    def rows(self, text: str | None, after_ms: int = 1_000) -> list[dict[str, Any]]:
        """What is known of the samples."""
        collected = [part for part in self.tick(text, after_ms) if part.event is GPU_SAMPLES]
        rows = [row for part in collected for row in part.rows]
        assert block_from_rows(GPU_SAMPLES.fields, rows).rows == len(rows)
        return [{name: value for name, value in row.items() if value is not None} for row in rows]

    def events(self, text: str) -> list[dict[str, Any]]:
        collected = [part for part in self.tick(text) if part.event is GPU_EVENTS]
        rows = [row for part in collected for row in part.rows]
        assert block_from_rows(GPU_EVENTS.fields, rows).rows == len(rows)
        return rows


def page(gpu: str = "GPU-a", labels: str = "", **values: float) -> str:
    return "".join(f'DCGM_FI_{name}{{UUID="{gpu}"{labels}}} {value}\n' for name, value in values.items())


IDENTITY = {"host": "here", "origin": "measured", "gpu_uuid": "GPU-a", "engine_id": "e1", "placement_group": "g1"}


def test_counters_become_what_they_grew_by_over_all_the_time_they_stood_still() -> None:
    """The exporter reads seldom: rows in between hold levels; the next change covers the time, a row per window."""
    exporter = Exporter()
    first = page(DEV_TOTAL_ENERGY_CONSUMPTION=1_000, DEV_GPU_UTIL=5)

    assert exporter.rows(first) == [IDENTITY | {"at_ms": 1_001_000, "util_gpu_pct": 5}]
    assert exporter.rows(first) == [IDENTITY | {"at_ms": 1_002_000, "util_gpu_pct": 5}]
    assert exporter.rows(page(DEV_TOTAL_ENERGY_CONSUMPTION=3_001, DEV_GPU_UTIL=9), 19_000) == [
        IDENTITY | {"at_ms": 1_009_999, "interval_ms": 9_000, "energy_mj": 900},
        IDENTITY | {"at_ms": 1_019_999, "interval_ms": 10_000, "energy_mj": 1_000},
        IDENTITY | {"at_ms": 1_021_000, "interval_ms": 1_000, "energy_mj": 101, "util_gpu_pct": 9},
    ]


def test_values_that_stand_still_for_a_minute_did_not_grow() -> None:
    """No longer the exporter's pace: zero is known then."""
    exporter = Exporter()
    same = page(DEV_PCIE_REPLAY_COUNTER=4)
    exporter.rows(same, 0)

    assert exporter.rows(same, 59_999)[-1] == IDENTITY | {"at_ms": 1_059_999}
    assert exporter.rows(same, 1)[-1] == IDENTITY | {"at_ms": 1_060_000, "interval_ms": 10_000, "pcie_replays": 0}


@pytest.mark.parametrize(
    ("pause_ms", "after", "energy_mj", "covered_ms"),
    [
        (25_000, 6_500, 5_500, 26_000),
        (25_000, 400, 400, 26_000),
        (3_598_999, 6_500, 5_500, 3_599_999),
        (3_599_001, 6_500, 0, 0),
    ],
    ids=["the exporter restarted", "the driver, too", "almost an hour", "over an hour"],
)
def test_energy_of_an_exporters_silence_is_what_its_counter_grew_by(
    pause_ms: int, after: int, energy_mj: int, covered_ms: int
) -> None:
    """Also where the collector failed meanwhile. Of a counter that began anew what it counts since; else none."""
    exporter = Exporter()
    exporter.rows(page(DEV_TOTAL_ENERGY_CONSUMPTION=1_000))
    for _ in range(FAILURES_MAX - 1):
        exporter.tick(None, pause_ms // FAILURES_MAX)
    with pytest.raises(FetchError):
        exporter.tick(None, pause_ms - pause_ms // FAILURES_MAX * (FAILURES_MAX - 1))
    exporter.begin()

    rows = exporter.rows(page(DEV_TOTAL_ENERGY_CONSUMPTION=after))
    assert sum(row.get("energy_mj", 0) for row in rows) == energy_mj
    assert sum(row.get("interval_ms", 0) for row in rows) == covered_ms


def test_an_energy_counter_that_stands_still_is_a_page_that_was_not_refreshed() -> None:
    """A GPU always draws power: its energy belongs to all the time since, not to the last minute of it."""
    exporter = Exporter()
    frozen = page(DEV_TOTAL_ENERGY_CONSUMPTION=1_000)
    exporter.rows(frozen, 0)

    assert [exporter.rows(frozen, 60_000) for _ in range(2)] == [
        [IDENTITY | {"at_ms": at_ms}] for at_ms in (1_060_000, 1_120_000)
    ]
    rows = exporter.rows(page(DEV_TOTAL_ENERGY_CONSUMPTION=13_000), 0)
    assert [(row["interval_ms"], row["energy_mj"]) for row in rows] == [(10_000, 1_000)] * 12


def test_a_counter_that_began_anew_counts_from_nothing() -> None:
    """And a blank in between is made up for."""
    exporter = Exporter()
    exporter.rows(page(DEV_ECC_SBE_VOL_TOTAL=10, DEV_PCIE_REPLAY_COUNTER=1))

    (row,) = exporter.rows(page(DEV_ECC_SBE_VOL_TOTAL=9_223_372_036_854_775_794, DEV_PCIE_REPLAY_COUNTER=2))
    assert (row.get("ecc_corrected"), row["pcie_replays"]) == (None, 1)
    (row,) = exporter.rows(page(DEV_ECC_SBE_VOL_TOTAL=3, DEV_PCIE_REPLAY_COUNTER=2))
    assert (row["ecc_corrected"], row["pcie_replays"]) == (3, 0)


def test_an_amount_that_no_gpu_can_reach_is_unknown() -> None:
    """A total that fell to 0 for one page and came back is no energy."""
    exporter = Exporter()
    exporter.rows(page(DEV_TOTAL_ENERGY_CONSUMPTION=5_551_899_580))
    exporter.rows(page(DEV_TOTAL_ENERGY_CONSUMPTION=0))

    assert exporter.rows(page(DEV_TOTAL_ENERGY_CONSUMPTION=5_551_899_999)) == [
        IDENTITY | {"at_ms": 1_003_000, "interval_ms": 1_000}
    ]


def test_rates_become_amounts_and_causes_of_throttling_add_up_to_the_interval_at_most() -> None:
    """A rate only where the page types it as a gauge; of the causes those that are reported."""
    exporter = Exporter()
    zeros = {"DEV_POWER_VIOLATION": 0, "DEV_BOARD_LIMIT_VIOLATION": 0}
    exporter.rows(GAUGE + page(PROF_PCIE_TX_BYTES=7, PROF_PCIE_RX_BYTES=7, **zeros))

    held = {"DEV_POWER_VIOLATION": 1_500_000_000, "DEV_BOARD_LIMIT_VIOLATION": 200_000_000}
    (row,) = exporter.rows(GAUGE + page(PROF_PCIE_TX_BYTES=3, PROF_PCIE_RX_BYTES=8, **held), 2_000)
    assert row == IDENTITY | {
        "at_ms": 1_003_000,
        "interval_ms": 2_000,
        "pcie_tx_bytes": 6,
        "throttled_us": 1_700_000,
        "throttled_fault_us": 200_000,
        "throttled_power_us": 1_500_000,
    }
    (row,) = exporter.rows(page(DEV_POWER_VIOLATION=9_500_000_000))
    assert (row["throttled_us"], row["throttled_power_us"]) == (1_000_000, 1_000_000)


def test_an_xid_is_reported_when_it_changes() -> None:
    """Not the one found at first, not again and again, not its end; of the pod that holds the GPU."""
    exporter = Exporter()
    pod = ',pod="p",namespace="n",container="c"'

    assert exporter.events(page(DEV_XID_ERRORS=31)) == []
    assert exporter.events(page(DEV_XID_ERRORS=31)) == []
    assert exporter.events(page(DEV_XID_ERRORS=0)) == []
    assert exporter.events(page(labels=pod, DEV_XID_ERRORS=79)) == [
        IDENTITY
        | {
            "at_ms": 1_004_000,
            "gpu_model": None,
            "kind": "xid",
            "severity": "critical",
            "action": "reboot_node",
            "code": 79,
            "message": "XID 79: the GPU has fallen off the bus; held by pod n/p (c)",
        }
    ]
    assert exporter.events(page(DEV_XID_ERRORS=79)) == []


def test_a_gpu_that_had_fallen_off_the_bus_is_found_once() -> None:
    """When the exporter shows it without that XID; or at first sight, by the agent that the machine's start started."""
    exporter, told = Exporter(), list[list[tuple[str, int | None]]]()
    for code in (79, 79, 0, 0, 79, 48, 48):
        told.append([(row["kind"], row.get("code")) for row in exporter.events(page(DEV_XID_ERRORS=code))])
    pages = page(DEV_GPU_UTIL=1), page(DEV_GPU_UTIL=1, DEV_XID_ERRORS=0)
    began = [Exporter().events(text) for text in pages]

    assert told == [[], [], [("gpu_found", None)], [], [("xid", 79)], [("gpu_found", None), ("xid", 48)], []]
    assert [[(row["kind"], row["severity"]) for row in rows] for rows in began] == [[], [("gpu_found", "info")]]


def test_an_xid_of_a_gpu_that_reported_none_before_is_new() -> None:
    """Some exporters show it from the first error on."""
    exporter = Exporter()
    exporter.events(page(DEV_GPU_UTIL=1))

    assert [event["code"] for event in exporter.events(page(DEV_GPU_UTIL=1, DEV_XID_ERRORS=48))] == [48]


def test_a_page_that_does_not_come_is_counted_and_at_last_an_error() -> None:
    """What was known is kept for the next page; a GPU without values gives no row."""
    exporter = Exporter()
    exporter.rows(page(DEV_TOTAL_ENERGY_CONSUMPTION=10))
    for _ in range(FAILURES_MAX - 1):
        assert exporter.rows(None, 10) == []
    assert exporter.rows(page(DEV_GPU_TEMP=math.nan), 10) == []
    (row,) = exporter.rows(page(DEV_TOTAL_ENERGY_CONSUMPTION=30), 900)
    assert (row["interval_ms"], row["energy_mj"]) == (1_000, 20)
    for _ in range(FAILURES_MAX - 1):
        exporter.tick(None)
    with pytest.raises(FetchError):
        exporter.tick(None)
    assert exporter.counters.value("sampler_errors", sampler="dcgm", field="refused") == 2 * FAILURES_MAX - 1


def test_a_value_outside_its_bounds_is_unknown_and_counted() -> None:
    """The rest of the sample is kept."""
    exporter = Exporter()

    assert exporter.rows(page(DEV_GPU_UTIL=101, DEV_SM_CLOCK=5)) == [IDENTITY | {"at_ms": 1_001_000, "clock_sm_mhz": 5}]
    assert exporter.counters.value("sampler_errors", sampler="dcgm", field="util_gpu_pct") == 1


def test_a_gpu_not_seen_for_an_hour_is_forgotten() -> None:
    """What it had counted belongs to no window by then, and its last XID is no news."""
    exporter = Exporter()
    exporter.rows(page(DEV_XID_ERRORS=0, DEV_GPU_UTIL=1))
    exporter.rows(page("GPU-b", DEV_GPU_UTIL=1), 3_600_001)

    assert exporter.events(page(DEV_XID_ERRORS=31)) == []


def test_a_page_without_utilisation_has_the_share_of_time_of_the_graphics_engine() -> None:
    """As of a MIG instance, whose utilisation NVML does not measure; where both are there the first counts."""
    rows = Exporter().rows(page(PROF_GR_ENGINE_ACTIVE=0.42))
    both = Exporter().rows(page(PROF_GR_ENGINE_ACTIVE=0.42, DEV_GPU_UTIL=5))

    assert [row["util_gpu_pct"] for row in rows + both] == [42, 5]


def test_a_divided_gpu_has_its_energy_and_its_xid_once() -> None:
    """Not once for each MIG instance; those have the share of time that they were active."""

    def divided(**values: float) -> str:
        return "".join(page("GPU-a", f',GPU_I_PROFILE="1g.6gb",GPU_I_ID="{part}"', **values) for part in (3, 4))

    exporter = Exporter()
    exporter.rows(divided(DEV_TOTAL_ENERGY_CONSUMPTION=5, DEV_XID_ERRORS=0, DEV_GPU_UTIL=0, PROF_GR_ENGINE_ACTIVE=0.9))
    busy = divided(DEV_TOTAL_ENERGY_CONSUMPTION=8, DEV_XID_ERRORS=31, DEV_GPU_UTIL=0, PROF_GR_ENGINE_ACTIVE=0.4)
    events, samples = (part.rows for part in exporter.tick(busy))

    assert [(event["gpu_uuid"], event["code"]) for event in events] == [("GPU-a", 31)]
    assert [(row["gpu_uuid"], row.get("energy_mj"), row["util_gpu_pct"]) for row in samples] == [
        ("GPU-a", 3, None),
        ("GPU-a/3", None, 40),
        ("GPU-a/4", None, 40),
    ]


def test_a_divided_gpu_is_of_the_group_that_its_instances_are_configured_for() -> None:
    """Where it is none's itself: rows that name two groups would bill it in each. And no engine's of theirs."""
    text = page(labels=',GPU_I_ID="3"', DEV_POWER_USAGE=52.7, DEV_FB_USED=1)
    of_instance = {"engine_id": "e1", "placement_group": "g1"}

    def place(**placement: Mapping[str, str]) -> list[tuple[str | None, ...]]:
        rows = Exporter(**placement).rows(text)
        return [tuple(row.get(name) for name in ("gpu_uuid", "engine_id", "placement_group")) for row in rows]

    found = [
        place(**{"GPU-a/3": of_instance}),
        place(**{"GPU-a/3": of_instance, "GPU-a": {"placement_group": "g0"}}),
        place(**{"GPU-a/3": of_instance, "GPU-a/4": {"placement_group": "g2"}}),
    ]
    assert found == [[("GPU-a", None, group), ("GPU-a/3", "e1", "g1")] for group in ("g1", "g0", None)]
