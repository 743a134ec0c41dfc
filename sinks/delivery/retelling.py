"""One round of telling a target again what is open: in batches, and around alerts that the target does not take.

A batch that is refused is halved until the alert is found that is the reason; all others are told. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from sinks.delivery.backlog import Transition
from sinks.delivery.schedule import Answer, Verdict

BATCH_MAX = 100
"""Alerts in one request."""
FAILED_MAX = 100
"""Requests of a round that may fail; then the rest waits for the next round."""
_FAILED_ALL_MAX = 16
"""The same while not one was taken and the target says no more than that it failed: then it fails by itself."""


class Retelling:
    """Ask ``next`` for a batch and say what came of it, until None."""

    def __init__(self, transitions: Sequence[Transition], batch_max: int = BATCH_MAX) -> None:
        self._left = deque(tuple(transitions[at : at + batch_max]) for at in range(0, len(transitions), batch_max))
        self._odd: list[tuple[Transition, Answer]] = []
        self._stopped: Answer | None = None
        self._told = 0
        self._failed = 0

    def next(self) -> tuple[Transition, ...] | None:
        """What is to be posted; None at the end of the round."""
        return self._left[0] if self._left else None

    def answered(self, answer: Answer) -> None:
        """What the target said to that."""
        batch = self._left.popleft()
        if answer.verdict is Verdict.DELIVERED:
            self._told += len(batch)
            return
        self._failed += 1
        if answer.targets_own or self._failed >= self._most(answer):
            self._stopped = answer
            self._left.clear()
        elif len(batch) == 1:
            self._odd.append((batch[0], answer))
        else:
            half = len(batch) // 2
            self._left.extendleft((batch[half:], batch[:half]))

    def _most(self, answer: Answer) -> int:
        return FAILED_MAX if self._told or answer.verdict is Verdict.REFUSED else _FAILED_ALL_MAX

    @property
    def outcome(self) -> Answer:
        """200 when everything was told but for ``culprits``, else why the round ended early or told nothing."""
        if self._stopped is not None:
            return self._stopped
        failed = [answer for _, answer in self._odd if answer.verdict is Verdict.AGAIN]
        return failed[0] if failed and not self._told else Answer(200)

    @property
    def culprits(self) -> list[tuple[Transition, Answer]]:
        """Alerts that alone were not taken. A failure of the target is put on an alert only if others were taken."""
        return [one for one in self._odd if self._told or one[1].verdict is Verdict.REFUSED]
