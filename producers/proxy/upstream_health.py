"""UpstreamHealth: what connections and answers show of upstreams, into the choice, metrics and the log; and probes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from producers.proxy.stats import ProxyStats
from producers.proxy.upstreams import Choice, Upstream

_log = logging.getLogger(__name__)

Probe = Callable[[], Awaitable[str | None]]
"""Asks an upstream something small. None when it answered, else why not. Raises OSError where this process could not
ask."""


class UpstreamHealth:
    """``probes``: one for each upstream; ``down_s``: the pause that the log names."""

    def __init__(
        self, choice: Choice, stats: ProxyStats, probes: Sequence[Probe], now_s: Callable[[], float], down_s: float
    ) -> None:
        self._choice = choice
        self._stats = stats
        self._probe_of = probes
        self._now_s = now_s
        self._down_s = down_s
        self._probes: set[asyncio.Task[None]] = set()

    def connected(self, upstream: Upstream) -> None:
        """A connection was made."""
        if self._choice.connected(upstream):
            self._stats.upstream_down(upstream.name, down=False)
            _log.info("upstream up", extra={"upstream": upstream.name})

    def failed(self, upstream: Upstream, error: Exception) -> None:
        """A connection failed."""
        if self._choice.failed(upstream, self._now_s()):
            self._stats.upstream_down(upstream.name, down=True)
            facts = {"upstream": upstream.name, "error": f"{type(error).__name__}: {error}"}
            _log.warning("upstream down", extra=facts | {"retry_in_s": self._down_s})

    def answered(self, upstream: Upstream) -> None:
        """The first byte of an answer came."""
        if self._choice.answered(upstream):
            self._stats.upstream_out(upstream.name, out=False)
            _log.info("upstream answers again", extra={"upstream": upstream.name})

    def broke(self, upstream: Upstream, why: str) -> None:
        """A request ended without an answer, by the upstream's fault."""
        if self._choice.broke(upstream, self._now_s()):
            self._out(upstream, why)

    def sweep(self, now_s: float) -> None:
        """Take out what is silent, probe what may come back."""
        for upstream in self._choice.take_out_silent(now_s):
            self._out(upstream, "no byte came while requests waited")
        for upstream in self._choice.begin_probes(now_s):
            task = asyncio.get_running_loop().create_task(self._probed(upstream))
            self._probes.add(task)
            task.add_done_callback(self._probes.discard)

    def close(self) -> None:
        for task in self._probes:
            task.cancel()

    async def _probed(self, upstream: Upstream) -> None:
        try:
            why = await self._probe_of[upstream.index]()
        except OSError:  # which says nothing of the upstream
            self._choice.not_probed(upstream)
            return
        self._choice.probe_ended(upstream, self._now_s(), good=why is None)
        if why is not None:
            _log.info("upstream probed in vain", extra={"upstream": upstream.name, "why": why})

    def _out(self, upstream: Upstream, why: str) -> None:
        self._stats.upstream_out(upstream.name, out=True)
        facts = {"upstream": upstream.name, "why": why, "waiting": upstream.waiting, "times": upstream.outs}
        _log.warning("upstream does not answer, taken out", extra=facts)
