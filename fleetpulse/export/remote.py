"""Sends windows by remote write as they settle, and remembers how far it came.

Windows are read once, ``settle_ms`` after their end, a minute of them a round: what a round holds is bounded, however
long the export was away. A request is of one window, and they go in order: a receiver takes the samples of a series in
their order alone, and a request as a whole, so that one sample which is too old takes none of another window along.
What the receiver did not take is sent again as it is, and newer windows after it. The position
is kept on disk once all of a round was taken, and never lies beyond the windows that were seen: whatever the clock was,
what comes later is sent. 5xx, 429, a receiver that is unavailable, and one that does not let us in or is
elsewhere (401, 403, 404, 3xx) are tried again for ever, with back-off; samples that it rejects are counted and left.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from fleetpulse.export.series import COLUMNS, WINDOW_MS, Collected
from fleetpulse.export.wire import bodies
from runtime.counters import COUNTERS, Counters
from runtime.remote_write_config import RemoteWriteConfig
from schemas.errors import UnavailableError

_log = logging.getLogger(__name__)

ROUND_MS = 60_000
"""So much time of windows a round sends."""
_NOT_OF_SAMPLES = frozenset({401, 403, 404, 405, 407, 408, 429})
"""Statuses that say who may write, where and when, and nothing of what was written."""


class Unavailable(UnavailableError):
    """The receiver did not take a request and may take it later."""


Rows = tuple[Sequence[str], Sequence[Sequence[object]]]


class Ask(Protocol):
    """The windows ``[from_ms, to_ms)`` of a query. Raises ``UnavailableError``."""

    def __call__(self, query: str, from_ms: int, to_ms: int) -> Rows:
        """Names of columns, and rows."""
        ...

    def first_ms(self, query: str, from_ms: int, to_ms: int) -> int | None:
        """Where the first window begins of which there is a row."""
        ...


class Post(Protocol):
    def __call__(self, body: bytes) -> tuple[int, str]:
        """The receiver's status and the begin of its answer. Raises OSError when there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Sent:
    """What one round did: windows ``[from_ms, to_ms)``; samples by outcome."""

    from_ms: int
    to_ms: int
    sent: int = 0
    rejected: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class _Batch:
    """Windows ``[from_ms, to_ms)`` on their way: requests not taken yet with the samples in each, and how many went by
    outcome. ``seen_ms``: where the newest of them ends of which there was a row; None where there was none."""

    from_ms: int
    to_ms: int
    seen_ms: int | None
    waiting: deque[tuple[bytes, int]]
    done: dict[str, int]


class RemoteWrite:
    """Sends what has settled since the last round, ``ROUND_MS`` of it at most."""

    def __init__(
        self, config: RemoteWriteConfig, ask: Ask, post: Post, position: Path, counters: Counters = COUNTERS
    ) -> None:
        self._config = config
        self._ask = ask
        self._post = post
        self._position = position
        self._counters = counters
        self._batch: _Batch | None = None
        """What the round before could not finish."""
        self._asked_to_ms = 0
        """Where the last round ended: up to there nothing was skipped."""
        self.ahead: str | None = None
        """That the position was ahead of the clock when the last windows were collected; None where it was not."""
        self.behind = False
        """Whether more had settled when the last windows were collected: the next round need not wait."""

    def round(self, now_ms: int) -> Sent:
        """Send what is left of the round before, else the oldest windows that have settled. Raises ``Unavailable``, and
        what asking raises: the next round goes on there."""
        batch = self._batch
        if batch is None:
            to_ms = (now_ms - self._config.settle_ms) // WINDOW_MS * WINDOW_MS
            from_ms = self._begin(to_ms)
            self.behind = False
            if from_ms >= to_ms:
                return Sent(from_ms, from_ms)
            self._batch = batch = self._oldest(from_ms, to_ms)
            self.behind = batch.to_ms < to_ms
        while batch.waiting:
            body, samples = batch.waiting[0]
            batch.done[self._deliver(body)] += samples
            batch.waiting.popleft()
        if batch.seen_ms is not None:
            self._counters.set("export_window_ms", batch.seen_ms)
        kept_ms = batch.from_ms if batch.seen_ms is None and self.ahead else batch.seen_ms
        if kept_ms is not None:
            self._keep(kept_ms)
        self._batch, self._asked_to_ms = None, batch.to_ms
        for outcome, samples in batch.done.items():
            self._counters.add("export_samples", samples, outcome=outcome)
        return Sent(batch.from_ms, batch.to_ms, **batch.done)

    def _oldest(self, from_ms: int, to_ms: int) -> _Batch:
        """What is sent first of ``[from_ms, to_ms)``; where there is nothing for a while, what comes after it."""
        batch = self._collect(from_ms, min(from_ms + ROUND_MS, to_ms))
        if batch.seen_ms is not None or batch.to_ms == to_ms:
            return batch
        begins = [self._ask.first_ms(query, from_ms, to_ms) for query in COLUMNS]
        begin_ms = min((at_ms for at_ms in begins if at_ms is not None), default=None)
        if begin_ms is None:
            return replace(batch, to_ms=to_ms)
        return self._collect(begin_ms, min(begin_ms + ROUND_MS, to_ms))

    def _collect(self, from_ms: int, to_ms: int) -> _Batch:
        collected = Collected(self._config.series_max)
        for query in COLUMNS:
            names, rows = self._ask(query, from_ms, to_ms)
            collected.add(query, names, rows)
        waiting = deque(each for window in collected.windows() for each in bodies(window, self._config.samples_max))
        done = {"sent": 0, "rejected": 0, "dropped": collected.dropped}
        return _Batch(from_ms, to_ms, collected.seen_ms or None, waiting, done)

    def _keep(self, position_ms: int) -> None:
        self._position.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._position.with_name(f"{self._position.name}.new")
        fresh.write_text(f"{position_ms}\n", encoding="ascii")
        fresh.replace(self._position)

    def _begin(self, to_ms: int) -> int:
        """Where the round begins: at the position, the last window where there is none or it lies ahead, and not too
        long ago."""
        self.ahead = None
        try:
            since_ms = int(self._position.read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):
            return to_ms - WINDOW_MS
        if since_ms > to_ms + WINDOW_MS:  # a clock that was set back by less waits a window
            self.ahead = "the position lies ahead of the clock, one of them was wrong; the last window is sent"
            facts = {"position_ms": since_ms, "to_ms": to_ms}
            _log.warning("export position lies ahead of the clock; beginning at the last window", extra=facts)
            return to_ms - WINDOW_MS
        oldest_ms = to_ms - self._config.catch_up_ms // WINDOW_MS * WINDOW_MS
        if max(since_ms, self._asked_to_ms) < oldest_ms:
            facts = {"from_ms": since_ms, "to_ms": oldest_ms}
            _log.warning("export was paused for longer than catch_up_ms; windows skipped", extra=facts)
        return max(since_ms, oldest_ms)

    def _deliver(self, body: bytes) -> str:
        try:
            status, answer = self._post(body)
        except OSError as error:
            raise Unavailable(f"{type(error).__name__}: {error}") from error
        if status in _NOT_OF_SAMPLES or 300 <= status < 400 or status >= 500:
            raise Unavailable(f"status {status}: {answer}")
        if status >= 300:
            facts = {"status": status, "response": answer}
            _log.error("remote write receiver rejected samples; they are left out", extra=facts)
            return "rejected"
        return "sent"
