"""An owner that waits shorter or longer for idle sources than the one before takes over: every window is sent once."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from runtime.counters import Counters
from schemas.contract.record import Output, Record
from schemas.contract.topics import WINDOW_FINALS, WINDOW_PARTIALS
from schemas.limits import DEFAULT_LIMITS, WINDOW_MS
from stream_jobs.finals.step import FinalsStep
from stream_jobs.runner.job import Names, Source
from stream_jobs.runner.policy import PROMPT_POLICY
from stream_jobs.runner.reset import Resetting
from tests.unit.stream_jobs.finals.cases import (
    REQUESTS,
    SAMPLES,
    Upstream,
    a_step,
    request_rows,
    rows_told,
    sample_rows,
)
from tests.unit.stream_jobs.runner.memory_broker import Scene
from tests.unit.stream_jobs.windows.cases import BASE_MS

LONG_MS, SHORT_MS = 600_000, 20_000
WINDOWS = 12


def waiting(wait_ms: int) -> FinalsStep:
    """A step that waits so long for idle sources."""
    return a_step(dataclasses.replace(DEFAULT_LIMITS, final_wait_ms=wait_ms))


def one_idle_source(windows: int) -> list[Record]:
    """Both sources have rows of the first window; from then on only the GPU samples go on."""
    upstream = Upstream()
    upstream.commit(REQUESTS, BASE_MS, request_rows(BASE_MS))
    for number in range(windows):
        at_ms = BASE_MS + number * WINDOW_MS
        upstream.commit(SAMPLES, at_ms, sample_rows(at_ms))
    return upstream.log


def told(scene: Scene) -> list[Output]:
    records = scene.memory.log(WINDOW_FINALS).records
    return [Output(one.topic, 0, None, one.value or b"", one.headers) for one in records]


def windows_told(scene: Scene) -> list[int]:
    return [(row["window_ms"] - BASE_MS) // WINDOW_MS for row in gpus(scene)]


def gpus(scene: Scene) -> list[dict[str, Any]]:
    return [row for row in rows_told(told(scene), "gpu_samples_finals/1") if row["grouping"] == "gpu"]


@pytest.mark.parametrize("whole", [False, True], ids=["committed behind the snapshot", "committed with a snapshot"])
@pytest.mark.parametrize("waits_ms", [(LONG_MS, SHORT_MS), (SHORT_MS, LONG_MS)], ids=["then shorter", "then longer"])
async def test_every_window_is_sent_once(waits_ms: tuple[int, int], whole: bool) -> None:
    """What the owner before had not sent is sent, though its records were committed; what it had sent is not."""
    before, then = map(waiting, waits_ms)
    scene = Scene(before, WINDOW_PARTIALS, gapless=False)
    records = one_idle_source(WINDOWS)
    owner = await scene.owner()
    for record in records[:-2]:
        await owner.feed([scene.log.add(record._replace(partition=0))])
        await owner._commit(scene.clock.now_ms(), whole=whole)
    await owner.stop()

    owner = await scene.owner(then)
    for record in records[-2:]:
        await owner.feed([scene.log.add(record._replace(partition=0))])
        await owner.commit()

    closed = WINDOWS - 1 - SHORT_MS // WINDOW_MS
    assert windows_told(scene) == list(range(closed if waits_ms[1] == SHORT_MS else closed - 2))


@pytest.mark.parametrize("reset_ms", [SHORT_MS, LONG_MS], ids=["shorter", "longer"])
async def test_a_reset_by_one_that_waits_otherwise_leaves_out_no_window(reset_ms: int) -> None:
    """What was committed and not sent is folded again without sending anything: by less waiting windows would pass."""
    scene = Scene(waiting(LONG_MS), WINDOW_PARTIALS, gapless=False)
    records = one_idle_source(WINDOWS)
    owner = await scene.owner()
    for record in records[:-2]:
        await owner.feed([scene.log.add(record._replace(partition=0))])
        await owner._commit(scene.clock.now_ms())
    await owner.stop()

    source, names = Source(WINDOW_PARTIALS, 0, gapless=False), Names("d", "finals")
    reset = Resetting(waiting(reset_ms), source, scene.memory, names, PROMPT_POLICY, scene.clock, Counters())
    await reset.carry_out(await reset.plan("earliest"), lambda done, commit: [])
    owner = await scene.owner(waiting(SHORT_MS))
    for record in records[-2:]:
        await owner.feed([scene.log.add(record._replace(partition=0))])
        await owner.commit()

    assert windows_told(scene) == list(range(WINDOWS - 1 - SHORT_MS // WINDOW_MS))


async def test_a_snapshot_stays_one_that_0_1_0_reads() -> None:
    """Whose keys end in one of two slots, however many follow one another."""
    scene = Scene(waiting(SHORT_MS), WINDOW_PARTIALS, gapless=False)
    owner = await scene.owner()
    for record in one_idle_source(WINDOWS):
        await owner.feed([scene.log.add(record._replace(partition=0))])
        await owner.commit()

    keys = [one.key for one in scene.memory.log(f"state.finals.{WINDOW_PARTIALS}").records]
    assert len(keys) > 3
    assert set(keys) == {b"d/0/0", b"d/1/0"}
