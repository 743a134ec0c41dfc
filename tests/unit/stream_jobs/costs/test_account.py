"""Bills from what was told: what GPUs did without tokens, gaps, MIG devices, shared GPUs, prices of a file.

Covers stream_jobs.costs.physical.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.contract.record import Output
from schemas.events.event_fields import AMOUNT_MAX
from schemas.limits import MINUTE_MS
from schemas.rows.costs import COSTS
from stream_jobs.costs.account import Prices, Pricing, cost_block
from stream_jobs.costs.row_kernels import SUM_MAX
from stream_jobs.costs.split import WEIGHTS
from stream_jobs.costs.step import outputs_of
from stream_jobs.prices.load import parse_prices
from stream_jobs.prices.model import instant_of
from stream_jobs.step import Commit
from stream_jobs.windows import messages
from tests.unit.stream_jobs.costs.cases import (
    Bill,
    Row,
    bills_of,
    emitted_rows,
    filled,
    gpu_row,
    price_of,
    share_row,
    told_bills,
    usage_row,
)


def named(rows: list[Bill]) -> dict[tuple[str, str], tuple[int | None, list[str]]]:
    return {(row["use"], row["owner"]): (row["total_nusd"], [part[0] for part in row["parts"]]) for row in rows}


def test_what_gpus_do_without_tokens_has_a_name() -> None:
    """Idle, training, loaded in vain, starting, and an engine without GPUs; a type without price is null."""
    rows: list[Row] = [
        gpu_row("host-1", "g1", use="idle"),
        gpu_row("host-1", "g2", use="training"),
        gpu_row("vain", "g3"),
        gpu_row("new", "g4", starting=4_000),
        usage_row("gpuless", "t", 5),
        gpu_row("strange", "g5", model="X1"),
    ]

    assert named(told_bills(rows)) == {
        ("idle", "host-1"): (10_000_000, ["__idle__"]),
        ("training", "host-1"): (10_000_000, ["__training__"]),
        ("engine", "vain"): (10_000_000, ["__wasted__"]),
        ("engine", "new"): (10_000_000, ["__overhead__", "__wasted__"]),
        ("engine", "gpuless"): (None, ["__unpriced__"]),
        ("engine", "strange"): (0, ["__wasted__", "__unpriced__"]),
    }


def overhead_ms(*rows: Row) -> dict[str, tuple[int, int | None]]:
    """GPU time by owner: in all, and of its start-up."""
    return {
        bill["owner"]: (bill["gpu_ms"], next((part[-1] for part in bill["parts"] if part[1] == "startup"), None))
        for bill in told_bills(rows)
    }


def test_start_up_is_the_time_that_readings_tell() -> None:
    """To the millisecond, over all GPUs of the engine; of an engine that moved each bill has its own."""
    rows = [gpu_row("a", "g1", starting=10_000), gpu_row("a", "g2", starting=4_321), gpu_row("b", "g2", window=2)]

    assert overhead_ms(*rows) == {"a": (20_000, 14_321), "b": (10_000, None)}


def test_start_up_has_its_part_of_time_that_is_estimated_or_shared() -> None:
    """A gap between two readings of which one was of a start; a MIG device that started for a third of its time."""
    gap = [gpu_row("a", "g", starting=10_000), gpu_row("a", "g", window=3)]
    divided = [gpu_row("host-1", "P", use="idle", ms=60_000), device("b", "m", "3g.40gb", ms=60_000, starting=20_000)]

    assert overhead_ms(*gap) == {"a": (30_000, 15_000)}
    assert overhead_ms(*divided) == {"b": (25_714, 8_571), "host-1": (34_286, None)}


def test_an_engine_that_moved_pays_for_its_time() -> None:
    """One GPU, ten seconds under each name: two bills."""
    assert named(told_bills([gpu_row("a", "g"), gpu_row("b", "g", window=2)])) == {
        ("engine", "a"): (10_000_000, ["__wasted__"]),
        ("engine", "b"): (10_000_000, ["__wasted__"]),
    }


def test_region_host_and_type_stand_where_all_gpus_have_the_same() -> None:
    """A group over several hosts has none of its own."""
    (bill,) = told_bills([gpu_row("a", "g1"), gpu_row("a", "g2", host="host-2", model="L4")])

    assert (bill["region"], bill["host"], bill["gpu_model"]) == ("north", None, None)


def test_holders_of_a_gpu_pay_by_their_shares_whoever_told_its_time() -> None:
    """Weights 3, 2 and 2 of 7: the whole GPU is there."""
    owned = ((("engine", "a"), 3), (("engine", "b"), 2), (("idle", "host-1"), 2))
    shares = [share_row(owner, "g", weight, use=use) for (use, owner), weight in owned]

    rows = told_bills([gpu_row("a", "g"), gpu_row("b", "g", window=2), *shares])

    assert {row["owner"]: (row["total_nusd"], row["gpu_ms"], row["energy_mj"]) for row in rows} == {
        "a": (8_571_428, 8_572, 6_000_000),
        "b": (5_714_286, 5_714, 4_000_000),
        "host-1": (5_714_286, 5_714, 4_000_000),
    }


def device(owner: str, gpu: str, profile: str | None, **of: Any) -> Row:
    return gpu_row(owner, gpu, parent="P", profile=profile, **of)


def test_mig_devices_pay_by_their_slices_and_what_nobody_holds_is_idle() -> None:
    """Of seven slices three and two are held; time and energy are the GPU's own."""
    rows = [
        gpu_row("host-1", "P", use="idle"),
        device("a", "m1", "3g.40gb"),
        device("b", "m2", "2g.20gb"),
    ]

    assert {(row["use"], row["owner"]): (row["total_nusd"], row["gpu_ms"]) for row in told_bills(rows)} == {
        ("engine", "a"): (4_285_714, 4_286),
        ("engine", "b"): (2_857_143, 2_857),
        ("idle", "host-1"): (2_857_143, 2_857),
    }


def test_engines_side_by_side_on_a_mig_device_pay_for_its_slices_by_memory() -> None:
    """Three of seven slices for two who hold 3 and 1 parts of the device's memory; another device is another's."""
    rows = [
        gpu_row("host-1", "P", use="idle", ms=60_000),
        device("host-1", "m1", "3g.40gb", use="idle", ms=60_000),
        device("c", "m2", "2g.20gb", ms=60_000),
        share_row("a", "m1", 30),
        share_row("b", "m1", 10),
    ]

    found = {(row["use"], row["owner"]): (row["gpu_ms"], row["total_nusd"]) for row in told_bills(rows)}

    assert found == {
        ("engine", "a"): (19_286, 19_285_714),  # 60 s x 3/7 x 3/4
        ("engine", "b"): (6_428, 6_428_572),
        ("engine", "c"): (17_143, 17_142_857),
        ("idle", "host-1"): (17_143, 17_142_857),
    }
    assert sum(nusd for _, nusd in found.values()) == 60_000_000


def test_slices_are_counted_by_the_type_of_gpu() -> None:
    """An A30 has four; more than there are leave nothing idle; of one unknown size all devices pay by time."""

    def held_ms(*rows: Row) -> dict[str, int]:
        return {row["owner"]: row["gpu_ms"] for row in told_bills(rows)}

    assert held_ms(device("a", "m", "1g.6gb", model="A30")) == {"a": 2_500, "host-1": 7_500}
    assert held_ms(device("a", "m", "7g.80gb"), device("b", "n", "1g.10gb")) == {"a": 8_750, "b": 1_250, "host-1": 0}
    for unknown in ("?", "1000000000000000g"):
        rows = [device("a", "m", "3g.40gb"), device("b", "n", unknown)]
        assert held_ms(*rows) == {"a": 5_000, "b": 5_000, "host-1": 0}


HUGE = 2**62
"""Two of them do not fit 64 bits."""


def test_energy_beyond_any_reading_is_none() -> None:
    """It has no price, and the bill says of how much time; a minute of as much as a reading may report is billed."""
    rows = [gpu_row("a", "g", region="south"), gpu_row("b", "h", region="south")]
    more = [("gpu", rows[0][1], (0, HUGE, 0))] * 3 + [("gpu", rows[1][1], (0, AMOUNT_MAX - 7_000_000, 0))]

    found = {row["owner"]: row for row in told_bills([*rows, *more])}

    assert [found["a"][name] for name in ("energy_mj", "energy_nusd", "unmeasured_gpu_ms")] == [None, None, 10_000]
    assert [found["b"][name] for name in ("energy_mj", "unmeasured_gpu_ms")] == [AMOUNT_MAX, 0]
    assert found["a"]["gpu_nusd"] == found["b"]["gpu_nusd"] == 10_000_000


@pytest.mark.parametrize("parent", [None, "P"])
def test_holders_of_more_than_64_bits_pay_by_their_shares_all_the_same(parent: str | None) -> None:
    """Of a GPU and of a device: three times what the other holds is three times the time."""
    gpu = gpu_row("host-1", "g", use="idle", ms=60_000, parent=parent, profile="7g.80gb" if parent else None)
    shares = [share_row("a", "g", HUGE // 4 * 3 // 16), share_row("b", "g", HUGE // 4 // 16)]
    equal = [share_row("a", "m", HUGE), share_row("b", "m", HUGE)]
    rows = [gpu, *shares, gpu_row("host-1", "m", use="idle", ms=60_000), *equal]

    found = {row["owner"]: row["gpu_ms"] for row in told_bills(rows)}

    assert found == {"a": 45_000 + 30_000, "b": 15_000 + 30_000, "host-1": 0}


def test_usage_beyond_64_bits_is_held_below() -> None:
    """Its line has the greatest sum there is; the other one keeps what is its own."""
    rows = [gpu_row("e", "g"), *[usage_row("e", "t", HUGE)] * 5, usage_row("e", "u", 3)]

    (row,) = told_bills(rows)

    assert [line[7] for line in row["lines"]] == [SUM_MAX, 3]
    assert sum(part[7] for part in row["parts"]) == row["total_nusd"] == 10_000_000


def test_whoever_a_row_names_has_a_bill_even_of_nothing() -> None:
    """They may have been billed before the last rows came: an engine beside those with shares, idle slices."""
    beside = told_bills([gpu_row("b", "g"), share_row("a", "g", 3)])
    full = told_bills([device("a", "m1", "7g.80gb")])

    assert named(beside) == {("engine", "a"): (10_000_000, ["__wasted__"]), ("engine", "b"): (0, ["__wasted__"])}
    assert named(full) == {("engine", "a"): (10_000_000, ["__wasted__"]), ("idle", "host-1"): (0, ["__idle__"])}


def test_shares_that_nobody_knows_are_equal() -> None:
    """Among those that have one: whoever only stands beside them pays nothing. One missing reading is enough."""
    unknown = [share_row(owner, "g", None, 40) for owner in "ab"]
    half = [share_row("a", "g", 30, readings=2), share_row("b", "g", 10), share_row("b", "g", None)]

    for shares in (unknown, half):
        rows = told_bills([gpu_row("c", "g"), *shares])
        assert {row["owner"]: row["total_nusd"] for row in rows} == {"a": 5_000_000, "b": 5_000_000, "c": 0}


def test_engines_may_pay_by_sm_instead() -> None:
    """The weights say by what; they are versioned, and the bill has their version."""
    rows = [gpu_row("host-1", "g", use="idle"), share_row("a", "g", 30, 10), share_row("b", "g", 10, 30)]
    by_sm = replace(WEIGHTS, version=7, shared_by="sm")

    block = cost_block(filled(rows).pass_to(MINUTE_MS), price_of, "p1", by_sm)

    assert block is not None
    assert {row["owner"]: (row["gpu_ms"], row["weights_version"]) for row in bills_of(block)} == {
        "a": (2_500, 7),
        "b": (7_500, 7),
        "host-1": (0, 7),
    }


def test_a_mig_gpu_that_is_not_read_itself_is_there_as_long_as_its_devices() -> None:
    """The device with most time tells the GPU's; a size that nobody tells leaves all of it without price."""
    one, _ = told_bills([device("a", "m1", "7g.80gb"), device("a", "m1", "7g.80gb", window=2)])
    strange, _ = told_bills([device("a", "m1", None)])

    assert (one["gpu_ms"], one["total_nusd"], one["energy_mj"]) == (20_000, 20_000_000, 14_000_000)
    assert (strange["gpu_ms"], strange["total_nusd"], strange["unpriced_gpu_ms"]) == (10_000, None, 10_000)


@pytest.mark.parametrize(
    ("of_a", "of_b", "of_c", "gpu_ms"),
    [
        pytest.param((0, 5), (), (0, 1, 2, 3, 4), 50_000, id="the other has more time, most of it estimated"),
        pytest.param((0, 1, 2), (3, 4), (0, 1, 2, 3), 50_000, id="one that two held in turns"),
    ],
)
def test_the_device_that_was_read_for_longest_tells_the_time_of_its_gpu(
    of_a: tuple[int, ...], of_b: tuple[int, ...], of_c: tuple[int, ...], gpu_ms: int
) -> None:
    """As the audit has it: by what readings say of a device, whoever held it."""
    held = [("a", "m1", of_a), ("b", "m1", of_b), ("c", "m2", of_c)]

    rows = told_bills([device(who, gpu, "3g.40gb", window=window) for who, gpu, of in held for window in of])

    assert sum(row["gpu_ms"] for row in rows) == gpu_ms
    assert sum(row["estimated_gpu_ms"] for row in rows) == 0


@pytest.mark.parametrize(
    ("windows", "gpu_ms", "estimated_ms"),
    [
        pytest.param({0: 10_000, 1: 10_000, 4: 10_000, 5: 10_000}, 60_000, 20_000, id="twenty seconds between"),
        pytest.param({0: 3_000, 5: 10_000}, 60_000, 47_000, id="from the first ten seconds on"),
        pytest.param({1: 3_000, 2: 10_000}, 13_000, 0, id="nothing before it came"),
        pytest.param({1: 3_000, 4: 10_000, 5: 2_000}, 43_000, 28_000, id="to the last ten seconds"),
        pytest.param({0: 10_000, 1: 9_100, 2: 10_000, 3: 10_000, 4: 10_000, 5: 10_000}, 59_100, 0, id="a little late"),
        pytest.param({0: 10_900, 1: 9_100, 2: 10_000, 3: 10_000, 4: 10_000, 5: 10_000}, 60_000, 0, id="a little off"),
        pytest.param({0: 10_000}, 10_000, 0, id="seen once"),
        pytest.param({2: None}, 0, 0, id="no interval known"),
        pytest.param({0: None, 5: None}, 60_000, 60_000, id="only that it was there"),
    ],
)
def test_gaps_between_readings_are_billed_and_flagged(
    windows: dict[int, int | None], gpu_ms: int, estimated_ms: int
) -> None:
    """Time that no reading covers, from the first to the last ten seconds with one."""
    (bill,) = told_bills([gpu_row("a", "g", window=window, ms=ms) for window, ms in windows.items()])

    assert (bill["gpu_ms"], bill["estimated_gpu_ms"]) == (gpu_ms, estimated_ms)
    assert sum(part[-1] for part in bill["parts"]) == gpu_ms


def test_a_gap_is_shared_by_measured_time() -> None:
    """Between two engines of one GPU nobody knows when it changed hands."""
    rows = [gpu_row("a", "g", window=0), gpu_row("b", "g", window=4), gpu_row("b", "g", window=5)]

    assert {row["owner"]: (row["gpu_ms"], row["estimated_gpu_ms"]) for row in told_bills(rows)} == {
        "a": (20_000, 10_000),
        "b": (40_000, 20_000),
    }


def test_nothing_told_makes_no_block() -> None:
    """Neither a row nor an error."""
    assert cost_block([], price_of) is None


def test_a_large_block_is_cut_between_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every record holds what fits, all of them every bill, in order, where its source partition says."""
    rows = [usage_row(f"e{number}", "t", 5) for number in range(9)]
    block = cost_block(filled(rows).pass_to(MINUTE_MS), price_of)
    assert block is not None
    monkeypatch.setattr(messages, "MESSAGE_BYTES_MAX", 3_000)

    outputs = outputs_of(block, Commit("window.partials", 5, 1, 3, 0, 0, idle=False), 4)

    assert len(outputs) > 2
    assert {(one.topic, one.partition, dict(one.headers)["offsets"]) for one in outputs} == {("costs", 1, b"1-3")}
    assert [bill["owner"] for bill in emitted_rows(outputs)] == [f"e{number}" for number in range(9)]
    assert [int(dict(one.headers)["rows"]) for one in outputs] == [len(emitted_rows([one])) for one in outputs]
    assert isinstance(outputs[0], Output)
    assert COSTS.schema == "costs/1"


PRICES = b"""
gpu_hour:
  - {gpu: H100, periods: [{from: 2023-01-01, until: 2024-01-01, value: 2.50 USD/GPU-hour}]}
host_hour:
  - {gpus: 8, periods: [{from: 2023-01-01, value: 1.20 USD/host-hour}]}
  - {gpu: L4, periods: [{from: 2023-01-01, value: 1.20 USD/host-hour}]}
  - {gpu: A10, periods: [{from: 2023-01-01, value: 0 USD/host-hour}]}
energy:
  - {region: north, periods: [{from: 2023-01-01, value: 0.10 USD/kWh}]}
pue:
  - {periods: [{from: 2023-01-01, value: 1.25}]}
grid:
  - {region: north, periods: [{from: 2024-01-01, value: 30 gCO2e/kWh}]}
"""


def test_prices_of_a_file_hold_for_their_time_and_hosts_are_shared_by_their_gpus() -> None:
    """Remembered only as long as they hold; nobody says how many share an L4's host: it has no price."""
    pricing = Pricing(parse_prices(PRICES, "p.yaml"))
    in_2023, in_2024 = 1_700_000_000_000, 1_720_000_000_000

    found = [pricing("H100", "north", at_ms) for at_ms in (in_2023, in_2024, in_2023)]

    known = Prices(2_500_000_000, 150_000_000, 100_000_000, 1_250_000, None)
    assert found == [known, Prices(None, 150_000_000, 100_000_000, 1_250_000, 30_000_000), known]
    assert pricing("L4", "north", in_2023).host_nusd_per_hour is None
    assert pricing("A10", None, in_2023) == Prices(None, 0, None, 1_250_000, None)
    assert pricing.version != ""


CLOSER = b"""\
gpu_hour:
  - {gpu: H100, periods: [{from: 2026-01-01, value: 2 USD/GPU-hour}]}
  - {gpu: H100, region: eu, periods: [{from: 2026-02-01, until: 2026-03-01, value: 4 USD/GPU-hour}]}
  - {gpu: H100, region: asia, periods: [{from: 2026-06-01, value: 3 USD/GPU-hour}]}
  - {gpu: H100 80GB, region: us, periods: [{from: 2026-04-01, value: 1 USD/GPU-hour}]}
  - {gpu: H100 HBM3, region: us, periods: [{from: 2026-05-01, value: 1 USD/GPU-hour}]}
"""


@given(days=st.lists(st.tuples(st.integers(0, 200), st.sampled_from(["eu", "us", "asia"])), min_size=2, max_size=12))
def test_what_is_remembered_is_what_a_price_file_says(days: list[tuple[int, str]]) -> None:
    """In whatever order minutes are rated: a closer price that begins later, or has ended, is no other's; two that are
    as close are none."""
    file = parse_prices(CLOSER, "p.yaml")
    pricing, gpu = Pricing(file), "NVIDIA H100 80GB HBM3"
    begin_ms = instant_of("2026-01-01")

    for day, region in days:
        at_ms = begin_ms + day * 86_400_000
        found = file.gpu_nusd_per_hour(gpu, region, None, at_ms)
        assert pricing(gpu, region, at_ms).gpu_nusd_per_hour == (found and found.amount)
