"""From steps of a fleet to rows of costs, in one process on a virtual clock: the windows job and the cost job as they
run live, killed now and then, and beside the killed cost job one that is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fleetpulse.backtest.alerting import Stage
from lab.audit.day import STEP_MS, Day
from lab.audit.delays import USUAL, Delayed, Lateness
from lab.audit.disturbed import Disturbed
from lab.audit.shapes import Shaped
from lab.evaluate.pipeline import ONE_EACH, Arrivals, Log
from lab.simulator.wide import Wide
from schemas.contract.record import Record
from schemas.contract.topics import COSTS_TOPIC, WINDOW_PARTIALS
from schemas.events.event_types import EVENTS, LLM_REQUESTS
from schemas.limits import DEFAULT_LIMITS, MINUTE_MS, WINDOW_MS
from stream_jobs.costs.account import Pricing
from stream_jobs.costs.minute_buffer import BufferLimits
from stream_jobs.costs.step import CostStep
from stream_jobs.prices.model import Prices
from stream_jobs.windows.step import WindowsStep

Land = Callable[[Sequence[Record]], None]
"""Takes records of ``window.partials`` and ``costs``, and requests, as the sink does."""
KILLS_A_DAY = 60
"""Expected, of each job; at least one of each, however short the day is."""
SETTLES_MS = BufferLimits().settle_ms + 2 * MINUTE_MS


@dataclass(slots=True)
class Ran:
    """What happened. In ``commits_unlike_undisturbed`` the killed cost job emitted something else than the other."""

    minutes: int = 0
    rows_emitted: int = 0
    late_rows: int = 0
    batches_delayed: int = 0
    commits: int = 0
    kills_of_windows: int = 0
    kills_of_costs: int = 0
    commits_unlike_undisturbed: int = 0


class CostPath:
    """One fleet's way. ``finish`` once all steps were taken."""

    def __init__(self, day: Day, prices: Prices, land: Land, lateness: Lateness = USUAL) -> None:
        streams = [np.random.default_rng([day.seed, 60 + number]) for number in range(3)]
        commits = (day.end_ms - day.begin_ms) / WINDOW_MS
        share = KILLS_A_DAY / 8_640
        middle = round(commits / 2)
        self.ran = Ran(minutes=round(commits / 6))
        self._shaped = Shaped(day.shapes)
        self._delayed = Delayed(streams[0], lateness)
        self._log = Log()
        self._windows = Disturbed(
            WindowsStep(DEFAULT_LIMITS, ONE_EACH), streams[1], share / len(EVENTS), middle * len(EVENTS)
        )
        costs, calm = (CostStep(DEFAULT_LIMITS, ONE_EACH, Pricing(prices), prices.version) for _ in range(2))
        self._costs, self._calm = Disturbed(costs, streams[2], share, middle), Stage(calm)
        self._arrivals = Arrivals(self._log)
        self._land = land

    def take(self, wides: Sequence[Wide], to_ms: int) -> None:
        """What a step of the fleet emitted."""
        shaped = [one for wide in wides for one in self._shaped.apply(wide, to_ms)]
        self._arrivals.add(self._delayed.pass_on(shaped, to_ms))
        if to_ms % WINDOW_MS == 0:
            self._commit(to_ms)

    def finish(self, to_ms: int) -> Ran:
        """Hand over what waits, and let time pass in which nothing comes, so that every minute becomes final."""
        self._arrivals.add(self._delayed.rest())
        for now_ms in range(to_ms + WINDOW_MS, to_ms + SETTLES_MS, WINDOW_MS):
            self._commit(now_ms)
        self.ran.batches_delayed = self._delayed.delayed
        self.ran.rows_emitted, self.ran.late_rows = self._costs.stats["cost_bills"], self._costs.stats["cost_late_rows"]
        self.ran.kills_of_windows, self.ran.kills_of_costs = self._windows.kills, self._costs.kills
        return self.ran

    def _commit(self, now_ms: int) -> None:
        partials = [record for event in EVENTS for record in self._windows_of(event.topic, now_ms)]
        outputs = self._costs.take(WINDOW_PARTIALS, 0, partials, now_ms)
        self.ran.commits += 1
        self.ran.commits_unlike_undisturbed += outputs != self._calm.take(WINDOW_PARTIALS, 0, partials, now_ms)
        bills = [out for out in outputs if out.topic == COSTS_TOPIC]
        self._land([*partials, *self._log.append_all(bills, now_ms)])

    def _windows_of(self, topic: str, now_ms: int) -> Iterator[Record]:
        records = self._arrivals.records(topic, now_ms)
        if topic == LLM_REQUESTS.topic:
            self._land(records)
        for record in self._log.append_all(self._windows.take(topic, 0, records, now_ms), now_ms):
            if record.topic == WINDOW_PARTIALS:
                yield record


def run(
    day: Day,
    prices: Prices,
    land: Land,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    lateness: Lateness = USUAL,
) -> Ran:
    """The whole day. ``on_progress`` gets (minutes done, minutes in all)."""
    path = CostPath(day, prices, land, lateness)
    minutes = (day.end_ms - day.begin_ms) // MINUTE_MS
    for step in day.fleet().steps(day.begin_ms, day.end_ms, STEP_MS):
        path.take(step.wides, step.to_ms)
        if step.to_ms % MINUTE_MS == 0:
            on_progress((step.to_ms - day.begin_ms) // MINUTE_MS, minutes)
    return path.finish(day.end_ms)
