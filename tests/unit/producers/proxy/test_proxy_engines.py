"""The engine of each upstream: by the host's file, by the topic, by the name's addresses, and while it is not known."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from producers.engines.target import sought
from producers.identity import host_file
from producers.identity.directory import Directory
from producers.identity.host_engines import HostEngines
from producers.identity.topic_reader import TopicEngines
from producers.proxy import engines as proxy_engines
from producers.proxy.engines import HELD_S, NAMES_AGAIN_S, NAMES_EVERY_S, OnRow, UpstreamEngines
from runtime.config import KafkaConfig
from runtime.counters import Counters
from runtime.proxy_config import UpstreamConfig
from schemas.contract.engines import REPEATED_EVERY_MS, Engine, encode
from tests.virtual_clock import VirtualClock

Rows = list[dict[str, Any]]
ENGINE = Engine("e", "h-1", "e+f", ("h-1:8000", "10.0.0.7:8000"), model_version="r1", precision="bf16", reported_ms=1)


def row() -> dict[str, Any]:
    return {"at_ms": 1_000, "status": "ok"}


def no_names(_name: str) -> Iterable[str]:
    raise OSError("no such name")


def engines_of(*urls: str, path: Path | None = None, topic: TopicEngines | None = None, **more: Any) -> UpstreamEngines:
    upstreams = [UpstreamConfig(url=url) for url in urls]
    return UpstreamEngines(
        upstreams, None if path is None else lambda: path, topic, counters=Counters(), **{"resolve": no_names, **more}
    )


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Path]:
    """The file of a living agent that knows no engine yet."""
    with host_file.held(tmp_path / "f"):
        host_file.write(tmp_path / "f", "h-1", [])
        yield tmp_path / "f"


def joined(rows: Rows) -> list[tuple[Any, Any]]:
    return [(each.get("engine_id"), each.get("placement_group")) for each in rows]


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000", "http://localhost:8000/v1", "http://h-1:8000"])
def test_an_upstream_of_this_host_is_what_the_agent_says(url: str, tmp_path: Path) -> None:
    """The id that the agent gave the engine it found on a port, its group and its facts, without any configuration."""
    host, rows = HostEngines("h-1"), Rows()
    (target,) = sought([8000], "h-1")
    host.saw(Engine(target.engine_id, "", "g", host.addresses(target.remote_name, target.port), precision="fp8"))
    host_file.write(tmp_path / "f", host.host, host.directory.engines)
    engines = engines_of(url, path=tmp_path / "f")
    engines.look()
    engines.take(row(), 0, rows.append)

    assert joined(rows) == [("h-1:8000", "g")]
    assert rows[0]["precision"] == "fp8"


def test_an_upstream_of_another_host_is_found_in_the_topic() -> None:
    """By its address, and by the one that its name stands for; a name for several engines stands for none."""
    topic, rows = TopicEngines(KafkaConfig(), lambda: 1), Rows()
    topic.take(ENGINE.key, encode(ENGINE))
    names = {"one": ["10.0.0.7"], "pool": ["10.0.0.7", "10.0.0.8"]}
    urls = ("http://10.0.0.7:8000", "http://one:8000", "http://pool:8000")
    engines = engines_of(*urls, topic=topic, resolve=lambda name: names.get(name, []))
    engines.look()
    for where in range(3):
        engines.take(row(), where, rows.append)
    engines.release(all_of_them=True)

    assert joined(rows) == [("e", "e+f"), ("e", "e+f"), (None, None)]


def test_a_lookup_that_fails_changes_nothing_and_is_soon_repeated() -> None:
    """A name server that is away for a moment takes no engine from its upstream."""
    topic, rows, clock = TopicEngines(KafkaConfig(), lambda: 1), Rows(), VirtualClock()
    topic.take(ENGINE.key, encode(ENGINE))
    known: dict[str, list[str]] = {}

    def lookup(name: str) -> list[str]:
        if name not in known:
            raise OSError("name server unreachable")
        return known[name]

    engines = engines_of("http://one:8000", topic=topic, resolve=lookup, clock=clock)
    steps: list[tuple[dict[str, list[str]], float]] = [
        ({}, NAMES_AGAIN_S),
        ({"one": ["10.0.0.7"]}, NAMES_EVERY_S),
        ({}, NAMES_AGAIN_S),
        ({"one": ["10.0.0.9"]}, 0.0),
    ]
    for found, pause_s in steps:
        known.clear()
        known.update(found)
        engines.look()
        engines.take(row(), 0, rows.append)
        engines.release(all_of_them=True)
        clock.advance(round(pause_s * 1_000))

    assert joined(rows) == [(None, None), ("e", "e+f"), ("e", "e+f"), (None, None)]


def test_what_is_configured_comes_first() -> None:
    """And needs no agent."""
    rows = Rows()
    engines = UpstreamEngines(
        [UpstreamConfig(url="http://x:1", engine_id="mine", placement_group="g")], counters=Counters()
    )
    engines.take(row(), 0, rows.append)
    engines.take(row(), None, rows.append)

    assert joined(rows) == [("mine", "g"), (None, None)]


def test_rows_are_held_until_the_agent_has_found_the_engine(agent: Path) -> None:
    """In their order; those of other upstreams pass."""
    path, rows = agent, Rows()
    engines = engines_of("http://127.0.0.1:8000", path=path, clock=VirtualClock())
    engines.look()
    for at_ms in (1, 2):
        engines.take(row() | {"at_ms": at_ms}, 0, rows.append)
    engines.release()
    assert rows == []

    host_file.write(path, "h-1", [ENGINE])
    engines.look()
    engines.release()

    assert [(each["at_ms"], each["engine_id"]) for each in rows] == [(1, "e"), (2, "e")]


def test_who_comes_once_the_engine_is_known_does_not_overtake(agent: Path) -> None:
    """What was held goes before it, so that the first request of an engine is cold and no other."""
    rows, started = Rows(), replace(ENGINE, started_ms=500)
    engines = engines_of("http://127.0.0.1:8000", path=agent, clock=VirtualClock())
    engines.take(row() | {"at_ms": 1_000, "e2e_us": 100_000}, 0, rows.append)
    host_file.write(agent, "h-1", [started])
    engines.look()
    engines.take(row() | {"at_ms": 1_200, "e2e_us": 100_000}, 0, rows.append)

    assert [(each["at_ms"], each["start"]) for each in rows] == [(1_000, "cold"), (1_200, "warm")]


@pytest.mark.parametrize(("known", "expected"), [([ENGINE], ("e", "e+f")), ([], (None, None))])
def test_a_request_may_come_before_the_file_was_read(
    tmp_path: Path, known: list[Engine], expected: tuple[Any, Any]
) -> None:
    """It waits for that; no longer where no agent lives that may find its engine."""
    host_file.write(tmp_path / "f", "h-1", known)
    rows = Rows()
    engines = engines_of("http://127.0.0.1:8000", path=tmp_path / "f", clock=VirtualClock())
    engines.take(row(), 0, rows.append)
    assert rows == []

    engines.look()
    engines.release()

    assert joined(rows) == [expected]


def test_rows_of_an_engine_that_is_not_found_pass_in_the_end(agent: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Once, with one line in the log; and later ones get it as soon as it is known."""
    path, rows, clock = agent, Rows(), VirtualClock()
    engines = engines_of("http://127.0.0.1:8000", path=path, clock=clock)
    engines.look()
    engines.take(row(), 0, rows.append)
    clock.advance(round(HELD_S * 1_000))
    engines.release()
    engines.take(row(), 0, rows.append)

    assert joined(rows) == [(None, None)] * 2
    assert caplog.text.count("engine of an upstream unknown") == 1
    host_file.write(path, "h-1", [ENGINE])
    engines.look()
    engines.take(row(), 0, rows.append)
    assert joined(rows)[2] == ("e", "e+f")


def test_without_any_agent_nothing_is_held() -> None:
    """Who runs a proxy alone gets rows at once."""
    rows = Rows()
    engines_of("http://127.0.0.1:8000").take(row(), 0, rows.append)

    assert joined(rows) == [(None, None)]


def test_a_dead_agent_is_not_waited_for(tmp_path: Path) -> None:
    """Its file is there, and nobody is who could add an engine to it: rows pass at once. What it names is joined."""
    path, rows = tmp_path / "f", Rows()
    with host_file.held(path):
        host_file.write(path, "h-1", [ENGINE])
    engines = engines_of("http://127.0.0.1:8000", "http://127.0.0.1:8001", path=path)
    engines.look()
    engines.take(row(), 0, rows.append)
    engines.take(row(), 1, rows.append)

    assert joined(rows) == [("e", "e+f"), (None, None)]


def test_rows_are_held_for_a_living_agent_alone(tmp_path: Path) -> None:
    """What waits when it dies passes with the next look; once another writes the file, it is waited for again."""
    path, rows, clock = tmp_path / "f", Rows(), VirtualClock()
    engines = engines_of("http://127.0.0.1:8000", path=path, clock=clock)
    with host_file.held(path):
        host_file.write(path, "h-1", [])
        engines.look()
        engines.take(row(), 0, rows.append)
        engines.release()
        assert rows == []
    engines.look()
    engines.release()
    assert joined(rows) == [(None, None)]

    with host_file.held(path):
        engines.look()
        clock.advance(round(HELD_S * 1_000))
        engines.take(row(), 0, rows.append)
        host_file.write(path, "h-1", [ENGINE])
        engines.look()
        engines.release()
    assert joined(rows) == [(None, None), ("e", "e+f")]


def test_agents_of_other_hosts_are_not_waited_for_in_vain() -> None:
    """They cannot name an engine of this machine, nor any when none has reported for two rounds."""
    now_ms, rows = [1], Rows()
    topic = TopicEngines(KafkaConfig(), lambda: now_ms[0])
    topic.take(ENGINE.key, encode(ENGINE))
    engines = engines_of("http://127.0.0.1:8000", "http://10.0.0.8:8000", topic=topic)
    engines.take(row(), 0, rows.append)
    engines.take(row(), 1, rows.append)
    assert len(rows) == 1

    now_ms[0] += 2 * REPEATED_EVERY_MS + 1
    engines.release()
    assert len(rows) == 2


def test_the_end_of_the_proxy_lets_all_rows_go(agent: Path) -> None:
    """None is lost."""
    rows = Rows()
    engines = engines_of("http://127.0.0.1:8000", path=agent)
    engines.look()
    engines.take(row(), 0, rows.append)
    assert rows == []
    engines.release(all_of_them=True)

    assert len(rows) == 1


def test_what_was_known_stays_known_while_the_file_is_away(tmp_path: Path) -> None:
    """Its agent may be restarting; a damaged file changes nothing either."""
    path, rows = tmp_path / "f", Rows()
    host_file.write(path, "h-1", [ENGINE])
    engines = engines_of("http://127.0.0.1:8000", path=path)
    engines.look()
    path.write_bytes(b"{")
    engines.look()
    path.unlink()
    engines.look()
    engines.take(row(), 0, rows.append)

    assert joined(rows) == [("e", "e+f")]


def test_a_request_reads_no_list_of_all_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway may know 100,000 engines: rows are joined by lookups alone, and no directory is filled for them."""
    topic, rows = TopicEngines(KafkaConfig(), lambda: 1), Rows()
    for number in range(1_000):
        each = replace(ENGINE, engine_id=f"e-{number}", addresses=(f"10.0.1.{number}:8000",))
        topic.take(each.key, encode(each))
    topic.take(ENGINE.key, encode(ENGINE))
    engines = engines_of("http://10.0.0.7:8000", "http://10.0.0.8:8000", topic=topic)
    filled: list[Engine] = []
    monkeypatch.setattr(Directory, "put", lambda _directory, engine: filled.append(engine))
    monkeypatch.setattr(Directory, "engines", property(lambda _directory: pytest.fail("all engines were listed")))

    engines.take(row(), 0, rows.append)
    engines.take(row(), 1, rows.append)
    engines.release(all_of_them=True)

    assert joined(rows) == [("e", "e+f"), (None, None)]
    assert filled == []


async def passed_while_running(engines: UpstreamEngines, *before: OnRow) -> Rows:
    """Rows of one request, taken behind one for each of ``before``, once the first of them has passed."""
    rows, passed = Rows(), asyncio.Event()

    def on_row(each: dict[str, Any]) -> None:
        rows.append(each)
        passed.set()

    for take in (*before, on_row):
        engines.take(row(), 0, take)
    running = asyncio.create_task(engines.run())
    await asyncio.wait_for(passed.wait(), 60)
    running.cancel()
    await asyncio.wait({running})
    return rows


async def test_a_look_that_fails_is_not_the_last(
    agent: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged once, and what waits for the engine gets it by a later one."""
    monkeypatch.setattr(proxy_engines, "LOOK_EVERY_S", 0.0)
    host_file.write(agent, "h-1", [ENGINE])
    failing = iter([PermissionError("not yours")] * 3)

    def path() -> Path:
        for error in failing:
            raise error
        return agent

    upstreams = [UpstreamConfig(url="http://127.0.0.1:8000")]
    engines = UpstreamEngines(upstreams, path, clock=VirtualClock(), counters=Counters(), resolve=no_names)
    rows = await passed_while_running(engines)

    assert joined(rows) == [("e", "e+f")]
    assert caplog.text.count("looking for the engines of upstreams failed") == 1


async def test_a_row_that_cannot_be_passed_on_is_not_the_last(
    agent: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is lost alone: engines are looked for as before, and what is held passes."""
    monkeypatch.setattr(proxy_engines, "LOOK_EVERY_S", 0.0)
    host_file.write(agent, "h-1", [ENGINE])
    engines = engines_of("http://127.0.0.1:8000", path=agent, clock=VirtualClock())

    def broken(_row: dict[str, Any]) -> None:
        raise TypeError("of a row")

    rows = await passed_while_running(engines, broken)

    assert joined(rows) == [("e", "e+f")]
    assert caplog.text.count("publishing rows failed") == 1
