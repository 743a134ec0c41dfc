"""Gaps: counts received, dropped, missing and duplicate requests of each client by sequence number. Pure.

A client is a process that uses the SDK, identified by pid and start time. Its sequence number counts every request
that ended, dropped ones included. Each datagram carries how many the client dropped: since the datagram before it and
since the client's start. So for a client known from number ``a`` to number ``b``:

    missing = (b - a) - received after a - dropped after a

For a client seen for the first time (the agent restarted, or had forgotten it) the datagram's own counts are used: all
that the client dropped where it never sent anything before, else what it dropped since the datagram before. Datagrams
that were in the socket when an agent was killed are never counted by its successor.

The last ``WINDOW`` numbers of a client are remembered one by one: the second of a pair is a duplicate, a late one
fills its gap. Older numbers count as duplicates. At most ``clients_max`` clients are known; a new one replaces the one
silent longest, whose missing requests stay counted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

WINDOW = 64
_ALL = 2**WINDOW - 1

ClientKey = tuple[int, int]
"""pid and start in ns."""


class Arrival(NamedTuple):
    """The sequence fields of a datagram: ``seq`` requests ended before it, ``lost`` of them were dropped."""

    client: ClientKey
    seq: int
    lost: int
    lost_run: int
    last: bool = False
    """A farewell: the client ends; it has no sequence number of its own."""


@dataclass(slots=True)
class _Client:
    seq: int
    lost: int
    seen: int
    """Bit ``i``: number ``seq - i`` came, or is from before the client was known."""
    owed: int
    """Bit ``i``: number ``seq - i`` may still fill a gap."""


class Gaps:
    """The sequences of all clients. ``missing`` falls when a late datagram fills a gap."""

    def __init__(self, clients_max: int = 4_096) -> None:
        self._clients_max = clients_max
        self._clients: OrderedDict[ClientKey, _Client] = OrderedDict()
        self.received = 0
        """Requests that came, each once."""
        self.lost = 0
        """Requests that clients report as dropped."""
        self.missing = 0
        """Requests of which only the sequence number is known."""
        self.duplicates = 0
        self.forgotten = 0
        """Clients forgotten for lack of room."""

    @property
    def clients(self) -> int:
        """Clients known now."""
        return len(self._clients)

    def take(self, arrivals: Iterable[Arrival]) -> list[bool]:
        """Count datagrams in order of arrival; for each whether to keep it."""
        return [self._one(arrival) for arrival in arrivals]

    def take_runs(self, runs: Iterable[tuple[Arrival, int]]) -> list[bool]:
        """As ``take``, for runs: a datagram and how many come after it with the next numbers and nothing dropped."""
        keep: list[bool] = []
        for arrival, more in runs:
            keep.append(self._one(arrival))
            client = self._clients.get(arrival.client)
            if more and client is not None and (client.seq, client.lost) == (arrival.seq, arrival.lost):
                client.seen = _shifted(client.seen, more) | (1 << min(more, WINDOW)) - 1
                client.owed = _shifted(client.owed, more)
                client.seq += more
                self.received += more
                keep += [True] * more
            else:
                seqs = range(arrival.seq + 1, arrival.seq + more + 1)
                keep += [self._one(arrival._replace(seq=seq, lost_run=0)) for seq in seqs]
        return keep

    def _one(self, arrival: Arrival) -> bool:
        client = self._clients.get(arrival.client)
        if client is None:
            return self._first(arrival)
        self._clients.move_to_end(arrival.client)
        if arrival.last:
            self._farewell(client, arrival)
            return False
        if arrival.seq == client.seq + 1 and arrival.lost == client.lost:  # nearly always
            client.seen = (client.seen << 1 | 1) & _ALL
            client.owed = client.owed << 1 & _ALL
            client.seq = arrival.seq
            self.received += 1
            return True
        return self._ahead(client, arrival) if arrival.seq > client.seq else self._behind(client, arrival)

    def _first(self, arrival: Arrival) -> bool:
        if len(self._clients) >= self._clients_max:
            self._clients.popitem(last=False)
            self.forgotten += 1
        self.lost += arrival.lost if arrival.seq == arrival.lost else arrival.lost_run
        if arrival.last:
            return False
        self._clients[arrival.client] = _Client(arrival.seq, arrival.lost, seen=1, owed=0)
        self.received += 1
        return True

    def _ahead(self, client: _Client, arrival: Arrival) -> bool:
        step = arrival.seq - client.seq
        dropped = max(0, min(arrival.lost - client.lost, step - 1))
        self.lost += dropped
        self.missing += step - 1 - dropped
        self.received += 1
        between = (1 << min(step, WINDOW)) - 2 if step > 1 else 0
        shift = min(step, WINDOW)
        client.seen = (client.seen << shift | 1) & _ALL
        client.owed = (client.owed << shift | between) & _ALL
        client.seq, client.lost = arrival.seq, client.lost + dropped
        return True

    def _behind(self, client: _Client, arrival: Arrival) -> bool:
        bit = 1 << (client.seq - arrival.seq) if client.seq - arrival.seq < WINDOW else 0
        if not bit or client.seen & bit:
            self.duplicates += 1
            return False
        client.seen |= bit
        self.received += 1
        if client.owed & bit:
            client.owed &= ~bit
            self.missing = max(0, self.missing - 1)
        return True

    def _farewell(self, client: _Client, arrival: Arrival) -> None:
        """The end of a client: what it dropped after its last datagram, what is missing before its end."""
        ended = max(0, arrival.seq - client.seq - 1)
        dropped = max(0, min(arrival.lost - client.lost, ended))
        self.lost += dropped
        self.missing += ended - dropped
        del self._clients[arrival.client]


def _shifted(bits: int, by: int) -> int:
    return (bits << by) & _ALL if by < WINDOW else 0
