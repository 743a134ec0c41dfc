"""The rules of usage rows, each with a way to switch it off in the real windows job; the simulator must notice."""

from __future__ import annotations

from typing import Any

from schemas.contract.record import Output
from stream_jobs.step import Commit
from stream_jobs.windows.usage import UsageRows
from tests.simulator.mutations import Mutation
from tests.simulator.schedule import Rules
from tests.simulator.windows_world import PoisonedWindowsStep, WindowsWorld


class _HeldBackStep(PoisonedWindowsStep):
    """Keeps usage in memory for one commit more; what was kept when a process ends is gone."""

    def __init__(self, *, lenient: bool) -> None:
        super().__init__(lenient=lenient)
        self._held: dict[int, list[UsageRows]] = {}

    def rows(self, state: Any, changes: Any, commit: Commit) -> list[Output]:
        changes.usage, self._held[state.partition] = self._held.get(state.partition, []), changes.usage
        return super().rows(state, changes, commit)


class _ResentStep(PoisonedWindowsStep):
    """Takes usage from all that a fold brings, as if nothing of it had been seen before."""

    def __init__(self, *, lenient: bool) -> None:
        super().__init__(lenient=lenient)
        self._taken: dict[int, tuple[Any, list[UsageRows]]] = {}

    def fold(self, state: Any, records: Any, changes: Any) -> None:
        super().fold(state, records, changes)
        unaware = self.changes()
        super().fold(self.new(state.topic, state.partition), records, unaware)
        _, taken = self._taken.setdefault(id(changes), (changes, []))
        taken += unaware.usage

    def rows(self, state: Any, changes: Any, commit: Commit) -> list[Output]:
        _, changes.usage = self._taken.get(id(changes), (changes, []))
        return super().rows(state, changes, commit)


def _world(step: type[PoisonedWindowsStep]) -> type[WindowsWorld]:
    return type("MutatedWorld", (WindowsWorld,), {"step": step})


MUTATIONS = (
    Mutation(
        "usage held back",
        "usage is sent with the commit of its events",
        "it is kept in memory until the next one",
        Rules(),
        world=_world(_HeldBackStep),
    ),
    Mutation(
        "usage of re-sends",
        "usage is taken from accepted events, each once",
        "it is taken from whatever a fold brings",
        Rules(),
        world=_world(_ResentStep),
    ),
)
