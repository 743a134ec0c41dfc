"""What the proxy counts of itself: a few figures for each request, none for a piece of one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from producers.proxy import errors
from producers.proxy.wire import Refusal
from runtime.counters import Counters


class Figures:
    """Figures of one proxy."""

    __slots__ = ("_counters",)

    def __init__(self, counters: Counters, upstreams: Iterable[str]) -> None:
        self._counters = counters
        self.open_requests(0)
        for name in upstreams:
            self.upstream_down(name, down=False)

    def open_requests(self, count: int) -> None:
        """So many are under way."""
        self._counters.set("proxy_open_requests", count)

    def ended(self, api: str | None, status: int | None) -> None:
        """A request of this API (None: another path), its client answered with this status (None: not at all)."""
        self._counters.add("proxy_requests", api=api or "other", status=status or "none")

    def refused(self, refusal: Refusal) -> None:
        """The proxy answered itself."""
        self._counters.add("proxy_refused", reason=errors.reason_of(refusal))

    def upstream_down(self, name: str, *, down: bool) -> None:
        """It is left alone from now on, or no longer."""
        self._counters.set("proxy_upstream_down", int(down), upstream=name)

    def unread(self, reasons: Mapping[str, int]) -> None:
        """What of one answer could not be read."""
        for reason, times in reasons.items():
            self._counters.add("proxy_unread", times, reason=reason)
