"""A request to a target: its headers and its signature. Pure.

The signature proves that a request comes from who holds the key and is fresh: HMAC-SHA256 over time and body, in
header ``Fleetpulse-Signature: t=<seconds since the epoch>,v1=<hex>``; signed are the bytes of ``<t>.`` and the body.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass

from runtime.delivery_config import TargetConfig

USER_AGENT = "fleetpulse-deliver"
SIGNATURE = "Fleetpulse-Signature"
TOLERANCE_S = 300
_SIGNATURE_FORM = re.compile(r"t=(\d{1,12}),v1=([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Request:
    """What is posted to a target's address. ``key``: idempotency key; None where open alerts are sent again."""

    body: bytes
    key: str | None

    def headers(self, config: TargetConfig, now_ms: int) -> dict[str, str]:
        """Headers for an attempt at this time: the signature is fresh, the idempotency key stays."""
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", "User-Agent": USER_AGENT}
        if self.key is not None:
            headers["Idempotency-Key"] = self.key
        if config.bearer_token is not None:
            headers["Authorization"] = f"Bearer {config.bearer_token.get_secret_value()}"
        if config.hmac_key is not None:
            headers[SIGNATURE] = sign(config.hmac_key.get_secret_value().encode(), self.body, now_ms // 1_000)
        return headers


def sign(key: bytes, body: bytes, now_s: int) -> str:
    """The header's value for a body sent now."""
    return f"t={now_s},v1={_digest(key, body, now_s)}"


def verify(key: bytes, body: bytes, header: str, now_s: int, tolerance_s: int = TOLERANCE_S) -> bool:
    """Whether the header was made with this key for this body, at most ``tolerance_s`` from now, before or after."""
    found = _SIGNATURE_FORM.fullmatch(header)
    if found is None or abs(now_s - int(found[1])) > tolerance_s:
        return False
    return hmac.compare_digest(_digest(key, body, int(found[1])), found[2])


def _digest(key: bytes, body: bytes, at_s: int) -> str:
    return hmac.new(key, b"%d." % at_s + body, hashlib.sha256).hexdigest()
