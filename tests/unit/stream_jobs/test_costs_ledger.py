"""The ledger: any order gives the same sums, bytes and bills; when a minute is told, final, late and forgotten."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_jobs.costs.account import CostRow, PartRow, Prices, cost_rows
from stream_jobs.costs.ledger import Ledger, LedgerLimits, Told, load

MINUTE_MS = 60_000
Row = tuple[Any, ...]
SETTLED_MS = MINUTE_MS + 15 * MINUTE_MS + 2_000
KEPT_MS = SETTLED_MS + 10 * MINUTE_MS
LIST = {"H100": 3_600_000_000, "L4": 720_000_000}


def price_of(gpu_model: str | None, region: str | None, host: str | None, minute_ms: int) -> Prices:
    """No price for a type that is not listed; energy and host are free of charge in region ``north``."""
    priced = 0 if region == "north" else 100_000_000
    return Prices(LIST.get(gpu_model or ""), priced, priced, 1_200_000)


def gpu_row(owner: str, gpu: str, *, use: str = "engine", model: str = "H100", region: str = "north") -> Row:
    return "gpu", (use, owner, gpu, model, region, "host-1"), (10_000, 7_000_000)


def usage_row(owner: str, tenant: str | None, decode: int | None, status: str = "ok") -> Row:
    return "usage", ("engine", owner, tenant, "m", None, status), (1, 0, 0, decode, 0)


def filled(rows: Iterable[Row], minute_ms: int = 0, group: str = "group") -> Ledger:
    ledger = Ledger()
    for offset, row in enumerate(rows):
        assert ledger.add(offset, row[0], group, minute_ms, *row[1:])
    return ledger


def facts(told: list[Told]) -> list[tuple[str, int, int, bool]]:
    return [(one.group, one.minute_ms, one.revision, one.final) for one in told]


def test_a_minute_is_told_at_its_end_then_when_changed_then_final() -> None:
    """Not before its end, not without a change, not sooner than thirty seconds later; final by the longest request."""
    ledger = filled([usage_row("e", "t", 1)])

    assert ledger.pass_to(MINUTE_MS - 1) == []
    assert facts(ledger.pass_to(MINUTE_MS)) == [("group", 0, 0, False)]
    ledger.add(7, "usage", "group", 0, ("engine", "e", "t", "m", None, "ok"), (1, 0, 0, 1, 0))
    assert ledger.pass_to(MINUTE_MS + 29_999) == []
    assert facts(ledger.pass_to(MINUTE_MS + 30_000)) == [("group", 0, 7, False)]
    assert ledger.pass_to(SETTLED_MS - 1) == []
    assert facts(ledger.pass_to(SETTLED_MS)) == [("group", 0, 7, True)]
    assert ledger.pass_to(SETTLED_MS + 60_000) == []


def test_a_late_row_changes_a_final_minute_until_it_is_forgotten() -> None:
    """Told again with a greater version; beyond that refused, counted, and nothing of it is kept."""
    ledger = filled([usage_row("e", "t", 1)])
    first = ledger.pass_to(SETTLED_MS)
    _, key, amounts = usage_row("e", "t", 1)

    assert ledger.add(9, "usage", "group", 0, key, amounts)
    again = ledger.pass_to(KEPT_MS - 1)
    assert facts(again) == [("group", 0, 9, True)]
    assert again[0].version > first[0].version
    assert ledger.pass_to(KEPT_MS) == []
    assert not ledger.add(10, "usage", "group", 0, key, amounts)
    assert (ledger.late_rows, ledger.held, ledger.minutes, ledger.waiting) == (1, 0, {}, set())


def test_time_that_jumps_tells_everything_before_it_forgets() -> None:
    """A change of a moment ago is not lost by it."""
    ledger = filled([usage_row("e", "t", 1)])

    assert facts(ledger.pass_to(KEPT_MS + MINUTE_MS)) == [("group", 0, 0, True)]
    assert ledger.pass_to(0) == []
    assert ledger.passed_ms == KEPT_MS + MINUTE_MS


def test_a_minute_is_told_before_it_is_forgotten_even_if_it_should_wait() -> None:
    """A change beyond the rate limit's reach is told all the same."""
    ledger = Ledger(LedgerLimits(every_ms=10**9))
    _, key, amounts = usage_row("e", "t", 1)
    ledger.add(1, "usage", "group", 0, key, amounts)
    ledger.pass_to(SETTLED_MS)
    ledger.add(2, "usage", "group", 0, key, amounts)

    assert ledger.pass_to(KEPT_MS - 1) == []
    assert facts(ledger.pass_to(KEPT_MS)) == [("group", 0, 2, True)]


def test_the_revision_is_the_greatest_offset() -> None:
    """Whatever the order in which rows are added."""
    ledger = Ledger()
    _, key, amounts = usage_row("e", "t", 1)
    for offset in (3, 9, 4):
        ledger.add(offset, "usage", "group", 0, key, amounts)

    assert facts(ledger.pass_to(MINUTE_MS)) == [("group", 0, 9, False)]


def test_the_version_grows_with_the_final_row_of_an_unchanged_minute() -> None:
    """Provisional and final of one revision are two versions."""
    ledger = filled([usage_row("e", "t", 1)])

    assert [one.version for one in ledger.pass_to(MINUTE_MS) + ledger.pass_to(SETTLED_MS)] == [0, 1]


def test_limits_of_lines_and_minutes() -> None:
    """Further names are one line, sums stay; a minute too many is listed as late."""
    ledger = Ledger(LedgerLimits(lines_max=1, minutes_max=1))
    for offset, tenant in enumerate(("a", "b", "c", "a")):
        _, key, amounts = usage_row("e", tenant, 5, "error" if tenant == "c" else "ok")
        assert ledger.add(offset, "usage", "group", 0, key, amounts)

    other = "__other__"
    assert ledger.minutes[0]["group"].tables["usage"] == {
        ("engine", "e", "a", "m", None, "ok"): [2, 0, 0, 10, 0],
        ("engine", "e", other, other, other, "ok"): [1, 0, 0, 5, 0],
        ("engine", "e", other, other, other, "error"): [1, 0, 0, 5, 0],
    }
    assert not ledger.add(9, "startup", "group", MINUTE_MS, ("engine", "e"), (1,))


def test_null_and_a_number_add_to_the_number() -> None:
    """In either order; null and null stay null."""
    rows = [usage_row("e", None, None), usage_row("e", None, 3), usage_row("f", None, 3), usage_row("f", None, None)]
    sums = filled([*rows, usage_row("g", None, None)]).minutes[0]["group"].tables["usage"]

    assert [amounts[3] for amounts in sums.values()] == [3, 3, None]


def told_rows(rows: list[Row]) -> list[CostRow]:
    return cost_rows(filled(rows).pass_to(MINUTE_MS), price_of)


def test_a_row_holds_the_bill_and_all_its_parts() -> None:
    """Two GPUs for ten seconds at 3.6 dollars an hour, two tenants, one of whose requests failed."""
    gpus = [gpu_row("e", "g1"), gpu_row("e", "g2")]
    row = told_rows([*gpus, usage_row("e", "b", 3), usage_row("e", "a", 1), usage_row("e", "b", 1, "error")])[0]

    assert row == CostRow(
        use="engine",
        owner="e",
        group="group",
        minute_ms=0,
        version=8,
        revision=4,
        final=False,
        weights_version=1,
        total_nusd=20_000_000,
        gpu_nusd=20_000_000,
        host_nusd=0,
        energy_nusd=0,
        gpu_ms=20_000,
        energy_mj=14_000_000,
        unpriced_gpu_ms=0,
        unpriced_energy_mj=0,
        unmeasured_gpu_ms=0,
        parts=(
            PartRow("request", "decode", "a", "m", None, "ok", 4_000_000, 2_800_000, 4_000),
            PartRow("__overhead__", "decode", "b", "m", None, "error", 4_000_000, 2_800_000, 4_000),
            PartRow("request", "decode", "b", "m", None, "ok", 12_000_000, 8_400_000, 12_000),
        ),
    )


def named(rows: list[CostRow]) -> dict[tuple[str, str], tuple[int | None, list[str]]]:
    return {(row.use, row.owner): (row.total_nusd, [part.part for part in row.parts]) for row in rows}


def test_what_gpus_do_without_tokens_has_a_name() -> None:
    """Idle, training, loaded in vain, starting, and an engine without GPUs; a type without price is null."""
    rows = [
        gpu_row("host-1", "g1", use="idle"),
        gpu_row("host-1", "g2", use="training"),
        gpu_row("vain", "g3"),
        gpu_row("new", "g4"),
        ("startup", ("engine", "new"), (4_000,)),
        usage_row("gpuless", "t", 5),
        gpu_row("strange", "g5", model="X1"),
    ]

    assert named(told_rows(rows)) == {
        ("idle", "host-1"): (10_000_000, ["__idle__"]),
        ("training", "host-1"): (10_000_000, ["__training__"]),
        ("engine", "vain"): (10_000_000, ["__wasted__"]),
        ("engine", "new"): (10_000_000, ["__overhead__", "__wasted__"]),
        ("engine", "gpuless"): (None, ["__unpriced__"]),
        ("engine", "strange"): (0, ["__wasted__", "__unpriced__"]),
    }


def test_an_engine_that_moved_pays_for_its_time() -> None:
    """One GPU, ten seconds under each name: two bills."""
    assert named(told_rows([gpu_row("a", "g"), gpu_row("b", "g")])) == {
        ("engine", "a"): (10_000_000, ["__wasted__"]),
        ("engine", "b"): (10_000_000, ["__wasted__"]),
    }


def test_holders_of_a_gpu_pay_by_their_shares_whoever_told_its_time() -> None:
    """MIG slices 3 and 2 of 7, two of them idle: the whole GPU is there."""
    shares = [("share", (*owner, "g"), (slices,)) for owner, slices in OWNED]

    rows = told_rows([gpu_row("a", "g"), gpu_row("b", "g"), *shares])

    assert {row.owner: (row.total_nusd, row.gpu_ms, row.energy_mj) for row in rows} == {
        "a": (8_571_428, 8_572, 6_000_000),
        "b": (5_714_286, 5_714, 4_000_000),
        "host-1": (5_714_286, 5_714, 4_000_000),
    }


OWNED = ((("engine", "a"), 3), (("engine", "b"), 2), (("idle", "host-1"), 2))

DECODED = st.one_of(st.none(), st.integers(0, 99))
ROWS = st.one_of(
    st.builds(gpu_row, st.sampled_from("ab"), st.sampled_from(["g1", "g2"]), model=st.sampled_from(["H100", "X"])),
    st.builds(usage_row, st.sampled_from("abc"), st.sampled_from([None, "t", "u"]), DECODED),
    st.sampled_from([("startup", ("engine", "a"), (2_500,)), ("share", ("idle", "h", "g1"), (3,))]),
    st.just(("share", ("engine", "a", "g1"), (4,))),
)
MINUTES = st.sampled_from([0, MINUTE_MS, 59 * MINUTE_MS, 60 * MINUTE_MS])
LOG = st.lists(st.tuples(ROWS, MINUTES, st.sampled_from(["one", "two"])), max_size=25)


def last_rows(log: list[Row], pauses: set[int]) -> list[Row]:
    """Told now and then, through its bytes after every row; of each row the greatest version, without its numbers."""
    ledger, best = Ledger(FOREVER), {}
    for offset, ((table, key, amounts), minute_ms, group) in enumerate(log):
        assert ledger.add(offset, table, group, minute_ms, key, amounts)
        told = ledger.pass_to(60 * MINUTE_MS + offset * 11_000) if offset in pauses else []
        best |= {(row.group, row.minute_ms, row.use, row.owner): row for row in cost_rows(told, price_of)}
        ledger = load(ledger.dump(), FOREVER)
    told = ledger.pass_to(60 * MINUTE_MS + SETTLED_MS)
    best |= {(row.group, row.minute_ms, row.use, row.owner): row for row in cost_rows(told, price_of)}
    return [(at, row.total_nusd, row.gpu_ms, row.energy_mj, row.final, row.parts) for at, row in sorted(best.items())]


FOREVER = LedgerLimits(keep_ms=600 * MINUTE_MS)


@given(log=LOG, seed=st.integers(0, 99), pauses=st.sets(st.integers(0, 24), max_size=3))
@settings(max_examples=30)
def test_any_order_gives_the_same_bills(log: list[Row], seed: int, pauses: set[int]) -> None:
    """Shuffled, told in between and loaded from bytes: the last rows are the same."""
    shuffled = list(log)
    Random(seed).shuffle(shuffled)

    assert last_rows(shuffled, pauses) == last_rows(log, set())


def rows_of(log: list[Row]) -> list[CostRow]:
    ledger = Ledger()
    for offset, ((table, key, amounts), minute_ms, group) in enumerate(log):
        ledger.add(offset, table, group, minute_ms, key, amounts)
    return cost_rows(ledger.pass_to(60 * MINUTE_MS + SETTLED_MS), price_of)


@given(log=LOG)
@settings(max_examples=30)
def test_minutes_hours_and_days_add_up(log: list[Row]) -> None:
    """Whatever is added up by minute, hour or day: parts are bills, nano-dollar by nano-dollar."""
    rows = rows_of(log)

    for bucket_ms in (MINUTE_MS, 60 * MINUTE_MS, 1_440 * MINUTE_MS):
        bills: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
        parts: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
        for row in rows:
            for column, value in enumerate((row.total_nusd, row.energy_mj, row.gpu_ms)):
                bills[row.minute_ms // bucket_ms][column] += value or 0
            for part in row.parts:
                for column, value in enumerate((part.cost_nusd, part.energy_mj, part.gpu_ms)):
                    parts[row.minute_ms // bucket_ms][column] += value or 0
        assert bills == parts


@given(log=LOG, seed=st.integers(0, 99))
@settings(max_examples=40)
def test_equal_states_have_equal_bytes(log: list[Row], seed: int) -> None:
    """The same rows in another order at the same offsets' maximum; and load gives back what was dumped."""
    shuffled = list(log)
    Random(seed).shuffle(shuffled)
    ledgers = [Ledger(), Ledger()]
    for ledger, rows in zip(ledgers, (log, shuffled), strict=True):
        for (table, key, amounts), minute_ms, group in rows:
            ledger.add(5, table, group, minute_ms, key, amounts)

    assert ledgers[0].dump() == ledgers[1].dump()
    assert load(ledgers[0].dump()) == ledgers[0]


def test_a_dump_of_another_version_is_refused() -> None:
    """It would be read wrongly."""
    with pytest.raises(AssertionError):
        load(b"[2,0,0,[]]")
