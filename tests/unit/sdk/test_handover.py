"""The SDK's sequence and its socket: nothing waits, nothing is raised, nothing is lost without being counted."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import fleetpulse_track as track
from fleetpulse_track import handover
from fleetpulse_track.handover import FAREWELL, HEADER, REQUEST, WAITING_BYTES_MAX, Client, default_paths
from tests.unit.producers.receiver import sent


def heads(datagrams: list[bytes]) -> list[tuple[int, int, int, int]]:
    """kind, number, lost since the one before, lost in all."""
    fields = [HEADER.unpack_from(data) for data in datagrams]
    return [(each[1], each[9], each[7], each[10]) for each in fields]


class Agent:
    """A socket that keeps what it is sent; it can go away and come back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.came: list[bytes] = []
        self._socket: socket.socket | None = None
        self.begin()

    def begin(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(self.path))
        self._socket.setblocking(False)

    def end(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
            self.path.unlink()

    def read(self) -> list[bytes]:
        assert self._socket is not None
        came: list[bytes] = []
        with contextlib.suppress(BlockingIOError):
            while True:
                came.append(self._socket.recv(1 << 17))
        return came


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    made = Agent(tmp_path / "a.sock")
    yield made
    made.end()


def finish(client: Client, times: int = 1) -> None:
    for _ in range(times):
        track.request("m", client=client).finish()


def test_each_request_is_one_numbered_datagram(agent: Agent) -> None:
    """From 0 on, of this process."""
    client = Client(str(agent.path))

    finish(client, 3)

    came = agent.read()
    assert heads(came) == [(REQUEST, 0, 0, 0), (REQUEST, 1, 0, 0), (REQUEST, 2, 0, 0)]
    assert HEADER.unpack_from(came[0])[6] == os.getpid()


def test_while_the_agent_is_away_the_line_fills_then_requests_are_counted(agent: Agent) -> None:
    """Two wait, three are dropped; when it is back the two come, and the next says that three were dropped."""
    client = Client(str(agent.path), waiting_max=2)
    agent.end()
    finish(client, 5)
    agent.begin()

    finish(client)

    assert heads(agent.read()) == [(REQUEST, 0, 0, 0), (REQUEST, 1, 0, 0), (REQUEST, 5, 3, 3)]
    assert (client.finished, client.lost) == (6, 3)


def test_an_agent_that_restarted_is_found_at_once(agent: Agent) -> None:
    """The old socket is refused, the new one has the same name: nothing is lost."""
    client = Client(str(agent.path), waiting_max=0)
    finish(client)
    agent.end()
    agent.begin()

    finish(client)

    assert heads(agent.read()) == [(REQUEST, 1, 0, 0)]
    assert client.lost == 0


def test_a_full_queue_makes_requests_wait_in_order(agent: Agent) -> None:
    """More than the kernel keeps for a reader that does not read; all arrive, none out of order."""
    client = Client(str(agent.path))
    finish(client, 100)
    came: list[bytes] = []
    while len(came) < 101:
        came += agent.read()
        if len(came) < 101 and client.finished == 100:
            finish(client)
        client._flush()

    assert [number for _, number, _, _ in heads(came)] == list(range(101))
    assert client.lost == 0


def test_the_farewell_has_the_last_counts(agent: Agent) -> None:
    """What waits is sent first; what cannot be sent any more is counted as lost in it."""
    client = Client(str(agent.path), waiting_max=1)
    agent.end()
    finish(client, 3)
    agent.begin()

    client.close()

    assert heads(agent.read()) == [(REQUEST, 0, 0, 0), (FAREWELL, 3, 2, 2)]


def test_the_farewell_waits_for_a_busy_agent(agent: Agent) -> None:
    """More waits than the socket takes at once; the agent reads meanwhile, and nothing is lost."""
    client = Client(str(agent.path))
    finish(client, 60)
    came: list[bytes] = []
    closing = threading.Thread(target=client.close, args=(20.0,))
    closing.start()
    while closing.is_alive():
        came += agent.read()
    came += agent.read()
    closing.join()

    assert heads(came) == [*((REQUEST, number, 0, 0) for number in range(60)), (FAREWELL, 60, 0, 0)]


def test_the_farewell_waits_no_longer_than_it_may(agent: Agent) -> None:
    """Nobody reads: what the socket took is there, the rest was given up."""
    client = Client(str(agent.path))
    finish(client, 60)

    client.close(0.0)

    assert len(agent.read()) + client.lost == 60


def test_after_a_farewell_nothing_is_sent_twice(agent: Agent) -> None:
    """The next datagram's run begins after it."""
    client = Client(str(agent.path), waiting_max=0)
    agent.end()
    finish(client)
    agent.begin()
    client.close()

    finish(client)

    assert heads(agent.read()) == [(FAREWELL, 1, 1, 1), (REQUEST, 1, 0, 1)]


def test_a_farewell_that_nobody_hears_keeps_the_count(agent: Agent) -> None:
    """The waiting ones were given up then; who comes later hears of them."""
    client = Client(str(agent.path), waiting_max=1)
    agent.end()
    finish(client, 2)
    client.close()
    agent.begin()

    finish(client)

    assert heads(agent.read()) == [(REQUEST, 2, 2, 2)]


def test_a_client_that_never_sent_anything_says_nothing(agent: Agent) -> None:
    """No socket is opened for a farewell."""
    Client(str(agent.path)).close()

    assert agent.read() == []


def test_the_line_is_bounded_in_bytes() -> None:
    """However few datagrams."""
    client = sent.Recorded()
    client.open = False
    long = sent.finished([1] * 4_096)
    for _ in range(40):
        client.hand_over(long)

    assert client._waiting_bytes <= WAITING_BYTES_MAX
    assert len(client._waiting) + client.lost == 40
    client.open = True
    client.hand_over(sent.finished())
    assert heads(client.sent)[-1] == (REQUEST, 40, client.lost, client.lost)


def test_threads_share_one_sequence() -> None:
    """Every number once."""
    client = sent.Recorded()

    def work() -> None:
        finish(client, 200)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [number for _, number, _, _ in heads(client.sent)] == list(range(1_600))


def test_a_finaliser_in_the_middle_of_a_hand_over_waits_for_nothing() -> None:
    """A request that is finished while another is being sent is sent after it."""

    class Nested(sent.Recorded):
        def _sent(self, datagram: bytes) -> bool:
            if not self.sent:
                finish(self)
            return super()._sent(datagram)

    client = Nested()

    finish(client)

    assert [number for _, number, _, _ in heads(client.sent)] == [0, 1]


def test_a_request_that_ends_during_the_farewell_is_sent_after_it(agent: Agent) -> None:
    """Whoever holds the lock looks again before leaving."""
    client = Client(str(agent.path))
    finish(client)

    client._lock = _Ending(client._lock, client)  # type: ignore[assignment]
    client.close()

    expected = [(REQUEST, 0, 0, 0), (FAREWELL, 1, 0, 0), (REQUEST, 1, 0, 0)]
    assert heads(agent.read()) == expected


class _Ending:
    """A lock; just before it is given back for the first time, another request ends."""

    def __init__(self, lock: threading.Lock, client: Client) -> None:
        self._lock = lock
        self._client = client
        self._ended = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        return self._lock.acquire(blocking, timeout) if blocking else self._lock.acquire(blocking)

    def release(self) -> None:
        if not self._ended:
            self._ended = True
            finish(self._client)  # finds the lock held
        self._lock.release()


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"FLEETPULSE_SOCKET": "/a.sock", "XDG_RUNTIME_DIR": "/own"}, ("/a.sock",)),
        ({"XDG_RUNTIME_DIR": "/own"}, ("/own/fleetpulse.sock", "/run/fleetpulse/agent.sock")),
        ({}, ("/run/fleetpulse/agent.sock",)),
    ],
)
def test_where_the_agent_is_looked_for(
    environment: dict[str, str], expected: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A named place alone, else the own folder and the system's."""
    for name in ("FLEETPULSE_SOCKET", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert default_paths() == expected


@pytest.mark.parametrize("left_behind", [True, False])
def test_the_agent_that_listens_is_found(left_behind: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the user's own was killed, and its socket stayed."""
    monkeypatch.delenv("FLEETPULSE_SOCKET", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(handover, "SYSTEM_SOCKET", str(tmp_path / "agent.sock"))
    if left_behind:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as killed:
            killed.bind(str(tmp_path / "fleetpulse.sock"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as agent:
        agent.bind(str(tmp_path / "agent.sock"))
        agent.setblocking(False)
        client = Client()
        finish(client)

        assert agent.recv(65_536)[:4] == handover.MAGIC
        client.close()


@pytest.mark.parametrize("path", ["/nowhere/a.sock", "/dev/null", "/" + "x" * 200, "a\0b"])
def test_no_place_raises(path: str) -> None:
    """Whatever is wrong with it: the request waits, then it is counted."""
    client = Client(path, waiting_max=1)

    finish(client, 2)
    client.close()

    assert (client.finished, client.lost) == (2, 2)


def test_a_fork_begins_a_sequence_of_its_own(agent: Agent) -> None:
    """What waited is the parent's, and a request begun before the fork is sent by the parent alone."""
    code = """if True:
        import os, sys
        import fleetpulse_track as track
        client = track.Client(sys.argv[1])
        before = track.request("before", client=client)
        track.request("parent", client=client).finish()
        child = os.fork()
        before.finish()
        track.request("after", client=client).finish()
        if child:
            os.waitpid(child, 0)
        else:
            os._exit(0)
    """
    subprocess.run([sys.executable, "-c", code, str(agent.path)], check=True)

    came = agent.read()
    by_pid: dict[int, list[tuple[int, str]]] = {}
    for data in came:
        fields = HEADER.unpack_from(data)
        name = "farewell" if fields[1] == FAREWELL else data.split(b'"model":"')[1].split(b'"')[0].decode()
        by_pid.setdefault(fields[6], []).append((fields[9], name))
    assert sorted(by_pid.values()) == [
        [(0, "after")],
        [(0, "parent"), (1, "before"), (2, "after"), (3, "farewell")],
    ]


def test_a_process_says_good_bye(agent: Agent) -> None:
    """At its end, by itself, with what was not sent yet."""
    code = """if True:
        import sys
        import fleetpulse_track as track
        track.request("m").finish()
    """
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "FLEETPULSE_SOCKET": str(agent.path)})

    assert heads(agent.read()) == [(REQUEST, 0, 0, 0), (FAREWELL, 1, 0, 0)]


def test_a_client_that_is_dropped_closes_its_socket(agent: Agent) -> None:
    """With a farewell; a second one would add nothing."""
    client = Client(str(agent.path))
    finish(client)

    client.close()
    del client
    gc.collect()

    assert heads(agent.read()) == [(REQUEST, 0, 0, 0), (FAREWELL, 1, 0, 0)]


def test_the_default_client_is_one() -> None:
    """For all who name none."""
    assert handover.client() is handover.client()


@pytest.mark.parametrize("imported", ["", "import fleetpulse_track"], ids=["by the work", "by the program"])
@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_a_child_of_multiprocessing_says_good_bye(agent: Agent, tmp_path: Path, method: str, imported: str) -> None:
    """It ends by ``os._exit``, before which multiprocessing runs finalisers of its own."""
    (tmp_path / "run.py").write_text(
        f"{imported}\n"
        """if True:
        import multiprocessing, sys
        def work(path):
            import fleetpulse_track as track
            track.request("child", client=CLIENTS.setdefault(path, track.Client(path))).finish()
        CLIENTS = {}
        if __name__ == "__main__":
            if sys.argv[2] == "fork":
                import fleetpulse_track
            child = multiprocessing.get_context(sys.argv[2]).Process(target=work, args=(sys.argv[1],))
            child.start()
            child.join()
    """
    )
    subprocess.run([sys.executable, str(tmp_path / "run.py"), str(agent.path), method], check=True)

    assert [head[:2] for head in heads(agent.read())] == [(REQUEST, 0), (FAREWELL, 1)]


def test_a_datagram_that_fits_no_buffer_is_dropped_and_counted(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would never be accepted: those behind it do not wait for it. A claim is no request that is dropped."""
    connected = handover._connected

    def narrow(path: str) -> socket.socket:
        made = connected(path)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_608)
        return made

    monkeypatch.setattr(handover, "_connected", narrow)
    claiming = Client(str(agent.path))
    claiming.claim(bytes(32_000))
    assert (agent.read(), claiming.lost) == ([], 0)
    client = Client(str(agent.path))
    for model, chunks in (("a", 0), ("b", 4_000), ("c", 0)):
        with track.request(model, client=client) as request:
            for _ in range(chunks):
                request.token()
    assert heads(agent.read()) == [(REQUEST, 0, 0, 0), (REQUEST, 2, 1, 1)]
    assert client.lost == 1

    agent.end()
    waiting = Client(str(agent.path))
    for chunks in (4_000, 0):
        with track.request("m", client=waiting) as request:
            for _ in range(chunks):
                request.token()
    agent.begin()
    track.request("m", client=waiting).finish()
    assert heads(agent.read()) == [(REQUEST, 1, 0, 0), (REQUEST, 2, 1, 1)]
