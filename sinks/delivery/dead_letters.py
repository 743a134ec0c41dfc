"""Topic ``alerts.undelivered``: what was given up, with the reason."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from aiokafka.errors import KafkaError, MessageSizeTooLargeError

from runtime.clock import Clock
from runtime.counters import COUNTERS
from schemas.contract.topics import BY_NAME, DEAD_LETTERS
from sinks.delivery.backlog import Undelivered

_log = logging.getLogger(__name__)
REQUEST_BYTES_MAX = BY_NAME[DEAD_LETTERS].record_bytes_max
"""What the producer has to send at most: a record of topic ``alerts`` and what stands around it is larger than what
one sends unless told."""
_AGAIN_S = 1.0


async def publish(producer: Any, target: str, undelivered: Undelivered, clock: Clock) -> None:
    """Put it on the topic, retrying for ever; without the transition's record where the brokers take none so large."""
    transition, at_ms = undelivered.delivery.transition, clock.now_ms()
    value, key = undelivered.record(target, at_ms), transition.alert.fingerprint.encode()
    while True:
        try:
            await producer.send_and_wait(DEAD_LETTERS, value, key=key)
            break
        except (KafkaError, OSError) as error:
            _log.warning("publishing an undelivered alert failed, retrying", extra={"error": repr(error)})
            if isinstance(error, MessageSizeTooLargeError):
                value = undelivered.record(target, at_ms, whole=False)
            await asyncio.sleep(_AGAIN_S)
    COUNTERS.add("deliver_undelivered", target=target, reason=undelivered.reason)
    facts = {"target": target, "reason": undelivered.reason, "transition_id": transition.alert.transition_id}
    _log.error("alert not delivered; it is on topic alerts.undelivered", extra={**facts, "detail": undelivered.detail})
