"""A proxy's rows and what others report of the same requests."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from producers.identity.host_file import CLAIM_BYTES_MAX
from producers.proxy import claims as module
from producers.proxy.claims import HEARD_S, HELD_S, Claims
from producers.receiver import claims as module_of_agent
from producers.receiver.claims import serving_claims
from producers.receiver.once import Once
from producers.requests.counted_once import ID_LENGTH_MAX
from runtime.counters import Counters
from tests.virtual_clock import VirtualClock

Rows = list[dict[str, Any]]
REPORT = {"request_id": "r", "queue_us": 5}


def row(request_id: str = "r", status: str = "ok") -> dict[str, Any]:
    return {"request_id": request_id, "status": status}


def test_rows_pass_at_once_while_nobody_else_reports() -> None:
    """No agent, or no plug-in."""
    rows = Rows()
    Claims().take(row(), rows.append)

    assert rows == [row()]


def test_a_report_that_is_there_goes_into_its_row() -> None:
    """And into no other."""
    rows, claims = Rows(), Claims(counters=Counters())
    claims.reported(REPORT)
    claims.take(row(), rows.append)
    claims.take(row("s", "aborted"), rows.append)

    assert rows == [row() | {"queue_us": 5}, row("s", "aborted")]


def test_a_row_waits_for_its_report_while_reports_come() -> None:
    """Up to a second; requests that failed are reported by no engine and wait for none."""
    rows, clock = Rows(), VirtualClock()
    claims = Claims(clock=clock, counters=Counters())
    claims.reported({"request_id": "before"})
    for each in (row(), row("s"), row("t", "error")):
        claims.take(each, rows.append)
    assert rows == [row("t", "error")]

    claims.reported(REPORT)
    assert rows[1:] == [row() | {"queue_us": 5}]
    clock.advance(int(HELD_S * 1_000))
    claims.release()
    assert rows[2:] == [row("s")]
    clock.advance(int(HEARD_S * 1_000))
    claims.take(row("u"), rows.append)
    assert rows[3:] == [row("u")]


def test_an_id_that_is_sent_again_loses_no_row() -> None:
    """The one before passes as it is; at the end all pass."""
    rows, claims = Rows(), Claims(clock=VirtualClock(), counters=Counters())
    claims.reported({"request_id": "before"})
    claims.take(row() | {"n": 1}, rows.append)
    claims.take(row() | {"n": 2}, rows.append)
    claims.release(all_of_them=True)

    assert [each["n"] for each in rows] == [1, 2]


def test_reports_of_several_measurers_all_go_into_their_row() -> None:
    """Whether they come before it or after; it waits for each measurer that reports of late, and no longer."""
    sdk, plugin = {"request_id": "r", "tenant": "t"}, REPORT | {"reported_by": "plugin"}
    whole = row() | {"tenant": "t", "queue_us": 5}
    for before, after in (([sdk, plugin], []), ([plugin], [sdk]), ([], [sdk, plugin])):
        rows, clock, counters = Rows(), VirtualClock(), Counters()
        claims = Claims(clock=clock, counters=counters)
        for who in ({}, {"reported_by": "plugin"}):
            claims.reported({"request_id": "before", **who})
        for report in before:
            claims.reported(report)
        claims.take(row(), rows.append)
        for report in after:
            assert rows == []
            claims.reported(report)

        assert rows == [whole]
        assert counters.value("proxy_reports_absorbed") == 1


def test_a_row_waits_for_no_measurer_that_has_fallen_silent() -> None:
    """What others report goes into it, and it passes."""
    rows, clock = Rows(), VirtualClock()
    claims = Claims(clock=clock, counters=Counters())
    claims.reported({"request_id": "before"})
    clock.advance(int(HEARD_S * 1_000))
    claims.reported({"request_id": "before", "reported_by": "plugin"})
    claims.take(row(), rows.append)
    assert rows == []

    claims.reported(REPORT | {"reported_by": "plugin"})
    assert rows == [row() | {"queue_us": 5}]


def test_requests_of_one_id_get_their_reports_in_order(tmp_path: Path) -> None:
    """A client that tries again under the same id while its first attempt is under way: before its rows or after. What
    is left of them goes into no later request."""
    for waits in (False, True):
        rows, claims = Rows(), Claims(lambda: tmp_path, clock=VirtualClock(), counters=Counters())
        for _ in range(2):
            claims.claim("r")
        reports = [REPORT | {"queue_us": number, "reported_by": "plugin"} for number in (1, 2, 3)]
        if waits:
            claims.reported({"request_id": "before", "reported_by": "plugin"})
            for number in (1, 2):
                claims.take(row() | {"n": number}, rows.append)
        for report in reports:
            claims.reported(report)
        if not waits:
            for number in (1, 2):
                claims.take(row() | {"n": number}, rows.append)
        claims.claim("r")
        claims.take(row() | {"n": 3}, rows.append)
        claims.release(all_of_them=True)

        assert [(each["n"], each.get("queue_us")) for each in rows] == [(1, 1), (2, 2), (3, None)]


def test_requests_under_way_are_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The oldest is forgotten: a report that is there when its id is claimed again is dropped."""
    monkeypatch.setattr(module, "CLAIMS_MAX", 1)
    rows, claims = Rows(), Claims(lambda: tmp_path, clock=VirtualClock(), counters=Counters())
    for name in ("r", "s"):
        claims.claim(name)
        claims.reported(REPORT | {"request_id": name})
    for name in ("s", "r"):
        claims.claim(name)
        claims.take(row(name, "aborted"), rows.append)

    assert rows == [row("s", "aborted") | {"queue_us": 5}, row("r", "aborted")]


def test_reports_and_rows_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest report is dropped; a row that cannot wait passes."""
    monkeypatch.setattr(module, "REPORTS_MAX", 1)
    rows, claims = Rows(), Claims(clock=VirtualClock(), counters=Counters())
    claims.reported({"request_id": "a", "queue_us": 1})
    claims.reported({"request_id": "b", "queue_us": 2})
    claims.reported({"request_id": 7})
    for each in (row("c"), row("a"), row("b")):
        claims.take(each, rows.append)

    assert rows == [row("a"), row("b") | {"queue_us": 2}]


async def test_reports_of_one_slice_are_handed_over_together(tmp_path: Path) -> None:
    """In order, a line each."""
    once, written = Once(), list[bytes]()
    proxy = module_of_agent._Proxy(once, set(), tmp_path / "c.connected")
    proxy.connection_made(Written(written))

    proxy.data_received(b"r\n")
    once.judge([dict(REPORT), REPORT | {"tenant": ["t"]}], lambda _: b"", 0.0)
    proxy.close()

    assert [orjson.loads(line) for line in b"".join(written).splitlines()] == [REPORT, REPORT | {"tenant": ["t"]}]


async def test_a_report_that_the_proxy_does_not_read_is_not_given_to_it(tmp_path: Path) -> None:
    """It would end the connection: those of other requests would count until it is there again."""
    once, written = Once(), list[bytes]()
    proxy = module_of_agent._Proxy(once, set(), tmp_path / "c.connected")
    proxy.connection_made(Written(written))

    proxy.data_received(b"r\n")
    judged = once.judge([REPORT | {"text": "x" * CLAIM_BYTES_MAX}, dict(REPORT)], lambda _: b"", 0.0)
    proxy.close()

    assert judged == ([False, False], 2)
    assert [orjson.loads(line) for line in b"".join(written).splitlines()] == [REPORT]


class Written(asyncio.Transport):
    """Keeps what is written, and reads nothing."""

    def __init__(self, written: list[bytes]) -> None:
        super().__init__()
        self._written = written

    def write(self, data: Any) -> None:
        self._written.append(bytes(data))

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        """Nothing is open."""


class Closed(Written):
    """Says whether it was closed."""

    closed = False

    def close(self) -> None:
        self.closed = True


def test_connections_are_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each is a descriptor of the agent. One more is closed, and its end takes nothing from the others."""
    monkeypatch.setattr(module_of_agent, "PROXIES_MAX", 1)
    once, open_now, wires = Once(), set[module_of_agent._Proxy](), (Closed([]), Closed([]))
    proxies = [module_of_agent._Proxy(once, open_now, tmp_path / "c.connected") for _ in wires]

    for proxy, wire in zip(proxies, wires, strict=True):
        proxy.connection_made(wire)
    proxies[1].connection_lost(None)

    assert [wire.closed for wire in wires] == [False, True]
    assert (open_now, once.proxies) == ({proxies[0]}, 1)


class HeardOnce(Once):
    def __init__(self) -> None:
        super().__init__()
        self.claimed: list[str] = []

    def claim(self, request_id: str, give: Any) -> None:
        super().claim(request_id, give)
        self.claimed.append(request_id)


def test_a_claim_that_no_report_meets_is_not_kept(tmp_path: Path) -> None:
    """Of 65,536 ids that are remembered none is longer: as many lines would be gigabytes."""
    once = HeardOnce()
    proxy = module_of_agent._Proxy(once, set(), tmp_path / "c.connected")
    proxy.connection_made(Written([]))

    proxy.data_received(b"r" * ID_LENGTH_MAX + b"\n" + b"s" * (ID_LENGTH_MAX + 1) + b"\nt\n")

    assert once.claimed == ["r" * ID_LENGTH_MAX, "t"]


class HeardClaims(Claims):
    heard: asyncio.Event

    def reported(self, report: dict[str, Any]) -> None:
        super().reported(report)
        self.heard.set()


@pytest.mark.parametrize(
    ("answer_id", "reported_id"),
    [
        (None, "chatcmpl-r"),
        ("resp_a", "resp_a_0"),
        ("chatcmpl-9d1b46ac", "chatcmpl-9d1b46ac"),
        ("9d1b46ac", "9d1b46ac"),
    ],
)
async def test_claims_reach_the_agent_and_reports_come_back(
    tmp_path: Path, answer_id: str | None, reported_id: str
) -> None:
    """Over its socket; a plug-in's report of a claimed request is no event of the agent's, by whichever of its ids."""
    path, once, rows = tmp_path / "c.sock", HeardOnce(), Rows()
    claims = HeardClaims(lambda: path, counters=Counters())
    claims.heard = asyncio.Event()
    async with serving_claims(path, None, once), asyncio.timeout(30):
        running = asyncio.create_task(claims.run())
        while not claims.connected:  # noqa: ASYNC110 -- its first steps
            await asyncio.sleep(0.01)
        claims.claim("r")
        if answer_id is not None:
            claims.claim_answer("r", answer_id)
        while len(once.claimed) < (1 if answer_id is None else 2):  # noqa: ASYNC110 -- on their way
            await asyncio.sleep(0.01)
        report = {"request_id": reported_id, "reported_by": "plugin", "queue_us": 5}
        judged = once.judge([report], lambda _at: b"", 0.0)
        await claims.heard.wait()
        claims.take(row(), rows.append)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    assert judged == ([False], 1)
    assert rows == [row() | {"queue_us": 5}]
    assert not path.exists()


async def test_an_answer_that_is_called_by_the_id_of_its_request_is_claimed_once(tmp_path: Path) -> None:
    """As vLLM does with every request; any other is claimed beside it."""
    path, once = tmp_path / "c.sock", HeardOnce()
    claims = Claims(lambda: path, counters=Counters())
    for name in ("r", "s"):
        claims.claim(name)
        claims.claim_answer(name, "chatcmpl-r")
    running = asyncio.create_task(claims.run())
    async with asyncio.timeout(30), serving_claims(path, None, once):
        while len(once.claimed) < 3:  # noqa: ASYNC110 -- on their way
            await asyncio.sleep(0.01)
        claims.end()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    assert once.claimed == ["r", "s", "r"]


class HeardForsaken(Once):
    def __init__(self) -> None:
        super().__init__()
        self.claimed: list[str] = []
        self.heard, self.forsaken = asyncio.Event(), asyncio.Event()

    def claim(self, request_id: str, give: Any) -> None:
        super().claim(request_id, give)
        self.claimed.append(request_id)
        self.heard.set()

    def forsake(self, give: Any) -> None:
        super().forsake(give)
        self.forsaken.set()


@pytest.mark.parametrize("in_order", [True, False])
async def test_claims_hold_beyond_a_proxy_that_ends_in_order(tmp_path: Path, in_order: bool) -> None:
    """And of one that was killed are forgotten. An agent that starts is told of those made before."""
    path, once = tmp_path / "c.sock", HeardForsaken()
    claims = Claims(lambda: path, counters=Counters())
    claims.claim("r")
    running = asyncio.create_task(claims.run())
    async with asyncio.timeout(30), serving_claims(path, None, once) as open_now:
        await once.heard.wait()
        if in_order:
            claims.end()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        while open_now:  # noqa: ASYNC110 -- the agent's end of it
            await asyncio.sleep(0.01)

    assert once.claimed == ["r"]
    assert once.forsaken.is_set() is not in_order


async def test_reports_of_an_sdk_wait_for_claims_while_a_proxy_is_connected(tmp_path: Path) -> None:
    """A request that is over before its claim has come is the proxy's all the same; without a proxy none waits."""
    path, once = tmp_path / "c.sock", HeardForsaken()
    claims = HeardClaims(lambda: path, counters=Counters())
    claims.heard = asyncio.Event()
    running = asyncio.create_task(claims.run())
    async with asyncio.timeout(30), serving_claims(path, None, once) as open_now:
        while not open_now:  # noqa: ASYNC110 -- its first steps
            await asyncio.sleep(0.01)
        claims.claim("r")
        judged = once.judge([{"request_id": "r"}], lambda _at: b"", 0.0)
        await claims.heard.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        while open_now:  # noqa: ASYNC110 -- the agent's end of it
            await asyncio.sleep(0.01)

    assert judged == ([False], 0)
    assert once.judge([{"request_id": "s"}], lambda _at: b"", 0.0) == ([True], 0)


async def test_a_socket_that_cannot_be_made_is_done_without(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The agent goes on, and says what follows."""
    (tmp_path / "file").touch()
    async with serving_claims(tmp_path / "file" / "c.sock", None, Once()):
        pass

    assert "count twice" in caplog.text
