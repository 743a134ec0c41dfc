"""Keys of the configuration, found by walking its types: what is spelt alike, and where secrets stand."""

from __future__ import annotations

import pytest

from runtime.config import Config
from runtime.config_keys import is_key, is_secret, known_keys, nearest_key


@pytest.mark.parametrize(
    ("path", "nearest"),
    [
        (("kafak",), "kafka"),
        (("kafka", "bootsrap"), "kafka.bootstrap"),
        (("limits", "raw_tll_ms"), "limits.raw_ttl_ms"),
        (("delivery", "targets", 0, "endpoint_uri"), "delivery.targets.0.endpoint_url"),
        (("zzz",), None),
        (("kafka", "bootstrap", "port"), None),
        (("nowhere", "bootstrap"), None),
    ],
)
def test_the_key_that_was_meant_is_named_with_its_path(path: tuple[str | int, ...], nearest: str | None) -> None:
    """Of the same section; nothing where nothing is alike, below a plain value and in a section that is not there."""
    assert nearest_key(Config, path) == nearest


def test_secrets_are_known_by_their_type() -> None:
    """Also where a value may be left out; nothing else is one."""
    assert is_secret(Config, ("clickhouse", "password"))
    assert is_secret(Config, ("kafka", "sasl_password"))
    assert not is_secret(Config, ("clickhouse", "user"))
    assert not is_secret(Config, ("clickhouse", "passwort"))


def test_a_secret_that_one_part_reads_has_its_file_as_a_setting() -> None:
    """Those of all others are read with the settings, and ``..._file`` is none."""
    assert is_key(Config, ("agent", "engines", 0, "api_key_file"))
    assert is_key(Config, ("agent", "otlp", "token_file"))
    assert not is_key(Config, ("clickhouse", "password_file"))
    assert not is_key(Config, ("nowhere", "token_file"))


def test_keys_are_those_of_models_and_dataclasses() -> None:
    """A plain type has none."""
    assert {"kafka", "clickhouse", "limits"} <= set(known_keys(Config) or ())
    assert "raw_ttl_ms" in (known_keys((known_keys(Config) or {})["limits"]) or {})
    assert known_keys(int) is None
