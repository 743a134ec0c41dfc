"""Section ``delivery``: who is notified of alerts, how requests are retried, when they are given up.

Addresses count as secrets, because those of chat services hold their token. Every secret may come from a file
instead, which is read by who delivers and by nobody else that has the same settings (``read_targets``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import unquote, urlsplit

from pydantic import BeforeValidator, Field, SecretStr, field_validator, model_validator

from runtime.addresses import http_address
from runtime.config_keys import Section

_SECRETS = ("endpoint_url", "bearer_token", "hmac_key", "routing_key")
_LEAST_KEY_BYTES = 16
_PIECE_CHARACTERS = 8
"""Shorter parts of an address are words like ``api``."""
_TOKEN = re.compile(r"[!-~]+")
"""What a header holds: printable ASCII without spaces."""
PAGERDUTY_URL = "https://events.pagerduty.com/v2/enqueue"
ALERTMANAGER_PATH = "/api/v2/alerts"

Severity = Literal["info", "warning", "critical"]
Kind = Literal["alertmanager", "webhook", "slack", "pagerduty"]
_RATES: dict[str, float] = {"alertmanager": 20.0, "webhook": 20.0, "slack": 1.0, "pagerduty": 2.0}
"""Requests per second unless ``rate_per_s`` is set: Slack takes one a second and webhook, PagerDuty 120 a minute."""


def _as_list(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


Values = Annotated[tuple[Annotated[str, Field(max_length=256)], ...], BeforeValidator(_as_list), Field(min_length=1)]


class TargetConfig(Section):
    """One receiver of alerts."""

    name: str = Field(default="default", pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")
    """Unique. Under this name its cursor is kept: a new name is a new target. One with another filter than before is
    sent the open alerts that match."""
    kind: Kind
    """Shape of what is sent: Alertmanager's API v2, the record as it is, a Slack message, a PagerDuty event v2."""
    endpoint_url: SecretStr = SecretStr("")
    """http:// or https://. Of Alertmanager without a path: /api/v2/alerts is put behind it. Empty: PagerDuty's own."""
    bearer_token: SecretStr | None = None
    """Sent as ``Authorization: Bearer ...``. None: no such header."""
    hmac_key: SecretStr | None = None
    """Key of the signature header, 16 bytes or more. None: requests are not signed."""
    routing_key: SecretStr | None = None
    """PagerDuty's integration key."""
    endpoint_url_file: Path | None = None
    bearer_token_file: Path | None = None
    hmac_key_file: Path | None = None
    routing_key_file: Path | None = None
    """Each holds the secret in place of the setting, which is not there until it is read."""
    ca_file: Path | None = None
    """PEM file of the authorities that may vouch for the target. None: the system's. TLS is always verified."""

    dashboard_url: str = ""
    """Address of the dashboard as people reach it, for links of Alertmanager's alerts to their page. Empty: none."""
    severities: tuple[Severity, ...] = Field(default=("info", "warning", "critical"), min_length=1)
    match: dict[str, Values] = Field(default_factory=dict, max_length=16)
    """Labels an alert must have, each with one of these values; ``rule`` may be named, too. Empty: every alert."""
    send_silenced: bool = False
    """True: silences are ignored; for machines."""

    rate_per_s: float | None = Field(default=None, gt=0, le=1_000)
    """Requests per second in the long run; more wait. None: by kind (20, Slack 1, PagerDuty 2)."""
    burst: int = Field(default=10, ge=1, le=10_000)
    """Requests at once after a pause."""
    parallel_max: int = Field(default=4, ge=1, le=64)
    """Requests in flight. Those of one alert are always one after the other."""
    timeout_s: float = Field(default=10.0, gt=0, le=300)
    """For a whole request; longer counts as no response."""
    retry_initial_s: float = Field(default=1.0, gt=0, le=60)
    retry_max_s: float = Field(default=60.0, gt=0, le=3_600)
    """Pauses double from the first to the second of these."""
    age_max_s: float = Field(default=6 * 3_600.0, gt=0, le=7 * 86_400)
    """A transition that could not be delivered for so long is put on topic alerts.undelivered (too_old)."""
    queue_max: int = Field(default=10_000, ge=1, le=1_000_000)
    """Transitions waiting; for more the oldest goes to alerts.undelivered (queue_full)."""
    resend_s: float = Field(default=60.0, ge=0.1, le=3_600)
    """Alertmanager: open alerts are sent again this often."""
    valid_s: float = Field(default=300.0, gt=0, le=86_400)
    """Alertmanager: an open alert that is not sent again for so long resolves by itself."""

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.rate_per_s if self.rate_per_s is not None else _RATES[self.kind]

    def matches(self, severity: str, rule: str, labels: Mapping[str, str]) -> bool:
        """Whether the target is to be notified of an alert of this severity and rule with these labels."""
        named = {**labels, "rule": rule}
        return severity in self.severities and all(named.get(name) in found for name, found in self.match.items())

    @property
    def filter_id(self) -> str:
        """8 hex digits, the same for filters that match the same alerts as far as their words tell."""
        words = [sorted(self.severities), {name: sorted(found) for name, found in self.match.items()}]
        return sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()[:8]

    @property
    def url(self) -> str:
        """Where to post to. A secret."""
        return self.endpoint_url.get_secret_value()

    @property
    def origin(self) -> str:
        """Scheme, host and port, for people: no path, which may hold a token."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")

    @property
    def tokens(self) -> tuple[str, ...]:
        """Keys and tokens."""
        kept = (self.bearer_token, self.hmac_key, self.routing_key)
        return tuple(one.get_secret_value() for one in kept if one is not None)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be seen in any text, the longest first: tokens, the address, its path, and every part of it
        that may be a token by itself (segments of the path and values of the query of 8 characters or more)."""
        parts = urlsplit(self.url)
        pieces = [*parts.path.split("/"), *(pair.partition("=")[2] for pair in parts.query.split("&"))]
        long = [text for piece in pieces for text in (piece, unquote(piece)) if len(text) >= _PIECE_CHARACTERS]
        found = {*self.tokens, self.url, self.url.removeprefix(self.origin), *long}
        return tuple(sorted((text for text in found if len(text) > 1), key=lambda text: (-len(text), text)))

    @model_validator(mode="before")
    @classmethod
    def _given(cls, given: Any) -> Any:
        """The address made whole. All that is said of secrets is here, so that no error shows the value of one."""
        if not isinstance(given, dict):
            return given
        tree = dict(given)
        for name in _SECRETS:
            if tree.get(f"{name}_file") is not None:
                tree.pop(name, None)
            if tree.get(name) is not None and not isinstance(tree[name], str | SecretStr):
                raise ValueError(f"{name} must be text")
        if unknown := sorted(set(tree) - set(cls.model_fields)):
            raise ValueError(f"{unknown[0]} is not a setting of a target")  # its value may be a secret, misspelt
        for name in ("bearer_token", "routing_key"):
            if tree.get(name) is not None and not _TOKEN.fullmatch(_plain(tree[name])):
                raise ValueError(f"{name} must be printable ASCII without spaces")
        if len(_plain(tree.get("hmac_key") or "x" * _LEAST_KEY_BYTES).encode()) < _LEAST_KEY_BYTES:
            raise ValueError(f"hmac_key must have at least {_LEAST_KEY_BYTES} bytes")
        if tree.get("endpoint_url_file") is not None:
            return tree
        if "endpoint_url" in tree or tree.get("kind") != "pagerduty":
            tree["endpoint_url"] = _whole_url(_plain(tree.get("endpoint_url") or ""), tree.get("kind"))
        else:
            tree["endpoint_url"] = PAGERDUTY_URL
        return tree

    @field_validator("dashboard_url")
    @classmethod
    def _dashboard(cls, value: str) -> str:
        return value and http_address(value)

    @model_validator(mode="after")
    def _relations(self) -> Self:
        if (self.kind == "pagerduty") != (self.routing_key is not None or self.routing_key_file is not None):
            raise ValueError("routing_key must be given for kind pagerduty, and for no other")
        if self.valid_s < 3 * self.resend_s:
            raise ValueError("valid_s must be at least three times resend_s, else one lost request resolves alerts")
        if self.retry_max_s < self.retry_initial_s:
            raise ValueError("retry_max_s must be at least retry_initial_s")
        return self


def _plain(value: str | SecretStr) -> str:
    return value.get_secret_value() if isinstance(value, SecretStr) else value


def _whole_url(url: str, kind: Any) -> str:
    if not url.isascii() or not url.isprintable() or set(" #") & set(url):
        raise ValueError("endpoint_url must be http://host:port/path or https://host:port/path")
    try:
        bare = http_address(url, path="/path", instead=": set bearer_token")
    except ValueError as error:
        raise ValueError(f"endpoint_url {error}") from None
    return bare if kind != "alertmanager" or bare.endswith(ALERTMANAGER_PATH) else bare + ALERTMANAGER_PATH


class DeliveryConfig(Section):
    """Section ``delivery``."""

    targets: tuple[TargetConfig, ...] = Field(default=(), max_length=16)
    default: TargetConfig | None = None
    """One more target, easy to set from the environment: FLEETPULSE_DELIVERY__DEFAULT__KIND, ..__ENDPOINT_URL."""
    open_max: int = Field(default=20_000, ge=1, le=1_000_000)
    """Open alerts a target's state holds; what is more is sent, but not again, and counted (``over_limit``)."""
    drain_s: float = Field(default=5.0, ge=0, le=300)
    """At shutdown, for requests in flight; what is left is sent after the next start."""

    @property
    def all_targets(self) -> tuple[TargetConfig, ...]:
        """Every target."""
        return (*self.targets, self.default) if self.default is not None else self.targets

    def read_targets(self, only: Collection[str] = ()) -> tuple[TargetConfig, ...]:
        """Those of these names, else every target, with what their files hold. Raises as ``Section.read``."""
        keys = (*(f"delivery.targets.{index}" for index in range(len(self.targets))), "delivery.default")
        named = zip(keys, self.all_targets, strict=False)
        return tuple(target.read(key) for key, target in named if not only or target.name in only)

    @model_validator(mode="before")
    @classmethod
    def _tables(cls, given: Any) -> Any:
        """Targets are tables. Checked here, where the error shows no value: an address in place of one is a secret."""
        tree = given if isinstance(given, dict) else {}
        targets = tree.get("targets", ())
        one = tree.get("default")
        if not isinstance(targets, list | tuple) or not all(isinstance(t, dict | TargetConfig) for t in targets):
            raise ValueError("targets must be a list of tables, each with kind and endpoint_url")
        if one is not None and not isinstance(one, dict | TargetConfig):
            raise ValueError("default must be a table with kind and endpoint_url")
        return given

    @model_validator(mode="after")
    def _names(self) -> Self:
        names = [target.name for target in self.all_targets]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"targets must have names of their own; {twice[0]!r} is there twice")
        return self
