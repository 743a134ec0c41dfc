"""The end of a demo: what writes is stopped, then the sink reads to the end and computes the rollups that changed.

A sink that is stopped before leaves pages and reports with less than single rows say, until one runs again.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence

from rich.console import Console

from fleetpulse.commands.progress import spinner
from fleetpulse.dashboard.consumer_lag import LagOfGroups
from fleetpulse.doctor.examine import READS
from fleetpulse.reconcile.tables import OPEN_BUCKETS
from fleetpulse.services.processes import Processes
from fleetpulse.sql.database import Database
from runtime.config import KafkaConfig
from schemas.errors import UnavailableError

WITHIN_S = 120.0
CALM_S = 6.0
"""So long nothing may wait, and the sink read nothing: what it read last is inserted and noted by then."""
LOOK_EVERY_S = 1.0
BEHIND = "the sink is behind, {} buckets of rollups to compute"


def finish_rollups(
    database: Database,
    processes: Processes,
    jobs: Sequence[str],
    console: Console,
    lag: Callable[[], object | None],
    now_s: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """End the jobs and wait for the sink, for ``WITHIN_S`` at most or until Ctrl-C. Whether nothing waits then; else it
    is said, with what to do. ``lag``: the sink's; None while it is away. It need not get to 0, since markers of
    transactions count, and ends to change where all is read."""
    done, waiting, before = False, 0, None
    with contextlib.suppress(KeyboardInterrupt), spinner("stopping the jobs", console) as show:
        processes.stop(*jobs)
        until_s, calm_s = now_s() + WITHIN_S, now_s() + CALM_S
        while not done and now_s() < until_s:
            processes.tend()
            waiting, at = len(database.sql(OPEN_BUCKETS).rows), lag()
            if waiting or at is None or at != before:
                calm_s = now_s() + CALM_S
                show(f"waiting: {BEHIND.format(waiting)}")
            before, done = at, now_s() >= calm_s
            sleep(LOOK_EVERY_S)
    if not done:
        advice = "pages show less than there is until `fleetpulse up` and `fleetpulse sink` ran for a minute"
        console.print(f"{BEHIND.format(waiting)}: {advice}", style="yellow", markup=False, highlight=False)
    return done


def sink_lag(kafka: KafkaConfig) -> tuple[int | None, ...] | None:
    """Records of each topic that the sink has not committed; None where it does not run, or Kafka does not answer."""
    try:
        found = asyncio.run(LagOfGroups(kafka, {"sink": READS["sink"]}).ask())
    except UnavailableError:
        return None
    return tuple(one.records for one in found) if all(one.members for one in found) else None
