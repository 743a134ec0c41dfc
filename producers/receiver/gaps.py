"""Every client's sequence: what came, what the client says it dropped, what is missing without a word. Pure.

A client is a process that uses the SDK: its pid and the moment it began. Its numbers count every request that ended,
those it had to drop included, and each datagram says how many these were: since the datagram before it and since the
client's start. So for a client known from number ``a`` to number ``b``:

    missing = (b - a) - received after a - dropped after a

A client seen for the first time (the agent began anew, or had forgotten it) is believed what its datagram says:
where nothing of it was ever sent before, all it dropped counts, else what it dropped since the datagram before. What
stood in the socket when an agent was killed is thus never counted by its successor.

The last ``WINDOW`` numbers of a client are remembered one by one: the second of a pair is a duplicate, one that comes
late fills its gap again. Numbers older than that are duplicates. At most ``clients_max`` clients are known; the one
that was silent longest is forgotten for a new one, and what it is missing stays counted.
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


class Told(NamedTuple):
    """What a datagram says of its place. ``seq`` requests ended before it, ``lost`` of them were dropped."""

    client: ClientKey
    seq: int
    lost: int
    lost_run: int
    last: bool = False
    """A farewell: it has no number of its own."""


@dataclass(slots=True)
class _Client:
    seq: int
    lost: int
    seen: int
    """Bit ``i``: number ``seq - i`` came, or is from before the client was known."""
    owed: int
    """Bit ``i``: number ``seq - i`` may still fill a gap."""


class Gaps:
    """The sequences of all clients. ``missing`` may fall again when something comes late."""

    def __init__(self, clients_max: int = 4_096) -> None:
        self._clients_max = clients_max
        self._clients: OrderedDict[ClientKey, _Client] = OrderedDict()
        self.received = 0
        """Requests that came, each once."""
        self.lost = 0
        """Requests that their clients say they dropped."""
        self.missing = 0
        """Requests of which nothing is known but their number."""
        self.duplicates = 0
        self.forgotten = 0
        """Clients forgotten for lack of room."""

    @property
    def clients(self) -> int:
        """Clients known now."""
        return len(self._clients)

    def take(self, arrivals: Iterable[Told]) -> list[bool]:
        """Take note of datagrams in the order in which they came; for each whether it is to be kept."""
        return [self._one(told) for told in arrivals]

    def take_runs(self, runs: Iterable[tuple[Told, int]]) -> list[bool]:
        """As ``take``, for runs: a datagram and how many come after it with the next numbers and nothing dropped."""
        keep: list[bool] = []
        for told, more in runs:
            keep.append(self._one(told))
            client = self._clients.get(told.client)
            if more and client is not None and (client.seq, client.lost) == (told.seq, told.lost):
                client.seen = _shifted(client.seen, more) | (1 << min(more, WINDOW)) - 1
                client.owed = _shifted(client.owed, more)
                client.seq += more
                self.received += more
                keep += [True] * more
            else:
                seqs = range(told.seq + 1, told.seq + more + 1)
                keep += [self._one(told._replace(seq=seq, lost_run=0)) for seq in seqs]
        return keep

    def _one(self, told: Told) -> bool:
        client = self._clients.get(told.client)
        if client is None:
            return self._first(told)
        self._clients.move_to_end(told.client)
        if told.last:
            self._bye(client, told)
            return False
        if told.seq == client.seq + 1 and told.lost == client.lost:  # nearly always
            client.seen = (client.seen << 1 | 1) & _ALL
            client.owed = client.owed << 1 & _ALL
            client.seq = told.seq
            self.received += 1
            return True
        return self._ahead(client, told) if told.seq > client.seq else self._behind(client, told)

    def _first(self, told: Told) -> bool:
        if len(self._clients) >= self._clients_max:
            self._clients.popitem(last=False)
            self.forgotten += 1
        self.lost += told.lost if told.seq == told.lost else told.lost_run
        if told.last:
            return False
        self._clients[told.client] = _Client(told.seq, told.lost, seen=1, owed=0)
        self.received += 1
        return True

    def _ahead(self, client: _Client, told: Told) -> bool:
        step = told.seq - client.seq
        dropped = max(0, min(told.lost - client.lost, step - 1))
        self.lost += dropped
        self.missing += step - 1 - dropped
        self.received += 1
        between = (1 << min(step, WINDOW)) - 2 if step > 1 else 0
        shift = min(step, WINDOW)
        client.seen = (client.seen << shift | 1) & _ALL
        client.owed = (client.owed << shift | between) & _ALL
        client.seq, client.lost = told.seq, client.lost + dropped
        return True

    def _behind(self, client: _Client, told: Told) -> bool:
        bit = 1 << (client.seq - told.seq) if client.seq - told.seq < WINDOW else 0
        if not bit or client.seen & bit:
            self.duplicates += 1
            return False
        client.seen |= bit
        self.received += 1
        if client.owed & bit:
            client.owed &= ~bit
            self.missing = max(0, self.missing - 1)
        return True

    def _bye(self, client: _Client, told: Told) -> None:
        """The end of a client: what it dropped after its last datagram, what is missing before its end."""
        ended = max(0, told.seq - client.seq - 1)
        dropped = max(0, min(told.lost - client.lost, ended))
        self.lost += dropped
        self.missing += ended - dropped
        del self._clients[told.client]


def _shifted(bits: int, by: int) -> int:
    return (bits << by) & _ALL if by < WINDOW else 0
