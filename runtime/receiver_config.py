"""Configuration of the agent's receiver: where applications of this host hand in their requests, and its limits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class ReceiverConfig(BaseModel):
    """Section ``agent.receiver``. What a limit does when it is reached is said beside it."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    enabled: bool = True
    socket: Path | None = None
    """Unix datagram socket. None: FLEETPULSE_SOCKET where it is set, else /run/fleetpulse/agent.sock where that folder
    can be written to, else fleetpulse.sock in XDG_RUNTIME_DIR; the SDK looks in the same places."""
    socket_group: Annotated[str, Field(min_length=1, max_length=32)] | None = None
    """Group whose processes may send (the socket has mode 0660). None: the agent's own."""
    linger_ms: int = Field(default=200, ge=1, le=1_000)
    """How long requests gather before they are spooled; a kill -9 of the agent loses no older ones."""
    batch_datagrams_max: int = Field(default=1_000, ge=1, le=10_000)
    """Spooled at once when so many have gathered."""
    buffer_bytes: int = Field(default=4 * 1024 * 1024, ge=256 * 1024, le=256 * 1024 * 1024)
    """Datagrams that gather, twice. Full: they stay in the socket, then in the clients, which count what they drop."""
    clients_max: int = Field(default=4_096, ge=16, le=1_048_576)
    """Processes whose sequences are followed; the one silent longest is forgotten for a new one."""
    http_port: int | None = Field(default=None, ge=0, le=65_535)
    """POST /v1/requests on loopback, one JSON object a line. None: off; 0 takes a free port."""
    http_body_bytes_max: int = Field(default=1024 * 1024, ge=1_024, le=8 * 1024 * 1024)
    """Of one request; larger ones are refused with 413."""
    http_connections_max: int = Field(default=64, ge=1, le=4_096)
    """Open at a time; more are refused with 503."""
    http_idle_ms: int = Field(default=30_000, ge=100, le=600_000)
    """A connection that sends nothing for so long, or a request that takes longer to arrive, is closed."""
