"""Requests of a vLLM server as its engine saw them, through the entry point group ``vllm.stat_logger_plugins``.

vLLM 0.11.1 to 0.27 (``vllm/v1/metrics/loggers.py``, ``stats.py``): the entry point must be a class below
``StatLoggerBase``; each engine step calls ``record(scheduler_stats, iteration_stats, ...)`` in the process that serves
the API, and ``iteration_stats.finished_requests`` holds the requests that ended in it. vLLM is imported only when the
class is looked up.

What vLLM reports and how it is read:

- times are seconds as floats; those of phases that never began are negative or huge, and unknown here;
- ``e2e_latency`` runs from the arrival at the API process to the step in which the last output was handled there,
  ``decode_time`` from the first to the last token in the engine: ``ttft_us`` is their difference;
- ``mean_time_per_output_token`` is 0 below two tokens: unknown here;
- ``request_id`` and ``num_cached_tokens`` came later than the rest: unknown where they are missing;
- a request that its client gave up is reported by no version: the proxy and the SDK see those.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from typing import Any

from fleetpulse_track import report

_HOUR_S = 3_600.0
_STATUS = {"abort": "aborted", "error": "error"}
_FINISH = {word: word for word in ("stop", "length", "abort", "error")}
_TIMES = (
    ("e2e_us", "e2e_latency"),
    ("queue_us", "queued_time"),
    ("prefill_us", "prefill_time"),
    ("decode_us", "decode_time"),
    ("tpot_us", "mean_time_per_output_token"),
)
_OF_OUTPUT = ("prefill_us", "decode_us")
"""Known only of requests that generated anything."""


def fields_of(finished: Any) -> dict[str, Any]:
    """What one ``FinishedRequestStats`` says, in our fields; what it lacks is None."""
    output = getattr(finished, "num_generation_tokens", 0)
    times = {name: _microseconds(getattr(finished, key, None)) for name, key in _TIMES}
    if not output:
        times |= dict.fromkeys(_OF_OUTPUT)
    if output < 2:
        times["tpot_us"] = None
    e2e_us, decode_us = times["e2e_us"], times["decode_us"]
    if e2e_us is not None and decode_us is not None and e2e_us >= decode_us:
        times["ttft_us"] = e2e_us - decode_us
    reason = str(getattr(finished, "finish_reason", "")).lower()
    return {
        **times,
        "status": _STATUS.get(reason, "ok"),
        "error_kind": "server" if reason == "error" else None,
        "finish_reason": _FINISH.get(reason, "other") if reason else None,
        "request_id": getattr(finished, "request_id", None),
        "input_tokens": getattr(finished, "num_prompt_tokens", None),
        "cached_tokens": getattr(finished, "num_cached_tokens", None),
        "output_tokens": output,
        "tokens_from": "engine",
    }


def _microseconds(seconds: Any) -> int | None:
    if not isinstance(seconds, (int, float)) or not 0 <= seconds <= _HOUR_S:
        return None
    return round(seconds * 1_000_000)


def labels_of(config: Any, engine_index: int) -> dict[str, Any]:
    """What a ``VllmConfig`` says of the engine. ``FLEETPULSE_ENGINE_ID`` names it; its index is added above 0."""
    model = getattr(config, "model_config", None)
    name = getattr(model, "served_model_name", None) or getattr(model, "model", None)
    precision = getattr(model, "quantization", None) or getattr(model, "dtype", None)
    engine_id = os.environ.get("FLEETPULSE_ENGINE_ID")
    return {
        "model": str(name[0] if isinstance(name, (list, tuple)) and name else name) if name else None,
        "model_version": _text(getattr(model, "revision", None)),
        "precision": None if precision is None else str(precision).removeprefix("torch."),
        "engine_id": f"{engine_id}-{engine_index}" if engine_id and engine_index else engine_id,
    }


def _text(value: object) -> str | None:
    return None if value is None else str(value)


class Recording:
    """The part of the plugin that needs no vLLM. Each method takes what any known version passes."""

    def __init__(self, vllm_config: Any = None, engine_index: int = 0, *more: Any, **named: Any) -> None:
        self._config = vllm_config
        self._labels: dict[int, dict[str, Any]] = {}
        self._engine_index = engine_index

    def record(
        self, scheduler_stats: Any = None, iteration_stats: Any = None, *more: Any, engine_idx: Any = None, **named: Any
    ) -> None:
        """Report the requests that ended in this step."""
        finished: Iterable[Any] = getattr(iteration_stats, "finished_requests", None) or ()
        for each in finished:
            report(**self._labels_of(engine_idx), **fields_of(each))

    def log_engine_initialized(self) -> None:
        """Nothing: the agent learns of the engine from its metrics page."""

    def log(self, *more: Any, **named: Any) -> None:
        """Nothing: requests are reported as they end."""

    def _labels_of(self, engine_idx: Any) -> dict[str, Any]:
        index = engine_idx if isinstance(engine_idx, int) and engine_idx else self._engine_index
        if index not in self._labels:
            self._labels[index] = labels_of(self._config, index)
        return self._labels[index]


@cache
def _logger_class() -> type:
    from vllm.v1.metrics.loggers import StatLoggerBase  # type: ignore[import-not-found]

    return type("RequestLogger", (Recording, StatLoggerBase), {"__module__": __name__})


def __getattr__(name: str) -> Any:
    """``RequestLogger``: the class that the entry point names, made when vLLM asks for it."""
    if name == "RequestLogger":
        return _logger_class()
    raise AttributeError(name)
