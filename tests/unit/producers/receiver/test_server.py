"""The receiver: from the SDK's socket to the spool, and the books of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fleetpulse_track as track
from fleetpulse_track.handover import FAREWELL, HEADER, MAGIC, METRIC, REQUEST, STEP, hand_over_json
from producers.identity.directory import Directory
from producers.identity.host_file import claims_beside
from producers.identity.joiner import Joiner
from producers.identity.network import OURS
from producers.publish.publisher import Publisher
from producers.receiver import once, server
from producers.receiver.client_fields import Where
from producers.receiver.intake import Intake
from producers.receiver.server import run_receiver
from producers.requests.client_names import ClientNames
from runtime.counters import Counters
from runtime.edge_config import ReceiverConfig
from schemas.contract.engines import Engine
from schemas.errors import ConfigError
from schemas.events.event_types import CUSTOM_METRICS
from tests.unit.producers.receiver import sent, spooled

WHERE = Where("h-1")


class Running:
    """A receiver at work."""

    def __init__(self, folder: Path, settings: ReceiverConfig, publisher: Publisher, where: Where) -> None:
        self.path = folder / "a.sock"
        self.counters = spooled.RecordingCounters()
        self.publisher = publisher
        self.stop = asyncio.Event()
        settings = settings.model_copy(update={"socket": self.path})
        self.task = asyncio.create_task(run_receiver(publisher, settings, self.stop, self.counters, where=where))

    async def end(self) -> None:
        self.stop.set()
        await self.task


@contextlib.asynccontextmanager
async def receiving(
    folder: Path, publisher: Publisher | None = None, settings: ReceiverConfig | None = None, where: Where = WHERE
) -> AsyncIterator[Running]:
    publisher, settings = publisher or spooled.publisher(folder / "spool"), settings or ReceiverConfig(linger_ms=5)
    running = Running(folder, settings, publisher, where)
    while not running.path.exists() and not running.task.done():  # noqa: ASYNC110 (its first steps, no more)
        await asyncio.sleep(0)
    try:
        yield running
    finally:
        await running.end()
        running.publisher.spool.close()


async def tracked(client: track.Client, requests: int) -> None:
    for number in range(requests):
        with track.request("m", client=client, request_id=f"r{number}") as request:
            request.token()
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([5] * server.SLICE_DATAGRAMS, [server.SLICE_DATAGRAMS], id="as many as fit"),
        pytest.param([5] * (server.SLICE_DATAGRAMS + 1), [server.SLICE_DATAGRAMS, 1], id="one more than fit"),
        pytest.param([server.SLICE_BYTES - 1, 1, 1], [2, 1], id="as many bytes as fit, and one more"),
        pytest.param([server.SLICE_BYTES + 1, 1], [1, 1], id="one that is longer than all"),
        pytest.param([0, 0, 5], [3], id="empty ones"),
    ],
)
def test_datagrams_are_looked_at_in_slices(sizes: list[int], expected: list[int]) -> None:
    """In order, within both limits, each datagram once."""
    ends = np.cumsum(np.array(sizes, np.int64))

    found = list(server.slices(ends))

    assert [len(part) for _, part in found] == expected
    assert [begin for begin, _ in found] == [0, *(int(part[-1]) for _, part in found)][: len(found)]


async def test_requests_reach_the_spool(tmp_path: Path) -> None:
    """One request by the context manager becomes one row, and the counters agree."""
    async with receiving(tmp_path) as running:
        client = track.Client(str(running.path))
        await tracked(client, 1)
        await running.counters.reached(lambda totals: totals["receiver_datagrams", "taken"] == 1)

        (row,) = spooled.rows(running.publisher)

    assert (row["model"], row["status"], row["chunks"], row["host"]) == ("m", "ok", 1, "h-1")
    assert running.counters.totals == {("receiver_datagrams", "taken"): 1}
    assert running.counters.levels == {"receiver_clients": 1, "receiver_missing": 0}
    assert client.lost == 0


async def test_what_was_accepted_before_the_end_is_spooled(tmp_path: Path) -> None:
    """The stop comes before the linger is over; nothing that was in the socket is left behind."""
    async with receiving(tmp_path, settings=ReceiverConfig(linger_ms=1_000)) as running:
        client = track.Client(str(running.path), waiting_max=0)
        for number in range(8):
            track.request("m", client=client, request_id=f"r{number}").finish()
        await running.end()

        assert [row["request_id"] for row in spooled.rows(running.publisher)] == [f"r{i}" for i in range(8)]
        assert client.lost == 0
    assert not running.path.exists()


async def test_choices_that_end_apart_are_one_event_of_the_client_that_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the first chunk on the agent expects its report: what the plug-in says of a choice waits for that."""
    monkeypatch.setattr(once, "HELD_S", 0.0)  # every other report passes at once
    async with receiving(tmp_path) as running:
        plugin, client = track.Client(str(running.path)), track.Client(str(running.path))
        about = {"client": plugin, "model": "m", "reported_by": "plugin", "queue_us": 5}
        request = track.request("m", client=client, choices=2, request_id="chatcmpl-request-a")
        request.token()
        request.claim()
        client.claim(b"no json")
        await running.counters.reached(lambda totals: ("receiver_datagrams", "claim") in totals)
        for name in ("chatcmpl-request-a", "1_chatcmpl-request-a", "chatcmpl-request-b"):
            track.report(request_id=name, **about)
        await running.counters.reached(lambda totals: ("receiver_datagrams", "taken") in totals)
        request.finish()
        await running.end()
        rows = spooled.rows(running.publisher)

    assert [(row["request_id"], row["choices"], row["chunks"]) for row in rows] == [
        ("chatcmpl-request-b", None, None),
        ("chatcmpl-request-a", 2, 1),
    ]
    outcomes = {"taken": 2, "absorbed": 2, "claim": 1, "broken_json": 1}
    assert running.counters.totals == {("receiver_datagrams", name): count for name, count in outcomes.items()}


async def test_what_a_plug_in_and_the_sdk_report_is_one_event(tmp_path: Path) -> None:
    """The SDK's, with the plug-in's fields; one that nobody else reports passes by itself, at the end at the latest."""
    async with receiving(tmp_path) as running:
        plugin, client = track.Client(str(running.path)), track.Client(str(running.path))
        for name in ("a", "b"):
            about = {"request_id": f"chatcmpl-request-{name}", "reported_by": "plugin", "queue_us": 5}
            track.report(model="m", client=plugin, **about)
        with track.request("m", client=client, request_id="chatcmpl-request-a") as request:
            request.token()
        await running.counters.reached(lambda totals: totals["receiver_datagrams", "absorbed"] == 1)
        await running.end()
        rows = spooled.rows(running.publisher)

    assert {(row["request_id"], row["chunks"], row["queue_us"]) for row in rows} == {
        ("chatcmpl-request-a", 1, 5),
        ("chatcmpl-request-b", None, 5),
    }
    assert len(rows) == 2
    assert running.counters.totals == {("receiver_datagrams", "taken"): 2, ("receiver_datagrams", "absorbed"): 1}


async def test_containers_that_both_say_port_8000_are_two_engines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each publishes another port. Who is no known engine's names none; what is held for others stays its sender's."""
    engines = [Engine("a", "h-1", "a", ("h-1:8000",)), Engine("b", "h-1", "b", ("h-1:8001",))]
    asked = list[tuple[int, int | None]]()

    def engine_elsewhere(pid: int, network: int | None) -> str | None:
        asked.append((pid, network))
        return None if network is None else "b"

    joiner = Joiner("receiver", lambda: Directory(engines, "h-1"), Counters())
    where = Where("h-1", joiner=joiner, engine_elsewhere=engine_elsewhere)
    async with receiving(tmp_path, where=where) as running:
        client = track.Client(str(running.path))
        about = {"client": client, "model": "m", "address": "127.0.0.1:8000"}
        for number, network in enumerate((None, OURS, 71)):
            monkeypatch.setattr("producers.receiver.intake.network_of", lambda _pid, network=network: network)
            track.report(request_id=f"request-{number}", **about)
            known = {("receiver_datagrams", "taken"): number + 1}
            await running.counters.reached(lambda totals, known=known: totals == known)
        monkeypatch.setattr("producers.receiver.intake.network_of", lambda _pid: 71)
        track.report(request_id="request-held", reported_by="plugin", **about)
        await running.end()
        rows = spooled.rows(running.publisher)

    assert {row["request_id"]: row["engine_id"] for row in rows} == {
        "request-0": None,
        "request-1": "a",
        "request-2": "b",
        "request-held": "b",
    }
    assert asked == [(os.getpid(), None), (os.getpid(), 71), (os.getpid(), 71)]


async def test_a_proxy_is_given_the_engine_that_a_container_means_by_loopback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a request that it claimed before the report came, too: the port is another engine's here."""
    monkeypatch.setattr("producers.receiver.intake.network_of", lambda _pid: 71)
    where = Where("h-1", engine_elsewhere=lambda _pid, network: "b" if network == 71 else None)
    given = []
    async with receiving(tmp_path, where=where) as running:
        reader, writer = await claiming(running)
        client = track.Client(str(running.path))
        writer.write(b"request-0\nrequest-1\n")  # the second is claimed when the report of the first has come back
        for number in range(2):
            about = {"request_id": f"request-{number}", "reported_by": "plugin", "engine_id": "127.0.0.1:8000"}
            track.report(client=client, model="m", **about)
            async with asyncio.timeout(spooled.PATIENCE_S):
                given.append(json.loads(await reader.readuntil(b"\n")))
        writer.close()

    assert [(report["request_id"], report["engine_id"]) for report in given] == [("request-0", "b"), ("request-1", "b")]


async def test_a_container_may_mean_this_host_by_loopback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then it is of the engine under the port that it says."""
    engines = [Engine("a", "h-1", "a", ("h-1:8000",))]
    joiner = Joiner("receiver", lambda: Directory(engines, "h-1"), Counters())
    monkeypatch.setattr("producers.receiver.intake.network_of", lambda _pid: 71)
    where = Where("h-1", joiner=joiner, means_here=lambda network: network == 71)
    async with receiving(tmp_path, where=where) as running:
        client = track.Client(str(running.path))
        for port in (8000, 8001):
            track.report(client=client, model="m", request_id=f"request-{port}", address=f"127.0.0.1:{port}")
        await running.counters.reached(lambda totals: totals == {("receiver_datagrams", "taken"): 2})
        await running.end()
        rows = spooled.rows(running.publisher)

    assert {row["request_id"]: row["engine_id"] for row in rows} == {"request-8000": "a", "request-8001": None}


async def test_a_report_that_was_held_keeps_the_user(tmp_path: Path) -> None:
    """Its own, or that of another report of the request. What a client calls a hash is none."""
    claims_beside(tmp_path / "a.sock").with_suffix(".connected").touch()  # the SDK's reports wait for a proxy
    names = ClientNames(b"secret")
    async with receiving(tmp_path, where=Where("h-1", names=names)) as running:
        gateway, client = track.Client(str(running.path)), track.Client(str(running.path))
        about = {"model": "m", "request_id": "chatcmpl-request-a"}
        track.report(client=gateway, user="ann", reported_by="gateway", **about)
        track.report(client=client, **about)
        track.report(client=client, user="bob", **about | {"request_id": "chatcmpl-request-b"})
        forged = json.dumps({**about, "request_id": "chatcmpl-request-c", "status": "ok", "user_hash": "f" * 16})
        hand_over_json(REQUEST, forged.encode(), client=client)
        await running.counters.reached(lambda totals: totals["receiver_datagrams", "taken"] == 3)
        await running.end()
        rows = spooled.rows(running.publisher)

    assert {row["request_id"][-1]: row["user_hash"] for row in rows} == {
        "a": names.user_hash("ann"),
        "b": names.user_hash("bob"),
        "c": None,
    }


async def test_many_requests_come_through_a_short_queue(tmp_path: Path) -> None:
    """What the socket does not take at once waits in the client: all arrive, in order, none twice. The client may hold
    all of them, so that an agent which is slow on a busy machine costs none."""
    async with receiving(tmp_path) as running:
        client = track.Client(str(running.path), waiting_max=2_000)
        await tracked(client, 2_000)
        await asyncio.to_thread(client.close, 300.0)  # the agent reads meanwhile; a bound for one that does not
        await running.end()

        assert [row["request_id"] for row in spooled.rows(running.publisher)] == [f"r{i}" for i in range(2_000)]
    assert running.counters.totals == {("receiver_datagrams", "taken"): 2_000, ("receiver_datagrams", "farewell"): 1}
    assert (client.finished, client.lost) == (2_000, 0)


async def test_who_sees_a_farewell_sees_the_requests_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They gathered with it, and the spool takes its time: until it has them, nobody said good-bye."""
    publisher = spooled.publisher(tmp_path / "spool")
    put = publisher.put

    async def slow(*batch: Any) -> None:
        await asyncio.sleep(0.05)
        await put(*batch)

    monkeypatch.setattr(publisher, "put", slow)
    async with receiving(tmp_path, publisher, ReceiverConfig(linger_ms=200)) as running:
        client = track.Client(str(running.path))
        await tracked(client, 3)
        client.close()
        await running.counters.reached(lambda totals: totals["receiver_datagrams", "farewell"] == 1)
        seen = running.counters.totals["receiver_datagrams", "taken"]

    assert seen == 3


async def claiming(running: Running) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_unix_connection(claims_beside(running.path))


async def test_an_agent_that_starts_again_waits_for_the_proxy_that_was_there(tmp_path: Path) -> None:
    """It connects within half a second: what the SDK reports meanwhile is the proxy's. One that ended is not waited
    for."""
    note = claims_beside(tmp_path / "a.sock").with_suffix(".connected")
    async with receiving(tmp_path) as running:
        reader, writer = await claiming(running)
        async with asyncio.timeout(spooled.PATIENCE_S):
            await running.end()
            await reader.read()
        writer.close()
        assert note.exists()
    async with receiving(tmp_path) as running:
        client = track.Client(str(running.path))
        await tracked(client, 1)
        track.request("m", client=client).finish()  # without an id it meets nothing
        await running.counters.reached(lambda totals: totals["receiver_datagrams", "taken"] >= 1)
        reader, writer = await claiming(running)
        writer.write(b"r0\n")
        async with asyncio.timeout(spooled.PATIENCE_S):
            report = json.loads(await reader.readuntil(b"\n"))
            writer.write(b"\n")
            await reader.read()
        writer.close()
        await running.end()

        assert report["request_id"] == "r0"
        assert len(spooled.rows(running.publisher)) == 1
    assert not note.exists()


async def test_what_clients_dropped_is_declared(tmp_path: Path) -> None:
    """The agent was away; the first datagram that gets through reports the others, the farewell the last."""
    client = track.Client(str(tmp_path / "a.sock"), waiting_max=2)
    await tracked(client, 7)
    async with receiving(tmp_path) as running:
        await tracked(client, 1)
        client.close()
        await running.counters.reached(lambda totals: totals["receiver_datagrams", "taken"] == 3)

        taken = [row["request_id"] for row in spooled.rows(running.publisher)]
        assert (taken, spooled.shed(running.publisher)) == (["r0", "r1", "r0"], 5)
    assert (client.finished, client.lost) == (8, 5)
    assert running.counters.totals["receiver_lost",] == 5
    assert running.counters.levels["receiver_missing"] == 0


async def test_bad_datagrams_are_counted_by_reason(tmp_path: Path) -> None:
    """Each bad one by its name, broken JSON is declared as shed; the good one is taken."""
    client = sent.Recorded()
    client.hand_over(sent.finished([5], model="good"))
    client.hand_over(sent.Finished(0, 0, 0, sent.AT_MS, 0, 0, b"{", 1))
    good, broken = client.sent
    async with receiving(tmp_path) as running:
        with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as sender:
            sender.connect(str(running.path))
            for data in (b"hello", good, good, good[:-1], broken, bytes(70_000)):
                sender.send(data)
        await running.counters.reached(lambda totals: sum(totals.values()) == 6)

        assert [row["model"] for row in spooled.rows(running.publisher)] == ["good"]
        assert spooled.shed(running.publisher) == 1
    assert running.counters.totals == {
        ("receiver_datagrams", "not_ours"): 1,
        ("receiver_datagrams", "duplicate"): 1,
        ("receiver_datagrams", "cut"): 1,
        ("receiver_datagrams", "broken_json"): 1,
        ("receiver_datagrams", "too_long"): 1,
        ("receiver_datagrams", "taken"): 1,
    }


@pytest.mark.parametrize("kind", [REQUEST, STEP, METRIC], ids=["a request", "a step", "a metric"])
@pytest.mark.parametrize("label", ["job", "metric", "engine_id", "itl_bins"])
@pytest.mark.parametrize("depth", [101, 1_010], ids=lambda depth: f"{depth} deep")
async def test_a_datagram_nested_deep_costs_itself(tmp_path: Path, kind: int, label: str, depth: int) -> None:
    """What is read to 1,024 levels, and cannot be written again: it is as one of broken JSON, and others are taken."""
    client, other = sent.Recorded(kind=kind), sent.Recorded()
    text = b'{"%s":%s}' % (label.encode(), b"[" * depth + b"]" * depth)
    hand_over_json(kind, text, 7_000, client)
    other._who = (sent.PID, sent.START_NS + 1)
    other.hand_over(sent.finished([5], model="good"))
    async with receiving(tmp_path) as running:
        with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as sender:
            sender.connect(str(running.path))
            for data in (*client.sent, *other.sent):
                sender.send(data)
        await running.counters.reached(lambda totals: sum(totals.values()) == 2)

        assert [row["model"] for row in spooled.rows(running.publisher)] == ["good"]
        assert sum(tally.shed_events for tally in running.publisher.spool.books.values()) == 1
    assert running.counters.totals == {("receiver_datagrams", "broken_json"): 1, ("receiver_datagrams", "taken"): 1}


async def test_numbers_beyond_all_bounds_reach_no_books(tmp_path: Path) -> None:
    """Four farewells of 72 bytes, each of a client that says it dropped 2^62: no column holds the sum."""
    farewells = [
        HEADER.pack(MAGIC, FAREWELL, 0, 0, 0, 0, pid, 0, sent.START_NS, 2**62, 2**62, sent.AT_MS, 0, 0)
        for pid in range(1, 5)
    ]
    async with receiving(tmp_path) as running:
        with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as sender:
            sender.connect(str(running.path))
            for data in farewells:
                sender.send(data)
        await running.counters.reached(lambda totals: sum(totals.values()) >= 4)

        assert [len(data) for data in farewells] == [72] * 4
        assert running.counters.totals == {("receiver_datagrams", "contents"): 4}
        assert spooled.shed(running.publisher) == 0


async def test_no_process_takes_part_in_the_sequence_of_another(tmp_path: Path) -> None:
    """One that sends under another's pid and start, far ahead, is a client of its own by the kernel's word: nothing of
    the other's counts as missing or as a duplicate."""
    async with receiving(tmp_path) as running:
        client = track.Client(str(running.path))
        await tracked(client, 1)
        await running.counters.reached(lambda totals: totals["receiver_datagrams", "taken"] == 1)
        pid, start_ns = client._who
        forged = HEADER.pack(MAGIC, REQUEST, 0, 2, 0, 0, pid, 0, start_ns, 1_000, 0, 1, 0, 0) + b"{}"
        script = (
            "import socket, sys; s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); "
            "s.connect(sys.argv[1]); s.send(bytes.fromhex(sys.argv[2]))"
        )
        other = await asyncio.create_subprocess_exec(sys.executable, "-c", script, str(running.path), forged.hex())
        assert await other.wait() == 0
        await running.counters.reached(lambda totals: totals["receiver_datagrams", "taken"] == 2)
        await tracked(client, 1)
        await running.counters.reached(lambda totals: totals["receiver_datagrams", "taken"] == 3)

    assert running.counters.totals == {("receiver_datagrams", "taken"): 3}
    assert running.counters.levels == {"receiver_clients": 2, "receiver_missing": 0}


async def test_rows_that_do_not_fit_go_to_those_who_reject(tmp_path: Path) -> None:
    """As a line of JSON in the spool: rejected downstream with its reason, where people look."""
    async with receiving(tmp_path) as running:
        track.request("m", client=track.Client(str(running.path)), input_tokens="many").finish()
        await running.counters.reached(lambda totals: totals["receiver_datagrams", "taken"] == 1)
        running.publisher.spool.sync()

        (record,) = running.publisher.spool.take()
    assert (record.content_type, record.events) == ("application/x-ndjson", 1)
    assert b'"input_tokens":"many"' in record.value


async def test_a_full_spool_sheds_before_it_spools(tmp_path: Path) -> None:
    """Nothing is spooled then, and everything is declared."""
    publisher = spooled.publisher(tmp_path / "spool", bytes_max=1)
    async with receiving(tmp_path, publisher) as running:
        await tracked(track.Client(str(running.path)), 3)
        await running.counters.reached(lambda totals: totals["receiver_datagrams", "taken"] == 3)

        assert (spooled.rows(publisher), spooled.shed(publisher)) == ([], 3)


async def test_a_defect_costs_a_slice_and_is_declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes after it is taken."""
    real, failures = server.fold, iter([RuntimeError("a defect")])

    def fold_once_badly(*args: Any, **named: Any) -> object:
        for failure in failures:
            raise failure
        return real(*args, **named)

    monkeypatch.setattr(server, "fold", fold_once_badly)
    async with receiving(tmp_path) as running:
        client = track.Client(str(running.path))
        await tracked(client, 1)
        await running.counters.reached(lambda totals: totals["receiver_datagrams", "internal"] == 1)
        await tracked(client, 1)
        await running.counters.reached(lambda totals: totals["receiver_datagrams", "taken"] == 1)

        assert (len(spooled.rows(running.publisher)), spooled.shed(running.publisher)) == (1, 1)


@pytest.mark.parametrize("place", ["rows_of", "BatchBuilder.flush"])
async def test_a_defect_costs_steps_or_metrics_and_is_declared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Of one kind and slice; what comes after it is taken."""

    def broken(*_: object) -> object:
        raise RuntimeError("a defect")

    async with receiving(tmp_path) as running:
        metrics = track.Client(str(running.path), kind=METRIC)
        with monkeypatch.context() as patched:
            patched.setattr(f"producers.receiver.server.{place}", broken)
            track.metric("depth", 3, client=metrics)
            await running.counters.reached(lambda totals: totals["receiver_datagrams", "internal"] == 1)
        track.metric("depth", 4, client=metrics)
        await running.counters.reached(lambda totals: totals["receiver_datagrams", "taken"] == 1)

        (row,) = spooled.rows_by_topic(running.publisher, CUSTOM_METRICS)["custom.metrics"]
        books = {topic: tally.shed_events for (_, topic), tally in running.publisher.spool.books.items()}
    assert (row["value_micro"], books) == (4_000_000, {"custom.metrics": 1})
    assert running.counters.totals == {("receiver_datagrams", "internal"): 1, ("receiver_datagrams", "taken"): 1}


async def test_a_place_that_cannot_be_had_is_named(tmp_path: Path) -> None:
    """Before anything is taken."""
    publisher = spooled.publisher(tmp_path / "spool")
    (tmp_path / "a.sock").touch()

    with pytest.raises(ConfigError, match=r"agent\.receiver\.socket"):
        await run_receiver(
            publisher,
            ReceiverConfig(socket=tmp_path / "a.sock"),
            asyncio.Event(),
            spooled.RecordingCounters(),
            where=WHERE,
        )
    publisher.spool.close()


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_buffers_that_were_never_filled_take_no_memory() -> None:
    """However large they may become."""
    size = 128 * 2**20
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as opened:
        before = resident_bytes()
        intake = Intake(opened, size)
        grown = resident_bytes() - before

    assert len(intake) == 0
    assert grown < size // 4
