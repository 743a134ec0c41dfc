"""Files of secrets: which settings name them, and what stands in one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runtime.secret_files import named_files, read_secret
from schemas.errors import ConfigError


@pytest.mark.parametrize(
    ("tree", "files"),
    [
        ({"clickhouse": {"password_file": "a", "ca_file": "open", "user": "u"}}, ["a"]),
        ({"agent": {"engines": [{"api_key_file": "a"}, {"api_key_file": "b"}]}}, ["a", "b"]),
        ({"kafka": {"ssl_keyfile": "a", "ssl_cafile": "open"}, "config_file": "open"}, ["a"]),
        ({"clickhouse": {"password_file": None}}, []),
    ],
)
def test_files_of_secrets_are_told_by_their_keys(tree: dict[str, Any], files: list[str]) -> None:
    """At any depth; authorities and certificates are for everybody."""
    assert list(named_files(tree)) == [Path(name) for name in files]


def test_a_secret_is_the_text_of_its_file(tmp_path: Path) -> None:
    """Without the newline at its end; of a file that is not there the key and the name are told."""
    (tmp_path / "a secret").write_text(" hush \n")

    assert read_secret("kafka.sasl_password_file", tmp_path / "a secret") == " hush "
    with pytest.raises(ConfigError, match=r"^kafka\.sasl_password_file = .*none': must be a readable file"):
        read_secret("kafka.sasl_password_file", tmp_path / "none")
