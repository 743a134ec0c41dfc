"""When a request may go out: token bucket, back-off, and what an answer means. Pure: times and chance are arguments."""

from __future__ import annotations

from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import Enum

RETRY_AFTER_MAX_MS = 3_600_000
"""A target that asks for more is asked again after this."""
_TARGETS_4XX = (401, 402, 403, 404, 405, 407, 410, 421, 425, 426, 429, 451)
"""About address, token or load: the same for every alert. Other 4xx are about the message."""
_TARGETS_5XX = (502, 503, 504, 511)
_LIMITED = 429
_DOUBLINGS_MAX = 30


@dataclass(frozen=True, slots=True)
class Moment:
    """Now, by two clocks: ``ms`` never goes back and is for pauses and deadlines, ``wall_ms`` may be set and is for
    what others say in time of day: mutes, append times, payloads. Never compare one with the other."""

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
        """2xx is delivered; 4xx that are about the message (400, 413, 422 and the like) are refused; everything else is
        tried again, also what a wrong address or token brings about: somebody will put it right."""
        if 200 <= self.status < 300:
            return Verdict.DELIVERED
        if 400 <= self.status < 500 and self.status != 408 and self.status not in _TARGETS_4XX:
            return Verdict.REFUSED
        return Verdict.AGAIN

    @property
    def targets_own(self) -> bool:
        """The trouble is the target's, not that of one alert: everything waits."""
        if self.verdict is not Verdict.AGAIN:
            return False
        here = self.status < 400 or self.status in _TARGETS_4XX or self.status in _TARGETS_5XX
        return here or self.retry_after_ms is not None

    @property
    def turned_away(self) -> bool:
        """The target is there and takes nothing of us: its address or token is wrong."""
        return 300 <= self.status < 400 or (self.status in _TARGETS_4XX and self.status != _LIMITED)


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
