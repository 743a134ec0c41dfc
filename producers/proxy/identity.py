"""Identity of a request: ``X-Request-ID`` and ``traceparent``, the client's where valid, else generated. Pure.

Source: W3C Trace Context, section 3.2 (version 00).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from producers.proxy.wire import Headers

REQUEST_ID = b"X-Request-ID"
TRACEPARENT = b"traceparent"
_SOUND_ID = re.compile(rb"[\x21-\x7e]{1,128}")
_SOUND_TRACE = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")


@dataclass(frozen=True, slots=True)
class Identity:
    """``added`` are the headers that the client did not send; what it sent is passed on as it is, sound or not."""

    request_id: str
    trace_id: str | None
    added: Headers


def identity_of(values: Mapping[bytes, bytes], chance: bytes, *, sampled: bool) -> Identity:
    """The identity of a request with these headers (lower case). ``chance``: 40 fresh random bytes.

    An id that is too long or holds what no id holds is ignored: the event gets one of ours. A trace id that
    cannot be read is unknown. ``sampled``: whether a trace begun here asks to be recorded.
    """
    added: Headers = []
    own = chance[:16].hex().encode()
    sent = values.get(b"x-request-id")
    if sent is None:
        added.append((REQUEST_ID, own))
    request_id = sent if sent is not None and _SOUND_ID.fullmatch(sent) else own
    trace_sent = values.get(b"traceparent")
    if trace_sent is not None:
        found = _SOUND_TRACE.fullmatch(trace_sent.strip())
        return Identity(request_id.decode(), found and found[1].decode(), added)
    trace_id = chance[16:32].hex()
    added.append((TRACEPARENT, f"00-{trace_id}-{chance[32:40].hex()}-{int(sampled):02d}".encode()))
    return Identity(request_id.decode(), trace_id, added)
