"""A producer's own books: per boot and topic, what it spooled, what Kafka acknowledged, what it shed. Pure."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from producers.spool.frame import ORDINAL_MAX
from schemas.codec import native
from schemas.codec.build import block_from_rows
from schemas.rows.tables import PRODUCER_BOOKS

_log = logging.getLogger(__name__)

BookKey = tuple[int, str]
"""(boot, topic)."""
AMOUNT_MAX = 2**53 - 1
"""No amount grows beyond: a thousand such still have a sum that a UInt64 column holds, and JSON keeps them exactly."""


@dataclass(slots=True)
class Tally:
    """Running totals of one boot and topic. ``shed_events`` are not among ``events``: they were never written."""

    records: int = 0
    events: int = 0
    acknowledged_events: int = 0
    shed_events: int = 0

    def add(self, other: Tally) -> None:
        """Let another tally's amounts join this one's."""
        self.records += other.records
        self.events += other.events
        self.acknowledged_events += other.acknowledged_events
        self.shed(other.shed_events)

    def shed(self, events: int) -> None:
        """Add to what was shed: a count that others declare, so it stops at ``AMOUNT_MAX``."""
        self.shed_events = min(self.shed_events + events, AMOUNT_MAX)

    @property
    def settled(self) -> bool:
        """Whether Kafka has acknowledged everything."""
        return self.acknowledged_events == self.events


_AMOUNTS = tuple(field.name for field in fields(Tally))
Books = dict[BookKey, Tally]


def tally_of(books: Books, boot: int, topic: str) -> Tally:
    """The tally of this boot and topic, made on first use."""
    tally = books.get((boot, topic))
    if tally is None:
        tally = books[boot, topic] = Tally()
    return tally


def copy_of(books: Books) -> Books:
    """The books with tallies of their own."""
    return {
        key: Tally(tally.records, tally.events, tally.acknowledged_events, tally.shed_events)
        for key, tally in books.items()
    }


def to_plain(books: Books) -> list[list[Any]]:
    """The books as plain lists, for JSON."""
    return [
        [boot, topic, tally.records, tally.events, tally.acknowledged_events, tally.shed_events]
        for (boot, topic), tally in books.items()
    ]


def from_plain(rows: list[list[Any]]) -> Books:
    """The books that ``to_plain`` made these lists of, none of their amounts beyond ``AMOUNT_MAX``: more may be on disk
    from before there was a bound. Raises ValueError or TypeError for what it made not."""
    books: Books = {}
    for boot, topic, *amounts in rows:
        if type(topic) is not str or len(amounts) != len(_AMOUNTS):
            raise ValueError(f"no row of the books: {str([boot, topic, *amounts])[:128]}")
        named = zip(_AMOUNTS, amounts, strict=True)
        books[ordinal(boot), topic] = Tally(*(_bounded(boot, topic, *each) for each in named))
    return books


def ordinal(value: object) -> int:
    """The value, where it is one that this program writes for a boot, a segment or a record; else ValueError."""
    if type(value) is not int or not 0 <= value <= ORDINAL_MAX:
        raise ValueError(f"{str(value)[:64]}: must be a whole number from 0 to {ORDINAL_MAX}")
    return value


def _bounded(boot: int, topic: str, name: str, amount: object) -> int:
    if type(amount) is not int:
        raise ValueError(f"{name} = {str(amount)[:64]}: must be a whole number")
    kept = max(0, min(amount, AMOUNT_MAX))
    if kept != amount:
        facts = {"boot": boot, "topic": topic, "field": name, "amount": amount, "kept": kept}
        _log.error("impossible amount in the spool's books; capped", extra=facts)
    return kept


def book_rows(
    books: Mapping[BookKey, Tally],
    source_of: Callable[[int], str],
    host: str,
    at_ms: int,
    end_of: Callable[[int], int],
    clock_skew_ms: int | None = None,
) -> list[dict[str, Any]]:
    """One row per boot and topic, by ``schemas.rows.tables.PRODUCER_BOOKS``: ``source_of`` each boot, and ``end_of`` it
    in records, up to where its row counts. ``at_ms``: by the brokers' clock, as rows expire by it. ``clock_skew_ms``:
    of the host, None where it is not known."""
    return [
        {
            "at_ms": at_ms,
            "boot": boot,
            "records": tally.records,
            "events": tally.events,
            "acknowledged_events": tally.acknowledged_events,
            "shed_events": tally.shed_events,
            "seq_to": end_of(boot),
            "seq_events": tally.events,
            "clock_skew_ms": clock_skew_ms,
            "source": source_of(boot),
            "topic": topic,
            "host": host,
        }
        for (boot, topic), tally in sorted(books.items())
    ]


def encode_rows(rows: list[dict[str, Any]]) -> bytes:
    """The rows as one Native block."""
    return native.encode(PRODUCER_BOOKS.fields, block_from_rows(PRODUCER_BOOKS.fields, rows))
