"""When a request may go out: token bucket, and what a response means. Pure: times are arguments."""

from __future__ import annotations

from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import Enum

RETRY_AFTER_MAX_MS = 3_600_000
"""A target that demands a longer pause is tried again after this."""
_TARGETS_4XX = (401, 402, 403, 404, 405, 407, 410, 421, 425, 426, 429, 451)
"""About address, token or load: the same for every alert. Other 4xx are about the message."""
_TARGETS_5XX = (502, 503, 504, 511)
_TOO_MANY_REQUESTS = 429


@dataclass(frozen=True, slots=True)
class Moment:
    """Now, by two clocks: ``ms`` is monotonic and is for pauses and deadlines, ``wall_ms`` may be set and is for times
    of day of others: silences, append times, payloads. Never compare one with the other."""

    ms: int
    wall_ms: int


class Bucket:
    """A token bucket: ``burst`` requests at once, ``rate_per_s`` in the long run. Full at first."""

    __slots__ = ("_at_ms", "_burst", "_rate_per_ms", "_tokens")

    def __init__(self, rate_per_s: float, burst: int, now_ms: int) -> None:
        self._rate_per_ms = rate_per_s / 1_000
        self._burst = float(burst)
        self._tokens = float(burst)
        self._at_ms = now_ms

    def free_ms(self, now_ms: int) -> int:
        """When the next token is there: ``now_ms`` or later. A clock that was set back costs no tokens."""
        self._tokens = min(self._burst, self._tokens + max(0, now_ms - self._at_ms) * self._rate_per_ms)
        self._at_ms = now_ms
        missing = 1.0 - self._tokens
        return now_ms if missing <= 1e-9 else now_ms + max(1, round(missing / self._rate_per_ms + 0.499))

    def take(self) -> None:
        """Use one up."""
        self._tokens -= 1.0


class Verdict(Enum):
    """What a response means for a transition."""

    DELIVERED = "delivered"
    RETRY = "retry"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Response:
    """What came back. ``status`` 0: no response. ``detail`` is one line without secrets."""

    status: int
    detail: str = ""
    retry_after_ms: int | None = None
    """The pause that the target demands; None without."""

    @property
    def verdict(self) -> Verdict:
        """2xx is delivered; 4xx that are about the message (400, 413, 422 and the like) are rejected; everything else
        is tried again, also what a wrong address or token brings about: somebody will correct it."""
        if 200 <= self.status < 300:
            return Verdict.DELIVERED
        if 400 <= self.status < 500 and self.status != 408 and self.status not in _TARGETS_4XX:
            return Verdict.REJECTED
        return Verdict.RETRY

    @property
    def of_target(self) -> bool:
        """The failure is the target's, not that of one alert: everything waits."""
        if self.verdict is not Verdict.RETRY:
            return False
        here = self.status < 400 or self.status in _TARGETS_4XX or self.status in _TARGETS_5XX
        return here or self.retry_after_ms is not None

    @property
    def maybe_taken(self) -> bool:
        """It may have come through although it counts as failed: no response, or one of a gateway or a server."""
        return self.status == 0 or self.status == 408 or self.status >= 500

    @property
    def misconfigured(self) -> bool:
        """The target responds, and accepts nothing from us: its address or token is wrong."""
        return 300 <= self.status < 400 or (self.status in _TARGETS_4XX and self.status != _TOO_MANY_REQUESTS)


def retry_after_ms(header: str | None, now_ms: int) -> int | None:
    """The header ``Retry-After`` (seconds, or a date; RFC 9110, 10.2.3) as a pause, at most an hour; None without."""
    if header is None:
        return None
    text = header.strip()
    if text.isascii() and text.isdigit():
        return min(int(text[:12]) * 1_000, RETRY_AFTER_MAX_MS)
    try:
        at_ms = parsedate_to_datetime(text).timestamp() * 1_000
    except (ValueError, OverflowError):
        return None
    return min(max(0, round(at_ms) - now_ms), RETRY_AFTER_MAX_MS)
