"""Where the dashboard's token comes from, and what goes on while its pages are served."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import pytest

from fleetpulse.dashboard.data import Data
from fleetpulse.dashboard.security import access_for
from fleetpulse.dashboard.serve import served, token_of
from schemas.errors import ConfigError

TOKEN = "0123456789abcdef"


def test_a_token_given_stands_and_none_is_none() -> None:
    """Without a file nothing is read."""
    assert (token_of(TOKEN, None), token_of(None, None)) == (TOKEN, None)


@pytest.mark.parametrize("text", [TOKEN, f"{TOKEN}\n", f" {TOKEN} \r\n"])
def test_a_file_holds_the_token_with_or_without_a_newline(tmp_path: Path, text: str) -> None:
    """Editors and secret stores end files differently."""
    file = tmp_path / "token"
    file.write_bytes(text.encode())

    assert token_of(None, file) == TOKEN


def test_an_empty_file_opens_no_door(tmp_path: Path) -> None:
    """A secret that was not filled in is refused, not taken for no token."""
    file = tmp_path / "token"
    file.write_text("\n")

    with pytest.raises(ConfigError, match="at least 16"):
        access_for("0.0.0.0", token_of(None, file), None, ())


def test_a_token_and_its_file_at_once_are_refused_and_not_shown(tmp_path: Path) -> None:
    """Which of them counts would be a guess."""
    with pytest.raises(ConfigError, match="leave one out") as refused:
        token_of(TOKEN, tmp_path / "token")
    assert TOKEN not in str(refused.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """With the option that named it."""
    with pytest.raises(ConfigError, match=r"--token-file.*no-such-file"):
        token_of(None, tmp_path / "no-such-file")


class Looked:
    """Stands for what pages ask; looks until it is cancelled."""

    def __init__(self) -> None:
        self.did: list[str] = []

    async def look(self) -> None:
        self.did.append("looks")
        try:
            await asyncio.Event().wait()
        finally:
            self.did.append("looks no more")

    async def close(self) -> None:
        self.did.append("closed")


async def test_while_pages_are_served_clickhouse_is_looked_at_without_any() -> None:
    """A dashboard that waited for its first page would never be ready where browsers are sent to ready ones alone."""
    data = Looked()

    async with served(cast(Data, data)):
        await asyncio.sleep(0)
        assert data.did == ["looks"]

    assert data.did == ["looks", "looks no more", "closed"]
