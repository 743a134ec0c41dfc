"""Other people's instrumentation: OTLP on loopback, spans and metrics of GenAI as our own rows."""
