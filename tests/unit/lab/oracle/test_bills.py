"""Counting bills, their parts and their lines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.oracle.bills import Bill, BillLine, Part, billed_ms, by_hour, money, part_of, unit_costs


@pytest.mark.parametrize(
    ("energy_mj", "bill_energy_mj", "bill_meter_mj", "meter_mj"),
    [
        *((3, 10, 13, 3), (10, 10, 13, 13), (0, 10, 13, 0), (2**60, 2**61, 2**62, 2**61)),
        *((None, 10, 13, None), (3, None, 13, None), (3, 10, None, None), (3, 0, 13, None)),
    ],
)
def test_a_part_has_its_share_of_the_meter(
    energy_mj: int | None, bill_energy_mj: int | None, bill_meter_mj: int | None, meter_mj: int | None
) -> None:
    """By its energy, rounded down."""
    names = {"part": "request", "model": "m", "tenant": "t", "status": "ok"}
    amounts = {"cost_nusd": 7, "energy_mj": energy_mj}
    of_bill = {"bill_energy_mj": bill_energy_mj, "bill_meter_mj": bill_meter_mj}

    found = part_of({"minute_ms": 0, **names, **amounts, **of_bill})

    assert found == Part(0, "request", "m", "t", "ok", 7, energy_mj, meter_mj=meter_mj)


def test_what_is_nobodys_in_particular_counts() -> None:
    """A part without a price adds nothing; idle and waiting GPUs apart."""
    parts = [
        Part(60_000, "request", "m", "t", "ok", 7, 3),
        Part(60_000, "__idle__", "None", "None", None, 5, 2),
        Part(120_000, "__wasted__", "m", "None", None, None, 1),
    ]
    found = money([Bill(60_000, "engine", "e", 1, meter_mj=6), Bill(120_000, "idle", "h", 1)], parts, [])

    assert {key: value for key, value in found.items() if key[0] == "cost_nusd"} == {
        ("cost_nusd", "all"): 12, ("cost_nusd", "model=m"): 7, ("cost_nusd", "model=None"): 5,
        ("cost_nusd", "tenant=t"): 7, ("cost_nusd", "tenant=None"): 5,
        ("cost_nusd", "part=request"): 7, ("cost_nusd", "part=__idle__"): 5, ("cost_nusd", "part=__wasted__"): 0,
    }  # fmt: skip
    assert found["idle_nusd", "all"] == 5
    assert found["billed_ms", "all"] == 120_000
    assert found["meter_mj", "all"] == 6
    listed = {of: value for (metric, of), value in found.items() if metric == "listed_cost_nusd"}
    assert listed == {
        **{"model=m": 7, "model=__idle__": 5, "model=__wasted__": 0},
        **{"tenant=t": 7, "tenant=__idle__": 5, "tenant=__wasted__": 0},
    }


def test_a_minute_at_an_end_of_billed_time_counts_by_its_gpu_time() -> None:
    """A fleet that starts within a minute; one minute alone, and one that has more than the next, count whole."""
    bills = [
        Bill(60_000 * minute, "idle", "h", gpu_ms)
        for minute, gpu_ms in ((1, 5), (2, 20), (3, 20), (7, 3), (9, 9), (10, 6))
    ]

    assert billed_ms(bills) == 15_000 + 2 * 60_000 + 60_000 + 60_000 + 40_000


def test_unit_costs_are_of_requests_and_a_price_is_of_tokens_that_have_one() -> None:
    """The cache is paid with generated tokens; where there are none, with those of the prompt."""
    paid = Part(0, "request", "m", "t", "ok", 6, 3, "prefill", 2, 36, 9)
    parts = [
        paid,
        replace(paid, cost_nusd=None, amount=5),
        replace(paid, kind="kv", cost_nusd=4),
        Part(0, "__idle__", "None", "None", None, 99, 9, "held"),
    ]
    found = unit_costs(parts[:3])
    both = unit_costs([*parts[:3], replace(paid, kind="decode", amount=1)])

    assert (found["uncached_nusd"], found["priced_uncached_tokens"]) == (10, 2)
    assert "output_nusd" not in found
    assert (both["uncached_nusd"], both["output_nusd"]) == (6, 10)
    assert money([], parts, [])["uncached_nusd", "tenant=t"] == 10


def test_a_request_has_the_gpu_time_of_its_tenant_and_nobody_has_requests_of_that_kind() -> None:
    """Work apart from what held the model; what is nobody's has no mean."""
    held = Part(0, "request", "m", "t", "ok", 6, 30, "held", gpu_ms=4)
    parts = [held, replace(held, kind="decode", energy_mj=10, gpu_ms=2), replace(held, tenant="None", status=None)]
    lines = [BillLine(0, "m", one, "", 2) for one in ("t", "None")]
    found = money([], parts, lines)

    assert (found["whole_gpu_ms", "tenant=t"], found["work_gpu_ms", "tenant=t"]) == (6, 2)
    assert found["energy_mj_per_request", "tenant=t"] == 20
    assert ("energy_mj_per_request", "tenant=None") not in found


def test_types_of_gpus_and_hosts_that_idle_have_the_bills_of_them() -> None:
    """A bill over several types stands apart."""
    bills = [
        Bill(0, "engine", "e", 5, gpu_model="a", total_nusd=9, gpu_nusd=6, host_nusd=1),
        Bill(0, "idle", "h", 7, gpu_model="a", total_nusd=2, gpu_nusd=2),
        Bill(0, "idle", "h", 3, total_nusd=None, unpriced_gpu_ms=3, final=0),
    ]
    found = money(bills, [], [])

    assert (found["type_gpu_ms", "gpu_model=a"], found["type_gpu_ms", "gpu_model=several types"]) == (12, 3)
    assert (found["type_machine_nusd", "gpu_model=a"], found["type_idle_nusd", "gpu_model=a"]) == (9, 2)
    assert (found["idle_host_nusd", "host=h"], found["idle_host_gpu_ms", "host=h"]) == (2, 10)
    assert (found["bill_unpriced_gpu_ms", "all"], found["provisional_bills", "all"]) == (3, 1)


def test_hours_are_apart_and_what_is_unused_has_rows_of_its_own() -> None:
    """A request comes to all that was spent on its tenant and model in the hour."""
    spent = Part(0, "request", "m", "t", "ok", 4_000, 3, "prefill", 2)
    later = replace(spent, minute_ms=3_600_000, cost_nusd=1_000)
    found = by_hour([spent, later, replace(spent, part="__idle__", status=None)], [BillLine(0, "m", "t", "", 2)])

    assert {of: value for (metric, of), value in found.items() if metric == "hourly_cost_nusd"} == {
        "hour=0 t m ": 4_000, "hour=1 t m ": 1_000, "hour=0 t m __idle__": 4_000,
    }  # fmt: skip
    assert found["hourly_usd_per_request", "hour=0 t m "] == 2_000 / 1e9


def test_a_request_costs_what_its_model_was_billed() -> None:
    """Those that failed are paid by those that did not; what ran without a price makes the others no cheaper."""
    one = BillLine(0, "m", "t", "", 1)
    lines = [one, replace(one, status="error"), replace(one, requests=5, has=())]
    found = money([], [Part(0, "request", "m", "t", "ok", 7, 3)], lines)

    assert (found["billed_requests", "model=m"], found["nusd_per_request", "model=m"]) == (7, 3.5)
    assert found["nusd_per_ok", "model=m"] == 7


def test_a_request_comes_to_what_those_with_a_price_do() -> None:
    """Others count as requests; what they found in the cache has no price, as tokens without one."""
    spent = Part(0, "request", "m", "t", "ok", 4_000, 3, "prefill", 2)
    lines = [BillLine(0, "m", "t", "", 2, cached_tokens=5), BillLine(0, "m", "t", "", 6, cached_tokens=7, has=("g",))]
    found = by_hour([spent], lines)

    of = "hour=0 t m "
    assert (found["hourly_requests", of], found["hourly_cached_tokens", of]) == (8, 5)
    assert found["hourly_usd_per_request", of] == 2_000 / 1e9


def test_a_region_has_its_bills_and_an_engine_its_parts() -> None:
    """What is known of them."""
    bills = [
        Bill(0, "engine", "e", 5, region="eu", energy_mj=3, meter_mj=4, carbon_ug=2),
        Bill(60_000, "idle", "h", 7, region="eu", energy_mj=None),
        Bill(0, "idle", "h", 9),
    ]
    parts = [Part(0, "request", "m", "t", "ok", 7, 3, use="engine", owner="e"),
             Part(0, "__wasted__", "None", "None", None, 2, 1, use="engine", owner="e"),
             Part(0, "__idle__", "None", "None", None, 5, 2, use="idle", owner="h")]  # fmt: skip
    found = money(bills, parts, [])

    assert {key: value for key, value in found.items() if key[1].startswith("region=")} == {
        ("place_energy_mj", "region=eu"): 3, ("place_meter_mj", "region=eu"): 4, ("place_carbon_ug", "region=eu"): 2,
        ("place_gpu_ms", "region=eu"): 12, ("place_energy_mj", "region="): 0, ("place_meter_mj", "region="): 0,
        ("place_carbon_ug", "region="): 0, ("place_gpu_ms", "region="): 9,
    }  # fmt: skip
    assert found["cost_nusd", "engine=e"] == 9
    assert ("cost_nusd", "engine=h") not in found


def test_a_list_has_what_was_not_answered_beside_all_that_each_costs() -> None:
    """What is nobody's stands under its part, and failed nowhere."""
    spent = Part(0, "request", "m", "t", "ok", 7, 3, meter_mj=4, carbon_ug=2, gpu_ms=5)
    parts = [spent, replace(spent, status="aborted", cost_nusd=2), replace(spent, status="timeout", cost_nusd=1)]
    found = money([], [*parts, replace(spent, part="__idle__", status=None, cost_nusd=9)], [])

    of = {metric: value for (metric, whose), value in found.items() if whose == "tenant=t" and metric[:6] == "listed"}
    assert of == {"listed_cost_nusd": 10, "listed_energy_mj": 9, "listed_meter_mj": 12, "listed_carbon_ug": 6,
                  "listed_gpu_ms": 15}  # fmt: skip
    assert (found["aborted_nusd", "model=m"], found["unanswered_nusd", "tenant=t"]) == (2, 1)
    assert found["listed_gpu_ms", "model=__idle__"] == 5
