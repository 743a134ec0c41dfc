"""What is posted: body and headers of a request, by kind of target. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from runtime.delivery_config import TargetConfig
from schemas.alerts import Alert
from sinks.delivery import alertmanager, pagerduty, signature, slack
from sinks.delivery.target import Send

USER_AGENT = "fleetpulse-deliver"


@dataclass(frozen=True, slots=True)
class Post:
    """A request to a target's address. ``key`` is its idempotency key; None when telling again."""

    body: bytes
    key: str | None

    def headers(self, config: TargetConfig, now_ms: int) -> dict[str, str]:
        """Headers for a try at this time: a signature is fresh, the idempotency key stays."""
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", "User-Agent": USER_AGENT}
        if self.key is not None:
            headers["Idempotency-Key"] = self.key
        if config.bearer_token is not None:
            headers["Authorization"] = f"Bearer {config.bearer_token.get_secret_value()}"
        if config.hmac_key is not None:
            key = config.hmac_key.get_secret_value().encode()
            headers[signature.HEADER] = signature.sign(key, self.body, now_ms // 1_000)
        return headers


def post_of(config: TargetConfig, send: Send, now_ms: int) -> Post:
    """The request of a transition. Raises what a record of wrong types makes it raise."""
    transition = send.delivery.transition
    alert = transition.alert
    if config.kind == "webhook":
        return Post(transition.record, alert.transition_id)
    if config.kind == "pagerduty":
        return _pagerduty(config, alert, acknowledge=send.acknowledge)
    if config.kind == "slack":
        return Post(_json(slack.message(alert)), alert.transition_id)
    element = alertmanager.posted(alert, now_ms, _valid_ms(config))
    return Post(_json([*alertmanager.replaced(send.before, alert, now_ms), element]), alert.transition_id)


def post_again(config: TargetConfig, alerts: Sequence[Alert], now_ms: int) -> Post:
    """The request that tells Alertmanager all of these again."""
    return Post(_json([alertmanager.posted(alert, now_ms, _valid_ms(config)) for alert in alerts]), None)


def _pagerduty(config: TargetConfig, alert: Alert, *, acknowledge: bool) -> Post:
    assert config.routing_key is not None, "the configuration demands it"
    action = "acknowledge" if acknowledge else pagerduty.action_of(alert)
    key = f"{alert.transition_id}-acknowledge" if acknowledge else alert.transition_id
    return Post(_json(pagerduty.event(alert, config.routing_key.get_secret_value(), action)), key)


def _valid_ms(config: TargetConfig) -> int:
    return round(config.valid_s * 1_000)


def _json(value: Any) -> bytes:
    return orjson.dumps(value)
