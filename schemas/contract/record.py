"""A Kafka record as every pure part of fleetpulse sees it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from schemas.errors import ContractError, NewerReleaseError

Headers = tuple[tuple[str, bytes], ...]


class Record(NamedTuple):
    """One message read from a topic.

    ``timestamp_ms`` is the broker's LogAppendTime on source topics (milliseconds since the epoch, UTC).
    ``value`` is ``None`` for a tombstone. ``headers`` keep the order in which they were written.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def where(self) -> str:
        """Where it stands, for people."""
        return f"{self.topic}[{self.partition}] offset {self.offset}"


class Output(NamedTuple):
    """One message to be written, with the partition decided by the writer (never by a client's partitioner).

    ``value`` is ``None`` for a tombstone."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def unknown_schema(where: str, schema: str, known: Iterable[str]) -> ContractError:
    """The error for a derived record whose schema is none of ``known``; where an older version of it is one, a
    ``NewerReleaseError``."""
    name, _, version = schema.rpartition("/")
    versions = [int(one.rpartition("/")[2]) for one in known if one.rpartition("/")[0] == name]
    if versions and version.isdecimal() and len(version) < 10 and int(version) > max(versions):
        return NewerReleaseError(f"{where} has schema {schema!r}: a newer release wrote it, upgrade this process")
    return ContractError(f"{where} has schema {schema!r}, which no release has; who wrote it?")
