from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest

from producers.collector import Collected, Collector
from producers.engines.placement import HostPlacement
from producers.engines.reading import UnknownEngineError
from producers.engines.target import EngineTarget
from producers.identity.host_engines import HostEngines
from producers.kubernetes.listing import Pods
from producers.kubernetes.pod_engines import PodEngines
from producers.kubernetes.pods import Container, Pod
from runtime.counters import Counters
from schemas.events.event_types import ENGINE_EVENTS, ENGINE_SAMPLES
from tests.virtual_clock import VirtualClock


def engine_pod(name: str, container_id: str = "a" * 64, *, terminating: bool = False) -> Pod:
    image = Container("server", "vllm/vllm-openai", container_id)
    return Pod(f"u-{name}", name, "n", "10.0.0.1", running=True, terminating=terminating, containers=(image,))


class Node:
    """A node's pods, and the collectors that were made for its engines."""

    def __init__(self, engines_max: int = 64, cluster: str | None = None) -> None:
        self.pods, self.clock, self.counters = Pods(), VirtualClock(), Counters()
        self.registry = HostPlacement("h", engines=HostEngines("h", cluster=cluster))
        self.log: list[str] = []
        self.takes_ms, self.strange, self.heirs = 0, False, False
        self.events: dict[str, str] = {}
        self.engines = PodEngines(
            self.pods,
            self.registry,
            lambda target: (Heir if self.heirs else Recording)(self, target),
            1_000,
            engines_max=engines_max,
            clock=self.clock,
            counters=self.counters,
        )

    def told(self, at_ms: int, **events: str) -> list[tuple[str, int]]:
        """Events of a round in which engines say these, by pod."""
        self.events = events
        return [
            (row["kind"], row["at_ms"])
            for part in self.engines.collect(at_ms)
            if part.event is ENGINE_EVENTS
            for row in part.rows
        ]

    def round(self) -> list[str]:
        """What was done in it."""
        self.log.clear()
        self.engines.collect(5)
        return [*self.log]


class Recording:
    name, period_ms = "engine", 1_000

    def __init__(self, node: Node, target: EngineTarget) -> None:
        self.node, self.target = node, target
        node.log.append(f"made {target.engine_id}")

    def collect(self, at_ms: int) -> Sequence[Collected]:
        self.node.log.append(f"asked {self.target.engine_id}")
        self.node.clock.advance(self.node.takes_ms)
        if self.node.strange:
            raise UnknownEngineError("a page of something else")
        for pod, kind in self.node.events.items():
            if self.target.engine_id == f"n/{pod}:8000":
                return [Collected(ENGINE_EVENTS, [{"at_ms": at_ms, "kind": kind}])]
        self.node.registry.saw_engine(self.target)
        return [Collected(ENGINE_SAMPLES, [{"at_ms": at_ms}])]

    def close(self) -> None:
        self.node.log.append(f"closed {self.target.engine_id}")


class Heir(Recording):
    def succeed(self, before: Collector) -> None:
        assert isinstance(before, Recording)
        assert (before.target.engine_id, before is self) == (self.target.engine_id, False)
        self.node.log.append(f"succeeds in {self.target.container_id}")


def test_engines_come_and_go_with_their_pods() -> None:
    """A container that was started again is another server under the same name."""
    node = Node()
    assert node.round() == []
    node.pods.replace([engine_pod("a"), engine_pod("b")])
    assert node.round() == ["made n/a:8000", "made n/b:8000", "asked n/a:8000", "asked n/b:8000"]
    assert node.round() == ["asked n/a:8000", "asked n/b:8000"]
    node.pods.replace([engine_pod("a", "b" * 64)])

    assert node.round() == ["closed n/a:8000", "closed n/b:8000", "made n/a:8000", "asked n/a:8000"]
    assert node.registry.in_containers
    node.pods.replace([])
    assert node.round() == ["closed n/a:8000"]
    assert not node.registry.has_engines


def test_an_engine_s_id_names_the_cluster_of_its_pod() -> None:
    """Where the agent knows it; one that is to end is known by it too."""
    node = Node(cluster="eu-1")
    node.pods.replace([engine_pod("a", terminating=True)])

    assert node.round() == ["made eu-1/n/a:8000", "asked eu-1/n/a:8000"]


def test_an_engine_that_goes_with_its_pod_is_not_lost() -> None:
    """It stops answering some seconds before its pod is no longer listed."""
    node = Node()
    node.pods.replace([engine_pod("a"), engine_pod("b")])
    told = [node.told(1, a="lost"), node.told(2)]
    node.pods.replace([engine_pod("b")])

    assert [*told, node.told(3), node.told(4)] == [[], [], [], []]


@pytest.mark.parametrize("container_id", ["a" * 64, "b" * 64], ids=["it hangs", "its container was started again"])
def test_an_engine_is_lost_when_its_pod_is_still_listed(container_id: str) -> None:
    """By a listing that was begun after it was: once, at the time at which that is known."""
    node = Node()
    node.pods.replace([engine_pod("a")])
    node.told(1)
    begun_before = node.pods.begin()
    told = [node.told(2, a="lost")]
    node.pods.replace([engine_pod("a", container_id)], begun_before)
    told.append(node.told(3))
    node.pods.replace([engine_pod("a", container_id)])

    assert [*told, node.told(4), node.told(5)] == [[], [], [("lost", 4)], []]


@pytest.mark.parametrize("kind", ["found", "registered", "changed"])
def test_an_engine_that_answers_again_was_lost_before(kind: str) -> None:
    """Both are told in their order, whatever the listing says."""
    node = Node()
    node.pods.replace([engine_pod("a")])
    node.told(1, a="lost")

    assert node.told(2, a=kind) == [("lost", 2), (kind, 2)]


def test_an_engine_that_is_to_end_is_measured_until_its_pod_is_gone() -> None:
    """It serves what it has begun. That it stops is no loss, though its pod is still listed."""
    node = Node()
    node.pods.replace([engine_pod("a")])
    node.round()
    node.pods.replace([engine_pod("a", terminating=True)])
    asked = node.round()
    told = [node.told(1, a="lost")]
    node.pods.replace([engine_pod("a", terminating=True)])
    told.append(node.told(2))
    node.pods.replace([])

    assert asked == ["asked n/a:8000"]
    assert [*told, node.told(3)] == [[], [], []]
    assert node.round() == []


def test_a_container_that_was_started_again_goes_on_from_the_one_before() -> None:
    """Not one of another engine, nor one whose pod was gone between the two."""
    node = Node()
    node.heirs = True
    node.pods.replace([engine_pod("a"), engine_pod("b")])
    node.round()
    node.pods.replace([engine_pod("a", "b" * 64), engine_pod("c")])
    first = node.round()
    node.pods.replace([])
    node.round()
    node.pods.replace([engine_pod("a", "c" * 64)])

    assert [line for line in first if line.startswith(("made", "succeeds"))] == [
        *("made n/a:8000", f"succeeds in {'b' * 64}", "made n/c:8000")
    ]
    assert node.round() == ["made n/a:8000", "asked n/a:8000"]


def test_a_round_that_takes_too_long_goes_on_in_the_next() -> None:
    """Engines that do not answer cost a time limit each: none is asked never."""
    node = Node()
    node.pods.replace([engine_pod(name) for name in "abc"])
    node.round()
    node.takes_ms = 3_000

    assert [node.round() for _ in range(3)] == [
        ["asked n/a:8000", "asked n/b:8000"],
        ["asked n/c:8000", "asked n/a:8000"],
        ["asked n/b:8000", "asked n/c:8000"],
    ]


def test_too_many_engines_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """The first by name are scraped."""
    node = Node(engines_max=1)
    with caplog.at_level(logging.WARNING):
        for pods in ("ab", "abc"):
            node.pods.replace([engine_pod(name) for name in pods])
            node.round()

    assert node.log == ["asked n/a:8000"]
    assert [vars(record)["setting"] for record in caplog.records] == ["agent.kubernetes.engines_max"]


def test_a_page_of_no_engine_is_warned_of_once_and_costs_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """Counted at every round."""
    node = Node()
    node.strange = True
    node.pods.replace([engine_pod("a"), engine_pod("b")])
    with caplog.at_level(logging.WARNING):
        node.round()
        asked = node.round()
    node.engines.close()

    assert asked == ["asked n/a:8000", "asked n/b:8000"]
    assert [vars(record)["engine_id"] for record in caplog.records] == ["n/a:8000", "n/b:8000"]
    assert node.counters.value("errors", where="collector-pod engines", error="UnknownEngineError") == 4
