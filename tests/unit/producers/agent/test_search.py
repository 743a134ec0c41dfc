from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

import pynvml
import pytest

from producers.agent.runner import Plan
from producers.agent.search import GPU_GROUP, Search, setting_of
from producers.agent.sources import Missing, Setting, Source
from producers.gpu.library import why
from runtime.counters import COUNTERS
from runtime.edge_config import AgentConfig, CollectorSwitches
from runtime.runbook import Cause
from tests.unit.producers.agent.collectors import PATIENCE_S, Plain


class Fleet:
    """Sources of a host that come up when switched on; counts the probes of each."""

    def __init__(self, *there: str) -> None:
        self.there = set(there)
        self.probed: list[str] = []

    def source(self, name: str, group: str | None = None) -> Source:
        def probe(_setting: Setting) -> str:
            self.probed.append(name)
            if name not in self.there:
                raise Missing(f"no {name}")
            return f"a {name}"

        return Source(name, name, probe, lambda _setting: {f"{name}-a": Plain, f"{name}-b": Plain}, group)

    def search(self, *sources: Source, **switches: str) -> Search:
        config = AgentConfig(host="h", probe_limit_ms=100, collectors=CollectorSwitches.model_validate(switches))
        return Search(setting_of(config), sources)


def missing(why: str) -> Callable[[Setting], str]:
    def probe(_setting: Setting) -> str:
        raise Missing(why)

    return probe


def names(plans: Sequence[Plan]) -> list[str]:
    return [plan.name for plan in plans]


def test_what_comes_up_later_is_found_once() -> None:
    """All of its collectors; what was found is not probed again."""
    fleet = Fleet("host")
    search = fleet.search(fleet.source("host"), fleet.source("nvml"))
    looks = [names(search.look()), names(search.look())]
    fleet.there.add("nvml")
    looks += [names(search.look()), names(search.look())]

    assert looks == [["host-a", "host-b"], [], ["nvml-a", "nvml-b"], []]
    assert sorted(fleet.probed) == ["host", "nvml", "nvml", "nvml"]


def test_what_another_stands_in_for_is_not_looked_for() -> None:
    """A better source of a group that runs already would report everything twice."""
    fleet = Fleet()
    search = fleet.search(fleet.source("nvml", "gpu"), fleet.source("dcgm", "gpu"), fleet.source("gpu_processes"))
    looks = [names(search.look())]
    fleet.there.add("dcgm")
    looks.append(names(search.look()))
    fleet.there |= {"nvml", "gpu_processes"}
    fleet.probed.clear()
    looks.append(names(search.look()))

    assert looks == [[], ["dcgm-a", "dcgm-b"], ["gpu_processes-a", "gpu_processes-b"]]
    assert fleet.probed == ["gpu_processes"]


def test_a_driver_that_turns_the_agent_away_is_said_until_somebody_reads_the_gpus(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """By the cause's name; a host without a driver needs nobody."""
    fleet, lasts = Fleet(), []
    refused = f"nvml: the NVIDIA driver does not answer ({why(pynvml.NVML_ERROR_NO_PERMISSION)})"
    search = fleet.search(
        replace(fleet.source("nvml", GPU_GROUP), probe=missing(refused)), fleet.source("dcgm", GPU_GROUP)
    )
    for there in (set(), {"dcgm"}):
        fleet.there = there
        search.look()
        lasts.append(COUNTERS.value("cause", cause=Cause.GPU))
    fleet.search(fleet.source("nvml", GPU_GROUP)).look()

    assert lasts == [1, 0]
    assert [line.__dict__["cause"] for line in caplog.records if line.levelname == "WARNING"] == [Cause.GPU]


def test_of_two_that_come_up_together_the_first_is_taken() -> None:
    """As at start."""
    fleet = Fleet()
    search = fleet.search(fleet.source("nvml", "gpu"), fleet.source("dcgm", "gpu"))
    search.look()
    fleet.there |= {"nvml", "dcgm"}

    assert names(search.look()) == ["nvml-a", "nvml-b"]


def test_switches_hold_for_every_look() -> None:
    """``on`` is collected from the start, found or not, and once; ``off`` is never probed."""
    fleet = Fleet("dcgm")
    search = fleet.search(fleet.source("nvml"), fleet.source("dcgm"), nvml="on", dcgm="off")

    assert [names(search.look()), names(search.look())] == [["nvml-a", "nvml-b"], []]
    assert fleet.probed == ["nvml"]


def test_a_probe_that_hangs_is_not_started_a_second_time() -> None:
    """Until it comes back: a broken driver costs one thread. The others are looked for meanwhile."""
    fleet, goes_on, calls = Fleet(), threading.Event(), list[threading.Thread]()

    def hang(_setting: Setting) -> str:
        calls.append(threading.current_thread())
        assert goes_on.wait(PATIENCE_S)
        return "there at last"

    hanging = Source("nvml", "", hang, lambda _setting: {"nvml": Plain})
    search = fleet.search(hanging, fleet.source("dcgm"))
    looks = [names(search.look())]
    fleet.there.add("dcgm")
    looks.append(names(search.look()))
    hung = len(calls)
    goes_on.set()
    calls[0].join(PATIENCE_S)
    looks.append(names(search.look()))

    assert (looks, hung, len(calls)) == ([[], ["dcgm-a", "dcgm-b"], ["nvml"]], 1, 2)


def test_a_driver_that_answers_late_is_not_stood_in_for() -> None:
    """However many looks that takes: what is chosen is never given up for a better one."""
    fleet, goes_on, calls = Fleet("smi"), threading.Event(), list[threading.Thread]()

    def hang(_setting: Setting) -> str:
        calls.append(threading.current_thread())
        assert goes_on.wait(PATIENCE_S)
        return "there at last"

    driver = Source("nvml", "", hang, lambda _setting: {"nvml": Plain}, GPU_GROUP)
    search = fleet.search(driver, replace(fleet.source("smi", GPU_GROUP), name="nvidia_smi"))
    looks = [names(search.look()) for _ in range(3)]
    goes_on.set()
    calls[0].join(PATIENCE_S)
    looks.append(names(search.look()))

    assert (looks, len(calls)) == ([[], [], [], ["nvml"]], 2)


def test_a_look_that_finds_nothing_new_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """The first logs every source, later ones what came."""
    fleet = Fleet("host")
    search = fleet.search(fleet.source("host"), fleet.source("nvml"))
    with caplog.at_level(logging.INFO, "producers.agent.search"):
        search.look()
        search.look()
        fleet.there.add("nvml")
        search.look()

    logged = [(line.message, line.__dict__["source"], line.__dict__["reason"]) for line in caplog.records]
    assert logged == [
        ("source is collected", "host", "a host"),
        ("source is not collected", "nvml", "no nvml"),
        ("source is collected", "nvml", "a nvml"),
    ]


async def test_the_search_goes_on_until_it_is_stopped() -> None:
    """Only what is found is started."""
    fleet, stop, started = Fleet(), asyncio.Event(), list[list[str]]()
    search = fleet.search(fleet.source("nvml"), fleet.source("dcgm"))
    search.look()
    fleet.there.add("nvml")

    def start(plans: Sequence[Plan]) -> None:
        started.append(names(plans))
        fleet.there.add("dcgm")
        if len(started) == 2:
            stop.set()

    async with asyncio.timeout(PATIENCE_S):
        await search.run(stop, 0.0, start)

    assert started == [["nvml-a", "nvml-b"], ["dcgm-a", "dcgm-b"]]


async def test_a_search_that_is_stopped_does_not_look() -> None:
    """Neither at once nor after its pause."""
    fleet, stop = Fleet(), asyncio.Event()
    search = fleet.search(fleet.source("nvml"))
    stop.set()

    await search.run(stop, 60.0, lambda plans: None)

    assert fleet.probed == []
