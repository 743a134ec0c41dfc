"""Spend as it changes: whatever is told again, the differences add up to the newest bills."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.contract.record import Output, Record
from schemas.contract.topics import COSTS_TOPIC
from schemas.errors import ContractError
from schemas.limits import MINUTE_MS
from schemas.rows.finals import PassedOnHeaders, decode
from stream_jobs.costs.minute_buffer import BufferLimits
from stream_jobs.finals import spend
from stream_jobs.finals.spend import KEEP_MS, Bill, Spending, SpendStep, bills_of
from stream_jobs.step import Commit
from tests.unit.stream_jobs.budgets.spend_cases import DAY_MS, a_bill, a_cost_record, added_up
from tests.unit.stream_jobs.costs import cases as costs_cases
from tests.unit.stream_jobs.stat_values import values_of

BASE_MS = 20_000 * DAY_MS
COMMIT = Commit(COSTS_TOPIC, 0, 0, 1, 0, BASE_MS, idle=False)


def folded(step: SpendStep, state: Spending, records: list[Record]) -> list[Output]:
    changes = step.changes()
    step.fold(state, records, changes)
    return step.rows(state, changes, COMMIT)


def test_a_bill_is_read_as_what_everybody_pays() -> None:
    """Parts of one payer are one amount; parts without a price, and nothing at all, are none."""
    parts = [("a", "m", 5), (None, None, 7), ("a", "m", 6), ("b", "m", None), ("c", None, 0), ("a", "n", 2**40)]

    found = list(bills_of(a_cost_record(0, [a_bill(BASE_MS, parts, 9), a_bill(BASE_MS, [], 4, "e-2")])))

    assert found == [
        Bill(BASE_MS, ("engine", "e-1", "g-e-1"), 9, {("a", "m"): 11, (None, None): 7, ("a", "n"): 2**40}),
        Bill(BASE_MS, ("engine", "e-2", "g-e-2"), 4, {}),
    ]


def test_the_newest_version_replaces_the_one_before() -> None:
    """Only the difference is told, below 0 too; an older version and the same again change nothing."""
    step = SpendStep()
    state = step.new(COSTS_TOPIC, 0)
    told = [
        folded(step, state, [a_cost_record(n, [a_bill(BASE_MS, parts, version)])])
        for n, (version, parts) in enumerate(
            [(2, [("a", "m", 10)]), (4, [("a", "m", 7), ("b", "m", 1)]), (3, [("a", "m", 99)]), (4, [("a", "m", 50)])]
        )
    ]

    assert [added_up(outputs) for outputs in told] == [
        {(BASE_MS, "a", "m"): 10},
        {(BASE_MS, "a", "m"): -3, (BASE_MS, "b", "m"): 1},
        {},
        {},
    ]
    assert told[2:] == [[], []]


def test_records_say_what_they_are() -> None:
    """One record for a commit, with the newest append time, rows by day and payer, null first."""
    step = SpendStep()
    bills = [a_bill(BASE_MS + DAY_MS, [("b", "m", 1)]), a_bill(BASE_MS, [("b", "m", 2), (None, None, 3)], owner="e-2")]

    (output,) = folded(
        step, step.new(COSTS_TOPIC, 0), [a_cost_record(0, bills, at_ms=70), a_cost_record(1, [], at_ms=9)]
    )

    assert (output.topic, output.partition, output.key) == ("window.finals", 0, None)
    assert decode(output.headers, "here") == PassedOnHeaders("spend/1", 70, 3)
    assert list(added_up([output])) == [(BASE_MS, None, None), (BASE_MS, "b", "m"), (BASE_MS + DAY_MS, "b", "m")]


def test_large_changes_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Into records of so many rows; none is lost."""
    monkeypatch.setattr(spend, "ROWS_MAX", 2)
    step = SpendStep()

    outputs = folded(
        step, step.new(COSTS_TOPIC, 0), [a_cost_record(0, [a_bill(BASE_MS, [(t, "m", 1) for t in "abcde"])])]
    )

    assert [len(added_up([one])) for one in outputs] == [2, 2, 1]


def test_what_may_be_told_again_is_kept() -> None:
    """Longer than the cost job tells a minute again, of each upstream partition by itself; what is older is counted."""
    limits = BufferLimits()
    assert limits.settle_ms + limits.keep_ms + 2 * MINUTE_MS < KEEP_MS
    step = SpendStep()
    state = step.new(COSTS_TOPIC, 3)
    newest_ms = BASE_MS + KEEP_MS
    folded(step, state, [a_cost_record(0, [a_bill(newest_ms, [("a", "m", 1)])])])

    kept = folded(step, state, [a_cost_record(1, [a_bill(BASE_MS + MINUTE_MS, [("a", "m", 2)])])])
    gone = folded(step, state, [a_cost_record(2, [a_bill(BASE_MS, [("a", "m", 4)])])])
    changes = step.changes()
    step.fold(state, [a_cost_record(2, [a_bill(BASE_MS, [("a", "m", 4)])])], changes)
    left_out = values_of(step.stats(state, changes))
    other = folded(step, state, [a_cost_record(3, [a_bill(BASE_MS, [("a", "m", 8)])], source=1)])

    assert [sum(added_up(one).values()) for one in (kept, gone, other)] == [2, 0, 8]
    assert left_out == {("spend_left_out", 3): 1}
    assert {source: list(minutes) for source, minutes in state.minutes.items()} == {
        0: [newest_ms, BASE_MS + MINUTE_MS],
        1: [BASE_MS],
    }


PARTS = st.tuples(st.sampled_from(["a", None]), st.sampled_from(["m", None]), st.integers(-3, 9))
BILLS = st.tuples(st.integers(0, 3), st.sampled_from("xy"), st.integers(1, 6), st.lists(PARTS, max_size=3))
LOGS = st.lists(st.lists(BILLS, max_size=4), max_size=6)
EVENING_MS = BASE_MS - 15 * MINUTE_MS


@settings(max_examples=30)
@given(LOGS, st.integers(0, 6), st.integers(1, 3))
def test_differences_add_up_to_the_newest_bills(log: list[list[Any]], crash: int, cut: int) -> None:
    """Over midnight, whatever is told again, wherever batches are cut, through a restart from any snapshot: the sum of
    all differences is the bills that count, and the state is that of the run without a restart."""
    step, newest = SpendStep(), dict[tuple[int, int, str], tuple[int, list[Any]]]()
    records = []
    for offset, told in enumerate(log):
        bills = [(EVENING_MS + minute * 9 * MINUTE_MS, *rest) for minute, *rest in told]
        rows = [a_bill(minute_ms, parts, version, owner) for minute_ms, owner, version, parts in bills]
        records.append(a_cost_record(offset, rows, source=offset % 2))
        for minute_ms, owner, version, parts in bills:
            at = offset % 2, minute_ms, owner
            newest[at] = max(newest.get(at, (0, [])), (version, parts), key=lambda one: one[0])
    whole = step.new(COSTS_TOPIC, 0)
    folded(step, whole, records)
    state, outputs = step.new(COSTS_TOPIC, 0), list[Output]()
    for number, start in enumerate(range(0, len(records), cut)):
        if number == crash:
            state = step.load(COSTS_TOPIC, 0, step.dump(state))
        outputs += folded(step, state, records[start : start + cut])

    assert added_up(outputs) == _sums(newest)
    assert step.dump(state) == step.dump(whole)


def _sums(newest: dict[tuple[int, int, str], tuple[int, list[Any]]]) -> dict[tuple[int, str | None, str | None], int]:
    found: dict[tuple[int, str | None, str | None], int] = {}
    for (_, minute_ms, _), (_, parts) in newest.items():
        for tenant, model, amount in parts:
            key = minute_ms - minute_ms % DAY_MS, tenant, model
            found[key] = found.get(key, 0) + amount
    return {key: amount for key, amount in found.items() if amount}


def test_what_the_cost_job_tells_adds_up_to_its_bills() -> None:
    """Provisional, again and final, with late rows: the sum is that of the rows that count."""
    limits = BufferLimits(settle_ms=2 * MINUTE_MS, keep_ms=2 * MINUTE_MS)
    costs, log, step = costs_cases.a_step(limits), costs_cases.Log(), SpendStep()
    for window in range(60):
        log.gpu(window, [costs_cases.a_gpu("g-1"), costs_cases.a_gpu("g-2", "f", "h")], through=window)
        late = window // 9 * 6 if window % 9 == 0 else window
        log.usage(late, [costs_cases.a_line(t) for t in "ab"[: 1 + window % 2]], through=window)
    source, state, outputs, told = costs.new("window.partials", 0), step.new(COSTS_TOPIC, 0), [], []
    for offset, (start, stop) in enumerate(pairwise(range(0, len(log.records) + 1, 6))):
        changes = costs.changes()
        costs.fold(source, log.records[start:stop], changes)
        made = costs.rows(source, changes, replace(COMMIT, topic="window.partials"))
        outputs += made
        told += folded(step, state, [Record(COSTS_TOPIC, 0, offset, 7, None, o.value, o.headers) for o in made])

    bills = costs_cases.newest(costs_cases.emitted_rows(outputs)).values()
    expected = sum(bill["total_nusd"] for bill in bills)
    assert len(outputs) > len(bills) // 2 > 5
    assert sum(added_up(told).values()) == expected > 10**9


def test_what_is_no_bill_is_refused() -> None:
    """Another schema, a missing header, bytes that are no block; what the host rejects is counted."""
    step = SpendStep()
    good = a_cost_record(5, [a_bill(BASE_MS, [])])
    state, changes = step.new(COSTS_TOPIC, 0), step.changes()
    for bad, said in (
        (good._replace(headers=(("schema", b"usage/1"),)), r"costs\[0\] offset 5 has schema 'usage/1'"),
        (good._replace(headers=(("schema", b"costs/1"),)), "a header is missing or no number: 'source-partition'"),
        (good._replace(value=b"\x01"), "cannot be read as costs/1"),
    ):
        with pytest.raises(ContractError, match=said):
            step.fold(state, [bad], changes)

    step.reject(state, good, "why", changes)

    assert (changes.left_out, step.due(state, changes), step.rows(state, changes, COMMIT)) == (1, False, [])


def test_a_foreign_snapshot_is_refused() -> None:
    """Of another topic or partition."""
    step = SpendStep()

    with pytest.raises(ContractError, match=r"is of \{'topic': 'costs', 'partition': 1\}, not"):
        step.load(COSTS_TOPIC, 0, step.dump(step.new(COSTS_TOPIC, 1)))
