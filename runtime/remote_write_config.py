"""Configuration of remote write: where figures of windows go."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, SecretStr

from runtime.config_keys import Section, http_url


class RemoteWriteConfig(Section):
    """Section ``remote_write``, for ``fleetpulse export prometheus``."""

    url: Annotated[str, http_url(instead=": set remote_write.bearer_token")] | None = None
    """``http://prometheus:9090/api/v1/write``, Mimir's, Thanos' or VictoriaMetrics' own. None: give it with --url."""
    bearer_token: SecretStr | None = None
    """For a receiver that asks for one."""
    bearer_token_file: Path | None = None
    """Holds it in place of ``bearer_token``; the export alone reads it."""
    settle_ms: int = Field(default=20_000, ge=0, le=3_600_000)
    """How long after its end a window is read. What lands later changes our tables and no longer the receiver's."""
    catch_up_ms: int = Field(default=3_000_000, ge=10_000, le=86_400_000)
    """Windows older than this are skipped, and logged, when the export begins again after a pause. Prometheus rejects
    samples that are an hour older than its newest one, unless ``out_of_order_time_window`` is longer."""
    series_max: int = Field(default=20_000, ge=1, le=1_000_000)
    """Series of one round. Samples of more are dropped and counted."""
    samples_max: int = Field(default=5_000, ge=1, le=100_000)
    """Samples of one request."""
    within_ms: int = Field(default=10_000, ge=100, le=300_000)
    """A request that takes longer has failed, and its windows are sent again."""
