"""ClickHouse or Kafka away for minutes under an even load: nothing may be lost, and all of it is made good in time.

Watched is, for every window and grouping set, when its last rows answer to SQL after its end (``bench freshness``).
*Caught up* is the moment from which all windows are fresh again; *the rate* is the event time made good until then,
that of the outage and that of the catching up, over the time it took.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleetpulse import stack
from fleetpulse.commands.progress import Progress
from fleetpulse.reconcile.compare import Report, reconcile
from fleetpulse.services.jobs_and_sink import JOBS, setup_of
from fleetpulse.services.processes import Processes
from fleetpulse.sql.database import Database
from lab.bench import live
from lab.bench.freshness import LOOK_BACK_MS, QUERY_EVERY_S, Seen, question
from lab.bench.stand import Stand, fresh_stand
from lab.chaos.compare import Comparison
from lab.chaos.outcomes import alerts, read_log
from runtime.clock import SystemClock
from schemas.contract.topics import ALERTS_TOPIC, WINDOW_FINALS
from schemas.errors import FleetpulseError
from schemas.limits import DEFAULT_LIMITS, MINUTE_MS, WINDOW_MS

BEFORE_S = 60
FRESH_S, FRESH_WINDOWS = 3.0, 3
"""So fresh all grouping sets of so many windows in a row must be."""
RATE_MIN = 5.0
CATCH_UP_SHARE_MAX = 1.0
"""Catching up is watched for as long as the outage was at most, and for a minute more."""
SETTLED_MS = 20_000
"""So long after its end a window has all its rows, where the pipeline is not behind."""
SETTLE_WITHIN_S = 300.0
STOP_WITHIN_S = 120.0


@dataclass(frozen=True, slots=True)
class Outage:
    """What an outage showed. ``fresh_before_s``: the latest window before it; ``caught_up_s``: since the return, None
    where it was not; ``alerts``: transitions against one undisturbed fold of the finals."""

    part: str
    gpus: int
    away_s: float
    fresh_before_s: float | None
    caught_up_s: float | None
    books: Report
    alerts: Comparison

    @property
    def rate(self) -> float | None:
        """How many times real time the backlog was made good."""
        return None if self.caught_up_s is None else (self.away_s + self.caught_up_s) / self.caught_up_s

    @property
    def holds(self) -> bool:
        """Whether nothing is lost, every alert is right, and all was made good fast enough."""
        return self.books.exact and self.alerts.exact and self.rate is not None and self.rate >= RATE_MIN

    def as_dict(self) -> dict[str, Any]:
        return {
            "part": self.part,
            "gpus": self.gpus,
            "away_s": round(self.away_s, 1),
            "fresh_before_s": self.fresh_before_s,
            "caught_up_s": self.caught_up_s,
            "rate": self.rate,
            "rate_min": RATE_MIN,
            "holds": self.holds,
            "alerts": {"exact": self.alerts.exact, "compared": self.alerts.cells},
            "books": self.books.as_dict(),
        }

    def text(self) -> str:
        rate = "not caught up"
        if self.caught_up_s is not None:
            rate = f"caught up in {self.caught_up_s:.0f} s: {self.rate:.1f} times real time"
        return "\n".join(
            (
                f"{self.part} away for {self.away_s:.0f} s at {self.gpus:,} GPUs; {rate}",
                f"alerts: {self.alerts.cells} transitions, lost {self.alerts.lost}, doubled {self.alerts.doubled}",
                self.books.text(),
                "holds" if self.holds else "does NOT hold",
            )
        )


def caught_up_ms(delays_ms: dict[tuple[str, int], int], back_ms: int, now_ms: int) -> int | None:
    """When the last rows came of the window from which all are fresh; None while there are too few of them.

    ``delays_ms`` by grouping set and start of the window, from its end and lateness; of windows that ended after
    ``back_ms`` and at least ``SETTLED_MS`` before ``now_ms``.
    """
    worst: dict[int, int] = {}
    for (_, window_ms), delay_ms in delays_ms.items():
        if back_ms <= window_ms + WINDOW_MS <= now_ms - SETTLED_MS:
            worst[window_ms] = max(worst.get(window_ms, 0), delay_ms)
    fresh: list[int] = []
    for window_ms in sorted(worst, reverse=True):
        if worst[window_ms] > 1_000 * FRESH_S:
            break
        fresh.append(window_ms)
    if len(fresh) < FRESH_WINDOWS:
        return None
    return fresh[-1] + WINDOW_MS + DEFAULT_LIMITS.out_of_orderness_ms + worst[fresh[-1]]


def run_outage(part: str, *, minutes: float, gpus: int, seed: int, data_dir: Path | None, progress: Progress) -> Outage:
    """The whole of it on a stack of its own. Raises ``FleetpulseError`` where nothing lands before the outage."""
    hosts, away_s = gpus // live.GPUS_PER_HOST, 60 * minutes
    seconds = round(BEFORE_S + away_s + CATCH_UP_SHARE_MAX * away_s + 120)
    with (
        fresh_stand(data_dir, progress.say, folder=f"outage-{part}") as stand,
        live.pipeline(stand, progress, jobs=JOBS) as processes,
    ):
        processes.start(live.fleet(stand, hosts, seconds, seed))
        run = _Run(stand, processes, Seen())
        with progress.task(f"{gpus:,} GPUs with {part}"):
            run.watch(BEFORE_S, lambda: False)
        before_ms = run.worst_ms()
        if before_ms is None:
            raise FleetpulseError(f"nothing landed in {BEFORE_S} s:\n{processes.tail('jobs')}")
        away_s, back_ms = _away(run, part, away_s, progress)
        run.seen = Seen()
        with progress.task(f"catching up with {part} back"):
            run.watch(CATCH_UP_SHARE_MAX * away_s + 60, lambda: run.caught_up_ms(back_ms) is not None)
        seen_ms = SystemClock().now_ms()
        processes.stop("simulate", within_s=STOP_WITHIN_S)
        with progress.task("settling the books"):
            config = stand.config
            books = reconcile(config.kafka, config.clickhouse, wait_s=SETTLE_WITHIN_S, while_waiting=processes.tend)
            judged = _alerts(run)
        run.look(back_ms - LOOK_BACK_MS)  # what came to a window when nobody looked at it any more was not fresh
        caught_ms = run.caught_up_ms(back_ms, seen_ms)
    caught_up_s = None if caught_ms is None else max(1.0, (caught_ms - back_ms) / 1_000)
    return Outage(part, gpus, away_s, before_ms / 1_000, caught_up_s, books, judged)


def _away(run: _Run, part: str, away_s: float, progress: Progress) -> tuple[float, int]:
    """Kill the part and start it again; how long it was gone [s], and when it was back [ms]. Raises ``FleetpulseError``
    where it had ended by itself."""
    begun_s = time.monotonic()
    if stack.kill(run.stand.data_dir, part) is None:
        raise FleetpulseError(f"{part} had ended by itself before it was to be away")
    with progress.task(f"without {part} for {away_s:.0f} s") as on_progress:
        while (passed_s := time.monotonic() - begun_s) < away_s:
            run.processes.tend()
            on_progress(int(passed_s), int(away_s))
            time.sleep(0.5)
    stack.start_part(run.stand.data_dir, part)
    return time.monotonic() - begun_s, SystemClock().now_ms()


def _alerts(run: _Run) -> Comparison:
    """As soon as they agree, or as they are after a while."""
    until_s = time.monotonic() + SETTLE_WITHIN_S
    config = run.stand.config
    while True:
        emitted = read_log(config, ALERTS_TOPIC)
        found = alerts(setup_of("alerts", config).steps[WINDOW_FINALS], read_log(config, WINDOW_FINALS), emitted)
        if found.exact or time.monotonic() > until_s:
            return found
        run.processes.tend()
        time.sleep(5.0)


@dataclass(slots=True)
class _Run:
    stand: Stand
    processes: Processes
    seen: Seen

    def watch(self, seconds: float, until: Callable[[], bool]) -> None:
        """Note which windows have how many events, for so long or until it holds."""
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s and not until():
            begun_s = time.monotonic()
            self.look(SystemClock().now_ms() - LOOK_BACK_MS)
            self.processes.tend()
            time.sleep(max(0.0, QUERY_EVERY_S - (time.monotonic() - begun_s)))

    def look(self, from_ms: int) -> None:
        """Note what windows from then on have now."""
        clock = SystemClock()
        with (
            contextlib.suppress(FleetpulseError),  # a server that has just started may be busy
            closing(Database(self.stand.config.reading)) as database,
        ):
            for row in database.sql(question(from_ms)).rows:
                self.seen.note(clock.now_ms(), (str(row[0]), int(row[1])), int(row[2]))

    def worst_ms(self) -> int | None:
        """The greatest delay of windows that were seen whole."""
        found = self._delays(0)
        return max(found.values()) if found else None

    def caught_up_ms(self, back_ms: int, now_ms: int | None = None) -> int | None:
        return caught_up_ms(self._delays(back_ms), back_ms, now_ms or SystemClock().now_ms())

    def _delays(self, back_ms: int) -> dict[tuple[str, int], int]:
        starts = [window_ms for _, window_ms in self.seen.steps]
        if not starts:
            return {}
        first = max(min(starts) + WINDOW_MS, back_ms - MINUTE_MS)
        return self.seen.delays_ms(first, max(starts), DEFAULT_LIMITS.out_of_orderness_ms)
