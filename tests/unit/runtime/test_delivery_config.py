"""Section ``delivery``: whole addresses, secrets that stay secret, limits that fit one another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from runtime.delivery_config import PAGERDUTY_URL, DeliveryConfig, TargetConfig
from schemas.errors import ConfigError

HOOK = {"name": "hook", "kind": "webhook", "endpoint_url": "https://h.example/a"}


@pytest.mark.parametrize(
    ("kind", "url", "whole"),
    [
        ("alertmanager", "http://am:9093", "http://am:9093/api/v2/alerts"),
        ("alertmanager", "http://am:9093/base/", "http://am:9093/base/api/v2/alerts"),
        ("alertmanager", "http://am:9093/api/v2/alerts", "http://am:9093/api/v2/alerts"),
        ("webhook", "https://h.example/a?b=c", "https://h.example/a?b=c"),
        ("slack", "https://hooks.slack.example/services/T/B/X/", "https://hooks.slack.example/services/T/B/X"),
    ],
)
def test_addresses_are_made_whole(kind: str, url: str, whole: str) -> None:
    """Alertmanager's path is put behind its address; no other is touched."""
    assert TargetConfig(kind=kind, endpoint_url=url).url == whole


def test_a_filter_is_known_by_what_it_matches() -> None:
    """In any order; nothing else of a target counts."""
    one = TargetConfig(**HOOK, severities=["critical", "info"], match={"a": ["x", "y"], "b": "z"})
    same = TargetConfig(**HOOK, severities=["info", "critical"], match={"b": ["z"], "a": ["y", "x"]}, burst=1)
    others = [
        TargetConfig(**HOOK),
        TargetConfig(**HOOK, severities=["critical", "info"]),
        TargetConfig(**HOOK, severities=["critical", "info"], match={"a": ["x"], "b": ["y", "z"]}),
    ]

    assert one.filter_id == same.filter_id
    assert len({one.filter_id, *(other.filter_id for other in others)}) == 4


def test_pagerduty_has_an_address_of_its_own() -> None:
    """Unless another is given."""
    assert TargetConfig(kind="pagerduty", routing_key="k").url == PAGERDUTY_URL
    assert TargetConfig(kind="pagerduty", routing_key="k", endpoint_url="http://p:1/x").url == "http://p:1/x"


@pytest.mark.parametrize(
    "wrong",
    [
        {"endpoint_url": ""},
        {"endpoint_url": "ftp://h/secret1"},
        {"endpoint_url": "http://u:secret1@h"},
        {"endpoint_url": "http://h/secret1#x"},
        {"endpoint_url": "http://h:0"},
        {"endpoint_url": "http://h/\r\nsecret1: y"},
        {"endpoint_url": ["secret1"]},
        {"hmac_key": "secret1"},
        {"hmac_kye": "secret1-secret1-secret1"},
        {"bearer_token": {"secret1": 1}},
        {"bearer_token": "secret1\u00e9"},
        {"bearer_token": "secret1\n"},
        {"bearer_token": "secret1 2"},
        {"bearer_token": ""},
        {"kind": "pagerduty", "routing_key": "secret1\u00e9"},
        {"routing_key": "secret1"},
        {"valid_s": 100, "resend_s": 60},
        {"retry_max_s": 1, "retry_initial_s": 2},
        {"severities": ["fatal"]},
        {"severities": []},
        {"match": {"host": []}},
        {"rate_per_s": 0},
        {"name": "With Space"},
    ],
)
def test_what_is_wrong_is_refused_without_showing_secrets(wrong: dict[str, Any]) -> None:
    """Misspelt names of settings too: their value may be a secret."""
    with pytest.raises(ValidationError) as found:
        DeliveryConfig(targets=({**HOOK, **wrong},))

    assert "secret1" not in str(found.value)
    for error in found.value.errors():
        assert isinstance(error["input"], dict) or "secret1" not in str(error["input"])


@pytest.mark.parametrize("wrong", [{"targets": ["http://h/secret1"]}, {"targets": "secret1"}, {"default": "secret1"}])
def test_an_address_in_place_of_a_table_is_refused_without_showing_it(wrong: dict[str, Any]) -> None:
    """The error is that of the whole section."""
    with pytest.raises(ValidationError) as found:
        DeliveryConfig(**wrong)

    assert [error["loc"] for error in found.value.errors()] == [()]


def test_secrets_come_from_files_and_stand_in_no_repr(tmp_path: Path) -> None:
    """Without the newline at their end."""
    names = ("endpoint_url", "bearer_token", "hmac_key")
    for name, text in zip(names, ("https://h.example/t0k3n", "b3ar3r", "k3y-of-16-bytes-and-more"), strict=True):
        (tmp_path / name).write_text(f"{text}\n")

    given = TargetConfig(kind="webhook", **{f"{name}_file": str(tmp_path / name) for name in names})
    target = given.read("delivery.default")

    assert (given.url, given.tokens) == ("", ())
    assert (target.url, target.origin) == ("https://h.example/t0k3n", "https://h.example")
    assert set(target.secrets) == {"https://h.example/t0k3n", "b3ar3r", "k3y-of-16-bytes-and-more", "/t0k3n"}
    assert not any(secret in repr(target) + str(target) for secret in ("t0k3n", "b3ar3r", "k3y-of"))


@pytest.mark.parametrize(
    ("given", "text", "said"),
    [
        ({"hmac_key_file": "none"}, None, "delivery.default.hmac_key_file = '{path}': must be a readable file"),
        ({"hmac_key_file": "none"}, "secret1", "delivery.default = '...': hmac_key must have at least 16 bytes"),
        ({"endpoint_url_file": "none"}, "secret1", "delivery.default = '...': endpoint_url must be http"),
        ({"kind": "pagerduty", "routing_key_file": "none"}, "", "delivery.default = '...': routing_key must be print"),
    ],
)
def test_a_file_is_read_by_who_delivers_and_by_nobody_else(
    given: dict[str, Any], text: str | None, said: str, tmp_path: Path
) -> None:
    """A job on a host without the files has the same settings."""
    path = tmp_path / "a secret"
    if text is not None:
        path.write_text(text)
    files = {name: str(path) if name.endswith("_file") else value for name, value in given.items()}
    found = DeliveryConfig(targets=(HOOK,), default={"kind": "webhook", "endpoint_url": "http://h/x", **files})

    with pytest.raises(ConfigError) as raised:
        found.read_targets()

    assert said.format(path=path) in str(raised.value)
    assert "secret1" not in str(raised.value)
    assert found.read_targets(["hook"]) == found.targets


def test_rates_follow_the_kind_unless_told() -> None:
    """A chat service takes one message a second."""
    slack = {"kind": "slack", "endpoint_url": "http://h/x"}

    assert (TargetConfig(**slack).rate, TargetConfig(**slack, rate_per_s=3).rate) == (1.0, 3.0)
    assert TargetConfig(kind="alertmanager", endpoint_url="http://h").rate == 20.0


def test_a_target_matches_rules() -> None:
    """As a silence does: no label of an alert is called so."""
    target = TargetConfig(**HOOK, match={"rule": ["budget", "spend"], "tenant": "acme"})

    found = [target.matches("info", rule, {"tenant": "acme"}) for rule in ("spend", "gpu_hot")]

    assert (found, target.matches("info", "budget", {"tenant": "globex"})) == ([True, False], False)


@pytest.mark.parametrize(
    ("severity", "labels", "matches"),
    [
        ("critical", {"host": "h1", "x": "y"}, True),
        ("critical", {"host": "h3"}, False),
        ("critical", {}, False),
        ("info", {"host": "h1"}, False),
    ],
)
def test_a_target_matches_severities_and_labels(severity: str, labels: dict[str, str], matches: bool) -> None:
    """Every label with one of its values; a single value needs no list."""
    target = TargetConfig(**HOOK, severities=("warning", "critical"), match={"host": ["h1", "h2"]})

    assert target.matches(severity, "gpu_hot", labels) is matches
    assert TargetConfig(**HOOK, match={"host": "h1"}).match == {"host": ("h1",)}


def test_names_of_targets_are_their_own() -> None:
    """The default target's too."""
    default = {**HOOK, "name": "default"}

    assert [one.name for one in DeliveryConfig(targets=(HOOK,), default=default).all_targets] == ["hook", "default"]
    with pytest.raises(ValidationError, match="'hook' is there twice"):
        DeliveryConfig(targets=(HOOK,), default=HOOK)
