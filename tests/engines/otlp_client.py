"""Requests by the openai package under OpenLLMetry's instrumentation: BASE_URL, OTLP_URL. A JSON line for each.

Runs in an environment of its own; nothing in it is ours.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from openai import OpenAI  # type: ignore[import-not-found]
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.openai import OpenAIInstrumentor  # type: ignore[import-not-found]
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

REQUESTS = 6
MESSAGES = [{"role": "user", "content": "tide moon salt shore"}]


def main(base_url: str, otlp_url: str) -> None:
    provider = TracerProvider(resource=Resource({"service.name": "app", "tenant.id": "by-otlp"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{otlp_url}/v1/traces")))
    OpenAIInstrumentor().instrument(tracer_provider=provider)
    client = OpenAI(base_url=f"{base_url}/v1", api_key="sk-otlp", max_retries=0)
    for number in range(REQUESTS):
        options: dict[str, Any] = {"model": "tiny", "max_tokens": 5, "extra_body": {"ignore_eos": True}}
        streamed = number % 2 == 1
        answer = client.chat.completions.create(messages=MESSAGES, stream=streamed, **options)
        last = list(answer)[-1] if streamed else answer
        sys.stdout.write(json.dumps({"id": last.id, "streamed": streamed}) + "\n")
    provider.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
