"""What can become of an event, and why. Functions of the record (bytes, append time, identity) and the dedup state.

A record whose identity was seen before is a *duplicate* as a whole: its events are counted as such and nothing else
is done. The events of any other record are judged one by one.
"""

from __future__ import annotations

from enum import IntEnum


class Verdict(IntEnum):
    """Fate of one event; the values are stored in books."""

    ACCEPTED = 0
    LATE = 1
    """Older than its record's append time by more than the allowed lateness."""
    FUTURE = 2
    """Newer than its record's append time by more than the allowed skew."""
    REJECTED = 3
    DUPLICATE = 4
    """Of a record that was already taken; outside the sum of the books."""


MISSING = 5
"""In books alone, beside the verdicts: ``records`` offsets that a reset of the partition left out; no events."""


REASONS: dict[str, str] = {
    "too_large": "the record is larger than record_bytes_max; split the batch",
    "no_value": "the record has no value (a tombstone); send events",
    "headers": "a header is missing, repeated, too long or not a number; see the header contract",
    "unknown_schema": "the schema header names no known event or version for this topic",
    "unknown_format": "the content-type is none of the three formats",
    "syntax": "the bytes cannot be parsed in the format that content-type names",
    "empty": "the batch holds no event",
    "too_many": "the batch holds more events than batch_events_max",
    "count": "the count header differs from the number of events in the batch",
    "missing_field": "a required field is missing or null",
    "wrong_type": "a field has a value of another type than its kind",
    "out_of_range": "a number lies outside the field's bounds (negative, NaN and overflow included)",
    "not_allowed": "a label's value is not in the field's closed set",
    "too_long": "a label or text is longer than its limit",
    "column_lengths": "columns of one batch have different lengths",
    "bad_bins": "sketch bins are not a map of bin index to count inside the grid",
    "internal": "a defect of fleetpulse; please report it with the detail",
}
"""Closed set of reasons for ``rejected``, each with what to change."""
