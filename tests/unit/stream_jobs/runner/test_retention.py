"""The windows job was away for longer than its log goes back; the finals job, which holds windows open, starts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from runtime.counters import Counters
from schemas.contract.record import Output, Record
from schemas.contract.topics import WINDOW_FINALS, WINDOW_PARTIALS
from schemas.errors import ContractError
from schemas.limits import HOUR_MS
from stream_jobs.runner.job import Names, Source
from stream_jobs.runner.policy import PROMPT_POLICY
from stream_jobs.runner.reset import Reset, Resetting
from tests.unit.stream_jobs.finals.cases import (
    REQUESTS,
    SAMPLES,
    WINDOW_MS,
    Upstream,
    a_step,
    headers_of,
    heads,
    sample_rows,
)
from tests.unit.stream_jobs.runner.memory_broker import Scene
from tests.unit.stream_jobs.windows.cases import BASE_MS

HELD_MS = BASE_MS + 2 * WINDOW_MS
NEXT_MS = HELD_MS + WINDOW_MS


def a_scene() -> Scene:
    return Scene(a_step(), WINDOW_PARTIALS, gapless=False)


async def _feed(scene: Scene, owner: Any, records: list[Record]) -> None:
    await owner.feed([scene.log.add(record) for record in records])


async def _until_away(scene: Scene, upstream: Upstream, idle_s: int = 60, *, untold: bool = False) -> None:
    """A window is told, the next but one is open with rows in it when the windows job goes away. ``untold``: then more
    rows came, with which nothing was told."""
    owner = await scene.owner()
    await _feed(scene, owner, [*upstream.commit(SAMPLES, BASE_MS, sample_rows()), *upstream.commit(REQUESTS, BASE_MS)])
    await scene.pass_by(owner, 2)
    more = upstream.commit(SAMPLES, BASE_MS + WINDOW_MS, sample_rows(HELD_MS))
    await _feed(scene, owner, [*more, *upstream.commit(REQUESTS, BASE_MS + WINDOW_MS)])
    await scene.pass_by(owner, idle_s)
    if untold:
        await _feed(scene, owner, upstream.commit(SAMPLES, BASE_MS + WINDOW_MS, sample_rows(HELD_MS)))
        await scene.pass_by(owner, idle_s)
    await owner.stop()


def _told(scene: Scene) -> list[tuple[int, int, bool, int]]:
    """Heads of all records with rows."""
    records = scene.memory.log(WINDOW_FINALS).records
    outputs = [Output(one.topic, one.partition, one.key, one.value, one.headers) for one in records]
    return heads(one for one in outputs if headers_of(one).rows)


def _retention(scene: Scene, begin: int) -> None:
    scene.log.begin, scene.log.records = begin, [one for one in scene.log.records if one.offset >= begin]


async def _back(scene: Scene, upstream: Upstream, window_ms: int) -> tuple[int, list[tuple[int, int, bool, int]]]:
    """Another owner; the windows job is back with rows of a window, and passes it."""
    before = len(_told(scene))
    owner = await scene.owner()
    position = owner.position
    rows = upstream.commit(SAMPLES, window_ms + WINDOW_MS, sample_rows(window_ms))
    await _feed(scene, owner, [*rows, *upstream.commit(REQUESTS, window_ms + WINDOW_MS)])
    await scene.pass_by(owner, 5)
    return position, _told(scene)[before:]


@pytest.mark.parametrize("begin", [2, 3, 4], ids=["of one record more", "of some", "of all"])
def test_the_job_starts_again_without_what_retention_took(begin: int) -> None:
    """Of windows that may have had rows there nothing is told, for it would be a part of them."""
    scene, upstream = a_scene(), Upstream()
    asyncio.run(_until_away(scene, upstream))
    told = _told(scene)
    _retention(scene, begin)

    position, more = asyncio.run(_back(scene, upstream, HELD_MS))

    assert [window_ms for window_ms, *_ in told] == [BASE_MS]
    assert position == 4
    assert more == []


def test_the_next_window_is_told_as_ever() -> None:
    """It is whole: no row of it can have been lost."""
    scene, upstream = a_scene(), Upstream()
    asyncio.run(_until_away(scene, upstream))
    _retention(scene, 4)

    _, more = asyncio.run(_back(scene, upstream, NEXT_MS))

    assert [(window_ms, revision) for window_ms, revision, *_ in more] == [(NEXT_MS, 4)]


def test_what_was_committed_after_the_snapshot_is_left_out_with_a_margin() -> None:
    """Killed before it was idle, its snapshot does not say which windows had rows last."""
    scene, upstream = a_scene(), Upstream()
    asyncio.run(_until_away(scene, upstream, idle_s=3, untold=True))
    _retention(scene, 5)

    _, early = asyncio.run(_back(scene, upstream, NEXT_MS))
    _, later = asyncio.run(_back(scene, upstream, NEXT_MS + HOUR_MS))

    assert early == []
    assert [window_ms for window_ms, *_ in later] == [NEXT_MS + HOUR_MS]


def test_nothing_is_passed_over_that_nobody_has_read() -> None:
    """A log that begins beyond what was committed lost records for good: that stops the job."""
    scene, upstream = a_scene(), Upstream()
    asyncio.run(_until_away(scene, upstream))
    scene.log.end = scene.log.begin = 9
    scene.log.records = []

    with pytest.raises(
        ContractError, match="needs it from 0, and 4 was committed: retention deleted records too early"
    ):
        asyncio.run(scene.owner())


def test_who_is_killed_soon_after_starts_again() -> None:
    """What was passed over stays so, though the snapshot in the log is still the old one; one is made when idle."""
    scene, upstream = a_scene(), Upstream()
    asyncio.run(_until_away(scene, upstream))
    _retention(scene, 4)

    first, _ = asyncio.run(_back(scene, upstream, HELD_MS))
    second, more = asyncio.run(_back(scene, upstream, NEXT_MS))

    assert (first, second) == (4, 6)
    assert [window_ms for window_ms, *_ in more] == [NEXT_MS]


def test_a_reset_beyond_lost_rows_emits_no_window_that_may_have_had_some() -> None:
    """The finals job goes on behind a hole: windows of the next hour are left to the tables, later ones are emitted."""
    found: list[list[int]] = []
    for later_ms in (NEXT_MS, NEXT_MS + HOUR_MS + WINDOW_MS):
        scene, upstream = a_scene(), Upstream()
        asyncio.run(_until_away(scene, upstream))
        scene.log.end = scene.log.begin = 9
        scene.log.records = []
        source, names = Source(WINDOW_PARTIALS, 0, gapless=False), Names("d", scene.step.name)

        async def reset(scene: Scene = scene, source: Source = source, names: Names = names) -> Reset:
            owner = Resetting(scene.step, source, scene.memory, names, PROMPT_POLICY, scene.clock, Counters())
            plan = await owner.plan("earliest")
            await owner.carry_out(plan, lambda reset, commit: [])
            return plan

        done = asyncio.run(reset())
        position, more = asyncio.run(_back(scene, upstream, later_ms))

        assert (done.cause, done.missing, position) == ("log_cut", (4, 9), 9)
        found.append([window_ms for window_ms, *_ in more])

    assert found == [[], [NEXT_MS + HOUR_MS + WINDOW_MS]]
