"""Rollups kept up to date, pass after pass, until the sink stops."""

from __future__ import annotations

import logging
from collections.abc import Callable

from runtime.config import ClickHouseConfig
from runtime.health import Readiness
from runtime.retried import behind_since_s, sleep
from runtime.runbook import cause_of, named
from schemas.errors import BrokenPartError, ConfigError, UnavailableError
from schemas.limits import Limits
from sinks.database import STATEMENT_SECONDS_MAX, SinkDatabase
from sinks.drain import Drain
from sinks.rollup import Rollups, RollupSettings, Share

_log = logging.getLogger(__name__)


async def run_passes(
    clickhouse: ClickHouseConfig,
    settings: RollupSettings,
    limits: Limits,
    share: Callable[[], Share],
    drain: Drain,
    readiness: Readiness,
) -> None:
    """Retried for ever while ClickHouse is unavailable, until ``drain.stop``. Raises ``ConfigError`` where it rejects
    the first pass, ``ContractError`` for what no retry mends."""
    database = SinkDatabase(clickhouse, consistent=True, seconds_max=STATEMENT_SECONDS_MAX)
    rollups, worked, stop = Rollups(database, settings, limits, share), False, drain.stop
    behind_s: float | None = None
    while not stop.is_set():
        done = 0
        try:
            done = await drain.in_thread(rollups.run_pass)
            worked, behind_s = True, None
            readiness.release("rollups")
        except (UnavailableError, ConfigError) as error:
            if isinstance(error, ConfigError) and not worked:
                raise
            facts = {"why": str(error), "cause": cause_of(error)}
            if stop.is_set():
                _log.warning("stopped before ClickHouse answered; rollups are computed after the restart", extra=facts)
                break
            behind_s = behind_since_s(error, behind_s)
            readiness.hold("rollups", f"{named(error)}; rollups retrying", cause_of(error))
            if isinstance(error, BrokenPartError):
                _log.error("stored rows cannot be read; rollups that need them wait", extra=facts)
            else:
                _log.warning("ClickHouse unavailable, rollups retrying", extra=facts)
        await sleep(0.0 if done else settings.pass_ms / 1_000, stop)
    database.close()
