"""Processes of an evaluation end with it."""

from __future__ import annotations

import threading
from multiprocessing import active_children

import pytest

from lab.evaluate.shared_out import shared_out


def at_once_or_never(number: int) -> int:
    """Number 0 at once; any other never ends."""
    if number:
        threading.Event().wait()
    return number


def refused_or_never(number: int) -> int:
    if number:
        threading.Event().wait()
    raise ValueError("refused")


def interrupt(done: int, total: int) -> None:
    raise KeyboardInterrupt


def nobody(done: int, total: int) -> None:
    pass


def test_results_stand_as_asked() -> None:
    """In the order of the questions, told one by one."""
    told: list[tuple[int, int]] = []

    found = shared_out(abs, [-3, 1, -2], 1, lambda done, total: told.append((done, total)))

    assert found == [3, 1, 2]
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_an_interrupt_ends_what_runs_and_what_waits() -> None:
    """With work that never ends in one process and more of it queued: it comes back, and no process is left."""
    before = set(active_children())

    with pytest.raises(KeyboardInterrupt):
        shared_out(at_once_or_never, [0, 1, 2, 3], 1, interrupt)

    assert set(active_children()) == before


def test_an_error_ends_the_rest() -> None:
    """The first that fails: the others are not waited for."""
    before = set(active_children())

    with pytest.raises(ValueError, match="refused"):
        shared_out(refused_or_never, [0, 1, 2], 2, nobody)

    assert set(active_children()) == before
