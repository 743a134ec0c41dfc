"""How a publisher waits for Kafka: how long it pauses between two attempts, and a look whether anything listens there.

An attempt makes a whole producer; while nobody listens at the addresses, trying to connect says so for a tenth of that.
Pauses grow with the failures, later with the time that Kafka has been away: a source that comes back late makes windows
incomplete, so it waits some tenth of that time more, and less than the 30 s for which a window waits for it.
"""

from __future__ import annotations

import asyncio

from aiokafka.conn import collect_hosts

from runtime.retry import RetryPolicy

RECONNECT = RetryPolicy("reconnect", None, None, 0.1, 3.0, 0.5)
"""The first attempts; like NEVER_LOSE, but more often."""
AWAY_PAUSE_S_MAX = 20.0
"""To which chance adds a quarter."""
TELL_EVERY_FAILURES = 20
"""In the log: the first of a row of failures of one kind, then one of so many."""
CONNECT_WITHIN_S = 5.0
"""For each address."""


class Away:
    """Failures in a row, and since when. Pure: times are monotonic, ``chance`` lies in [0, 1) and spreads a fleet."""

    def __init__(self) -> None:
        self.failures = 0
        self.is_to_be_told = False
        """Whether the last failure is one of those that stand in the log."""
        self._since_s = 0.0
        self._kind: type[Exception] | None = None

    def failed(self, error: Exception, now_s: float) -> None:
        """Another attempt was in vain."""
        if not self.failures:
            self._since_s = now_s
        self.failures += 1
        self.is_to_be_told = type(error) is not self._kind or self.failures % TELL_EVERY_FAILURES == 1
        self._kind = type(error)

    def answered(self) -> None:
        """Kafka took something."""
        self.failures = 0

    def pause_s(self, now_s: float, chance: float) -> float:
        """Until the next attempt; 0 when the last one did not fail."""
        if not self.failures:
            return 0.0
        growth_s = min(RECONNECT.wait_max_s, RECONNECT.wait_initial_s * 2 ** min(self.failures, 16))
        pause_s = max(growth_s, min(AWAY_PAUSE_S_MAX, (now_s - self._since_s) / 10))
        return pause_s + chance * max(RECONNECT.jitter_s, pause_s / 4)


async def demand_listener(bootstrap: str) -> None:
    """Return when one of these addresses takes a connection; OSError (TimeoutError is one) where none does."""
    refused: OSError | None = None
    for host, port, _family in collect_hosts(bootstrap):
        try:
            async with asyncio.timeout(CONNECT_WITHIN_S):
                transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, host, port)
        except OSError as error:
            refused = error
        else:
            transport.abort()
            return
    raise refused or OSError(f"no address in {bootstrap!r}")
