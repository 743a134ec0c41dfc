"""The cost job's step: what it tells, and that no cut, crash or poison changes the last row of any bill.

Covers stream_jobs.costs.intake.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.contract.record import Record
from schemas.errors import ContractError
from schemas.limits import DEFAULT_LIMITS
from stream_jobs.costs import row_kernels
from stream_jobs.costs.minute_buffer import BufferLimits
from stream_jobs.costs.step import CostStep
from stream_jobs.costs.warm import warm
from stream_jobs.finals import kernels
from stream_jobs.step import Commit
from tests.unit.stream_jobs.costs.cases import (
    BASE_MS,
    SOURCES,
    Bill,
    Log,
    a_gpu,
    a_line,
    a_share,
    a_step,
    added,
    emitted_rows,
    newest,
    price_of,
)
from tests.unit.stream_jobs.stat_values import values_of

TOPIC = "window.partials"
QUICK = BufferLimits(settle_ms=40_000, keep_ms=50_000, every_ms=20_000)
"""Minutes become final after four windows and are forgotten after nine: everything happens within a short log."""


def a_commit(offset_to: int = 1) -> Commit:
    return Commit(TOPIC, 0, 0, offset_to, 0, BASE_MS, idle=False)


def told_at_once(step: CostStep, records: Sequence[Record]) -> list[Bill]:
    state, changes = step.new(TOPIC, 0), step.changes()
    step.fold(state, records, changes)
    return emitted_rows(step.rows(state, changes, a_commit()))


def test_a_minute_of_an_engine_is_a_bill_with_its_parts() -> None:
    """Two GPUs all minute long at 3.6 dollars an hour, two tenants: told when both sources have passed its end."""
    log = Log()
    for window in range(6):
        log.gpu(window, [a_gpu("g1"), a_gpu("g2")], through=window + 1)
        log.usage(window, [a_line("a"), a_line("b", status="error")], through=window)
    step = a_step()
    before = told_at_once(step, log.records)
    log.usage(6, through=6)

    (bill,) = told_at_once(step, log.records)

    assert before == []
    parts, lines = bill.pop("parts"), bill.pop("lines")
    assert bill == {
        **{"minute_ms": BASE_MS, "version": 44, "revision": 22, "final": 0, "weights_version": 1},
        **{"definition_version": 1, "total_nusd": 120_000_000, "gpu_nusd": 120_000_000, "host_nusd": 0},
        **{"energy_nusd": 0, "gpu_ms": 120_000, "energy_mj": 84_000_000, "carbon_ug": 8_400_000},
        **{"meter_mj": 100_800_000, "unpriced_gpu_ms": 0},
        **{"unpriced_energy_mj": 0, "unmeasured_gpu_ms": 0, "estimated_gpu_ms": 0, "use": "engine", "owner": "e"},
        **{"placement_group": "g", "region": "north", "host": "h-1", "gpu_model": "H100", "prices_version": "p1"},
    }
    assert lines == [
        ("a", "m", None, "ok", 6, 600, 0, 60, 6_000),
        ("b", "m", None, "error", 6, 600, 0, 60, 6_000),
    ]
    assert [part[:7] for part in parts] == [
        (name, kind, tenant, "m", None, status, amount)
        for name, tenant, status in (("request", "a", "ok"), ("__overhead__", "b", "error"))
        for kind, amount in (("prefill", 600), ("decode", 60), ("kv", 6_000))
    ]
    assert [added(part[place] for part in parts) for place in (7, 8, 9, 10)] == [
        *(120_000_000, 84_000_000, 8_400_000, 120_000),
    ]


def test_engines_side_by_side_pay_by_the_memory_they_hold() -> None:
    """The GPU names no engine; what two hold of it comes later than its readings: the host's bill becomes nothing."""
    log = Log()
    for window in range(6):
        log.gpu(window, [a_gpu("g1", None)], through=window + 1)
        log.usage(window, [a_line("t", "a")] if window == 0 else (), through=window + 1)
    step = a_step()
    before = told_at_once(step, log.records)
    for window in range(6, 10):
        log.shares(0, [a_share("g1", "a", memory=30), a_share("g1", "b", memory=10)])
        log.gpu(window, through=window + 1)
        log.usage(window, through=window + 1)

    after = newest(told_at_once(step, log.records)).values()

    assert {row["owner"]: row["total_nusd"] for row in before} == {"a": None, "h-1": 60_000_000}
    assert {row["owner"]: (row["total_nusd"], row["gpu_ms"], row["parts"][0][0]) for row in after} == {
        "a": (45_000_000, 45_000, "request"),
        "b": (15_000_000, 15_000, "__wasted__"),
        "h-1": (0, 0, "__idle__"),
    }


def test_a_minute_waits_for_what_engines_hold_of_its_gpus() -> None:
    """Else a job that catches up would forget minutes before it knows who pays for their GPUs."""
    step, log = CostStep(DEFAULT_LIMITS, SOURCES | {"gpu.processes": 1}, price_of, "p1"), Log()
    log.gpu(0, [a_gpu("g1")], through=6)
    log.usage(0, through=6)
    before = told_at_once(step, log.records)
    log.shares(0, through=6)

    assert (before, len(told_at_once(step, log.records))) == ([], 1)


def test_gpus_without_an_engine_are_billed_to_their_host() -> None:
    """Training and fine-tuning are training, whatever else is idle; a request without an engine has no GPU."""
    log = Log()
    rows = [
        a_gpu("g1", None, None, workload="training"),
        a_gpu("g2", None, None, workload="fine_tuning"),
        a_gpu("g3", None, None, workload="idle"),
        a_gpu("g4", None, None),
    ]
    log.gpu(0, rows)
    log.usage(0, [a_line("a", None, None)], through=6)
    log.gpu(6, through=6)

    found = told_at_once(a_step(), log.records)

    assert [(one["use"], one["owner"], one["placement_group"], one["gpu_ms"], one["total_nusd"]) for one in found] == [
        ("engine", "", "", 0, None),
        ("idle", "h-1", "h-1", 20_000, 20_000_000),
        ("training", "h-1", "h-1", 20_000, 20_000_000),
    ]
    assert {part[0] for part in found[0]["parts"]} == {"__unpriced__"}


def test_an_engine_that_starts_is_overhead_and_the_rest_its_tenants() -> None:
    """Readings of a start count where they name an engine; nobody's start is idle."""
    log = Log()
    log.gpu(0, [a_gpu("g1", workload="startup"), a_gpu("g2", None, None, workload="startup")])
    log.gpu(1, [a_gpu("g1", workload="inference"), a_gpu("g1", ms=None, workload="startup")])
    log.usage(1, [a_line("a")], through=6)
    log.gpu(6, through=6)

    engine, idle = told_at_once(a_step(), log.records)

    assert [(part[0], part[1], part[-1]) for part in engine["parts"]][:2] == [
        ("__overhead__", "startup", 10_000), ("request", "prefill", added_half(engine)),
    ]  # fmt: skip
    assert sum(part[-1] for part in engine["parts"]) == engine["gpu_ms"] == 20_000
    assert sum(part[-4] for part in engine["parts"]) == engine["total_nusd"] == 20_000_000
    assert [(part[0], part[1]) for part in idle["parts"]] == [("__idle__", "held")]


def added_half(bill: Bill) -> int:
    """Of the ten seconds behind the start, the prefill's part by weight: 100 M of 140.1 M."""
    assert bill["lines"][0][4:9] == (1, 100, 0, 10, 1_000)
    return 7_138


def test_stats_of_a_commit() -> None:
    """Bills, finals, rows that came too late, records that are missing, and how far it has come."""
    step, log = a_step(QUICK), Log()
    for window in range(20):
        log.gpu(window, [a_gpu("g1")] if window < 6 else [], through=window + 1)
        log.usage(window, through=window + 1)
    log.gpu(0, [a_gpu("g1"), a_gpu("g2")], through=20)
    del log.records[8]
    state, changes = step.new(TOPIC, 0), step.changes()

    step.fold(state, log.records, changes)
    step.rows(state, changes, a_commit())

    assert values_of(step.stats(state, changes)) == {
        ("cost_bills", 0): 2,
        ("cost_bills_failed", 0): 0,
        ("cost_final_bills", 0): 1,
        ("cost_late_rows", 0): 2,
        ("cost_gaps", 0): 1,
        ("cost_held", 0): 0,
        ("cost_through_ms", 0): BASE_MS + 20 * 10_000,
    }


def test_gpu_time_without_a_price_is_counted_by_type() -> None:
    """Of what has a price nothing is counted."""
    step, log = a_step(), Log()
    for window in range(7):
        log.gpu(window, [a_gpu("g1"), a_gpu("g2", "f", "h", gpu_model="V100")], through=window + 1)
        log.usage(window, through=window + 1)
    state, changes = step.new(TOPIC, 0), step.changes()

    step.fold(state, log.records, changes)
    step.rows(state, changes, a_commit())

    found = values_of(step.stats(state, changes))
    assert {key: value for key, value in found.items() if key[0] == "cost_unpriced_ms"} == {
        ("cost_unpriced_ms", "V100"): 60_000
    }


def test_nothing_told_is_no_record() -> None:
    """A commit between the ends of minutes carries the offset alone; nobody asks to hurry it."""
    step, log = a_step(), Log()
    log.gpu(0, [a_gpu("g1")], through=1)
    state, changes = step.new(TOPIC, 0), step.changes()
    step.fold(state, log.records, changes)

    assert not step.due(state, changes)
    assert step.rows(state, changes, a_commit()) == []


def test_a_snapshot_of_another_partition_is_refused() -> None:
    """It would be read wrongly."""
    step = a_step()
    parts = step.dump(step.new(TOPIC, 0))

    with pytest.raises(ContractError, match=r"is of \{'partition': 0\}, not of \{'partition': 1\}"):
        step.load(TOPIC, 1, parts)


def test_nothing_is_compiled_after_warming() -> None:
    """A job that begins to read does not wait for the compiler."""
    warm()
    loops = [loop for one in (kernels, row_kernels) for loop in vars(one).values() if hasattr(loop, "signatures")]
    before = [len(loop.signatures) for loop in loops]
    log = Log()
    log.gpu(0, [a_gpu("g1")], through=6)
    log.shares(0, [a_share("g1")])
    log.usage(0, [a_line("a")], through=6)

    assert len(told_at_once(a_step(), log.records)) == 1
    assert [len(loop.signatures) for loop in loops] == before


def test_words_that_are_forgotten_leave_every_row_its_own_names() -> None:
    """Also those of records that are folded together with what made the words be forgotten."""
    log, few = Log(), replace(QUICK, label_cardinality_max=8)
    for window in range(60):
        of = {"engine": f"e-{window}", "group": f"g-{window}"}
        log.gpu(window, [a_gpu(f"gpu-{window}", **of)], through=window + 1)
        log.usage(window, [a_line(f"t-{window}", **of)], through=window + 1)

    together = told_at_once(a_step(few), log.records)

    assert newest(together) == newest(told_at_once(a_step(QUICK), log.records))
    assert {bill["owner"] for bill in together} == {f"e-{window}" for window in range(60)}
    step = a_step(few)
    state = step.new(TOPIC, 0)
    for record in log.records:
        step.fold(state, [record], step.changes())
    assert len(state.buffer.words) + len(state.buffer.groups) < 60 * 4 // 2


def test_a_shorter_wait_for_idle_sources_begins_with_the_first_commit() -> None:
    """What an owner folds again was sent under the longer one: a minute that passes by the shorter one is sent."""
    log = Log()
    log.usage(0, [a_line("a")], through=1)  # and is idle from here on
    for window in range(60):
        log.gpu(window, [a_gpu("g1")], through=window + 1)
    longer, shorter = (
        CostStep(replace(DEFAULT_LIMITS, final_wait_ms=wait_ms), SOURCES, price_of, "p1", buffer_limits=QUICK)
        for wait_ms in (300_000, 30_000)
    )
    state, changes = longer.new(TOPIC, 0), longer.changes()
    cut, committed = 20, 50
    longer.fold(state, log.records[:cut], changes)
    parts = longer.dump(state)
    longer.fold(state, log.records[cut:committed], changes)
    sent = emitted_rows(longer.rows(state, changes, a_commit()))

    state = shorter.load(TOPIC, 0, parts)
    shorter.fold(state, log.records[cut:committed], shorter.changes())  # dropped by the runner
    for record in log.records[committed:]:
        changes = shorter.changes()
        shorter.fold(state, [record], changes)
        sent += emitted_rows(shorter.rows(state, changes, a_commit()))

    assert newest(sent) == newest(told_at_once(shorter, log.records))


# Exactness: the log is cut anywhere, the process dies anywhere, a record is poison.

ENGINES = st.sampled_from(["e", "f", None])
GROUPS = st.sampled_from(["g", "h", None])
GPUS = st.builds(a_gpu, st.sampled_from(["g1", "g2"]), ENGINES, GROUPS, st.sampled_from([None, 3_000, 10_000]))
SHARED = st.builds(a_share, st.sampled_from(["g1", "g2"]), st.sampled_from("ef"), GROUPS, st.sampled_from([None, 1, 5]))
LINES = st.builds(a_line, st.sampled_from(["a", "b", None]), ENGINES, GROUPS, decode_tokens=st.none() | st.just(7))
ENTRY = st.tuples(
    st.integers(0, 14),
    st.integers(-3, 0),
    st.lists(GPUS, max_size=2) | st.lists(LINES, max_size=2) | st.lists(SHARED, max_size=2),
)
LIMITS = st.sampled_from(
    [
        replace(QUICK, label_cardinality_max=2),
        BufferLimits(settle_ms=40_000, keep_ms=30_000, every_ms=0, minutes_max=2, lines_max=1),
    ]
)


def a_log(entries: list[tuple[int, int, list[Any]]]) -> list[Record]:
    """Commits of both sources: each with rows of a window and how far it has come, time rising, at last far beyond."""
    log = Log()
    for number, (window, behind, rows) in enumerate(sorted(entries, key=lambda entry: entry[0])):
        first = rows[0] if rows else ("grouping", "tenant")[number % 2]
        tell = log.gpu if "grouping" in first else log.usage if "tenant" in first else log.shares
        tell(max(0, window + behind), rows, through=window)
    for window in (20, 40):
        log.gpu(window, through=window)
        log.usage(window, through=window)
    return log.records


def disturbed(step: CostStep, records: Sequence[Record], plan: Sequence[tuple[int, int]]) -> list[Bill]:
    """All rows told when batches are cut and the process dies by plan: (records in a batch, what happens behind it).

    0: nothing; 1: a commit; 2: a commit with a snapshot; 3: death. Behind a death the last snapshot is loaded, the log
    folded in silence up to the last commit, and live from there.
    """
    found: list[Bill] = []
    state, changes = step.new(TOPIC, 0), step.changes()
    snapshot, committed, place = (step.dump(state), 0), 0, 0
    for size, act in [*plan, (len(records), 1)]:
        batch = records[place : place + size]
        step.fold(state, batch, changes)
        place += len(batch)
        if act in (1, 2):
            found += emitted_rows(step.rows(state, changes, a_commit()))
            changes, committed = step.changes(), place
        if act == 2:
            position = records[place - 1].offset + 1 if place else 0
            snapshot = step.dump(state), step.replay_from(state, position)
        if act == 3:
            state, changes = step.load(TOPIC, 0, snapshot[0]), step.changes()
            silent = [record for record in records[:committed] if record.offset >= snapshot[1]]
            step.fold(state, silent, step.changes())
            place = committed
    return found


@given(st.lists(ENTRY, max_size=14), st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3)), max_size=8), LIMITS)
@settings(max_examples=25)
def test_no_cut_and_no_crash_changes_the_last_row_of_a_bill(
    entries: list[tuple[int, int, list[Any]]], plan: list[tuple[int, int]], limits: BufferLimits
) -> None:
    """Also not at the limits, with rows that come late; and of a version there is one row, whoever told it."""
    step, records = a_step(limits), a_log(entries)
    once = told_at_once(step, records)

    told = disturbed(step, records, plan)

    assert newest(told) == newest(once)
    rows = {repr(sorted(row.items())) for row in once}
    assert {repr(sorted(row.items())) for row in told} == rows
    for row in once:
        assert added(part[7] for part in row["parts"]) == row["total_nusd"]


@given(st.lists(ENTRY, min_size=2, max_size=10), st.integers(0, 9), st.integers(1, 9))
@settings(max_examples=12)
def test_a_poisoned_record_stays_out_however_often_it_is_read(
    entries: list[tuple[int, int, list[Any]]], poisoned: int, cut: int
) -> None:
    """Rejected once, it is passed over by whoever folds from before it; everything else counts."""
    step, records = a_step(QUICK), a_log(entries)
    poisoned %= len(records)
    state, changes = step.new(TOPIC, 0), step.changes()
    step.fold(state, records[:poisoned], changes)
    step.reject(state, records[poisoned], "why", changes)
    stop = min(len(records), poisoned + 1 + cut)
    step.fold(state, records[poisoned + 1 : stop], changes)
    position = records[stop - 1].offset + 1
    again = step.load(TOPIC, 0, step.dump(state))
    begin = step.replay_from(state, position)
    step.fold(again, [record for record in records[:stop] if record.offset >= begin], step.changes())

    assert changes.gaps >= 1
    assert step.dump(again) == step.dump(state)
    rest = [step.changes(), step.changes()]
    for one, more in zip((state, again), rest, strict=True):
        step.fold(one, records[stop:], more)
    kept, replayed = (emitted_rows(step.rows(state, more, a_commit())) for more in rest)
    assert replayed == kept


def test_minutes_that_may_have_lost_rows_are_not_billed_from_the_rest() -> None:
    """The log begins behind rows of the minute: its bill stays as it was emitted; the next one is whole again."""
    log = Log()
    for window in range(9):
        log.gpu(window, [a_gpu("g1")], through=window + 1)
        log.usage(window, [a_line("a")], through=window + 1)
    step = a_step(QUICK)
    state = step.new(TOPIC, 0)
    step.fold(state, log.records, step.changes())
    parts, begin = step.dump(state), log.records[-1].offset - 1
    for window in range(9, 26):
        log.gpu(window, [a_gpu("g1")], through=window + 1)
        log.usage(window, [a_line("a")], through=window + 1)

    for more in (0, 1):  # the second time by an owner that loaded what the first one dumped
        state = step.load(TOPIC, 0, parts)
        if not more:
            assert step.pass_over(state, begin)
            parts = step.dump(state)
            assert step.replay_from(state, begin) == begin
        changes = step.changes()
        step.fold(state, [record for record in log.records if record.offset >= begin], changes)
        minutes = sorted({bill["minute_ms"] for bill in emitted_rows(step.rows(state, changes, a_commit()))})
        assert minutes == [BASE_MS + 2 * 60_000, BASE_MS + 3 * 60_000]
        assert changes.late_rows > 0
