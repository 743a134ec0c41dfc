"""Covers fleetpulse.doctor.examine where it needs no servers: which files hold secrets, and which can be guessed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from fleetpulse.doctor.examine import _with_secrets, examine_config, judge_tenant_secret


def test_the_configuration_s_own_file_counts_where_a_secret_stands_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a checkout, where a fleetpulse.toml beside the code is everybody's by default."""
    monkeypatch.chdir(tmp_path)
    file = Path("fleetpulse.toml")
    file.write_text('kafka = { sasl_password_file = "of-kafka" }\n')
    named = _with_secrets({})
    file.write_text('kafka = { sasl_password_file = "of-kafka" }\nclickhouse = { password = "p" }\n')

    assert (named, _with_secrets({})) == ((Path("of-kafka"),), (Path("of-kafka"), file))


@pytest.mark.parametrize(
    "secret", ["x", "a" * 16, "0" * 31 + "1", "ChangeMe-ChangeMe", "our-tenant-key-2026", "abcdef0123456789"]
)
def test_a_tenant_secret_that_can_be_guessed_is_named(tmp_path: Path, secret: str) -> None:
    """Too short a one ends processes; neither stands in what is said."""
    _, found = examine_config({"proxy.tenant_secret": secret, "data_dir": str(tmp_path)}, {})

    (wrong,) = (one for one in found if one.state.value == "wrong")
    assert (wrong.check, wrong.subject) == ("config.value", "proxy.tenant_secret")
    assert len(secret) < 16 or secret not in f"{wrong.says}{wrong.mend}"


def test_what_is_random_is_not_guessed() -> None:
    """As ``openssl rand -hex`` makes it, the shortest that is allowed too; without one it is made."""
    chance = random.Random(3)
    made = [f"{chance.getrandbits(8 * size):0{2 * size}x}" for size in (16, 32) for _ in range(2_000)]

    assert [one for one in (*made, "") if list(judge_tenant_secret(one))] == []
