"""Sends windows by remote write as they settle, and remembers how far it came.

Windows are read once, ``settle_ms`` after their end. The position is kept on disk after all their samples were taken,
so that a failure sends them again: the same samples at the same times, which the receiver takes or ignores. 5xx, 429
and a receiver that is unavailable are tried again for ever, with back-off; what it rejects otherwise is counted and
left.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fleetpulse.export.series import COLUMNS, WINDOW_MS, Collected
from fleetpulse.export.wire import bodies
from runtime.counters import COUNTERS, Counters
from runtime.remote_write_config import RemoteWriteConfig

_log = logging.getLogger(__name__)


class Unavailable(Exception):
    """The receiver did not take a request and may take it later."""


Rows = tuple[Sequence[str], Sequence[Sequence[object]]]
Ask = Callable[[str, int, int], Rows]
"""(query, from ms, to ms) -> names of columns, rows."""


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


class RemoteWrite:
    """Sends what has settled since the last round."""

    def __init__(
        self, config: RemoteWriteConfig, ask: Ask, post: Post, position: Path, counters: Counters = COUNTERS
    ) -> None:
        self._config = config
        self._ask = ask
        self._post = post
        self._position = position
        self._counters = counters

    def round(self, now_ms: int) -> Sent:
        """Send the windows that have settled. Raises ``Unavailable``, and what asking raises: then none is done."""
        to_ms = (now_ms - self._config.settle_ms) // WINDOW_MS * WINDOW_MS
        from_ms = self._begin(to_ms)
        if from_ms >= to_ms:
            return Sent(from_ms, from_ms)
        collected = Collected(self._config.series_max)
        for query in COLUMNS:
            names, rows = self._ask(query, from_ms, to_ms)
            collected.add(query, names, rows)
        done = {"sent": 0, "rejected": 0, "dropped": collected.dropped}
        for body, samples in bodies(collected.series, self._config.samples_max):
            done[self._deliver(body)] += samples
        self._position.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._position.with_name(f"{self._position.name}.new")
        fresh.write_text(f"{to_ms}\n", encoding="ascii")
        fresh.replace(self._position)
        for outcome, samples in done.items():
            self._counters.add("export_samples", samples, outcome=outcome)
        self._counters.set("export_window_ms", to_ms)
        return Sent(from_ms, to_ms, **done)

    def _begin(self, to_ms: int) -> int:
        """Where the round begins: at the position, the last window where there is none, and not too long ago."""
        try:
            since_ms = int(self._position.read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):
            return to_ms - WINDOW_MS
        oldest_ms = to_ms - self._config.catch_up_ms // WINDOW_MS * WINDOW_MS
        if since_ms < oldest_ms:
            facts = {"from_ms": since_ms, "to_ms": oldest_ms}
            _log.warning("export was paused for longer than catch_up_ms; windows skipped", extra=facts)
        return max(since_ms, oldest_ms)

    def _deliver(self, body: bytes) -> str:
        try:
            status, answer = self._post(body)
        except OSError as error:
            raise Unavailable(f"{type(error).__name__}: {error}") from error
        if status == 429 or status >= 500:
            raise Unavailable(f"status {status}: {answer}")
        if status >= 300:
            facts = {"status": status, "response": answer}
            _log.error("remote write receiver rejected samples; they are left out", extra=facts)
            return "rejected"
        return "sent"
