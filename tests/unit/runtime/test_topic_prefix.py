"""Clients whose topics have a prefix: what of aiokafka's they have to wrap."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer

from runtime.topic_prefix import PrefixedConsumer

ROOT = Path(__file__).resolve().parents[3]
PRODUCT = ("fleetpulse", "producers", "runtime", "sinks", "stream_jobs")
NAMES = {"partition", "partitions", "topic", "topics", "timestamps", "offsets"}
"""Parameters of aiokafka's that hold topics."""


def named() -> set[str]:
    """Methods of aiokafka's consumer that take topics or partitions."""
    methods = inspect.getmembers(AIOKafkaConsumer, inspect.isfunction)
    return {name for name, one in methods if name[0] != "_" and NAMES & inspect.signature(one).parameters.keys()}


def called() -> set[str]:
    """Methods of any consumer that the product calls."""
    texts = [path.read_text() for folder in PRODUCT for path in (ROOT / folder).rglob("*.py")]
    return {name for text in texts for name in re.findall(r"\bconsumer\.(\w+)\(", text)}


def test_methods_that_take_partitions_and_are_called_are_found() -> None:
    """Else the next test would hold of none."""
    assert {"position", "end_offsets", "last_poll_timestamp"} <= named() & called()


@pytest.mark.parametrize("name", sorted(named() & called()))
def test_what_the_product_calls_knows_the_prefix(name: str) -> None:
    """aiokafka knows partitions by the topic's whole name."""
    assert name in vars(PrefixedConsumer)
