"""A defect that a restart makes up for is a violation all the same: in what a worker runs, in a callback, in a task."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence

import pytest

from schemas.contract.record import Record
from schemas.errors import UnavailableError
from stream_jobs.runner.exactly_once import PartitionOwner
from stream_jobs.runner.partitions import Partitions
from tests.simulator.cluster import Parts
from tests.simulator.schedule import Rules, run_schedule


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def fail() -> None:
    raise TypeError("a race")


async def fail_alone() -> None:
    fail()


def unavailable() -> None:
    raise UnavailableError("away")


def outcome_with(begin: Callable[[], object]) -> Sequence[str]:
    """Violations of a schedule in which the first feed of all does this."""
    left = [begin]

    class Owner(PartitionOwner):
        async def feed(self, records: Sequence[Record]) -> None:
            if left:
                left.pop()()
            await super().feed(records)

    kind = type("Mutated", (Partitions,), {"Owner": Owner})
    return run_schedule(3, Rules(parts=Parts(partitions=kind))).violations


@pytest.mark.parametrize(
    "begin",
    [
        fail,
        lambda: asyncio.get_running_loop().call_soon(fail),
        lambda: asyncio.get_running_loop().create_task(fail_alone()),
    ],
    ids=["the worker", "a callback", "a task"],
)
def test_an_error_that_no_trouble_raises_is_a_violation(begin: Callable[[], object]) -> None:
    """Every sum is right in the end: the worker was started again, or went on."""
    assert outcome_with(begin) == ["a process raised TypeError: a race"]


def test_an_error_that_trouble_raises_is_none() -> None:
    """A worker ends by it, and the next one goes on."""
    assert outcome_with(unavailable) == []
