"""Requests of a vLLM server as its engine saw them, through the entry point group ``vllm.stat_logger_plugins``.

vLLM 0.11.1 to 0.32 (``vllm/v1/metrics/loggers.py``, ``stats.py``): the entry point must be a class below
``StatLoggerBase``; each engine step calls ``record(scheduler_stats, iteration_stats, ...)`` in the process that serves
the API, and ``iteration_stats.finished_requests`` holds the requests that ended in it. vLLM is imported only when the
class is looked up.

What vLLM reports and how it is read:

- times are seconds as floats; those of phases that never began are negative or huge, and unknown here;
- ``e2e_latency`` runs from the arrival at the API process to the step in which the last output was handled there,
  ``decode_time`` from the first to the last token in the engine: ``ttft_us`` is their difference;
- ``mean_time_per_output_token`` is 0 below two tokens: unknown here;
- ``request_id`` and ``num_cached_tokens`` came later than the rest: unknown where they are missing;
- ``request_id`` is the client's (``external_req_id``), the same for each of ``n`` choices, which vLLM runs and counts
  as requests of their own (``ParentRequest``): the first to end keeps it, later ones get ``1_``, ``2_``, ... in front;
- a request that its client gave up is reported by no version: the proxy and the SDK see those.
"""

from __future__ import annotations

import logging
import os
import sys
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from fleetpulse_track import report

_log = logging.getLogger(__name__)

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
IDS_MAX = 16_384
"""Ids remembered, the latest, of which another choice may end. One that comes back later keeps its name."""
_ids: OrderedDict[str, int] = OrderedDict()
"""How many choices of each ended, on whichever engine of this server: with data parallelism each has its own object."""
PRECISIONS = {
    **{"float16": "fp16", "half": "fp16", "f16": "fp16", "bfloat16": "bf16"},
    **{"float32": "fp32", "float": "fp32", "f32": "fp32", "all f32": "fp32"},
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "fp8_e4m3", "fp8_e5m2", "w8a8_fp8", "fbgemm_fp8"), "fp8"),
    **dict.fromkeys(("w8a8_int8", "q8_0"), "int8"),
    **dict.fromkeys(("w4a16", "awq", "awq_marlin", "q4_0", "q4_1", "q4_k - medium", "q4_k - small"), "int4"),
}
"""The agent's spelling of weight types (its ``producers/engines/facts.py``), so that requests and engines match."""
_WILDCARDS = ("", "0.0.0.0", "::", "localhost")
_RANKS_APART = {
    *("--data-parallel-rank", "-dpn", "--data-parallel-external-lb", "-dpe"),
    *("--data-parallel-start-rank", "-dpr", "--data-parallel-hybrid-lb", "-dph"),
}
"""Options of vLLM by which ranks of data parallelism have servers of their own."""
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
        "input_tokens": _count(getattr(finished, "num_prompt_tokens", None)),
        "cached_tokens": _count(getattr(finished, "num_cached_tokens", None)),
        "output_tokens": output,
        "tokens_from": "engine",
        "reported_by": "plugin",
    }


def _count(tokens: Any) -> int | None:
    """vLLM has -1 where it does not know: the cached tokens of what it never scheduled, as when loading KV failed."""
    return tokens if type(tokens) is int and tokens >= 0 else None


def _microseconds(seconds: Any) -> int | None:
    if not isinstance(seconds, (int, float)) or not 0 <= seconds <= _HOUR_S:
        return None
    return round(seconds * 1_000_000)


def labels_of(config: Any, engine_index: int, arguments: Sequence[str] = ()) -> dict[str, Any]:
    """What a ``VllmConfig`` and the command line say of the engine. ``FLEETPULSE_ENGINE_ID`` names it; its index is
    added above 0, but not where one address has all ranks: their page is one engine's to the agent. Without it the
    agent finds the engine by its ``address``."""
    model = getattr(config, "model_config", None)
    name = getattr(model, "served_model_name", None) or getattr(model, "model", None)
    engine_id, address = os.environ.get("FLEETPULSE_ENGINE_ID"), address_of(arguments)
    apart = engine_index and (address is None or _RANKS_APART & _options(arguments).keys())
    return {
        "model": str(name[0] if isinstance(name, (list, tuple)) and name else name) if name else None,
        "model_version": _text(getattr(model, "revision", None)),
        "precision": _precision(getattr(model, "quantization", None) or getattr(model, "dtype", None)),
        "engine_id": f"{engine_id}-{engine_index}" if engine_id and apart else engine_id,
        "address": address,
    }


def address_of(arguments: Sequence[str]) -> str | None:
    """Where a server with this command line listens, as seen on its host: ``vllm serve`` or
    ``vllm.entrypoints.openai.api_server``. None: another program, or not known from it."""
    if "serve" not in arguments[1:2] and not "".join(arguments[:1]).endswith("api_server.py"):
        return None
    options = _options(arguments)
    port = options.get("--port", "8000")
    elsewhere = {"--uds", "--data-parallel-multi-port-external-lb"} | (set() if "--port" in options else {"--config"})
    if not port.isdigit() or elsewhere & options.keys():
        return None
    host = options.get("--host", "")
    host = "127.0.0.1" if host in _WILDCARDS else host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _options(arguments: Sequence[str]) -> dict[str, str]:
    """By name, with dashes; of one that has no value, whatever word comes next."""
    found = {}
    for word, after in zip(arguments, [*arguments[1:], ""]):
        name, given, value = word.partition("=")
        found[name.replace("_", "-")] = value if given else after
    return found


def _precision(value: object) -> str | None:
    name = "" if value is None else str(value).lower()
    name = name[len("torch.") :] if name.startswith("torch.") else name
    return PRECISIONS.get(name, name) or None


def _text(value: object) -> str | None:
    return None if value is None else str(value)


class Recording:
    """The part of the plugin that needs no vLLM. Each method takes what any known version passes."""

    def __init__(self, vllm_config: Any = None, engine_index: int = 0, *more: Any, **named: Any) -> None:
        self._config = vllm_config
        self._labels: dict[int, dict[str, Any]] = {}
        self._engine_index = engine_index
        self._ids = _ids
        self._warned = False

    def record(
        self, scheduler_stats: Any = None, iteration_stats: Any = None, *more: Any, engine_idx: Any = None, **named: Any
    ) -> None:
        """Report the requests that ended in this step. Nothing is raised: vLLM calls this in the loop that serves its
        clients, and what it raises there ends the server."""
        try:
            finished: Iterable[Any] = getattr(iteration_stats, "finished_requests", None) or ()
            for each in finished:
                self._report(each, engine_idx)
        except Exception:  # statistics are of any version of vLLM
            self._warn()

    def _report(self, finished: Any, engine_idx: Any) -> None:
        try:
            fields = fields_of(finished)
            own = {"request_id": self._own_id(fields["request_id"]), "reported_by": "plugin"}
            report(**{**self._labels_of(engine_idx), **fields, **own})
        except Exception:  # one of another shape costs neither the server nor the others
            self._warn()

    def _warn(self) -> None:
        if not self._warned:
            self._warned = True
            _log.warning("requests that ended in this vLLM could not be read and are not reported", exc_info=True)

    def log_engine_initialized(self) -> None:
        """Nothing: the agent learns of the engine from its metrics page."""

    def log(self, *more: Any, **named: Any) -> None:
        """Nothing: requests are reported as they end."""

    def _labels_of(self, engine_idx: Any) -> dict[str, Any]:
        index = engine_idx if isinstance(engine_idx, int) and engine_idx else self._engine_index
        if index not in self._labels:
            self._labels[index] = labels_of(self._config, index, sys.argv)
        return self._labels[index]

    def _own_id(self, request_id: Any) -> str | None:
        if not request_id:
            return None
        before = self._ids.pop(str(request_id), 0)
        self._ids[str(request_id)] = before + 1
        if len(self._ids) > IDS_MAX:
            self._ids.popitem(last=False)
        return f"{before}_{request_id}" if before else str(request_id)


@cache
def _logger_class() -> type:
    from vllm.v1.metrics.loggers import StatLoggerBase  # type: ignore[import-not-found]

    return type("RequestLogger", (Recording, StatLoggerBase), {"__module__": __name__})


def __getattr__(name: str) -> Any:
    """``RequestLogger``: the class that the entry point names, made when vLLM asks for it."""
    if name == "RequestLogger":
        return _logger_class()
    raise AttributeError(name)
