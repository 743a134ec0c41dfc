"""The shell of ``fleetpulse deliver``: targets from the configuration, alerts from the topic, until SIGTERM.

``check_targets`` sends every target a test alert; ``would_send`` returns the requests for the alerts open now.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from fleetpulse.alerts.view import newest_of, records_of
from fleetpulse.services.jobs_and_sink import health
from runtime import logs
from runtime.clock import SystemClock
from runtime.config import Config, load
from runtime.delivery_config import TargetConfig
from runtime.process import on_stop_signal, run_to_the_end
from schemas.contract.alerts import Alert, encode
from schemas.errors import ConfigError
from sinks.delivery.backlog import Delivery as Waiting
from sinks.delivery.backlog import Send
from sinks.delivery.client import HIDDEN, Client
from sinks.delivery.schedule import Response
from sinks.delivery.service import Delivery, delivery_readiness, run_delivery
from sinks.delivery.shapes import request_of
from sinks.delivery.transition import Transition

READ_WITHIN_S = 60.0
TEST_RULE = "fleetpulse_delivery_check"


def load_with_targets(only: Sequence[str] = ()) -> Config:
    """The configuration; of ``only`` names those targets are kept, with what their files hold. Raises ConfigError
    without a target, and for a file that cannot be read."""
    config = load()
    targets = config.delivery.all_targets
    names = [target.name for target in targets]
    if not targets:
        raise ConfigError("delivery.targets", [], "must name at least one target; see docs/how-to/alerts.md")
    if missing := sorted(set(only) - set(names)):
        raise ConfigError("--target", missing[0], f"must be one of {', '.join(names)}")
    delivery = config.delivery.model_copy(update={"targets": config.delivery.read_targets(only), "default": None})
    return config.model_copy(update={"delivery": delivery})


def run_deliver(worker: str, health_port: int | None) -> None:
    """Deliver until SIGTERM. Ready once the open alerts were read; an unavailable target does not change that."""
    config = load_with_targets()
    logs.configure("deliver")
    readiness = delivery_readiness()

    async def body() -> None:
        stop = on_stop_signal(asyncio.get_running_loop())
        delivery = Delivery(config.kafka, config.delivery, stop, readiness=readiness, worker=worker)
        await run_delivery(delivery, config.limits)

    with health(health_port, readiness.why, readiness.noted):
        run_to_the_end(body())


@dataclass(frozen=True, slots=True)
class Checked:
    """A target's response to one test alert."""

    target: TargetConfig
    transition: str
    response: Response
    took_ms: float


def check_targets(targets: Sequence[TargetConfig]) -> list[Checked]:
    """Send each target a test alert and its end (severity info, rule ``fleetpulse_delivery_check``), once."""
    return asyncio.run(_check(targets))


async def _check(targets: Sequence[TargetConfig]) -> list[Checked]:
    clock, found = SystemClock(), []
    for target in targets:
        async with Client(target, clock) as client:
            for alert in _test_alerts(target.name, clock.now_ms()):
                began_s = time.perf_counter()
                response = await client.post(request_of(target, _sending(alert), clock.now_ms()))
                found.append(Checked(target, alert.transition, response, (time.perf_counter() - began_s) * 1_000))
    return found


def _test_alerts(target: str, now_ms: int) -> tuple[Alert, Alert]:
    opened = Alert(
        fingerprint=f"{now_ms:016x}",
        transition="opened",
        number=1,
        rule=TEST_RULE,
        severity="info",
        summary=f"Test of delivery to {target}",
        advice="Nothing to do: somebody ran `fleetpulse deliver --check`.",
        labels={"target": target},
        opened_ms=now_ms,
        since_ms=now_ms,
        at_ms=now_ms,
    )
    return opened, replace(opened, transition="resolved", number=2, resolved_ms=now_ms)


def _sending(alert: Alert, record: bytes | None = None) -> Send:
    transition = Transition(alert, record or encode(alert), 0, 0, alert.at_ms)
    return Send(Waiting(transition, 0, 0, 0, alert.at_ms))


def would_send(config: Config) -> list[dict[str, Any]]:
    """For each alert that is open on the topic and each target that it matches: what would be posted, and where.
    Secrets are masked."""
    now_ms = SystemClock().now_ms()
    found = newest_of(asyncio.run(records_of(config.kafka)))
    return [
        _shown(target, alert, record, now_ms)
        for alert, record in sorted(found, key=lambda one: (one[0].opened_ms, one[0].fingerprint))
        for target in config.delivery.all_targets
        if alert.transition != "resolved" and target.matches(alert.severity, alert.rule, alert.labels)
    ]


def _shown(target: TargetConfig, alert: Alert, record: bytes, now_ms: int) -> dict[str, Any]:
    request = request_of(target, _sending(alert, record), now_ms)
    text = request.body.decode()
    for secret in target.tokens:
        text = text.replace(secret, HIDDEN)
    silenced = not target.send_silenced and alert.muted_until_ms is not None and alert.muted_until_ms > now_ms
    return {
        "target": target.name,
        "to": target.origin,
        "idempotency_key": request.key,
        "muted_until_ms": alert.muted_until_ms if silenced else None,
        "body": orjson.loads(text),
    }
