"""The cost bench on a fleet of a few GPUs: what it counts, what its command says of it.

Covers lab.bench.cost and lab.bench.command_parts.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleetpulse.commands.progress import Progress
from lab.bench import command_parts, cost
from lab.bench.cost import COMMITS, GPU, Feed, Fleet
from schemas.codec import native
from schemas.codec.build import rows_of
from schemas.limits import MINUTE_MS, WINDOW_MS
from schemas.rows.usage import USAGE

SMALL = Fleet(gpus=16, engines=8, tenants=4, tenants_per_engine=2, partitions=2)
TABLES = {GPU.schema: GPU, USAGE.schema: USAGE}


def test_a_window_holds_every_gpu_once_a_commit_with_its_whole_time() -> None:
    """Of both source topics, spread over the partitions, offsets without a gap."""
    found = Feed(SMALL, 1).window(7)

    assert [[record.offset for record in records] for records in found] == [list(range(COMMITS * 2 * 2))] * 2
    rows: dict[str, list[dict[str, object]]] = {GPU.schema: [], USAGE.schema: []}
    for record in (one for records in found for one in records):
        table = TABLES[dict(record.headers)["schema"].decode()]
        rows[table.schema] += rows_of(table.fields, native.decode(record.value or b"", table.fields))
    assert sorted(str(row["gpu_uuid"]) for row in rows[GPU.schema]) == sorted(
        f"GPU-0000-{gpu}" for gpu in [*range(16)] * COMMITS
    )
    assert {row["window_ms"] for row in rows[GPU.schema]} == {SMALL.base_ms + 7 * WINDOW_MS}
    assert {row["interval_ms_sum"] for row in rows[GPU.schema]} == {WINDOW_MS // COMMITS}
    assert {row["tenant"] for row in rows[USAGE.schema]} == {f"tenant-{number}" for number in range(4)}


def test_the_same_seed_makes_the_same_records() -> None:
    """Another seed makes others."""
    made = [[one.value for records in Feed(SMALL, seed).window(0) for one in records] for seed in (1, 1, 2)]

    assert made[0] == made[1] != made[2]


def test_a_minute_is_billed_for_every_gpu_once_bills_are_final() -> None:
    """What the counted minutes took in and gave out."""
    found = cost.measure(replace(SMALL, partitions=1), 1, cost.WARM_MINUTES, 1, lambda _text: None)

    windows = MINUTE_MS // WINDOW_MS
    assert found["gpus"] == 16
    assert found["input_rows_per_minute"] > 16 * COMMITS * windows  # GPU rows, and usage rows beside them
    assert found["bills_per_minute"] >= 16
    assert found["times_real"] == pytest.approx(60 / (found["fold_s_per_minute"] + found["rows_s_per_minute"]))
    assert found["snapshot_bytes"] > 0


@pytest.mark.parametrize(("times_real", "beyond"), [(19.9, ["20 times real time"]), (20.0, [])])
def test_a_cost_job_below_its_bound_ends_the_command(
    times_real: float, beyond: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the bound is within."""
    numbers = dict.fromkeys(
        ("fold_s_per_minute", "rows_s_per_minute", "snapshot_s", "input_rows_per_minute", "bills_per_minute",
         "output_bytes_per_minute", "snapshot_bytes", "memory_peak_bytes"), 1
    )  # fmt: skip
    asked: list[Fleet] = []

    def measure(fleet: Fleet, *_: object) -> dict[str, object]:
        asked.append(fleet)
        return {**numbers, "times_real": times_real}

    monkeypatch.setattr(cost, "measure", measure)

    found = command_parts.cost(Progress(), 1, gpus=16, engines=8, tenants=4)

    assert found.wrong == {command_parts.BEYOND: beyond}
    assert found.tables[0][2][0] == ("times real time, one core", f"{times_real:.1f}", ">= 20")  # type: ignore[index]
    assert asked == [Fleet(16, 8, 4, 4)]
