"""The engine contract: what a record of topic ``engines`` says. JSON; one record is all that is known of one engine.

Written by the agent of the engine's host, the authority on it, on every change and every ``REPEATED_EVERY_MS``. The
topic is compacted and keyed by ``key``: reading it gives every engine of the deployment. Times are ms since the epoch.
Schema ``engines/1``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import orjson

from schemas.errors import RejectedError

SCHEMA = "engines/1"
REPEATED_EVERY_MS = 600_000
FORGOTTEN_AFTER_MS = 86_400_000
"""A record that was not repeated for so long is of a host that is gone."""
RECORD_BYTES_MAX = 64 * 1024
ADDRESSES_MAX = 64


@dataclass(frozen=True, slots=True)
class Engine:
    """A serving engine as the agent of its host knows it. None or empty: not known."""

    engine_id: str
    host: str
    placement_group: str
    """Engines that share any GPU; the host where its GPUs are not known."""
    addresses: tuple[str, ...] = ()
    """``name:port`` under which clients reach its API: names and IP addresses of its host, or of its pod."""
    cluster: str | None = None
    region: str | None = None
    engine_kind: str | None = None
    engine_version: str | None = None
    model: str | None = None
    model_version: str | None = None
    precision: str | None = None
    gpu_uuids: tuple[str, ...] = ()
    started_ms: int | None = None
    """When its process started."""
    warm_ms: int | None = None
    """From when on it is known to have served a request since then; requests received before are ``cold``."""
    responding: bool = True
    """Whether its last scrapes succeeded."""
    reported_ms: int = 0

    @property
    def key(self) -> bytes:
        """Of its record."""
        return f"{self.host}/{self.engine_id}".encode()


_TEXTS = ("engine_id", "host", "placement_group")
_OPTIONAL = ("cluster", "region", "engine_kind", "engine_version", "model", "model_version", "precision")
_LISTS = ("addresses", "gpu_uuids")
_FLAGS = ("responding",)


def encode(engine: Engine) -> bytes:
    """As JSON with sorted keys: equal engines give equal bytes."""
    return orjson.dumps({"schema": SCHEMA, **asdict(engine)}, option=orjson.OPT_SORT_KEYS)


def decode(data: bytes) -> Engine:
    """The engine. Fields that are not known here are left out. Raises ``RejectedError`` for what is none."""
    if len(data) > RECORD_BYTES_MAX:
        raise RejectedError("too_large", f"an engine's record has at most {RECORD_BYTES_MAX} bytes")
    try:
        return engine_of(orjson.loads(data))
    except (orjson.JSONDecodeError, TypeError) as error:
        raise RejectedError("syntax", f"no engine: {error}") from error


def engine_of(found: Any) -> Engine:
    """The engine that a JSON object describes. Raises ``TypeError`` where a field is missing or of another type."""
    if not isinstance(found, Mapping):
        raise TypeError("not an object")
    names = {each.name for each in fields(Engine)}
    known: dict[str, Any] = {name: value for name, value in found.items() if name in names}
    for name in _LISTS:
        known[name] = _texts(name, known.get(name, []))
    wrong = (
        [name for name in _TEXTS if type(known.get(name)) is not str]
        + [name for name in _OPTIONAL if type(known.get(name)) not in (str, type(None))]
        + [name for name in _FLAGS if type(known.get(name, True)) is not bool]
        + [name for name in ("reported_ms",) if type(known.get(name, 0)) is not int]
        + [name for name in ("started_ms", "warm_ms") if type(known.get(name)) not in (int, type(None))]
    )
    if wrong:
        raise TypeError(f"{wrong[0]} is of another type")
    return Engine(**known)


def _texts(name: str, value: Any) -> tuple[str, ...]:
    if type(value) is not list or len(value) > ADDRESSES_MAX or not all(type(each) is str for each in value):
        raise TypeError(f"{name} is no list of at most {ADDRESSES_MAX} texts")
    return tuple(value)
