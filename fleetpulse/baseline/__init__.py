"""Baselines: the latency and throughput of an endpoint by concurrency, measured, stored, compared."""
