"""Bills that cannot be made cost no others: neither their minute's nor their group's."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.codec.block import Block
from schemas.events.event_fields import AMOUNT_MAX
from schemas.limits import DEFAULT_LIMITS, MINUTE_MS
from stream_jobs.costs.account import Prices, cost_block
from stream_jobs.costs.isolation import made
from stream_jobs.costs.minute_buffer import BufferLimits, EmittedMinute, MinuteBuffer
from stream_jobs.costs.step import CostStep
from stream_jobs.step import Commit
from tests.unit.stream_jobs.costs.cases import (
    BASE_MS,
    SOURCES,
    Bill,
    Log,
    a_gpu,
    a_line,
    a_share,
    add,
    added,
    bills_of,
    emitted_rows,
    gpu_row,
    price_of,
)
from tests.unit.stream_jobs.stat_values import values_of

GROUPS, MINUTES = 5, 3


def emitted(bad: Sequence[tuple[int, int]]) -> list[EmittedMinute]:
    """A GPU for each group and minute; the bad ones are of a type whose price raises."""
    buffer = MinuteBuffer(BufferLimits())
    for minute in range(MINUTES):
        for group in range(GROUPS):
            row = gpu_row(f"e{group}", f"g{group}", model="bad" if (group, minute) in bad else "H100")
            assert add(buffer, minute, row, f"group-{group}", minute * MINUTE_MS)
    return buffer.pass_to(MINUTES * MINUTE_MS)


def priced(gpu_model: str | None, region: str | None, minute_ms: int) -> Prices:
    if gpu_model == "bad":
        raise ValueError("no bill")
    return price_of(gpu_model, region, minute_ms)


def priced_block(minutes: Sequence[EmittedMinute]) -> Block | None:
    return cost_block(minutes, priced, "p1")


def rows(blocks: Sequence[Block]) -> list[Bill]:
    return [row for block in blocks for row in bills_of(block)]


@pytest.mark.parametrize("bad", [[], [(2, 1)], [(0, 0), (4, 2)], [(group, 1) for group in range(GROUPS)]])
def test_all_bills_but_those_that_raise_are_made(bad: list[tuple[int, int]]) -> None:
    """As they would be without the others, in their order; each that is not made is named once."""
    blocks, failed = made(emitted(bad), priced_block)

    every = rows([block for block in (priced_block(emitted(())),) if block is not None])
    lost = {(f"group-{group}", minute * MINUTE_MS) for group, minute in bad}
    assert [(one.group, one.minute_ms) for one in failed] == sorted(lost, key=lambda one: (one[1], one[0]))
    assert {one.cause for one in failed} <= {"ValueError: no bill"}
    assert rows(blocks) == [row for row in every if (row["placement_group"], row["minute_ms"]) not in lost]


def test_memory_that_is_out_is_no_defect_of_a_bill() -> None:
    """A restart mends it."""

    def make(minutes: Sequence[EmittedMinute]) -> Block | None:
        raise MemoryError

    with pytest.raises(MemoryError):
        made(emitted(()), make)


def test_the_step_emits_the_others_and_says_which_are_not(caplog: pytest.LogCaptureFixture) -> None:
    """Counted and logged by group and minute."""
    step, log = CostStep(DEFAULT_LIMITS, SOURCES, priced, "p1"), Log()
    for window in range(7):
        log.gpu(window, [a_gpu("g1", gpu_model="bad"), a_gpu("g2", "f", "h")], through=window + 1)
        log.usage(window, through=window + 1)
    state, changes = step.new("window.partials", 0), step.changes()
    step.fold(state, log.records, changes)

    found = emitted_rows(step.rows(state, changes, Commit("window.partials", 0, 0, 1, 0, BASE_MS, idle=False)))

    assert [row["placement_group"] for row in found] == ["h"]
    stats = values_of(step.stats(state, changes))
    assert (stats["cost_bills", 0], stats["cost_bills_failed", 0]) == (1, 1)
    (line,) = caplog.records
    facts = {"group": "g", "minute_ms": BASE_MS, "error": "ValueError: no bill"}
    assert {name: vars(line)[name] for name in facts} == facts


def test_bills_that_failed_are_not_counted_as_final() -> None:
    """A final bill is one that was made."""
    step, log = CostStep(DEFAULT_LIMITS, SOURCES, priced, "p1", buffer_limits=BufferLimits(settle_ms=0)), Log()
    for window in range(7):
        log.gpu(window, [a_gpu("g1", gpu_model="bad"), a_gpu("g2", "f", "h")], through=window + 1)
        log.usage(window, through=window + 1)
    state, changes = step.new("window.partials", 0), step.changes()
    step.fold(state, log.records, changes)

    step.rows(state, changes, Commit("window.partials", 0, 0, 1, 0, BASE_MS, idle=False))

    stats = values_of(step.stats(state, changes))
    assert (stats["cost_bills_failed", 0], stats["cost_final_bills", 0]) == (1, 1)


AMOUNT = st.sampled_from([None, 0, 1, 60_000, AMOUNT_MAX, 2**60, 2**63 - 1])
TIME_MS = st.sampled_from([None, 0, 1, 10_000, 3_600_000 * 2**19])
"""Up to half a million readings of an hour each."""
LABEL = st.sampled_from([None, "", "0", "a", "__other__", "\x00", "\u0663g", "x" * 256])
NAME = st.sampled_from([None, "a", "\x00"])
PROFILE = LABEL | st.sampled_from(
    ["1g.10gb", "7g.80gb", "1c.3g.40gb", "0g", "-1g", "8g", f"{10**18}g", "9" * 255 + "g"]
)
GPU = st.builds(
    a_gpu,
    NAME,
    NAME,
    NAME,
    TIME_MS,
    energy_mj_sum=AMOUNT,
    parent_uuid=NAME,
    mig_profile=PROFILE,
    gpu_model=LABEL | st.sampled_from(["H100", "A30"]),
    region=LABEL,
    host=LABEL,
    workload=st.sampled_from(["training", "startup", None]),
)
SHARE = st.builds(
    a_share,
    NAME,
    NAME,
    NAME,
    AMOUNT,
    readings=AMOUNT.map(lambda one: one or 0),
    sm_util_pct=AMOUNT,
    sm_readings=AMOUNT.map(lambda one: one or 0),
)
LINE = st.builds(
    a_line, LABEL, LABEL, LABEL, **dict.fromkeys(("prefill_tokens", "cached_tokens", "decode_tokens"), AMOUNT),
    kv_token_ms=AMOUNT, model=LABEL, slo_class=LABEL, status=LABEL,
)  # fmt: skip


@settings(max_examples=25)
@given(st.lists(GPU, max_size=4), st.lists(SHARE, max_size=4), st.lists(LINE, max_size=4))
def test_nothing_that_producers_send_makes_a_bill_raise(
    gpus: list[Bill], shares: list[Bill], lines: list[Bill]
) -> None:
    """Sums of the greatest amounts, labels of any kind: every group has its bills, and a snapshot is read again."""
    step, log = CostStep(DEFAULT_LIMITS, {**SOURCES, "gpu.processes": 1}, price_of, "p1"), Log()
    for window in range(6):
        log.gpu(window, gpus, through=window + 1)
        log.shares(window, shares, through=window + 1)
        log.usage(window, lines, through=window + 1)
    state, changes = step.new("window.partials", 0), step.changes()
    step.fold(state, log.records, changes)

    found = emitted_rows(step.rows(state, changes, Commit("window.partials", 0, 0, 1, 0, BASE_MS, idle=False)))

    assert changes.failed == 0
    assert bool(found) == bool(gpus or lines)
    for row in found:
        assert added(part[7] for part in row["parts"]) == row["total_nusd"]
    parts = step.dump(state)
    assert step.dump(step.load("window.partials", 0, parts)) == parts
