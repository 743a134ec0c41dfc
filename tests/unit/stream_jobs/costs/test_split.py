"""Bills and their parts: by hand where a person can check, by property where nobody can."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_jobs.costs.bill import Bills, GpuMinutes, Holders, bills_of, side_by_side, slices_held, slices_of
from stream_jobs.costs.split import (
    IDLE,
    KINDS,
    PARTS,
    TRAINING,
    WASTED,
    WEIGHTS,
    Lines,
    Parts,
    Weights,
    split,
)
from stream_jobs.costs.wide import UNKNOWN, ints
from tests.unit.stream_jobs.costs.cases import added

PRICES = (Path(__file__).parents[4] / "docs" / "how-to" / "prices.md").read_text(encoding="utf-8")
MINUTE_MS = 60_000
DOLLAR = 1_000_000_000


def gpu_minutes(*rows: dict[str, int | None]) -> GpuMinutes:
    """A GPU at 3.6 dollars an hour, 42,000 J in the minute, 0.1 $ and 400 g a kWh, PUE 1.2, host 0.36 $ an hour."""
    usual: dict[str, int | None] = {
        "gpu_ms": MINUTE_MS,
        "energy_mj": 42_000_000,
        "gpu_nusd_per_hour": 3_600_000_000,
        "host_nusd_per_hour": 360_000_000,
        "energy_nusd_per_kwh": 100_000_000,
        "pue_micro": 1_200_000,
        "grid_ugco2e_per_kwh": 400_000_000,
    }
    return GpuMinutes(**{name: ints([(usual | row)[name] for row in rows]) for name in usual})


def held(*rows: tuple[int, int, int]) -> Holders:
    return Holders(*(ints([row[i] for row in rows]) for i in range(3)))


def lines(*rows: tuple[Any, ...]) -> Lines:
    """Rows of (bill, failed, prefill tokens, decode tokens, KV token-ms)."""
    columns = [[row[i] for row in rows] for i in range(5)]
    return Lines(ints(columns[0]), np.array(columns[1], dtype=np.bool_), *(ints(column) for column in columns[2:]))


def plain(column: Any) -> list[int | None]:
    return [None if value == UNKNOWN else value for value in column.tolist()]


def told(parts: Parts) -> list[tuple[Any, ...]]:
    """Parts as (bill, part, line, kind, nano-dollars)."""
    names = [(PARTS[part], KINDS[kind]) for part, kind in zip(parts.part, parts.kind, strict=True)]
    rows = zip(parts.bill.tolist(), names, parts.line.tolist(), plain(parts.cost_nusd), strict=True)
    return [(bill, part, line, kind, cost) for bill, (part, kind), line, cost in rows]


def shared(
    bills: Bills, lines: Lines, *, unused: int = WASTED, startup_ms: int = 0, weights: Weights = WEIGHTS
) -> Parts:
    count = len(bills.total_nusd)
    return split(bills, ints([unused] * count), ints([startup_ms] * count), lines, weights)


ONE_BILL = bills_of(gpu_minutes({}), held((0, 0, 1)), 1)


def test_the_bill_of_a_gpu_and_minute() -> None:
    """3.6 $/h for a minute is 6 cents, the host 0.6; 42 kJ at 0.1 $/kWh and PUE 1.2 are 0.14 cents, at 400 g 5.6 g."""
    bill = bills_of(gpu_minutes({}), held((0, 0, 1)), 1)

    assert plain(bill.gpu_nusd) == [60_000_000]
    assert plain(bill.host_nusd) == [6_000_000]
    assert plain(bill.energy_nusd) == [1_400_000]
    assert plain(bill.total_nusd) == [67_400_000]
    assert (plain(bill.gpu_ms), plain(bill.energy_mj), plain(bill.carbon_ug)) == ([60_000], [42_000_000], [5_600_000])
    assert (plain(bill.unpriced_gpu_ms), plain(bill.unpriced_energy_mj), plain(bill.unmeasured_gpu_ms)) == (
        [0],
        [0],
        [0],
    )


def test_a_tensor_parallel_group_is_one_bill() -> None:
    """Sixteen GPUs on two hosts with different prices add to the bill that they name."""
    gpus = gpu_minutes(*[{}] * 8, *[{"gpu_nusd_per_hour": 1_800_000_000}] * 8)

    bill = bills_of(gpus, held(*((i, 0, 1) for i in range(16))), 1)

    assert plain(bill.total_nusd) == [8 * 67_400_000 + 8 * 37_400_000]


def test_price_times_tokens_is_the_bill_as_the_page_of_prices_works_it_out() -> None:
    """Its table, row by row, from the prices above it; prices of both kinds of tokens, and back."""
    priced = {"gpu_nusd_per_hour": 2_790_000_000, "host_nusd_per_hour": 150_000_000, "pue_micro": 1_250_000}
    each: dict[str, int | None] = {**priced, "energy_mj": 3_250 * 3_600, "energy_nusd_per_kwh": 90_000_000}
    bill = bills_of(gpu_minutes(*[each] * 8), held(*((i, 0, 1) for i in range(8))), 1)
    used = [(0, False, 45_000, 12_000, 240_000_000), (0, True, 15_000, 3_000, 60_000_000)]

    parts = told(shared(bill, lines(*used)))

    (total,), costs = plain(bill.total_nusd), [int(part[-1]) for part in parts]
    assert [part[1] for part in parts] == ["request"] * 3 + ["__overhead__"] * 3
    rows = [(*one[2:], *costs[3 * i : 3 * i + 3], sum(costs[3 * i : 3 * i + 3])) for i, one in enumerate(used)]
    both = [sum(column) for column in zip(*rows, strict=True)]
    table = PRICES.partition("### Price times tokens is the bill")[2].partition("A prompt token is")[0]
    shown = [[cell.strip() for cell in line.split("|")[2:-1]] for line in table.splitlines() if line.startswith("| ")]
    assert shown[1:] == [[f"{value:,}" for value in row] for row in (*rows, both)]
    assert (total, both[-1]) == (394_925_000, 394_925_000)
    assert [both[3] / both[0] / 1e3, (both[4] + both[5]) / both[1] / 1e3] == pytest.approx([2.6328, 15.797], abs=5e-5)


def test_mig_devices_pay_by_their_slices_and_the_rest_is_idle() -> None:
    """3g and 2g of 7 slices; the two slices that nobody holds are the host's idle bill; nothing is lost."""
    bills = bills_of(gpu_minutes({}), held((0, 0, 3), (0, 1, 2), (0, 2, 2)), 3)

    assert plain(bills.total_nusd) == [28_885_714, 19_257_143, 19_257_143]
    assert plain(bills.gpu_ms) == [25_714, 17_143, 17_143]
    assert sum(bills.energy_mj.tolist()) == 42_000_000


@pytest.mark.parametrize(
    ("profile", "slices"),
    [
        *(("1g.10gb", 1), ("7g.80gb", 7), ("1g.10gb+me", 1), ("2c.3g.40gb", 2), ("", None), ("all", None)),
        *(("0g", None), ("8g.90gb", None), ("1000000000000000g", None), (f"{'9' * 5_000}g", None)),
    ],
)
def test_the_slices_of_a_profile(profile: str, slices: int | None) -> None:
    """A compute instance counts its own slices; a name that tells no size, or none that there is, is not guessed."""
    assert slices_held(profile) == slices


@pytest.mark.parametrize(
    ("gpu_model", "slices"),
    [
        *(("NVIDIA A30", 4), ("NVIDIA H100 80GB HBM3", 7), ("A300", 7), ("NVIDIA RTX 6000 Ada Generation", 7)),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 4),
        *(("NVIDIA RTX PRO 5000 Blackwell", 2), ("NVIDIA RTX PRO 4500 Blackwell Server Edition", 2)),
    ],
)
def test_the_slices_of_a_gpu(gpu_model: str, slices: int) -> None:
    """By the vendor's table."""
    assert slices_of(gpu_model) == slices


def test_engines_side_by_side_share_by_what_they_hold() -> None:
    """A figure that is missing makes the shares equal."""
    assert side_by_side([30, 10]) == [30, 10]
    assert side_by_side([30, 0]) == [30, 0]
    assert side_by_side([30, None]) == [1, 1]
    assert side_by_side([0, 0]) == [1, 1]


def test_holders_of_no_weight_share_equally() -> None:
    """A GPU is never lost because nobody's share is known."""
    bills = bills_of(gpu_minutes({}), held((0, 0, 0), (0, 1, 0)), 2)

    assert plain(bills.total_nusd) == [33_700_000, 33_700_000]


def test_a_gpu_that_nobody_holds_is_refused() -> None:
    """Its cost would be in no bill."""
    with pytest.raises(ValueError, match="row 1: 60000000 to share out"):
        bills_of(gpu_minutes({}, {}), held((0, 0, 1)), 1)


@pytest.mark.parametrize(
    ("lacking", "total", "unpriced"),
    [
        pytest.param({"gpu_nusd_per_hour": None}, 74_800_000, (60_000, 0, 0), id="a GPU without price"),
        pytest.param({"host_nusd_per_hour": None}, 128_800_000, (60_000, 0, 0), id="a host without price"),
        pytest.param({"energy_nusd_per_kwh": None}, 133_400_000, (0, 42_000_000, 0), id="no tariff"),
        pytest.param({"pue_micro": None}, 133_400_000, (0, 42_000_000, 0), id="no PUE"),
        pytest.param({"energy_mj": None}, 133_400_000, (0, 0, 60_000), id="energy not measured"),
    ],
)
def test_what_has_no_price_is_listed_not_free(
    lacking: dict[str, None], total: int, unpriced: tuple[int, int, int]
) -> None:
    """Of two GPUs one lacks something: the rest is billed, what has no price stands beside it, also as a part."""
    bills = bills_of(gpu_minutes({}, {**lacking}), held((0, 0, 1), (1, 0, 1)), 1)
    parts = told(shared(bills, lines()))

    assert plain(bills.total_nusd) == [total]
    assert (bills.unpriced_gpu_ms[0], bills.unpriced_energy_mj[0], bills.unmeasured_gpu_ms[0]) == unpriced
    assert parts[0] == (0, "__wasted__", -1, "held", total)
    assert parts[1:] == ([(0, "__unpriced__", -1, "held", None)] if sum(unpriced[:2]) else [])


@pytest.mark.parametrize(
    ("second", "carbon_ug", "meter_mj"),
    [
        pytest.param({"grid_ugco2e_per_kwh": 100_000_000}, 7_000_000, 100_800_000, id="each at its own intensity"),
        pytest.param({"energy_mj": None}, 5_600_000, 50_400_000, id="what is not measured has neither energy nor CO2e"),
        pytest.param({"gpu_nusd_per_hour": None}, 11_200_000, 100_800_000, id="a price is not needed"),
        pytest.param({"grid_ugco2e_per_kwh": None}, None, 100_800_000, id="no intensity"),
        pytest.param({"pue_micro": None}, None, None, id="no PUE"),
    ],
)
def test_emissions_are_of_all_measured_energy_or_unknown(
    second: dict[str, int | None], carbon_ug: int | None, meter_mj: int | None
) -> None:
    """Of two GPUs one is different: the bill has energy at the meter and CO2e of both or null, its parts likewise."""
    bills = bills_of(gpu_minutes({}, second), held((0, 0, 1), (1, 0, 1)), 1)
    parts = shared(bills, lines((0, False, 10, 20, 30)))

    assert (plain(bills.carbon_ug), plain(bills.meter_mj)) == ([carbon_ug], [meter_mj])
    assert added(plain(parts.carbon_ug)) == carbon_ug


def test_a_bill_without_any_price_is_unknown_and_keeps_its_lines() -> None:
    """No price at all, or an engine without GPUs: null, with the tenants' lines still there."""
    nothing = {"gpu_nusd_per_hour": None, "host_nusd_per_hour": None, "energy_nusd_per_kwh": None}
    bills = bills_of(gpu_minutes({**nothing}), held((0, 0, 1)), 2)
    usage = lines((0, False, 10, None, None), (1, False, 10, 5, None))

    parts = shared(bills, usage)

    assert plain(bills.total_nusd) == [None, None]
    assert told(parts) == [
        (0, "__unpriced__", 0, "prefill", None),
        (1, "__unpriced__", 1, "prefill", None),
        (1, "__unpriced__", 1, "decode", None),
    ]
    assert (plain(parts.energy_mj), plain(parts.gpu_ms)) == ([42_000_000, None, None], [60_000, 0, 0])


def test_a_bill_by_hand() -> None:
    """Weights 1, 4 and 1 per ten token-seconds: 1000, 800 and 400 of 2200 for the first line, failed work beside it."""
    usage = lines((0, False, 1_000, 200, 4_000_000), (0, True, 2_200, 0, 0))

    assert told(shared(ONE_BILL, usage)) == [
        (0, "request", 0, "prefill", 15_318_182),
        (0, "request", 0, "decode", 12_254_545),
        (0, "request", 0, "kv", 6_127_273),
        (0, "__overhead__", 1, "prefill", 33_700_000),
    ]


@pytest.mark.parametrize(
    ("unused", "usage", "part"),
    [
        pytest.param(WASTED, lines(), "__wasted__", id="a model is loaded and nobody asks"),
        pytest.param(WASTED, lines((0, False, 0, 0, 0)), "__wasted__", id="requests without any token"),
        pytest.param(WASTED, lines((0, False, None, None, None)), "__unattributed__", id="tokens that nobody told"),
        pytest.param(IDLE, lines(), "__idle__", id="no model is loaded"),
        pytest.param(IDLE, lines((0, False, None, None, None)), "__idle__", id="what an idle host did is no request"),
        pytest.param(TRAINING, lines(), "__training__", id="the GPUs train"),
    ],
)
def test_what_nobody_used_is_one_part(unused: int, usage: Lines, part: str) -> None:
    """The whole bill, under the name of why."""
    assert told(shared(ONE_BILL, usage, unused=unused)) == [(0, part, -1, "held", 67_400_000)]


def test_start_up_is_overhead_before_anything_is_shared() -> None:
    """A quarter of the minute went into loading; the rest is the tenant's. All of it: nothing is left."""
    usage = lines((0, False, 1, 0, 0))

    assert told(shared(ONE_BILL, usage, startup_ms=15_000)) == [
        (0, "__overhead__", -1, "startup", 16_850_000),
        (0, "request", 0, "prefill", 50_550_000),
    ]
    assert told(shared(ONE_BILL, lines(), startup_ms=90_000)) == [
        (0, "__overhead__", -1, "startup", 67_400_000),
        (0, "__wasted__", -1, "held", 0),
    ]


def test_no_bills_and_no_lines() -> None:
    """Nothing in, nothing out."""
    bills = bills_of(gpu_minutes(), held(), 0)

    assert told(shared(bills, lines())) == []


@pytest.mark.parametrize("tokens", [2**40, 2**62, 2**63 - 1])
def test_amounts_beyond_the_bound_are_shared_all_the_same(tokens: int) -> None:
    """What somebody reports ends no job: parts add up to the bill, and shares are those of the tokens."""
    usage = lines((0, False, 0, tokens, 0), (0, True, 0, tokens, tokens), (0, False, 1, tokens // 2, 0))

    found = told(shared(ONE_BILL, usage))

    assert sum(part[-1] for part in found) == 67_400_000
    by_line = {line: cost for _, _, line, kind, cost in found if kind == "decode"}
    assert by_line[0] == pytest.approx(by_line[1], abs=1)
    assert by_line[0] == pytest.approx(2 * by_line[2], abs=2)
    kept = next(cost for _, _, line, kind, cost in found if (line, kind) == (1, KINDS[2]))
    assert kept == pytest.approx(by_line[1] * WEIGHTS.kv_token_ms / WEIGHTS.decode_token, abs=1)


def test_a_bill_beyond_the_bound_changes_no_other() -> None:
    """Each has its own scale."""
    usage = ((0, False, 3, 5, 7), (0, False, 1, 2, 3))
    two = bills_of(gpu_minutes({}, {}), held((0, 0, 1), (1, 1, 1)), 2)

    beside = told(shared(two, lines(*usage, (1, False, 0, 2**62, 0))))

    assert [part for part in beside if part[0] == 0] == told(shared(ONE_BILL, lines(*usage)))


AMOUNT = st.one_of(st.none(), st.integers(0, 10**9))
PRICE = st.one_of(st.none(), st.integers(0, 50 * DOLLAR))


@st.composite
def worlds(draw: st.DrawFn) -> tuple[GpuMinutes, Holders, Lines, list[int], list[int]]:
    """Up to four GPUs held by up to three bills in any way, and their lines."""
    gpus = draw(st.integers(0, 4))
    rows = [
        {
            "gpu_ms": draw(st.integers(0, 120_000)),
            "energy_mj": draw(AMOUNT),
            "gpu_nusd_per_hour": draw(PRICE),
            "host_nusd_per_hour": draw(PRICE),
            "energy_nusd_per_kwh": draw(PRICE),
            "pue_micro": draw(st.one_of(st.none(), st.integers(1_000_000, 3_000_000))),
            "grid_ugco2e_per_kwh": draw(st.one_of(st.none(), st.integers(0, 10**9))),
        }
        for _ in range(gpus)
    ]
    holders = [(i, bill, draw(st.integers(0, 7))) for i in range(gpus) for bill in range(draw(st.integers(1, 3)))]
    usage = [
        (bill, draw(st.booleans()), draw(AMOUNT), draw(AMOUNT), draw(AMOUNT))
        for bill in range(3)
        for _ in range(draw(st.integers(0, 3)))
    ]
    unused = [draw(st.sampled_from([WASTED, IDLE, TRAINING])) for _ in range(3)]
    startup = [draw(st.one_of(st.just(0), st.integers(0, 150_000))) for _ in range(3)]
    return gpu_minutes(*rows), held(*holders), lines(*usage), unused, startup


@given(world=worlds())
@settings(max_examples=70)
def test_everything_adds_up_in_any_world(world: tuple[GpuMinutes, Holders, Lines, list[int], list[int]]) -> None:
    """GPUs = bills and bills = parts, in nano-dollars, millijoules, micrograms and GPU-milliseconds, whatever is
    missing; but emissions of a bill that lacks any are null as a whole."""
    gpus, holders, usage, unused, startup = world

    bills = bills_of(gpus, holders, 3)
    parts = split(bills, ints(unused), ints(startup), usage)

    alone = bills_of(gpus, held(*((i, i, 1) for i in range(len(gpus.gpu_ms)))), len(gpus.gpu_ms))
    for name in ("gpu_nusd", "host_nusd", "energy_nusd", "total_nusd", "gpu_ms", "energy_mj", "unpriced_gpu_ms"):
        mine, theirs = plain(getattr(bills, name)), plain(getattr(alone, name))
        assert sum(value or 0 for value in mine) == sum(value or 0 for value in theirs), name
    if (alone.carbon_ug != UNKNOWN).all():
        assert sum(value or 0 for value in plain(bills.carbon_ug)) == alone.carbon_ug.sum()
    for bill in range(3):
        mine = parts.bill == bill
        assert sum(value or 0 for value in plain(parts.cost_nusd[mine])) == (plain(bills.total_nusd)[bill] or 0)
        assert sum(value or 0 for value in plain(parts.energy_mj[mine])) == (plain(bills.energy_mj)[bill] or 0)
        assert added(plain(parts.carbon_ug[mine])) == plain(bills.carbon_ug)[bill]
        assert sum(value or 0 for value in plain(parts.gpu_ms[mine])) == bills.gpu_ms[bill]
        assert mine.any()
