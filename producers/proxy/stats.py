"""ProxyStats: the proxy's own counters, updated a few times per request and never per chunk."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from producers.proxy.usage import Level
from producers.proxy.wire import Refusal
from runtime.counters import Counters

_log = logging.getLogger(__name__)


class ProxyStats:
    """Counters and gauges of one proxy."""

    __slots__ = ("_counters", "_logged")

    def __init__(self, counters: Counters, upstreams: Iterable[str]) -> None:
        self._counters = counters
        self._logged: set[type[Exception]] = set()
        self.open_requests(0, 0)
        for name in upstreams:
            self.upstream_down(name, down=False)
            self.upstream_out(name, out=False)

    def open_requests(self, count: int, arriving: int) -> None:
        """Set the number of requests under way, and of those whose body is not here yet."""
        self._counters.set("proxy_open_requests", count)
        self._counters.set("proxy_arriving_requests", arriving)

    def ended(self, api: str | None, status: int | None) -> None:
        """Count a request of this API (None: another path) by the status sent to the client (None: none)."""
        self._counters.add("proxy_requests", api=api or "other", status=status or "none")

    def refused(self, refusal: Refusal) -> None:
        """Count a request that the proxy rejected itself."""
        self._counters.add("proxy_refused", reason=refusal.reason)

    def upstream_down(self, name: str, *, down: bool) -> None:
        """Set whether an upstream is marked down."""
        self._counters.set("proxy_upstream_down", int(down), upstream=name)

    def upstream_out(self, name: str, *, out: bool) -> None:
        """Set whether an upstream was taken out because it does not answer."""
        self._counters.set("proxy_upstream_out", int(out), upstream=name)

    def usage_rejected(self, name: str, taken: Level) -> None:
        """Say of an upstream how much usage it is asked for from now on; mark one that is asked for none."""
        if taken is Level.NOTHING:
            self._counters.set("proxy_upstream_without_usage", 1, upstream=name)
            _log.warning("upstream rejects stream_options, requesting no token counts", extra={"upstream": name})
        else:
            _log.info("upstream rejects continuous_usage_stats, requesting counts at the end", extra={"upstream": name})

    def defect(self, where: str, error: Exception) -> None:
        """Count an exception that cost a row or a part of one; log the first of each kind."""
        self._counters.add("errors", where="proxy", error=type(error).__name__)
        if type(error) not in self._logged:
            self._logged.add(type(error))
            _log.error(
                "proxy defect, please report it; later ones of this kind are only counted",
                extra={"where": where},
                exc_info=error,
            )

    def unread(self, reasons: Mapping[str, int]) -> None:
        """Count what could not be read of one response, by reason."""
        for reason, times in reasons.items():
            self._counters.add("proxy_unread", times, reason=reason)
