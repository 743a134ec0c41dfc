"""What the numbers mean, with a version: the one place that a document, a dashboard or a dispute refers to.

Every aggregated row says by which version it was made (``definition_version``). A change of meaning is a new version;
a new metric is not.
"""

from __future__ import annotations

from dataclasses import dataclass

from schemas.rows.tables import DEFINITION_VERSION


@dataclass(frozen=True, slots=True)
class Metric:
    """``formula`` is in fields of the events, or in words; ``unknown`` says when the metric is null."""

    name: str
    title: str
    unit: str
    formula: str
    unknown: str
    topic: str = "llm.requests"
    fields: tuple[str, ...] = ()
    """Fields of the topic that carry it."""
    since: int = 1
    """First ``definition_version`` with this meaning."""


# fmt: off
METRICS: tuple[Metric, ...] = (
    Metric("ttft", "Time to first token", "us",
           "request received to first token that carries content; an empty role chunk is none", "no content token came",
           fields=("ttft_us",)),
    Metric("ttfo", "Time to first output token", "us", "request received to first token that is no reasoning",
           "no such token came", fields=("ttfo_us",)),
    Metric("e2e", "End to end", "us", "request received to last byte", "the end was not seen", fields=("e2e_us",)),
    Metric("tpot", "Time per output token", "us",
           "(last - first chunk) / (tokens that came - 1); with several choices the spans added / (tokens - choices)",
           "fewer than two tokens came", fields=("tpot_us",)),
    Metric("icl", "Inter-chunk latency", "us", "gap between two chunks of a stream", "not streamed"),
    Metric("itl", "Inter-token latency", "us",
           "gap before a chunk / tokens in that chunk, counted once per token; kept as a sketch in the event, so that "
           "percentiles of a fleet are per token and no average of averages", "not streamed: the sketch is empty",
           fields=("itl_bins",)),
    Metric("queue", "Queue time", "us", "request received by the engine to scheduled", "the engine does not report it",
           fields=("queue_us",)),
    Metric("prefill", "Prefill time", "us", "scheduled to first token", "the engine does not report it",
           fields=("prefill_us",)),
    Metric("decode", "Decode time", "us", "first to last token", "the engine does not report it",
           fields=("decode_us",)),
    Metric("tokens", "Tokens", "tokens",
           "input_tokens include cached_tokens, output_tokens include reasoning_tokens; of the window of the end",
           "neither engine nor client reported them",
           fields=("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens")),
    Metric("status", "Outcome", "",
           "exactly one terminal event per request: ok, error, aborted, timeout or rejected; error_kind of a "
           "closed set",
           "never", fields=("status", "error_kind", "http_status", "finish_reason")),
    Metric("goodput", "Goodput", "requests/s",
           "requests that met all objectives of their slo_class / seconds; failed is not good; a null metric is not "
           "judged; client faults (4xx) are left out of both sides", "no request was judged",
           fields=("slo_class", "status", "http_status", "ttft_us", "tpot_us", "e2e_us")),
    Metric("percentile", "Percentile", "us",
           "on the line between the two values around rank q (n - 1) of the sketch's counts, as numpy's default, "
           "vLLM's benchmark and aiperf have it: within 1.09 % of theirs for values up to one hour; fp_quantile takes "
           "the value below, which some request had; people read few of fewer than 1 / (1 - q) values",
           "no value was known"),
    Metric("gpu_utilisation", "GPU utilisation", "%",
           "share of the driver's sampling time in which a kernel ran; says nothing of how much of the GPU it used",
           "not supported, such as under MIG", "gpu.samples", ("util_gpu_pct",)),
    Metric("energy", "Energy", "mJ",
           "difference of the counter since it was read before: NVML's once a window, at its last sample, null between",
           "no previous reading, not the last sample of a window, or grown impossibly fast", "gpu.samples",
           ("energy_mj", "interval_ms")),
    Metric("throttled", "Throttled time", "us",
           "time in which power or heat throttled clocks, difference of the NVML counters", "not supported",
           "gpu.samples", ("throttled_us", "interval_ms")),
    Metric("host_disk_queue", "Disk queue", "1/1000",
           "weighted busy time of all disks / interval: mean requests in flight", "the platform does not report it",
           "host.samples", ("disk_queue_milli",)),
    Metric("running", "Running batch", "requests",
           "requests in the engine's batch at the instant of the reading; the sketch of a window counts readings, so "
           "that percentiles are of time, whatever the batch", "the engine does not report it", "engine.samples",
           ("running",)),
    Metric("step", "Training step", "us",
           "end of the previous step of this rank to end of this one: loading, communication and checkpoints included",
           "first step of a process", "training.steps", ("step_us",)),
    Metric("kv_used", "KV cache use", "ppm", "share of KV cache blocks in use at the instant of the reading",
           "the engine does not report it", "engine.samples", ("kv_used_ppm",)),
)
# fmt: on

BY_NAME = {metric.name: metric for metric in METRICS}

assert all(metric.since <= DEFINITION_VERSION for metric in METRICS)
