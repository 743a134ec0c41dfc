from __future__ import annotations

import pytest

from producers.engines.starts import SEEN_MAX, TURNS_MS, Starts


@pytest.mark.parametrize(
    ("starts", "turns"),
    [
        ([1.0, 1.0], False),
        ([1.0, 2.0, 2.0, 3.0], False),
        ([2.0, 1.0, 1.0], False),
        ([None, 1.0, None, 1.0], False),
        ([1.0, 2.0, 1.0], True),
        ([2.0, 1.0, 1.0, 2.0], True),
        ([1.0, 2.0, None, 3.0, 2.0, 2.0, None], True),
    ],
    ids=["one", "restarts", "the clock was set back", "untold", "two", "two, the newer first", "three"],
)
def test_processes_take_turns_where_one_comes_back(starts: list[float | None], turns: bool) -> None:
    """However they are ordered: a process that ended does not answer again."""
    seen = Starts()

    assert [seen.take_turns(start, at) for at, start in enumerate(starts)][-1] is turns


def test_one_that_answers_alone_for_long_is_an_engine_again() -> None:
    """Ten minutes after the last turn."""
    seen = Starts()
    turns = [seen.take_turns(start, 5) for start in (1.0, 2.0, 1.0)]

    assert [*turns, seen.take_turns(1.0, 4 + TURNS_MS), seen.take_turns(1.0, 5 + TURNS_MS)] == [
        *(False, False, True),
        *(True, False),
    ]


def test_only_so_many_are_remembered() -> None:
    """Restarts without end cost no memory."""
    seen = Starts()

    assert not any(seen.take_turns(float(start), 0) for start in (*range(SEEN_MAX + 1), 0))
