"""Configuration of traces: where they go, and how many."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from runtime.config_keys import Section, http_url


class TracingConfig(Section):
    """Section ``tracing``. Headers and certificates for a collector that asks for them are read from OpenTelemetry's
    own variables (``OTEL_EXPORTER_OTLP_HEADERS``, ``OTEL_EXPORTER_OTLP_CERTIFICATE``)."""

    endpoint: Annotated[str, http_url(instead=": set OTEL_EXPORTER_OTLP_HEADERS")] | None = None
    """Collector that takes OTLP over HTTP (``http://jaeger:4318``); spans go to ``/v1/traces`` below it. None: no
    traces, and nothing of them is loaded."""
    ratio: float = Field(default=0.001, gt=0, le=1)
    """Share of the edge's batches whose way is traced. Jobs and sinks follow what the edge has chosen."""
    requests: bool = False
    """A span of each request that the proxy passes on, in the client's trace, where its ``traceparent`` is sampled; of
    traces that begin at the proxy all, with ``proxy.trace_sampled``. False: batches alone are traced."""
    service_name: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    """What spans call this process. None: ``fleetpulse-`` and what it is (``fleetpulse-jobs-windows``)."""
    queue_spans_max: int = Field(default=2_048, ge=1, le=65_536)
    """Spans that wait for the collector. More are dropped and counted."""
    batch_spans_max: int = Field(default=512, ge=1, le=65_536)
    """Spans of one request to the collector."""
    export_every_ms: int = Field(default=1_000, ge=10, le=60_000)
    """How long a span waits for others to travel with."""
    export_within_ms: int = Field(default=5_000, ge=100, le=60_000)
    """A request that takes longer, tries again included, is given up, and its spans are dropped and counted."""
    flush_within_ms: int = Field(default=1_000, ge=0, le=60_000)
    """How long the end of the process waits for the spans that wait then. The rest is dropped and counted."""

    @model_validator(mode="after")
    def _batches(self) -> Self:
        if self.batch_spans_max > self.queue_spans_max:
            raise ValueError("batch_spans_max must not be above queue_spans_max")
        return self

    @property
    def url(self) -> str | None:
        """Where spans are sent to; None when there are none."""
        return None if self.endpoint is None else f"{self.endpoint.removesuffix('/v1/traces')}/v1/traces"
