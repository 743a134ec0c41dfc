"""OTLP as a service of the agent: both transports, one intake."""

from __future__ import annotations

import asyncio
import contextlib

from producers.otlp.http_server import OtlpHttp
from producers.otlp.intake import Intake, Offer
from producers.otlp.signals import Attributes
from runtime.edge_config import OtlpConfig
from schemas.errors import ConfigError


async def serve_otlp(config: OtlpConfig, labels: Attributes, offer: Offer, stop: asyncio.Event) -> None:
    """Serve until ``stop``. Raises ConfigError where what it needs is not installed."""
    intake = Intake(labels, offer)
    with contextlib.ExitStack() as running:
        await asyncio.to_thread(_open, config, intake, running)
        await stop.wait()


def _open(config: OtlpConfig, intake: Intake, running: contextlib.ExitStack) -> None:
    try:
        from producers.otlp import proto_signals  # noqa: F401

        running.enter_context(OtlpHttp(intake, config.http_port, config.body_bytes_max))
        if config.grpc_port is not None:
            from producers.otlp.grpc_server import OtlpGrpc

            running.enter_context(OtlpGrpc(intake, config.grpc_port, config.body_bytes_max))
    except ImportError as error:
        raise ConfigError("agent.otlp.enabled", True, f"needs the package's extra otlp ({error})") from error
