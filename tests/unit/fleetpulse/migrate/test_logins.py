"""Logins by role, as the command line takes them."""

from __future__ import annotations

import pytest

from fleetpulse.migrate.logins import logins_of
from schemas.errors import ConfigError


def test_a_login_is_a_users_name_or_a_principal() -> None:
    """A certificate's subject has signs of equality of its own; several logins may have one role."""
    given = ["edge=User:CN=gpu-nodes,O=x", "jobs=jobs", "edge=other"]

    assert logins_of(given) == {"edge": ["User:CN=gpu-nodes,O=x", "User:other"], "jobs": ["User:jobs"]}


@pytest.mark.parametrize("text", ["edge", "edge=", "=x", "king=x", ""])
def test_what_is_no_role_and_login_is_refused(text: str) -> None:
    """With the roles that there are."""
    with pytest.raises(ConfigError, match="a role of edge, gateway"):
        logins_of([text])
