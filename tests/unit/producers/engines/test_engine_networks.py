"""Which engine a network namespace is of."""

from __future__ import annotations

from dataclasses import replace

from producers.engines.networks import engines_by_network
from producers.engines.placement import HostPlacement
from producers.engines.processes import ProcessTable
from producers.engines.target import EngineTarget
from producers.identity.network import OURS
from runtime.edge_config import JobConfig

ONE = EngineTarget("one", "http://127.0.0.1:8000", gpu_uuids=("G0",))
TWO = EngineTarget("two", "http://127.0.0.1:8001", gpu_uuids=("G1",))
TARGETS = {"one": ONE, "two": TWO}
GPUS = {"G0": {11: "worker"}, "G1": {21: "worker"}}
FORWARDERS: dict[int, tuple[str | None, str]] = {5: ("one", "inference"), 6: ("two", "inference")}
"""What listens on the host for a container that publishes a port."""


def test_engines_behind_published_ports_are_where_their_gpus_are_used() -> None:
    """What listens on this host for them is not the engine. A process that is gone says nothing."""
    assert engines_by_network(TARGETS, FORWARDERS, GPUS, {11: 71, 21: 72}) == {71: "one", 72: "two"}
    assert engines_by_network(TARGETS, FORWARDERS, GPUS, {21: 72}) == {72: "two"}


def test_an_engine_of_the_agent_s_own_network_has_no_other() -> None:
    """Addresses of loopback lead to it by its port."""
    assert engines_by_network(TARGETS, {}, GPUS, {11: OURS, 21: 72}) == {72: "two"}


def test_a_network_of_several_engines_has_none() -> None:
    """A loopback address there may be either's."""
    assert engines_by_network(TARGETS, FORWARDERS, GPUS, {11: 71, 21: 71}) == {}


def test_an_engine_of_several_networks_has_none() -> None:
    """Somebody else computes on its GPU; where both are, nothing is known, be the other engine in one alone."""
    gpus = {"G0": {11: "worker", 12: "notebook"}, "G1": {21: "worker"}}

    assert engines_by_network(TARGETS, FORWARDERS, gpus, {11: 71, 12: 73, 21: 72}) == {72: "two"}
    assert engines_by_network(TARGETS, FORWARDERS, gpus, {11: OURS, 12: 73, 21: 72}) == {72: "two"}
    assert engines_by_network(TARGETS, FORWARDERS, gpus, {11: 71, 12: 72, 21: 72}) == {}


def test_jobs_on_an_engine_s_gpu_are_no_part_of_it() -> None:
    """Nor is where they run."""
    gpus = {"G0": {11: "worker", 12: "python train.py"}}
    jobs = [JobConfig(workload="training", pattern="train")]

    assert engines_by_network({"one": ONE}, FORWARDERS, gpus, {11: 71, 12: 73}, jobs) == {71: "one"}


def test_a_loopback_address_said_elsewhere_is_of_the_engine_of_that_process_or_network() -> None:
    """A pod's engine by its processes; two in one pod by the process alone; what is not known is none's."""
    a, b = "a" * 64, "b" * 64
    registry = HostPlacement("h")
    for name, container in (("p:1", a), ("p:2", b)):
        registry.saw_engine(EngineTarget(name, f"http://10.0.0.7:{name[-1]}", container_id=container))
    table = ProcessTable(parents={10: 1, 11: 10, 20: 1}, containers={a: 10, b: 20}, networks={10: 71, 20: 71})
    registry.saw_processes(table)

    assert [registry.engine_elsewhere(pid, 71) for pid in (10, 11, 20, 99)] == ["p:1", "p:1", "p:2", None]
    registry.saw_processes(replace(table, networks={10: 71, 20: 72}))
    assert [registry.engine_elsewhere(99, network) for network in (71, 72, 73, None)] == ["p:1", "p:2", None, None]
