"""A browser that pages are built for, without a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from nicegui import Client, core
from nicegui.page import page

from fleetpulse.dashboard import shell


@pytest.fixture
async def client(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    """A browser that came and has not connected yet."""
    monkeypatch.setattr(core, "loop", asyncio.get_running_loop())
    monkeypatch.setattr(shell, "FIRST_ANSWER_S", 0.01)
    made = Client(page("/x"))
    yield made
    made.delete()
