"""Wide batches: cut by host without loss, and encoded at once to the very bytes of the ordinary codec."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lab.simulator.faults import Fault
from lab.simulator.fleet import Fleet, Step
from lab.simulator.plan import FleetPlan, Tenant, large_plan
from lab.simulator.wide import Of, Wide, entity_label, hex_texts
from lab.simulator.wide_native import WideEncoder
from schemas.codec import native
from schemas.codec.block import Bins, Labels, Numbers, Texts
from schemas.codec.build import rows_of
from schemas.events.event_types import BY_TOPIC
from schemas.rows.tables import GROUPED
from tests.unit.lab.simulator.emitted import NOT_SIMULATED


@pytest.fixture
def steps(small_plan: Callable[..., FleetPlan], steps_of: Any, start_ms: int) -> list[Step]:
    """Twelve seconds with all five topics."""
    fault = Fault("gpu_lost", "engine_id", "h-1/1", start_ms + 4_000, start_ms + 8_000)
    return steps_of(small_plan(fault), 2, 12)


def whole_rows(wide: Wide) -> list[dict[str, Any]]:
    """Rows of a wide batch by way of its fleet-wide labels, without cutting."""
    columns: dict[str, Any] = {}
    for name, column in wide.columns.items():
        columns[name] = Labels(*wide.fleet_labels(name)) if isinstance(column, Of) else column
    from schemas.codec.block import Block

    return rows_of(BY_TOPIC[wide.topic].fields, Block(wide.rows, columns))


@pytest.mark.parametrize("rows_max", [1, 3, 500])
def test_blocks_hold_every_row_once_in_order(steps: list[Step], rows_max: int) -> None:
    """Cut by host and size, the blocks put together are the batch; none is larger or mixes hosts."""
    topics = set()
    for step in steps:
        for wide in step.wides:
            cut = list(wide.blocks(rows_max))
            rows = [row for _, block in cut for row in rows_of(BY_TOPIC[wide.topic].fields, block)]
            assert rows == whole_rows(wide)
            assert max(block.rows for _, block in cut) <= rows_max
            assert [host for host, _ in cut] == sorted(host for host, _ in cut)
            topics.add(wide.topic)
    assert topics == {event.topic for event in GROUPED} - NOT_SIMULATED


def test_a_record_carries_its_own_hosts_words_only(steps: list[Step]) -> None:
    """No label of another host stands in a dictionary."""
    for step in steps:
        for wide in step.wides:
            for host, block in wide.blocks(500):
                column = block.columns["host"]
                assert isinstance(column, Labels)
                assert column.words == [None, step.hosts[host].encode()]


@pytest.mark.parametrize("rows_max", [1, 3, 500])
def test_all_at_once_gives_the_bytes_of_the_codec(steps: list[Step], rows_max: int) -> None:
    """Every record of every topic, byte for byte, with whole and pruned dictionaries."""
    encoder = WideEncoder()
    for step in steps:
        for wide in step.wides:
            fields = BY_TOPIC[wide.topic].fields
            expected = [(h, block.rows, native.encode(fields, block)) for h, block in wide.blocks(rows_max)]

            values = encoder.encode(wide, rows_max)

            assert [(value.host, value.rows, value.value) for value in values] == expected


def test_long_texts_and_many_words_are_encoded_alike() -> None:
    """Texts beyond 127 bytes, unknown texts, a host without rows, and dictionaries larger than the record."""
    label = entity_label([f"e{index}" for index in range(200)] + [None], [0] * 200 + [2], 3)
    entity = np.array([5, 199, 200])
    texts = [b"x" * 300, b"", b"yy"]
    event = BY_TOPIC["gpu.events"]
    columns: dict[str, Any] = {
        field.name: Of(label) for field in event.fields if field.name not in ("at_ms", "code", "message")
    }
    columns["at_ms"] = Numbers(np.array([1, 2, 3], np.int64))
    columns["code"] = Numbers(np.array([7, 0, 9], np.uint32), np.array([True, False, True]))
    columns["message"] = Texts(b"".join(texts), np.array([300, 300, 302]), np.array([True, False, True]))
    ordered = {field.name: columns[field.name] for field in event.fields}
    wide = Wide("gpu.events", entity, np.array([2, 2, 3]), ordered)

    values = [value.value for value in WideEncoder().encode(wide, 500)]

    assert values == [native.encode(event.fields, block) for _, block in wide.blocks(500)]
    assert [row["message"] for row in rows_of(event.fields, native.decode(values[0], event.fields))] == [
        "x" * 300,
        None,
    ]


def test_many_tenants_stay_within_a_record(start_ms: int) -> None:
    """200 tenants: a record names those that it needs."""
    plan = large_plan(2)
    tenants = tuple(Tenant(f"tenant-{index}", "batch", 1.0) for index in range(200))
    plan = FleetPlan(plan.hosts, plan.engines, plan.load, tenants)
    *_, step = Fleet(plan, 1).steps(start_ms, start_ms + 6_000)
    wide = next(wide for wide in step.wides if wide.topic == "llm.requests")
    fields = BY_TOPIC["llm.requests"].fields

    for value, (_, block) in zip(WideEncoder().encode(wide, 500), wide.blocks(500), strict=True):
        assert value.value == native.encode(fields, block)
        decoded = native.decode(value.value, fields).columns["tenant"]
        assert isinstance(decoded, Labels)
        assert 2 <= len(decoded.words) <= block.rows + 1


def test_hex_texts_are_prefix_and_digits() -> None:
    """Two digits a byte after the prefix; no rows, no bytes."""
    texts = hex_texts(b"id-", np.array([[0, 255], [16, 1]], np.uint8))

    assert (texts.data, texts.ends.tolist()) == (b"id-00ffid-1001", [7, 14])
    assert hex_texts(b"id-", np.zeros((0, 2), np.uint8)).data == b""


def test_sketch_columns_are_cut_with_their_rows(steps: list[Step]) -> None:
    """Each block owns exactly the bins of its rows."""
    for step in steps:
        for wide in step.wides:
            if wide.topic == "llm.requests":
                parts = [block.columns["itl_bins"] for _, block in wide.blocks(3)]
                whole = wide.columns["itl_bins"]
                assert isinstance(whole, Bins)
                assert np.concatenate([part.keys for part in parts]).tolist() == whole.keys.tolist()  # type: ignore[union-attr]
