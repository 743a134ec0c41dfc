"""Unit costs, full costs, list prices, emissions and budgets of a report, from rows as the database gives them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetpulse.report import money
from fleetpulse.report.goodput import goodput_rows, slo_parameters
from fleetpulse.report.list_side import NO_CACHE, ListSide, bounds_of, entries_of, list_side_of_request, list_sides
from fleetpulse.report.places import emissions, sources
from fleetpulse.report.standings import HISTORY_MS, look_back_ms, months, standings
from schemas.limits import DAY_MS, HOUR_MS, MINUTE_MS
from stream_jobs.budgets.model import Budget, Budgets
from stream_jobs.prices.list_map import read_map
from stream_jobs.prices.load import parse_prices
from stream_jobs.prices.model import Prices
from stream_jobs.rules.model import SloClass

Row = dict[str, Any]


def used(**given: Any) -> Row:
    """A row of ``cost_by``."""
    return {
        "requests": 10, "priced_requests": 10, "counted_requests": 10,
        "uncached_tokens": 600, "cached_tokens": 400, "output_tokens": 100,
        "cost_nusd": 2_000_000, "energy_mj": 55_000, "carbon_ug": 6_600, "gpu_ms": 1, **given,
    }  # fmt: skip


def test_a_request_has_its_part_of_the_cost_and_of_the_full_cost() -> None:
    """Of ten; prompt tokens are those computed and those from the cache."""
    made = money.model_costs(used(), 9_000_000)

    assert made["prompt_tokens"] == 1_000
    assert (made["usd_per_request"], made["full_usd_per_request"]) == pytest.approx((0.0002, 0.0009))
    assert made["g_per_request"] == pytest.approx(0.00066)


def test_what_was_not_told_has_no_unit_cost() -> None:
    """Without tokens, money or requests there is None, not 0."""
    nothing = dict.fromkeys(("uncached_tokens", "cached_tokens", "output_tokens", "cost_nusd", "carbon_ug"))
    made = money.model_costs(used(**nothing, requests=0, priced_requests=0, counted_requests=0), None)

    names = ("prompt_tokens", "usd_per_request", "full_usd_per_request", "g_per_request")
    assert [made[name] for name in names] == [None] * 4


def test_a_price_is_of_requests_whose_bill_has_one() -> None:
    """Of ten, four stood beside GPUs without a price, and two without an intensity of the grid."""
    row = used(priced_requests=6, counted_requests=8)
    made = money.model_costs(row, 9_000_000)

    assert (made["usd_per_request"], made["full_usd_per_request"]) == pytest.approx((0.002 / 6, 0.009 / 6))
    assert made["g_per_request"] == pytest.approx(0.0066 / 8)


def test_prices_of_engines_and_types_of_gpu_are_of_tokens_whose_bill_has_one() -> None:
    """Half of the tokens were computed before there were prices."""
    served = [{"model": "m", "requests": 2, "prompt_tokens": 1_500, "decode_tokens": 500, "priced_tokens": 1_000}]
    bill = {"engine_id": "e", "total_nusd": 3_000_000, "request_nusd": 1_500_000}
    of_type = {**GPU_TYPE, "prompt_tokens": 1_500, "decode_tokens": 500, "total_nusd": 3_000_000, "meter_mj": 3_600_000,
               "carbon_ug": 500, "priced_tokens": 1_000, "metered_tokens": 2_000, "counted_tokens": 500}  # fmt: skip

    engine, gpus = money.engine_costs(bill, served), money.gpu_costs(of_type)

    assert (engine["tokens"], engine["usd_per_million_tokens"]) == (2_000, pytest.approx(3.0))
    assert gpus["usd_per_million_tokens"] == pytest.approx(3.0)
    assert gpus["kwh_per_million_tokens"] == pytest.approx(0.5)
    assert gpus["g_per_million_tokens"] == pytest.approx(1.0)


@given(st.lists(st.tuples(st.integers(0, 10**12), st.lists(st.integers(0, 10**9), min_size=1, max_size=4)), max_size=5))
def test_full_costs_add_up_to_the_bills_of_engines_that_served(engines: list[tuple[int, list[int]]]) -> None:
    """Every nano-dollar of an engine with requests goes to its models; engines without any keep theirs."""
    bills = [{"engine_id": f"e{i}", "total_nusd": bill} for i, (bill, _) in enumerate(engines)]
    served = [
        {"engine_id": f"e{i}", "model": f"m{number}", "cost_nusd": cost}
        for i, (_, costs) in enumerate(engines)
        for number, cost in enumerate(costs)
    ]

    full = money.full_costs(bills, served)

    assert sum(full.values()) == sum(bill for bill, costs in engines if any(costs))


def test_busy_is_weighed_by_gpus_and_share() -> None:
    """Of an engine of 4 GPUs a quarter of the cost counts as one GPU; one whose GPUs do not say counts for nothing."""
    measured = [{"owner": "e1", "gpus": 4, "busy": 0.8}, {"owner": "e2", "gpus": 1, "busy": 0.2},
                {"owner": "e3", "gpus": 8, "busy": 1.0}, {"owner": "e4", "gpus": 7, "busy": None}]  # fmt: skip
    served = [{"engine_id": "e1", "model": "a", "cost_nusd": 25}, {"engine_id": "e1", "model": "b", "cost_nusd": 75},
              {"engine_id": "e2", "model": "a", "cost_nusd": 7}, {"engine_id": "e4", "model": "a", "cost_nusd": 9},
              {"engine_id": "e4", "model": "c", "cost_nusd": 9}]  # fmt: skip

    assert money.busy_by_model(measured, served) == {"a": pytest.approx(0.5), "b": pytest.approx(0.8)}


MAP = b"""{
"flat": {"input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6, "litellm_provider": "x"},
"cached": {"input_cost_per_token": 1e-6, "cache_read_input_token_cost": 1e-7, "output_cost_per_token": 2e-6,
           "input_cost_per_token_above_128k_tokens": 3e-6, "cache_read_input_token_cost_above_128k_tokens": 3e-7,
           "output_cost_per_token_above_128k_tokens": 6e-6},
"half": {"input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6, "input_cost_per_token_above_128k_tokens": 3e-6},
"seconds": {"input_cost_per_second": 0.001},
"tiers": {"tiered_pricing": [{"range": [0, 32000], "input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6},
                             {"range": [32000, 256000], "input_cost_per_token": 3e-6, "output_cost_per_token": 6e-6}]}
}"""


def listed(model: str, *rows: Row) -> ListSide:
    """The list cost of one model."""
    entries = entries_of(Prices(list_map=read_map(MAP, "map.json")), [model])
    return list_sides(entries, [{"model": model, "unreported": 0, "requests": 1, **row} for row in rows])[0]


def tokens(above: int, prompt: int, cached: int, answer: int) -> Row:
    return {"above": above, "input_tokens": prompt, "cached_tokens": cached, "output_tokens": answer}


@pytest.mark.parametrize(
    ("model", "rows", "nusd", "note"),
    [
        ("flat", [tokens(0, 1_000, 400, 100)], 1_200_000, NO_CACHE),
        ("cached", [tokens(0, 1_000, 400, 100)], 840_000, ""),
        ("cached", [tokens(0, 1_000, 0, 0), tokens(128_000, 200_000, 0, 10)], 601_060_000, ""),
        ("cached", [tokens(-1, 0, 0, 0)], 0, ""),
        ("half", [tokens(128_000, 200_000, 0, 10)], None, "no price for prompts above 128,000 tokens"),
        ("seconds", [tokens(0, 1, 0, 1)], None, "the hosted model is not priced by the token"),
        ("none", [tokens(0, 1, 0, 1)], None, "no list price; add an alias to the price file"),
        ("flat", [tokens(0, 1, 0, 1) | {"unreported": 2}], None, "2 requests did not report their tokens"),
    ],
    ids=["no cache price", "cache price", "two steps", "no prompt", "step without price", "by seconds", "unknown",
         "unreported"],
)  # fmt: skip
def test_list_costs_are_exact_or_unknown(model: str, rows: list[Row], nusd: int | None, note: str) -> None:
    """By hand: dollars of a million tokens times tokens; nothing is borrowed, nothing guessed."""
    side = listed(model, *rows)

    assert (side.cost_nusd, side.note) == (nusd, note)


def test_list_costs_of_requests_that_are_no_longer_kept_are_unknown() -> None:
    """A part of the tokens is not compared with the cost of all."""
    entries = entries_of(Prices(list_map=read_map(MAP, "map.json")), ["flat", "none"])
    rows = [{"model": "flat", "unreported": 0, "requests": 1, **tokens(0, 1_000, 400, 100)}]

    assert [(side.cost_nusd, side.note) for side in list_sides(entries, rows, "kept for 7 days")] == [
        (None, "kept for 7 days"),
        (None, "no list price; add an alias to the price file"),
    ]


def test_bounds_are_those_of_all_models_together() -> None:
    """The database is queried once, for every threshold that some model has."""
    entries = entries_of(Prices(list_map=read_map(MAP, "map.json")), ["flat", "cached", "none"])

    assert bounds_of(entries) == [0, 128_000]
    assert bounds_of({}) == [0]


def test_where_a_table_ends_is_a_bound() -> None:
    """Behind it there is no price, for one prompt as for many."""
    entries = entries_of(Prices(list_map=read_map(MAP, "map.json")), ["tiers"])

    assert bounds_of(entries) == [0, 32_000, 256_000]
    assert listed("tiers", tokens(256_000, 300_000, 0, 10)).note == "no price for prompts above 256,000 tokens"


def one_request(model: str, prompt: int | None, cached: int | None, answer: int | None, status: str = "ok") -> Row:
    return {"model": model, "status": status, "input_tokens": prompt, "cached_tokens": cached, "output_tokens": answer}


@pytest.mark.parametrize(
    ("request_", "nusd", "note"),
    [
        (one_request("flat", 1_000, 400, 100), 1_200_000, NO_CACHE),
        (one_request("cached", 1_000, 400, 100), 840_000, ""),
        (one_request("cached", 1_000, 400, 100, "aborted"), 840_000, ""),
        (one_request("cached", 128_000, None, 10), 128_020_000, ""),
        (one_request("cached", 128_001, 0, 10), 384_063_000, ""),
        (one_request("cached", 0, 0, 0), 0, ""),
        (one_request("half", 200_000, 0, 10), None, "no price for prompts above 128,000 tokens"),
        (one_request("cached", None, None, 5), None, "1 requests did not report their tokens"),
        (one_request("cached", 5, None, None), None, "1 requests did not report their tokens"),
        (one_request("cached", 1_000, 0, 0, "error"), None, "hosts bill nothing for a request that failed"),
        (one_request("seconds", 5, 0, 5), None, "the hosted model is not priced by the token"),
        (one_request("none", 5, 0, 5), None, "no list price; add an alias to the price file"),
        (one_request("tiers", 256_000, 0, 10), 768_060_000, NO_CACHE),
        (one_request("tiers", 256_001, 0, 10), None, "no price for prompts above 256,000 tokens"),
    ],
    ids=["no cache", "cached", "aborted", "at a threshold", "above it", "nothing", "a price missing", "no prompt",
         "no answer", "failed", "by the second", "not listed", "at the end of a table", "behind it"],
)  # fmt: skip
def test_the_list_price_of_one_request(request_: Row, nusd: int | None, note: str) -> None:
    """As that of all of them: by the price of its prompt's length."""
    side = list_side_of_request(Prices(list_map=read_map(MAP, "map.json")), request_)

    assert (side.cost_nusd, side.note) == (nusd, note)


@given(st.lists(st.tuples(st.integers(0, 300_000), st.integers(0, 300_000), st.integers(0, 9_999)), max_size=20))
def test_list_prices_of_requests_add_up_to_that_of_their_model(requests: list[tuple[int, int, int]]) -> None:
    """Each rounded to the nano-dollar, these prices without a rest."""
    prices = Prices(list_map=read_map(MAP, "map.json"))
    sides = [list_side_of_request(prices, one_request("cached", *each)) for each in requests]
    rows = [tokens(128_000 if prompt > 128_000 else 0 if prompt else -1, prompt, min(cached, prompt), answer)
            for prompt, cached, answer in requests]  # fmt: skip

    assert sum(side.cost_nusd or 0 for side in sides) == listed("cached", *rows).cost_nusd


PRICES = parse_prices(
    b"""
gpu_hour: [{gpu: H100, periods: [{from: 2026-01-01, until: 2026-06-01, value: 2 USD/GPU-hour}, \
{from: 2026-06-01, value: 3 USD/GPU-hour}]}]
pue: [{periods: [{from: 2026-01-01, value: 1.5}]}]
grid: [{region: eu, periods: [{from: 2026-01-01, value: 400 gCO2e/kWh}]}]
""",
    "p.yaml",
)
JUNE_MS = 1_780_272_000_000


def test_emissions_are_exact_where_all_is_known_and_unknown_else() -> None:
    """What bills say of energy at the meter and CO2e; a region with energy of which that is not known has none."""
    kwh = 3_600_000_000
    place = {"hour_ms": JUNE_MS, "gpu_ms": 5, "carbon_ug": 600_000_000, "uncounted_energy_mj": 0,
             "meter_mj": kwh * 3 // 2, "unmetered_energy_mj": 0}  # fmt: skip

    found = emissions(
        [{**place, "region": "eu", "energy_mj": kwh}, {**place, "region": "eu", "energy_mj": kwh},
         {**place, "region": "us", "energy_mj": kwh, "uncounted_energy_mj": 1},
         {**place, "region": "no", "energy_mj": kwh, "meter_mj": None, "unmetered_energy_mj": kwh},
         {**place, "region": None, "energy_mj": None}],
    )  # fmt: skip

    assert [(row["region"], row["energy_mj"], row["meter_mj"], row["carbon_ug"]) for row in found] == [
        (None, None, None, None),
        ("eu", 2 * kwh, 3 * kwh, 1_200_000_000),
        ("no", kwh, None, 600_000_000),
        ("us", kwh, kwh * 3 // 2, None),
    ]


def test_a_place_without_energy_adds_none() -> None:
    """Of bills without any energy nothing is lacking: sums of emissions, of which all are null, are 0."""
    hour = {"region": "eu", "hour_ms": JUNE_MS, "gpu_ms": 5, "unmetered_energy_mj": 0, "uncounted_energy_mj": 0}

    (found,) = emissions(
        [{**hour, "energy_mj": 0, "meter_mj": None, "carbon_ug": None},
         {**hour, "energy_mj": 10, "meter_mj": 15, "carbon_ug": 600}],
    )  # fmt: skip

    assert (found["energy_mj"], found["meter_mj"], found["carbon_ug"]) == (10, 15, 600)


def test_every_price_that_held_is_named_with_its_line() -> None:
    """Over a change of prices both stand there; what has no price says so."""
    place = {"region": "eu", "gpu_model": "NVIDIA H100", "first_ms": JUNE_MS - HOUR_MS, "last_ms": JUNE_MS}

    found = sources([place], PRICES)

    assert [(row["section"], row["text"], row["at"]) for row in found] == [
        ("GPU", "2 USD/GPU-hour", "p.yaml:2"),
        ("GPU", "3 USD/GPU-hour", "p.yaml:2"),
        ("PUE", "1.5", "p.yaml:3"),
        ("energy", None, None),
        ("grid", "400 gCO2e/kWh", "p.yaml:4"),
        ("host", None, None),
    ]


CHANGING = parse_prices(
    b"""
gpu_hour: [{gpu: H100, periods: [{from: 2026-01-01, until: 2026-06-01T00:30:00Z, value: 2 USD/GPU-hour}, \
{from: 2026-06-01T00:30:00Z, value: 3 USD/GPU-hour}]}]
energy: [{timezone: Asia/Kolkata, periods: [{from: 2026-01-01, value: 0.1 USD/kWh, \
hours: [{hours: 06:10-06:15, value: 0.2 USD/kWh}]}]}]
""",
    "p.yaml",
)
"""In UTC the hours are those from 00:40 to 00:45."""


@pytest.mark.parametrize(
    ("first", "last", "gpu", "energy"),
    [
        (0, 29, ["2 USD/GPU-hour"], ["0.1 USD/kWh"]),
        (0, 30, ["2 USD/GPU-hour", "3 USD/GPU-hour"], ["0.1 USD/kWh"]),
        (29, 40, ["2 USD/GPU-hour", "3 USD/GPU-hour"], ["0.1 USD/kWh", "0.2 USD/kWh"]),
        (44, 45, ["3 USD/GPU-hour"], ["0.2 USD/kWh", "0.1 USD/kWh"]),
        (45, 59, ["3 USD/GPU-hour"], ["0.1 USD/kWh"]),
        (50, 50 + 23 * 60, ["3 USD/GPU-hour"], ["0.1 USD/kWh"]),
        (50, 40 + 24 * 60, ["3 USD/GPU-hour"], ["0.1 USD/kWh", "0.2 USD/kWh"]),
    ],
)
def test_a_price_that_begins_within_an_hour_is_named_too(
    first: int, last: int, gpu: list[str], energy: list[str]
) -> None:
    """From its minute on, in hours of the day of any time zone, and none that did not hold between first and last."""
    span = {"first_ms": JUNE_MS + first * MINUTE_MS, "last_ms": JUNE_MS + last * MINUTE_MS}

    found = sources([{"region": "in", "gpu_model": "NVIDIA H100", **span}], CHANGING)

    assert [row["text"] for row in found if row["section"] == "GPU"] == gpu
    assert [row["text"] for row in found if row["section"] == "energy"] == energy


def test_budgets_count_what_they_cover() -> None:
    """A tenant's, a team's, all: what has no price or no tenant counts where it belongs."""
    day = JUNE_MS // DAY_MS
    days: list[Row] = [
        {"day": day, "tenant": "acme", "model": "m", "cost_nusd": 60},
        {"day": day, "tenant": "globex", "model": "m", "cost_nusd": 30},
        {"day": day, "tenant": None, "model": None, "cost_nusd": 10},
        {"day": day, "tenant": "acme", "model": None, "cost_nusd": None},
    ]
    budgets = Budgets(
        (Budget("all", 100), Budget("acme", 100, "tenant", "acme"), Budget("team", 1_000, "team", "search")),
        {"acme": "search", "globex": "search"},
    )

    found = standings(budgets, days, JUNE_MS + HOUR_MS)

    assert [(row["budget"], row["spent_nusd"], [one["share_ppm"] for one in row["crossed"]]) for row in found] == [
        ("all", 100, [500_000, 800_000, 1_000_000]),
        ("acme", 60, [500_000]),
        ("team", 90, []),
    ]
    assert look_back_ms(Budget("b", 1, days=366), JUNE_MS) <= (JUNE_MS - HISTORY_MS) // DAY_MS * DAY_MS


def test_a_budget_is_not_used_up_before_the_first_bill() -> None:
    """Which came at six in the evening, an hour ago; the day's spend alone would say the morning."""
    first_ms = JUNE_MS + 18 * HOUR_MS
    days: list[Row] = [
        {"day": JUNE_MS // DAY_MS, "tenant": "acme", "model": "m", "cost_nusd": 60, "first_ms": first_ms}
    ]

    (found,) = standings(Budgets((Budget("b", 30),)), days, first_ms + HOUR_MS)

    assert found["exhausted_ms"] == first_ms + HOUR_MS // 2


def test_a_month_goes_on_as_its_weeks_went() -> None:
    """Four even weeks, on the twentieth day: all costs, then tenants by what they spent; nobody's is in all."""
    today = JUNE_MS // DAY_MS + 19
    days: list[Row] = [
        {"day": day, "tenant": tenant, "model": "m", "cost_nusd": spent}
        for day in range(today - 28, today)
        for tenant, spent in ((None, 1_000), ("acme", 100), ("globex", 200))
    ]

    found = months(days, today * DAY_MS)

    assert [(row["tenant"], row["spent_nusd"], row["forecast_nusd"]) for row in found] == [
        (None, 19 * 1_300, 30 * 1_300),
        ("globex", 19 * 200, 30 * 200),
        ("acme", 19 * 100, 30 * 100),
    ]
    assert {(row["start_ms"], row["end_ms"]) for row in found} == {(JUNE_MS, JUNE_MS + 30 * DAY_MS)}
    assert [row["spent_nusd"] for row in months([], today * DAY_MS)] == [0]


def test_a_class_pays_for_its_good_requests_alone() -> None:
    """All of its cost over the good ones; a class without requests has no row."""
    classes = (SloClass("gold", 0.9, ttft_us=1), SloClass("unused", 0.9, e2e_us=2))
    row = {
        "slo_class": "gold", "good": 8, "missed": 1, "failed": 1, "left_out": 5, "missed_ttft": 1, "missed_tpot": 0,
        "missed_e2e": 0, "good_input_tokens": 900, "good_output_tokens": 100, "missed_output_tokens": 25,
        "all_output_tokens": 125, "good_tokens": 1_000,
    }  # fmt: skip

    (made,) = goodput_rows([row], [{"slo_class": "gold", "cost_nusd": 4_000_000}], classes)

    assert slo_parameters(classes) == {
        "slo_classes": ["gold", "unused"], "slo_ttft_us": [1, None], "slo_tpot_us": [None, None],
        "slo_e2e_us": [None, 2],
    }  # fmt: skip
    assert (made["attainment"], made["usd_per_good_request"], made["missed_usd"]) == (0.8, 0.0005, 0.0008)
    assert made["usd_per_million_good_tokens"] == pytest.approx(4.0)
    assert made["burn_rate"] == pytest.approx(2.0)


VERDICTS = {"slo_class": "gold", "good": 8, "missed": 1, "failed": 1, "left_out": 0, "good_tokens": 1_000}
ENDS = {"ok": 8, "aborted": 0, "client_fault": 0, "failed": 2}
OF_REQUESTS = dict.fromkeys(("missed_ttft", "missed_output_tokens", "all_output_tokens"), 1)


@pytest.mark.parametrize(
    ("row", "ends", "requests_kept", "usd"),
    [
        (VERDICTS, ENDS, False, 0.0005),
        (VERDICTS, ENDS | {"ok": 800}, False, None),
        (VERDICTS | OF_REQUESTS, ENDS, True, 0.0005),
        (VERDICTS | OF_REQUESTS, ENDS, False, None),
        (VERDICTS, ENDS | {"requests": 10, "priced_requests": 10}, True, 0.0005),
        (VERDICTS, ENDS | {"requests": 10, "priced_requests": 9}, True, None),
    ],
    ids=[
        *("windows judged all", "windows judged some", "requests", "requests that are gone in part"),
        *("requests with a cost", "a request without a cost"),
    ],
)
def test_cost_and_good_requests_are_of_the_same_requests(
    row: Row, ends: Row, requests_kept: bool, usd: float | None
) -> None:
    """Not where verdicts begin within the range, as classes that are new or requests that have expired, nor where some
    bills have no cost."""
    (made,) = goodput_rows(
        [row],
        [{"slo_class": "gold", "cost_nusd": 4_000_000, **ends}],
        [SloClass("gold", 0.9, ttft_us=1)],
        requests_kept,
    )

    assert (made["usd_per_good_request"], made["cost_nusd"]) == (usd, 4_000_000)
    assert (made["usd_per_million_good_tokens"] is None) is (usd is None)


def test_what_silent_gpus_cost_stands_with_their_type() -> None:
    """Over days; nothing where all reported, unknown without a price; a type that no bill has stands behind."""

    def silent(gpu_model: str, silent_gpu_ms: int, unobserved_nusd: int | None) -> dict[str, Any]:
        return {"gpu_model": gpu_model, "silent_gpu_ms": silent_gpu_ms, "unobserved_nusd": unobserved_nusd}

    billed = [{**GPU_TYPE, "gpu_model": name} for name in ("H100", "T4")]
    rows = money.with_silence(
        billed, [silent("H100", 5, 10), silent("H100", 7, 20), silent("L4", 3, None), silent("T4", 0, 0)]
    )

    assert [(row["gpu_model"], row["unobserved_nusd"]) for row in rows] == [("H100", 30), ("T4", 0), ("L4", None)]
    assert [money.gpu_costs(row)["usd_per_gpu_hour"] for row in rows] == [2.0, 2.0, None]
    assert [money.gpu_costs(row)["gpu_ms"] for row in rows] == [7_200_000, 7_200_000, 0]


def test_a_billed_hour_is_of_bills_that_lack_no_price() -> None:
    """Three hours at 2 USD, two of them without the price of their host: what these cost in part divides nothing."""
    partly = {"gpu_ms": 3 * HOUR_MS, "total_nusd": 6_000_000_000, "unpriced_gpu_ms": 2 * HOUR_MS}

    row = {**GPU_TYPE, **partly, "priced_gpu_ms": HOUR_MS, "priced_nusd": 2_000_000_000}

    assert money.gpu_costs(row)["usd_per_gpu_hour"] == pytest.approx(2.0)
    assert money.gpu_costs({**row, "priced_gpu_ms": 0, "priced_nusd": None})["usd_per_gpu_hour"] is None


GPU_TYPE = {
    **dict.fromkeys(("unpriced_gpu_ms", "requests", "prompt_tokens", "decode_tokens"), 0),
    **dict.fromkeys(("priced_tokens", "metered_tokens", "counted_tokens"), 0),
    **{"gpu_ms": 7_200_000, "total_nusd": 4_000_000_000, "priced_gpu_ms": 7_200_000, "priced_nusd": 4_000_000_000},
    **{"meter_mj": None, "carbon_ug": None},
}
