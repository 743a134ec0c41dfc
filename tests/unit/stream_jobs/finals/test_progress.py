"""The clock by which sources are idle, whatever the clocks of those who write. Windows are in test_step."""

from __future__ import annotations

import pytest

from stream_jobs.finals.progress import PAUSE_MS, Progress, sources_of
from stream_jobs.finals.upstream import UpstreamHeaders

SOURCES = sources_of({"llm.requests": 2})
(ONE, OTHER) = SOURCES
BEGAN_MS = 1_800_000_000_000
AHEAD_MS = 600_000
WAIT_MS = 30_000


def at(progress: Progress, source: tuple[str, int], written_ms: int) -> int:
    """The clock behind a record written at this time after the beginning."""
    head = UpstreamHeaders("llm_requests_partials/1", source, 0, 1, 1, 1, 1, BEGAN_MS + written_ms, None)
    progress.advance(head, BEGAN_MS + written_ms, WAIT_MS)
    return progress.clock_ms


@pytest.mark.parametrize("restarted", [False, True])
def test_the_clock_goes_on_when_a_writer_that_was_ahead_has_left(*, restarted: bool) -> None:
    """Behind the first record that somebody else writes for its sources, also from a dump."""
    progress = Progress.new(SOURCES)
    at(progress, ONE, 0)
    ahead = at(progress, OTHER, AHEAD_MS + 1_000)
    if restarted:
        progress = Progress.load(progress.dump(), progress.passed_ms, SOURCES)

    assert ahead == PAUSE_MS
    assert [at(progress, ONE, ms) for ms in (1_000, 2_000)] == [ahead, ahead]
    assert at(progress, OTHER, 3_000) == ahead
    assert [at(progress, ONE, ms) for ms in (4_000, 6_000)] == [ahead + 1_000, ahead + 3_000]


def test_writers_beside_one_that_is_ahead_do_not_hurry_the_clock() -> None:
    """It goes by the writer that is ahead, however records alternate."""
    progress = Progress.new(SOURCES)
    at(progress, ONE, 0)
    began = at(progress, OTHER, AHEAD_MS)
    for ms in range(1_000, 10_001, 1_000):
        at(progress, ONE, ms)
        at(progress, OTHER, AHEAD_MS + ms)

    assert progress.clock_ms == began + 10_000


def test_a_dump_of_before_is_read() -> None:
    """It says when the newest record was written, not of which source."""
    progress = Progress.new(SOURCES)
    at(progress, ONE, 0)
    before = progress.dump()
    del before["heard"]
    loaded = Progress.load(before, progress.passed_ms, SOURCES)

    assert [at(loaded, ONE, ms) for ms in (1_000, 2_000)] == [0, 1_000]
