"""Proof that a request comes from who holds the key and is fresh: HMAC-SHA256 over time and body.

Header ``Fleetpulse-Signature: t=<seconds since the epoch>,v1=<hex>``; signed are the bytes of ``<t>.`` and the body.
"""

from __future__ import annotations

import hashlib
import hmac
import re

HEADER = "Fleetpulse-Signature"
TOLERANCE_S = 300
_FORM = re.compile(r"t=(\d{1,12}),v1=([0-9a-f]{64})")


def sign(key: bytes, body: bytes, now_s: int) -> str:
    """The header's value for a body sent now."""
    return f"t={now_s},v1={_digest(key, body, now_s)}"


def verify(key: bytes, body: bytes, header: str, now_s: int, tolerance_s: int = TOLERANCE_S) -> bool:
    """Whether the header was made with this key for this body, at most ``tolerance_s`` from now, before or after."""
    found = _FORM.fullmatch(header)
    if found is None or abs(now_s - int(found[1])) > tolerance_s:
        return False
    return hmac.compare_digest(_digest(key, body, int(found[1])), found[2])


def _digest(key: bytes, body: bytes, at_s: int) -> str:
    return hmac.new(key, b"%d." % at_s + body, hashlib.sha256).hexdigest()
