"""What could not be delivered, as a record of topic ``alerts.undelivered``: key fingerprint, value JSON."""

from __future__ import annotations

import orjson

from sinks.delivery.target import Undelivered

SCHEMA = "alerts.undelivered/1"


def encode(target: str, undelivered: Undelivered, now_ms: int) -> bytes:
    """Target, reason (refused, too_old, queue_full), detail and attempts, with the transition as it stood on topic
    ``alerts``."""
    delivery = undelivered.delivery
    told = {
        "schema": SCHEMA,
        "target": target,
        "reason": undelivered.reason,
        "detail": undelivered.detail,
        "attempts": delivery.attempts,
        "at_ms": now_ms,
        "transition_id": delivery.transition.alert.transition_id,
        "partition": delivery.transition.partition,
        "offset": delivery.transition.offset,
        "record": orjson.Fragment(delivery.transition.record),
    }
    return orjson.dumps(told)
