"""How far the partitions of a process are behind the ends of their logs, as its client knows these from its fetches.

No request is made for it.
"""

from __future__ import annotations

from collections.abc import Callable

from runtime.counters import Counters

EndKnown = Callable[[str, int], int | None]
"""The end offset of (topic, partition) from the last fetch; None before the first."""

InTransaction = Callable[[str, int], bool]
"""Whether a transaction was open in (topic, partition) at the last fetch. While one is, records may wait for its end
that were appended long ago, and the partition is not idle."""


class Lag:
    """The gauge ``job_lag_records``. A shell that learns ends from its fetches sets ``end_known`` and
    ``in_transaction``; nothing is reported without."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._reported: set[tuple[str, int]] = set()
        self.end_known: EndKnown = lambda topic, partition: None
        self.in_transaction: InTransaction = lambda topic, partition: False

    def waits(self, topic: str, partition: int) -> bool:
        """Whether records of the partition may wait for the end of a transaction."""
        return bool(self._of_client(self.in_transaction, topic, partition))

    def report(self, topic: str, partition: int, done_to: int) -> None:
        """Of a partition that is done up to this offset."""
        end = self._of_client(self.end_known, topic, partition)
        if end is not None:
            self._reported.add((topic, partition))
            self._counters.set("job_lag_records", max(0, end - done_to), topic=topic, partition=partition)

    def give_back(self) -> None:
        """Nothing is behind here any more: the next owners report theirs."""
        for topic, partition in sorted(self._reported):
            self._counters.set("job_lag_records", 0, topic=topic, partition=partition)
        self._reported.clear()

    def _of_client(self, known: Callable[[str, int], int | None], topic: str, partition: int) -> int | None:
        """What the client knows of the partition; None where it is stopping, or knows it no more."""
        try:
            return known(topic, partition)
        except Exception as error:
            self._counters.add("errors", where="lag", error=type(error).__name__)
            return None
