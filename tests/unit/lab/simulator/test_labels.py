"""Who emits under which labels, how every ending reads, and what the sums of a host's readings are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lab.simulator.engine_state import CLIENT, NO_ENGINE
from lab.simulator.entities import directory_of
from lab.simulator.fleet import Step
from lab.simulator.gpus import gpus_of
from lab.simulator.plan import FleetPlan
from lab.simulator.requests import ENDINGS
from lab.simulator.run import next_begin_ms, warm_up
from lab.simulator.samples import PROMPT_BYTES_PER_TOKEN, WIRE_BYTES_PER_TOKEN, gpu_event_wide
from lab.simulator.wide import entity_label
from schemas.codec.build import rows_of
from schemas.events.event_types import BY_TOPIC, ERROR_KINDS, FINISH_REASONS, STATUSES
from tests.virtual_clock import VirtualClock


def test_every_ending_reads_in_the_words_of_the_contract() -> None:
    """All fates have an ending; statuses, kinds and reasons are those of the schema; only good ones have no kind."""
    assert sorted(ENDINGS) == list(range(NO_ENGINE + 1))
    for ending in ENDINGS.values():
        assert ending.status in STATUSES
        assert ending.error_kind is None or ending.error_kind in ERROR_KINDS
        assert ending.finish_reason is None or ending.finish_reason in FINISH_REASONS
        assert (ending.error_kind is None) == (ending.status in ("ok", "aborted"))
    assert 400 <= ENDINGS[CLIENT].http_status < 500


def test_gpus_follow_their_engines(small_plan: Callable[..., FleetPlan]) -> None:
    """Engine, placement group and workload of each GPU; one without an engine is placed by its host."""
    plan = small_plan()
    directory = directory_of(plan, gpus_of(plan, np.random.default_rng(1)))

    def labels(name: str) -> list[bytes | None]:
        label = directory.gpu[name]
        return [label.words[code] for code in label.codes]

    assert labels("engine_id") == [b"h-0/0", b"h-0/0", None, b"h-1/0", b"h-1/1"]
    assert labels("placement_group") == [b"h-0/0", b"h-0/0", b"h-0", b"h-1/0", b"h-1/1"]
    assert labels("workload") == [b"inference", b"inference", b"idle", b"inference", b"inference"]
    assert len(set(labels("gpu_uuid"))) == 5


def test_a_label_has_one_dictionary_for_the_fleet_and_one_per_host() -> None:
    """The same entity reads the same in both; a host's dictionary holds its own words only; null is word 0."""
    label = entity_label(["a", "b", None, "a"], [0, 0, 1, 1], 2)

    assert (label.codes.tolist(), label.words) == ([1, 2, 0, 1], [None, b"a", b"b"])
    assert (label.host_codes.tolist(), label.host_words) == ([1, 2, 0, 1], [[None, b"a", b"b"], [None, b"a"]])


def test_gpu_events_stand_under_their_gpus(small_plan: Callable[..., FleetPlan]) -> None:
    """Two lost and one found GPU: five events, sorted by GPU, with their message."""
    plan = small_plan()
    directory = directory_of(plan, gpus_of(plan, np.random.default_rng(1)))

    gone, found, none = np.array([0, 1, 0, 0, 1], bool), np.array([1, 0, 0, 0, 0], bool), np.zeros(5, bool)
    wide = gpu_event_wide(directory, 77, gone, found, none)

    assert wide is not None
    rows = [row for _, block in wide.blocks(9) for row in rows_of(BY_TOPIC["gpu.events"].fields, block)]
    found = [(row["host"], row["engine_id"], row["kind"], row["code"], row["severity"]) for row in rows]
    assert found == [
        ("h-0", "h-0/0", "gpu_found", None, "info"),
        ("h-0", "h-0/0", "xid", 79, "critical"),
        ("h-0", "h-0/0", "gpu_lost", None, "critical"),
        ("h-1", "h-1/1", "xid", 79, "critical"),
        ("h-1", "h-1/1", "gpu_lost", None, "critical"),
    ]
    assert rows[1]["message"] == "GPU has fallen off the bus"
    assert {row["at_ms"] for row in rows} == {77}
    assert gpu_event_wide(directory, 77, none, none, none) is None


def test_a_hosts_network_carries_the_tokens_of_its_engines(
    small_plan: Callable[..., FleetPlan], steps_of: Callable[..., list[Step]], rows_by_topic: Any
) -> None:
    """Sent and received bytes of a second are the tokens its engines made and took in."""
    rows = rows_by_topic(steps_of(small_plan(), 1, 6))
    for sample in rows["host.samples"]:
        mine = [r for r in rows["engine.samples"] if (r["host"], r["at_ms"]) == (sample["host"], sample["at_ms"])]
        assert sample["network_tx_bytes"] == WIRE_BYTES_PER_TOKEN * sum(r["generation_tokens"] for r in mine)
        assert sample["network_rx_bytes"] == PROMPT_BYTES_PER_TOKEN * sum(r["prompt_tokens"] for r in mine)


@pytest.mark.parametrize(("now_ms", "begin_ms"), [(5_000, 5_000), (5_001, 6_000), (5_999, 6_000)])
def test_a_run_begins_with_a_whole_second(now_ms: int, begin_ms: int) -> None:
    """So that windows are whole; a warm-up before it changes nothing."""
    warm_up()

    assert next_begin_ms(VirtualClock(now_ms)) == begin_ms
