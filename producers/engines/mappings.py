"""Mapping of engine metrics to fields of ``engine.samples``: one table per engine. Data only.

Sources, read 2026-11: vLLM ``vllm/v1/metrics/loggers.py`` (0.9 to 0.32) and ``vllm/engine/metrics.py`` (0.5);
SGLang ``python/sglang/srt/observability/metrics_collector.py``; TGI ``docs/source/reference/metrics.md`` and
``router/src/infer/mod.rs``; TensorRT-LLM ``tensorrt_llm/metrics/collector.py``; Triton's TensorRT-LLM backend
``inflight_batcher_llm/src/custom_metrics_reporter/custom_metrics_reporter.cc``; llama.cpp ``tools/server``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

PPM = 1_000_000
"""Scale of a share from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Source:
    """Samples of one name. ``where`` names the values a label may have; "" stands for a label that is missing too."""

    name: str
    where: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))
    scale: int = 1


@dataclass(frozen=True, slots=True)
class FieldMapping:
    """A field of ``engine.samples``. The first of ``alternatives`` that a scrape has is taken: newer names first.

    Sources of one alternative add up, and so do the series of a row (data-parallel ranks, reasons, cache tiers), unless
    ``across`` is ``mean``: shares of pools of equal size. ``whole`` alternatives need every one of their sources.
    """

    name: str
    alternatives: tuple[tuple[Source, ...], ...]
    across: Literal["sum", "mean"] = "sum"
    whole: bool = False


@dataclass(frozen=True, slots=True)
class EngineKind:
    """How one engine's metrics are read.

    ``signs``: a scrape with any of these names is this engine's. ``anchor``: where given, only models that have this
    family get a row. ``ranks``: labels of processes that all report the same value; the highest is taken.
    ``metrics_paths``: where to look, best first. ``routers``: labels that stand in place of the model's name where a
    router repeats the signs of engines behind it.
    """

    kind: str
    signs: frozenset[str]
    fields: tuple[FieldMapping, ...]
    model_label: str | None = None
    version_label: str | None = None
    anchor: str | None = None
    ranks: frozenset[str] = frozenset()
    metrics_paths: tuple[str, ...] = ("/metrics",)
    routers: frozenset[str] = frozenset()

    @property
    def names(self) -> frozenset[str]:
        """The sample names that any of its fields is made of."""
        sources = (source for mapping in self.fields for each in mapping.alternatives for source in each)
        return frozenset(source.name for source in sources) | ({self.anchor} if self.anchor else frozenset())


def _field(name: str, *sources: Source | str) -> FieldMapping:
    """One alternative per source."""
    return FieldMapping(name, tuple((_source(source),) for source in sources))


def _sum(name: str, *sources: Source | str, whole: bool = False) -> FieldMapping:
    """One alternative, of all sources."""
    return FieldMapping(name, (tuple(_source(source) for source in sources),), whole=whole)


def _share(*sources: Source | str) -> FieldMapping:
    shares = (_source(source) for source in sources)
    return FieldMapping("kv_used_ppm", tuple((Source(each.name, each.where, PPM),) for each in shares), across="mean")


def _source(source: Source | str) -> Source:
    return Source(source) if isinstance(source, str) else source


def _of(name: str, **where: str | tuple[str, ...]) -> Source:
    sets = {label: frozenset([values] if isinstance(values, str) else values) for label, values in where.items()}
    return Source(name, MappingProxyType(sets))


VLLM = EngineKind(
    "vllm",
    frozenset({"vllm:num_requests_running", "vllm:num_requests_waiting"}),
    (
        _field("running", "vllm:num_requests_running"),
        _field("waiting", "vllm:num_requests_waiting"),
        _share("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),  # 0.9 and 0.10 report both
        _field("preemptions", "vllm:num_preemptions_total"),
        _field("prompt_tokens", "vllm:prompt_tokens_total"),
        # The older name, gpu_prefix_cache_hits, counted blocks in some releases and tokens in others: left out.
        _field("prefix_hit_tokens", "vllm:prefix_cache_hits_total"),
        _field("generation_tokens", "vllm:generation_tokens_total"),
        _field("finished_requests", "vllm:request_success_total"),  # every finished_reason
    ),
    model_label="model_name",
    routers=frozenset({"server"}),  # vLLM production stack
)

_EVERYBODY = {"priority": ""}
"""With priority scheduling SGLang reports each priority and, with an empty label, their sum."""

SGLANG = EngineKind(
    "sglang",
    frozenset({"sglang:num_running_reqs", "sglang:num_queue_reqs"}),
    (
        _field("running", _of("sglang:num_running_reqs", **_EVERYBODY)),
        _field("waiting", _of("sglang:num_queue_reqs", **_EVERYBODY)),
        _share("sglang:token_usage"),
        _field("preemptions", "sglang:num_retracted_requests_total"),
        _field("prompt_tokens", "sglang:prompt_tokens_total"),
        _field("prefix_hit_tokens", "sglang:cached_tokens_total"),  # every cache_source
        _field("generation_tokens", "sglang:generation_tokens_total"),
        _field("finished_requests", "sglang:num_requests_total"),
    ),
    model_label="model_name",
    ranks=frozenset({"tp_rank", "pp_rank", "moe_ep_rank", "pid"}),
)

TGI = EngineKind(
    "tgi",
    frozenset({"tgi_queue_size", "tgi_batch_current_size", "tgi_request_count"}),
    (
        _field("running", "tgi_batch_current_size"),
        _field("waiting", "tgi_queue_size"),
        _field("prompt_tokens", "tgi_request_input_length_sum"),
        _field("generation_tokens", "tgi_request_generated_tokens_sum"),
        # Requests that were refused before they began (overloaded, validation, template) did not run.
        _sum(
            "finished_requests",
            "tgi_request_success",
            _of("tgi_request_failure", err=("generation", "incomplete", "dropped")),
        ),
    ),
)

TRTLLM = EngineKind(
    "trtllm",
    frozenset({"trtllm_num_requests_running", "trtllm_request_success_total", "trtllm_kv_cache_utilization"}),
    (
        _field("running", "trtllm_num_requests_running"),
        _field("waiting", "trtllm_num_requests_waiting"),
        _share("trtllm_kv_cache_utilization"),
        _field("prompt_tokens", "trtllm_prompt_tokens_total"),
        _field("prefix_hit_tokens", "trtllm_prompt_cached_tokens_total"),
        _field("generation_tokens", "trtllm_generation_tokens_total"),
        _field("finished_requests", "trtllm_request_success_total"),  # every finished_reason
    ),
    model_label="model_name",
    metrics_paths=("/prometheus/metrics", "/metrics"),  # the second answers JSON unless it was switched over
)

TRITON = EngineKind(
    "triton",
    frozenset({"nv_trt_llm_request_metrics", "nv_trt_llm_kv_cache_block_metrics"}),
    (
        _field("running", _of("nv_trt_llm_request_metrics", request_type="scheduled")),
        _field("waiting", _of("nv_trt_llm_request_metrics", request_type="waiting")),
        _share(_of("nv_trt_llm_kv_cache_block_metrics", kv_cache_block_type="fraction")),
        _field("prompt_tokens", "nv_llm_input_token_len_sum"),
        _field("generation_tokens", "nv_llm_output_token_len_sum"),
        # Not REJECTED, which waited in the queue for too long and did not run. Older releases say no reason.
        _sum(
            "finished_requests",
            "nv_inference_request_success",
            _of("nv_inference_request_failure", reason=("", "OTHER", "BACKEND", "CANCELED")),
        ),
    ),
    model_label="model",
    version_label="version",
    # An ensemble's steps (preprocessing, postprocessing, the ensemble itself) count the same requests again.
    anchor="nv_trt_llm_request_metrics",
)

LLAMACPP = EngineKind(
    "llamacpp",
    frozenset({"llamacpp:requests_processing", "llamacpp:tokens_predicted_total"}),
    (
        _field("running", "llamacpp:requests_processing"),
        _field("waiting", "llamacpp:requests_deferred"),
        _share("llamacpp:kv_cache_usage_ratio"),  # releases until mid 2025
        # Its prompt counter leaves cached tokens out; ours has them in, so it takes both.
        _sum("prompt_tokens", "llamacpp:prompt_tokens_total", "llamacpp:prompt_tokens_cached_total", whole=True),
        _field("prefix_hit_tokens", "llamacpp:prompt_tokens_cached_total"),
        _field("generation_tokens", "llamacpp:tokens_predicted_total"),
    ),
)

ENGINES: tuple[EngineKind, ...] = (VLLM, SGLANG, TGI, TRTLLM, TRITON, LLAMACPP)
BY_KIND: Mapping[str, EngineKind] = MappingProxyType({each.kind: each for each in ENGINES})

START_TIME = "process_start_time_seconds"
"""Start time of the process, where prometheus clients of one process are used: a new value is a restart."""
