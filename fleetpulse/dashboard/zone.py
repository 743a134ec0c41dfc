"""The time zone that a page is read in: one for everything on it. What a link holds is UTC. No clock in here."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fleetpulse.alerts.view import moment, zoned
from fleetpulse.dashboard.time_range import TimeRange, moment_ms
from fleetpulse.queries.calendar_days import day_of, midnight
from schemas.limits import MINUTE_MS

ZONE_COOKIE = "fleetpulse_zone"
_CHARS_MAX = 64
DAYS = ("Today", "Yesterday", "This month", "Last month")


@dataclass(frozen=True, slots=True)
class Zone:
    """A zone by the name that a browser and the IANA's database know it by."""

    name: str = "UTC"
    info: tzinfo = UTC

    @property
    def is_utc(self) -> bool:
        """Whether it is UTC under that name; under others it is a browser's own zone."""
        return self.name == "UTC"

    def _local(self, at_ms: int) -> datetime:
        return datetime.fromtimestamp(at_ms / 1_000, self.info)

    def moment(self, at_ms: int | None) -> str | None:
        """To the second: ``2026-01-31 13:00:00``; None for None."""
        return moment(at_ms, self.info)

    def said(self, at_ms: int | None) -> str | None:
        """The same with the zone as it is then: ``2026-01-31 13:00:00 CET``."""
        return zoned(at_ms, self.info)

    def clock(self, at_ms: int) -> str:
        """The time of day: ``13:00:00``, with milliseconds only where there are some."""
        return self._local(at_ms).time().isoformat("milliseconds" if at_ms % 1_000 else "seconds")

    def typed(self, at_ms: int) -> str:
        """A moment as a field for date and time holds it."""
        return self._local(at_ms).replace(tzinfo=None).isoformat("T", "seconds")

    def read(self, text: str) -> int:
        """Milliseconds of what such a field holds: the earlier one of an hour that comes twice, and of one that is left
        out the time that clocks show instead. ``ValueError`` for what is no time of these."""
        moment = datetime.fromisoformat(text[:40])
        return moment_ms((moment if moment.tzinfo else moment.replace(tzinfo=self.info)).isoformat())

    def label(self, from_ms: int, to_ms: int) -> str:
        """A range in few characters: ``Jan 31 12:00 – 13:30 CET``; seconds where it is short, both days where two."""
        begin, end = self._local(from_ms), self._local(to_ms)
        clock = "%H:%M:%S" if to_ms - from_ms < 10 * MINUTE_MS else "%H:%M"
        last = end.strftime(clock) if begin.date() == end.date() else end.strftime(f"%b %d {clock}")
        return f"{begin.strftime(f'%b %d {clock}')} – {last} {end:%Z}"

    def days(self, name: str, now_ms: int) -> TimeRange:
        """Days of the calendar, by one of the names in ``DAYS``: from midnight to midnight, however long those are."""
        today = day_of(now_ms, self.info)
        month = today.replace(day=1)
        first, end = {
            "Today": (today, today + timedelta(1)),
            "Yesterday": (today - timedelta(1), today),
            "This month": (month, (month + timedelta(31)).replace(day=1)),
            "Last month": ((month - timedelta(1)).replace(day=1), month),
        }[name]
        return TimeRange(midnight(first, self.info), midnight(end, self.info))


UTC_ZONE = Zone()


def zone_of(cookie: str | None) -> Zone:
    """The zone that a browser names; UTC for none, and for one that is not known here."""
    if not cookie or cookie == "UTC" or len(cookie) > _CHARS_MAX:
        return UTC_ZONE
    try:
        return Zone(cookie, ZoneInfo(cookie))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC_ZONE
