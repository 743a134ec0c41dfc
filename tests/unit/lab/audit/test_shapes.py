"""What the simulated fleet is made to tell for the audit: other holders of GPUs, and late."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from lab.audit.day import ACROSS, MIG, TURNS, day_of
from lab.audit.delays import DELAYS, Delayed, Lateness
from lab.audit.shapes import TURN_MS, Shaped
from lab.evaluate.pipeline import block_of
from lab.evaluate.scenario import gpu_names
from lab.simulator.wide import Wide
from schemas.codec.build import rows_of
from schemas.events.event_types import BY_TOPIC

BEGIN_MS = 1_795_305_600_000


def steps(minutes: int, seed: int = 1) -> list[tuple[int, list[Wide]]]:
    """End and batches of every step of the fleet's first minutes."""
    day = day_of(seed, BEGIN_MS, 24.0)
    return [(step.to_ms, list(step.wides)) for step in day.fleet().steps(BEGIN_MS, BEGIN_MS + minutes * 60_000, 10_000)]


def rows(wide: Wide) -> list[dict[str, Any]]:
    """A batch as dictionaries."""
    return rows_of(BY_TOPIC[wide.topic].fields, block_of(wide))


def test_gpus_get_the_holders_of_their_shape() -> None:
    """One of another host's group, one divided in three, one that two engines have in turns; the rest stays."""
    day, uuids = day_of(1, BEGIN_MS, 24.0), dict(zip(*gpu_names(1), strict=True))
    shaped = Shaped(day.shapes)
    told = [
        (to_ms, row)
        for to_ms, wides in steps(1)
        for wide in wides
        if wide.topic == "gpu.samples"
        for one in shaped.apply(wide, to_ms)
        for row in rows(one)
    ]

    across = [row for _, row in told if row["gpu_uuid"] == uuids[ACROSS]]
    assert {(row["host"], row["engine_id"], row["placement_group"], row["workload"]) for row in across} == {
        ("h-0", "h-1/0", "h-1/0", "inference")
    }
    turns = {(at // TURN_MS % 2, row["engine_id"]) for at, row in told if row["gpu_uuid"] == uuids[TURNS]}
    assert {engine for _, engine in turns} == {"h-3/1", "h-3/2"}
    assert len(turns) == 2
    devices = [row for _, row in told if row["parent_uuid"] == uuids[MIG]]
    assert Counter((row["gpu_uuid"], row["mig_profile"], row["engine_id"]) for row in devices) == {
        ("MIG-0", "3g.71gb", "h-2/1"): 6, ("MIG-1", "2g.35gb", "h-2/2"): 6, ("MIG-2", "1g.18gb", None): 6,
    }  # fmt: skip
    assert {row["energy_mj"] for row in devices} == {None}
    assert {row["placement_group"] for row in devices if row["engine_id"]} == {"h-2/1+h-2/2"}
    assert len(told) == 6 * (32 + 3)


def test_engines_that_share_a_gpu_have_one_placement_group_everywhere() -> None:
    """In requests and readings too; other groups keep their name."""
    shaped = Shaped(day_of(1, BEGIN_MS, 24.0).shapes)
    groups: dict[str | None, set[str | None]] = {}
    for to_ms, wides in steps(1):
        for wide in wides:
            if wide.topic in ("llm.requests", "engine.samples"):
                for row in (row for one in shaped.apply(wide, to_ms) for row in rows(one)):
                    groups.setdefault(row["engine_id"], set()).add(row["placement_group"])

    assert groups["h-2/1"] == groups["h-2/2"] == {"h-2/1+h-2/2"}
    assert groups["h-3/1"] == groups["h-3/2"] == {"h-3/1+h-3/2"}
    assert groups["h-1/3"] == groups["h-1/4"] == {"h-1/3+h-1/4"}
    assert groups["h-1/0"] == {"h-1/0"}


def test_what_is_delayed_comes_later_and_whole() -> None:
    """No event is lost or doubled, and each keeps its own time."""
    delayed = Delayed(np.random.default_rng(1), Lateness(0.3))
    sent, came = Counter[str](), Counter[str]()
    for to_ms, wides in steps(3):
        sent.update({wide.topic: wide.rows for wide in wides})
        for wide in delayed.pass_on(wides, to_ms):
            came[wide.topic] += wide.rows
    at_once = came.copy()
    for wide in delayed.rest():
        came[wide.topic] += wide.rows

    assert came == sent
    assert delayed.delayed > 0
    assert at_once["gpu.samples"] < sent["gpu.samples"]
    assert at_once["engine.samples"] == sent["engine.samples"]
    assert sum(delay.per_mille for delay in DELAYS) == 1_000
