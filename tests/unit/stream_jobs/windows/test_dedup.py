"""Re-sends: what the edge sends twice counts once, whatever the order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.contract.headers import Identity
from stream_jobs.windows import dedup as dedup_module
from stream_jobs.windows.dedup import Dedup, SourceSeen, join, split

HOUR_MS = 3_600_000
SOURCES = tuple(f"{n:032x}" for n in range(3))


def take(dedup: Dedup, boot: int, seq: int, low: tuple[int, int], at_ms: int = 0, source: str = SOURCES[0]) -> bool:
    return dedup.take(Identity(source, boot, seq, low), at_ms)


@st.composite
def edge_histories(draw: st.DrawFn) -> list[Identity]:
    """What a partition's log may hold of one edge: sends, re-sends of all not acknowledged, and delayed copies."""
    log: list[Identity] = []
    waiting: list[tuple[int, int]] = []
    boot, seq = 1, 0
    for _ in range(draw(st.integers(1, 40))):
        action = draw(st.sampled_from(("send", "send", "send", "acknowledge", "again", "restart", "zombie")))
        if action == "send":
            waiting.append((boot, seq))
            seq += draw(st.sampled_from((1, 1, 2)))
            log.append(Identity(SOURCES[0], *waiting[-1], min(waiting)))
        elif action == "acknowledge" and waiting:
            waiting.pop(draw(st.integers(0, len(waiting) - 1)))
        elif action == "again" and waiting:
            log += [Identity(SOURCES[0], *number, min(waiting)) for number in waiting]
        elif action == "restart":
            boot, seq = boot + 1, 0
        elif action == "zombie" and log:
            log.append(draw(st.sampled_from(log)))
    return log


@given(edge_histories())
@settings(max_examples=300, deadline=None)
def test_agrees_with_perfect_memory(log: list[Identity]) -> None:
    """A record is a duplicate exactly when its identity stood in the log before."""
    dedup, remembered = Dedup(48 * HOUR_MS), set()
    for identity in log:
        number = (identity.boot, identity.seq)

        assert dedup.take(identity, 0) == (number not in remembered)
        remembered.add(number)


@given(st.lists(st.integers(0, 30), max_size=60))
def test_ranges_hold_exactly_what_was_taken(numbers: list[int]) -> None:
    """Ranges are apart, rising and cover the numbers taken and no other."""
    seen, taken = SourceSeen(0, [], [], 0), set()
    for number in numbers:
        assert seen.take(number) == (number not in taken)
        taken.add(number)

    covered = [n for start, end in zip(seen.starts, seen.ends, strict=True) for n in range(start, end + 1)]
    assert covered == sorted(taken)
    assert all(start > end + 1 for start, end in zip(seen.starts[1:], seen.ends[:-1], strict=True))


def test_low_takes_the_place_of_ranges() -> None:
    """What lies below ``low`` counts as seen and is no longer held."""
    dedup = Dedup(HOUR_MS)
    for seq in (0, 2, 4, 6):
        take(dedup, 1, seq, (1, 0))
    take(dedup, 1, 8, (1, 6))
    (seen,) = [seen for _, seen in dedup.entries()]

    assert (seen.starts, seen.ends) == ([join(1, 6), join(1, 8)], [join(1, 6), join(1, 8)])
    assert [take(dedup, 1, seq, (1, 0)) for seq in (4, 5, 6, 7, 8)] == [False, False, False, True, False]


def test_sources_do_not_share_numbers() -> None:
    """The same boot and sequence of two sources are two records."""
    dedup = Dedup(HOUR_MS)

    assert [take(dedup, 1, 0, (1, 0), source=source) for source in (*SOURCES, SOURCES[0])] == [True, True, True, False]


@pytest.mark.parametrize(("silence_ms", "fresh"), [(HOUR_MS, False), (HOUR_MS + 1, True)])
def test_silent_sources_are_forgotten_after_the_expiry(silence_ms: int, fresh: bool) -> None:
    """A source is forgotten when the log's append time has moved on by more than the expiry, not before."""
    dedup = Dedup(HOUR_MS)
    take(dedup, 1, 0, (1, 0), 1_000)
    take(dedup, 1, 0, (1, 0), 1_000 + silence_ms, source=SOURCES[1])

    assert take(dedup, 1, 0, (1, 0), 1_000 + silence_ms) is fresh


def test_a_source_that_is_heard_stays() -> None:
    """Each record renews its source."""
    dedup = Dedup(HOUR_MS)
    for hour in range(5):
        take(dedup, 1, hour, (1, 0), hour * HOUR_MS)
        take(dedup, 1, hour, (1, hour), hour * HOUR_MS, source=SOURCES[1])

    assert not take(dedup, 1, 0, (1, 0), 4 * HOUR_MS)


def test_append_times_that_step_back_forget_nothing() -> None:
    """Only the greatest append time counts."""
    dedup = Dedup(HOUR_MS)
    take(dedup, 1, 0, (1, 0), 10 * HOUR_MS)
    take(dedup, 1, 1, (1, 0), 0)

    assert (dedup.appended_ms_max, take(dedup, 1, 0, (1, 0), 10 * HOUR_MS)) == (10 * HOUR_MS, False)


def test_too_many_ranges_drop_the_oldest_and_are_counted(monkeypatch: Any) -> None:
    """A source that never moves its low is held to a bound, in the open."""
    monkeypatch.setattr(dedup_module, "RANGES_MAX", 3)
    dedup = Dedup(HOUR_MS)
    for seq in range(0, 10, 2):
        take(dedup, 1, seq, (1, 0))
    (seen,) = [seen for _, seen in dedup.entries()]

    assert ([split(start) for start in seen.starts], dedup.forgotten) == ([(1, 4), (1, 6), (1, 8)], 2)


def test_too_many_sources_drop_the_most_silent_and_are_counted(monkeypatch: Any) -> None:
    """Beyond the bound the source silent for longest gives way."""
    monkeypatch.setattr(dedup_module, "SOURCES_MAX", 2)
    dedup = Dedup(HOUR_MS)
    for source in (*SOURCES[:2], SOURCES[0], SOURCES[2]):
        take(dedup, 1, 0, (1, 0), source=source)

    assert ([source for source, _ in dedup.entries()], dedup.forgotten) == ([SOURCES[0], SOURCES[2]], 1)


@given(st.integers(0, 10**18 - 1), st.integers(0, 10**18 - 1), st.integers(0, 10**18 - 1), st.integers(0, 10**18 - 1))
def test_numbers_sort_as_their_pairs(boot: int, seq: int, other_boot: int, other_seq: int) -> None:
    """One number stands for (boot, seq) and keeps the order."""
    assert split(join(boot, seq)) == (boot, seq)
    assert (join(boot, seq) < join(other_boot, other_seq)) == ((boot, seq) < (other_boot, other_seq))
