from __future__ import annotations

import asyncio

import pytest

from producers.otlp.http_server import serve_otlp
from runtime.edge_config import OtlpConfig
from schemas.errors import ConfigError

pytestmark = pytest.mark.enable_socket


async def test_the_servers_are_closed_when_the_service_is_told_to_stop() -> None:
    """It serves until then, and ends by itself."""
    config = OtlpConfig(enabled=True, http_port=0, grpc_port=0)
    stop = asyncio.Event()

    serving = asyncio.create_task(serve_otlp(config, {"host": "h"}, lambda _parcel: True, stop))
    await asyncio.wait([serving], timeout=0.2)
    still = not serving.done()
    stop.set()
    async with asyncio.timeout(20):
        await serving

    assert still


async def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the extra that brings it."""
    monkeypatch.setitem(__import__("sys").modules, "producers.otlp.proto_signals", None)
    monkeypatch.delattr("producers.otlp.proto_signals", raising=False)

    with pytest.raises(ConfigError, match="extra otlp"):
        await serve_otlp(OtlpConfig(enabled=True, http_port=0), {}, lambda _parcel: True, asyncio.Event())
