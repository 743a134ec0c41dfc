"""Bills that cannot be made cost no others: neither their minute's nor their group's."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from schemas.codec.block import Block
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
    add,
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
