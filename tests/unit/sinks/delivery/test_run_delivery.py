"""Which failures the delivery outlives. Its sessions run against brokers in tests/integration/test_delivery.py."""

from __future__ import annotations

import asyncio

import pytest

from runtime.config import KafkaConfig
from runtime.delivery_config import DeliveryConfig
from schemas.errors import ConfigError
from sinks.delivery import service
from sinks.delivery.service import Delivery, run_delivery

REJECTED = ConfigError("kafka.sasl_username", "me", "must be a login that broker:9093 accepts")


@pytest.fixture(autouse=True)
def _accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The brokers take the first login, and nobody waits."""

    async def accept(_: KafkaConfig) -> None:
        """Nothing is wrong with it."""

    monkeypatch.setattr(service, "check_login", accept)
    monkeypatch.setattr(service, "_AGAIN_S", 0.001)


@pytest.mark.parametrize("began", [True, False])
async def test_what_is_rejected_after_a_session_is_tried_again(
    began: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What is rejected before the first has begun ends the process, so that the setting is corrected."""
    stop, seen = asyncio.Event(), []

    async def consume(delivery: Delivery) -> None:
        seen.append(delivery.readiness.why())
        if len(seen) == 1:
            delivery.started = began
            raise REJECTED
        stop.set()

    monkeypatch.setattr(service, "_consume", consume)
    delivery = Delivery(KafkaConfig(), DeliveryConfig(), stop)
    if not began:
        with pytest.raises(ConfigError):
            await run_delivery(delivery)
        return

    await run_delivery(delivery)

    assert f"Kafka rejected the login: {REJECTED}" in str(seen[1])
    (line,) = caplog.records
    assert line.__dict__["error"] == str(REJECTED)
