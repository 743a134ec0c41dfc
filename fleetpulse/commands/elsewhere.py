"""What commands say where a range has no data: where data lies, and the range to add. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from fleetpulse.queries.data_ends import Lack, Span
from fleetpulse.report.amounts import instant


def options(span: Span) -> str:
    """A range as the command line takes it."""
    begin, end = (datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%dT%H:%MZ") for at_ms in span)
    return f"--from {begin} --to {end}"


def elsewhere(without: Lack | None, again: str) -> list[str]:
    """Where data lies that a range has none of, and the command with a range that has some; nothing where it has."""
    return led_to(without, without.nearest() if without else None, again)


def led_to(without: Lack | None, nearest: Span | None, again: str) -> list[str]:
    """The same with a range that was chosen otherwise; None: no command."""
    said = [without.said(label_utc)] if without else []
    return [*said, f"try: {again} {options(nearest)}"] if nearest else said


def label_utc(from_ms: int, to_ms: int) -> str:
    """A range as a person reads it, in UTC."""
    begin, end = instant(from_ms), instant(to_ms)
    same_day = begin[:10] == end[:10]
    return f"{begin} to {end[11:] if same_day else end} UTC"
