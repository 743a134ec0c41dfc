"""Which engine a network namespace is of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from producers.engines.networks import engines_by_network, published_network
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


SOUGHT = EngineTarget("h:8000", "http://127.0.0.1:8000", sought=True)


@pytest.mark.parametrize(
    ("targets", "networks", "published"),
    [
        pytest.param([SOUGHT], {11: 71, 21: 71}, 71, id="all is in one container"),
        pytest.param([SOUGHT], {11: 71, 21: 72}, None, id="two containers"),
        pytest.param([SOUGHT], {11: 71, 21: OURS}, None, id="the engine may be of the host"),
        pytest.param([SOUGHT], {11: OURS, 21: OURS}, None, id="the engine is of the host"),
        pytest.param([SOUGHT], {11: 71}, None, id="of one process it is not known"),
        pytest.param([SOUGHT, TWO], {11: 71, 21: 71}, None, id="two engines"),
        pytest.param([], {11: 71, 21: 71}, None, id="no engine"),
        pytest.param([ONE], {11: 71, 21: 71}, None, id="its processes are known by its GPUs"),
        pytest.param([replace(SOUGHT, container_id="a" * 64)], {11: 71, 21: 71}, None, id="they are by its container"),
        pytest.param([replace(SOUGHT, url="http://10.0.0.8:8000")], {11: 71, 21: 71}, None, id="it is elsewhere"),
    ],
)
def test_the_container_behind_the_port_of_the_only_engine_is_the_one_that_computes(
    targets: list[EngineTarget], networks: dict[int, int], published: int | None
) -> None:
    """Nothing but a port shows of what a container publishes; what else is there may be behind it too."""
    assert published_network({each.engine_id: each for each in targets}, GPUS, networks) == published


def test_jobs_are_not_what_an_engine_s_container_is_known_by() -> None:
    """Wherever they compute; without anything that does nothing is known."""
    jobs = [JobConfig(workload="training", pattern="train")]
    gpus = {"G0": {11: "worker"}, "G1": {12: "python train.py"}}

    assert published_network({"h:8000": SOUGHT}, gpus, {11: 71, 12: 73}, jobs) == 71
    assert published_network({"h:8000": SOUGHT}, {"G0": {}}, {}, jobs) is None


def test_in_the_container_behind_the_only_engine_s_port_loopback_means_this_host() -> None:
    """Until there is another engine, or the namespace is known to be the engine's, whatever port it has there."""
    registry = HostPlacement("h")
    registry.saw_engine(SOUGHT)
    table = ProcessTable({8000: {5}}, gpus={"G0": {11: "worker"}}, networks={11: 71})
    registry.saw_processes(table)

    assert [registry.means_here(network) for network in (OURS, 71, 72, None)] == [True, True, False, False]
    registry.saw_processes(replace(table, parents={11: 5}))
    assert (registry.means_here(71), registry.engine_elsewhere(99, 71)) == (False, "h:8000")
    registry.saw_processes(table)
    registry.saw_engine(replace(SOUGHT, engine_id="h:8001", url="http://127.0.0.1:8001"))
    assert [registry.means_here(network) for network in (OURS, 71)] == [True, False]
