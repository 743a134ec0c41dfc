from __future__ import annotations

import logging

import pytest

from producers.engines.placement import HostPlacement, ProcessMatcher
from producers.engines.processes import ProcessTable
from producers.engines.target import EngineTarget


def test_every_look_places_the_gpus_anew() -> None:
    """And has no rows of its own."""
    tables = [ProcessTable(gpus={"G0": {}}), ProcessTable({8000: {10}}, {}, {"G0": {10: "vllm"}})]
    registry = HostPlacement("h")
    registry.saw_engine(EngineTarget("e", "http://127.0.0.1:8000"))
    matcher = ProcessMatcher(registry, 30_000, read_processes=lambda *_: tables.pop(0), sees_host_pids=lambda: True)

    assert (matcher.name, matcher.period_ms) == ("placement", 5_000)
    assert matcher.collect(1) == []
    assert dict(registry.placement) == {"G0": {"engine_id": None, "placement_group": "h", "workload": "idle"}}
    assert matcher.collect(30_001) == []
    assert dict(registry.placement) == {"G0": {"engine_id": "e", "placement_group": "e", "workload": "inference"}}
    matcher.close()


def test_processes_are_looked_at_seldom_unless_an_engine_is_awaited() -> None:
    """Then at every tick: its first process is to be seen soon. A tick that is a little early counts as due."""
    registry, looks = HostPlacement("h"), list[int]()
    target = EngineTarget("e", "http://127.0.0.1:8000", gpu_uuids=("G",))

    def looked_at(*ticks: int) -> list[int]:
        looks.clear()
        for at_ms in ticks:
            matcher.collect(at_ms)
        return [*looks]

    def table(*_wanted: bool) -> ProcessTable:
        looks.append(1)
        return ProcessTable()

    matcher = ProcessMatcher(registry, 30_000, read_processes=table, sees_host_pids=lambda: True)

    assert len(looked_at(*range(0, 60_000, 5_000))) == 2
    assert len(looked_at(89_990, 94_990)) == 1
    registry.silent_engine(target)
    assert len(looked_at(*range(100_000, 120_000, 5_000))) == 4
    registry.saw_engine(target)
    assert len(looked_at(120_000, 125_000)) == 1, "what computes now is its own"
    registry.saw_engine(EngineTarget("new", "http://127.0.0.1:8001"))
    assert not registry.is_matched("new")
    assert len(looked_at(130_000, 135_000)) == 1
    assert registry.is_matched("new")


def test_hidden_sockets_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """With their number and what to grant; a host that hides nothing is silent."""
    tables = [ProcessTable(), ProcessTable(hidden_sockets=3), ProcessTable(hidden_sockets=4)]
    matcher = ProcessMatcher(
        HostPlacement("h"), 5_000, read_processes=lambda *_: tables.pop(0), sees_host_pids=lambda: True
    )

    with caplog.at_level(logging.WARNING):
        matcher.collect(0)
        assert caplog.records == []
        matcher.collect(5_000)
        matcher.collect(10_000)

    (record,) = caplog.records
    assert (vars(record)["hidden_sockets"], vars(record)["grant"]) == (3, "CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH")


def test_an_agent_that_does_not_see_the_host_s_processes_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    """As soon as there is a GPU or an engine to match, with what to give it."""
    tables = [ProcessTable(), ProcessTable(gpus={"G0": {}}), ProcessTable(gpus={"G0": {}}, hidden_sockets=3)]
    matcher = ProcessMatcher(
        HostPlacement("h"), 5_000, read_processes=lambda *_: tables.pop(0), sees_host_pids=lambda: False
    )

    with caplog.at_level(logging.WARNING):
        matcher.collect(0)
        assert caplog.records == []
        matcher.collect(5_000)
        matcher.collect(10_000)

    (record,) = caplog.records
    assert record.getMessage() == "the host's processes are not visible in this container; engines match no GPU"
    assert vars(record)["grant"].startswith("the host's PID namespace (hostPID")


def test_an_engine_in_a_container_is_that_of_its_first_process() -> None:
    """Its port says nothing on this host; its container is looked for as long as it is there."""
    wanted = list[tuple[bool, bool]]()
    container = "a" * 64

    def table(*asked: bool) -> ProcessTable:
        wanted.append((asked[0], asked[1]))
        return ProcessTable(parents={11: 10}, gpus={"G0": {11: "worker"}}, containers={container: 10})

    registry = HostPlacement("h")
    matcher = ProcessMatcher(registry, 5_000, read_processes=table, sees_host_pids=lambda: True)
    matcher.collect(0)
    registry.saw_engine(EngineTarget("n/pod:8000", "http://10.0.0.7:8000", container_id=container))
    matcher.collect(5_000)

    assert wanted == [(False, False), (True, True)]
    assert registry.of("n/pod:8000") == (("G0",), "n/pod:8000")
    assert set(registry.owners()) == {10, 11}
    assert registry.engine_of(11) == "n/pod:8000"
