"""Once: which reports of this host are events, where several are of one request. Pure: time is an argument.

A proxy claims a request when it begins: reports of a claimed request are no events, their fields go to the proxy. A
plug-in's or a gateway's report is held for ``HELD_S``, in which the SDK's report of the same request takes it over, and
the gateway's the plug-ins' when it passes. The SDK's is held too while a proxy is connected, whose claim may be on its
way, and as long after a start of the agent where one was connected to the agent before: it is about to connect and to
claim again what it claimed last. What comes later than that is still counted once: a plug-in's after the SDK's, and the
SDK's after a plug-in's that has passed alone, are left out. Ids are remembered for as long as ``IDS_MAX`` others do not
push them out; those that come back, not at all. An SDK that reads a stream of several choices says so when it begins,
as the first may end long before the last: what others report of that request is held for it, ``EXPECTED_S`` at most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from producers.receiver.datagram import json_bytes_of, with_fields
from producers.requests.counted_once import (
    GATEWAY,
    ID_LENGTH_MAX,
    PLUGIN,
    SDK,
    comes_back,
    common_id,
    lacking,
    reporter_of,
)

HELD_S = 1.0
HELD_LONGEST_S = 5.0
"""Each report of a request holds those before it as long as itself (choices end one after another, and the SDK reports
them when the last has), but the first of them no longer than this."""
EXPECTED_S = 600.0
"""So long is held what others report of an expected request; an SDK that has not reported it by then is taken for dead.
"""
HELD_MAX = 8_192
PLACE_BYTES = 4_096
"""Places for reports that are held, and bytes of each: times of a long stream take several. A report that comes when
there are too few passes at once."""
HELD_JSON_BYTES_MAX = 4_096
"""One whose fields are longer passes at once: those that others add must fit its datagram."""
EXPECTED_MAX = HELD_MAX // 2
"""Of these places, for expected requests; more reports are held no longer than others, which so find room."""
IDS_MAX = 65_536
_REPLACED = ("user_hash", "engine_id", "address")

Row = dict[str, Any]
Give = Callable[[str, Row], None]
"""Gives the proxy that claimed an id a report of it."""


class Once:
    """What one agent remembers of ids. ``held`` is how many places reports that wait take, ``absorbed`` how many that
    had waited another of them took over, since the caller last looked."""

    def __init__(self) -> None:
        self._whole: dict[str, Give | None] = {}  # by id: the proxy that claimed it; None: reported by the SDK
        self._alone: dict[str, None] = {}  # of plug-ins' reports that passed
        self._held: dict[str, list[tuple[float, Row, bytes]]] = {}
        self._expected: dict[str, None] = {}  # of requests that an SDK will report
        self._of_expected: dict[str, list[tuple[float, Row, bytes]]] = {}  # held for longer
        self._held_longer = 0
        self._proxies_by_s = 0.0  # those of the agent before are connected by then
        self.proxies = 0
        """Connected now."""
        self.held = 0
        self.absorbed = 0

    def await_proxies(self, now_s: float) -> None:
        """One was connected to the agent before this one, and can connect from now on."""
        self._proxies_by_s = now_s + HELD_S

    def claim(self, request_id: str, give: Give) -> None:
        """A proxy reports this request. Reports that are held already are given to it."""
        _remember(self._whole, request_id, give)
        for _, row, _ in self._taken(request_id):
            give(request_id, row)

    def expect(self, row: Row, now_s: float) -> None:
        """An SDK reads a stream of several choices, and will report the request of this id."""
        if (named := _named(row)) is None or named[0] in self._whole or named[0] in self._alone:
            return
        name = named[0]
        if comes_back(name):
            return
        _remember(self._expected, name, None)
        if self._held_longer < EXPECTED_MAX:
            for _, report, data in self._held.pop(name, []):
                self._hold_for_sdk(name, report, data, now_s)

    def forsake(self, give: Give) -> None:
        """The proxy is gone without reporting all that it claimed: what others report of that are events again."""
        for request_id in [each for each, to in self._whole.items() if to == give]:
            del self._whole[request_id]

    def has_claim(self, row: Row) -> bool:
        """Whether a proxy claimed the request of this report."""
        named = _named(row)
        return named is not None and self._whole.get(named[0]) is not None

    def judge(self, sent: Sequence[Row], datagram: Callable[[int], bytes], now_s: float) -> tuple[list[bool], int]:
        """Which of these reports are events now, and how many never will be. Whole ones get the fields they lack."""
        now, absorbed = [True] * len(sent), 0
        for at, row in enumerate(sent):
            if (named := _named(row)) is None:
                continue
            name, reported_by = named
            if self._absorbs(name, row, reported_by):
                now[at] = False
                absorbed += 1
            elif reported_by != SDK:
                now[at] = not self._hold(name, row, datagram(at), now_s)
                if now[at]:
                    self._passes(name, reported_by)
            elif (self.proxies or now_s < self._proxies_by_s) and self._hold(name, row, datagram(at), now_s):
                now[at] = False
            else:
                absorbed += self._take_over(name, row)
        return now, absorbed

    def _hold(self, name: str, row: Row, data: bytes, now_s: float) -> bool:
        """False where there is no room for it."""
        places = _places(data)
        if self.held + places > HELD_MAX or json_bytes_of(data) > HELD_JSON_BYTES_MAX:
            return False
        self.held += places
        if reporter_of(row) == SDK:
            self._expected.pop(name, None)
            expecting = [(now_s + HELD_S, *each[1:]) for each in self._taken_of_expected(name)]
        elif name in self._expected and self._held_longer + places <= EXPECTED_MAX:
            self._hold_for_sdk(name, row, data, now_s)
            return True
        else:
            expecting = []
        before = expecting + self._held.pop(name, [])
        longest_s = before[0][0] - HELD_S + HELD_LONGEST_S if before else now_s + HELD_S
        self._held[name] = [*before, (min(now_s + HELD_S, longest_s), row, data)]
        return True

    def _hold_for_sdk(self, name: str, row: Row, data: bytes, now_s: float) -> None:
        held = self._of_expected.setdefault(name, [])
        held.append((held[0][0] if held else now_s + EXPECTED_S, row, data))
        self._held_longer += _places(data)

    def _passes(self, name: str, reported_by: str) -> None:
        """Remember that this report of it is an event without those of others; not by an id that comes back."""
        if comes_back(name):
            return
        if reported_by != SDK:
            _remember(self._alone, name, None)
        if reported_by != PLUGIN:
            _remember(self._whole, name, None)

    def _absorbs(self, name: str, row: Row, reported_by: str) -> bool:
        if name in self._whole and (give := self._whole[name]) is not None:
            give(name, row)
            return True
        if reported_by == PLUGIN:
            return name in self._whole
        if reported_by == GATEWAY:
            return name in self._whole or name in self._alone
        if name in self._alone:
            del self._alone[name]
            return True
        return False

    def _take_over(self, name: str, row: Row) -> int:
        if any(reporter_of(report) == SDK for _, report, _ in self._held.get(name, ())):
            return 0  # of a request before, of the same id: it takes over what waits when it passes
        taken = self._taken(name)
        for _, report, _ in taken:
            row |= lacking(row, report)
        self._passes(name, SDK)
        return len(taken)

    def _taken(self, name: str) -> list[tuple[float, Row, bytes]]:
        self._expected.pop(name, None)
        taken = self._taken_of_expected(name) + self._held.pop(name, [])
        self.held -= sum(_places(data) for _, _, data in taken)
        return taken

    def _taken_of_expected(self, name: str) -> list[tuple[float, Row, bytes]]:
        taken = self._of_expected.pop(name, [])
        self._held_longer -= sum(_places(data) for _, _, data in taken)
        return taken

    def due(self, now_s: float | None) -> list[bytes]:
        """Datagrams that have waited long enough, which are events; None: all of them."""
        out = []
        for held in (self._held, self._of_expected):
            for name, each in list(held.items()):
                if now_s is not None and each[-1][0] > now_s:
                    break  # in order of their latest
                out += self._passed(name)
        return out

    def _passed(self, name: str) -> list[bytes]:
        """What has waited of one request: the SDK's report, else a gateway's, with what others add to it, else the
        plug-ins'."""
        waited: dict[str, list[tuple[Row, bytes]]] = {SDK: [], GATEWAY: [], PLUGIN: []}
        for _, row, data in self._taken(name):
            waited[reporter_of(row)].append((row, data))
        reported_by, passing = next((who, reports) for who, reports in waited.items() if reports)
        self._passes(name, reported_by)
        if reported_by == PLUGIN:
            return [with_fields(data, _ours(row)) for row, data in passing]
        others = [each for who, reports in waited.items() if who != reported_by for each in reports]
        self.absorbed += len(others)
        return [with_fields(data, _ours(row) | _added(row, others)) for row, data in passing]


def _places(data: bytes) -> int:
    return -(-len(data) // PLACE_BYTES)


def _ours(row: Row) -> Row:
    """What the agent may have put in place of the client's words, for the datagram: there they still stand."""
    return {name: row[name] for name in _REPLACED if name in row}


def _added(row: Row, reports: Sequence[tuple[Row, bytes]]) -> Row:
    """What these reports add to a whole one."""
    added: Row = {}
    for report, _ in reports:
        added |= lacking(row | added, report)
    return added


def _named(row: Row) -> tuple[str, str] | None:
    """The id under which the report meets others, and who reports; None: it meets nothing."""
    request_id = row.get("request_id")
    if type(request_id) is not str:
        return None
    reported_by = reporter_of(row)
    name = common_id(request_id, reported_by)
    return (name, reported_by) if 0 < len(name) <= ID_LENGTH_MAX else None


def _remember(ids: dict[str, Any], name: str, value: Any) -> None:
    ids.pop(name, None)
    ids[name] = value
    if len(ids) > IDS_MAX:
        del ids[next(iter(ids))]
