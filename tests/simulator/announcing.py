"""The rules by which watermarks are announced, each with a way to switch it off; the simulator must notice."""

from __future__ import annotations

from typing import Any
from unittest import mock

from schemas.contract.record import Output
from stream_jobs.step import Commit
from stream_jobs.windows import messages
from stream_jobs.windows.changes import LastSent
from stream_jobs.windows.messages import passes_another_window
from tests.simulator.finals_world import FinalsEdge, FinalsWorld
from tests.simulator.mutations import Mutation
from tests.simulator.schedule import Rules
from tests.simulator.windows_world import PoisonedWindowsStep, WindowsWorld


class _RowsAloneStep(PoisonedWindowsStep):
    """Sends nothing where there are no rows."""

    def rows(self, state: Any, changes: Any, commit: Commit) -> list[Output]:
        with mock.patch.object(messages, "passes_another_window", return_value=False):
            return super().rows(state, changes, commit)


class _OnceForAllStep(PoisonedWindowsStep):
    """Takes what was announced in one partition for announced in all."""

    def rows(self, state: Any, changes: Any, commit: Commit) -> list[Output]:
        def passes(watermark_ms: int, last: LastSent | None) -> bool:
            greatest = max(state.last_sent.values(), key=lambda one: one.watermark_ms, default=None)
            return passes_another_window(watermark_ms, greatest)

        with mock.patch.object(messages, "passes_another_window", passes):
            return super().rows(state, changes, commit)


class _RemembersStep(PoisonedWindowsStep):
    """Remembers what was sent beyond the owner, as a snapshot would that is taken before the commit is certain."""

    def __init__(self, *, lenient: bool) -> None:
        super().__init__(lenient=lenient)
        self._last_sent: dict[int, dict[int, LastSent]] = {}

    def rows(self, state: Any, changes: Any, commit: Commit) -> list[Output]:
        state.last_sent = self._last_sent.setdefault(state.partition, {})
        return super().rows(state, changes, commit)


class _SilentEdge(FinalsEdge):
    def is_news(self, partition: int, watermark_ms: int) -> bool:
        return False


def _windows_world(step: type[PoisonedWindowsStep]) -> type[WindowsWorld]:
    return type("MutatedWorld", (WindowsWorld,), {"step": step})


class _SilentWorld(FinalsWorld):
    edge_class = _SilentEdge


MUTATIONS = (
    Mutation(
        "watermarks with rows alone",
        "a watermark that passes another window goes to every partition of partials",
        "it goes to those for which the commit has rows",
        Rules(),
        world=_windows_world(_RowsAloneStep),
    ),
    Mutation(
        "announced once for all",
        "what was announced is remembered for each partition of partials",
        "what one of them has heard counts as heard by all",
        Rules(),
        world=_windows_world(_OnceForAllStep),
    ),
    Mutation(
        "announcements outlive their owner",
        "what an owner has sent is forgotten with it",
        "its successor takes it for sent, though the commit may have failed",
        Rules(),
        world=_windows_world(_RemembersStep),
    ),
    Mutation(
        "finals without announcements",
        "finals of a log that leaves out what says nothing new are those of a log of everything",
        "every record without rows is left out",
        Rules(),
        world=_SilentWorld,
    ),
)
