import asyncio
import contextlib
import json
import socket
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from runtime.counters import COUNTERS, Counters
from runtime.health import BEAT_EVERY_S, CONNECTIONS_MAX, Check, HealthServer, Heartbeat, Readiness
from runtime.runbook import Cause
from schemas.errors import ConfigError

# The server under test listens on loopback: the one thing here that needs a socket.
pytestmark = pytest.mark.enable_socket


def get(server: HealthServer, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=5) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def broken() -> str | None:
    raise RuntimeError("oops")


def test_a_cause_is_counted_as_long_as_it_keeps_any_part() -> None:
    """Two parts wait for the same server: it is away until both go on; then another cause takes its place."""
    readiness, seen = Readiness(), []

    def kept(*causes: Cause) -> None:
        seen.append([COUNTERS.value("cause", cause=cause) for cause in causes])

    readiness.hold("a", "away", Cause.CLICKHOUSE)
    readiness.hold("b", "away", Cause.CLICKHOUSE)
    readiness.release("a")
    kept(Cause.CLICKHOUSE)
    readiness.hold("b", "away", Cause.KAFKA)
    kept(Cause.CLICKHOUSE, Cause.KAFKA)
    readiness.hold("b", "starts")
    kept(Cause.CLICKHOUSE, Cause.KAFKA)

    assert seen == [[1], [0, 1], [0, 0]]


def test_a_cause_that_is_noted_is_counted_and_takes_nobody_out_of_service() -> None:
    """Until the note is gone; a part of the same name that is held does not end it."""
    readiness = Readiness()
    readiness.note("target a", "Alerts not delivered: a responds 500", Cause.DELIVERY)
    readiness.release("target a")
    noted = (readiness.why(), readiness.noted(), COUNTERS.value("cause", cause=Cause.DELIVERY))
    readiness.note("target a", None, Cause.DELIVERY)

    assert noted == (None, "Alerts not delivered: a responds 500", 1)
    assert (readiness.noted(), COUNTERS.value("cause", cause=Cause.DELIVERY)) == (None, 0)


@pytest.mark.parametrize(
    ("check", "status", "answer"),
    [
        pytest.param(lambda: None, 200, {"ok": True, "why": None}, id="well"),
        pytest.param(lambda: "lag grows", 503, {"ok": False, "why": "lag grows"}, id="not well"),
        pytest.param(
            broken, 503, {"ok": False, "why": "the check itself failed: RuntimeError: oops"}, id="a check that fails"
        ),
    ],
)
@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_each_path_tells_its_check(path: str, check: Check, status: int, answer: object) -> None:
    """200 when well, else 503 with the reason; the other path does not depend on it."""
    checks = {"alive": check} if path == "/healthz" else {"ready": check}
    with HealthServer(**checks) as server:  # type: ignore[arg-type]
        found = get(server, path)
        other = get(server, "/readyz" if path == "/healthz" else "/healthz")

    assert (found[0], json.loads(found[1])) == (status, answer)
    assert other[0] == 200


def test_a_note_stands_beside_the_verdict_and_changes_nothing() -> None:
    """What is wrong and no reason to send nobody there; only where readiness is told."""
    with HealthServer(note=lambda: "events cannot be kept") as server:
        ready, alive = get(server, "/readyz"), get(server, "/healthz")

    assert (ready[0], json.loads(ready[1])) == (200, {"ok": True, "why": None, "note": "events cannot be kept"})
    assert json.loads(alive[1]) == {"ok": True, "why": None}


def test_metrics_are_the_processes_counters() -> None:
    """Prometheus text of the counters that were given."""
    counters = Counters()
    counters.add("errors", 2, where="here", error="this")
    with HealthServer(counters=counters) as server:
        status, text = get(server, "/metrics")

    assert status == 200
    assert 'fleetpulse_errors_total{error="this",where="here"} 2.0' in text


def test_other_paths_are_not_found() -> None:
    """The answer names the paths there are."""
    with HealthServer() as server:
        assert get(server, "/secrets") == (404, "/healthz /readyz /metrics\n")


def test_connections_are_bounded_and_come_free_again() -> None:
    """One more than the limit gets 503 and is closed; no connection takes a thread; whoever leaves makes room."""
    with HealthServer() as server, contextlib.ExitStack() as idle:
        threads = threading.active_count()
        held = [
            idle.enter_context(socket.create_connection(("127.0.0.1", server.port))) for _ in range(CONNECTIONS_MAX)
        ]
        with socket.create_connection(("127.0.0.1", server.port), timeout=5) as beyond:
            refused = beyond.makefile("rb").read()
        threads -= threading.active_count()
        for one in held:
            one.close()
        answers = [_reached(server) for _ in range(100)]

    assert refused.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert refused.endswith(b"\r\n\r\ntry again later\n")
    assert (threads, 200 in answers) == (0, True)


def _reached(server: HealthServer) -> int | None:
    try:
        return get(server, "/healthz")[0]
    except OSError:  # the server has not yet noticed that its client left
        return None


def test_the_port_is_written_where_asked(tmp_path: Path) -> None:
    """Whoever started the process with port 0 finds the port in the file."""
    with HealthServer(port_file=tmp_path / "port") as server:
        assert (tmp_path / "port").read_text() == f"{server.port}\n"
    assert [path.name for path in tmp_path.iterdir()] == ["port"]


def test_a_taken_port_is_named() -> None:
    """The process does not start without its endpoint."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]

        with pytest.raises(ConfigError, match=rf"health.port = '127.0.0.1:{port}'"):
            HealthServer(port=port)


def test_a_closed_server_gives_its_port_back() -> None:
    """The same port can be had again at once."""
    with HealthServer() as server:
        port = server.port

    with HealthServer(port=port) as again:
        assert get(again, "/healthz")[0] == 200


def test_ready_is_who_has_no_part_that_waits() -> None:
    """Every part that waits says why, on one line; a part that goes on twice is no error."""
    readiness = Readiness(groups="the sink is starting")
    seen = [readiness.why()]
    readiness.hold("database", "ClickHouse is away:\n refused")
    seen.append(readiness.why())
    readiness.release("groups")
    readiness.hold("database", "ClickHouse is away")
    seen.append(readiness.why())
    readiness.release("database")
    readiness.release("database")
    seen.append(readiness.why())

    assert seen == [
        "the sink is starting",
        "the sink is starting; ClickHouse is away: refused",
        "ClickHouse is away",
        None,
    ]


def test_what_holds_a_process_up_is_one_line_at_readyz() -> None:
    """503 while a part waits, 200 as soon as none does."""
    readiness = Readiness(partitions="two\nlines")
    with HealthServer(ready=readiness.why) as server:
        before = get(server, "/readyz")
        readiness.release("partitions")
        after = get(server, "/readyz")

    assert before == (503, '{"ok": false, "why": "two lines"}\n')
    assert after == (200, '{"ok": true, "why": null}\n')


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Loop:
    """An event loop whose calls are made when told."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, Any, Any]] = []

    def call_later(self, in_s: float, call: Any, *arguments: Any) -> None:
        self.calls.append((in_s, call, arguments))

    def turn(self) -> None:
        calls, self.calls = self.calls, []
        for _, call, arguments in calls:
            call(*arguments)


def test_a_loop_that_stands_still_for_too_long_is_dead_until_it_turns() -> None:
    """Before there is a loop nothing is wrong, and neither is it after 20 s in which a state was loaded."""
    clock, loop = Clock(), Loop()
    heartbeat = Heartbeat(now_s=clock)
    clock.now_s = 1_000.0
    seen = [heartbeat.why_dead()]
    heartbeat.follow(loop)  # type: ignore[arg-type]
    for still_s in (20, 40, 0.5):
        clock.now_s += still_s
        seen.append(heartbeat.why_dead())
    loop.turn()
    seen.append(heartbeat.why_dead())

    assert seen == [None, None, None, "the event loop has stood still for 60 s", None]
    assert [in_s for in_s, _, _ in loop.calls] == [BEAT_EVERY_S]


def test_the_loop_that_the_main_thread_runs_is_followed_and_no_other() -> None:
    """The loop of another thread would hide that it stands still; one that is never run would be taken for dead."""
    clock, policy, told = Clock(), asyncio.get_event_loop_policy(), list[str | None]()
    heartbeat = Heartbeat(now_s=clock)

    async def idle() -> None:
        """A turn."""

    async def body() -> None:
        told.append(heartbeat.why_dead())
        clock.now_s += 61
        other = threading.Thread(target=lambda: asyncio.run(idle()))
        other.start()
        other.join()
        told.append(heartbeat.why_dead())

    with heartbeat.of_main_loop():
        never_run = asyncio.new_event_loop()
        clock.now_s += 61
        told.append(heartbeat.why_dead())
        asyncio.run(body())
        asyncio.run(body())
        never_run.close()

    dead = "the event loop has stood still for 61 s"
    assert told == [None, None, dead, None, dead]
    assert asyncio.get_event_loop_policy() is policy


def test_a_library_has_its_policy_back_after_a_failure() -> None:
    """Whatever came out of the loop."""
    policy = asyncio.get_event_loop_policy()

    with pytest.raises(KeyError), Heartbeat().of_main_loop():
        raise KeyError

    assert asyncio.get_event_loop_policy() is policy


@pytest.mark.enable_socket
def test_the_address_is_the_configured_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Loopback unless told; in a container every address."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLEETPULSE_DATA_DIR", str(tmp_path))
    with HealthServer() as usual:
        monkeypatch.setenv("FLEETPULSE_HEALTH_HOST", "0.0.0.0")
        with HealthServer() as told:
            found = [server.address[0] for server in (usual, told)]

    assert found == ["127.0.0.1", "0.0.0.0"]
