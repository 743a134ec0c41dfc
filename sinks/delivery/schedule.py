"""When a request may go out: token bucket, back-off, and what an answer means. Pure: times and chance are arguments."""

from __future__ import annotations

from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import Enum

RETRY_AFTER_MAX_MS = 3_600_000
"""A target that asks for more is asked again after this."""
_AGAIN = (408, 429)
_DOUBLINGS_MAX = 30


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


def pause_ms(failures: int, initial_ms: float, longest_ms: float, draw: float) -> int:
    """Pause after so many failures in a row (1 or more): doubled each time up to ``longest_ms``, of which the later
    half is left to chance (``draw`` in [0, 1)), so that many senders do not come back at once."""
    whole = min(longest_ms, initial_ms * 2 ** min(failures - 1, _DOUBLINGS_MAX))
    return max(1, round(whole / 2 + whole / 2 * draw))


class Verdict(Enum):
    """What an answer means for a transition."""

    DELIVERED = "delivered"
    AGAIN = "again"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. ``status`` 0: no answer. ``detail`` is one line without secrets."""

    status: int
    detail: str = ""
    retry_after_ms: int | None = None
    """How long the target asks to be left alone; None when it says nothing."""

    @property
    def verdict(self) -> Verdict:
        """2xx is delivered; no answer, 408, 429 and 5xx are tried again; everything else, redirects too, is refused."""
        if 200 <= self.status < 300:
            return Verdict.DELIVERED
        if self.status < 100 or self.status >= 500 or self.status in _AGAIN:
            return Verdict.AGAIN
        return Verdict.REFUSED


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
